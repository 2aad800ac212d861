"""A thread under construction: its messages, in order and found by id, and its state (TOOL-4, TOOL-5).

Reductions write to it, callers read from it. What finds messages and calls is in `message_index`, and what a message
gets in `message_slots`; here is what changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntFlag
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ag_ui.core import ContentPart, Event, Message, ToolCall, ToolMessage

from agui_client._core.protocol.message_index import MessageIndex
from agui_client._core.protocol.message_slots import CallSlot, MessageSlot
from agui_client._core.protocol.patch import LARGEST, Document, PatchBudget
from agui_client._core.protocol.placeholders import is_placeholder, restated, without_mark
from agui_client._core.protocol.warnings import WarningLog


class Change(IntFlag):
    """The changes an event has made, so that a display of messages or state knows when to look again."""

    NONE = 0
    """Neither messages nor state."""
    MESSAGES = 1
    """At least one message."""
    STATE = 2
    """The state."""


# Looking a member of an enum up costs a fifth of what a text delta may.
NONE, MESSAGES = Change.NONE, Change.MESSAGES


def adopt(message: Message, event: Any) -> Message:
    """Give a message that was not handed out yet the owner and metadata of the event it was made from."""
    if event.subagent_run_id is not None:
        message.subagent_run_id = event.subagent_run_id
    if event.metadata:
        message.metadata = {**(message.metadata or {}), **event.metadata}
    return message


class Thread(MessageIndex):
    """Messages and state under construction."""

    # Named again, as pyright takes `+=` in a subclass for an attribute without a type when it verifies the package.
    losses: int

    def __init__(self, messages: Iterable[Message], state: Any, log: WarningLog) -> None:
        self.budget: PatchBudget = PatchBudget()
        """The work that the patches of the present run may do."""
        self.document: Document = self.new_document(state)
        """The state."""
        self.log: WarningLog = log
        """The log of what is skipped; a conversation has one for each call."""
        self.takes_marks: bool = True
        """Whether the agent may make placeholders: one in this process may, and a server may not."""
        self.kept: set[str] = set()
        """The ids of the messages that no snapshot drops."""
        self.before_snapshot: list[Message] | None = None
        """The messages before the latest MESSAGES_SNAPSHOT. None, which costs no look, until a list is put here."""
        self.unsent: set[str] = set()
        """The ids of the messages that the present run did not send as they are, which its snapshots keep, too."""
        self.rewritten: set[str] = set()
        """The ids of the messages that it sent other than they are stored: what it says of them is not stored."""
        self.removed_calls: dict[str, CallSlot] = {}
        """The tool calls that snapshots of the present run removed, by their ids; some may be there again."""
        # The next number for messages whose id is taken, and the ids that were made so, with their numbers.
        self._numbers, self._numbered = dict[str, int](), dict[str, tuple[str, int]]()
        super().__init__(messages)

    def new_document(self, value: Any, *, is_private: bool = False) -> Document:
        """Return a document whose patches do no more than those of the run may: see `Document`."""
        return Document(value, is_private=is_private, budget=self.budget)

    def begin_run(self, log: WarningLog, *, takes_marks: bool) -> None:
        """Begin a run with a log of its own; its patches may do as much as those of any other.

        Args:
            log: The log of what is skipped.
            takes_marks: Whether the agent may make placeholders.
        """
        self.log, self.takes_marks = log, takes_marks
        self.budget.left = LARGEST
        self.removed_calls.clear()

    def reset(self, messages: Iterable[Message]) -> None:
        """Store these messages instead of the present ones."""
        self._begin(messages)
        self._numbers.clear()
        self._numbered.clear()

    def extend(self, messages: Iterable[Message]) -> None:
        """Put messages at the end."""
        added, count = list(messages), len(self._view)
        self._index_if_about(added)
        self._store(added)
        self._last = self._add_slots(added, count, self._last)

    def append(self, message: Message) -> MessageSlot:
        """Put a message at the end."""
        self.extend((message,))
        return self._last

    def insert(self, place: MessageSlot, message: Message) -> None:
        """Put a message behind another one."""
        self._index_if_about((message,))
        following = self._next(place)
        if following is None:
            self.append(message)
            return
        index = self._index_of(place) + 1
        if self._keys[index] - place.key < 2:
            self._make_room()
            index = place.index + 1
        slot = MessageSlot(message, index, (place.key + self._keys[index]) // 2)
        self._view.insert(index, message)
        self._keys.insert(index, slot.key)
        place.next, slot.next, self._is_in_order = slot, following, False
        self.indexed.setdefault(message.id, slot)
        self._by_role[message.role][slot] = None
        self._index([slot])

    def replace(self, slot: MessageSlot, message: Message) -> None:
        """Put a message in the place of another that has the same id; call `index_calls` when all are replaced."""
        index, key, following = self._index_of(slot), slot.key, slot.next
        self.losses += 1
        del self._by_role[slot.model.role][slot]
        vars(slot).clear()
        MessageSlot.__init__(slot, message, index, key)
        slot.next = following
        self._view[index] = message
        self.dirty.discard(slot)
        self._by_role[message.role][slot] = None

    def remove(self, slot: MessageSlot) -> None:
        """Remove a message; call `index_calls` when all are removed."""
        slot.is_gone, self._is_in_order = True, False
        self._gone.append(slot)
        self.losses += 1
        message_id = slot.model.id
        if self.indexed.get(message_id) is slot:
            del self.indexed[message_id]
        if (numbered := self._numbered.pop(message_id, None)) is not None:
            taken_id, number = numbered
            self._numbers[taken_id] = min(self._numbers[taken_id], number)
        del self._by_role[slot.model.role][slot]
        self.dirty.discard(slot)

    def free_id(self, taken_id: str) -> str:
        """Return an id for a message whose own may be taken, the same one in each replay of the thread."""
        if not self.has(taken_id):
            return taken_id
        # Further messages of that id begin where the last one ended.
        found, number = taken_id, self._numbers.get(taken_id, 2)
        while self.has(found):
            found, number = _further_id(taken_id, number), number + 1
        self._numbers[taken_id], self._numbered[found] = number, (taken_id, number - 1)
        return found

    def rename(self, slot: MessageSlot, message_id: str) -> None:
        """Give a message another id."""
        del self.indexed[slot.model.id]
        self.losses += 1
        self.change(slot, {"id": message_id})
        self.indexed[message_id] = slot
        self.message(slot)

    def withdraw(self, call: CallSlot) -> None:
        """Take a call out again that turned out to be the one of its id before it, sent again."""
        self._unfollow(call)
        slot = call.owner
        slot.calls, slot.call_ids = [each for each in slot.calls if each is not call], None
        slot.changed_calls = None
        for position, each in enumerate(slot.calls):
            each.position = position
        if slot.calls or self.message(slot).content is not None:
            self.change(slot, {} if slot.calls else {"tool_calls": None})
        else:  # a message that was made for the call
            self.remove(slot)

    def note_sent(self, messages: Iterable[Message]) -> None:
        """Note which messages a run leaves out, or sends other than they are stored: snapshots do not change those."""
        stored, sent = ({each.id: each for each in every} for every in (self.messages(), messages))
        # Most are the stored objects themselves, which cost nothing to compare.
        self.rewritten = {key for key, each in sent.items() if each is not (known := stored.get(key)) and each != known}
        left_out = {each.id for each in stored.values() if each.id not in sent and each.role != "activity"}
        self.unsent = left_out | self.rewritten

    def add_call(self, slot: MessageSlot, call: ToolCall) -> CallSlot:
        """Give an assistant message one more tool call; return it."""
        slot.calls = slot.calls or []
        new = CallSlot(call, slot, len(slot.calls))
        if self.call(call.id) is not None:
            self._follow(new)
        else:
            self.indexed_calls[call.id] = new
        slot.calls.append(new)
        if slot.call_ids is not None:
            slot.call_ids.add(call.id)
        self.touch(new)
        return new

    def touch(self, call: CallSlot) -> None:
        """Note that a call is new or has changed."""
        if (changed := call.owner.changed_calls) is not None:
            changed[call] = None
        self.dirty.add(call.owner)

    def place_of_result(self, tool_call_id: str) -> MessageSlot:
        """Return the slot behind which a result belongs: the call's message and its results, else the last (TOOL-5)."""
        call = self.call(tool_call_id)
        if call is None:
            return self._end
        last = call.owner.last_result
        place = call.owner if last is None or last.is_gone else last
        while (following := self._next(place)) is not None and following.model.role == "tool":
            place = following
        call.owner.last_result = place
        return place

    def result_of(self, tool_call_id: str, content: str | list[ContentPart]) -> MessageSlot | None:
        """Return the first result of a call if that is its content."""
        slot = self.result(tool_call_id)
        return slot if slot is not None and self.message(slot).content == content else None

    def answers_earlier(self, slot: MessageSlot, tool_call_id: str) -> bool:
        """Return whether a message is the result of an earlier call of an id than the one that the id names now."""
        message = slot.model
        return message.role == "tool" and message.tool_call_id == tool_call_id and slot in self._answers_earlier

    def placeholder_of(self, tool_call_id: str) -> MessageSlot | None:
        """Return the placeholder for the result of a call; None if there is none."""
        slot = self.result(tool_call_id)
        if slot is None:
            return None
        message = self.message(slot)
        return slot if message.role == "tool" and is_placeholder(message) else None

    def received(self, message: ToolMessage) -> ToolMessage:
        """Return a result as the agent sent it, with the mark of a placeholder as it is on this side."""
        slot = self.result(message.tool_call_id)
        message = message if self.takes_marks else without_mark(message)
        return message if slot is None else restated(self.message(slot), message)

    def insert_results(self, results: Sequence[ToolMessage]) -> None:
        """Put results of tool calls where they belong, in the order of the calls; a late one replaces a placeholder."""
        for result in self._by_calls(results):
            if (placeholder := self.placeholder_of(result.tool_call_id)) is not None and not self.has(result.id):
                self.rename(placeholder, result.id)
                self.replace(placeholder, result)
                continue
            call, place = self.call(result.tool_call_id), self.place_of_result(result.tool_call_id)
            if call is not None and self._answers_later(place, call):
                place = call.owner
                if place.walked is not None and place.walked[0] <= call.position and not place.walked[1].is_gone:
                    place = place.walked[1]
                while place.next is not None and not self._answers_later(place.next, call):
                    place = place.next
                call.owner.walked = call.position, place
            self.insert(place, result)

    def _by_calls(self, results: Sequence[ToolMessage]) -> list[ToolMessage]:
        """Return results with those of known calls in the order of these, so that one walk finds the places of all."""
        calls = {at: call for at, each in enumerate(results) if (call := self.call(each.tool_call_id)) is not None}
        ordered = list(results)
        for at, other in zip(calls, sorted(calls, key=lambda at: calls[at].position), strict=True):
            ordered[at] = results[other]
        return ordered

    def _answers_later(self, slot: MessageSlot, call: CallSlot) -> bool:
        """Return whether a message is the result of a later call of the same message."""
        other = self.call(slot.model.tool_call_id) if slot.model.role == "tool" else None
        return other is not None and other.owner is call.owner and other.position > call.position

    def merge(self, slot: MessageSlot | CallSlot, event: Any) -> Change:
        """Merge the event's metadata per key, last write wins, no recursion (META-1, META-2)."""
        if not event.metadata:
            return NONE
        pending: dict[str, Any] | None = (slot.changes or {}).get("metadata")
        if pending is None:
            return self.change(slot, {"metadata": {**(slot.model.metadata or {}), **event.metadata}})
        pending.update(event.metadata)
        return MESSAGES

    def change(self, slot: MessageSlot | CallSlot, changes: dict[str, Any]) -> Change:
        """Give fields of a message or tool call new values."""
        slot.changes = {**(slot.changes or {}), **changes}
        if isinstance(slot, CallSlot):
            self.touch(slot)
        else:
            self.dirty.add(slot)
        return MESSAGES

    def warn(self, rule: str, event: Event, sentence: str) -> Change:
        """Record a warning about an event that changes nothing; `sentence` continues from its type."""
        self.log.add(rule, f"{event.type.value} {sentence}", event_type=event.type.value)
        return NONE


def with_free_ids(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages in which each id stands once: clients that make ids of those of calls may have one twice.

    Args:
        messages: The messages of a caller.
    """
    taken = {each.id for each in messages}
    if len(taken) == len(messages):
        return messages
    seen, found = set[str](), list["Message"]()
    for message in messages:
        new_id, number = message.id, 2
        while new_id in seen or (new_id != message.id and new_id in taken):
            new_id, number = _further_id(message.id, number), number + 1
        seen.add(new_id)
        found.append(message if new_id == message.id else message.model_copy(update={"id": new_id}))
    return found


def _further_id(taken_id: str, number: int) -> str:
    """Return another id: that of a member of a team keeps its prefix, and is the member's own behind that."""
    head, slash, own_id = taken_id.rpartition("/")
    return f"{head}{slash}{uuid5(NAMESPACE_OID, f'{own_id}/{number}')}"
