"""Runs in a database against runs in memory: paced events, a burst, and many runs at once."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import FunctionAgent
from agui_client.runs import Runs
from benchmarks.measure import Row

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
        return asyncio.run(_measured(f"sqlite:///{Path(folder)}/runs.db", repeat))


async def _measured(url: str, repeat: int) -> list[Row]:
    async with _named(Runs(url)) as stored, _named(Runs()) as kept:
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


def _named(runs: Runs) -> Runs:
    runs.add("agent", FunctionAgent(_agent))
    return runs


async def _best(
    repeat: int, stored: Runs, kept: Runs, prompt: str, clock: Callable[[], float], count: int = 1
) -> tuple[float, float]:
    """Return the medians of what runs in a database and runs in memory take, in seconds."""

    async def one(runs: Runs) -> None:
        """Start a run, and follow it to its end."""
        run = await runs.start("agent", prompt)
        async for _ in runs.follow(run.run_id):
            pass

    async def all_of(runs: Runs) -> None:
        """Carry the runs out at once."""
        await asyncio.gather(*(one(runs) for _ in range(count)))

    async def timed(work: Callable[[], Awaitable[object]]) -> float:
        """Return what it takes."""
        begun_at = clock()
        await work()
        return clock() - begun_at

    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for runs, times in zip((stored, kept), taken, strict=True):
            times.append(await timed(partial(all_of, runs)))
    return median(taken[0]), median(taken[1])
