"""The compatibility boundary: shapes the protocol has retired become what replaced them (VER-10, VER-11, VER-12).

The boundary sees the stream before middleware and is always on: a retired shape is itself the proof that the producer
is old, and a conforming event is never changed. Nothing is repaired here: the outcome is validated later.

To change

- a field or shape that a later version of the protocol names otherwise: comes with `ag_ui.core`; this module translates
  the former name in what an agent sends, and in messages that are sent; `_downgraded` in `_core/protocol/request.py`
  writes the former name for older peers (`max_protocol_version`). A class does not accept what it does not know, so
  that an event with the former name comes to this module as JSON. Where modules look for a member in JSON, they have
  its name as a text, which no type checker sees: `tests/core/protocol/test_schema.py` compares those in tables; look
  for the former name in the others, such as `_core/protocol/decode.py` and `doctor/_probes.py`. A saved conversation
  has one version, which `_core/conversation/snapshot.py` and `_core/conversation/log.py` (`Entry`) name: older and
  newer ones are refused
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import is_
from typing import Any
from uuid import uuid4

from agui_client._core.protocol.events import UnrecognizedEvent
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.protocol.warnings import WarningLog

_THINKING = re.compile("THINKING_(START|END|TEXT_MESSAGE_(START|CONTENT|END))")
"""The retired types, in place of which there are REASONING_START and so on, and REASONING_MESSAGE_START and so on."""
_RETIRED_NULLS = {
    "TOOL_CALL_START": ("parentMessageId",),
    "TOOL_CALL_CHUNK": ("parentMessageId",),
    "RUN_FINISHED": ("outcome", "result"),
    "SUBAGENT_FINISHED": ("result",),
}
"""Fields of some types that used to be null where they said nothing; of all types `rawEvent` did."""
_MEDIA = ("image", "audio", "video", "document")
_LEGACY_MEMBERS = frozenset({"type", "mimeType", "data", "url", "id", "filename"})
_GONE: Any = object()


class Translator:
    """Translates one stream's retired shapes.

    Args:
        warnings: The log that receives a warning for each translation and for what it loses.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        # No opener has these: an event without its opener stays an orphan, which verification rejects.
        self._span_id, self._message_id = uuid4().hex, uuid4().hex

    def feed(self, event: UnrecognizedEvent) -> UnrecognizedEvent:
        """Translate one event; a typed one has no retired shape.

        Args:
            event: As it came from the agent.

        Returns:
            The event in today's shape; the same object if there was nothing to translate.
        """
        data: Any = event.data
        for name in ("rawEvent", *_RETIRED_NULLS.get(event.type, ())):
            data = _without_null(data, name)
        if event.type == "MESSAGES_SNAPSHOT":
            data = upgraded_messages(data, self._warnings, event_type=event.type)
        elif event.type == "RUN_STARTED":
            data = self._with_upgraded_input(data)
        elif _THINKING.fullmatch(event.type):
            return self._reasoning(event.type, data)
        return event if data is event.data else UnrecognizedEvent(event.type, data)

    def _with_upgraded_input(self, data: dict[str, Any]) -> dict[str, Any]:
        echo = data.get("input")
        upgraded = _without_null(echo, "forwardedProps")
        # The input's field takes any JSON but null, which the protocol's own fixtures echo for no state (STATE-4).
        upgraded = _without_null(upgraded, "state")
        upgraded = _each(upgraded, "tools", lambda tool, _: _without_null(tool, "parameters"))
        upgraded = _each(upgraded, "resume", lambda entry, _: _without_null(entry, "payload"))
        upgraded = upgraded_messages(upgraded, self._warnings, path="/input", event_type="RUN_STARTED")
        return data if upgraded is echo else {**data, "input": upgraded}

    def _reasoning(self, retired: str, data: dict[str, Any]) -> UnrecognizedEvent:
        current = retired.replace("THINKING", "REASONING").replace("TEXT_MESSAGE", "MESSAGE")
        message = f"retired {retired} translated into {current}; upgrade the producer"
        self._warnings.add("VER-10", message, event_type=retired)
        translated = {**data, "type": current, "messageId": self._reasoning_id(retired)}
        if retired == "THINKING_START" and translated.pop("title", None) is not None:
            lost = "title of THINKING_START lost: REASONING_START has no place for it; upgrade the producer"
            self._warnings.add("VER-11", lost, path="/title", event_type=retired)
        if retired == "THINKING_TEXT_MESSAGE_START":
            translated["role"] = "reasoning"
        return UnrecognizedEvent(current, translated)

    def _reasoning_id(self, retired: str) -> str:
        """Return the id that a retired event lacks: made at the opener, used until the next one."""
        if retired == "THINKING_START":
            self._span_id = uuid4().hex
        if retired == "THINKING_TEXT_MESSAGE_START":
            self._message_id = uuid4().hex
        return self._span_id if retired in ("THINKING_START", "THINKING_END") else self._message_id


def upgraded_messages(owner: Any, warnings: WarningLog, *, path: str = "", event_type: str | None = None) -> Any:
    """Upgrade the retired content parts in an object's `messages`.

    Args:
        owner: The JSON object with the messages; any other value is returned as it is.
        warnings: The log that receives a warning for each part that cannot be converted.
        path: The JSON pointer of the object.
        event_type: The type of its event; None for the run input.

    Returns:
        A copy with media parts for binary ones; the same object if there were none.
    """

    def upgrade(part: Any, part_path: str) -> Any:
        """Replace a retired part."""
        if not is_object(part):
            return part
        if part.get("type") in _MEDIA:
            return _without_null(part, "metadata")
        mime_type = part.get("mimeType")
        if part.get("type") != "binary" or not isinstance(mime_type, str):
            return part
        kind = next((kind for kind in ("data", "url") if part.get(kind) not in (None, "")), None)
        if kind is not None:
            return _media_part(part, kind, mime_type)
        message = f"binary part {part_path} dropped: it has neither data nor url, and its id converts into nothing"
        warnings.add("VER-11", message, path=part_path, event_type=event_type)
        return _GONE

    return _each(owner, "messages", lambda message, at: _each(message, "content", upgrade, at), path)


def _media_part(part: dict[str, Any], kind: str, mime_type: str) -> dict[str, Any]:
    """Convert a `binary` part into the image, audio, video or document part that replaced it."""
    prefix = mime_type.partition("/")[0].lower()
    media = {name: value for name, value in part.items() if name not in _LEGACY_MEMBERS}
    media["type"] = prefix if prefix in _MEDIA else "document"
    media["source"] = {"type": kind, "value": part[kind], "mimeType": mime_type}
    if part.get("filename") not in (None, ""):
        media["metadata"] = {"filename": part["filename"]}
    return media


def _without_null(owner: Any, name: str) -> Any:
    """Return the object without a member that is null; the same object if it is not."""
    if not is_object(owner) or name not in owner or owner[name] is not None:
        return owner
    return {key: value for key, value in owner.items() if key != name}


def _each(owner: Any, name: str, change: Callable[[Any, str], Any], path: str = "") -> Any:
    """Return the object with each element of one of its lists changed or removed; the same object if none is."""
    elements = owner.get(name) if is_object(owner) else None
    if not is_array(elements):
        return owner
    changed = [change(element, f"{path}/{name}/{index}") for index, element in enumerate(elements)]
    if all(map(is_, changed, elements)):
        return owner
    return {**owner, name: [element for element in changed if element is not _GONE]}
