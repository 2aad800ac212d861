"""Many runs at once in one process, over real sockets, held against httpx-sse doing the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import httpx

from agui_client import HttpAgent
from benchmarks.loopback import EVENTS, loopback_server
from benchmarks.measure import Row, cpu_seconds
from benchmarks.wire import THREAD_ID, iterate, read_bare

_RUNS = 500
_LIMITS = httpx.Limits(max_connections=_RUNS, max_keepalive_connections=0)

_Read: TypeAlias = Callable[[httpx.AsyncClient, str], Awaitable[int]]


class _Crowd:
    """All runs at once, again and again, each time with one shared client.

    Args:
        read: Does one run, and returns the number of its events.
        url: Where the agent is.
    """

    def __init__(self, read: _Read, url: str) -> None:
        self.errors = 0
        self.wall = self.cpu = float("inf")
        self._read = read
        self._url = url

    def measure(self) -> None:
        """Do them, and keep the best times."""
        start = time.perf_counter()
        self.cpu = min(self.cpu, cpu_seconds(lambda: asyncio.run(self._run())))
        self.wall = min(self.wall, time.perf_counter() - start)

    async def _run(self) -> None:
        async with httpx.AsyncClient(limits=_LIMITS, timeout=60) as client:
            reads = (self._read(client, self._url) for _ in range(_RUNS))
            counts = await asyncio.gather(*reads, return_exceptions=True)
        self.errors += sum(count != EVENTS for count in counts)


def many_runs(repeat: int) -> list[Row]:
    """500 runs of 200 events."""
    with loopback_server() as url:
        ours, bare = _Crowd(_iterate, url), _Crowd(read_bare, url)
        for _ in range(min(repeat, 3)):
            ours.measure()
            bare.measure()
    rates = " / ".join(f"{_RUNS * EVENTS / crowd.wall / 1e3:.0f}" for crowd in (ours, bare))
    absolute = f"{ours.cpu:.2f} / {bare.cpu:.2f} s CPU, {rates} k events/s"
    work = "500 runs at once, 200 events each"
    return [Row(work, ours.cpu / bare.cpu, 2, "bare httpx-sse", absolute, ours.errors + bare.errors)]


async def _iterate(client: httpx.AsyncClient, url: str) -> int:
    return await iterate(HttpAgent(url, thread_id=THREAD_ID, http_client=client))
