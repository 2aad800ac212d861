"""A server on the loopback, in a process of its own: every POST is answered with one recorded run, event by event."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from benchmarks.measure import child_environment
from benchmarks.wire import finished, started, text

EVENTS = 200
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


@contextmanager
def loopback_server() -> Generator[str]:
    """The address of such a server while the block lasts."""
    command = [sys.executable, "-m", "benchmarks.loopback"]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
        finally:
            server.terminate()


async def serve() -> None:
    """Listen, print the port, and answer until the process is ended."""
    pieces = [started(), *text(EVENTS - 4), finished()]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _answer(reader, writer, [_HEAD, *chunks, b"0\r\n\r\n"])
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Sequence[bytes]) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    await reader.readexactly(int(length[1]) if length else 0)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)  # Everybody gets an event before anybody gets the next.


if __name__ == "__main__":
    asyncio.run(serve())
