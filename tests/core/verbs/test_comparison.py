"""The comparison of costs with an earlier commit says what has become slower, and not what a busy moment has done."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from programs.benchmarks.compare import Costs, RowChange, compared, main


def measure(order: list[str], name: str, *costs: float, **further: float) -> Callable[[], Costs]:
    """Return a function that returns one cost of a row after the other, the last one from then on."""
    left = list(costs)

    def run() -> Costs:
        order.append(name)
        return {"row": left.pop(0) if len(left) > 1 else left[0], **further}

    return run


def test_both_packages_take_turns_in_both_orders_and_the_least_cost_of_each_counts() -> None:
    order: list[str] = []
    changes = compared(measure(order, "before", 9, 7, 8), measure(order, "now", 7.5, 20, 20), rounds=3)
    assert (changes, order) == ([RowChange("row", 7, 7.5)], ["now", "before", "before", "now", "now", "before"])
    assert not changes[0].is_slower


def test_what_seems_to_be_slower_is_measured_again_as_often() -> None:
    order: list[str] = []
    (busy,) = compared(measure(order, "before", 10), measure(order, "now", 12, 13, 10.5), rounds=2)
    assert (busy, busy.is_slower, len(order)) == (RowChange("row", 10, 10.5), False, 8)
    (slower,) = compared(measure(order, "before", 10), measure(order, "now", 11.1), rounds=2)
    assert (slower.is_slower, round(slower.ratio, 2)) == (True, 1.11)


def test_a_row_that_one_of_the_packages_does_not_have_is_compared_with_nothing() -> None:
    new = compared(measure([], "before", 1), measure([], "now", 1, other=5), rounds=1)
    assert new == [RowChange("row", 1, 1)]


def test_a_clone_without_the_earlier_commit_compares_nothing_and_fails_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare", "--base", "0" * 40, "--short"])
    assert main() == 0
    assert (
        capsys.readouterr().out
        == f"not compared: {'0' * 40} is not in this clone; a shallow one has its last commits alone\n"
    )
