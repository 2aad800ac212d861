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

_Read: TypeAlias = Callable[[], Awaitable[int]]
_Prepare: TypeAlias = Callable[[httpx.AsyncClient, str], _Read]


class _Crowd:
    """All runs at once, again and again, each time with one shared client.

    Args:
        prepare: Gives a function that does one run, and returns the number of its events.
        url: Where the agent is.
    """

    def __init__(self, prepare: _Prepare, url: str) -> None:
        self.errors = 0
        self.wall = self.cpu = float("inf")
        self._prepare = prepare
        self._url = url

    def measure(self) -> None:
        """Do them, and keep the best times."""
        start = time.perf_counter()
        self.cpu = min(self.cpu, cpu_seconds(lambda: asyncio.run(self._run())))
        self.wall = min(self.wall, time.perf_counter() - start)

    async def _run(self) -> None:
        async with httpx.AsyncClient(limits=_LIMITS, timeout=60) as client:
            read = self._prepare(client, self._url)
            counts = await asyncio.gather(*(read() for _ in range(_RUNS)), return_exceptions=True)
        self.errors += sum(count != EVENTS for count in counts)


def many_runs(repeat: int) -> list[Row]:
    """500 runs of 200 events."""
    with loopback_server() as url:
        ours, bare = _Crowd(_clones, url), _Crowd(_bare, url)
        for _ in range(min(repeat, 3)):
            ours.measure()
            bare.measure()
    rates = " / ".join(f"{_RUNS * EVENTS / crowd.wall / 1e3:.0f}" for crowd in (ours, bare))
    absolute = f"{ours.cpu:.2f} / {bare.cpu:.2f} s CPU, {rates} k events/s"
    work = "500 runs at once, 200 events each"
    return [Row(work, ours.cpu / bare.cpu, 2, "bare httpx-sse", absolute, ours.errors + bare.errors)]


def _clones(client: httpx.AsyncClient, url: str) -> _Read:
    agent = HttpAgent(url, thread_id=THREAD_ID, http_client=client)
    return lambda: iterate(agent.clone())


def _bare(client: httpx.AsyncClient, url: str) -> _Read:
    return lambda: read_bare(client, url)
