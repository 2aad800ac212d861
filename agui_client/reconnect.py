"""Reconnecting: policies that take up a stream that was cut, without starting the run again.

    HttpAgent(url, reconnect=LastEventId())

A run is posted once. A policy names the request that goes on with it; `_transport.resuming` sends that request, waits
between attempts, and joins the responses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from agui_client._field_docs import Record
from agui_client._transport.resuming import TakingUp
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._transport.client import Address, Request

__all__ = ["LastEventId", "ReconnectPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy(Record, ABC):
    """The base of the policies.

    Waits between attempts are those of the agent's `RetryPolicy`. The server's `retry:` and `Retry-After` make them
    longer, up to `RetryPolicy.max_wait`. No wait goes beyond `Timeouts.total`.
    """

    attempts: int = 5
    """The number of requests in a row that bring no new event, after which the run fails; an event resets it."""

    def __post_init__(self) -> None:
        attempts = cast("object", self.attempts)
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise UsageError(f"{type(self).__name__}.attempts is a number of requests, 1 or more, not {attempts!r}")

    @property
    def needs_connect_url(self) -> bool:
        """Whether the policy works only with the agent's `connect_url`."""
        return False

    @abstractmethod
    def way(self, request: Request, run_id: str | None, connect_url: Address | None) -> TakingUp:
        """Return the way to take up the stream of a run; for the transport.

        Args:
            request: The request that starts the run.
            run_id: The id of the run; None for a replay.
            connect_url: The agent's `connect_url`; None without one.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEventId(ReconnectPolicy):
    """Go on after the last event that arrived, for servers that number their events (`id:` in SSE).

    A stream whose latest event has no `id:` is not taken up. Events that come a second time are dropped.
    """

    method: Literal["GET", "POST"] | None = None
    """"GET" asks at the agent's own url, as browsers do. "POST" sends the input once more, to `connect_url`, which
    starts no run. None, the default, posts if the agent has a `connect_url`. Both send `Last-Event-ID`."""

    def __post_init__(self) -> None:
        super(LastEventId, self).__post_init__()
        if self.method not in (None, "GET", "POST"):
            raise UsageError(f'LastEventId.method is "GET", "POST" or None, not {self.method!r}')

    @property
    def needs_connect_url(self) -> bool:
        """Whether the policy works only with the agent's `connect_url`."""
        return self.method == "POST"

    def way(self, request: Request, run_id: str | None, connect_url: Address | None) -> TakingUp:
        """Return the way to take up the stream of a run."""
        method = self.method or ("GET" if connect_url is None else "POST")
        again = replace(request, is_reconnect=True, method=method)
        again = replace(again, url=connect_url) if method == "POST" else replace(again, url=None, body=b"")
        return TakingUp(partial(_at_cursor, again), self.attempts, run_id)


def check_policy(policy: object, connect_url: Address | None) -> None:
    """Refuse what is no policy, and a policy that lacks the agent's `connect_url`.

    Raises:
        UsageError: The policy cannot be used.
    """
    if not isinstance(policy, ReconnectPolicy):
        raise UsageError(f"reconnect= takes a policy, such as LastEventId(), not {policy!r}")
    if policy.needs_connect_url and connect_url is None:
        raise UsageError(f"{policy!r} needs connect_url=: a POST to the agent's own url would start the run again")


def _at_cursor(request: Request, cursor: str | None) -> Request | None:
    return None if cursor is None else replace(request, last_event_id=cursor)
