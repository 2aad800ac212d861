"""Reconnecting: policies that take up a stream that was cut, without starting the run again.

    HttpAgent(url, reconnect=LastEventId())

A run is posted once. A policy names the request that continues with it; `_core.transport.resuming` sends that request,
waits between attempts, and joins the responses. `stop_run` is for callers who leave a run that its server would
continue with.

To change

- a reconnect policy, and what becomes of a stream that is cut: a `ReconnectPolicy` here makes the `ReconnectPlan` with
  the request that continues; `_core/transport/resuming.py` sends it and waits between attempts.
  `_core/transport/joining.py` has the ways to join responses: `ContinueAtCursor` (ids of frames:
  `_core/transport/numbered.py`), `SkipDelivered` (what arrived is left out by `_core/transport/replay_filter.py`) and
  `PollUntilFinished`. A run is never posted again
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from ag_ui.core import MessagesSnapshotEvent

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.request import request_body
from agui_client._core.transport.joining import ContinueAtCursor, PollUntilFinished, SkipDelivered
from agui_client._core.transport.resuming import ReconnectPlan
from agui_client._core.transport.timeouts import check_number
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import RunAgentInput

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.hooks import HookContext
    from agui_client._core.transport.client import Address, ClientRequest

__all__ = ["Connect", "DetachedRuns", "LastEventId", "ReconnectPolicy", "stop_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy(Record, ABC):
    """The base of the policies.

    Waits between attempts are those of the agent's `RetryPolicy`, but at most two seconds, or its `first_wait` if that
    is longer. The server's `retry:` and `Retry-After` make them longer, up to `RetryPolicy.max_wait`. No wait goes
    beyond `Timeouts.total`.
    """

    attempts: int = 12
    """The number of requests in a row that bring no new event, after which the run fails; an event resets it. By
    default, a server that refuses connections is asked for about 17 seconds, in which it may be started again."""

    def __post_init__(self) -> None:
        check_number(f"{type(self).__name__}.attempts", self.attempts, least=1, is_whole=True)

    @property
    def needs_connect_url(self) -> bool:
        """Whether the policy works only with the agent's `connect_url`."""
        return False

    @abstractmethod
    def plan(
        self, request: ClientRequest, input: RunAgentInput, connect_url: Address | None, *, is_replay: bool
    ) -> ReconnectPlan | None:
        """Return the plan to continue a stream that is cut; for the transport.

        Args:
            request: The request that starts the run or the replay.
            connect_url: The agent's `connect_url`; None without one.
            is_replay: Whether the thread is sent again.

        Returns:
            The plan; None if the stream is not continued.
        """

    @property
    def can_connect(self) -> bool:
        """Whether the policy sends a thread again without the agent's `connect_url`."""
        return False

    def connecting(self, request: ClientRequest, input: RunAgentInput) -> ClientRequest:
        """Return the request that sends a thread again, of a policy that can; for the transport."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEventId(ReconnectPolicy):
    """Continue after the last event that arrived, for servers that number their events (`id:` in SSE).

    A stream is not taken up if an event behind the last `id:` has none, unless it may be sent twice: snapshots, RAW and
    CUSTOM. Events that come a second time under their id are dropped.
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

    def plan(
        self, request: ClientRequest, input: RunAgentInput, connect_url: Address | None, *, is_replay: bool
    ) -> ReconnectPlan:
        """Return the plan to continue a stream that is cut."""
        method = self.method or ("GET" if connect_url is None else "POST")
        again = replace(request, is_reconnect=True)
        again = replace(again, url=connect_url) if method == "POST" else replace(again, url=None, body=b"")
        joining = ContinueAtCursor(None if is_replay else input.run_id)
        return ReconnectPlan(partial(_at_cursor, again), joining, self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(ReconnectPolicy):
    """Have the server send the run again, for servers with a `connect_url` that do not number their events.

    CopilotKit's runtime is one, and `agui_client.store` can do both. The server follows the run from its beginning;
    what the application has already is left out. A POST that got no response is taken up, too. If the server does not
    know the run, as after a restart, the call ends with an error.
    """

    @property
    def needs_connect_url(self) -> bool:
        """Whether the policy works only with the agent's `connect_url`."""
        return True

    def plan(
        self, request: ClientRequest, input: RunAgentInput, connect_url: Address | None, *, is_replay: bool
    ) -> ReconnectPlan | None:
        """Return the plan to continue a stream that is cut."""
        if is_replay:
            return None
        again = replace(request, is_reconnect=True, is_replay=True, url=connect_url)
        return ReconnectPlan(partial(_anywhere, again), SkipDelivered(input.run_id, input.state), self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedRuns(ReconnectPolicy):
    """Ask for the thread until the run is over, for agent-framework-ag-ui with `detached_runs` and a `snapshot_store`.

    Such a server continues with a run whose caller has left, and responds to a POST without messages, at the same
    address, with the thread as it stored it after a run. It sends nothing of a run that is in progress.
    `connect_agent()` asks in the same way. Without a `snapshot_store` the server would start a run without messages.

    If nothing of the run has arrived, as its POST was cut before the response, the server may never have got it. It is
    then asked for the time that a first event may take (`Timeouts.first_event`).
    """

    patience: float = 3600.0
    """Seconds for which the server is asked again until it has the end of the run; as long as it keeps such runs."""

    @property
    def can_connect(self) -> bool:
        """Whether the policy sends a thread again without the agent's `connect_url`."""
        return True

    def connecting(self, request: ClientRequest, input: RunAgentInput) -> ClientRequest:
        """Return the request for the thread: without messages, answers and whatever else could start a run."""
        bare = input.model_copy(update={"messages": [], "resume": None, "forwarded_props": None, "tools": None})
        return replace(request, body=request_body(bare), url=None)

    def plan(
        self, request: ClientRequest, input: RunAgentInput, connect_url: Address | None, *, is_replay: bool
    ) -> ReconnectPlan | None:
        """Return the plan to continue a stream that is cut."""
        again = replace(self.connecting(request, input), is_reconnect=True)
        first = None if is_replay else SkipDelivered(input.run_id, input.state)
        joining = PollUntilFinished(first, partial(_has_reply, input))
        return ReconnectPlan(partial(_anywhere, again), joining, self.attempts, self.patience)


async def stop_run(context: HookContext) -> None:
    """Stop a run that was left, where the server keeps runs (`agui_client.store`), and wait until it has ended.

        HttpAgent(url, on_abort=stop_run)

    Such a server continues with a run whose caller leaves, and meanwhile refuses another one of the thread. The request
    is a POST to `/stop` below the agent's address, with the run's headers and credentials. `run.detach()` leaves a run
    without it.

    Args:
        context: The run that was left.

    Raises:
        UsageError: The run was not posted to a server.
        TransportError: The server did not stop the run, such as one that keeps no runs, or does not know this one.
    """
    if not context.scope.requests:
        raise UsageError("on_abort=stop_run is for an HttpAgent: no request was posted for this run")
    named = {"threadId": context.thread_id, "runId": context.run_id}
    await context.scope.requests[-1].ask_below("stop", json.dumps(named).encode())


def _has_reply(input: RunAgentInput, response: Sequence[WireEvent]) -> bool:
    """Return whether a thread continues after the latest message that was sent, if that waits for a reply."""
    latest = input.messages[-1] if input.messages else None
    if latest is None or latest.role not in ("user", "tool"):
        return True
    snapshots = [event.messages for event in response if isinstance(event, MessagesSnapshotEvent)]
    ids = [message.id for message in snapshots[-1]] if snapshots else []
    return latest.id in ids[:-1]


def _anywhere(request: ClientRequest, cursor: str | None) -> ClientRequest:
    return request


def _at_cursor(request: ClientRequest, cursor: str | None) -> ClientRequest | None:
    return None if cursor is None else replace(request, last_event_id=cursor)
