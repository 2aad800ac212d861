"""Displays of batches: a bar while the rows run, the summary, and tables of rows that open their chats.

To change

- the bar and the tables of batches: this module, with `notebook/_sortable_table.py`, and at terminals
  `terminal/_batch_bar.py`; `shown_while` in `_core/plugs.py` is where a batch shows itself
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

from agui_client._core.ground.waiting import wait_for_end
from agui_client._rendering.story import counted, seconds_text
from agui_client.batch._batch import Batch
from agui_client.batch._comparison import BatchComparison, RowChange
from agui_client.batch._progress import Progress, Summary
from agui_client.batch._results import RowResult
from agui_client.notebook._content import beginning, elements_of
from agui_client.notebook._elements import Bar, ChatMessage, Details, Element, Line, bundle
from agui_client.notebook._sortable_table import Quantity, SortableTable

if TYPE_CHECKING:
    from agui_client.notebook._elements import Tone

_SECONDS_APART = 0.25
_MOST_ROWS = 200
_MOST_KINDS = _MOST_KEYS = 10
"""The kinds of failures that are listed above a table, and the rows that are named for each."""


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
    """Describe rows as a table, below the kinds of their failures; those of several agents stand side by side.

    Args:
        rows: The rows; of very many only some are described, first those that failed.
    """
    ordered = sorted(rows)
    by_key: dict[str, dict[str, RowResult]] = {}
    for each in ordered:
        by_key.setdefault(each.key, {})[each.agent] = each
    agents = list(dict.fromkeys(each.agent for each in sorted(rows, key=lambda each: each.agent_number)))
    failed_first = sorted(by_key, key=lambda key: all(each.error is None for each in by_key[key].values()))
    shown = set(failed_first[:_MOST_ROWS])
    lines = [_line(key, found, agents) for key, found in by_key.items() if key in shown]
    heads = ["row", "prompt", *(head for name in agents for head in _heads(name))]
    if len(agents) > 1:
        heads.append("same")
    left_out = len(by_key) - len(lines)
    return [*_failures(ordered), SortableTable(heads, lines), *([Line(f"{left_out} more rows")] if left_out else [])]


def _heads(agent: str) -> list[str]:
    return [agent, f"{agent}: seconds", f"{agent}: tokens"] if agent else ["answer", "seconds", "tokens"]


def _failures(rows: Sequence[RowResult]) -> list[Element]:
    """Describe each kind of failure with the rows that have it, the most frequent first."""
    keys: dict[str, list[str]] = {}
    for each in rows:
        if each.error is not None:
            keys.setdefault(each.error.kind, []).append(each.key)
    groups = sorted(keys.items(), key=lambda group: -len(group[1]))
    lines = [Line(f"{counted(len(found), 'failure')}: {kind} · {_some(found)}", "bad") for kind, found in groups]
    left_out = len(lines) - _MOST_KINDS
    return [*lines[:_MOST_KINDS], *([Line(f"{left_out} more kinds of failures", "bad")] if left_out > 0 else [])]


def _some(keys: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys(keys[:_MOST_KEYS]))
    return f"rows {shown}, …" if len(keys) > _MOST_KEYS else f"row{'s' if len(keys) > 1 else ''} {shown}"


def _line(key: str, found: dict[str, RowResult], agents: Sequence[str]) -> list[Element]:
    first = next(iter(found.values()))
    cells: list[Element] = [Quantity(first.number, key), Line(beginning(first.prompt))]
    for name in agents:
        cells += _cells(found.get(name))
    if len(agents) > 1:
        ends = {("failed", each.error.kind) if each.error else ("answered", each.text) for each in found.values()}
        is_same = len(found) == len(agents) and len(ends) == 1
        cells.append(Line("same" if is_same else "differs", "dim" if is_same else "bad"))
    return cells


def _cells(shown: RowResult | None) -> list[Element]:
    """Describe a result: the answer, which unfolds to the chat, the seconds and the tokens."""
    if shown is None:
        return [Line("not finished"), Line(""), Line("")]
    took = Line("") if shown.seconds is None else Quantity(shown.seconds, seconds_text(shown.seconds))
    return [_cell(shown), took, Quantity(shown.tokens, str(shown.tokens))]


@elements_of.register
def _(shown: BatchComparison) -> list[Element]:
    changed = [each for each in shown.rows if each.change != "same"]
    gravest_first = list(shown.counts)
    lines = [_change(each, gravest_first.index(each.change)) for each in changed[:_MOST_ROWS]]
    heads = ["row", "agent", "prompt", "change", "before", "after", "seconds", "tokens"]
    if not any(each.agent for each in changed):
        heads, lines = [heads[0], *heads[2:]], [[line[0], *line[2:]] for line in lines]
    left_out = len(changed) - len(lines)
    table = [SortableTable(heads, lines)] if lines else []
    tone: Tone = "bad" if "broken" in shown.counts else "good"
    return [Line(str(shown), tone), *table, *([Line(f"{left_out} more rows")] if left_out else [])]


def _change(row: RowChange, gravity: int) -> list[Element]:
    """Describe a row of two batches; a head sorts changes by their gravity."""
    some = row.after or row.before
    assert some is not None
    sides = [each for each in (row.before, row.after) if each is not None]
    tone: Tone = "bad" if row.change == "broken" else "good" if row.change == "fixed" else "dim"
    seconds = [each.seconds for each in sides if each.seconds is not None]
    return [
        Quantity(some.number, row.key),
        Line(row.agent),
        Line(beginning(some.prompt)),
        Quantity(gravity, row.change, tone),
        *(Line("") if each is None else _cell(each) for each in (row.before, row.after)),
        _grown(seconds, " → ".join(map(seconds_text, seconds))),
        _grown([each.tokens for each in sides], " → ".join(str(each.tokens) for each in sides)),
    ]


def _grown(values: Sequence[float], text: str) -> Element:
    return Quantity(values[-1] - values[0], text) if values else Line("")


def _cell(shown: RowResult) -> Element:
    text = f"{shown.error.type}: {shown.error.message}" if shown.error else shown.text
    return Details(beginning(text) or "no text", [*_chat(shown), Line(_about(shown))], "bad" if shown.error else "dim")


def _chat(shown: RowResult) -> list[Element]:
    if shown.result is not None:
        chat = elements_of(shown.result)
    else:
        chat = [
            ChatMessage("user", "user", shown.prompt),
            *([ChatMessage("agent", "agent", shown.text)] if shown.text else []),
        ]
    return [*chat, *([Line(f"{shown.error.type}: {shown.error.message}", "bad")] if shown.error else [])]


def _about(shown: RowResult) -> str:
    took = [] if shown.seconds is None else [seconds_text(shown.seconds)]
    repeated = [f"{shown.attempts} attempts"] if shown.attempts > 1 else []
    before = ["from the journal"] if shown.from_journal else []
    agent = [shown.agent] if shown.agent else []
    return " · ".join([f"row {shown.key}", *agent, *took, f"{shown.tokens} tokens", *repeated, *before])


def _bar(finished: int, failed: int, total: int) -> Bar:
    return Bar(finished - failed, failed, total)
