"""Reading what an agent sends: the data of each SSE frame, timed, bounded and interruptible (SSE-3 … SSE-13).

Foreign exceptions are translated here. Leaving early finishes every generator inside httpx before the run is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import anyio
import httpx
from httpx_sse import EventSource

from agui_client._pipeline.decode import Decoder
from agui_client._pipeline.framing import StreamMeter
from agui_client._pipeline.limits import Timeouts
from agui_client._pipeline.source import Source
from agui_client._pipeline.transport.client import EVENT_STREAM, Request, Transport, address_of
from agui_client._pipeline.waiting import Patience
from agui_client.errors import (
    ConnectError,
    ConnectTimeoutError,
    FirstEventTimeoutError,
    HTTPStatusError,
    IdleTimeoutError,
    RunTimeoutError,
    TransportError,
    UnexpectedContentTypeError,
    UsageError,
)

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.warnings import WarningLog

T = TypeVar("T")

_BODY_LIMIT = 64 * 1024
_BODY_SECONDS = 5.0
_FINAL_READS = 10_000
"""More chunks than one read from a socket can hold; a body that gives more without waiting is no network's."""
_SNIPPET = 512
_SECRET_HEADER = re.compile("auth|cookie|token|secret|key|session|signature|location")
"""Names of headers that may carry something secret; a location may have a token in its query."""


@dataclass(frozen=True, slots=True)
class ResponseInfo:
    """The HTTP response that carried a run."""

    status_code: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """Response headers, names in lower case; those that carry secrets read "[redacted]"."""
    http_version: str
    """Such as "HTTP/1.1"."""


