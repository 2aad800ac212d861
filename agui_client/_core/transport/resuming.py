"""Streams that are taken up where they were cut, with a request that starts no run.

A run is posted once. A stream that breaks off before its run has ended is taken up by a further request, as a policy of
`agui_client.reconnect` says; without one, only that of a server which says that it keeps the run. A POST that was sent
and got no response is such a stream for policies that need no cursor: its run may have begun or not.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from agui_client._core.protocol.decode import Decoder
from agui_client._core.transport.http_source import HttpSource, Reading
from agui_client._core.transport.joining import ContinueAtCursor, Joining
from agui_client._core.transport.numbered import NumberedFramer
from agui_client._core.transport.retry import retry_after
from agui_client._core.transport.sse import Framer
from agui_client.errors import (
    ConnectError,
    ConnectTimeoutError,
    HTTPStatusError,
    IdleTimeoutError,
    RunTimeoutError,
    StreamTimeoutError,
    TransportError,
)

if TYPE_CHECKING:
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.protocol.warnings import WarningLog
    from agui_client._core.transport.client import ClientRequest, Transport
    from agui_client._core.transport.clock import Clock
    from agui_client._core.transport.response import Body

_logger = logging.getLogger("agui_client.transport")
_BUSY = 409
"""The status of servers that work on a run of the thread."""
_LONGEST_PAUSE = 2.0
"""Seconds between two questions to a server that still works on the run, or is started again meanwhile."""
_NO_ANSWER = (502, 504)
"""Statuses of proxies whose server has not responded, or not in time, and may be at work."""
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of servers and proxies that may say something else in a moment."""


@dataclass(frozen=True, slots=True)
class ReconnectPlan:
    """The requests that continue the stream of one run when it is cut, and how their responses are joined."""

    request: Callable[[str | None], ClientRequest | None]
    """Returns the request for a cursor, None if the latest event had no id; it returns None if there is none."""
    joining: Joining
    """Joins the responses."""
    attempts: int
    """The number of requests in a row that bring no new event, after which the run fails."""
    patience: float = math.inf
    """Seconds for which a server is asked again that responds without the end of the run."""


