"""Framing of streams that may be taken up again: ids of frames, and frames that come a second time."""

from __future__ import annotations

import re

from agui_client._transport.sse import Framer
from agui_client.errors import ProtocolError

_PLAIN = re.compile(r"id: ([^\n\0]+)\ndata: ([^\n]+)\n\n")
"""A frame as nearly all servers write it that number their frames."""
_FIELD = re.compile(r"^(id|retry):[ ]?(.*)$", re.MULTILINE)


class NumberedFramer(Framer):
    """Splits the streams of one run, of which each but the first takes up the one before.

    Args:
        max_event_bytes: The largest frame that is accepted, in bytes.
        drops_known: Whether frames that came in an earlier stream are left out.
    """

    cursor: str | None = None
    """The id of the latest frame, which stands for all frames up to there; None if that frame had no id of its own."""
    retry_seconds: float | None = None
    """Seconds to wait before the stream is taken up, as the server asked with `retry:`; None if it did not."""

    def __init__(self, max_event_bytes: int, *, drops_known: bool) -> None:
        super().__init__(max_event_bytes)
        self._drops_known = drops_known
        # The stream in which each id came first: within one stream, several frames may share an id.
        self._first_in: dict[str, int] = {}
        self._stream = 0

    def restart(self) -> None:
        """Go on with another stream; an incomplete frame of the one before is dropped, as SSE wants it."""
        self._rest.clear()
        self._cleared_to, self._ended_with_cr, self._is_at_start = 0, False, True
        self._stream += 1

    def feed(self, chunk: bytes) -> list[str]:
        """Split the next bytes; frames that came in an earlier stream are left out."""
        before, self.cursor = self.cursor, None
        found = super().feed(chunk)
        if not found and self.cursor is None:
            self.cursor = before
        return found

    def _split(self, frames: bytes, *, is_whole: bool = True) -> list[str]:
        if not is_whole:
            # The last frame may be cut: its id says nothing.
            return super()._split(frames, is_whole=False)
        pairs = self._plain(frames)
        if pairs is None:
            pairs = self._any(frames)
        return [data for own_id, data in pairs if not self._came_before(own_id)]

    def _plain(self, frames: bytes) -> list[tuple[str, str]] | None:
        """Return ids and data if all frames are written in the usual form."""
        if self._is_at_start or len(frames) > self._max_event_bytes:
            return None
        try:
            text = frames.decode()
        except UnicodeDecodeError:
            return None
        pairs: list[tuple[str, str]] = _PLAIN.findall(text)
        # 12 characters of a frame are neither id nor data.
        return pairs if sum(len(own_id) + len(data) + 12 for own_id, data in pairs) == len(text) else None

    def _any(self, frames: bytes) -> list[tuple[str, str]]:
        """Return ids and data of frames of any form, one by one; the id is empty if a frame has none of its own."""
        pairs: list[tuple[str, str]] = []
        for frame in filter(None, frames.split(b"\n\n")):
            try:
                found = super()._split(frame + b"\n\n")
            except ProtocolError:
                if not pairs:
                    raise
                break  # it is raised by the next read
            fields: dict[str, str] = dict(_FIELD.findall(frame.decode(errors="replace")))
            if (milliseconds := fields.get("retry", "")).isdecimal() and milliseconds.isascii():
                self.retry_seconds = int(milliseconds) / 1000
            own_id = fields.get("id", "")
            if not found and own_id:
                self.cursor = own_id if _fits_a_header(own_id) else None
            pairs += [(own_id, data) for data in found]
        return pairs

    def _came_before(self, own_id: str) -> bool:
        """Note the id of a frame; return whether a frame with that id came in an earlier stream."""
        is_usable = _fits_a_header(own_id)
        self.cursor = own_id if is_usable else None
        return is_usable and self._drops_known and self._first_in.setdefault(own_id, self._stream) != self._stream


def _fits_a_header(own_id: str) -> bool:
    """Return whether an id reaches the server as it is: headers lose blanks at their ends."""
    return bool(own_id) and own_id.isprintable() and own_id == own_id.strip()