class HttpSource(Source):
    """The events of one POST (SSE-4 … SSE-11).

    Args:
        transport: Where to post.
        request: What to post.
        warnings: The run's warnings; knows the index of the event at hand.
    """

    conforming = True

    def __init__(self, transport: Transport, request: Request, warnings: WarningLog) -> None:
        self.response: ResponseInfo | None = None
        """The response; None until its headers are there."""
        self.connect_seconds: float | None = None
        """From the request to the response's headers; None before they arrive."""
        self._transport = transport
        self._request = request
        self._decoder = Decoder(warnings)
        self._decode: Callable[[str], WireEvent] = self._decoder.feed
        self._max_event_bytes = transport.max_event_bytes
        self._meter = StreamMeter(transport.max_event_bytes)
        self._stack = AsyncExitStack()
        self._frames: AsyncGenerator[ServerSentEvent] | None = None
        self._body: AsyncGenerator[bytes] | None = None
        self._started_at = 0.0
        self._has_event = False
        self._interrupted = False
        self._patience: Patience | None = None
        self._total_at = self._first_event_at = self._idle_seconds = math.inf

    async def __anext__(self) -> WireEvent:
        if self._interrupted:
            raise StopAsyncIteration
        frames = self._frames or await self._open()
        async for frame in frames:
            # Frames without data are comments' blank lines, or carry only what AG-UI does not use (SSE-5).
            if data := frame.data:
                self._has_event = True
                if len(data) > self._max_event_bytes:
                    raise self._meter.too_large(len(data))
                return self._decode(data)
        raise StopAsyncIteration

    def interrupt(self) -> None:
        """Stop reading now, even in the middle of a wait."""
        self._interrupted = True
        if self._patience is not None:
            self._patience.end()

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self._interrupted = True
        with anyio.CancelScope(shield=True):
            if self._frames is not None:
                await self._frames.aclose()
            await self._finish_body()
            await self._stack.aclose()
        if self._patience is not None:
            self._patience.close()

    async def _open(self) -> AsyncGenerator[ServerSentEvent]:
        self._patience = Patience.here()
        self._start_clock(self._patience.now())
        client = await self._stack.enter_async_context(self._transport.client())
        response = await self._wait_for(self._patience, self._transport.send(client, self._request))
        if response is None:
            raise StopAsyncIteration
        self._stack.push_async_callback(response.aclose)
        self.connect_seconds = anyio.current_time() - self._started_at
        self.response = _describe(response)
        self._body = cast("AsyncGenerator[bytes]", response.aiter_bytes())
        await self._check(response)
        self._frames = EventSource(_TextResponse(self._read)).aiter_sse()
        return self._frames

    async def _check(self, response: httpx.Response) -> None:
        """Refuse what is no event stream: an HTTP status means that the run never started (SSE-3, SSE-8)."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.is_success and media_type == EVENT_STREAM:
            return
        body = await self._read_body(response)
        where = f"{address_of(response.url)} answered {response.status_code} {response.reason_phrase}".rstrip()
        if response.is_success:
            raise UnexpectedContentTypeError(
                f"{where} with {media_type or 'no content type'} instead of {EVENT_STREAM}; is this the agent's "
                f"address? The body starts: {body[:_SNIPPET]!r}",
                content_type=media_type,
                body=body[:_SNIPPET],
            )
        moved = f"; it points to {address_of(response.next_request.url)}" if response.next_request else ""
        raise HTTPStatusError(
            f"{where}{moved}: {body[:_SNIPPET]}" if body else f"{where}{moved}",
            status_code=response.status_code,
            body=body,
            headers={name: value for name, value in response.headers.items() if not _SECRET_HEADER.search(name)},
        )

    async def _read_body(self, response: httpx.Response) -> str:
        """What a refusal says, as far as it comes soon and is short enough to keep."""
        assert self._body is not None
        assert self._patience is not None
        content = bytearray()
        deadline = min(self._patience.now() + _BODY_SECONDS, self._total_at)
        with suppress(httpx.HTTPError, StopAsyncIteration):
            while len(content) < _BODY_LIMIT:
                chunk = await self._patience.wait(self._body.__anext__(), deadline)
                if chunk is None:
                    break
                content += chunk
        if self._interrupted:
            raise StopAsyncIteration
        return _text(bytes(content[:_BODY_LIMIT]), response.encoding)

    async def _read(self) -> str:
        """The text of the next chunk; at the end, whatever terminates a last frame."""
        if self._body is None or self._patience is None or self._interrupted:
            raise StopAsyncIteration
        try:
            chunk = await self._wait_for(self._patience, self._body.__anext__())
        except StopAsyncIteration:
            return self._finish_frames()
        if chunk is None:
            raise StopAsyncIteration
        return self._meter.feed(chunk)

    def _finish_frames(self) -> str:
        self._body = None
        terminator = self._meter.finish()
        if terminator:
            self._decode = self._decoder.finish
        return terminator

    async def _wait_for(self, patience: Patience, step: Awaitable[T]) -> T | None:
        """Await one step of the exchange under its time limit; None if it was interrupted."""
        silent_at = patience.now() + self._idle_seconds if self._has_event else self._first_event_at
        try:
            result = await patience.wait(step, min(silent_at, self._total_at))
        except _FOREIGN as error:
            _translate(error, self._request.timeouts, self._transport.address)
        if result is None and not self._interrupted:
            self._expire()
        return result

    def _start_clock(self, now: float) -> None:
        limits = self._request.timeouts
        self._started_at = now
        self._total_at, self._first_event_at = _end(now, limits.total), _end(now, limits.first_event)
        self._idle_seconds = _end(0.0, limits.idle)

    def _expire(self) -> NoReturn:
        limits = self._request.timeouts
        elapsed = anyio.current_time() - self._started_at
        if limits.total is not None and elapsed >= limits.total:
            raise RunTimeoutError(f"the run took longer than {limits.total:g} s; raise Timeouts.total to allow more")
        if not self._has_event:
            raise FirstEventTimeoutError(
                f"no event arrived within {limits.first_event:g} s; "
                "raise Timeouts.first_event if the agent needs longer"
            )
        raise IdleTimeoutError(
            f"the stream was silent for {limits.idle:g} s, {elapsed:.1f} s into the run; "
            "raise Timeouts.idle, or let the server send comments to keep it alive"
        )

    async def _finish_body(self) -> None:
        """Let the generators inside httpx run to their end, by cancelling the read that they are asked for.

        Dropping them half-way leaves the closing to the garbage collector, which costs a task on asyncio and a
        ResourceWarning on trio. A cancelled read closes the connection at once on both.
        """
        body, self._body = self._body, None
        if body is None:
            return
        with anyio.CancelScope() as scope, suppress(httpx.HTTPError):
            scope.cancel()
            for _ in range(_FINAL_READS):
                if not await anext(body, b""):
                    return
            await body.aclose()


class _TextResponse(httpx.Response):
    """What httpx-sse reads from: a response whose text is read, timed and measured by `HttpSource`."""

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        super().__init__(200, headers={"content-type": EVENT_STREAM})
        self._read_text = read

    def aiter_text(self, chunk_size: int | None = None) -> _Texts:
        """The chunks as they come."""
        return _Texts(self._read_text)


class _Texts(AsyncIterator[str]):
    """An iterator without a generator's frame, so that nothing is left suspended when a run is left early."""

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        self._read = read

    def __anext__(self) -> Awaitable[str]:
        return self._read()


_FOREIGN = (httpx.RequestError, httpx.InvalidURL)


def _translate(error: Exception, limits: Timeouts, address: str) -> NoReturn:
    """The one place where httpx's exceptions become ours."""
    match error:
        case httpx.ConnectTimeout():
            raise ConnectTimeoutError(f"no connection to {address} within {limits.connect:g} s") from error
        case httpx.PoolTimeout():
            raise ConnectTimeoutError(f"the HTTP client had no connection free within {limits.pool:g} s") from error
        case httpx.ConnectError():
            raise ConnectError(f"no connection to {address}: {error}; is the agent running there?") from error
        case httpx.LocalProtocolError():
            # Its text shows the header that is wrong, and that may be the one with the secret.
            raise UsageError("the request cannot be sent: a header's name or value is not valid in HTTP") from None
        case httpx.TransportError():
            raise ConnectError(f"the connection to {address} broke: {str(error) or type(error).__name__}") from error
        case _:
            raise TransportError(f"{type(error).__name__}: {error}") from error


def _end(start: float, seconds: float | None) -> float:
    return math.inf if seconds is None else start + seconds


def _text(content: bytes, encoding: str | None) -> str:
    try:
        return content.decode(encoding or "utf-8", "replace")
    except LookupError:
        # The server named a charset that is none for text.
        return content.decode("utf-8", "replace")


def _describe(response: httpx.Response) -> ResponseInfo:
    headers = {name: "[redacted]" if _SECRET_HEADER.search(name) else value for name, value in response.headers.items()}
    return ResponseInfo(response.status_code, headers, response.http_version)
