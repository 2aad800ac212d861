"""Rates with their intervals, what conversations took, and the difference between two rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.prices import cost_of

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices
    from agui_client.evaluation._trials import Trial

_SURE = 1.959964
"""The number of standard deviations on both sides that have 95 in 100."""
_LATE = 0.95


@dataclass(frozen=True, slots=True)
class Rate(Record):
    """The conversations of one scenario with one agent, counted."""

    passed: int = 0
    """The number of those that passed."""
    held: int = 0
    """The number of those that were held."""
    broken: int = 0
    """The number of those that could not be held, as when the agent cannot be reached."""

    @property
    def share(self) -> float:
        """The share of those held that passed; 0 if none was held."""
        return self.passed / self.held if self.held else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The share that passes, with a certainty of 95 % (Wilson's interval)."""
        if not self.held:
            return 0.0, 1.0
        share, count = self.share, self.held
        middle = share + _SURE**2 / (2 * count)
        spread = _SURE * math.sqrt(share * (1 - share) / count + _SURE**2 / (4 * count**2))
        least, most = ((middle + sign * spread) / (1 + _SURE**2 / count) for sign in (-1, 1))
        return max(0.0, least), min(1.0, most)

    def minus(self, other: Rate) -> tuple[float, float]:
        """Return the difference to another share with a certainty of 95 % (Newcombe's interval of the two).

        Args:
            other: The other rate.
        """
        if not self.held or not other.held:
            return -1.0, 1.0
        difference = self.share - other.share
        (least, most), (other_least, other_most) = self.interval, other.interval
        return (
            difference - math.hypot(self.share - least, other_most - other.share),
            difference + math.hypot(most - self.share, other.share - other_least),
        )

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.passed + other.passed, self.held + other.held, self.broken + other.broken)

    def __str__(self) -> str:
        least, most = (round(100 * bound) for bound in self.interval)
        counted = f"{self.passed}/{self.held} {100 * self.passed // self.held} % ({least}-{most})" if self.held else "-"
        return f"{counted}, {self.broken} broken" if self.broken else counted


@dataclass(frozen=True, slots=True)
class Measures(Record):
    """The times and tokens of the conversations of one agent."""

    seconds: tuple[float, float] | None = None
    """The seconds that half of the conversations took at most, and 95 in 100; None without one."""
    first_text: tuple[float, float] | None = None
    """The seconds until the first text of a turn, in the same way; None if no turn had one."""
    tokens: int = 0
    """The number of tokens that the agent used."""
    cost: float | None = None
    """The price of these tokens; None without the price of a model that was used."""
    unpriced: tuple[str, ...] = ()
    """The models without a price, if there are prices."""

    @classmethod
    def from_trials(cls, trials: Sequence[Trial], prices: Prices | None = None) -> Measures:
        """Measure conversations.

        Args:
            trials: The conversations.
            prices: The prices of a million tokens by the names of models; models that are not in it have those of
                genai-prices. None counts no money.
        """
        usage = [each for trial in trials for each in trial.usage]
        cost = None if prices is None or not usage else cost_of(usage, prices)
        first = [turn.first_text for trial in trials for turn in trial.turns if turn.first_text is not None]
        return cls(
            _usual_and_late(trial.seconds for trial in trials),
            _usual_and_late(first),
            sum(trial.tokens for trial in trials),
            None if cost is None or cost.unknown else float(cost.dollars),
            () if cost is None else cost.unknown + cost.assumed,
        )


def _usual_and_late(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the value that half of all have at most, and the one that 95 in 100 have at most."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[(len(ordered) - 1) // 2], ordered[math.ceil(len(ordered) * _LATE) - 1]
