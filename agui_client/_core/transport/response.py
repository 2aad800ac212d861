"""A response: its head, of which some may be shown (SSE-3, SEC-9), and its body, read chunk by chunk (SSE-9).

The body can be left without a trace at any point. Its content coding is undone here, in pieces of bounded size: httpx
unpacks each read whole, and a kilobyte that was packed twice becomes gigabytes before anybody can count them.
"""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import httpx

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.secrets import REDACTED, may_show_header, without_sent

if TYPE_CHECKING:
    from agui_client._core.transport.clock import Clock

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ResponseInfo(Record):
    """The HTTP response that carried a run."""

    status_code: int
    """The HTTP status."""
    headers: Mapping[str, str]
    """Response headers, names in lower case; those that may carry secrets read "[redacted]"."""
    http_version: str
    """The version of HTTP, such as "HTTP/1.1"."""


def info_of(response: httpx.Response, sent: Collection[str]) -> ResponseInfo:
    """Return the head of a response; the headers that may carry secrets keep their names only.

    Args:
        sent: The secrets that were sent, see `SentSecrets`.
    """
    shown = headers_to_show(response, sent)
    headers = {without_sent(name, sent) if sent else name: shown.get(name, REDACTED) for name in response.headers}
    return ResponseInfo(response.status_code, headers, response.http_version)


def headers_to_show(response: httpx.Response, sent: Collection[str]) -> dict[str, str]:
    """Return the headers without those that may carry secrets.

    Args:
        sent: The secrets that were sent, see `SentSecrets`.
    """
    headers = {name: value for name, value in response.headers.items() if may_show_header(name, value)}
    if not sent:
        return headers
    return {name: without_sent(value, sent) for name, value in headers.items() if without_sent(name, sent) == name}


def media_type_of(response: httpx.Response) -> str:
    """Return the type of the body, in lower case and without parameters; empty if the response names none."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def is_of(response: httpx.Response, media_type: str) -> bool:
    """Return whether a response carries what was asked for (SSE-3)."""
    return response.is_success and media_type_of(response) == media_type


ACCEPTED = "gzip"
"""The codings that requests accept."""
_LARGEST_PIECE = 256 * 1024
_GZIP = b"\x1f"
"""The first byte of a member of gzip."""
_UNPACKED = ("gzip", "x-gzip", "deflate")
_CODINGS = (*_UNPACKED, "compress", "x-compress", "br", "zstd")
_REFUSAL_LIMIT = 64 * 1024
_REFUSAL_SECONDS = 5.0
_FINAL_READS = 10_000
"""More chunks than one read from a socket can hold; a body that gives more without waiting is no network's."""


class Body:
    """The bytes of one response, its content coding undone.

    Args:
        response: The response, its body not yet read.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        # A response made by hand, as tests do with a MockTransport, was read when it was made, and unpacked.
        is_read = response.is_stream_consumed
        # What `aiter_raw()` reads, without a step in between.
        unread = response.aiter_bytes() if is_read else aiter(cast("httpx.AsyncByteStream", response.stream))
        self._packed = cast("AsyncGenerator[bytes]", unread)
        self.media_type = media_type_of(response)
        """The type of the content, in lower case; empty if the response names none."""
        # Other words there, such as "none", mean nothing.
        named = re.split(r"[\s,]+", response.headers.get("content-encoding", "").lower())
        codings = [] if is_read else [name for name in named if name in _CODINGS]
        self.chunks = _unpacked(self._packed, codings) if codings else self._packed
        """The content, read by read."""

    async def read_into(self, content: bytearray, most: int, clock: Clock, seconds: float) -> None:
        """Read the body to its end.

        Args:
            content: The bytes are added to it.
            most: Reading ends when there are as many.
            clock: The run's time limits.
            seconds: The longest silence.
        """
        with suppress(StopAsyncIteration):
            while len(content) < most and not clock.is_interrupted:
                chunk = await clock.wait(self.chunks.__anext__(), seconds)
                if chunk is None:
                    clock.give_up()
                content += chunk

    async def read_text(self, clock: Clock) -> str:
        """Return the text of a refusal, as far as it comes soon: at most 64 KiB."""
        content = bytearray()
        with suppress(Exception):
            await self.read_into(content, _REFUSAL_LIMIT, clock, _REFUSAL_SECONDS)
        return content[:_REFUSAL_LIMIT].decode("utf-8", "replace")

    def shut(self) -> None:
        """Close the connection at once, without waiting for anything, if no other run shares it."""
        # Streams of HTTP/2 share one connection, and transports that are no network have none.
        stream = self._response.extensions.get("network_stream")
        if stream is None or not self._response.http_version.startswith("HTTP/1"):
            return
        if (connection := stream.get_extra_info("socket")) is not None:
            # A twin, as uvloop's own cannot be shut down.
            with suppress(OSError), socket.fromfd(connection.fileno(), connection.family, connection.type) as twin:
                twin.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Close the response. Idempotent."""
        if self._response.is_closed:  # It was read to its end, and with it every generator.
            return
        with anyio.CancelScope(shield=True):
            await self.finish()
            await self._response.aclose()

    async def finish(self) -> None:
        """End what reads the body."""
        await _finish(self.chunks)
        await _finish(self._packed)


