"""Halves of characters: a producer that slices text by UTF-16 units may split an emoji over two deltas (STREAM-2).

Each half is valid JSON, and a JavaScript client joins them without noticing. No Python string should hold one, so the
first half waits here for the delta that brings the second.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPE = re.compile(r"\\u[dD]")


class HalfCharacters:
    """Mends the deltas of one stream."""

    def __init__(self) -> None:
        self.waiting: dict[object, str] = {}
        """First halves, by the id of the message or tool call they belong to."""

    def mend(self, event: dict[str, Any], data: str) -> bool:
        """Join the halves in an event's delta, in place.

        Args:
            event: The event as JSON.
            data: Its text on the wire.

        Returns:
            Whether the event is free of halves now.
        """
        owner = event.get("messageId") or event.get("toolCallId")
        first = self.waiting.pop(owner, "")
        if not first and not _ESCAPE.search(data):
            return True
        delta = event.get("delta")
        if isinstance(delta, str):
            event["delta"] = self._joined(owner, first + delta)
        elif first:
            return False
        return _is_whole(event)

    def _joined(self, owner: object, delta: str) -> str:
        text = delta.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        if text and "\ud800" <= text[-1] <= "\udbff":
            self.waiting[owner] = text[-1]
            return text[:-1]
        return text


def _is_whole(event: dict[str, Any]) -> bool:
    try:
        json.dumps(event, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
