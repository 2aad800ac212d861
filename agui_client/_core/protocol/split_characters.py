"""Characters that a producer cut in two: halves in two deltas are joined, one alone becomes U+FFFD (PROC-12, SET-18).

A producer that slices text by units of UTF-16, as JavaScript does, may send the halves of an emoji in two deltas
(STREAM-2). Each half is valid JSON, but no Python string should contain one. So the first half waits for the next delta
of its item, or of its lane, as chunks leave their id out once the first one of their lane has named it (CHUNK-3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object, is_text
from agui_client._core.protocol.warnings import WarningLog

_HALF = re.compile("[\ud800-\udfff]")
_WARNING = "half of a character (a lone surrogate)"


class SplitCharacters:
    """Mends the events of one stream.

    Args:
        warnings: The log that receives a warning for each half that is alone.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self.halves: dict[object, tuple[str, str | None, object]] = {}
        """The first halves that wait for the second, by the id of their item and by their lane. While one waits, each
        event may bring its other half."""

    def mend(self, event: dict[str, Any], *, may_have_halves: bool = True) -> None:
        """Join a character whose halves came in two deltas, and replace halves that are alone.

        Args:
            event: The JSON of an event, which is changed in place.
            may_have_halves: Whether its text may have halves of its own.
        """
        owner = _text_in(event, "messageId") or _text_in(event, "toolCallId")
        event_type = str(event.get("type"))
        lane = (event_type, _text_in(event, "subagentRunId")) if event_type.endswith("_CHUNK") else owner
        first = self._other_half(owner, lane)
        if not first and not may_have_halves:
            return
        delta = event.get("delta")
        if isinstance(delta, str):
            delta = (first + delta).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            if delta and "\ud800" <= delta[-1] <= "\udbff":
                self.halves[lane] = self.halves[owner or lane] = (delta[-1], owner, lane)
                delta = delta[:-1]
            event["delta"] = delta
        elif first:
            what = f"{event_type} comes behind {_WARNING}, without its other half"
            self._warnings.add("PROC-12", what, path="/delta", event_type=event_type, reaction="left out")
        if not is_text(json.dumps(event, ensure_ascii=False)):
            self._replace(event, event_type)

    def _replace(self, event: dict[str, Any], event_type: str) -> None:
        mended = without_halves(event)
        event.clear()
        event.update(mended)
        what = f"{event_type} holds {_WARNING}"
        self._warnings.add("PROC-12", what, event_type=event_type, reaction="replaced by U+FFFD")

    def _other_half(self, owner: str | None, lane: object) -> str:
        """Take the half that waits for an event of this item, or of this lane if either names no item."""
        half = self.halves.get(owner) or self.halves.get(lane)
        if half is None or (owner and half[1] and owner != half[1]):
            return ""
        text, *keys = half
        for key in keys:
            if self.halves.get(key) is half:
                del self.halves[key]
        return text


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
