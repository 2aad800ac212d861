"""Texts that an agent streams in pieces: secrets are found in the whole text, and taken out of the pieces.

A piece is written at once, unless the text up to it names a secret, or ends where one may begin. From such a piece on,
the lines of the response wait until the text is complete. Each piece then gets its part of the redacted text, and the
lines are written in their order, with the times at which they came; a program that is killed loses the lines that wait.
The obvious alternative judges each character as it comes and loses nothing, but it is a second reader of JSON beside
the one for whole texts, and it cannot know about the `value` of a patch whose `path` comes behind it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.secrets import (
    NAME_HINTS,
    REDACTED,
    REST,
    SHAPE_HINTS,
    Redact,
    Replacement,
    begins_as_json,
    edited,
    edits_in_place,
    edits_of,
    has_ascii_escape,
    has_hint,
    has_mention,
    has_quote,
    hidden_line,
    hidden_text,
    joined,
    levels,
    may_hold_secrets,
    quotes_in,
    undecided_from,
)
from agui_client._core.ground.sent_secrets import begin_of_quote
from agui_client._core.protocol.events import UnrecognizedEvent

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agui_client._core.protocol.events import WireEvent

_DELTA = "/event/delta"
_PIECE = '"delta":"'
"""The end of a bare event's JSON before its piece, and in no text of it, where quotes are escaped."""
_HINTS = (*NAME_HINTS, *SHAPE_HINTS, "value", "//", "\\/")
"""One of these is before a secret, or an escape: a part of a name, or the slashes of an address before its user."""
_HINT = re.compile("|".join(map(re.escape, _HINTS)) + r"|\\u00[2-7]")
"""The same as a pattern, which takes a quarter of the time in a text of a few words, and more in a long one."""
_FEW_WORDS = 64
"""The characters of such a piece."""
_LONGEST_HINT = max(map(len, _HINTS))
_VALUE = re.compile(r"value[\"']", re.IGNORECASE)
"""The member of a patch or of a header that may be secret, as a `path` or `name` behind it will say."""
_TAIL = 64
"""The characters of a text that are looked at again with the next piece, which may complete a name."""
_TAIL_OF_NAMES = 256
"""As many where there is a part of a name."""
_TAIL_OF_ESCAPES = 1024
"""As many where there are ASCII characters that are written as escapes, perhaps of escapes."""
_LONGEST_UNDECIDED = 2048
"""The characters of the longest end that may be an address or a name; more of them count for a secret."""
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]|\\", re.DOTALL)
"""A character, or an escape, of a text that may be cut in the middle of one."""
_RAW = dict.fromkeys(("/event/rawEvent", "/event/raw_event", "/event/event"), REDACTED)
"""Copies of what a provider sent, of which the pieces cannot be told from other texts."""


class _State(Enum):
    OPEN = auto()
    """No secret can have begun: pieces are written as they come."""
    UNDECIDED = auto()
    """The next piece shows whether a secret begins: pieces wait for it."""
    SECRET = auto()
    """The text may hold a secret: pieces wait for its end."""
    OVER = auto()
    """A text with a secret has ended: nothing of a later piece is written."""


@dataclass(slots=True, eq=False)
class PendingEvent:
    """An event on its way to the file."""

    line: str
    """The JSON of the line."""
    text: _Text | None = None
    """The text that the event has a piece of."""
    delta: str = ""
    """The piece."""
    given: Mapping[str, str] | None = None
    """Texts to write instead of values, by their pointers."""

    @property
    def is_waiting(self) -> bool:
        """Whether the text of the event must come to its end before the line is written."""
        return self.text is not None and self.text.is_waiting

    sent: Collection[str] = ()
    """The credentials that the line may quote outside of the piece, see `SentSecrets`."""

    def redacted(self, redact: Redact | None) -> bytes:
        """Return the line without secrets.

        Args:
            redact: See `hidden_line`.
        """
        is_quoting = bool(self.sent) and has_quote(self.line, self.sent)
        if redact is None and not self.given and not is_quoting and not may_hold_secrets(self.line):
            return self.line.encode()
        given = {**({} if self.text is None else {_DELTA: self.delta}), **(self.given or {})}
        return hidden_line(self.line, redact, given, self.sent).encode()


