"""The clock of one run over HTTP: every wait is limited and can be interrupted, and its errors become ours.

A time-out says what had arrived. This is the one place where exceptions of httpx are translated.

To change

- a transport of another library: an `httpx.AsyncBaseTransport` behind an `httpx.AsyncClient`, which `http_client=`
  takes, with its errors as those of httpx, and the library's own as their `__cause__`; `_UNSENT` here has the errors of
  each library that prove that nothing was sent, and docs/operations.md names the libraries: after an error of any
  other, the run is not posted again. `fast.py` is the one on aiohttp; `AGUI_CLIENT_FAST=1` runs any test on it:
  `tests/support/on_fast_client.py` puts it in the place of httpx's, and may do so with another
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import NoReturn, TypeVar, cast
from urllib.request import getproxies

import httpx

from agui_client import errors
from agui_client._core.ground.concurrency import BLOCKS_LOOP, whole
from agui_client._core.ground.secrets import MARKS_OF_ADDRESSES, address_of, hidden_text, without_sent
from agui_client._core.ground.sent_secrets import SentSecrets
from agui_client._core.protocol.plain_json import object_in
from agui_client._core.transport.clients import PROXIES
from agui_client._core.transport.sse import Framer
from agui_client._core.transport.timeouts import Timeouts
from agui_client._core.transport.waiting import Waiter
from agui_client.errors import ConnectError, ConnectTimeoutError

T = TypeVar("T")

_UNSENT = {
    "aiohttp": ("ClientConnectorError", "ConnectionTimeoutError"),
    "httpcore": ("ConnectError", "ConnectTimeout", "PoolTimeout"),
    "httpcore2": ("ConnectError", "ConnectTimeout", "PoolTimeout"),
}
"""The exceptions that libraries are known to raise before they send anything."""
_CARRIERS = frozenset({"h2", "h11", "httpx", "pyreqwest", *_UNSENT})
"""The libraries that carry requests; some let their exceptions out as they are."""


class Clock(Waiter):
    """Waits for the steps of one run, within its time limits.

    Args:
        limits: The time-outs.
        framer: The framer of the stream, which counts keep-alive comments.
        address: The address that the run was posted to, for error messages.
        until: The `time.perf_counter()` at which the call that the run belongs to has taken too long.
        secrets: The record that gets the secrets that are sent; None for one of its own.
    """

    def __init__(
        self,
        limits: Timeouts,
        framer: Framer,
        address: str,
        until: float = math.inf,
        secrets: SentSecrets | None = None,
    ) -> None:
        super().__init__()
        self.secrets: SentSecrets = SentSecrets() if secrets is None else secrets
        """The secrets that were sent, which no error may quote."""
        self.latest_frame: str | None = None
        """The data of the last frame that arrived, set by the source; None before the first."""
        self.ended_at: float | None = None
        """The moment at which the first wait behind the end of the requested run began; None before it."""
        self.is_interrupted: bool = False
        """Whether the run was interrupted; there must be no further wait then."""
        self._limits, self._framer, self._address = limits, framer, address
        self._started_at = self._attempted_at = self.since
        self.idle_seconds: float = _seconds(limits.idle)
        """Seconds for which the stream may be silent between two reads; infinite if that is not limited."""
        # Two clocks: an event loop has its own, which in tests need not continue with the system's.
        self.until: float = self._started_at + min(until - perf_counter(), _seconds(limits.total))

    @property
    def elapsed(self) -> float:
        """Seconds since the run was posted for the first time."""
        return self.now() - self._started_at

    @property
    def remaining(self) -> float:
        """Seconds until the run has taken too long; infinite without `Timeouts.total`."""
        return self.until - self.now()

    @property
    def remaining_for_first_event(self) -> float:
        """Seconds until the first event is late; comments and other bytes do not extend them."""
        return self._attempted_at + _seconds(self._limits.first_event) - self.now()

    def begin_wait_after_end(self) -> float:
        """Begin a wait behind the end of the requested run; return the seconds for which the response may stay open.

        They count from the first of these waits, not from the end, which the application may have taken long to read.
        Comments do not extend them.
        """
        self.ended_at = self.now() if self.ended_at is None else self.ended_at
        return self._remaining_after_end

    @property
    def _remaining_after_end(self) -> float:
        return math.inf if self.ended_at is None else self.ended_at + _seconds(self._limits.after_end) - self.now()

    def restart(self) -> None:
        """Begin another attempt, which has the whole time until its first event."""
        self._attempted_at = self.now()

    async def wait_for_response(self, step: Awaitable[T]) -> T:
        """Await the sending of the request.

        Args:
            step: The step; exceptions of HTTP libraries are translated.

        Raises:
            StopAsyncIteration: The run was interrupted.
            TransportError: It took too long, or failed.
        """
        try:
            return await self.wait(whole(step), self.remaining_for_first_event) or self.give_up()
        except Exception as error:
            # An auth or a transport of the application raises what it likes: that is its bug, and is shown as it is.
            library = type(error).__module__.partition(".")[0]
            if library not in _CARRIERS and not isinstance(error, httpx.RequestError):
                raise
            self.fail(error)

    async def wait_for_caller(self, step: Awaitable[T]) -> T:
        """Await a function of the caller, whose exceptions are not translated; only the total limits it.

        Raises:
            StopAsyncIteration: The run was interrupted.
            RunTimeoutError: The run took too long.
        """
        result = await self.wait(whole(step))
        # None may also be what the function returned.
        if result is None and (self.is_interrupted or self.remaining <= 0):
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
        """Raise the error that the exception of an HTTP library means; the exception is its `__context__`.

        Args:
            error: The exception.

        Raises:
            TransportError: No connection, or a broken one; `may_have_started` tells them apart.
            DecodeError: The body's content coding is broken.
            UsageError: The request cannot be sent at all.
        """
        address = self._address
        with suppress(RuntimeError):
            # An auth may send requests of its own, elsewhere.
            if isinstance(error, httpx.RequestError):
                address = address_of(error.request.url)
                self.secrets.add_request(str(error.request.url), error.request.headers.multi_items())
        is_unsent = _is_unsent(error)
        ours = _translated(error, self._limits, address, is_unsent=is_unsent)
        if isinstance(ours, ConnectError | ConnectTimeoutError):
            ours.may_have_started = not is_unsent
        # An HTTP library quotes bytes that it cannot read.
        ours.args = (without_sent(ours.problem, self.secrets),)
        # A foreign chain of a hundred lines says less than the message, and may show a secret.
        raise ours from None

    def give_up(self) -> NoReturn:
        """Raise the reason for which a wait was ended: an interrupt, or the limit that was passed.

        Raises:
            StopAsyncIteration: The run was interrupted.
            StreamTimeoutError: A limit was passed.
        """
        if self.is_interrupted:
            raise StopAsyncIteration
        limits, kind_of_last = self._limits, object_in(self.latest_frame).get("type")
        last = hidden_text(kind_of_last, self.secrets) if isinstance(kind_of_last, str) else None
        silent, keep_alives = self.now() - self.since, self._framer.keep_alives
        kind: type[errors.StreamTimeoutError] = errors.IdleTimeoutError
        what = f"the stream was silent for {_seconds(limits.idle):g} s, {self.elapsed:.1f} s into the run"
        advice = "raise Timeouts.idle, or let the server send comments to keep it alive"
        # The total first: when two limits pass together, raising the idle one would not help.
        if self.remaining <= 0:
            kind, advice = errors.RunTimeoutError, "raise Timeouts.total to allow more"
            most = "its call may" if limits.total is None else f"{limits.total:g} s"
            what = f"the run took longer than {most}, silent for the last {silent:.1f} s"
        elif self._remaining_after_end <= 0:
            advice = "let the server close the response behind the last event"
            what = f"the response stayed open for {_seconds(limits.after_end):g} s and was left (Timeouts.after_end)"
        elif self.latest_frame is None:
            kind, advice = errors.FirstEventTimeoutError, "raise Timeouts.first_event if the agent needs longer"
            what = f"no event arrived within {limits.first_event:g} s"
        if BLOCKS_LOOP.get():
            advice = "a sync verb blocks a running event loop: if that loop serves the agent, await run_agent() instead"
        problem = f"{what}; {_seen(keep_alives, last)}"
        raise kind(problem, silent=silent, keep_alives=keep_alives, last_event=last, fix=advice)


def _seen(keep_alives: int, last: str | None) -> str:
    few = {0: "no keep-alive comment", 1: "one keep-alive comment"}
    comments = few.get(keep_alives, f"{keep_alives} keep-alive comments")
    return f"{comments} had come" + (f", the last event was {last}" if last else "")


def _seconds(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _translated(error: Exception, limits: Timeouts, address: str, *, is_unsent: bool) -> errors.AGUIError:
    match error:
        case httpx.PoolTimeout():
            full = ConnectTimeoutError(f"the HTTP client had no connection free within {limits.pool:g} s")
            full.is_pool_full = True
            return full
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return _no_connection(error, limits, address, is_unsent=is_unsent)
        case httpx.LocalProtocolError():
            what = "a header's name or value is not valid in HTTP, or a shared HTTP/2 connection takes no more runs"
            return errors.UsageError(f"the request cannot be sent: {what}")
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            cause = "the auth, the HTTP client or a redirect made its url one that is not http"
            return errors.UsageError(f"the request cannot be sent: {cause}")
        case httpx.DecodingError(__cause__=None | zlib.error()):
            return errors.DecodeError(f"the body of {address} cannot be unpacked: {error}", rule="SSE-4")
        case httpx.RequestError() if not isinstance(error, httpx.TransportError):
            return errors.TransportError(f"{type(error).__name__}: {error}")
        case _:
            return ConnectError(f"the connection to {address} broke: {_text(error)}")


def _no_connection(error: Exception, limits: Timeouts, address: str, *, is_unsent: bool) -> errors.TransportError:
    kind = ConnectTimeoutError if isinstance(error, httpx.ConnectTimeout) else ConnectError
    what, fix = f"no connection to {address}", None
    if any(isinstance(each, ConnectionRefusedError) for each in _causes(error)):
        what, fix = f"{what}: nothing listens there{_proxies()}", "is the agent running?"
    elif any("WRONG_VERSION_NUMBER" in str(each) for each in _causes(error)):
        what, fix = f"{what}: the server there does not speak TLS", "is its address http://...?"
    elif not is_unsent:
        what = f"{what}, or one that broke at once: {_text(error)}"
    elif kind is ConnectTimeoutError:
        what = f"{what} within {limits.connect:g} s"
    else:
        what, fix = f"{what}{_proxies()}: {_text(error)}", "is the agent running there?"
    failure = kind(what)
    failure.fix = fix
    return failure


def _text(error: Exception) -> str:
    """Return what an exception says, without what it may quote: an address, a cookie, a token in a location."""
    what, _, quoted = str(error).partition(": ")
    if isinstance(error, httpx.RemoteProtocolError) and quoted:
        return f"what came is not HTTP ({what})"
    is_plain = isinstance(error, httpx.TransportError) and not MARKS_OF_ADDRESSES.search(str(error))
    return str(error) if is_plain and str(error) else type(error).__name__


def _proxies() -> str:
    """Return a mention of the proxies that the environment names, as one of them may be connected to instead."""
    named = sorted(PROXIES & getproxies().keys())
    return f", or at the proxy of {' or '.join(f'{each.upper()}_PROXY' for each in named)}" if named else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, and those that it came from."""
    while error is not None:
        yield error
        for each in getattr(error, "exceptions", ()):
            yield from _causes(each)
        error = error.__cause__ or error.__context__


def _is_unsent(error: Exception) -> bool:
    """Return whether it is certain that nothing was sent.

    The cause of an error says so, an exception of the library below. Transports of libraries that `_UNSENT` does not
    know raise httpx's exceptions about connections that broke later, too, and there a retry would post the run twice.
    """
    cause = error.__cause__
    loaded = ((sys.modules.get(library), names) for library, names in _UNSENT.items())
    return any(isinstance(cause, getattr(library, name)) for library, names in loaded if library for name in names)
