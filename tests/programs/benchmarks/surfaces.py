"""The other ways to read a run, held against the async iterator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from programs.benchmarks.measure import Row, Work, best_times, best_times_and_waits, per_event
from programs.benchmarks.streams import DELTAS
from programs.benchmarks.wire import RUN_ID, Stream, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Event

    from agui_client import HttpAgent


def plain_iteration(repeat: int) -> list[Row]:
    """`for event in run`, with its thread: reads that bring many events, and reads that bring one."""
    stream = Stream(text(DELTAS))
    bursts = _against_async(
        repeat, stream, lambda: stream.expect(iterate_plainly(stream.agent())), "plain iteration", 1.15
    )
    single = Stream(text(DELTAS), is_flushed=True)
    plain: Work = lambda: single.expect(iterate_plainly(single.agent()))  # noqa: E731
    times = best_times_and_waits(repeat, plain, single.iterated())
    return [bursts, *plain_rows("one event per read, plain iteration", single.event_count, times)]


def plain_rows(work: str, event_count: int, times: Sequence[tuple[float, float]]) -> list[Row]:
    """The rows of plain iteration against the async iterator, of CPU time and on the clock.

    Args:
        work: What was done.
        event_count: How many events there were.
        times: The times of both, of plain iteration first.
    """
    (cpu, wait), (async_cpu, async_wait) = times
    costs = per_event(cpu, async_cpu, event_count), per_event(wait, async_wait, event_count)
    return [
        Row(work, cpu / async_cpu, 1.35, "async iterator", costs[0]),
        Row(f"{work}, clock", wait / async_wait, 1.35, "async iterator", costs[1]),
    ]


def observing(repeat: int) -> list[Row]:
    """An RxPY observer, in the loop that reads."""
    stream = Stream(text(DELTAS))
    work: Work = lambda: stream.expect(asyncio.run(_observe(stream.agent())))  # noqa: E731
    return [_against_async(repeat, stream, work, "RxPY observable", 2)]


def iterate_plainly(agent: HttpAgent) -> int:
    """Read a run without `await`; the number of its events."""
    count = 0
    with agent.stream_sync(run_id=RUN_ID) as run:
        for _ in run:
            count += 1
    return count


async def _observe(agent: HttpAgent) -> int:
    end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    count = 0

    def on_next(_: Event) -> None:
        nonlocal count
        count += 1

    agent.observe(run_id=RUN_ID).subscribe(on_next, end.set_exception, lambda: end.set_result(None))
    await end
    return count


def _against_async(repeat: int, stream: Stream, work: Work, name: str, limit: float) -> Row:
    ours, reference = best_times(repeat, work, stream.iterated())
    absolute = per_event(ours, reference, stream.event_count)
    return Row(f"20 k text deltas, {name}", ours / reference, limit, "async iterator", absolute)
