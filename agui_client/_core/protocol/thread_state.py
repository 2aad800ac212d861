"""A thread under construction: its messages, in order and found by id, and its state (TOOL-4, TOOL-5).

Reductions write to it, callers read from it. A delta is an append to a list of strings; a look makes the models of
messages that changed since the last one (STREAM-2), and copies a list of references; after a snapshot has dropped
messages, it costs a pass over all of them. Models are never changed, only succeeded by a copy. The messages with which
a thread begins get their slots when something is about one of them.

An id does not name one tool call for ever, as some servers number the calls of each run from the start: a call that
starts when the one of its id has a result is another call, and the latest one is found by the id.

To change

- the identity of a tool call: this module finds the latest call of an id, `_core/protocol/reduce.py` tells calls that
  come again from those that are told again
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntFlag
from itertools import chain
from sys import getsizeof
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ag_ui import core
from ag_ui.core import ContentPart, Event, Message, TextPart, ToolCall, ToolMessage
from pydantic_core import from_json

from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.patch import LARGEST, Document, PatchBudget, is_same_json
from agui_client._core.protocol.placeholders import is_placeholder, restated, without_mark
from agui_client._core.protocol.schema import is_object, successor
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


_LONG = 10_000
"""The characters from which arguments are long: restarts parse them again only after they have doubled."""


def is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Compare the names and arguments of two calls, as JSON where they are JSON."""
    if one.function == other.function:
        return True
    try:
        arguments = [from_json(each.function.arguments or "{}") for each in (one, other)]
    except ValueError:
        return False
    return one.function.name == other.function.name and is_same_json(*arguments)


class CallSlot:
    """One tool call, with the message that made it."""

    earlier: tuple[CallSlot, MessageSlot] | None = None
    """The call of the same id before this one, with its result; None for the first one."""
    ordinal = 1
    """The number of this call among those of the same id."""
    hidden: deque[CallSlot] | None = None
    """Calls of the same id in later messages, without a result between them; the id names this one."""
    may_be_restated = False
    """Whether it names the message of the call before it, so that the same arguments make it that call again."""
    changes: dict[str, Any] | None = None
    """New values of other fields than the arguments; None if there are none since the last look."""
    restarts: bool = False
    """Whether the next arguments replace the stored ones, which were whole when the call started again."""
    _read_again_at = 0
    _read: tuple[str, Any] | None = None
    """The arguments that were compared with those of another call, and their JSON."""

    def __init__(self, call: ToolCall, owner: MessageSlot, position: int) -> None:
        self.model: ToolCall = call
        """The call as it was at the last look."""
        self.owner = owner
        self.position = position
        """The number of calls that the message made before this one."""
        self.arguments: list[str] = [call.function.arguments]
        """The pieces of the argument text; more than one if there is anything new since the last look."""
        self.size: int = len(call.function.arguments)
        """The number of characters in them, known without joining them."""

    def start_again(self) -> None:
        """Have further arguments replace the stored ones if those are whole, and be appended to them otherwise."""
        # A server may restart a call any number of times: long arguments are read again when there are twice as many.
        if self.restarts or self.size < self._read_again_at:
            return
        with suppress(ValueError):
            self.restarts = is_object(from_json(self.build().function.arguments))
        self._read_again_at = 2 * self.size if self.size > _LONG else 0

    def repeats(self, earlier: CallSlot) -> bool:
        """Return whether this is another call in the same words: see `is_same_call`."""
        if self.build().function == earlier.build().function:
            return True
        try:
            is_same = is_same_json(self._arguments(), earlier._arguments())
        except ValueError:
            return False
        return is_same and self.model.function.name == earlier.model.function.name

    def _arguments(self) -> Any:
        """Return the arguments as JSON, which is read once, as any number of calls may be compared with a long one."""
        text = self.build().function.arguments
        if self._read is None or self._read[0] is not text:
            self._read = text, from_json(text or "{}")
        return self._read[1]

    def append(self, delta: str) -> None:
        """Append to the arguments, or replace them if the call has restarted."""
        if self.restarts and delta:
            self.arguments, self.size, self.restarts, self._read_again_at = [""], 0, False, 0
        self.arguments.append(delta)
        self.size += len(delta)

    def build(self) -> ToolCall:
        """Return the call as it is now; the same object until the next change."""
        if len(self.arguments) > 1:
            self.arguments = [joined(self.arguments)]
            function = successor(self.model.function, {"arguments": self.arguments[0]})
            self.changes = {**(self.changes or {}), "function": function}
        if self.changes is not None:
            self.model, self.changes = successor(self.model, self.changes), None
        return self.model


