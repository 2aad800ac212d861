"""Trying again: only what cannot have started work, and never once an event has arrived.

A run costs money, so a POST is repeated only if the agent certainly has not begun: no connection was made, or the
server refused and sent a Retry-After. A refreshed credential and a redirect are not retries; see `delivery`.

To change

- a retry rule: `RetryPolicy.allowance`, the waits and `BUSY_STATUSES` here: batches, stored threads, the
  doctor and the advice of errors read these statuses, too, and docs/operations.md and docs/batch.md name them;
  `_core/transport/delivery.py` makes the attempts. After a stream was cut, `_PASSING` in `_core/transport/resuming.py`.
  `tests/core/transport/test_delivery.py`
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from agui_client import errors
from agui_client._core.ground.field_docs import Record
from agui_client._core.transport.timeouts import check_number
from agui_client.errors import HTTPStatusError

if TYPE_CHECKING:
    from agui_client.errors import HTTPStatusError


BUSY_STATUSES = frozenset({429, 503})
"""Statuses of a server that refuses a run before it begins, and may accept it later."""


def pause_before(repetition: int, first: float, most: float) -> float:
    """Return how long to wait before trying again: from a window that doubles each time, so that callers spread.

    Args:
        repetition: 1 for the first repetition.
        first: The longest wait before that, in seconds.
        most: The longest wait of all.
    """
    longest = min(first * 2.0 ** min(repetition - 1, 1000), most)  # more would be no float
    return random.uniform(min(first, most) / 2, longest)


def retry_after(error: HTTPStatusError) -> float | None:
    """Read from a refusal when to come back (RFC 9110, 10.2.3).

    Args:
        error: The refusal.

    Returns:
        Seconds from now; None if it does not say, or not so that it can be read.
    """
    value = error.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy(Record):
    """The number of times a run is posted again, and the waits before.

    Waits grow exponentially, with jitter; a server's `Retry-After` takes their place. No wait goes beyond
    `Timeouts.total`.
    """

    connect: int = 2
    """Number of repetitions after a connection could not be made: nothing was sent."""
    status: int = 0
    """Number of repetitions after a 429 or 503 with a `Retry-After`: the server refused, and the run never started."""
    first_wait: float = 0.2
    """Seconds before the first repetition, at most; each further one may wait twice as long."""
    max_wait: float = 60.0
    """The longest wait in seconds; after a longer Retry-After, the run is not posted again."""

    def __post_init__(self) -> None:
        for name in ("connect", "status", "first_wait", "max_wait"):
            check_number(f"RetryPolicy.{name}", getattr(self, name), least=0, is_whole="wait" not in name)

    @classmethod
    def of(cls, value: object) -> RetryPolicy:
        """Read the `retry=` option.

        Args:
            value: The number of repetitions, of either kind; a `RetryPolicy`; or None for the default.

        Returns:
            The policy that the value means.

        Raises:
            UsageError: It is neither.
        """
        if value is None or isinstance(value, RetryPolicy):
            return value or cls()
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise errors.UsageError(f"retry= is how often to try again, 0 or more, or RetryPolicy(...), not {value!r}")
        return cls(connect=value, status=value)

    def allowance(self, error: errors.TransportError) -> int:
        """Return how often an error of this kind is followed by another attempt; 0 if never."""
        match error:
            case errors.ConnectTimeoutError(is_pool_full=True):
                return 0  # nothing was sent, but waiting once more for a connection that runs keep is no remedy
            case errors.ConnectError() | errors.ConnectTimeoutError() if not error.may_have_started:
                return self.connect
            case HTTPStatusError(status_code=status) if status in BUSY_STATUSES:
                seconds = retry_after(error)
                return 0 if seconds is None or seconds > self.max_wait else self.status
            case _:
                return 0

    def wait_before(self, repetition: int, error: errors.TransportError) -> float:
        """Return how long to wait before trying again.

        Args:
            repetition: 1 for the first repetition.
            error: The error of the last attempt.

        Returns:
            Seconds: the server's Retry-After, or else exponentially more each time, with jitter.
        """
        if isinstance(error, HTTPStatusError) and (seconds := retry_after(error)) is not None:
            return seconds
        return pause_before(repetition, self.first_wait, self.max_wait)
