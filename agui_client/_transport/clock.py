"""The clock of one run over HTTP: every wait is limited and can be interrupted, and its errors become ours.

A time-out says what had arrived. This is the one place where exceptions of httpx are translated.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import NoReturn, TypeVar, cast

import httpx

from agui_client import errors
from agui_client._concurrency import whole
from agui_client._transport.response import address_of
from agui_client._transport.sse import Framer
from agui_client._transport.timeouts import Timeouts
from agui_client._transport.waiting import Waiter
from agui_client.errors import ConnectError, ConnectTimeoutError

T = TypeVar("T")

FOREIGN = (httpx.RequestError, httpx.InvalidURL)
"""The exceptions of httpx about a request."""


class Clock(Waiter):
    """Waits for the steps of one run, within its time limits.

    Args:
        limits: The time-outs.
        framer: The framer of the stream, which counts keep-alive comments.
        address: The address that the run was posted to, for error messages.
    """

    def __init__(self, limits: Timeouts, framer: Framer, address: str) -> None:
        super().__init__()
        self.latest_frame: str | None = None
        """The data of the last frame that arrived, set by the source; None before the first."""
        self.is_interrupted = False
        """Whether the run was interrupted; there must be no further wait then."""
        self.idle_seconds = _seconds(limits.idle)
        """Seconds for which the stream may be silent between two reads; infinite if that is not limited."""
        self._limits, self._framer, self._address = limits, framer, address
        self._started_at = self._attempted_at = self.since
        self.until = self._started_at + _seconds(limits.total)

    @property
    def elapsed(self) -> float:
        """Seconds since the run was posted for the first time."""
        return self.now() - self._started_at

    @property
    def left(self) -> float:
        """Seconds until the run has taken too long; infinite without `Timeouts.total`."""
        return self.until - self.now()

    @property
    def left_for_first_event(self) -> float:
        """Seconds until the first event is late; comments and other bytes do not extend them."""
        return self._attempted_at + _seconds(self._limits.first_event) - self.now()

    def restart(self) -> None:
        """Begin another attempt, which has the whole time until its first event."""
        self._attempted_at = self.now()

    async def wait_for_response(self, step: Awaitable[T]) -> T:
        """Await the sending of the request.

        Args:
            step: The step; exceptions of httpx are translated.

        Raises:
            StopAsyncIteration: The run was interrupted.
            TransportError: It took too long, or failed.
        """
        try:
            return await self.wait(whole(step), self.left_for_first_event) or self.give_up()
        except FOREIGN as error:
            self.fail(error)

    async def wait_for_caller(self, step: Awaitable[T]) -> T:
        """Await a function of the caller, whose exceptions are not translated; only the total limits it.

        Args:
            step: The step.

        Raises:
            StopAsyncIteration: The run was interrupted.
            RunTimeoutError: The run took too long.
        """
        result = await self.wait(whole(step))
        if result is None and (self.is_interrupted or self.left <= 0):
            self.give_up()
        return cast("T", result)

    def interrupt(self) -> bool:
        """End the present wait.

        Returns:
            Whether there was one.
        """
        self.is_interrupted = True
        self.end()
        return self.is_waiting

    def fail(self, error: Exception) -> NoReturn:
        """Raise the error that one of httpx's exceptions means.

        Args:
            error: One of `FOREIGN`.

        Raises:
            TransportError: No connection, or a broken one; `may_have_started` tells them apart.
            DecodeError: The body's content coding is broken.
            UsageError: The request cannot be sent at all.
        """
        address = self._address
        with suppress(RuntimeError):
            # An auth may send requests of its own, elsewhere.
            address = address_of(error.request.url) if isinstance(error, httpx.RequestError) else address
        ours = _translated(error, self._limits, address)
        if isinstance(ours, ConnectError | ConnectTimeoutError):
            ours.may_have_started = not _is_unsent(error)
        what, _, quoted = str(error).partition(": ")
        if isinstance(error, httpx.RemoteProtocolError) and quoted:
            # What cannot be read is quoted there, and that may be a cookie, or a token in a location.
            raise ConnectError(f"the connection to {address} broke: what came is not HTTP ({what})") from None
        # The text of what cannot be sent shows a header or an address with its secret.
        raise ours from None if isinstance(ours, errors.UsageError) else error

    def give_up(self) -> NoReturn:
        """Raise the reason for which a wait was ended: an interrupt, or the limit that was passed.

        Raises:
            StopAsyncIteration: The run was interrupted.
            StreamTimeoutError: A limit was passed.
        """
        if self.is_interrupted:
            raise StopAsyncIteration
        limits, last = self._limits, _type_of(self.latest_frame)
        silent, keep_alives = self.now() - self.since, self._framer.keep_alives
        kind: type[errors.StreamTimeoutError]
        if self.left <= 0:
            kind, advice = errors.RunTimeoutError, "raise Timeouts.total to allow more"
            what = f"the run took longer than {limits.total:g} s, silent for the last {silent:.1f} s"
        elif self.latest_frame is None:
            kind, advice = errors.FirstEventTimeoutError, "raise Timeouts.first_event if the agent needs longer"
            what = f"no event arrived within {limits.first_event:g} s"
        else:
            kind, advice = (
                errors.IdleTimeoutError,
                "raise Timeouts.idle, or let the server send comments to keep it alive",
            )
            what = f"the stream was silent for {limits.idle:g} s, {self.elapsed:.1f} s into the run"
        message = f"{what}; {_seen(keep_alives, last)}; {advice}"
        raise kind(message, silent=silent, keep_alives=keep_alives, last_event=last)


def _seen(keep_alives: int, last: str | None) -> str:
    few = {0: "no keep-alive comment", 1: "one keep-alive comment"}
    comments = few.get(keep_alives, f"{keep_alives} keep-alive comments")
    return f"{comments} had come" + (f", the last event was {last}" if last else "")


def _type_of(frame: str | None) -> str | None:
    """Return the type of the event in a frame; None without one."""
    try:
        found: object = json.loads(frame or "")["type"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _seconds(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _translated(error: Exception, limits: Timeouts, address: str) -> errors.AGUIError:
    match error:
        case httpx.ConnectTimeout():
            return ConnectTimeoutError(f"no connection to {address} within {limits.connect:g} s")
        case httpx.PoolTimeout():
            return ConnectTimeoutError(f"the HTTP client had no connection free within {limits.pool:g} s")
        case httpx.ConnectError():
            return ConnectError(f"no connection to {address}: {error}; is the agent running there?")
        case httpx.LocalProtocolError() if _is_full(error):
            return ConnectError(f"a shared HTTP/2 connection to {address} takes no more runs at once")
        case httpx.LocalProtocolError():
            return errors.UsageError("the request cannot be sent: a header's name or value is not valid in HTTP")
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            cause = "the auth or the HTTP client made its url one that is not http"
            return errors.UsageError(f"the request cannot be sent: {cause}")
        case httpx.TransportError():
            return ConnectError(f"the connection to {address} broke: {str(error) or type(error).__name__}")
        case httpx.DecodingError():
            return errors.DecodeError(f"the body of {address} cannot be unpacked: {error}", rule="SSE-4")
        case _:
            return errors.TransportError(f"{type(error).__name__}: {error}")


def _is_unsent(error: Exception) -> bool:
    """Return whether it is certain that nothing was sent.

    Only httpcore, httpx's own transport, is known to raise these before it sends anything. Other transports raise
    httpx's exceptions about connections that broke later, too, and there a retry would post the run twice.
    """
    import httpcore

    unsent = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
    return isinstance(error.__cause__, unsent) or _is_full(error)


def _is_full(error: Exception) -> bool:
    """Return whether an HTTP/2 connection refused one more stream; httpcore wraps that in a protocol error."""
    h2, cause = sys.modules.get("h2.exceptions"), error.__cause__
    return h2 is not None and cause is not None and isinstance(cause.__context__, h2.TooManyStreamsError)