_STEP = 2**60
"""The distance of the keys of two messages that were appended one after the other."""
_first_keys: list[Sequence[int]] = [()]
"""The keys of the messages with which threads begin, more than the longest has: to make them takes longer."""
_FEW = 50
"""Messages that get their slots as a thread begins: to find out later which of them need one would take longer."""
_FEW_GONE = 16
"""Messages that were removed are taken out one by one if there are not more than one in so many."""
_MANY_CALLS = 16
"""The calls of a message that a set finds sooner than a walk."""


class MessageSlot:
    """One message, with its place in the thread."""

    # Defaults of the class, as a long thread has a slot for each message, and events touch few of them.
    next: MessageSlot | None = None
    """The slot of the message behind this one."""
    is_gone = False
    """Whether the message was removed; the next walk along the slots takes this one out."""
    last_result: MessageSlot | None = None
    """The last known slot of the tool results behind this message; None before the first look for them."""
    text: list[str] | None = None
    """The pieces of the text; None until something is streamed to the message."""
    parts: list[ContentPart] | None = None
    """The content parts before the streamed text; None where the content is a string."""
    document: Document | None = None
    """The content of an activity message; None until it is patched."""
    calls: list[CallSlot] | tuple[()] = ()
    """The tool calls of the message."""
    call_ids: set[str] | None = None
    """The ids of the calls, once there are many; None if they are few, or have changed since."""
    changed_calls: dict[CallSlot, None] | None = None
    """The calls that are new or have changed since the last look; None if the list of calls is to be made anew."""
    changes: dict[str, Any] | None = None
    """New values of other fields than text and tool calls; None if there are none since the last look."""

    walked: tuple[int, MessageSlot] | None = None
    """The place of the last result that was put in the order of the calls, with the position of its call."""

    def __init__(self, message: Message, index: int, key: int) -> None:
        self.index = index
        """The position in the thread's list of models when it was last looked up; others may have moved it since."""
        self.key = key
        """The number that finds it there: those of messages behind it are higher."""
        self.model = message
        """The message as it was at the last look."""
        # Roles instead of isinstance, which takes half a microsecond where a model is of another class.
        if message.role == "assistant" and message.tool_calls:
            self.calls = [CallSlot(call, self, position) for position, call in enumerate(message.tool_calls)]

    def open_text(self) -> list[str] | None:
        """Return the pieces of the text; None for tool and activity messages, which cannot be streamed to."""
        if self.text is None and self.model.role != "tool" and self.model.role != "activity":
            content = self.model.content
            if isinstance(content, list):
                self.parts, self.text = content, []
            else:
                self.text = [] if content is None else [content]
        return self.text

    def has_call(self, tool_call_id: str) -> bool:
        """Return whether the message has a call of an id."""
        if len(self.calls) < _MANY_CALLS:
            return any(call.model.id == tool_call_id for call in self.calls)
        if self.call_ids is None:
            self.call_ids = {call.model.id for call in self.calls}
        return tool_call_id in self.call_ids

    def build(self) -> Message:
        """Return the message as it is now, as a new model."""
        changes = self.changes or {}
        if self.text:
            text = joined(self.text)
            self.text = [text]
            changes["content"] = text
            if self.parts is not None:
                changes["content"] = [*self.parts, TextPart(text=text)] if text else self.parts
        if self.document is not None:
            changes["content"] = self.document.look()
        if self.calls:
            changes["tool_calls"] = self._build_calls()
        self.model, self.changes = successor(self.model, changes), None
        return self.model

    def _build_calls(self) -> list[ToolCall]:
        """Return the calls as they are now: a copy of the last list with those that have changed since."""
        before = getattr(self.model, "tool_calls", None)
        if self.changed_calls is None or before is None:
            calls = [call.build() for call in self.calls]
        else:
            calls = list(before)
            for call in self.changed_calls:
                calls[call.position : call.position + 1] = [call.build()]
        self.changed_calls = {}
        return calls


