"""Batches in a notebook: the bar while they run, their tables, and what an interrupt leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("IPython", reason="needs the extra notebook: pip install 'agui-client[notebook]'")

from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client.batch import RowResult, run_many
from agui_client.notebook import show
from agui_client.notebook.content import bundle_of
from agui_client.testing import ScriptedAgent, Step, text, turn
from support.cells import Cell, shown_cell


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr("agui_client._display.in_notebook", lambda: True)
    return shown_cell(monkeypatch)


async def old(given: RunAgentInput) -> AsyncIterator[Step]:
    if given.messages[-1].content == "b":
        yield RunErrorEvent(message="<overloaded>")
    else:
        yield turn(text("Oslo"))


async def new(given: RunAgentInput) -> AsyncIterator[Step]:
    yield turn(text("Oslo" if given.messages[-1].content == "a" else "Bergen"))


def rows_of(*prompts: str) -> list[RowResult]:
    return list(run_many({"old": ScriptedAgent(old), "new": ScriptedAgent(new)}, prompts, at_once=1))


def test_a_bar_is_in_the_cell_while_a_batch_runs_and_then_its_summary(cell: Cell) -> None:
    batch = run_many(ScriptedAgent(old), ["a", "b"], at_once=1)
    results = iter(batch)
    next(results)
    assert cell.drawings[0]["text/plain"] == f"{'░' * 20}\n0/2 rows, 0 failed, 0 tokens"
    assert len([*results]) == 1
    shown = cell.drawings[-1]
    assert shown == bundle_of(batch.summary) == batch._repr_mimebundle_()
    assert shown["text/plain"].splitlines()[0] == "█" * 10 + "▒" * 10
    assert "2 of 2 rows" in shown["text/plain"]
    assert "1 RunFailedError" in shown["text/plain"]


def test_rows_are_a_table_with_failures_first_and_agents_side_by_side(cell: Cell) -> None:
    show(rows_of("a", "b", "c"))
    assert cell.drawings[-1]["text/plain"].splitlines() == [
        "row | prompt | old | new | same",
        "2 | b | RunFailedError: <overloaded> | Bergen | differs",
        "1 | a | Oslo | Oslo | same",
        "3 | c | Oslo | Bergen | differs",
    ]
    html = cell.drawings[-1]["text/html"]
    assert html.count("<details") == 6, "each row opens its chat"
    assert "<overloaded>" not in html
    assert "&lt;overloaded&gt;" in html


def test_an_interrupt_in_a_notebook_is_one_short_message(cell: Cell) -> None:
    results: Any = iter(run_many(ScriptedAgent(old), ["a"] * 9, at_once=1))
    next(results)
    with pytest.raises(KeyboardInterrupt) as caught:
        results.throw(KeyboardInterrupt())
    shown: Any = caught.value
    (line,) = shown._render_traceback_()
    assert line.startswith("interrupted: ")
    assert line.endswith(" of 9 rows are finished; a journal= goes on with the rest")
