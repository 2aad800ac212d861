"""Displays of batches: a bar while the rows run, the summary, and tables of rows that open their chats.

To change

- the bar and the tables of batches: this module; `shown_while` in `_display.py` is where a batch shows itself
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agui_client._run.story import seconds_text
from agui_client.batch.batch import Batch
from agui_client.batch.progress import Progress, Summary
from agui_client.batch.results import RowResult
from agui_client.notebook.content import beginning, elements_of
from agui_client.notebook.elements import Bar, Bubble, Element, Fold, Line, Table, bundle

if TYPE_CHECKING:
    from agui_client.notebook.elements import Tone

_SECONDS_APART = 0.25
_MOST_ROWS = 200


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
        thread.join()
        handle.update(bundle(elements_of(batch.summary)), raw=True)


def _interrupted(batch: Batch) -> list[str]:
    """Write what IPython shows of an interrupted batch, instead of a traceback."""
    progress = batch.progress
    return [f"interrupted: {progress.finished} of {progress.total} rows are finished; a journal= goes on with the rest"]


@elements_of.register
def _(shown: Progress) -> list[Element]:
    return [_bar(shown.finished, shown.failed, shown.total), Line(f"{shown}, {shown.tokens} tokens")]


@elements_of.register
def _(shown: Summary) -> list[Element]:
    tone: Tone = "bad" if shown.failed or not shown.is_complete else "good"
    lines = [Line(line, tone if place == 0 else "dim") for place, line in enumerate(str(shown).splitlines())]
    return [_bar(shown.finished, shown.failed, shown.total), *lines]


@elements_of.register
def _(shown: Batch) -> list[Element]:
    return elements_of(shown.summary)


@elements_of.register
def _(shown: RowResult) -> list[Element]:
    return [Line(_about(shown), "bad" if shown.error else "good"), *_chat(shown)]


def table_of_rows(rows: Sequence[RowResult]) -> list[Element]:
    """Describe rows as a table, failures first; those of several agents stand side by side.

    Args:
        rows: The rows; of very many only the first are described.
    """
    agents = list(dict.fromkeys(each.agent for each in rows))
    by_key: dict[str, dict[str, RowResult]] = {}
    for each in rows:
        by_key.setdefault(each.key, {})[each.agent] = each
    ordered = sorted(by_key.items(), key=lambda item: all(each.error is None for each in item[1].values()))
    lines = [_line(key, found, agents) for key, found in ordered[:_MOST_ROWS]]
    left_out = len(ordered) - len(lines)
    heads = ["row", "prompt", *(name or "answer" for name in agents), *(["same"] if len(agents) > 1 else [])]
    return [Table(heads, lines), *([Line(f"{left_out} more rows")] if left_out else [])]


def _line(key: str, found: dict[str, RowResult], agents: Sequence[str]) -> list[Element]:
    cells: list[Element] = [Line(key), Line(beginning(next(iter(found.values())).prompt))]
    for name in agents:
        each = found.get(name)
        cells.append(Line("not finished") if each is None else _cell(each))
    if len(agents) > 1:
        texts = {each.text for each in found.values() if each.error is None}
        is_same = len(found) == len(agents) and len(texts) == 1 and all(each.error is None for each in found.values())
        cells.append(Line("same" if is_same else "differs", "dim" if is_same else "bad"))
    return cells


def _cell(shown: RowResult) -> Element:
    text = f"{shown.error.type}: {shown.error.message}" if shown.error else shown.text
    return Fold(beginning(text) or "no text", [*_chat(shown), Line(_about(shown))], "bad" if shown.error else "dim")


def _chat(shown: RowResult) -> list[Element]:
    if shown.result is not None:
        chat = elements_of(shown.result)
    else:
        chat = [Bubble("user", "user", shown.prompt), *([Bubble("agent", "agent", shown.text)] if shown.text else [])]
    return [*chat, *([Line(f"{shown.error.type}: {shown.error.message}", "bad")] if shown.error else [])]


def _about(shown: RowResult) -> str:
    took = [] if shown.seconds is None else [seconds_text(shown.seconds)]
    repeated = [f"{shown.attempts} attempts"] if shown.attempts > 1 else []
    before = ["from the journal"] if shown.from_journal else []
    agent = [shown.agent] if shown.agent else []
    return " · ".join([f"row {shown.key}", *agent, *took, f"{shown.tokens} tokens", *repeated, *before])


def _bar(finished: int, failed: int, total: int) -> Bar:
    return Bar(finished - failed, failed, total)