def bound_body(response: httpx.Response, most: int) -> None:
    """Have all that reads a response get its content, unpacked here, and no more than some bytes of it.

    Args:
        response: The response, its body not yet read.
        most: The bytes.
    """
    if not response.is_stream_consumed:
        response.stream = _BoundedStream(response, most)
        response.headers.pop("content-encoding", None)


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, most: int) -> None:
        self._body, self._most = Body(response), most
        self._stream = cast("httpx.AsyncByteStream", response.stream)

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        left = self._most
        async for chunk in self._body.chunks:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        """Close the response, whose body need not have been read."""
        await self._body.finish()
        await self._stream.aclose()


async def _finish(chunks: AsyncGenerator[bytes]) -> None:
    """Let the generators inside httpx run to their end, by cancelling a read.

    Dropping them half-way leaves the closing to the garbage collector, which costs a task on asyncio and a
    ResourceWarning on trio. A cancelled read closes the connection at once on both.
    """
    if getattr(chunks, "ag_frame", chunks) is None:
        # A body that was read to its end has nothing left to cancel, as nearly all have.
        return
    with anyio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_FINAL_READS):
            if not await anext(chunks, b""):
                return
        await chunks.aclose()


async def _unpacked(packed: AsyncIterator[bytes], codings: list[str]) -> AsyncGenerator[bytes]:
    """Undo gzip or deflate; bytes behind the end of the packed content are left out.

    Args:
        packed: The body.
        codings: The codings that it is packed with, at least one.

    Yields:
        The content in pieces of at most 256 KiB.

    Raises:
        httpx.DecodingError: It cannot be unpacked.
    """
    if len(codings) > 1 or codings[0] not in _UNPACKED:
        raise httpx.DecodingError(f"it is packed as {', '.join(codings)}; the request accepts {ACCEPTED}, once")
    unpacker = Unpacker()
    async for chunk in packed:
        for piece in unpacker.feed(chunk):
            if piece:
                yield piece
            if len(piece) == _LARGEST_PIECE:
                # A read may hold a thousand pieces, and nothing but time-outs and an abort ends that.
                await anyio.lowlevel.checkpoint()


class Unpacker:
    """Undoes gzip, of any number of members (RFC 1952, 2.2), or deflate."""

    def __init__(self) -> None:
        self._unpacker = _new_unpacker()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the content of the next bytes, in pieces of at most 256 KiB; some may be empty.

        Args:
            chunk: Bytes of the packed content, cut anywhere; those behind its end are left out.

        Raises:
            httpx.DecodingError: They cannot be unpacked.
        """
        waiting, is_full = chunk, False
        while waiting or is_full:
            if self._unpacker.eof:
                # Servers that flush by ending the member send one for each event.
                if not waiting.startswith(_GZIP):
                    return
                self._unpacker = _new_unpacker()
            try:
                piece = self._unpacker.decompress(waiting, _LARGEST_PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            waiting = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
            is_full = len(piece) == _LARGEST_PIECE and not self._unpacker.eof
            yield piece


def _new_unpacker() -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: the content's header tells gzip from zlib
