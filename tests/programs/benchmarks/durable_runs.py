"""Runs in a database against runs in memory: paced events, a burst, many at once; and runs of another process."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

from ag_ui.core import (
    Event,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import FunctionAgent
from agui_client.store import Store
from programs.benchmarks import durable_worker
from programs.benchmarks.measure import Row, child_environment

_EVENTS = 1_000
_RUNS = 50
_PACE = 0.002


async def _agent(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    """Send a text in pieces: at once, or `slow`ly; `short` sends a tenth."""
    words = str(run_input.messages[-1].content)
    message_id = str(uuid4())
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield TextMessageStartEvent(message_id=message_id)
    for _ in range(_EVENTS // 10 if "short" in words else _EVENTS):
        yield TextMessageContentEvent(message_id=message_id, delta="some words ")
        if "slow" in words:
            await asyncio.sleep(_PACE)
    yield TextMessageEndEvent(message_id=message_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def durable_runs(repeat: int) -> list[Row]:
    """Runs of an agent in this process, in SQLite and in memory, each followed to its end."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}"
        return [*asyncio.run(_measured(f"{url}/runs.db", repeat)), *asyncio.run(_elsewhere(f"{url}/shared.db", repeat))]


async def _measured(url: str, repeat: int) -> list[Row]:
    async with _named(Store(url)) as stored, _named(Store()) as kept:
        paced = await _best(repeat, stored, kept, "slow", time.process_time)
        burst = await _best(repeat, stored, kept, "burst", time.perf_counter)
        many = await _best(repeat, stored, kept, "short", time.process_time, count=_RUNS)
    added = [1000 * (ours - theirs) for ours, theirs in (paced, burst)]
    shown = [f"{1000 * ours:.0f} / {1000 * theirs:.0f} ms" for ours, theirs in (paced, burst, many)]
    return [
        Row(f"a durable run of {_EVENTS} paced events: CPU added", added[0], 60, "1 ms", shown[0]),
        Row(f"a durable burst of {_EVENTS} events: time added", added[1], 60, "1 ms", shown[1]),
        Row(f"{_RUNS} durable runs of {_EVENTS // 10} events at once", many[0] / many[1], 1.5, "in memory", shown[2]),
    ]


async def _elsewhere(url: str, repeat: int) -> list[Row]:
    """Follow runs of another process, stop one, and take one over."""
    lags, stops, takeovers = list[float](), list[float](), list[float]()
    async with durable_worker.named(Store(url, lease=1.5)) as store:
        for _ in range(repeat):
            async with _worker(url) as worker:
                lags += [await _lag(store, worker)]
                stops += [await _stop(store, worker)]
                takeovers += [await _take_over(store, worker)]
    lag, stop, takeover = median(lags), median(stops), median(takeovers)
    return [
        Row("lag of a follower in another process, p99", 1000 * lag, 100, "1 ms", f"{1000 * max(lags):.0f} ms at most"),
        Row("stopping a silent agent of another process", stop, 1, "1 s", f"{max(stops):.2f} s at most"),
        Row("taking over after a kill, lease 1.5 s", takeover, 2, "1 s", f"{max(takeovers):.2f} s at most"),
    ]


@asynccontextmanager
async def _worker(url: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run another process with the same runs, as a block."""
    program, pipe = str(Path(durable_worker.__file__)), asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(
        sys.executable, program, url, stdin=pipe, stdout=pipe, env=child_environment()
    )
    try:
        assert worker.stdout is not None
        await worker.stdout.readline()
        yield worker
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


async def _begun(store: Store, worker: asyncio.subprocess.Process, prompt: str) -> str:
    """Have the other process begin a run, and return its id when it has."""
    run_id = str(uuid4())
    assert worker.stdin is not None
    worker.stdin.write(f"{run_id} {prompt}\n".encode())
    while all(each.run_id != run_id for each in await store.runs.list()):  # noqa: ASYNC110 - in another process
        await asyncio.sleep(0.01)
    return run_id


async def _lag(store: Store, worker: asyncio.subprocess.Process) -> float:
    """Return the time within which 99 of 100 events have come, in seconds."""
    run_id, lags = await _begun(store, worker, "slow"), list[float]()
    async for _, event in store.runs.follow(run_id):
        if isinstance(event, TextMessageContentEvent):
            lags.append(time.time() - float(event.delta))
    # Those that were there before this process looked are not late.
    return sorted(lags[len(lags) // 5 :])[-len(lags) // 100]


async def _stop(store: Store, worker: asyncio.subprocess.Process) -> float:
    """Return the seconds until a silent agent is stopped."""
    run_id = await _begun(store, worker, "silent")
    begun_at = time.perf_counter()
    await store.runs.stop(run_id)
    return time.perf_counter() - begun_at


async def _take_over(store: Store, worker: asyncio.subprocess.Process) -> float:
    """Return the seconds from a kill until this process goes on with the run."""
    run_id, killed_at = await _begun(store, worker, "slow"), 0.0
    async for _, event in store.runs.follow(run_id):
        if not killed_at and isinstance(event, TextMessageContentEvent):
            worker.kill()
            killed_at = time.perf_counter()
        elif killed_at and isinstance(event, MessagesSnapshotEvent):
            seconds = time.perf_counter() - killed_at
            await store.runs.stop(run_id)
            return seconds
    raise AssertionError("the run ended before it was taken over")


def _named(store: Store) -> Store:
    store.runs.add("agent", FunctionAgent(_agent))
    return store


async def _best(
    repeat: int, stored: Store, kept: Store, prompt: str, clock: Callable[[], float], count: int = 1
) -> tuple[float, float]:
    """Return the medians of what runs in a database and runs in memory take, in seconds."""

    async def one(store: Store) -> None:
        """Start a run, and follow it to its end."""
        run = await store.runs.start("agent", prompt)
        async for _ in store.runs.follow(run.run_id):
            pass

    async def all_of(store: Store) -> None:
        """Carry the runs out at once."""
        await asyncio.gather(*(one(store) for _ in range(count)))

    async def timed(work: Callable[[], Awaitable[object]]) -> float:
        """Return what it takes."""
        begun_at = clock()
        await work()
        return clock() - begun_at

    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for store, times in zip((stored, kept), taken, strict=True):
            times.append(await timed(partial(all_of, store)))
    return median(taken[0]), median(taken[1])
