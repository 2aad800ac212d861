"""Reading the answer to one POST: bytes become frames, and frames events; timed and interruptible (SSE-3 … SSE-13).

Leaving early finishes every generator inside httpx before the run is left.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel

from agui_client._protocol.decode import Decoder
from agui_client._protocol.events import WireEvent
from agui_client._protocol.warnings import WarningLog
from agui_client._transport.client import Attempt, Request, Transport
from agui_client._transport.clock import Clock
from agui_client._transport.delivery import Delivery
from agui_client._transport.response import Body, ResponseInfo
from agui_client._transport.source import Source
from agui_client._transport.sse import Framer
from agui_client.errors import AGUIError, StreamTooLargeError

_WAITED_SECONDS = 0.01
"""A read that takes longer has waited: bytes that are there already take a thousandth of it."""


class HttpSource(Source):
    """The events of one POST (SSE-4 … SSE-11).

    Args:
        transport: The way to the agent.
        request: The request to post.
        warnings: The run's warnings, which know the index of the present event.
    """

    conforming = True

    def __init__(self, transport: Transport, request: Request, warnings: WarningLog) -> None:
        self.connect_seconds: float | None = None
        """Seconds from the first attempt to the headers of the accepted response; None before they arrive."""
        self._transport, self._request = transport, request
        self._decoder, self._framer = Decoder(warnings), Framer(transport.max_event_bytes)
        self._received, self._has_waited = 0, False
        self._most = math.inf if transport.max_run_bytes is None else transport.max_run_bytes
        self._stack = AsyncExitStack()
        self._clock: Clock
        self._delivery: Delivery | None = None
        self._body: Body | None = None
        self._next_chunk: Callable[[], Awaitable[bytes]] | None = None

    @property
    def attempts(self) -> Sequence[Attempt]:
        """The attempts to deliver the POST, in order."""
        return self._delivery.attempts if self._delivery else ()

    @property
    def response(self) -> ResponseInfo | None:
        """The latest response; None until its headers are there."""
        return self._delivery.response if self._delivery else None

    @property
    def may_have_started(self) -> bool:
        """Whether the agent may have begun to work."""
        return self._delivery is not None and self._delivery.may_have_started

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait until at least one frame is complete."""
        if self.is_interrupted:
            return None
        try:
            next_chunk = self._next_chunk or await self._open()
            clock = self._clock
            while not clock.is_interrupted:
                silence = clock.idle_seconds if clock.latest_frame else clock.left_for_first_event
                chunk = await clock.wait(next_chunk(), silence)
                if chunk is None:
                    clock.give_up()
                self._shut_if_interrupted()
                self._received += len(chunk)
                if self._received > self._most:
                    raise self._too_large()
                if frames := self._framer.feed(chunk):
                    self._has_waited = clock.now() - clock.since > _WAITED_SECONDS
                    clock.latest_frame = frames[-1]
                    return map(self._decoder.feed, frames)
        except StopAsyncIteration:
            pass
        except Exception as error:
            if self._body is None or isinstance(error, AGUIError):
                raise
            self._clock.fail(error)
        return self._finish()

    async def pause(self) -> None:
        """Let the event loop have its turn, unless it had one in the latest read; see that the run has time left."""
        if self._has_waited:
            self._has_waited = False
        else:
            await anyio.lowlevel.checkpoint()
        if not self.is_interrupted and self._delivery is not None and self._clock.now() >= self._clock.until:
            self._clock.give_up()

    def interrupt(self) -> bool:
        """Stop reading now, even in the middle of a wait; if nothing waits, the connection is closed at once."""
        self.is_interrupted = True
        if self._delivery is None:
            return False
        was_waiting = self._clock.interrupt()
        if not was_waiting:
            self._shut_if_interrupted()
        return was_waiting

    def _too_large(self) -> StreamTooLargeError:
        what = f"the run brought {self._received} bytes, which exceeds max_run_bytes={self._most}"
        advice = "raise that option, or give None, if the agent really sends as much"
        return StreamTooLargeError(f"{what}; {advice}", rule="SSE-12")

    def _shut_if_interrupted(self) -> None:
        """Close the connection at once; an interrupt finds no wait to cancel when the chunk has just come."""
        if self.is_interrupted and self._body is not None:
            self._body.shut()

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self.is_interrupted = True
        with anyio.CancelScope(shield=True):
            await self._stack.aclose()
        if self._delivery is not None:
            self._clock.close()

    async def _open(self) -> Callable[[], Awaitable[bytes]]:
        """Post the run; return the function that reads the next chunk of the answer."""
        self._clock = Clock(self._request.timeouts, self._framer, self._transport.address, self._request.until)
        self._delivery = Delivery(self._transport, self._request, self._clock)
        client = await self._stack.enter_async_context(self._transport.clients.client())
        self._body = body = await self._delivery.deliver(client)
        self._stack.push_async_callback(body.aclose)
        self.connect_seconds = self._clock.elapsed
        self._next_chunk = body.chunks.__anext__
        return self._next_chunk

    def _finish(self) -> Iterable[WireEvent] | None:
        """Return the event of a last frame that no blank line terminated, once."""
        if self.is_interrupted or self._body is None:
            return None
        self._body = None
        frames = self._framer.finish()
        return map(self._decoder.finish, frames) if frames else None
