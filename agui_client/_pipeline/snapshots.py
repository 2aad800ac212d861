"""Reduction of what is replaced and patched: state, activity messages, and the conversation as a whole.

SNAP-1 … SNAP-6, STATE-1 … STATE-8, ACT-1 … ACT-7 and LIFE-14. A patch that does not apply leaves everything as it was,
with a warning that names the operation and never a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    Event,
    Message,
    MessagesSnapshotEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
)

from agui_client._pipeline.copies import copied
from agui_client._pipeline.ownership import quoted
from agui_client._pipeline.patch import PatchFailed, apply_patch
from agui_client._pipeline.thread import MESSAGES, NONE, STATE, Change, Thread, adopt

if TYPE_CHECKING:
    from agui_client._pipeline.slots import MessageSlot

CLIENT_ONLY = ("activity", "reasoning")


def state_snapshot(thread: Thread, event: StateSnapshotEvent) -> Change:
    """Replace the state, by null and other falsy values as well (SNAP-1, STATE-2)."""
    thread.state = copied(event.snapshot)
    return STATE


def state_delta(thread: Thread, event: StateDeltaEvent) -> Change:
    """Patch the state, or keep it (SNAP-2, SNAP-5)."""
    try:
        thread.state = apply_patch(thread.state, event.delta)
    except PatchFailed as failure:
        return _patch_failed(thread, event, f"state patch: {failure}", f"/delta/{failure.index}")
    return STATE


def messages_snapshot(thread: Thread, event: MessagesSnapshotEvent) -> Change:
    """Take over the messages the producer owns, each in the place it is held at (STATE-5)."""
    # Of a repeated id a dict keeps the first place and the last value.
    incoming = {message.id: message for message in event.messages}
    if len(incoming) < len(event.messages):
        thread.warn("STATE-5", event, "has several messages with one id; the last of them counts")
    thread.reset(_reconciled(thread.messages(), incoming))
    return MESSAGES


def _reconciled(held: list[Message], incoming: dict[str, Message]) -> list[Message]:
    """What was held, restated or kept in its place, then what is new; `incoming` is used up.

    Activity and reasoning messages may be the client's alone, so they stay unless the snapshot has some of that role:
    then it has all of them (STATE-6, STATE-7).
    """
    declared = {message.role for message in incoming.values()}
    kept = {role for role in CLIENT_ONLY if role not in declared}
    merged = [incoming.pop(old.id, old) for old in held if old.id in incoming or old.role in kept]
    return [*merged, *incoming.values()]


def run_started(thread: Thread, event: RunStartedEvent) -> Change:
    """Append those messages of an echoed input that are not held (LIFE-14)."""
    change = NONE
    for message in event.input.messages if event.input is not None else ():
        if message.id not in thread.slots:
            thread.append(message)
            change = MESSAGES
    return change


def activity_snapshot(thread: Thread, event: ActivitySnapshotEvent) -> Change:
    """Create an activity message or mint it anew; only its metadata accumulates (ACT-2, ACT-3)."""
    slot = thread.slots.get(event.message_id)
    if slot is None:
        return thread.hold(_activity(event, None), event)
    if event.replace is False:
        return _stand(thread, slot, event)
    held = thread.message(slot)
    if not isinstance(held, ActivityMessage):
        # The pages are silent about an id of another kind of message; the reference replaces that one, too.
        thread.warn("ACT-3", event, f"replaces {held.role} message {quoted(event.message_id)}")
    metadata = held.metadata if isinstance(held, ActivityMessage) else None
    thread.replace(slot, adopt(_activity(event, metadata), event))
    return MESSAGES


def _activity(event: ActivitySnapshotEvent, metadata: dict[str, Any] | None) -> ActivityMessage:
    message = ActivityMessage(id=event.message_id, activity_type=event.activity_type, content=copied(event.content))
    if metadata is not None:
        message.metadata = metadata
    return message


def _stand(thread: Thread, slot: MessageSlot, event: ActivitySnapshotEvent) -> Change:
    """Content, type and owner stay when the snapshot asks not to replace them (ACT-4)."""
    if isinstance(slot.message, ActivityMessage):
        return thread.merge(slot, event)
    return thread.warn("ACT-4", event, f"skipped: {quoted(event.message_id)} is no activity message")


def activity_delta(thread: Thread, event: ActivityDeltaEvent) -> Change:
    """Patch an activity message and set its type (ACT-5, ACT-6); metadata merges even when the patch fails (ACT-7)."""
    slot = thread.slots.get(event.message_id)
    if slot is None or not isinstance(slot.message, ActivityMessage):
        return thread.warn("ACT-6", event, f"skipped: there is no activity message {quoted(event.message_id)}")
    try:
        content = apply_patch(slot.changes.get("content", slot.message.content), event.patch)
        _require_object(content, event)
    except PatchFailed as failure:
        what = f"activity patch to {quoted(event.message_id)}: {failure}"
        _patch_failed(thread, event, what, f"/patch/{failure.index}")
        return thread.merge(slot, event)
    return thread.change(slot, event, {"activity_type": event.activity_type, "content": content})


def _require_object(content: object, event: ActivityDeltaEvent) -> None:
    if not isinstance(content, dict):
        last = event.patch[-1]
        raise PatchFailed("the result would not be an object", len(event.patch) - 1, last.op, last.path)


def _patch_failed(thread: Thread, event: Event, what: str, path: str) -> Change:
    thread.log.add("SNAP-5", f"Failed to apply {what}; nothing was changed", path=path, event_type=event.type.value)
    return NONE
