"""The comparison of two batches, row by row: what passed and now fails, what changed in replies, seconds and tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic_core import to_jsonable_python

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client.batch._journal import read_journal
from agui_client.batch._results import RowResult
from agui_client.errors import UsageError

Change: TypeAlias = Literal["broken", "fixed", "fails otherwise", "changed", "fails", "same", "added", "removed"]
"""The change of a row: a reply and now a failure ("broken"), the reverse ("fixed"), failures in both with another error
or an equal one, replies in both that differ or are the same, or in one batch only."""


@dataclass(frozen=True, slots=True)
class RowChange(Record):
    """A row in two batches."""

    key: str
    """The key of the row."""
    agent: str
    """The name of the agent in the later batch, or else in the earlier one; empty if a batch had only one."""
    before: RowResult | None
    """The result in the earlier batch; None if it has none."""
    after: RowResult | None
    """The result in the later batch; None if it has none."""

    @property
    def change(self) -> Change:
        """The outcome of the row."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        match self.before.error, self.after.error:
            case None, None:
                return "same" if _answer(self.before) == _answer(self.after) else "changed"
            case None, _:
                return "broken"
            case _, None:
                return "fixed"
            case before, after:
                return "fails" if before.kind == after.kind else "fails otherwise"


@dataclass(frozen=True, slots=True)
class BatchComparison(Displayed, Record):
    """Two batches side by side; its text is a line for people, and a notebook shows the rows that changed."""

    rows: tuple[RowChange, ...]
    """All rows, in the order of the later batch; those that only the earlier one has come last."""

    @property
    def counts(self) -> Mapping[Change, int]:
        """The number of rows of each change, the gravest first; without those that do not occur."""
        counted = Counter(each.change for each in self.rows)
        return {change: counted[change] for change in _CHANGES if counted[change]}

    def of(self, *changes: Change) -> list[RowChange]:
        """Return the rows with these changes: `compare(monday, today).of("broken", "changed")`.

        Raises:
            UsageError: There is no such change.
        """
        if unknown := [each for each in changes if each not in _CHANGES]:
            raise UsageError(f"{unknown[0]!r} is not a change of a row; there are {', '.join(_CHANGES)}")
        return [each for each in self.rows if each.change in changes]

    def __str__(self) -> str:
        both = [(each.before, each.after) for each in self.rows if each.before and each.after]
        counts = ", ".join(f"{count} {change}" for change, count in self.counts.items())
        seconds = [sum(each.seconds or 0 for each in side) for side in zip(*both, strict=True)]
        tokens = [sum(each.tokens for each in side) for side in zip(*both, strict=True)]
        costs = f"; {seconds[0]:.1f} → {seconds[1]:.1f} s, {tokens[0]} → {tokens[1]} tokens" if both else ""
        return f"{len(self.rows)} rows: {counts or 'none'}{costs}"

    def __repr__(self) -> str:
        return f"<Comparison of {self}>"


_CHANGES: tuple[Change, ...] = get_args(Change)


def compare(before: Iterable[RowResult] | str | Path, after: Iterable[RowResult] | str | Path) -> BatchComparison:
    """Compare two batches by the keys of their rows: `compare("monday.jsonl", today)`.

    Rows with the same key and agent are compared. If each batch has one agent, its name does not matter.

    Args:
        before: The results of the earlier batch, or its journal.
        after: The results of the later batch, or its journal.

    Returns:
        The comparison; `print` it, or let a notebook show it.

    Raises:
        UsageError: A journal cannot be read, or a batch has two results of one row.
    """
    sides = [_by_key(read_journal(Path(each)) if isinstance(each, str | Path) else each) for each in (before, after)]
    if all(len({agent for _, agent in side}) == 1 for side in sides):
        sides = [{(key, ""): done for (key, _), done in side.items()} for side in sides]
    earlier, later = sides
    return BatchComparison(tuple(_row(earlier.get(name), later.get(name)) for name in later | earlier))


def _by_key(results: Iterable[RowResult]) -> dict[tuple[str, str], RowResult]:
    by_key: dict[tuple[str, str], RowResult] = {}
    for done in sorted(results):
        if (done.key, done.agent) in by_key:
            raise UsageError(f"two results have the key {done.key!r}; a comparison is of one batch with another")
        by_key[done.key, done.agent] = done
    return by_key


def _row(before: RowResult | None, after: RowResult | None) -> RowChange:
    done = after or before
    assert done is not None
    return RowChange(done.key, done.agent, before, after)


def _answer(done: RowResult) -> object:
    """Return the reply for a comparison: as JSON if it was parsed, as a journal has it, or else the text."""
    return done.text if done.parsed is None else to_jsonable_python(done.parsed, by_alias=True, fallback=repr)
