"""Texts of event streams, split into the events in them, with the places: SSE, JSON lines, and arrays of JSON.

Whether a piece is an event is for the decoder to say.

To change

- what `agui check` and `validate` read: `pieces` here splits texts into events
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agui_client._core.ground.json_reading import check_levels
from agui_client._core.protocol.plain_json import object_in
from agui_client._core.protocol.schema import is_text
from agui_client._core.transport.sse import Framer
from agui_client.errors import DecodeError, ProtocolError

SSE_BLOCK = re.compile(rb".*?(?>\r\n|\n|\r){2}|.+", re.DOTALL)
"""The bytes of an SSE frame up to the blank line that ends it."""
SSE_DATA = re.compile(rb"(?<![^\r\n])data")
"""The beginning of the first data line of a frame."""
_SSE_FIELD = re.compile(rb"(?<![^\r\n])(?:data|event|id|retry)(?:[:\r\n]|\Z)")
_BETWEEN = re.compile(r"[\s,\[\]]*")
"""Everything that may stand between the objects of JSON lines, or of an array."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_read_value = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text that stands for one event."""

    content: str
    """The JSON of the event, as far as it is JSON."""
    line: int
    """The line on which it begins, from 1."""
    byte: int
    """The position of its first byte, from 0."""
    is_cut: bool = False
    """Whether the text ends inside of it, so that it counts only if it is whole."""
    error: ProtocolError | None = None
    """The reason why it has no content."""
    is_joined: bool = False
    """Whether no blank line stands between this event and the one before it."""


def pieces(text: bytes) -> Iterator[Piece]:
    """Split a text into its events.

    Args:
        text: SSE frames, JSON objects (on lines of their own or not), or an array of them.
    """
    return _values(text) if is_json(text) else _frames(text)


def is_json(text: bytes) -> bool:
    """Return whether a text begins as JSON does, rather than as SSE."""
    return text.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def is_sse(text: bytes) -> bool:
    """Return whether a text can be SSE: whether it has a field, begins with a comment, or is blank."""
    text = text.removeprefix(BOM_UTF8)
    # Later comments do not count: a line of a binary file may well begin with a colon.
    return _SSE_FIELD.search(text) is not None or text.lstrip()[:1] in (b"", b":")


def _frames(text: bytes) -> Iterator[Piece]:
    line = 1
    for match in SSE_BLOCK.finditer(text):
        block = match.group()
        found = SSE_DATA.search(block)
        if found is None and block.isascii():
            # Keep-alives and blank lines, of which there may be as many as bytes: a framer takes microseconds to make.
            line += len(_LINE_END.findall(block))
            continue
        begin = found.start() if found else 0
        at, byte = line + len(_LINE_END.findall(block, 0, begin)), match.start() + begin
        # A framer of its own for each frame: one that has met a fault reads no further.
        framer = Framer(len(block))
        try:
            for data in framer.feed(block):
                yield from _apart(Piece(data, at, byte))
            for data in framer.finish():
                yield from _apart(Piece(data, at, byte, is_cut=True))
        except ProtocolError as error:
            yield Piece("", at, byte, error=error)
        line += len(_LINE_END.findall(block))


def _apart(piece: Piece) -> Iterator[Piece]:
    """Yield the events of a frame: several if no blank line stands between them, each on a line of its own."""
    lines = joined_events(piece.content)
    if not lines:
        yield piece
        return
    for number, line in enumerate(lines):
        yield replace(piece, content=line, line=piece.line + number, is_joined=number > 0)


def joined_events(content: str) -> list[str]:
    """Return the events of a frame that has several, each on a line of its own; an empty list for any other frame.

    Args:
        content: The content of the frame, its data lines joined.
    """
    lines = [line for line in content.split("\n") if line.strip()] if "\n" in content else []
    if len(lines) < 2:
        return []
    # Only the last one may be cut off.
    whole = lines[:-1] if len(lines) > 2 else lines
    return lines if all(isinstance(object_in(line).get("type"), str) for line in whole) else []


def _values(text: bytes) -> Iterator[Piece]:
    # Bytes that are not UTF-8 become lone surrogates, so that the objects around them can be read.
    source = text.decode("utf-8-sig", "surrogateescape")
    at, line, byte = 0, 1, len(BOM_UTF8) if text.startswith(BOM_UTF8) else 0
    while True:
        begin = _end_of_gap(source, at)
        line, byte = line + source.count("\n", at, begin), byte + _size(source[at:begin])
        if begin == len(source):
            return
        value_end = _end_of_value(source, begin)
        line_end = source.find("\n", begin)
        is_cut = value_end is None and line_end < 0
        at = value_end or (len(source) if is_cut else line_end)
        content = source[begin:at]
        error = None if is_text(content) else DecodeError("a line is not UTF-8", rule="PROC-12")
        yield Piece(content, line, byte, is_cut=is_cut, error=error)
        line, byte = line + content.count("\n"), byte + _size(content)


def _end_of_value(source: str, begin: int) -> int | None:
    """Return the position behind a JSON value; None if there is none."""
    # The error of a decoder counts all lines before it, so it gets few lines, and more only if the value is longer.
    size = 0
    while True:
        line_end = source.find("\n", begin + size)
        part = source[begin:] if line_end < 0 else source[begin:line_end]
        try:
            check_levels(part)
            return begin + _read_value(part)[1]
        except json.JSONDecodeError as error:
            # No string or number continues behind the end of its line.
            if line_end < 0 or error.pos < len(part.rstrip()):
                return None
        except (ValueError, RecursionError):
            return None
        size = 2 * len(part) + 1


def _end_of_gap(source: str, at: int) -> int:
    gap = _BETWEEN.match(source, at)
    return gap.end() if gap else at


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
