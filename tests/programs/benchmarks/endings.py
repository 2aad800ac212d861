"""A loopback server, in a process of its own, whose answers end as each request asks for: well, or in any other way.

Connections are kept for further requests wherever HTTP allows it.
"""

from __future__ import annotations

import asyncio
import re
from enum import StrEnum

from programs.benchmarks.loopback import chunked, listen, read_request
from programs.benchmarks.wire import finished, frame, started, text

PROGRAM = "programs.benchmarks.endings"
HEADER = "x-ending"
"""Says, in a request, how its run ends."""

_ASKED = re.compile(rb"x-ending: *(\w+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbusy"
_END = b"0\r\n\r\n"
_DELTAS = 20


class Ending(StrEnum):
    """How a run ends."""

    FINISHED = "finished"
    """With RUN_FINISHED."""
    ABORTED = "aborted"
    """The client calls `abort_run()` in the middle, and the server goes on waiting for it."""
    LEFT = "left"
    """The client leaves the block in the middle."""
    STOPPED = "stopped"
    """The client is stopped from outside in the middle: its scope is cancelled, or another thread aborts the run."""
    CUT = "cut"
    """The server closes the connection in the middle."""
    REFUSED = "refused"
    """The server answers 503."""
    FAILED = "failed"
    """With RUN_ERROR."""


_STALLING = (Ending.ABORTED, Ending.LEFT, Ending.STOPPED)


def _answers() -> dict[Ending, list[bytes]]:
    beginning = [started(), *text(_DELTAS)[:-1]]
    half = [_HEAD, *chunked(beginning)]
    failed = chunked([*beginning, frame("RUN_ERROR", message="overloaded", code="529")])
    return {
        **dict.fromkeys((*_STALLING, Ending.CUT), half),
        Ending.FINISHED: [_HEAD, *chunked([started(), *text(_DELTAS), finished()]), _END],
        Ending.REFUSED: [_REFUSAL],
        Ending.FAILED: [_HEAD, *failed, _END],
    }


async def serve() -> None:
    """Listen, and answer until the process is ended."""
    answers = _answers()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ending = Ending.FINISHED
        # After half an answer, reading the next request waits for the client to go away.
        while ending is not Ending.CUT:
            ending = _asked_for(await read_request(reader))
            for piece in answers[ending]:
                writer.write(piece)
                await writer.drain()

    await listen(converse)


def _asked_for(head: bytes) -> Ending:
    asked = _ASKED.search(head)
    return Ending(asked[1].decode()) if asked else Ending.FINISHED


if __name__ == "__main__":
    asyncio.run(serve())
