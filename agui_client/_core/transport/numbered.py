"""Framing of streams that may be taken up again: ids of frames, and frames that come a second time."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

from agui_client._core.protocol.plain_json import object_in
from agui_client._core.protocol.traits import REPEATABLE
from agui_client._core.transport.sse import Framer
from agui_client.errors import ProtocolError

_PLAIN = re.compile(r"id: ([^\n\0]+)\ndata: ([^\n]+)\n\n")
"""A frame as nearly all servers write it that number their frames."""
_AROUND = len("id: \ndata: \n\n")
"""The characters of such a frame that are neither id nor data."""
_FIELD = re.compile(r"^(id|retry)(?::[ ]?(.*))?$", re.MULTILINE)
_REPEATABLE: frozenset[Any] = frozenset(each.model_fields["type"].default for each in REPEATABLE)


class NumberedFramer(Framer):
    """Splits the streams of one run, of which each but the first takes up the one before.

    Args:
        max_event_bytes: The largest frame that is accepted, in bytes.
        drops_known: Whether frames that came in an earlier stream are left out.
    """

    cursor: str | None = None
    """The id that stands for all frames up to the latest; None if one behind it had none, and may not be sent twice."""
    retry_seconds: float | None = None
    """Seconds to wait before the stream is taken up, as the server asked with `retry:`; None if it did not."""

    def __init__(self, max_event_bytes: int, *, drops_known: bool) -> None:
        super().__init__(max_event_bytes)
        self._drops_known = drops_known
        # The stream in which each id came first: within one stream, several frames may share an id.
        self._first_in: dict[str, int] = {}
        self._stream, self._is_split = 0, False

    def restart(self) -> None:
        """Continue with another stream; an incomplete frame of the one before is dropped, as SSE wants it."""
        self._rest.clear()
        self._cleared_to, self._ended_with_cr, self._is_at_start = 0, False, True
        self._stream += 1

    def feed(self, chunk: bytes) -> list[str]:
        """Split the next bytes; frames that came in an earlier stream are left out."""
        self._is_split = False
        found = super().feed(chunk)
        if not self._is_split:  # they were frames of data alone
            for data in found:
                self._note(None, data)
        return found

    def _split(self, frames: bytes, *, is_whole: bool = True) -> list[str]:
        self._is_split = True
        if not is_whole:
            # The last frame may be cut: its id says nothing.
            return super()._split(frames, is_whole=False)
        pairs = self._plain(frames)
        if pairs is None:
            pairs = self._any(frames)
        return [data for own_id, data in pairs if not self._came_before(own_id, data)]

    def _plain(self, frames: bytes) -> Iterable[tuple[str | None, str]] | None:
        """Return ids and data if all frames are written in the usual form."""
        if self._is_at_start or len(frames) > self._max_event_bytes:
            return None
        try:
            text = frames.decode()
        except UnicodeDecodeError:
            return None
        pairs: list[tuple[str | None, str]] = _PLAIN.findall(text)
        return pairs if sum(len(own_id or "") + len(data) + _AROUND for own_id, data in pairs) == len(text) else None

    def _any(self, frames: bytes) -> Iterator[tuple[str | None, str]]:
        """Yield ids and data of frames of any form, one by one; the id is None if a frame has none of its own.

        Of several ids the last one counts, and one with a NUL is none; a `retry:` that is not a number is left out.
        """
        has_found = False
        if frames and self._is_at_start:
            self._is_at_start, frames = False, frames.removeprefix(codecs.BOM_UTF8)
        for frame in filter(None, frames.split(b"\n\n")):
            try:
                found = super()._split(frame + b"\n\n")
            except ProtocolError:
                if not has_found:
                    raise
                return  # it is raised by the next read
            own_id: str | None = None
            for name, value in _FIELD.findall(frame.decode(errors="replace")):
                if name == "id" and "\0" not in value:
                    own_id = value
                elif name == "retry" and value.isdecimal() and value.isascii():
                    self.retry_seconds = float(value) / 1000  # infinite where an int would have too many digits
            if not found and own_id is not None:
                self._note(own_id, "")
            for data in found:
                has_found = True
                yield own_id, data

    def _came_before(self, own_id: str | None, data: str) -> bool:
        """Note the id of a frame; return whether a frame with that id came in an earlier stream."""
        self._note(own_id, data)
        if own_id is None or not self._drops_known or not _fits_a_header(own_id):
            return False
        return self._first_in.setdefault(own_id, self._stream) != self._stream

    def _note(self, own_id: str | None, data: str) -> None:
        """Note how far the stream can be continued: a frame without an id may come again if it may be sent twice."""
        if own_id is not None:
            self.cursor = own_id if _fits_a_header(own_id) else None
        elif self.cursor is not None and str(object_in(data).get("type")) not in _REPEATABLE:
            self.cursor = None


def _fits_a_header(own_id: str) -> bool:
    """Return whether an id reaches the server as it is: headers lose blanks at their ends."""
    return bool(own_id) and own_id.isprintable() and own_id == own_id.strip()
