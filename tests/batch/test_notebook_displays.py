"""Batches in a notebook: the bar while they run, their tables, and what an interrupt leaves."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("IPython", reason="needs the extra notebook: pip install 'agui-client[notebook]'")

from ag_ui.core import RunAgentInput, RunErrorEvent, TokenUsage

from agui_client import UsageError
from agui_client.batch import RowError, RowResult, compare, run_many
from agui_client.notebook import show
from agui_client.notebook._content import bundle_of, with_prices
from agui_client.notebook._elements import page as page_of
from agui_client.testing import ScriptedAgent, Step, text, turn
from support.browser import Chromium
from support.cells import Cell, shown_cell

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr("agui_client._core.ground.display.in_notebook", lambda: True)
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


def test_rows_are_a_table_in_their_order_with_agents_side_by_side(cell: Cell) -> None:
    show([replace(done, seconds=1.5) for done in reversed(rows_of("a", "b", "c"))])
    assert cell.drawings[-1]["text/plain"].splitlines() == [
        "1 failure: RunFailedError: <overloaded> · row 2",
        "old: seconds · median 1.5 s · most 1.5 s ███",
        "new: seconds · median 1.5 s · most 1.5 s ███",
        "row | prompt | old | old: seconds | old: tokens | new | new: seconds | new: tokens | same",
        "1 | a | Oslo | 1.5 s | 0 | Oslo | 1.5 s | 0 | same",
        "2 | b | RunFailedError: <overloaded> | 1.5 s | 0 | Bergen | 1.5 s | 0 | differs",
        "3 | c | Oslo | 1.5 s | 0 | Bergen | 1.5 s | 0 | differs",
    ]
    html = cell.drawings[-1]["text/html"]
    assert html.count('<details class="agui-opener">') == 3, "each row opens its chat"
    assert "<overloaded>" not in html
    assert "&lt;overloaded&gt;" in html


def test_equal_failures_are_one_line_and_the_same_end_of_a_row(cell: Cell) -> None:
    """Of very many rows, those that failed are shown."""
    answered = RowResult(number=1, key="1", agent="old", row={}, prompt="hi")
    rows = [replace(answered, number=number, key=str(number)) for number in range(1, 401)]
    for number in (300, 320):
        failed = [RowError("RunFailedError", f"run {number}-{agent} is lost") for agent in ("a", "b")]
        rows[number - 1] = replace(rows[number - 1], error=failed[0])
        rows.append(replace(rows[number - 1], agent="new", agent_number=2, error=failed[1]))
    show(rows)
    lines = cell.drawings[-1]["text/plain"].splitlines()
    assert lines[0] == "4 failures: RunFailedError: run … is lost · rows 300, 320"
    assert [line.split(" | ")[0] for line in lines[-4:]] == ["198", "300", "320", "200 more rows"]
    assert lines[-2].endswith(" | same")


def test_a_click_on_a_head_sorts_the_table_and_the_next_turns_it_round(browser: Chromium, tmp_path: Path) -> None:
    took = {"b": 10.0, "a": 9.5, "c": None}
    rows = [
        RowResult(number=number, key=key, agent="", row={}, prompt="hi", text=f"row {11 - number}", seconds=seconds)
        for number, (key, seconds) in enumerate(took.items(), start=9)
    ]
    page = tmp_path / "rows.html"
    page.write_text(bundle_of(rows)["text/html"], encoding="utf-8")

    def look(page: Page) -> list[str]:
        seen: list[str] = []
        for head in (None, "seconds", "seconds", "answer", "row"):
            if head is not None:
                page.get_by_role("button", name=head, exact=True).click()
            seen.append("".join(page.locator(".agui-opener").all_inner_texts()))
        return seen

    assert browser.visit(page, look) == (["bac", "cab", "bac", "cab", "bac"], [])


PRICES = {"gpt-5": (1.0, 10.0)}


def priced(number: int, answer: str, seconds: float, tokens: int) -> RowResult:
    """Make a row whose model's tokens are known."""
    usage = TokenUsage(model="gpt-5", input_tokens=tokens, output_tokens=tokens)
    result = replace(ScriptedAgent(turn(text(answer))).run_agent_sync("hi"), usage=[usage])
    counts = {"input_tokens": tokens, "output_tokens": tokens}
    made = RowResult(number=number, key=str(number), agent="", row={}, prompt="hi", text=answer, usage=counts)
    return replace(made, seconds=seconds, result=result)


