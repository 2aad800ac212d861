"""A server on the loopback, in a process of its own: every POST is answered with one recorded run, event by event."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from programs.benchmarks.measure import child_environment
from programs.benchmarks.wire import finished, started, text

EVENTS = 200
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"

Converse: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers the requests of one connection."""


@contextmanager
def loopback_server(program: str = "programs.benchmarks.loopback") -> Generator[str]:
    """The address of such a server while the block lasts.

    Args:
        program: The module to run; it calls `listen`.
    """
    command = [sys.executable, "-m", program]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
        finally:
            server.terminate()


async def listen(converse: Converse) -> None:
    """Listen, print the port, and converse with every client until the process is ended."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(attend, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request to its end; its headers."""
    head, _ = await _request(reader)
    return head


async def read_body(reader: asyncio.StreamReader) -> bytes:
    """Read one request to its end; its body."""
    _, body = await _request(reader)
    return body


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head, await reader.readexactly(int(length[1]) if length else 0)


def chunked(pieces: Sequence[bytes]) -> list[bytes]:
    """Each piece as one HTTP chunk."""
    return [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]


def _recorded_run() -> Converse:
    pieces = [HEAD, *chunked([started(), *text(EVENTS - 4), finished()]), b"0\r\n\r\n"]

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # Everybody gets an event before anybody gets the next.

    return converse


if __name__ == "__main__":
    asyncio.run(listen(_recorded_run()))
