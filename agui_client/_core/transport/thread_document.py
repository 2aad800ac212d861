"""A thread as one JSON document, as the events of a thread that is sent again.

Some servers respond with `{"threadId": ..., "messages": [...], "state": ...}` where others send events; ADK's
`/agents/state` does. It has other ids for its messages than its streams have, and new ones in each response for results
of tools. So messages that the client has already are found by what they say, and keep the client's ids.

To change

- a thread that is sent again as one JSON document: this module makes the events of a run of it, and finds the messages
  that the client has under other ids
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias

from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.transport.sse import Framer
from agui_client.errors import DecodeError, StreamTooLargeError

JSONMessage: TypeAlias = dict[str, Any]
"""A message as JSON."""


class DocumentFramer(Framer):
    """Reads a document to its end, and returns frames with the events of a run that restates the thread.

    Args:
        max_event_bytes: The largest document that is accepted, in bytes.
        posted: The input that was posted for it, as JSON.
    """

    def __init__(self, max_event_bytes: int, posted: bytes) -> None:
        super().__init__(max_event_bytes)
        self._document, self._posted = bytearray(), posted

    def feed(self, chunk: bytes) -> list[str]:
        """Take in the next bytes; there is no event before the end.

        Raises:
            StreamTooLargeError: The document is larger than allowed.
        """
        self._document += chunk
        if len(self._document) > self._max_event_bytes:
            what = f"the thread has more than max_event_bytes={self._max_event_bytes}"
            raise StreamTooLargeError(what, rule="SSE-12", fix="raise that option if it is really so large")
        return []

    def finish(self) -> list[str]:
        """Return the events; none if the server has no such thread.

        Raises:
            DecodeError: The document is not a thread.
        """
        thread: Any = None
        try:
            thread = load_json(self._document)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"the thread that was sent again is not JSON: {error}", rule="PROC-12") from None
        if not is_object(thread) or not is_array(messages := thread.get("messages")):
            what = "the JSON that was sent has no list of `messages`, so it is not a thread"
            raise DecodeError(f"{what}; is connect_url= the address that sends threads?", rule="PROC-12")
        if thread.get("threadExists") is False:
            return []
        asked = json.loads(self._posted)
        ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
        events: list[dict[str, Any]] = [{"type": "RUN_STARTED", **ids}]
        if thread.get("state") is not None:
            events.append({"type": "STATE_SNAPSHOT", "snapshot": thread["state"]})
        # Outside of event streams, null is how many servers write that a member is absent.
        whole = [
            {name: value for name, value in each.items() if value is not None} for each in messages if is_object(each)
        ]
        if all(isinstance(each.get("id"), str) for each in whole):  # or the snapshot is refused
            whole = _with_local_ids(whole, asked["messages"])
        events += [{"type": "MESSAGES_SNAPSHOT", "messages": whole}, {"type": "RUN_FINISHED", **ids}]
        return [json.dumps(event) for event in events]


class _Part(NamedTuple):
    """The text or the calls of a message; a stream may have in two messages what a document has in one."""

    role: str
    says: str
    """The text, or the ids of the calls, or of the call that a result is of."""
    message_id: str
    is_text: bool = True

    def is_same(self, other: _Part) -> bool:
        """Return whether two parts say the same, or this one continues where the other was cut."""
        is_cut = self.is_text and self.role == "assistant" and other.says != "" and self.says.startswith(other.says)
        return self.role == other.role and self.is_text == other.is_text and (is_cut or self.says == other.says)


def _parts(message: JSONMessage) -> Iterator[_Part]:
    role, message_id, content = str(message.get("role")), str(message["id"]), message.get("content")
    if role == "tool":
        yield _Part(role, str(message.get("toolCallId")), message_id, is_text=False)
        return
    if content:
        says = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
        yield _Part(role, says, message_id)
    if is_array(calls := message.get("toolCalls")) and calls:
        ids = [each.get("id") for each in calls if is_object(each)]
        yield _Part(role, json.dumps(ids), message_id, is_text=False)


def _with_local_ids(restated: Sequence[JSONMessage], local: Sequence[JSONMessage]) -> list[JSONMessage]:
    """Give messages of a document the ids under which the client has them; those that it does not have keep theirs.

    Args:
        restated: The messages of the document.
        local: The messages of the client.
    """
    shared = {each["id"] for each in restated} & {each["id"] for each in local}
    theirs = [part for each in restated if each["id"] not in shared for part in _parts(each)]
    ours = [part for each in local if each["id"] not in shared for part in _parts(each)]
    own_ids = _matched(theirs, ours)
    found: dict[str, JSONMessage] = {}
    for message in restated:
        for message_id, fields in _divided(message, own_ids):
            # What the client has in one message may be two in the document.
            found[message_id] = {**found.get(message_id, {}), **fields, "id": message_id}
    return list(found.values())


def _matched(theirs: Sequence[_Part], ours: Sequence[_Part]) -> dict[_Part, str]:
    """Return the ids under which the client has parts of a document, as far as both are in the same order."""
    matcher = SequenceMatcher(None, [each[:2] for each in theirs], [each[:2] for each in ours], autojunk=False)
    own_ids: dict[_Part, str] = {}
    for _, begin, end, own_begin, own_end in matcher.get_opcodes():
        left = list(ours[own_begin:own_end])
        for part in theirs[begin:end]:
            own = next((each for each in left if part.is_same(each)), None)
            if own is not None:
                own_ids[part] = own.message_id
                del left[: left.index(own) + 1]
    return own_ids


def _divided(message: JSONMessage, own_ids: Mapping[_Part, str]) -> list[tuple[str, JSONMessage]]:
    """Return the fields of a message with its id; of two messages if the client has its text and its calls in two."""
    found = {own_ids[part]: part.is_text for part in _parts(message) if part in own_ids}
    if len(found) < 2:
        return [(next(iter(found), str(message["id"])), message)]
    without = {True: "toolCalls", False: "content"}
    return [
        (message_id, {name: value for name, value in message.items() if name != without[is_text]})
        for message_id, is_text in found.items()
    ]
