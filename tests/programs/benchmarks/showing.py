"""A run that is shown in a notebook's cell while it goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

from agui_client.notebook import show
from programs.benchmarks.measure import Row, Work, best_times, per_event
from programs.benchmarks.wire import RUN_ID, Stream, text
from support.cells import Cell

if TYPE_CHECKING:
    from agui_client import HttpAgent

_LONG, _SHORT = 100_000, 10_000


def shown_runs(repeat: int) -> list[Row]:
    """Text deltas of a run in a cell; the drawings are made at the pace of the clock, and counted in."""
    long, short = Stream(text(_LONG)), Stream(text(_SHORT))
    ours, reference, blind = best_times(repeat, _shown(long), _shown(short), short.iterated())
    growth = ours / _LONG / (reference / _SHORT)
    absolute = f"{ours / _LONG * 1e6:.1f} / {reference / _SHORT * 1e6:.1f} µs per event"
    return [
        Row("show of 100 k text deltas, per event", growth, 1.5, "10 k", absolute),
        Row("show of 10 k text deltas", reference / blind, 4, "not shown", per_event(reference, blind, _SHORT)),
    ]


def _shown(stream: Stream) -> Work:
    return lambda: asyncio.run(_show(stream.agent()))


async def _show(agent: HttpAgent) -> None:
    with (
        patch("agui_client.notebook._showing.in_notebook", lambda: True),
        patch("IPython.display.display", Cell().update),
    ):
        await show(agent.stream("Go", run_id=RUN_ID))
