"""What the client holds of a thread: its messages, in order and found by id, and its state.

Reduction writes to it, whoever looks reads from it. A look costs the messages changed since the last one and a copy of
a list of references, never a pass over the whole conversation.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import (
    ActivitySnapshotEvent,
    Event,
    Message,
    ReasoningMessageStartEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallResultEvent,
    ToolMessage,
)

from agui_client._pipeline.slots import CallSlot, MessageSlot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agui_client._pipeline.warnings import WarningLog

Opener: TypeAlias = TextMessageStartEvent | ReasoningMessageStartEvent | ToolCallResultEvent | ActivitySnapshotEvent
"""The events that make a message."""


class Change(IntFlag):
    """What an event touched, so that whoever shows messages or state knows when to look again."""

    NONE = 0
    """Neither messages nor state."""
    MESSAGES = 1
    """At least one message."""
    STATE = 2
    """The state."""


# Looking a member of an enum up costs a fifth of what a text delta may.
NONE, MESSAGES, STATE = Change.NONE, Change.MESSAGES, Change.STATE


def adopt(message: Message, event: Opener) -> Message:
    """Give a message that is still ours alone the owner and metadata of the event it was made from."""
    if event.subagent_run_id is not None:
        message.subagent_run_id = event.subagent_run_id
    if event.metadata:
        message.metadata = {**(message.metadata or {}), **event.metadata}
    return message


class Thread:
    """Messages and state under construction. Of two messages or calls with one id, the one held first is found."""

    __slots__ = ("_order", "_view", "calls", "dirty", "log", "slots", "state")

    def __init__(self, messages: Iterable[Message], state: Any, log: WarningLog) -> None:
        self.state = state
        self.log = log
        self._order: list[MessageSlot] = []
        self._view: list[Message] = []
        self.slots: dict[str, MessageSlot] = {}
        """The messages by their ids."""
        self.calls: dict[str, CallSlot] = {}
        """The tool calls by theirs."""
        self.dirty: set[MessageSlot] = set()
        """What has changed since the last look."""
        for message in messages:
            self.append(message)

    def reset(self, messages: Iterable[Message]) -> None:
        """Hold these messages instead of the present ones."""
        messages = list(messages)
        for collection in (self._order, self._view, self.slots, self.calls, self.dirty):
            collection.clear()
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> MessageSlot:
        """Put a message at the end."""
        return self.insert(len(self._order), message)

    def insert(self, index: int, message: Message) -> MessageSlot:
        """Put a message before the one at `index`; costs the messages after it, so near the end next to nothing."""
        slot = MessageSlot(message, index)
        self._order.insert(index, slot)
        self._view.insert(index, message)
        for later in self._order[index + 1 :]:
            later.index += 1
        self._register(slot)
        return slot

    def replace(self, slot: MessageSlot, message: Message) -> None:
        """Put a message in the place of another that has the same id."""
        for call in slot.calls:
            if self.calls.get(call.call.id) is call:
                del self.calls[call.call.id]
        self.dirty.discard(slot)
        del self.slots[slot.message.id]
        self._order[slot.index] = MessageSlot(message, slot.index)
        self._view[slot.index] = message
        self._register(self._order[slot.index])

    def rename(self, slot: MessageSlot, message_id: str) -> None:
        """Give a message another id."""
        del self.slots[slot.message.id]
        slot.changes["id"] = message_id
        self.dirty.add(slot)
        self._view[slot.index] = self.message(slot)
        self.slots[message_id] = slot

    def _register(self, slot: MessageSlot) -> None:
        self.slots.setdefault(slot.message.id, slot)
        for call in slot.calls:
            self.calls.setdefault(call.call.id, call)

    def add_call(self, slot: MessageSlot, call: ToolCall) -> None:
        """Give an assistant message one more tool call."""
        new = CallSlot(call, slot)
        slot.calls.append(new)
        self.calls[call.id] = new
        self.dirty.add(slot)

    def place_of_result(self, tool_call_id: str) -> int:
        """Right after the message that made the call and the results already there, else the end (TOOL-5)."""
        call = self.calls.get(tool_call_id)
        if call is None:
            return len(self._order)
        place = call.owner.index + 1
        while place < len(self._order) and isinstance(self._order[place].message, ToolMessage):
            place += 1
        return place

    def insert_results(self, results: Iterable[ToolMessage]) -> None:
        """Put results of tool calls where they belong, in the order of the calls (TOOL-5)."""
        for result in results:
            self.insert(self._place_among_results(result.tool_call_id), result)

    def _place_among_results(self, tool_call_id: str) -> int:
        """After the results that are there already, but before those of later calls of the same message."""
        place = self.place_of_result(tool_call_id)
        call = self.calls.get(tool_call_id)
        if call is None:
            return place
        later = {each.call.id for each in call.owner.calls[call.owner.calls.index(call) + 1 :]}
        results = range(call.owner.index + 1, place)
        return next((index for index in results if self._answers(index) in later), place)

    def _answers(self, index: int) -> str | None:
        message = self._order[index].message
        return message.tool_call_id if isinstance(message, ToolMessage) else None

    def hold(self, message: Message, event: Opener, index: int | None = None) -> Change:
        """Put a message an event made at its place, the end by default."""
        self.insert(len(self._order) if index is None else index, adopt(message, event))
        return MESSAGES

    def merge(self, slot: MessageSlot, event: Event) -> Change:
        """Merge the event's metadata into the message (META-1)."""
        if not event.metadata:
            return NONE
        slot.merge_metadata(event.metadata)
        self.dirty.add(slot)
        return MESSAGES

    def change(self, slot: MessageSlot, event: Event, changes: dict[str, Any]) -> Change:
        """Give fields of a message new values, and merge the event's metadata."""
        slot.changes.update(changes)
        self.dirty.add(slot)
        self.merge(slot, event)
        return MESSAGES

    def message(self, slot: MessageSlot) -> Message:
        """One message as it is now."""
        if slot in self.dirty:
            self.dirty.discard(slot)
            self._view[slot.index] = slot.build()
        return slot.message

    def messages(self) -> list[Message]:
        """All messages as they are now, in a list of the caller's own."""
        for slot in self.dirty:
            self._view[slot.index] = slot.build()
        self.dirty.clear()
        return self._view.copy()

    def warn(self, rule: str, event: Event, sentence: str) -> Change:
        """Record a warning about an event, which changes nothing; `sentence` goes on from its type."""
        self.log.add(rule, f"{event.type.value} {sentence}", event_type=event.type.value)
        return NONE
