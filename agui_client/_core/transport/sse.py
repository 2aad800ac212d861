"""Framing: split the bytes of an event stream into the data of its frames (SSE-4 … SSE-7, SSE-12).

Sans-I/O. Nearly every read consists of whole frames of one `data:` line each, and is split in one pass. Anything else
is collected up to a blank line, and read by httpx-sse.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cached_property

import httpx
from httpx_sse import EventSource

from agui_client.errors import DecodeError, ProtocolError, StreamTooLargeError

EVENT_STREAM = "text/event-stream"

_COMMENT = re.compile(rb"^:.*\n", re.MULTILINE)


class Framer:
    """Splits one event stream.

    Args:
        max_event_bytes: The largest frame that is accepted, in bytes.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self.keep_alives: int = 0
        """The number of reads that began with a comment; servers send them while they have no event (SSE-6)."""
        self._max_event_bytes = max_event_bytes
        # The frame under construction, its line ends LF; the lines up to there hold no comments any more.
        self._rest, self._cleared_to = bytearray(), 0
        self._ended_with_cr, self._is_at_start = False, True
        self._fault: ProtocolError | None = None

    def feed(self, chunk: bytes) -> list[str]:
        """Split the next bytes.

        Args:
            chunk: Bytes of the body, cut anywhere.

        Returns:
            The data of the frames that are complete now; frames without data are left out (SSE-5).

        Raises:
            StreamTooLargeError: A frame is larger than allowed; the frames before it were returned.
            DecodeError: A frame is not UTF-8; the frames before it were returned.
        """
        if self._fault is not None:
            raise self._fault
        is_data = chunk.startswith(b"data: ")
        if self._rest or not is_data or not chunk.endswith(b"\n\n") or b"\r" in chunk:
            chunk = self._complete(chunk)
            is_data = chunk.startswith(b"data: ")
        if is_data and len(chunk) <= self._max_event_bytes:
            try:
                text = chunk.decode()
            except UnicodeDecodeError:
                return self._split(chunk)
            line_ends = text.count("\n")
            data = text[6:-2]
            frames = [data] if line_ends == 2 else data.split("\n\ndata: ")
            # With two line ends to a frame, none is left that could stand inside of one.
            if line_ends == 2 * len(frames) and "" not in frames:
                self._is_at_start = False
                return frames
        return self._split(chunk)

    def finish(self) -> list[str]:
        """End the stream.

        Returns:
            The data of a last frame that no blank line terminated, without half a character that the end cut off;
            nothing if there is none.

        Raises:
            ProtocolError: The same as from `feed`.
        """
        if self._fault is not None:
            raise self._fault
        if not self._rest:
            return []
        last, self._rest = bytes(self._rest), bytearray()
        return self._split(last, is_whole=False)

    def _complete(self, chunk: bytes) -> bytes:
        """Add to the frame under construction, and return the frames that are complete now."""
        rest = self._rest
        if chunk.startswith(b":") and (not rest or rest.endswith(b"\n")):
            self.keep_alives += 1
        if chunk:
            # CR LF that was cut in two: the CR ended the line already.
            chunk = chunk.removeprefix(b"\n") if self._ended_with_cr else chunk
            self._ended_with_cr = chunk.endswith(b"\r")
        # A blank line may have been cut in two; what was searched before it is not searched again.
        seam = max(len(rest) - 1, 0)
        rest += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = rest.rfind(b"\n\n", seam) + 2
        frames = bytes(rest[:end]) if end > 1 else b""
        if frames:
            del rest[: len(frames)]
            self._cleared_to = 0
        if len(rest) > self._max_event_bytes:
            # A server may send any number of comments (SSE-6).
            rest[self._cleared_to :] = _COMMENT.sub(b"", rest[self._cleared_to :])
            self._cleared_to = max(rest.rfind(b"\n", self._cleared_to) + 1, self._cleared_to)
            if (size := len(rest) - rest.endswith(b"\n")) > self._max_event_bytes:
                self._fault = self._too_large(size)
        return frames

    def _split(self, frames: bytes, *, is_whole: bool = True) -> list[str]:
        """Split frames of any form, up to the first fault in them."""
        whole: list[str] = []
        if frames and self._is_at_start:
            self._is_at_start, frames = False, frames.removeprefix(codecs.BOM_UTF8)
        # Frame by frame, so that those before a broken one are still given to the caller.
        for frame in filter(None, frames.split(b"\n\n")):
            try:
                text, _ = codecs.utf_8_decode(frame, "strict", is_whole)
            except UnicodeDecodeError as error:
                where = f"{error.reason} at its byte {error.start}"
                message = f"a frame is not UTF-8: {where}; the server must send text as UTF-8"
                self._fault = DecodeError(message, rule="PROC-12")
                break
            whole.append(text)
        self._lines.text_to_read = "".join(f"{text}\n\n" for text in whole)
        found: list[str] = []
        may_be_too_large = len(frames) > self._max_event_bytes
        # Everything that is rare (fields, comments, data on several lines) is left to the library.
        for event in EventSource(self._lines).iter_sse():
            if may_be_too_large and (size := len(event.data.encode())) > self._max_event_bytes:
                self._fault = self._too_large(size)
                break
            # An empty `data:` is dispatched by no reader of SSE, and is not JSON (SSE-5).
            if event.data:
                found.append(event.data)
        if self._fault is not None and not found:
            raise self._fault
        return found

    @cached_property
    def _lines(self) -> _Lines:
        return _Lines(200, headers={"content-type": EVENT_STREAM})

    def _too_large(self, size: int) -> StreamTooLargeError:
        what = f"a frame of at least {size} bytes exceeds max_event_bytes={self._max_event_bytes}"
        advice = "raise that option if the agent really sends events this large"
        return StreamTooLargeError(what, rule="SSE-12", fix=advice)


class _Lines(httpx.Response):
    """A response for httpx-sse to read, whose text has arrived already."""

    text_to_read = ""

    def iter_text(self, chunk_size: int | None = None) -> Iterator[str]:
        """Return the text in one piece."""
        return iter((self.text_to_read,))
