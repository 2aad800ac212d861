"""Limits of a call's tools: rounds, seconds, tokens and repeated calls, and how tools are run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from ag_ui.core import TokenUsage, ToolCall

from agui_client._core.ground.field_docs import Record
from agui_client.errors import ToolRoundsExceededError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits(Record):
    """Limits after which a call stops answering tool calls, and how its tools are run. None sets no limit."""

    rounds: int | None = 10
    """The number of times that the agent's calls are answered before `ToolRoundsExceededError`."""
    seconds: float | None = None
    """The time that the whole call may have taken when another round begins, in seconds."""
    tokens: int | None = None
    """The number of tokens that the call may have used by then, as far as the agent reports them."""
    repeats: int | None = 3
    """The number of rounds in a row that may make the same call with the same arguments; the last is not answered. In a
    team, each member is counted by itself."""
    at_once: int = 8
    """The number of tools that run at the same time."""
    timeout: float | None = None
    """The time that a tool without a limit of its own may take, in seconds."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value: object = getattr(self, each.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if not is_number and (value is not None or each.name == "at_once"):
                raise UsageError(f"ToolLimits.{each.name} is a number above zero, or None, not {value!r}")


class RoundLimits:
    """Counts the rounds of one call, and stops them.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: ToolLimits) -> None:
        self.limits = limits
        """The limits."""
        self._started_at = time.monotonic()
        self._rounds = 0
        self._streaks: dict[tuple[str, str, str], int] = {}

    def check(self, calls: Mapping[str, Sequence[ToolCall]], usage: Iterable[TokenUsage]) -> None:
        """Check that another round may begin, and count it.

        Args:
            calls: The tool calls that it would answer, by the one who makes them: the agent, or a member of a team.
            usage: The tokens that the call has used so far.

        Raises:
            ToolRoundsExceededError: Another round would pass a limit.
        """
        made = {(key, call.function.name, call.function.arguments) for key, some in calls.items() for call in some}
        self._streaks = {key: self._streaks.get(key, 0) + 1 for key in made}
        streak, tokens = max(self._streaks.values(), default=0), tokens_in(usage)
        seconds = time.monotonic() - self._started_at
        for name, reached, why in (
            ("rounds", self._rounds, f"the agent still waits for answers after {self._rounds} rounds"),
            ("repeats", streak, f"the agent made the same call {streak} rounds in a row"),
            ("seconds", seconds, f"the rounds took {seconds:.1f} s"),
            ("tokens", tokens, f"the rounds used {tokens} tokens"),
        ):
            limit = getattr(self.limits, name)
            if limit is not None and reached >= limit:
                left = f"ToolLimits.{name} is {limit:g}, and the calls without a result are on partial"
                raise ToolRoundsExceededError(f"{why}; {left}", rounds=self._rounds)
        self._rounds += 1


def tokens_in(usage: Iterable[TokenUsage]) -> int:
    """Return the number of tokens; agents may report only its two parts."""
    return sum(max(each.total_tokens or 0, (each.input_tokens or 0) + (each.output_tokens or 0)) for each in usage)
