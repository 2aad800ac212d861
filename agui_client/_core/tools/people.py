"""The time that a run waits for a person, and what it does when the time is over (SEC-3, INT-7).

To change

- how long a run waits for a person, and what happens then: `People` here; `_decision` in `_core/tools/execute.py` waits
  for approvals, `_given` in `_core/tools/interrupts.py` for answers; a handler at a screen derives from `AtScreen`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from agui_client._core.ground.field_docs import Record
from agui_client._core.transport.timeouts import check_seconds
from agui_client.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class People(Record):
    """The bounds of every wait for a person, in `approve=` and in `answer=`.

    Without it, a function of the application has 15 minutes, and the handlers for terminals and notebooks, where
    a person is present, have no limit.
    """

    wait: float | None = 900.0
    """The time that a person has for one approval or one answer, in seconds; None sets no limit."""
    fallback: Literal["deny", "leave"] = "deny"
    """When the time is over, "deny" denies the tool call, and denies or else cancels the interrupt; "leave" leaves both
    on the result, for an answer with a later run."""

    def __post_init__(self) -> None:
        check_seconds("People.wait", self.wait, may_be_none=True)
        if cast("object", self.fallback) not in ("deny", "leave"):
            raise UsageError(f"People.fallback is 'deny' or 'leave', not {self.fallback!r}")

    @property
    def limit(self) -> str:
        """The time as text."""
        return "any time" if self.wait is None else f"{self.wait:g} seconds"


class AtScreen:
    """The base of handlers that ask at a terminal or in a notebook: by default they wait without limit."""


def bounds_of(people: People | None, handler: object) -> People:
    """Return the bounds of the waits for a handler.

    Args:
        people: The bounds that the application chose; None if it chose none.
        handler: The approver or the answerer.
    """
    return people or (_AT_SCREEN if isinstance(handler, AtScreen) else _IN_PROGRAMS)


_IN_PROGRAMS, _AT_SCREEN = People(), People(wait=None)
