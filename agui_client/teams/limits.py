"""The limits of a run of a team."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from agui_client._field_docs import Record
from agui_client._run.scope import CURRENT_SCOPE
from agui_client._transport.timeouts import is_duration
from agui_client.errors import AGUIError, UsageError


class TeamLimitError(AGUIError):
    """A team came to one of its `TeamLimits`."""


@dataclass(frozen=True, slots=True)
class TeamLimits(Record):
    """Limits of one run of a team."""

    calls: int = 100
    """The largest number of calls of members."""
    handovers: int = 10
    """The largest number of times that a member hands over to another."""
    depth: int = 8
    """The largest number of teams inside each other."""
    at_once: int | None = None
    """The number of members that are at work at the same time; None for all."""
    seconds: float | None = None
    """The longest time, in seconds; None for any."""
    tokens: int | None = None
    """The number of tokens after which no further member is called; None for any."""


def check_limits(limits: TeamLimits) -> None:
    """Check the limits of a team.

    Raises:
        UsageError: They are none.
    """
    if not isinstance(cast("object", limits), TeamLimits):
        raise UsageError(f"limits= takes TeamLimits(...), such as TeamLimits(calls=5), not {limits!r}")
    for name, least in (("calls", 1), ("handovers", 0), ("depth", 1), ("at_once", 1), ("tokens", 1)):
        value: object = getattr(limits, name)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not is_number and (value is not None or name not in ("at_once", "tokens")):
            raise UsageError(f"TeamLimits({name}=...) is a whole number from {least}, not {value!r}")
    if limits.seconds is not None and not is_duration(limits.seconds):
        raise UsageError(f"TeamLimits(seconds=...) is a number of seconds above zero, not {limits.seconds!r}")


def check_at_once(most: object) -> None:
    """Check the number of calls that `team.map` makes at the same time.

    Raises:
        UsageError: It is none.
    """
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise UsageError(f"team.map(at_once=...) is a whole number from 1, or None for all, not {most!r}")


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
