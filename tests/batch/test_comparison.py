"""`compare`: two batches, row by row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agui_client import UsageError
from agui_client.batch import RowError, RowResult, compare, run_many
from agui_client.batch._comparison import Change
from agui_client.notebook._content import bundle_of
from agui_client.testing import ScriptedAgent, text, turn


def row(number: int, answer: str = "", *, failed: str = "", agent: str = "", seconds: float = 1.0) -> RowResult:
    return RowResult(
        number=number,
        key=f"q{number}",
        agent=agent,
        row={},
        prompt=f"question {number}",
        text=answer,
        seconds=seconds,
        usage={"total_tokens": 10 * number},
        error=RowError("RunFailedError", failed) if failed else None,
    )


MONDAY = [
    row(6, "gone"),
    row(1, "Oslo"),
    row(2, "Oslo"),
    row(3, failed="run a1 is lost"),
    row(4, failed="run a2 is lost"),
    row(5, "Rome"),
]
TODAY = [
    row(7, "new"),
    row(5, failed="no idea", seconds=3),
    row(4, failed="run b7 is lost"),
    row(3, "Nice"),
    row(2, "Bergen"),
    row(1, "Oslo"),
]
CHANGES = [
    ("q1", "same"),
    ("q2", "changed"),
    ("q3", "fixed"),
    ("q4", "fails"),
    ("q5", "broken"),
    ("q7", "added"),
    ("q6", "removed"),
]


def test_rows_are_compared_by_key_in_the_order_of_the_later_batch() -> None:
    compared = compare(MONDAY, TODAY)
    assert [(each.key, each.change) for each in compared.rows] == CHANGES
    assert [each.key for each in compared.of("broken", "changed")] == ["q2", "q5"]
    counts = "1 broken, 1 fixed, 1 changed, 1 fails, 1 same, 1 added, 1 removed"
    assert str(compared) == f"7 rows: {counts}; 5.0 → 7.0 s, 150 → 150 tokens"
    assert repr(compared) == f"<Comparison of {compared}>"
    wrong: Any = "worse"
    with pytest.raises(UsageError, match="'worse' is not a change of a row; there are broken, fixed, "):
        compared.of(wrong)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (row(1, failed="no idea"), row(1, failed="overloaded"), "fails otherwise"),
        (row(1, agent="old"), row(1, agent="new"), "same"),
        (replace(row(1, "{ }"), parsed={"a": 1}), replace(row(1, "{}"), parsed={"a": 1}), "same"),
        (replace(row(1, "{}"), parsed={"a": 1}), replace(row(1, "{}"), parsed={"a": 2}), "changed"),
    ],
)
def test_a_row_changes_if_its_failure_or_its_answer_does(before: RowResult, after: RowResult, change: Change) -> None:
    (compared,) = compare([before], [after]).rows
    assert compared.change == change


def test_the_rows_of_several_agents_are_compared_agent_by_agent() -> None:
    monday = [row(1, "a", agent="old"), row(1, "b", agent="new")]
    compared = compare(monday, [row(1, "a", agent="new"), row(1, "a", agent="old")])
    assert [(each.agent, each.change) for each in compared.rows] == [("new", "changed"), ("old", "same")]
    with pytest.raises(UsageError, match="two results have the key 'q1'"):
        compare(monday, [*monday, *monday])


def test_a_journal_is_one_side_of_a_comparison(tmp_path: Path) -> None:
    class City(BaseModel):
        name: str

    def batch(name: str) -> list[RowResult[City]]:
        agent = ScriptedAgent(turn(text(f'{{"name": "{name}"}}')))
        return list(run_many(agent, ["a", "b"], parse=City, journal=tmp_path / f"{name}.jsonl"))

    oslo, _ = batch("Oslo"), batch("Rome")
    assert compare(tmp_path / "Oslo.jsonl", oslo).counts == {"same": 2}
    assert compare(str(tmp_path / "Oslo.jsonl"), tmp_path / "Rome.jsonl").counts == {"changed": 2}
    with pytest.raises(UsageError, match="cannot be read"):
        compare(tmp_path / "none.jsonl", oslo)
    (tmp_path / "other.csv").write_text("key,text\n")
    with pytest.raises(UsageError, match="is not a journal"):
        compare(tmp_path / "other.csv", oslo)


def test_a_notebook_shows_the_rows_that_changed() -> None:
    assert bundle_of(compare(MONDAY, TODAY))["text/plain"].splitlines()[1:8] == [
        "before: seconds · median 1.0 s · most 1.0 s ▃▃▃▃▃▃",
        "after: seconds · median 1.0 s · most 3.0 s ▃▃▃▃█▃",
        "before: tokens · median 40 · most 60 ▂▃▄▅▆▇",
        "after: tokens · median 40 · most 70 ▂▃▄▅▆█",
        "row | prompt | change | before | after | seconds | tokens",
        "q2 | question 2 | changed | Oslo | Bergen | 1.0 s → 1.0 s | 20 → 20",
        "q3 | question 3 | fixed | RunFailedError: run a1 is lost | Nice | 1.0 s → 1.0 s | 30 → 30",
    ]
