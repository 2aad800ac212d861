"""Reading what an agent sends: the data of each SSE frame, timed, bounded and interruptible (SSE-3 … SSE-13).

Leaving early finishes every generator inside httpx before the run is left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import httpx
from httpx_sse import EventSource

from agui_client._pipeline.decode import Decoder
from agui_client._pipeline.framing import StreamMeter
from agui_client._pipeline.source import Source
from agui_client._pipeline.transport.client import Request, Transport
from agui_client._pipeline.transport.clock import Clock
from agui_client._pipeline.transport.delivery import Delivery
from agui_client._pipeline.transport.response import EVENT_STREAM

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.transport.body import Body
    from agui_client._pipeline.transport.delivery import Attempt
    from agui_client._pipeline.transport.response import ResponseInfo
    from agui_client._pipeline.warnings import WarningLog


class HttpSource(Source):
    """The events of one POST (SSE-4 … SSE-11).

    Args:
        transport: Where to post.
        request: What to post.
        warnings: The run's warnings; knows the index of the event at hand.
    """

    conforming = True

    def __init__(self, transport: Transport, request: Request, warnings: WarningLog) -> None:
        self.connect_seconds: float | None = None
        """From the first attempt to the headers of the response that was accepted; None before they arrive."""
        self._transport = transport
        self._request = request
        self._decoder = Decoder(warnings)
        self._decode: Callable[[str], WireEvent] = self._decoder.feed
        self._max_event_bytes = transport.max_event_bytes
        self._meter = StreamMeter(transport.max_event_bytes)
        self._stack = AsyncExitStack()
        self._clock: Clock
        self._delivery: Delivery | None = None
        self._body: Body | None = None
        self._frames: AsyncGenerator[ServerSentEvent] | None = None
        self._interrupted = False

    @property
    def attempts(self) -> Sequence[Attempt]:
        """What was tried to deliver the POST, in order."""
        return self._delivery.attempts if self._delivery else ()

    @property
    def response(self) -> ResponseInfo | None:
        """The latest response; None until its headers are there."""
        return self._delivery.response if self._delivery else None

    @property
    def may_have_started(self) -> bool:
        """Whether the agent may have begun to work."""
        return self._delivery is not None and self._delivery.may_have_started

    async def __anext__(self) -> WireEvent:
        if self._interrupted:
            raise StopAsyncIteration
        frames = self._frames or await self._open()
        async for frame in frames:
            # Frames without data are comments' blank lines, or carry only what AG-UI does not use (SSE-5).
            if data := frame.data:
                if len(data) > self._max_event_bytes:
                    raise self._meter.too_large(len(data))
                self._clock.latest = event = self._decode(data)
                return event
        raise StopAsyncIteration

    def interrupt(self) -> bool:
        """Stop reading now, even in the middle of a wait; where nobody waits, the connection is closed at once."""
        self._interrupted = True
        if self._delivery is None:
            return False
        was_waiting = self._clock.interrupt()
        if not was_waiting and self._body is not None:
            self._body.shut()
        return was_waiting

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self._interrupted = True
        with anyio.CancelScope(shield=True):
            if self._frames is not None:
                await self._frames.aclose()
            await self._stack.aclose()
        if self._delivery is not None:
            self._clock.close()

    async def _open(self) -> AsyncGenerator[ServerSentEvent]:
        self._clock = Clock(self._request.timeouts, self._meter, self._transport.address)
        self._delivery = Delivery(self._transport, self._request, self._clock)
        client = await self._stack.enter_async_context(self._transport.client())
        self._body = body = await self._delivery.deliver(client)
        self._stack.push_async_callback(body.aclose)
        self.connect_seconds = self._clock.elapsed
        self._frames = EventSource(_TextResponse(self._read)).aiter_sse()
        return self._frames

    async def _read(self) -> str:
        """The text of the next chunk; at the end, whatever terminates a last frame."""
        if self._body is None or self._interrupted:
            raise StopAsyncIteration
        try:
            chunk = await self._clock.wait(self._body.read())
        except StopAsyncIteration:
            if self._interrupted:
                raise
            return self._finish_frames()
        return self._meter.feed(chunk)

    def _finish_frames(self) -> str:
        self._body = None
        terminator = self._meter.finish()
        if terminator:
            self._decode = self._decoder.finish
        return terminator


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
