"""The other ways to read a run, held against the async iterator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.measure import Row, Work, best_times, per_event
from benchmarks.streams import DELTAS
from benchmarks.wire import RUN_ID, Stream, text

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client import HttpAgent


def plain_iteration(repeat: int) -> list[Row]:
    """`for event in run`, with its thread."""
    stream = Stream(text(DELTAS))
    return [_against_async(repeat, stream, lambda: stream.expect(_iterate(stream.agent())), "plain iteration", 1.15)]


def observing(repeat: int) -> list[Row]:
    """An RxPY observer, in the loop that reads."""
    stream = Stream(text(DELTAS))
    work: Work = lambda: stream.expect(asyncio.run(_observe(stream.agent())))  # noqa: E731
    return [_against_async(repeat, stream, work, "RxPY observable", 2)]


def _iterate(agent: HttpAgent) -> int:
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
