"""The limits of a run of a team.

To change

- the limits of a team: `TeamLimits` and `TeamBudget` here; the calls and tokens of everything below a team reach it
  through `_core/run/meter.py`; clocks that stand still while a person is asked are in `_core/tools/people.py`
"""

from __future__ import annotations

from dataclasses import dataclass

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.meter import METER, Meter
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.transport.timeouts import check_number, check_seconds
from agui_client.errors import AGUIError, UsageError


class TeamLimitError(AGUIError):
    """A team came to one of its `TeamLimits`; a run with larger ones resumes where it was."""


@dataclass(frozen=True, slots=True)
class TeamLimits(Record):
    """Limits of a run of a team, and of the runs that continue it.

    Calls, tokens and seconds are those of all agents below the team: of inner teams, and of agents that are tools.
    """

    calls: int = 100
    """The largest number of calls of agents; one that is made again after a failure, a kill or a question is no other
    call."""
    handovers: int = 10
    """The largest number of times that a member hands over to another."""
    depth: int = 8
    """The largest number of teams inside each other."""
    at_once: int | None = None
    """The number of members that are at work at the same time; None for all."""
    seconds: float | None = None
    """The longest time, in seconds, those aside in which a person is asked; None for any."""
    tokens: int | None = None
    """The number of tokens after which no further agent is called; None for any."""


class TeamBudget:
    """The calls and tokens of a run of a team, and of the runs before that it takes up.

    Args:
        limits: The limits of the team.
        calls: The number of calls in the runs before.
        tokens: The number of tokens that these used.
    """

    def __init__(self, limits: TeamLimits, calls: int, tokens: int) -> None:
        self._limits, self._around = limits, METER.get()
        self._calls, self._tokens = calls, tokens

    def meter(self) -> Meter:
        """Return a meter for a call of a member."""
        return Meter(self._charge, self._check)

    def _check(self, calls: int) -> None:
        limits = self._limits
        if self._calls + calls > limits.calls:
            raise TeamLimitError(f"the team made more than {limits.calls} calls; see TeamLimits(calls=...)")
        if limits.tokens is not None and self._tokens >= limits.tokens:
            raise TeamLimitError(f"the team used {self._tokens} tokens; see TeamLimits(tokens={limits.tokens})")
        if self._around is not None:
            self._around.check(calls)

    def _charge(self, calls: int, tokens: int) -> None:
        self._calls += calls
        self._tokens += tokens
        if self._around is not None:
            self._around.charge(calls, tokens)


def check_limits(limits: TeamLimits) -> None:
    """Check the limits of a team.

    Raises:
        UsageError: They are none.
    """
    if not is_a(limits, TeamLimits):
        raise UsageError(f"limits= takes TeamLimits(...), such as TeamLimits(calls=5), not {limits!r}")
    for name, least in (("calls", 1), ("handovers", 0), ("depth", 1), ("at_once", 1), ("tokens", 1)):
        may_be_none = name in ("at_once", "tokens")
        check_number(
            f"TeamLimits({name}=...)", getattr(limits, name), least=least, is_whole=True, may_be_none=may_be_none
        )
    check_seconds("TeamLimits(seconds=...)", limits.seconds, may_be_none=True)


def check_depth(most: int) -> None:
    """Check how many agents are at work inside each other.

    Raises:
        TeamLimitError: They are more than the limit.
    """
    scope, depth = CURRENT_SCOPE.get(), 0
    while scope is not None:
        depth += 1
        scope = scope.parent
    if depth > most:
        raise TeamLimitError(f"more than {most} agents run inside each other; see TeamLimits(depth=...)")
