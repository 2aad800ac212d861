"""Trying again: only what cannot have started work, and never once an event has arrived.

A run costs money, so a POST is repeated only when the agent certainly has not begun: no connection was made, or the
server refused and said when to come back. A refreshed credential and a redirect are not retries; see `delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from agui_client.errors import (
    AGUIError,
    ConnectError,
    ConnectTimeoutError,
    HTTPStatusError,
    RunFailedError,
    TransportError,
    UsageError,
)

_COME_BACK = (429, 503)
"""Statuses that, with a Retry-After, say that nothing was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a run is posted again, and how long to wait before.

    Waits grow exponentially, with jitter; a server's `Retry-After` is kept to instead. No wait goes beyond
    `Timeouts.total`.
    """

    connect: int = 2
    """How often when no connection could be made: nothing was sent."""
    status: int = 0
    """How often when the server answered 429 or 503 with a `Retry-After`: it refused, and the run never started."""
    first_wait: float = 0.2
    """Seconds before the first repetition, at most; each further one may wait twice as long."""
    max_wait: float = 60.0
    """The longest wait in seconds; a server that asks for a longer one is not asked again."""

    def __post_init__(self) -> None:
        for name in ("connect", "status"):
            times: object = getattr(self, name)
            if not isinstance(times, int) or isinstance(times, bool) or times < 0:
                raise UsageError(f"RetryPolicy.{name} is how often to try again, 0 or more, not {times!r}")
        for name in ("first_wait", "max_wait"):
            seconds: object = getattr(self, name)
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
                raise UsageError(f"RetryPolicy.{name} is a number of seconds, not {seconds!r}")

    def explain(self, error: BaseException) -> str:
        """Say in words whether an error is retried under this policy, and why.

        Args:
            error: What a run raised, or might raise.

        Returns:
            A sentence or two for people.
        """
        return _judge(error, self)[1]

    def allowance(self, error: TransportError) -> int:
        """How often an error of this kind is followed by another attempt; 0 if never."""
        return _judge(error, self)[0]

    def wait_before(self, repetition: int, error: TransportError) -> float:
        """How long to wait before trying again.

        Args:
            repetition: 1 for the first repetition.
            error: What the last attempt came to.

        Returns:
            Seconds: what the server asked for, or else exponentially more each time, with jitter.
        """
        if isinstance(error, HTTPStatusError) and (asked := retry_after(error)) is not None:
            return asked
        # Loaded when something failed: most runs are sent once.
        from tenacity import AsyncRetrying, RetryCallState, wait_random_exponential

        state = RetryCallState(AsyncRetrying(), None, (), {})
        state.attempt_number = repetition
        least = min(self.first_wait, self.max_wait) / 2
        return wait_random_exponential(self.first_wait, self.max_wait, min=least)(state)


def retry_after(error: HTTPStatusError) -> float | None:
    """What a refusal says about when to come back (RFC 9110, 10.2.3).

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


def _judge(error: BaseException, policy: RetryPolicy) -> tuple[int, str]:
    """How often the policy tries again after an error, and why."""
    match error:
        case ConnectError() | ConnectTimeoutError() if not error.may_have_started:
            return policy.connect, f"No connection was made, so nothing was sent: {_times(policy.connect, 'connect')}."
        case HTTPStatusError(status_code=code) if code in _COME_BACK:
            return _judge_refusal(error, policy)
        case HTTPStatusError(status_code=401):
            return 0, "Never tried again by itself: give on_unauthorized=, which refreshes the credentials once."
        case HTTPStatusError(status_code=code):
            return 0, f"Never tried again: {code} would be the answer again, or the agent may be at work."
        case RunFailedError():
            return 0, "Never tried again: the agent took the run and reported that it failed."
        case TransportError():
            return (
                0,
                "Never tried again: the request was sent, so the agent may be at work; repeating may cost twice.",
            )
        case UsageError():
            return 0, "Never tried again: it is about how the call was made, and would be the same."
        case AGUIError():
            return 0, "Never tried again: events had arrived, so the agent was at work."
        case _:
            return 0, "Never tried again: it is not about the transport."


def _judge_refusal(error: HTTPStatusError, policy: RetryPolicy) -> tuple[int, str]:
    asked = retry_after(error)
    if asked is None:
        return 0, f"Not tried again: {error.status_code} came without a Retry-After that says when."
    if asked > policy.max_wait:
        return 0, f"Not tried again: Retry-After asks for {asked:g} s, and max_wait is {policy.max_wait:g} s."
    return (
        policy.status,
        f"The server refused the run and asks to come back in {asked:g} s: {_times(policy.status, 'status')}.",
    )


def _times(allowed: int, option: str) -> str:
    if not allowed:
        return f"not tried again, as RetryPolicy.{option} is 0"
    return f"tried again up to {allowed} {'time' if allowed == 1 else 'times'} (RetryPolicy.{option})"
