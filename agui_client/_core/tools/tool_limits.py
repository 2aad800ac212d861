"""Limits of a call's tools: rounds, seconds, tokens, money and repeated calls, and how tools are run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from ag_ui.core import TokenUsage, ToolCall

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.prices import Prices, check_prices, cost_of, dollar_text, dollars_in
from agui_client.errors import ToolRoundsExceededError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits(Record):
    """Limits after which a call stops executing tool calls, and how its tools are run. None sets no limit."""

    rounds: int | None = 10
    """The number of times that the agent's calls are executed before `ToolRoundsExceededError`."""
    seconds: float | None = None
    """The time that the whole call may have taken when another round begins, in seconds."""
    tokens: int | None = None
    """The number of tokens that the call may have used by then, as far as the agent reports them."""
    cost: str | None = None
    """The money that the call may have spent when another round or run begins, as "2.00 USD", by `prices` and those of
    genai-prices (extra `cost`). A model without a price ends the call, too, unless `prices` has "*"."""
    prices: Prices | None = None
    """The prices of a million tokens by the names of models, in US dollars, as `{"gpt-5": (1.25, 10), "*": (5, 25)}`:
    of those that go in, and of those that come out; "*" is for models without a price, and `(0, 0)` counts them as
    nothing. None counts no money without `cost`, `{}` counts it with the prices of genai-prices, for metrics."""
    repeats: int | None = 3
    """The number of rounds in a row that may make the same call with the same arguments; the last is not executed. In a
    team, each member is counted by itself."""
    at_once: int = 8
    """The number of tools that run at the same time."""
    timeout: float | None = None
    """The time that a tool without a limit of its own may take, in seconds."""

    def __post_init__(self) -> None:
        if self.cost is not None:
            dollars_in(self.cost, "ToolLimits.cost")
        if self.counts_money:
            check_prices(self.prices, "ToolLimits(prices=...)")
        for each in fields(self):
            if each.name in ("cost", "prices"):
                continue
            value: object = getattr(self, each.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if not is_number and (value is not None or each.name == "at_once"):
                raise UsageError(f"ToolLimits.{each.name} is a number above zero, or None, not {value!r}")

    @property
    def counts_money(self) -> bool:
        """Whether the money that a call spends is worked out."""
        return self.cost is not None or self.prices is not None


class RoundLimits:
    """Counts the rounds of one call, and stops them."""

    def __init__(self, limits: ToolLimits) -> None:
        self.limits = limits
        """The limits."""
        self._started_at = time.monotonic()
        self._rounds = 0
        self._streaks: dict[tuple[str, str, str], int] = {}

    def check(self, calls: Mapping[str, Sequence[ToolCall]], usage: Sequence[TokenUsage]) -> None:
        """Check that another round may begin, and count it.

        Args:
            calls: The tool calls that it would execute, by the one who makes them: the agent, or a member of a team.
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
        self.check_cost(usage)
        self._rounds += 1

    def check_cost(self, usage: Iterable[TokenUsage]) -> None:
        """Check that another run may begin, by the money that the runs before have spent.

        Args:
            usage: The tokens that the call has used so far.

        Raises:
            ToolRoundsExceededError: They cost as much as the call may spend, or nobody knows what they cost.
        """
        if (most := self.limits.cost) is None:
            return
        cost = cost_of(usage, self.limits.prices)
        if cost.dollars >= dollars_in(most, "ToolLimits.cost"):
            why = f"the runs cost {dollar_text(cost.dollars)}; ToolLimits.cost is {most}"
        elif cost.unknown:
            unknown = ", ".join(map(repr, cost.unknown))
            why = f"nobody knows what the runs cost: there is no price of {unknown}"
            why += '; give ToolLimits(prices={...}) one, or "*": (0, 0) to count what has none as nothing'
        else:
            return
        raise ToolRoundsExceededError(f"{why}; calls without a result are on partial", rounds=self._rounds)


def tokens_in(usage: Iterable[TokenUsage]) -> int:
    """Return the number of tokens; agents may report only its two parts."""
    return sum(max(each.total_tokens or 0, (each.input_tokens or 0) + (each.output_tokens or 0)) for each in usage)
