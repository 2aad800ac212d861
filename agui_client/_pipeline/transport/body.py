"""A response's body: read chunk by chunk, and left without a trace at any point (SSE-9)."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio
import anyio.lowlevel
import httpx

from agui_client._pipeline.transport.unpack import LARGEST_PIECE, Unpacker, packings_of

if TYPE_CHECKING:
    from agui_client._pipeline.transport.clock import Clock

_REFUSAL_LIMIT = 64 * 1024
_REFUSAL_SECONDS = 5.0
_FINAL_READS = 10_000
"""More chunks than one read from a socket can hold; a body that gives more without waiting is no network's."""
_WAY_TO_H11 = ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
"""Private names: where they are others, unasked bytes are not noticed. httpcore looks at the socket only."""


class Body:
    """The bytes of one response, its content coding undone.

    Args:
        response: The response, its body not yet read.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        # A response made by hand, as tests do with a MockTransport, was read when it was made, and unpacked.
        is_read = response.is_stream_consumed
        self._packed = cast("AsyncGenerator[bytes]", response.aiter_bytes() if is_read else response.aiter_raw())
        packings = [] if is_read else packings_of(response.headers.get("content-encoding", ""))
        self._chunks = _unpacked(self._packed, packings) if packings else self._packed

    def read(self) -> Awaitable[bytes]:
        """The next chunk; StopAsyncIteration at the end."""
        return self._chunks.__anext__()

    async def read_text(self, clock: Clock) -> str:
        """What a refusal says, as far as it comes soon and is short enough to keep: at most 64 KiB."""
        content = bytearray()
        with suppress(httpx.HTTPError):
            async for chunk in _Soon(self, clock):
                content += chunk
                if len(content) >= _REFUSAL_LIMIT:
                    break
        return _text(bytes(content[:_REFUSAL_LIMIT]), self._response)

    def shut(self) -> None:
        """Close the connection at once, without waiting for anything, if nobody shares it."""
        # Streams of HTTP/2 share one connection, and transports that are no network have none.
        stream = self._response.extensions.get("network_stream")
        if stream is None or not self._response.http_version.startswith("HTTP/1"):
            return
        if (connection := stream.get_extra_info("socket")) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Close the response. Idempotent."""
        await _finish(self._chunks)
        await _finish(self._packed)
        await self._response.aclose()
        if _is_followed(self._response):
            # A kept connection would give what follows as the answer to the next request (RFC 9112, 9.2).
            self.shut()


class _Soon(AsyncIterator[bytes]):
    """The chunks that come within a few seconds."""

    def __init__(self, body: Body, clock: Clock) -> None:
        self._body = body
        self._clock = clock

    async def __anext__(self) -> bytes:
        chunk = await self._clock.wait_briefly(self._body.read(), _REFUSAL_SECONDS)
        if chunk is None:
            raise StopAsyncIteration
        return chunk


async def _unpacked(packed: AsyncIterator[bytes], packings: list[str]) -> AsyncGenerator[bytes]:
    unpacker = Unpacker(packings)
    async for chunk in packed:
        for piece in unpacker.feed(chunk):
            yield piece
            if len(piece) == LARGEST_PIECE:
                # A read may hold a thousand of them, and nothing but time-outs and an abort ends that.
                await anyio.lowlevel.checkpoint()


def _is_followed(response: httpx.Response) -> bool:
    """Whether bytes came behind the response that nobody asked for, as far as httpx and httpcore let that be seen."""
    found: object = response.stream
    for name in _WAY_TO_H11:
        found = getattr(found, name, None)
    unread = getattr(found, "trailing_data", None)
    return unread is not None and bool(unread[0])


async def _finish(chunks: AsyncGenerator[bytes]) -> None:
    """Let the generators inside httpx run to their end, by cancelling the read that they are asked for.

    Dropping them half-way leaves the closing to the garbage collector, which costs a task on asyncio and a
    ResourceWarning on trio. A cancelled read closes the connection at once on both.
    """
    with anyio.CancelScope() as scope, suppress(httpx.HTTPError, httpx.StreamError):
        scope.cancel()
        for _ in range(_FINAL_READS):
            if not await anext(chunks, b""):
                return
        await chunks.aclose()


def _text(content: bytes, response: httpx.Response) -> str:
    """The content in the charset that the server names, if it is one; never with half a character in it."""
    try:
        text = content.decode(response.encoding or "utf-8", "replace")
    except Exception:
        # Python has codecs that are no charsets, such as "idna" and "undefined"; each fails in its own way.
        text = content.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode()
