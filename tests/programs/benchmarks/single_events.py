"""A server that writes one event at a time, over a socket: what a read of one event costs with `fast_client`."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import httpx
from ag_ui.core import Event
from httpx_sse import EventSource
from pydantic import TypeAdapter

from agui_client import HttpAgent
from programs.benchmarks.loopback import HEAD, Converse, chunked, listen, loopback_server, read_request
from programs.benchmarks.measure import Row, Work, best_times, best_times_and_waits, per_event
from programs.benchmarks.surfaces import iterate_plainly, plain_rows
from programs.benchmarks.wire import THREAD_ID, finished, iterate, started, text

_EVENTS = 1000
_PAUSE = 0.001
"""Seconds between two events, so that no read brings two."""
_events: TypeAdapter[Event] = TypeAdapter(Event)


def fast_reads(repeat: int) -> list[Row]:
    """One run of 1 000 events with `fast_client`, held against httpx and httpx-sse, which validate nothing.

    And against what nobody can do without on aiohttp: lines of its own splitting, validated as events.
    """
    from agui_client.fast import fast_client

    context = httpx.create_ssl_context()
    with loopback_server("programs.benchmarks.single_events") as url:
        agent = HttpAgent(url, thread_id=THREAD_ID, http_client=fast_client)
        ours: Work = lambda: _expect(asyncio.run(iterate(agent.clone())))  # noqa: E731
        bare: Work = lambda: _expect(asyncio.run(_read(url, context)))  # noqa: E731
        floor: Work = lambda: _expect(asyncio.run(_read_lines(url)))  # noqa: E731
        ours()
        fast, reference, least = best_times(repeat, ours, bare, floor)
    work = "one event per read over a socket, fast_client"
    return [
        Row(work, fast / reference, 0.45, "httpx and httpx-sse", per_event(fast, reference, _EVENTS)),
        Row(work, fast / least, 1.35, "aiohttp and validate_json", per_event(fast, least, _EVENTS)),
    ]


def plain_reads(repeat: int) -> list[Row]:
    """The same without `await`, with `fast_client`: each event wakes the thread of the caller, too."""
    from agui_client.fast import fast_client

    with loopback_server("programs.benchmarks.single_events") as url:
        agent = HttpAgent(url, thread_id=THREAD_ID, http_client=fast_client)
        plain: Work = lambda: _expect(iterate_plainly(agent.clone()))  # noqa: E731
        awaited: Work = lambda: _expect(asyncio.run(iterate(agent.clone())))  # noqa: E731
        times = best_times_and_waits(repeat, plain, awaited)
    return plain_rows("one event per read, socket, plain iteration", _EVENTS, times)


async def _read(url: str, context: ssl.SSLContext) -> int:
    count = 0
    async with httpx.AsyncClient(timeout=60, verify=context) as client, client.stream("POST", url) as response:
        async for _ in EventSource(response).aiter_sse():
            count += 1
    return count


async def _read_lines(url: str) -> int:
    count = 0
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        async for line in response.content:
            if line.startswith(b"data: "):
                _events.validate_json(line[6:], strict=True, by_alias=True, by_name=False)
                count += 1
    return count


def _expect(count: int) -> None:
    if count != _EVENTS:
        raise AssertionError(f"{count} events arrived of {_EVENTS}")


def _single_events() -> Converse:
    pieces = [HEAD, *chunked([started(), *text(_EVENTS - 4), finished()]), b"0\r\n\r\n"]

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(_PAUSE)

    return converse


if __name__ == "__main__":
    asyncio.run(listen(_single_events()))
