"""Displays of batches: a bar while the rows run, and the summary.

To change

- the bar of batches: this module, and at terminals `terminal/_batch_bar.py`; `shown_while` in `_core/plugs.py` is where
  a batch shows itself; its tables are in `notebook/_row_tables.py`
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.waiting import wait_for_end
from agui_client.batch._batch import Batch
from agui_client.batch._progress import Progress, Summary
from agui_client.notebook._content import elements_of
from agui_client.notebook._elements import Bar, Element, Line, bundle

if TYPE_CHECKING:
    from agui_client.notebook._elements import Tone

_SECONDS_APART = 0.25


@contextmanager
def bar_of(batch: Batch) -> Generator[None]:
    """Show the progress of a batch in an output of the cell while the block lasts, and then its summary."""
    handle: Any = import_module("IPython.display").display(
        bundle(elements_of(batch.progress)), raw=True, display_id=True
    )
    is_over = threading.Event()

    def draw() -> None:
        """Draw the bar anew until the batch is over."""
        while not is_over.wait(_SECONDS_APART):
            handle.update(bundle(elements_of(batch.progress)), raw=True)

    thread = threading.Thread(target=copy_context().run, args=(draw,), name="agui_client.batch_bar", daemon=True)
    thread.start()
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
        vars(interrupt)["_render_traceback_"] = partial(_interrupted, batch)
        raise
    finally:
        is_over.set()
        wait_for_end(thread)
        handle.update(bundle(elements_of(batch.summary)), raw=True)


def _interrupted(batch: Batch) -> list[str]:
    """Write what IPython shows of an interrupted batch, instead of a traceback."""
    progress = batch.progress
    finished = f"{progress.finished} of {progress.total} rows are finished"
    return [f"interrupted: {finished}; a journal= continues with the rest"]


@elements_of.register
def _(shown: Progress) -> list[Element]:
    return [Bar(shown.finished - shown.failed, shown.failed, shown.total), Line(f"{shown}, {shown.tokens} tokens")]


@elements_of.register
def _(shown: Summary) -> list[Element]:
    tone: Tone = "bad" if shown.failed or not shown.is_complete else "good"
    lines = [Line(line, tone if place == 0 else "dim") for place, line in enumerate(str(shown).splitlines())]
    return [Bar(shown.finished - shown.failed, shown.failed, shown.total), *lines]


@elements_of.register
def _(shown: Batch) -> list[Element]:
    return elements_of(shown.summary)
