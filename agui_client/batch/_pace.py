"""The pace of a batch: rows per minute, waits that a server asks for, repetitions of failed rows, and budgets.

To change

- a budget or a retry rule of a batch: this module; `Batch._is_spent` and `Batch._run_row` in `batch/_batch.py`
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.prices import Prices, check_prices, dollars_in
from agui_client._core.transport.retry import BUSY_STATUSES, pause_before, retry_after
from agui_client._core.transport.timeouts import check_number
from agui_client.errors import HTTPStatusError, IncompleteRunError, RunFailedError, TransportError, UsageError

Kinds: TypeAlias = Literal["unsent", "transport", "any"]
"""Kinds of errors: those before the agent began, also broken transport, and all that may go away by themselves."""

_SERVER_ERROR = 500
_REQUEST_TIMEOUT = 408


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRetry(Record):
    """The number of times a failed row is run again in the same start, and the waits before.

    Waits grow exponentially, with jitter. A server's `Retry-After` takes their place, and holds back all other rows.
    """

    times: int = 2
    """Number of repetitions of a row."""
    on: Kinds | Callable[[Exception], bool] = "unsent"
    """The errors to run a row again after. "unsent": no connection was made, or the server refused the run with 429 or
    503. "transport": also broken connections, time-outs and errors 5xx, where the agent may have worked already. "any":
    also errors that the agent reports, and replies that `parse=` cannot read. Or a function of the exception."""
    first_wait: float = 1.0
    """Seconds before the first repetition, at most; each further one may wait twice as long."""
    max_wait: float = 300.0
    """The longest wait in seconds; after a longer Retry-After, the row has failed."""

    def __post_init__(self) -> None:
        if self.on not in ("unsent", "transport", "any") and not callable(self.on):
            raise UsageError(f"RowRetry.on is 'unsent', 'transport', 'any' or a function of an error, not {self.on!r}")
        check_number("RowRetry.times", self.times, least=0, is_whole=True)
        check_number("RowRetry.first_wait", self.first_wait, least=0)
        check_number("RowRetry.max_wait", self.max_wait, least=0)

    @classmethod
    def of(cls, value: RowRetry | int | None) -> RowRetry:
        """Read the `retry=` option of a batch: a policy, the number of repetitions, or None for the default."""
        if isinstance(value, RowRetry):
            return value
        return cls() if value is None else cls(times=value)

    def wait_before(self, repetition: int, error: Exception) -> float | None:
        """Return how long to wait before a row is run again.

        Args:
            repetition: 1 for the first repetition.
            error: The error of the last attempt.

        Returns:
            Seconds; None if the row has failed for good.
        """
        if repetition > self.times or not self._covers(error):
            return None
        if (seconds := _retry_after(error)) is not None:
            return seconds if seconds <= self.max_wait else None
        return pause_before(repetition, self.first_wait, self.max_wait)

    def _covers(self, error: Exception) -> bool:
        if callable(self.on):
            return self.on(error)
        if isinstance(error, UsageError):
            return False
        if is_refusal(error):
            return True
        if self.on == "any":
            return True
        if isinstance(error, HTTPStatusError) and error.status_code < _SERVER_ERROR:
            return self.on == "transport" and error.status_code == _REQUEST_TIMEOUT
        if isinstance(error, TransportError) and not error.may_have_started:
            return True
        return self.on == "transport" and isinstance(error, TransportError | IncompleteRunError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Record):
    """The most that one start of a batch may use; after that no row begins, and those that are running are finished."""

    rows: int | None = None
    """The number of rows to run, those of the journal not counted; with several agents, each counts."""
    tokens: int | None = None
    """The number of tokens, as far as agents report them."""
    cost: str | None = None
    """The money, as "20.00 USD", by `prices` and those of genai-prices (extra `cost`). A row whose cost is not known
    ends the batch, too, unless `prices` has "*"."""
    prices: Prices | None = None
    """The prices of a million tokens by the names of models, as in `ToolLimits(prices=...)`. None counts no money
    without `cost`; `{}` counts it with the prices of genai-prices, for the results."""
    seconds: float | None = None
    """The time in seconds."""
    failures: int | None = None
    """The number of rows that may fail; the first one more stops the batch. 0 stops it at the first failure."""

    @property
    def counts_money(self) -> bool:
        """Whether the money that rows spend is worked out."""
        return self.cost is not None or self.prices is not None

    def __post_init__(self) -> None:
        if self.cost is not None:
            dollars_in(self.cost, "Budget.cost")
        if self.counts_money:
            check_prices(self.prices, "Budget(prices=...)")
        for name in ("rows", "tokens", "seconds", "failures"):
            if (value := getattr(self, name)) is not None:
                check_number(f"Budget.{name}", value, least=0, is_whole=name != "seconds")


class Pace:
    """Gives each attempt its turn.

    Args:
        per_minute: The most attempts in a minute, evenly spread; None for no limit.

    Raises:
        UsageError: It is not a number above 0.
    """

    def __init__(self, per_minute: float | None) -> None:
        if per_minute is not None:
            check_number("per_minute", per_minute, least=0, is_above=True)
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._next = self._held_until = -math.inf
        self.ends_at: float = math.inf
        """The moment after which nothing begins."""

    def hold(self, seconds: float) -> None:
        """Let nothing begin for a while."""
        self._held_until = max(self._held_until, anyio.current_time() + seconds)

    async def turn(self) -> bool:
        """Wait for the next turn.

        Returns:
            Whether there is one before the end.
        """
        while True:
            now = anyio.current_time()
            start = max(now, self._next, self._held_until)
            if start > self.ends_at:
                return False
            self._next = start + self._interval
            if start > now:
                await anyio.sleep(start - now)
            if self._held_until <= anyio.current_time():
                return True


def is_refusal(error: Exception) -> bool:
    """Return whether a server asks its caller to come back later."""
    return isinstance(error, HTTPStatusError) and error.status_code in BUSY_STATUSES


def _retry_after(error: Exception) -> float | None:
    """Return the seconds after which a server wants to be asked again; None if it did not say."""
    if isinstance(error, RunFailedError):
        return error.retry_after
    return retry_after(error) if isinstance(error, HTTPStatusError) else None