@dataclass(slots=True, eq=False)
class _Text:
    """A text that comes in pieces."""

    item_id: str | None = None
    """The id of the message or call that it is of."""
    has_quoting_id: bool = False
    """Whether the id quotes a credential."""
    sent: Collection[str] = ()
    """The credentials that are known, see `SentSecrets`."""
    state: _State = _State.OPEN
    is_json: bool | None = None
    """Whether the text begins as JSON, and so can be read as a whole; None before its first character."""
    written: list[str] = field(default_factory=list[str])
    """The pieces before those that wait, if the text begins as JSON."""
    tail: str = ""
    """The end of all pieces."""
    has_hint: bool = False
    """Whether the tail has a part of a name, or an escape, which the next piece may complete."""
    tail_before: str = ""
    """The end of the pieces before those that wait."""
    waiting: list[PendingEvent] = field(default_factory=list[PendingEvent])

    @property
    def is_waiting(self) -> bool:
        """Whether further pieces wait for the end of the text."""
        return self.state is _State.UNDECIDED or self.state is _State.SECRET

    def add(self, entry: PendingEvent) -> None:
        """Take a piece, and decide whether it waits."""
        delta, before = entry.delta, self.tail
        if self.state is _State.OVER:
            entry.given = {_DELTA: REST}
            return
        if self.is_json is None and delta.strip():
            self.is_json = begins_as_json(delta)
        if self.state is not _State.SECRET:
            self._look(delta)
        if self.is_waiting:
            if not self.waiting:
                self.tail_before = before
            self.waiting.append(entry)
            return
        if self.is_json is not False:
            self.written += [each.delta for each in self.waiting]
            self.written.append(delta)
        self.waiting.clear()

    def passes(self, delta: str, sent: Collection[str]) -> bool:
        """Take a short piece that has no part of a secret, as nearly every piece; False if `add` has to take it.

        Args:
            delta: The piece.
            sent: The credentials that are known, see `SentSecrets`.
        """
        is_usual = self.state is _State.OPEN and not self.has_hint and self.is_json is not None
        if not is_usual or len(delta) > _FEW_WORDS or self.sent is not sent:
            return False
        if _HINT.search((self.tail[-_LONGEST_HINT:] + delta).lower()) or (
            sent and begin_of_quote(delta, sent) is not None
        ):
            return False
        if self.is_json:
            self.written.append(delta)
        self.tail = (self.tail + delta)[-_TAIL:]
        return True

    def end(self) -> bool:
        """Take the secrets out of the pieces that wait, since the text is complete; return whether there were any."""
        edits = self._redact() if self.waiting else []
        self.state = _State.OVER if edits else _State.OPEN
        self.is_json = False
        self.written.clear()
        self.waiting.clear()
        return bool(edits)

    def _look(self, delta: str) -> None:
        text = self.tail + delta
        # In a text that is open, none began before the piece.
        quote = begin_of_quote(delta if self.state is _State.OPEN else text, self.sent) if self.sent else None
        if quote is not None and self.state is _State.OPEN:
            quote += len(self.tail)
        lowered = text.lower()
        self.has_hint = has_hint(lowered, _HINTS)
        if quote is None and not self.has_hint:
            self.state, self.tail = _State.OPEN, text[-_TAIL:]
            return
        forms = list(levels(text))
        if (
            (may_hold_secrets(text) and any(map(has_mention, forms)))
            or any(map(_VALUE.search, forms))
            or any(each in form for form in forms for each in self.sent)
        ):
            self.state = _State.SECRET
            return
        most = _TAIL_OF_ESCAPES if has_ascii_escape(lowered) else _TAIL_OF_NAMES
        begins = [quote, *map(undecided_from, forms)]
        if any(each is not None for each in begins):
            # All of it where the secret may begin in a text that is written in escapes.
            begin = min((each for each in begins[:2] if each is not None), default=0)
            most = max(most, len(text) - begin)
            self.state = _State.UNDECIDED if most < _LONGEST_UNDECIDED else _State.SECRET
        else:
            self.state = _State.OPEN
        self.tail = text[-most:]

    def _redact(self) -> list[Replacement]:
        before = "".join(self.written) if self.is_json else self.tail_before
        text = before + "".join(entry.delta for entry in self.waiting)
        edits = edits_of(text) if self.is_json else edits_in_place(text)
        if edits is None or (edits and edits[0].start < len(before)):
            edits = _behind(len(before), text, edits or [])
        if quotes := quotes_in(text, self.sent):
            edits = joined([*edits, *quotes])
        at = len(before)
        behind = deque(edits)
        for entry in self.waiting:
            end = at + len(entry.delta)
            while behind and behind[0].end <= at:
                behind.popleft()
            if (part := _part(text, behind, at, end)) != entry.delta:
                entry.given = {_DELTA: part}
            at = end
        return edits


