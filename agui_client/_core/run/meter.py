"""Meters of agents inside agents: the calls and tokens of each, charged to what is around it.

The meter of a member charges the budget of its team, which charges the meter of the call that the team itself is at
work in: so inner teams, and agents that are tools, count for every team around them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agui_client._core.tools.tool_limits import tokens_in

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

METER: ContextVar[Meter | None] = ContextVar("agui_client.meter", default=None)
"""The meter of the call in which the running code is at work; None outside of teams."""


class Meter:
    """Measures one call of an agent.

    Args:
        charge: Takes the number of further calls and tokens, of the agent and of those below it.
        check: Called with the number of calls that are to be made; raises if they may not be.
    """

    def __init__(self, charge: Callable[[int, int], None], check: Callable[[int], None]) -> None:
        self.check = check
        """Called with the number of calls that are to be made; raises an `AGUIError` if they may not be."""
        self.calls: int = 0
        """The number of calls of this agent and of those below it."""
        self.tokens: int = 0
        """The number of tokens that the agent and those below it used."""
        self._charge = charge
        self._reported = self._below = 0

    def begin(self, *, is_new: bool) -> None:
        """Begin the call.

        Args:
            is_new: Whether it counts; a call that continues after a question has been counted.

        Raises:
            AGUIError: A team has used what it may.
        """
        self.check(int(is_new))
        self._pass_on(int(is_new))

    def report(self, usage: Iterable[TokenUsage]) -> None:
        """Count what the agent reports: that includes what those below it have been charged for."""
        self._reported += tokens_in(usage)
        self._pass_on(0)

    def charge(self, calls: int, tokens: int) -> None:
        """Count what an agent below this one used."""
        self._below += tokens
        self._pass_on(calls)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Measure everything that the block does."""
        reset = METER.set(self)
        try:
            yield
        finally:
            METER.reset(reset)

    def _pass_on(self, calls: int) -> None:
        before, self.tokens = self.tokens, max(self._reported, self._below)
        self.calls += calls
        self._charge(calls, self.tokens - before)


def meter_of_tool() -> Meter:
    """Return a meter for an agent that is asked by a tool; it charges the call that the tool is executed in, if any."""
    around = METER.get()
    return Meter(_nothing, _nothing) if around is None else Meter(around.charge, around.check)


def _nothing(*_given: int) -> None:
    return None
