"""Short runs over a socket: what a run costs before its first event and after its last one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from agui_client import HttpAgent
from programs.benchmarks.census import objects_in_cycles
from programs.benchmarks.loopback import Converse, chunked, listen, loopback_server, read_request
from programs.benchmarks.measure import Row, Work, best_times
from programs.benchmarks.wire import RUN_ID, THREAD_ID, finished, iterate, read_bare, started, text

_RUNS = 200
_EVENTS = 6
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_INPUT: dict[str, Any] = {
    "threadId": THREAD_ID,
    "runId": RUN_ID,
    "messages": [],
    "state": {},
    "tools": [],
    "context": [],
}


def short_runs(repeat: int) -> list[Row]:
    """Runs of six events, one after the other on the connection of a shared client, held against httpx with validation.

    The agents are made before, so that only their runs count.
    """
    with loopback_server("programs.benchmarks.beginnings") as url:
        ours, bare = best_times(repeat, _iterated(url), _bare(url))
        left, bare_left = asyncio.run(cycles(url))
    absolute = f"{ours / _RUNS * 1e6:.0f} / {bare / _RUNS * 1e6:.0f} us"
    return [
        Row("a run of 6 events over a socket, client shared", ours / bare, 1.7, "httpx and validation", absolute),
        Row("objects in cycles that it leaves", left, 150, "object", f"{left:.0f} / {bare_left:.0f}"),
    ]


async def cycles(url: str) -> tuple[float, float]:
    """Return the objects in cycles that a run leaves, and those that a bare request leaves."""
    async with httpx.AsyncClient(timeout=60) as client:
        agent = HttpAgent(url, thread_id=THREAD_ID, http_client=client)

        async def run() -> None:
            """Run, and forget the messages."""
            await iterate(agent)
            agent.set_messages(())

        return await objects_in_cycles(run), await objects_in_cycles(lambda: read_bare(client, url, _INPUT))


def _iterated(url: str) -> Work:
    context = httpx.create_ssl_context()

    async def main() -> None:
        async with httpx.AsyncClient(timeout=60, verify=context) as client:
            agent = HttpAgent(url, thread_id=THREAD_ID, http_client=client)
            for _ in range(_RUNS):
                _expect(await iterate(agent))
                agent.set_messages(())

    return lambda: asyncio.run(main())


def _bare(url: str) -> Work:
    context = httpx.create_ssl_context()

    async def main() -> None:
        async with httpx.AsyncClient(timeout=60, verify=context) as client:
            for _ in range(_RUNS):
                _expect(await read_bare(client, url, _INPUT))

    return lambda: asyncio.run(main())


def _expect(count: int) -> None:
    if count != _EVENTS:
        raise AssertionError(f"{count} events arrived of {_EVENTS}")


def _short_run() -> Converse:
    pieces = [_HEAD, *chunked([started(), *text(_EVENTS - 4), finished()]), b"0\r\n\r\n"]

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"".join(pieces))
            await writer.drain()

    return converse


if __name__ == "__main__":
    asyncio.run(listen(_short_run()))