class ResponseWriter:
    """The events of a response on their way to the file: all that can be written has left when a method returns."""

    def __init__(self) -> None:
        self._entries: deque[PendingEvent] = deque()
        self._texts: dict[tuple[str, str | None], _Text] = {}
        self._latest: dict[tuple[str, str | None], str | None] = {}
        self._beginning = "\0"  # begins no event
        """The JSON of the latest event up to its piece, if that is bare and its id says nothing of a secret."""
        self._continued: _Text
        """The text that it has a piece of."""

    def passes(self, bare: str, delta: str, sent: Collection[str]) -> bool:
        """Take a bare event that continues the latest text, if its line can be written as it is; else `add` does.

        Args:
            bare: The JSON of the event.
            delta: Its piece.
            sent: The credentials that are known by now, see `SentSecrets`.
        """
        return bare.startswith(self._beginning) and not self._entries and self._continued.passes(delta, sent)

    def add(
        self, line: str, event: WireEvent, sent: Collection[str] = (), *, bare: str | None = None
    ) -> Iterable[PendingEvent]:
        """Take the line of an event; yield those that can be written.

        Args:
            line: The JSON of the line.
            sent: The credentials that are known by now, see `SentSecrets`.
            bare: The JSON of an event that says nothing but an id and a piece of a text; None for any other.
        """
        self._beginning = "\0"
        members = event.data if isinstance(event, UnrecognizedEvent) else event.__dict__
        delta = members.get("delta")
        if isinstance(delta, str):
            text = self._text(event)
            if text.sent is not sent:
                text.sent, text.has_quoting_id = sent, has_quote(str(text.item_id), sent)
            # Nearly every event is bare, and its line need not be searched, too.
            is_plain = bare is not None and not text.has_quoting_id
            entry = PendingEvent(line, text, delta, sent=() if is_plain else sent)
            text.add(entry)
            if bare is not None and is_plain and not may_hold_secrets(text.item_id or ""):
                self._beginning, self._continued = bare[: bare.index(_PIECE) + len(_PIECE)], text
        else:
            entry = PendingEvent(line, sent=sent)
            if self._texts and event.type.endswith("_END"):
                self._end(self._text(event))
        if not self._entries and not entry.is_waiting:
            return (entry,)
        self._entries.append(entry)
        return self._ready()

    def finish(self) -> Iterator[PendingEvent]:
        """Yield the lines that have waited, since the response is over."""
        for text in self._texts.values():
            self._end(text)
        return self._ready()

    def _text(self, event: WireEvent) -> _Text:
        """Return the text that an event has a piece of, or is the end of."""
        if isinstance(event, UnrecognizedEvent):
            # Not validated yet: an id may be any JSON.
            family, names = _family(event.type), WIRE_NAMES
            members = {name: _as_key(event.data.get(name)) for name in names}
        else:
            family, members, names = _family_of(type(event)), event.__dict__, _FIELDS
        item_id, owner = members.get(names[0]) or members.get(names[1]), members.get(names[2])
        if item_id is None:
            # Chunks leave their id out once the first one of their lane has named it (CHUNK-3).
            item_id = self._latest.get((family, owner))
        else:
            self._latest[family, owner] = item_id
        if (text := self._texts.get((family, item_id))) is None:
            text = self._texts[family, item_id] = _Text(item_id)
        return text

    def _end(self, text: _Text) -> None:
        if text.end():
            for entry in self._entries:
                entry.given = {**(entry.given or {}), **_RAW}

    def _ready(self) -> Iterator[PendingEvent]:
        """Take the lines that can be written from those that are on their way."""
        entries = self._entries
        while entries and not entries[0].is_waiting:
            yield entries.popleft()


WIRE_NAMES = ("toolCallId", "messageId", "subagentRunId")
"""The members that name the item of a piece, where an event is JSON; `_FIELDS` has those of classes."""
_FIELDS = ("tool_call_id", "message_id", "subagent_run_id")


def _as_key(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else repr(value)


def _family(event_type: str) -> str:
    """Return what the types of the events of an item have in common, such as TOOL_CALL."""
    return event_type.rpartition("_")[0]


@cache
def _family_of(model: type[BaseModel]) -> str:
    return _family(str(model.model_fields["type"].default.value))


def _behind(start: int, text: str, edits: list[Replacement]) -> list[Replacement]:
    """Return the edits of the part of a text that was not written yet; what they say of the rest comes too late.

    Args:
        start: The position behind what was written.
        edits: The edits of all of the text; none if it cannot be read.
    """
    rest = [Replacement(start, len(text), REST)]
    if not edits:
        return rest
    clipped = [edit if edit.start >= start else _clipped(edit, start, text) for edit in edits if edit.end > start]
    # A replay redacts the joined pieces again, and compares them with the recorded whole.
    is_same = hidden_text(edited(text, clipped)) == hidden_text(text)
    return clipped if is_same else rest


def _clipped(edit: Replacement, start: int, text: str) -> Replacement:
    """Return the part of an edit from a position on, or from the end of the escape that is cut there."""
    ends = (match.end() for match in _CHARACTER.finditer(text, edit.start))
    return Replacement(next(end for end in ends if end >= start), edit.end, REST)


def _part(text: str, edits: Iterable[Replacement], start: int, end: int) -> str:
    """Return what edits leave of a part of a text: a replacement stands where its edit begins.

    Args:
        edits: The edits that end behind the start of the part, in order.
        start: The position at which the part begins.
        end: The position behind it.
    """
    parts: list[str] = []
    at = start
    for edit in edits:
        if edit.start >= end:
            break
        parts.append(text[at : max(at, edit.start)])
        if edit.start >= start:
            parts.append(edit.text)
        at = edit.end
    return "".join([*parts, text[at:end]])