def test_a_row_unfolds_over_the_whole_width_and_numbers_stand_at_the_right(browser: Chromium, tmp_path: Path) -> None:
    """A row keeps what it unfolds to when the table is sorted; with prices, what it cost is there."""
    rows = [priced(1, "**Oslo**, `at noon`", 2.0, 1000), priced(2, "Bergen", 1.0, 2000), priced(3, "", 3.0, 10)]
    place = tmp_path / "rows.html"
    place.write_text(page_of(with_prices(rows, PRICES)), encoding="utf-8")
    sides = "[...document.querySelectorAll('.agui-number')].map(each => getComputedStyle(each).textAlign)"

    def look(page: Page) -> dict[str, Any]:
        page.get_by_text("1", exact=True).click()
        page.get_by_role("button", name="seconds").click()
        below = page.locator(".agui-below:visible")
        return {
            "order": [each.split() for each in page.locator(".agui-record > tr:first-child").all_inner_texts()],
            "below": [below.count(), page.locator(".agui-record").nth(1).locator(".agui-below strong").inner_text()],
            "sides": page.evaluate(sides),
            "is wide": page.evaluate("document.querySelector('.agui-sheet table').offsetWidth > innerWidth - 40"),
        }

    seen, problems = browser.visit(place, look, width=1400)
    assert problems == []
    assert seen == {
        "order": [
            ["2", "hi", "Bergen", "1.0", "s", "4000", "0.0220", "USD"],
            ["1", "hi", "Oslo,", "at", "noon", "2.0", "s", "2000", "0.0110", "USD"],
            ["3", "hi", "no", "text", "3.0", "s", "20", "0.0001", "USD"],
        ],
        "below": [1, "Oslo"],
        "sides": ["end"] * 12,
        "is wide": True,
    }


def test_a_comparison_marks_what_differs_inside_an_answer(cell: Cell) -> None:
    answer = "word " * 50 + "at noon, **then** lunch"
    before = [priced(1, answer, 2.0, 1000), priced(2, "same", 1.0, 5)]
    after = [priced(1, answer.replace("noon", "eleven <b>"), 4.0, 500), priced(2, "same", 1.0, 5)]
    show(compare(before, after), prices=PRICES)
    shown = cell.drawings[-1]
    before_it, numbers = f"…{5 * 'word '}", "2.0 s → 4.0 s | 2000 → 1000 | 0.0110 USD → 0.0055 USD"
    assert shown["text/plain"].splitlines()[1:] == [
        "row | prompt | change | before | after | seconds | tokens | cost",
        f"1 | hi | changed | {before_it}at noon, then lunch | {before_it}at eleven <b>, then lunch | {numbers}",
    ]
    assert re.findall("<mark[^>]*>(.*?)</mark>", shown["text/html"]) == ["noon, ", "eleven &lt;b&gt;, "]


def test_the_runs_of_some_rows_are_there_in_the_inspector(cell: Cell) -> None:
    """Those that failed are among them; a saved notebook does not grow with all others."""

    async def often(given: RunAgentInput) -> AsyncIterator[Step]:
        if given.messages[-1].content == "39":
            yield RunErrorEvent(message="lost")
        else:
            yield turn(text("Oslo"))

    rows = list(run_many(ScriptedAgent(often), [str(number) for number in range(40)], at_once=1))
    html = bundle_of(rows)["text/html"]
    assert html.count("the run in the inspector") == 20
    assert "the run in the inspector" in html.rpartition('<tbody class="agui-record">')[2]


def test_prices_are_refused_for_what_has_no_cost(cell: Cell) -> None:
    with pytest.raises(UsageError, match=r"rows of a batch, compare\(\) and evaluations, not for RunResult; .*inspect"):
        show(ScriptedAgent(turn(text("Oslo"))).run_agent_sync("hi"), prices=PRICES)


def test_an_interrupt_in_a_notebook_is_one_short_message(cell: Cell) -> None:
    results: Any = iter(run_many(ScriptedAgent(old), ["a"] * 9, at_once=1))
    next(results)
    with pytest.raises(KeyboardInterrupt) as caught:
        results.throw(KeyboardInterrupt())
    shown: Any = caught.value
    (line,) = shown._render_traceback_()
    assert line.startswith("interrupted: ")
    assert line.endswith(" of 9 rows are finished; a journal= continues with the rest")