class ResumableSource(HttpSource):
    """The events of one run, over as many responses as it takes.

    Args:
        transport: The way to the agent.
        request: The request that starts the run.
        warnings: The run's warnings.
        plan: The requests that continue the stream; or a function that returns them, called if the server says with
            its response that the run continues without its caller.
    """

    _plan_if_kept: Callable[[], ReconnectPlan] | None = None
    _is_continued = False
    """Whether the stream is continued if it is cut."""

    def __init__(
        self,
        transport: Transport,
        request: ClientRequest,
        warnings: WarningLog,
        plan: ReconnectPlan | Callable[[], ReconnectPlan],
    ) -> None:
        super().__init__(transport, request, warnings)
        self._warnings, self._failures = warnings, 0
        self._waits, self._pending_since = 0, math.inf
        if isinstance(plan, ReconnectPlan):
            self._continue_with(plan)
        else:
            self._plan_if_kept = plan

    def _continue_with(self, plan: ReconnectPlan) -> None:
        self._plan, self._joining, self._is_continued = plan, plan.joining, True
        self._is_numbered = isinstance(plan.joining, ContinueAtCursor)
        self._numbered = NumberedFramer(self._transport.max_event_bytes, drops_known=self._is_numbered)
        # The framer of a document is none of a stream.
        if type(self._framer) is Framer:
            self._framer = self._numbered

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next events; if the stream breaks off before the run has ended, take it up."""
        while True:
            cut: TransportError | None = None
            try:
                batch = await super().read()
            except TransportError as error:
                if not (self._is_continued and _is_cut(error)):
                    raise
                cut = error
            else:
                if not self._is_continued:
                    return batch
                # What cannot be joined is not a cut: it would come again with each response.
                if (events := self._joining.new(batch)) is not None:
                    if isinstance(events, Sequence) and not events:
                        continue
                    self._failures = self._waits = 0
                    return events
            if self.is_interrupted or self._has_ended or not await self._reconnect(cut):
                if cut is not None and not self.is_interrupted:
                    raise cut
                return None

    async def _open(self) -> Reading:
        """Post the run; see whether its server takes up streams."""
        reading = await super()._open()
        plan_if_kept, self._plan_if_kept = self._plan_if_kept, None
        if plan_if_kept is not None and self._transport.keeps_runs:
            self._continue_with(plan_if_kept())
        elif not self._is_continued:
            # Most servers keep no runs: reading their streams costs no step more than without a policy.
            self.read = super().read  # type: ignore[method-assign]
        return reading

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        vars(self).pop("read", None)  # it would be a cycle
        await super().aclose()

    def _refuse_to_reconnect(self, clock: Clock | None, cut: TransportError | None) -> None:
        """Say why the policy cannot take the stream up.

        Raises:
            TransportError: What the stream was cut with, with the reason; nothing if no event had arrived.
        """
        if clock is None or clock.latest_frame is None:
            return
        why = "the server gave the latest event no `id:`" if self._is_numbered else "the policy knows no request for it"
        failure = ConnectError("the stream stopped early") if cut is None else cut
        failure.args = (f"{failure.problem}; reconnect= could not take it up: {why}",)
        raise failure

    @property
    def _has_ended(self) -> bool:
        """Whether nothing of the run is missing."""
        return self._joining.has_ended(None if self._clock is None else self._clock.latest_frame)

    def _finish(self) -> Iterable[WireEvent] | None:
        """Return a last frame that no blank line terminated: if it is whole, or if the stream cannot be taken up."""
        if self.is_interrupted or self._body is None or not self._is_continued:
            return super()._finish()
        is_last = self._request_at_cursor() is None
        frames = self._framer.finish()
        if not frames or not (is_last or ContinueAtCursor(None).has_ended(frames[-1])):
            return None
        self._body, self._clock.latest_frame = None, frames[-1]  # type: ignore[union-attr]
        return self._decoder.with_unpaired(map(self._decoder.finish, frames))

    def _request_at_cursor(self) -> ClientRequest | None:
        is_sent = self._reading is not None or self.delivery.may_have_started
        return self._plan.request(self._numbered.cursor) if is_sent else None

    async def _reconnect(self, cut: TransportError | None) -> bool:
        """Open the next response.

        Args:
            cut: The exception that the stream was cut with; None if it stopped early.

        Returns:
            Whether there is one, or the run was interrupted meanwhile; False if there is no way to take the stream up.

        Raises:
            ConnectError: The stream could not be taken up.
        """
        request, clock = self._request_at_cursor(), self._clock
        if request is None or clock is None:
            self._refuse_to_reconnect(clock, cut)
            return False
        what = "the stream stopped early" if cut is None else f"the stream was cut ({type(cut).__name__})"
        if self._reading is None:
            what = f"the request got no response ({type(cut).__name__})"
        cause = cut
        try:
            await self._close_body()
            self._note_pending(clock)
            while self._may_wait(clock) and self._failures < self._plan.attempts:
                seconds = self._seconds_before_next(cause)
                if seconds >= clock.remaining:
                    break
                await clock.wait_for_caller(anyio.sleep(seconds))
                self._failures += 1
                try:
                    self._body = await self.delivery.reconnect(self._client, request, f"{what}; taken up")
                except TransportError as error:
                    cause = error
                    if _is_at_work(error) and self._plan.patience < math.inf:
                        self._joining.is_pending = self._joining.is_known = True
                        self._note_pending(clock)
                    elif not _may_pass(error):
                        break
                else:
                    self._switch_to(clock, self._body)
                    return True
        except StopAsyncIteration:
            return True
        why = self._reason_to_give_up(clock) + ("" if cause is cut else f"; {cause}")
        _logger.warning("%s, and could not be taken up", what)
        raise ConnectError(f"{cut or what}; it could not be taken up: {why}") from cause

    def _switch_to(self, clock: Clock, body: Body) -> None:
        """Read another response from now on."""
        self._stack.push_async_callback(body.aclose)
        self._numbered.restart()
        if not self._is_numbered:
            # The first half of a character comes again, too.
            self._decoder = Decoder(self._warnings)
        self._joining.begin_response(has_begun=clock.latest_frame is not None)
        self._reading = clock, body.chunks.__anext__
        _logger.info("a stream that was cut was taken up by request %d", len(self.delivery.attempts))

    async def _close_body(self) -> None:
        if self._body is not None:
            await self._body.aclose()
        self._body = None

    def _reason_to_give_up(self, clock: Clock) -> str:
        if self._may_wait(clock):
            requests = "1 request" if self._failures == 1 else f"{self._failures} requests in a row"
            return f"{requests} brought no event"
        return f"the server had no end of the run for {clock.now() - self._pending_since:.0f} s"

    def _note_pending(self, clock: Clock) -> None:
        """Count the latest response as no failure if the server may still work on the run."""
        if self._joining.is_pending:
            self._joining.is_pending = False
            self._failures, self._waits = 0, self._waits + 1
            self._pending_since = min(self._pending_since, clock.now())

    def _may_wait(self, clock: Clock) -> bool:
        """Return whether a server that may still work on the run is asked again.

        Where nothing of the run has arrived, the server may never have got it, and responds in the same way: it has
        the time that a first event may take.
        """
        patience, first_event = self._plan.patience, self._request.timeouts.first_event
        if first_event is not None and not self._joining.is_known:
            patience = min(patience, first_event)
        return clock.now() - self._pending_since < patience

    def _seconds_before_next(self, cause: Exception | None) -> float:
        policy = self._transport.retry
        error = cause if isinstance(cause, TransportError) else ConnectError("the stream stopped early")
        asked = retry_after(error) if isinstance(error, HTTPStatusError) else self._numbered.retry_seconds
        grown = policy.wait_before(max(self._failures, self._waits) + 1, ConnectError(""))
        return min(max(asked or 0.0, min(grown, max(_LONGEST_PAUSE, policy.first_wait))), policy.max_wait)


def _is_cut(error: TransportError) -> bool:
    """Return whether a stream ended with the failure of its connection, or the request got no response."""
    if isinstance(error, HTTPStatusError):
        return error.status_code in _NO_ANSWER
    return isinstance(error, ConnectError | IdleTimeoutError)


def _is_at_work(error: TransportError) -> bool:
    """Return whether the server responded that a run is in progress."""
    return isinstance(error, HTTPStatusError) and error.status_code == _BUSY


def _may_pass(error: TransportError) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(error, HTTPStatusError):
        return error.status_code in _PASSING
    is_late = isinstance(error, StreamTimeoutError | ConnectTimeoutError) and not isinstance(error, RunTimeoutError)
    return is_late or isinstance(error, ConnectError)
