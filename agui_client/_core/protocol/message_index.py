"""The messages of a thread in their order, and what finds them, their calls and the results by ids.

The messages with which a thread begins have no slots until something is about one of them: until then they are read as
they are (`begun_messages`). A look makes the models of messages that changed since the last one, and copies a list of
references; after a snapshot has dropped messages, it costs a pass over all of them.

An id does not name one tool call for ever, as some servers number the calls of each run from the start: a call that
starts when the one of its id has a result is another call, and the latest one is found by the id.

To change

- the identity of a tool call: this module finds the latest call of an id, `_core/protocol/reduce.py` tells calls that
  come again from those that are sent again
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ag_ui import core
from ag_ui.core import Message, ToolCall

from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.message_slots import CallSlot, MessageSlot
from agui_client._core.protocol.placeholders import is_placeholder

_STEP = 2**60
"""The distance of the keys of two messages that were appended one after the other."""
_first_keys: list[Sequence[int]] = [()]
"""The keys of the messages with which threads begin, more than the longest has: to make them takes longer."""
_FEW = 50
"""Messages that get their slots as a thread begins: to find out later which of them need one would take longer."""
_FEW_GONE = 16
"""Messages that were removed are taken out one by one if there are not more than one in so many."""
_NOTHING = BegunMessages()


class _AnsweredIds(Collection[str]):
    """The ids of the calls of a thread that have a result, as they are at each look; most turns look at none."""

    def __init__(self, thread: MessageIndex) -> None:
        self._thread = thread

    def __contains__(self, tool_call_id: object) -> bool:
        return isinstance(tool_call_id, str) and self._thread.has_result(tool_call_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._thread.results)

    def __len__(self) -> int:
        return len(self._thread.results)


class MessageIndex:
    """Messages in order, found by ids. Of two messages or calls with one id, the first one is found.

    Args:
        messages: The messages with which the thread begins.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        # The messages that have no slots yet, with which the thread began.
        self._beginning = _NOTHING
        self.indexed: dict[str, MessageSlot] = {}
        """The messages that have slots, by their ids; `slot` finds all."""
        self.indexed_calls: dict[str, CallSlot] = {}
        """The tool calls of those messages, by their ids; `call` finds all."""
        self._results = dict[str, MessageSlot]()
        self._by_role = defaultdict[str, dict[MessageSlot, None]](dict)
        self.losses: int = 0
        """The number of times that a message or a call was removed or replaced, or its id given to another."""
        self.dirty: set[MessageSlot] = set()
        """The messages that have changed since the last look."""
        # The results of the calls that are not the latest ones of their ids any more.
        self._answers_earlier = set[MessageSlot]()
        # Each slot knows the next one; the first comes behind this, which is not a message of the thread.
        self._head = self._last = MessageSlot(core.UserMessage(id="", content=""), -1, 0)
        self._begin(messages)

    def _begin(self, messages: Iterable[Message]) -> None:
        """Store these messages instead of the present ones."""
        # The models in the order of the thread, with those that were removed since the last look, and the keys of their
        # slots: a position is found by a key, however many messages were put between others.
        self._view, self._keys, self._step = list[Message](), list[int](), _STEP
        self._gone = list[MessageSlot]()
        # Whether none was put between others or removed since the last look.
        self._is_in_order = True
        self.losses += 1
        for collection in (self.indexed, self.indexed_calls, self._results, self._by_role, self.dirty):
            collection.clear()
        self._answers_earlier.clear()
        self._last = self._head
        self._last.next = None
        beginning = messages if isinstance(messages, BegunMessages) else list(messages)
        self._store(beginning)
        self._beginning = _NOTHING
        if len(beginning) < _FEW:
            self._last = self._add_slots(beginning, 0, self._head)
        else:
            self._beginning = beginning if isinstance(beginning, BegunMessages) else BegunMessages(beginning)

    def _store(self, messages: Sequence[Message]) -> None:
        """Put the models of messages at the end."""
        count, keys = len(messages), self._keys
        self._view += messages
        if keys:
            keys += range(keys[-1] + self._step, keys[-1] + (count + 1) * self._step, self._step)
            return
        first = _first_keys[0]
        if len(first) < count:  # another thread may do the same
            _first_keys[0] = first = list(range(_STEP, (2 * count + 1) * _STEP, _STEP))
        keys += first[:count]

    def _add_slots(self, messages: Iterable[Message], index: int, last: MessageSlot) -> MessageSlot:
        """Make slots for messages, and let them be found; return the last one.

        Args:
            messages: The messages, in the order of the thread.
            index: The position of the first one in the list of models.
            last: The slot of the message before them.
        """
        slots, by_role, keys = self.indexed, self._by_role, self._keys
        callers: list[MessageSlot] = []
        for message in messages:
            slot = MessageSlot(message, index, keys[index])
            index += 1
            last.next = last = slot
            slots.setdefault(message.id, slot)
            role = message.role
            by_role[role][slot] = None
            if slot.calls or role == "tool":
                callers.append(slot)
        self._index(callers)
        return last

    def _index_if_about(self, messages: Iterable[Message]) -> None:
        """Make all slots if a new message has an id, or a call, that one without a slot has."""
        beginning = self._beginning
        if beginning and any(map(beginning.is_about, messages)):
            self._index_all()

    def _index_all(self) -> None:
        """Make slots for the messages with which the thread began; nothing else is about one of them so far."""
        beginning = self._beginning
        if not beginning:
            return
        self._beginning = _NOTHING
        found: list[Any] = [self.indexed, self.indexed_calls, self._results, *self._by_role.values()]
        later = [each.copy() for each in found]
        for each in found:
            each.clear()
        following = self._head.next
        last = self._add_slots(beginning, 0, self._head)
        last.next = following
        if following is None:
            self._last = last
        for each, behind in zip(found, later, strict=True):
            each.update(behind)

    # --- finding

    @property
    def slots(self) -> dict[str, MessageSlot]:
        """The messages by their ids."""
        self._index_all()
        return self.indexed

    @property
    def calls(self) -> dict[str, CallSlot]:
        """The tool calls by theirs."""
        self._index_all()
        return self.indexed_calls

    @property
    def by_role(self) -> Mapping[str, dict[MessageSlot, None]]:
        """The messages of each role."""
        self._index_all()
        return self._by_role

    @property
    def results(self) -> Mapping[str, MessageSlot]:
        """The results of calls, by the calls' ids."""
        self._index_all()
        return self._results

    def has_result(self, tool_call_id: str) -> bool:
        """Return whether there is a result of a call with an id."""
        if tool_call_id in self._results:
            return True
        return bool(self._beginning) and self._known_calls.find_result(tool_call_id) is not None

    def slots_of(self, message_ids: Collection[str]) -> Mapping[str, MessageSlot]:
        """Return messages by their ids, those of some ids among them if they are there."""
        if self._beginning and self._beginning.may_have(message_ids):
            self._index_all()
        return self.indexed

    def calls_of(self, tool_call_ids: Collection[str]) -> Mapping[str, CallSlot]:
        """Return tool calls by their ids, those of some ids among them if they are there."""
        if self._beginning and self._known_calls.may_have_calls(tool_call_ids):
            self._index_all()
        return self.indexed_calls

    def has(self, message_id: str) -> bool:
        """Return whether there is a message with an id."""
        return message_id in self.indexed or (bool(self._beginning) and self._beginning.find(message_id) is not None)

    def slot(self, message_id: str) -> MessageSlot | None:
        """Return a message; None if there is none with this id."""
        if self._beginning and self._beginning.find(message_id) is not None:
            self._index_all()
        return self.indexed.get(message_id)

    def call(self, tool_call_id: str) -> CallSlot | None:
        """Return a tool call; None if there is none with this id."""
        if self._beginning and self._known_calls.find_call(tool_call_id) is not None:
            self._index_all()
        return self.indexed_calls.get(tool_call_id)

    def result(self, tool_call_id: str) -> MessageSlot | None:
        """Return the result of a call; None if it has none."""
        if self._beginning and self._known_calls.find_result(tool_call_id) is not None:
            self._index_all()
        return self._results.get(tool_call_id)

    @property
    def _known_calls(self) -> BegunMessages:
        """The messages without slots, of which each call has an id of its own; none if servers use ids again."""
        if self._beginning.has_namesakes:
            self._index_all()
        return self._beginning

    # --- reading, for which no slots are made

    def read(self, message_id: str) -> Message | None:
        """Return a message as it is now; None if there is none with this id."""
        slot = self.indexed.get(message_id)
        return self._beginning.find(message_id) if slot is None else self.message(slot)

    def read_call(self, tool_call_id: str) -> tuple[Message, ToolCall, int] | None:
        """Return the latest call of an id with its message, and its number among those; None if there is none."""
        found = self._known_calls.find_call(tool_call_id)
        if (call := self.indexed_calls.get(tool_call_id)) is not None:
            return self.message(call.owner), call.build(), call.ordinal
        return None if found is None else (*found, 1)

    def is_answered(self, tool_call_id: str, message_id: str) -> bool:
        """Return whether the latest call of an id is that of a message, and has a result."""
        beginning = self._known_calls
        if (call := self.indexed_calls.get(tool_call_id)) is not None:
            return call.owner.model.id == message_id and tool_call_id in self._results
        found = beginning.find_call(tool_call_id)
        is_there = found is not None and found[0].id == message_id
        return is_there and beginning.find_result(tool_call_id) is not None

    def has_placeholder(self, tool_call_id: str) -> bool:
        """Return whether the result of a call is a placeholder."""
        known = self._known_calls.find_result(tool_call_id)
        slot = self._results.get(tool_call_id)
        result = known if slot is None else self.message(slot)
        return result is not None and result.role == "tool" and is_placeholder(result)

    @property
    def answered_ids(self) -> Collection[str]:
        """The ids of the calls that have a result."""
        # Of a long run, a view of a dictionary is looked through without a call for each id.
        return _AnsweredIds(self) if self._beginning else self._results.keys()

    @property
    def open_ids(self) -> list[str]:
        """The ids of the calls that have no result, in the order of the messages."""
        if not self._known_calls.is_answered:
            self._index_all()
        calls, open_ids = self.indexed_calls, self.indexed_calls.keys() - self._results.keys()
        if self._beginning:
            open_ids = {each for each in open_ids if self._beginning.find_result(each) is None}
        return sorted(open_ids, key=lambda each: (calls[each].owner.key, calls[each].position))

    # --- calls of one id

    def index_calls(self) -> None:
        """Find the calls and results anew, after messages were replaced or removed."""
        self._index_all()
        self._clear_calls()
        callers = self._by_role["assistant"]
        self._index(chain(callers, self._by_role["tool"]))
        if len(self.indexed_calls) < sum(len(slot.calls) for slot in callers):
            # Only their order tells calls of one id apart, and to walk the thread takes longer than all of the above.
            self._clear_calls()
            self._index([slot for slot in self._walk() if slot.calls or slot.model.role == "tool"])

    def _clear_calls(self) -> None:
        for collection in (self.indexed_calls, self._results, self._answers_earlier):
            collection.clear()

    def forget_calls(self, slot: MessageSlot) -> None:
        """Make the calls of a message, and the call that a result is of, unknown."""
        self.losses += 1
        if slot.model.role == "tool" and self._results.get(slot.model.tool_call_id) is slot:
            del self._results[slot.model.tool_call_id]
        for call in slot.calls:
            if self.indexed_calls.get(call.model.id) is call:
                self._unfollow(call)

    def _unfollow(self, call: CallSlot) -> None:
        """Let the id of a call name the one that it hid, or else the one before it again."""
        self.losses += 1
        del self.indexed_calls[call.model.id]
        while call.hidden:
            other = call.hidden.popleft()
            if other.owner.calls[other.position : other.position + 1] == [other]:  # its message was not replaced
                other.hidden, other.earlier, other.ordinal = call.hidden, call.earlier, call.ordinal
                self.indexed_calls[call.model.id] = other
                return
        if call.earlier is not None:
            self.indexed_calls[call.model.id], self._results[call.model.id] = call.earlier
            self._answers_earlier.discard(call.earlier[1])

    def _index(self, slots: Iterable[MessageSlot]) -> None:
        """Make the calls of messages, in order, and the calls that results are of, known by their ids."""
        calls, results = self.indexed_calls, self._results
        for slot in slots:
            if slot.model.role == "tool":
                results.setdefault(slot.model.tool_call_id, slot)
            for call in slot.calls:
                call.hidden = None
                found = calls.setdefault(call.model.id, call)
                if found is not call and call.model.id in results:
                    self._follow(call)
                elif found is not call:  # of two calls of one id without a result between them, the first one is found
                    found.hidden = found.hidden or deque()
                    found.hidden.append(call)

    def _follow(self, call: CallSlot) -> None:
        """Let the id of a call that has its result name another call from now on."""
        call_id = call.model.id
        self.losses += 1
        call.earlier = earlier, result = self.indexed_calls[call_id], self._results.pop(call_id)
        self._answers_earlier.add(result)
        call.ordinal = earlier.ordinal + 1
        self.indexed_calls[call_id] = call

    # --- the order

    def _walk(self) -> Iterator[MessageSlot]:
        self._index_all()
        slot = self._next(self._head)
        while slot is not None:
            yield slot
            slot = self._next(slot)

    def _next(self, slot: MessageSlot) -> MessageSlot | None:
        """Return the slot behind another one; take out those between whose messages were removed."""
        while slot.next is not None and slot.next.is_gone:
            slot.next = slot.next.next
        if slot.next is None:
            self._last = slot
        return slot.next

    @property
    def _end(self) -> MessageSlot:
        """The slot of the last message."""
        if self._last is self._head:
            self._index_all()
        return self._last

    def message(self, slot: MessageSlot) -> Message:
        """Return one message as it is now."""
        if slot in self.dirty:
            self.dirty.discard(slot)
            self._view[self._index_of(slot)] = slot.build()
        return slot.model

    def messages(self) -> list[Message]:
        """Return all messages as they are now, in a list of the caller's own."""
        return [*self.look()]

    def look(self) -> Sequence[Message]:
        """Return all messages as they are now, in the list that later events change: who keeps it makes a copy."""
        for slot in self.dirty:
            self._view[self._index_of(slot)] = slot.build()
        self.dirty.clear()
        if len(self._gone) * _FEW_GONE > len(self._view):
            self._renumber()
        for slot in self._gone:
            index = self._index_of(slot)
            del self._view[index], self._keys[index]
        self._gone.clear()
        self._is_in_order = True
        return self._view

    def _index_of(self, slot: MessageSlot) -> int:
        """Return the position of a slot in the list of models."""
        index, keys = slot.index, self._keys
        if index >= len(keys) or keys[index] != slot.key:
            slot.index = index = bisect_left(keys, slot.key)
        return index

    def _make_room(self) -> None:
        """Put the keys of messages further apart than before, so that this is seldom needed."""
        self._step *= _STEP
        self._renumber()

    def _renumber(self) -> None:
        """Make the list of models anew, without those that are gone."""
        slots = list(self._walk())
        for index, slot in enumerate(slots):
            slot.index, slot.key = index, (index + 1) * self._step
        self._view, self._keys = [slot.model for slot in slots], [slot.key for slot in slots]
        self._gone.clear()

    def appended_to(self, count: int) -> Message | None:
        """Return the last message if it is one more at the end than there were at the last look; None if it is not."""
        return self.message(self._end) if self._is_in_order and len(self._view) == count + 1 else None

    def place_of_message(self, message_id: str) -> int | None:
        """Return the place of a message, of several with one id the first; None if messages have moved."""
        slot = self.slots.get(message_id)
        return self._index_of(slot) if slot is not None and self._is_in_order else None

    def place_of_call(self, tool_call_id: str) -> tuple[int, int] | None:
        """Return the places of the message of a call, and of the call in it; None if messages have moved."""
        call = self.call(tool_call_id)
        return (self._index_of(call.owner), call.position) if call is not None and self._is_in_order else None
