"""Framing: response bytes become the text that httpx-sse reads, watched over for size, cuts and broken UTF-8.

Sans-I/O. `StreamMeter` sees every chunk before httpx-sse does, because the frame under construction inside that library
is out of reach: an endless frame must be noticed while it grows, and an unterminated one at the end (SSE-12).
"""

from __future__ import annotations

import codecs
import re

from agui_client.errors import DecodeError, ProtocolError, StreamTooLargeError

_LINES = re.compile(rb"[^\r\n]+|[\r\n]+")
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")
_LINE_ENDS = (b"", b"\n", b"\r")
_BOM = "\ufeff"


class StreamMeter:
    """Follows the bytes of an SSE body.

    Args:
        max_event_bytes: The largest frame that is accepted, in bytes.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self.max_event_bytes = max_event_bytes
        self.received = 0
        """Bytes seen so far, after content decoding."""
        self.keep_alives = 0
        """Reads that began with a comment, which is how servers keep a quiet stream alive (SSE-6)."""
        self._pending = self._comment = 0
        self._last = b""
        self._line: bytes | None = None
        self._undecoded = b""
        self._failure: ProtocolError | None = None
        self._is_at_start = True

    def feed(self, chunk: bytes) -> str:
        """Account for a chunk and decode it.

        What came before a fault still counts: the fault is raised when more is asked for.

        Args:
            chunk: Body bytes, cut anywhere.

        Returns:
            Its text, without a byte order mark at the start of the stream.

        Raises:
            StreamTooLargeError: The frame under construction had become larger than allowed.
            DecodeError: The bytes before were not UTF-8.
        """
        if self._failure is not None:
            raise self._failure
        self.received += len(chunk)
        if chunk[:1] == b":" and self._last[-1:] in _LINE_ENDS:
            self.keep_alives += 1
        self._measure(chunk)
        return self._decode(chunk)

    def finish(self) -> str:
        """The end of the body.

        Returns:
            Empty if the last frame was complete, otherwise what terminates it, so that its data comes out after all.

        Raises:
            ProtocolError: As `feed`, if that was still to be said.
        """
        if self._failure is not None:
            raise self._failure
        return "\n\n" if self._pending else ""

    def too_large(self, size: int) -> StreamTooLargeError:
        """What to raise about a frame.

        Args:
            size: How large it is at least, in bytes.
        """
        return StreamTooLargeError(
            f"a frame of at least {size} bytes exceeds max_event_bytes={self.max_event_bytes}; "
            "raise that option if the agent really sends events this large",
            rule="SSE-12",
        )

    def _measure(self, chunk: bytes) -> None:
        """Follow how much waits to become a frame: what came after the last blank line."""
        if chunk.endswith(b"\n\n"):  # Most servers flush whole events, and then nothing waits.
            self._pending, self._comment, self._line, self._last = 0, 0, None, b"\n\n"
            return
        tail = _after_blank_line(chunk)
        if tail is None:
            tail = chunk
            is_reset = _after_blank_line(self._last + chunk[:2]) is not None
        else:
            is_reset = True
        if is_reset:
            self._pending, self._comment, self._line = 0, 0, None
        self._last = (self._last + chunk[-2:])[-2:]
        self._pending += self._weigh(tail)
        if self._pending + self._comment > self.max_event_bytes:
            self._failure = self.too_large(self._pending + self._comment)

    def _weigh(self, part: bytes) -> int:
        """The bytes in it that wait to become a frame; comments do not, at whatever cadence they come (SSE-6).

        Only a comment that is still going on waits, for the end of its line.
        """
        weight = 0
        for piece in _LINES.findall(part):
            if piece[0] in b"\r\n":
                self._line, self._comment = None, 0
                continue
            if self._line is None:
                self._line = piece[:1]
            if self._line == b":":
                self._comment += len(piece)
            else:
                weight += len(piece)
        return weight

    def _decode(self, chunk: bytes) -> str:
        data = self._undecoded + chunk if self._undecoded else chunk
        try:
            text, used = codecs.utf_8_decode(data, "strict", False)
        except UnicodeDecodeError as error:
            where = self.received - len(data) + error.start
            self._failure = DecodeError(f"the stream is not UTF-8: {error.reason} at byte {where}", rule="PROC-12")
            text, used = data[: error.start].decode(), len(data)
        self._undecoded = data[used:]
        if self._is_at_start and text:
            self._is_at_start = False
            return text.removeprefix(_BOM)
        return text


def _after_blank_line(part: bytes) -> bytes | None:
    """What follows the last blank line, of whichever line ending; None if there is none."""
    found = None
    for blank in _BLANK_LINES:
        # Once one is found, what is left to search is short: scanning a chunk for endings it does not use is not free.
        if (at := part.rfind(blank)) >= 0:
            found = part = part[at + len(blank) :]
    return found
