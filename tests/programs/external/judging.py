"""What came of the cases of a suite, and whether each difference is one on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One case of a suite."""

    name: str
    """The name, which is the case's own in its suite."""
    problem: str | None = None
    """What differs from what the suite expects; None if nothing does."""


def faults(cases: Iterable[Case], on_purpose: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return the number of cases, and a line for each that differs without a reason, or has a reason and does not.

    Args:
        cases: The cases.
        on_purpose: The reasons why cases differ, by name.
    """
    number, lines = 0, list[str]()
    unseen = dict(on_purpose)
    for case in cases:
        number += 1
        if case.problem is None:
            continue
        if case.name not in on_purpose:
            lines.append(f"{case.name}: {case.problem}")
        unseen.pop(case.name, None)
    lines += [f"{name}: differs no more, though ON_PURPOSE says: {reason}" for name, reason in unseen.items()]
    return number, lines
