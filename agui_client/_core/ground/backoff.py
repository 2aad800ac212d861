"""Waiting again: how long before the next attempt. How often, and after what, is each policy's own to say."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

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
