"""Characters that a producer cut in two: halves in two deltas are joined, one alone becomes U+FFFD (PROC-12, SET-18).

A producer that slices text by units of UTF-16, as JavaScript does, may send the halves of an emoji in two deltas
(STREAM-2). Each half is valid JSON, but no Python string should contain one. So the first half waits for the next delta
of its item, or of its lane, as chunks leave their id out once the first one of their lane has named it (CHUNK-3).
Where the item ends instead, U+FFFD comes as one more delta before the event that ends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agui_client._core.protocol.schema import EVENT_MODELS, is_array, is_object, is_text
from agui_client._core.protocol.traits import TRAITS, types_about
from agui_client._core.protocol.warnings import WarningLog

_HALF = re.compile("[\ud800-\udfff]")
_WARNING = "half of a character (a lone surrogate)"
_REPLACED = "replaced by U+FFFD"
_ENDS = {name: TRAITS[model].ends for name, model in EVENT_MODELS.items()}
_CHUNKS = tuple(name for name, model in EVENT_MODELS.items() if model in types_about(part="chunk"))
_NAMES = ("type", "messageId", "toolCallId", "subagentRunId")


class _Half(NamedTuple):
    """The first half of a character, which waits for the second."""

    text: str
    owner: str | None
    lane: object
    names: dict[str, Any]
    """The members of its delta that say where it belongs."""


class SplitCharacters:
    """Mends the events of one stream.

    Args:
        warnings: The log that receives a warning for each half that is alone.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self.halves: dict[object, _Half] = {}
        """The first halves that wait for the second, by the id of their item and by their lane. While one waits, each
        event may bring its other half."""
        self._in_chunks: dict[object, _Half] = {}
        self._unpaired: Sequence[dict[str, Any]] = ()

    def unpaired(self) -> Sequence[dict[str, Any]]:
        """Return, once, the deltas with U+FFFD that come before the latest event, as that ended their items."""
        unpaired, self._unpaired = self._unpaired, ()
        return unpaired

    def mend(self, event: dict[str, Any], *, may_have_halves: bool = True) -> None:
        """Join a character whose halves came in two deltas, and replace halves that are alone.

        Args:
            event: The JSON of an event, which is changed in place.
            may_have_halves: Whether its text may have halves of its own.
        """
        owner = _text_in(event, "messageId") or _text_in(event, "toolCallId")
        event_type = str(event.get("type"))
        lane = (event_type, _text_in(event, "subagentRunId")) if event_type.endswith("_CHUNK") else owner
        ended = self._ended_by(event, event_type, owner)
        if ended:
            self._unpaired = [*self._unpaired, *({**half.names, "delta": "\ufffd"} for half in ended)]
        for half in ended:
            self._take(half)
            what = f"{half.names['type']} ends with {_WARNING}, and its other half never comes"
            self._warnings.add("PROC-12", what, path="/delta", event_type=event_type, reaction=_REPLACED)
        delta = event.get("delta")
        first = self._other_half(owner, lane) if isinstance(delta, str) else ""
        if not first and not may_have_halves:
            return
        if isinstance(delta, str):
            delta = (first + delta).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            if delta and "\ud800" <= delta[-1] <= "\udbff":
                self._keep(_Half(delta[-1], owner, lane, {name: event[name] for name in _NAMES if name in event}))
                delta = delta[:-1]
            event["delta"] = delta
        if not is_text(json.dumps(event, ensure_ascii=False)):
            self._replace(event, event_type)

    def _ended_by(self, event: Mapping[str, Any], event_type: str, owner: str | None) -> list[_Half]:
        """Return the halves that wait in items which an event ends (CHUNK-7 … CHUNK-10)."""
        if not self.halves:
            return []
        if event_type.endswith("_END") and (named := self.halves.get(owner)) is not None:
            return [named]
        match _ENDS.get(event_type):
            case "every lane":
                return [*self._in_chunks.values()]
            case "its lane":
                tag = _text_in(event, "subagentRunId")
                waiting = [half for each in _CHUNKS if (half := self._in_chunks.get((each, tag))) is not None]
                return [
                    each
                    for each in waiting
                    if each.names["type"] != event_type or (owner and each.owner and owner != each.owner)
                ]
            case _:
                return []

    def _replace(self, event: dict[str, Any], event_type: str) -> None:
        mended = without_halves(event)
        event.clear()
        event.update(mended)
        what = f"{event_type} holds {_WARNING}"
        self._warnings.add("PROC-12", what, event_type=event_type, reaction=_REPLACED)

    def _other_half(self, owner: str | None, lane: object) -> str:
        """Take the half that waits for an event of this item, or of this lane if either names no item."""
        half = self.halves.get(owner) or self.halves.get(lane)
        if half is None or (owner and half.owner and owner != half.owner):
            return ""
        self._take(half)
        return half.text

    def _keep(self, half: _Half) -> None:
        self.halves[half.lane] = self.halves[half.owner or half.lane] = half
        if half.names.get("type") in _CHUNKS:
            self._in_chunks[half.lane] = half

    def _take(self, half: _Half) -> None:
        for key in (half.lane, half.owner):
            if self.halves.get(key) is half:
                del self.halves[key]
        if self._in_chunks.get(half.lane) is half:
            del self._in_chunks[half.lane]


def without_halves(value: Any) -> Any:
    """Return a JSON value with U+FFFD in place of each half of a character, in names as well; halves in order join.

    Args:
        value: The value, no deeper than the recursion of Python allows.
    """
    if isinstance(value, str):
        if not _HALF.search(value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if is_object(value):
        return {without_halves(name): without_halves(member) for name, member in value.items()}
    return [without_halves(each) for each in value] if is_array(value) else value


def _text_in(event: Mapping[str, Any], name: str) -> str | None:
    value = event.get(name)
    return value if isinstance(value, str) else None
