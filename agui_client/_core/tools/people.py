"""The time that a run waits for a person, what it does when that is over, and the clocks of people (SEC-3, INT-7).

`WorkingTime` is a limit of an agent that stands still while a person is asked, `PeopleTime` the time that it took.

To change

- how long a run waits for a person, and what happens then: `People` here; `_decision` in `_core/tools/execute.py` waits
  for approvals, `_given` in `_core/tools/interrupts.py` for answers; a handler at a screen derives from `AtScreen`
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, TypeAlias, cast

import anyio

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


def kind_of(returned: object) -> str:
    """Name what a handler returned by mistake: a class by its name, a value by its type, as it may be a secret."""
    if isinstance(returned, type):
        return f"the class {returned.__name__}"
    name = type(returned).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


_IN_PROGRAMS, _AT_SCREEN = People(), People(wait=None)


_CLOCKS: ContextVar[tuple[Clock, ...]] = ContextVar("agui_client.working_time", default=())
"""The clocks of the running code."""


class WorkingTime:
    """A limit of the time that a block may take; the block is cancelled when the time is up.

    Args:
        seconds: The time, in seconds; None for any.
        spent: The part of it that has been used before.
    """

    def __init__(self, seconds: float | None, spent: float = 0) -> None:
        self._scope = anyio.CancelScope()
        self._seconds, self._spent = math.inf if seconds is None else seconds, spent
        self._began_at = math.inf
        self._asked = 0

    @property
    def is_up(self) -> bool:
        """Whether the block was cancelled because its time was up."""
        return self._scope.cancelled_caught

    @property
    def spent(self) -> float:
        """The seconds that were used so far."""
        return self._spent + max(0, anyio.current_time() - self._began_at)

    @contextmanager
    def limited(self) -> Generator[None]:
        """Cancel the block when the time is up."""
        reset = _CLOCKS.set((*_CLOCKS.get(), self))
        try:
            with self._scope:
                self._start()
                yield
        finally:
            self._stop()
            _CLOCKS.reset(reset)

    def _start(self) -> None:
        self._began_at = anyio.current_time()
        self._scope.deadline = self._began_at + self._seconds - self._spent

    def _stop(self) -> None:
        self._spent, self._began_at = self.spent, math.inf
        self._scope.deadline = math.inf

    def begin_asking(self) -> None:
        """Stop the clock: a person is asked."""
        self._asked += 1
        if self._asked == 1:
            self._stop()

    def end_asking(self) -> None:
        """Let the clock continue when nobody is asked any more."""
        self._asked -= 1
        if not self._asked:
            self._start()


class PeopleTime:
    """The time of a call in which people are asked; of several who are asked at once, it is counted once.

    Args:
        around: The time of the call around it, in which it counts, too; None if there is none.
    """

    def __init__(self, around: PeopleTime | None = None) -> None:
        self._around, self._spent, self._began_at, self._asked = around, 0.0, 0.0, 0

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._spent + (perf_counter() - self._began_at if self._asked else 0)

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count the time of people who are asked in the block."""
        reset = _CLOCKS.set((*_CLOCKS.get(), self))
        try:
            yield
        finally:
            _CLOCKS.reset(reset)

    def begin_asking(self) -> None:
        """Start the clock."""
        if not self._asked:
            self._began_at = perf_counter()
        self._asked += 1
        if self._around is not None:
            self._around.begin_asking()

    def end_asking(self) -> None:
        """Stop the clock when nobody is asked any more."""
        if self._asked == 1:
            self._spent = self.seconds
        self._asked -= 1
        if self._around is not None:
            self._around.end_asking()


Clock: TypeAlias = WorkingTime | PeopleTime


@contextmanager
def person_asked() -> Generator[None]:
    """Tell the clocks around the block that a person is asked in it."""
    clocks = _CLOCKS.get()
    for each in clocks:
        each.begin_asking()
    try:
        yield
    finally:
        for each in clocks:
            each.end_asking()
