"""Many runs at once in one process, over real sockets, held against httpx-sse doing the same."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import httpx

from agui_client import HttpAgent
from programs.benchmarks.loopback import EVENTS, loopback_server
from programs.benchmarks.measure import Row, cpu_seconds
from programs.benchmarks.wire import THREAD_ID, iterate, read_bare

_RUNS = 1000

_Read: TypeAlias = Callable[[], Awaitable[int]]
_Prepare: TypeAlias = Callable[[str], AbstractAsyncContextManager[_Read]]


def allow_many_files() -> None:
    """Let the process have as many sockets as the system allows."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


class _Crowd:
    """All runs at once, again and again.

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

    def row(self, kind: str, limit: float, name: str, reference: _Crowd) -> Row:
        """The cost in units of another crowd's."""
        rates = " / ".join(f"{_RUNS * EVENTS / crowd.wall / 1e3:.0f}" for crowd in (self, reference))
        absolute = f"{self.cpu:.2f} / {reference.cpu:.2f} s CPU, {rates} k events/s"
        errors = self.errors + reference.errors
        return Row(f"{_RUNS} runs at once, {kind}", self.cpu / reference.cpu, limit, name, absolute, errors)

    async def _run(self) -> None:
        async with self._prepare(self._url) as read:
            counts = await asyncio.gather(*(read() for _ in range(_RUNS)), return_exceptions=True)
        self.errors += sum(count != EVENTS for count in counts)


def many_runs(repeat: int) -> list[Row]:
    """1 000 runs of 200 events: without a block, in a block, and each with a client of its own in bare httpx-sse."""
    with loopback_server() as url:
        outside, inside, bare = crowds = [_Crowd(prepare, url) for prepare in (_outside, _inside, _bare)]
        for _ in range(min(repeat, 3)):
            for crowd in crowds:
                crowd.measure()
    return [
        outside.row("no block", 1.3, "bare httpx-sse", bare),
        inside.row("in a block", 1.3, "no block", outside),
    ]


@asynccontextmanager
async def _outside(url: str) -> AsyncGenerator[_Read]:
    agent = HttpAgent(url, thread_id=THREAD_ID)
    yield lambda: iterate(agent.clone())


@asynccontextmanager
async def _inside(url: str) -> AsyncGenerator[_Read]:
    async with HttpAgent(url, thread_id=THREAD_ID) as agent:
        yield lambda: iterate(agent.clone())


@asynccontextmanager
async def _bare(url: str) -> AsyncGenerator[_Read]:
    context = httpx.create_ssl_context()

    async def read() -> int:
        async with httpx.AsyncClient(timeout=60, verify=context) as client:
            return await read_bare(client, url)

    yield read