_NOTHING = BegunMessages()


class _AnsweredIds(Collection[str]):
    """The ids of the calls of a thread that have a result, as they are at each look; most turns look at none."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def __contains__(self, tool_call_id: object) -> bool:
        return isinstance(tool_call_id, str) and self._thread.has_result(tool_call_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._thread.results)

    def __len__(self) -> int:
        return len(self._thread.results)


class Thread:
    """Messages and state under construction. Of two messages or calls with one id, the first one is found."""

    def __init__(self, messages: Iterable[Message], state: Any, log: WarningLog) -> None:
        self.budget: PatchBudget = PatchBudget()
        """The work that the patches of the present run may do."""
        self.document: Document = self.new_document(state)
        """The state."""
        self.log: WarningLog = log
        """The log of what is skipped; a conversation has one for each call."""
        # The messages that have no slots yet, with which the thread began.
        self._beginning = _NOTHING
        self.indexed: dict[str, MessageSlot] = {}
        """The messages that have slots, by their ids; `slot` finds all."""
        self.indexed_calls: dict[str, CallSlot] = {}
        """The tool calls of those messages, by their ids; `call` finds all."""
        self._results = dict[str, MessageSlot]()
        self._by_role = defaultdict[str, dict[MessageSlot, None]](dict)
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
        self.losses: int = 0
        """The number of times that a message or a call was removed or replaced, or its id given to another."""
        self.dirty: set[MessageSlot] = set()
        """The messages that have changed since the last look."""
        # The results of the calls that are not the latest ones of their ids any more.
        self._answers_earlier = set[MessageSlot]()
        # The next number for messages whose id is taken, and the ids that were made so, with their numbers.
        self._numbers, self._numbered = dict[str, int](), dict[str, tuple[str, int]]()
        # Each slot knows the next one; the first comes behind this, which is no message of the thread.
        self._head = self._last = MessageSlot(core.UserMessage(id="", content=""), -1, 0)
        self.reset(messages)

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
        self._numbers.clear()
        self._numbered.clear()
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

    def extend(self, messages: Iterable[Message]) -> None:
        """Put messages at the end."""
        added, count = list(messages), len(self._view)
        self._index_if_about(added)
        self._store(added)
        self._last = self._add_slots(added, count, self._last)

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

    # --- changing

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
            # Further apart than before, so that this is seldom needed.
            self._step *= _STEP
            self._renumber()
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
        """Make the calls of a message, and the call that a result answers, unknown."""
        self.losses += 1
        if slot.model.role == "tool" and self._results.get(slot.model.tool_call_id) is slot:
            del self._results[slot.model.tool_call_id]
        for call in slot.calls:
            if self.indexed_calls.get(call.model.id) is call:
                self._unfollow(call)

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
        """Make the calls of messages, in order, and the calls that results answer, known by their ids."""
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

    @property
    def _end(self) -> MessageSlot:
        """The slot of the last message."""
        if self._last is self._head:
            self._index_all()
        return self._last

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

    def warn(self, rule: str, event: Event, sentence: str) -> Change:
        """Record a warning about an event that changes nothing; `sentence` goes on from its type."""
        self.log.add(rule, f"{event.type.value} {sentence}", event_type=event.type.value)
        return NONE


_FACTOR = 4
_LARGEST = 2**25 - 2**16
"""The bytes of about the largest block that glibc learns from; larger ones are always mapped."""


_reserved = [128 * 1024]
"""The bytes of the longest text that needs no further block, in the whole process: at first those that glibc maps."""


def joined(pieces: list[str]) -> str:
    """Join the pieces of a text that an application looks at while it grows.

    glibc maps a block that is larger than any it has freed into memory of its own, page by page, and unmaps it with the
    block: a text that grows to 2 MB and is looked at 100 000 times takes 20 seconds in the kernel. It reuses what is
    not larger, so that one large block, which is freed untouched, spares all that follow.

    Args:
        pieces: The text at the last look, and what has come since. If it is long already, it is looked at while it
            grows, and memory is reserved: once, and again whenever a text is four times as long.
    """
    if (size := getsizeof(pieces[0])) > _reserved[0]:
        _reserved[0] = _FACTOR * size
        bytes(min(_reserved[0], _LARGEST))
    return "".join(pieces)


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
