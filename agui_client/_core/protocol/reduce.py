"""Reduction: events become messages and state. The last stage, and a public accumulator of its own without any I/O.

Each function does to the thread (`thread_state`) what one type of event describes, and returns what changed: text and
reasoning messages, tool calls, their results and encrypted values (STREAM, TOOL, REASON), state, activity messages and
the conversation as a whole (SNAP, STATE, ACT), repeated runs and metadata (LIFE-13, LIFE-14, META-3). Events have been
verified before; one that fits nothing in the thread is skipped with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import repeat
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeAlias, get_args
from uuid import NAMESPACE_OID, uuid5

from ag_ui import core
from ag_ui.core import Event, Message, ToolCall
from pydantic_core import PydanticUndefined

from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.message_slots import MessageSlot
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.patch import PatchFailed, copied
from agui_client._core.protocol.placeholders import is_placeholder, unmarked, without_mark
from agui_client._core.protocol.thread_state import MESSAGES, NONE, Change, Thread, adopt
from agui_client._core.protocol.warnings import ProtocolWarning, WarningLog
from agui_client.errors import UsageError

__all__ = ["REDUCTIONS", "Change", "Reducer"]

_TextStart: TypeAlias = core.TextMessageStartEvent | core.ReasoningMessageStartEvent
_TextContent: TypeAlias = core.TextMessageContentEvent | core.ReasoningMessageContentEvent
_TextEnd: TypeAlias = core.TextMessageEndEvent | core.ReasoningMessageEndEvent

_NO_CALL: Any = SimpleNamespace(model=None)
_NOTHING: Any = SimpleNamespace(model=SimpleNamespace(content=None))

_MESSAGE_OF_ROLE = {
    "assistant": core.AssistantMessage,
    "developer": core.DeveloperMessage,
    "reasoning": core.ReasoningMessage,
    "system": core.SystemMessage,
    "user": core.UserMessage,
}


def text_start(thread: Thread, event: _TextStart) -> Change:
    """Open a message, of an assistant unless it has another role (STREAM-4, REASON-4)."""
    slot = thread.slot(event.message_id)
    if slot is not None:
        return _reopen(thread, slot, event)
    message = _MESSAGE_OF_ROLE[event.role or "assistant"](id=event.message_id, content="")
    if isinstance(event, core.TextMessageStartEvent) and event.name is not None and message.role != "reasoning":
        message.name = event.name
    thread.append(adopt(message, event))
    return MESSAGES


def text_content(thread: Thread, event: _TextContent) -> Change:
    """Append to a text or reasoning message (STREAM-2)."""
    # Messages that get many deltas are found at once.
    slot = thread.indexed.get(event.message_id) or thread.slot(event.message_id)
    # Opened by the first delta: most messages of a thread are never streamed to.
    if slot is None or (text := slot.text or slot.open_text()) is None:
        return _skip_text(thread, slot, event)
    text.append(event.delta)
    thread.dirty.add(slot)
    if event.metadata:
        thread.merge(slot, event)
    return MESSAGES


def text_end(thread: Thread, event: _TextEnd) -> Change:
    """Close a text or reasoning message, which only merges metadata."""
    slot = thread.slot(event.message_id)
    if slot is None or slot.open_text() is None:
        return _skip_text(thread, slot, event)
    return thread.merge(slot, event)


OWN_ACTIVITIES = "agui-client/"
"""The beginning of the types of activities that are this client's own: a server neither knows nor drops them."""
_ANOTHER = ", which has its result, and is taken for another call"


def tool_call_start(thread: Thread, event: core.ToolCallStartEvent) -> Change:
    """Open a call on its message; a stored call without a result continues, with its name and place (TOOL-4)."""
    stored = thread.call(event.tool_call_id)
    is_answered = stored is not None and thread.result(event.tool_call_id) is not None
    # Its arguments will say: see `tool_call_end`. Servers that number calls per run name other messages, or none.
    may_be_restated = stored is not None and is_answered and event.parent_message_id == stored.owner.model.id
    if is_answered and not may_be_restated:
        thread.warn("TOOL-4", event, f"starts tool call {quoted(event.tool_call_id)}{_ANOTHER}")
    elif stored is not None and not is_answered:
        stored.start_again()
        return thread.merge(stored, event)
    call = core.ToolCall(id=event.tool_call_id, function=core.FunctionCall(name=event.tool_call_name, arguments=""))
    if event.metadata:
        call.metadata = dict(event.metadata)
    thread.add_call(_owner(thread, event), call).may_be_restated = may_be_restated
    return MESSAGES


def tool_call_args(thread: Thread, event: core.ToolCallArgsEvent) -> Change:
    """Append to the argument text of a call, which need not be JSON (TOOL-2)."""
    call = thread.indexed_calls.get(event.tool_call_id) or thread.call(event.tool_call_id)
    if call is None:
        return _skip_call(thread, event)
    call.append(event.delta)
    thread.touch(call)
    if event.metadata:
        thread.merge(call, event)
    return MESSAGES


def tool_call_end(thread: Thread, event: core.ToolCallEndEvent) -> Change:
    """Close a call; one that was stated again in the same words is the call before it, with its result (TOOL-4)."""
    call = thread.call(event.tool_call_id)
    if call is None:
        return _skip_call(thread, event)
    if call.may_be_restated and call.earlier is not None:
        call.may_be_restated = False
        if call.repeats(call.earlier[0]):
            thread.withdraw(call)
            return MESSAGES
        thread.warn("TOOL-4", event, f"ends tool call {quoted(event.tool_call_id)}{_ANOTHER}")
    return thread.merge(call, event)


def tool_call_result(thread: Thread, event: core.ToolCallResultEvent) -> Change:
    """Put the result behind its call as a message of its own; a repeated one replaces the content in place (TOOL-5)."""
    if event.metadata and not thread.takes_marks:
        event = without_mark(event)
    _withdraw_if_restated(thread, event)
    call_id, message_id = event.tool_call_id, event.message_id
    stored = thread.slot(message_id)
    if stored is not None and thread.answers_earlier(stored, call_id):
        # Servers that number the calls of each run from the start may do so with the results, too.
        message_id = thread.free_id(message_id)
        stored = thread.result(call_id)
    if stored is not None:
        twin = stored.model
        if twin.role == "tool" and twin.tool_call_id == call_id:
            if thread.placeholder_of(call_id) is stored and not thread.result_of(call_id, event.content):
                thread.change(stored, {"metadata": unmarked(thread.message(stored).metadata), "error": None})
                thread.message(stored)
            thread.merge(stored, event)
            return thread.change(stored, {"content": event.content, **_error_of(event)})
        if message_id == call_id and twin.role == "assistant" and twin.content is None:
            # The client chose the id (TOOL-3), and the producer gives it to the result: our message takes another.
            thread.rename(stored, str(uuid5(NAMESPACE_OID, call_id)))
        else:
            thread.warn("TOOL-5", event, f"has the id of {twin.role} message {quoted(twin.id)}; both are kept")
    elif (same := thread.result_of(call_id, event.content)) is not None:
        return thread.merge(same, event)
    message = core.ToolMessage(id=message_id, tool_call_id=call_id, content=event.content, **_error_of(event))
    adopt(message, event)
    if thread.placeholder_of(call_id) is not None:
        thread.insert_results([message])
    else:
        thread.insert(thread.place_of_result(call_id), message)
    return MESSAGES


def _error_of(event: core.ToolCallResultEvent) -> dict[str, Any]:
    """Return the `error` of a placeholder, as the event has no place for it."""
    return {"error": event.content} if is_placeholder(event) else {}


def _withdraw_if_restated(thread: Thread, event: core.ToolCallResultEvent) -> None:
    """Take a call out again whose result shows it to be the earlier one of its id, sent again as a whole.

    Some servers send a call and its result again after they got the result. With another result, it is another call:
    one that asks for the time has the same arguments each time.
    """
    call = thread.call(event.tool_call_id)
    if call is None or call.earlier is None or thread.result(event.tool_call_id) is not None:
        return
    earlier, result_id = call.earlier
    if thread.message(result_id).content == event.content and call.repeats(earlier):
        thread.withdraw(call)


def encrypted_value(thread: Thread, event: core.ReasoningEncryptedValueEvent) -> Change:
    """Store the value unread on the message or tool call it names (REASON-5 … REASON-8)."""
    stored = (thread.call if event.subtype == "tool-call" else thread.slot)(event.entity_id)
    if stored is None or (isinstance(stored, MessageSlot) and stored.model.role == "activity"):
        missing = f"{event.subtype} {quoted(event.entity_id)}"
        return thread.warn("REASON-7", event, f"skipped: there is no {missing} to keep it on")
    return thread.change(stored, {"encrypted_value": event.encrypted_value})


def _reopen(thread: Thread, slot: MessageSlot, event: _TextStart) -> Change:
    """Continue with a stored message, whose role, name and owner stay (STREAM-5, LIFE-13)."""
    if slot.open_text() is None:
        return _skip_text(thread, slot, event)
    if slot.model.role != (event.role or "assistant"):
        stored = f"{slot.model.role} message {quoted(event.message_id)}"
        thread.warn("STREAM-5", event, f"continues {stored}; its role stands")
    return thread.merge(slot, event)


def _skip_text(thread: Thread, slot: MessageSlot | None, event: _TextStart | _TextContent | _TextEnd) -> Change:
    if slot is None:
        return thread.warn("STREAM-1", event, f"skipped: there is no message {quoted(event.message_id)}")
    stored = f"{slot.model.role} message {quoted(event.message_id)}"
    return thread.warn("STREAM-5", event, f"skipped: {stored} takes no text")


def _owner(thread: Thread, event: core.ToolCallStartEvent) -> MessageSlot:
    """Return the assistant message a new call goes to: its parent, or one made for it (TOOL-3)."""
    if event.parent_message_id:
        parent = thread.slot(event.parent_message_id)
        if parent is None:
            return _new_owner(thread, event.parent_message_id, event)
        if isinstance(parent.model, core.AssistantMessage):
            return _free_owner(thread, parent, event)
        thread.warn("TOOL-3", event, f"names a {parent.model.role} message as parent; the call gets one of its own")
    namesake = thread.slot(event.tool_call_id)
    if namesake is not None and isinstance(namesake.model, core.AssistantMessage):
        return _free_owner(thread, namesake, event)
    return _new_owner(thread, event.tool_call_id, event)


def _free_owner(thread: Thread, slot: MessageSlot, event: core.ToolCallStartEvent) -> MessageSlot:
    """Return the message for a call, or a new one if it has a call of that id already: no model takes two."""
    if not slot.has_call(event.tool_call_id):
        return slot
    return _new_owner(thread, thread.free_id(slot.model.id), event)


def _new_owner(thread: Thread, message_id: str, event: core.ToolCallStartEvent) -> MessageSlot:
    message = core.AssistantMessage(id=message_id)
    if event.subagent_run_id is not None:
        message.subagent_run_id = event.subagent_run_id
    return thread.append(message)


def _skip_call(thread: Thread, event: core.ToolCallArgsEvent | core.ToolCallEndEvent) -> Change:
    return thread.warn("STREAM-1", event, f"skipped: there is no tool call {quoted(event.tool_call_id)}")


def state_snapshot(thread: Thread, event: core.StateSnapshotEvent) -> Change:
    """Replace the state, by null and other falsy values as well (SNAP-1, STATE-2)."""
    # Copied: patches change it in place, and the event is passed on to the application.
    thread.document = thread.new_document(copied(event.snapshot), is_private=True)
    return Change.STATE


def state_delta(thread: Thread, event: core.StateDeltaEvent) -> Change:
    """Patch the state; a patch that fails changes nothing (SNAP-2, SNAP-5)."""
    try:
        thread.document.patch(event.delta)
    except PatchFailed as failure:
        return _patch_failed(thread, event, f"state patch: {failure}", "/delta")
    return Change.STATE


def messages_snapshot(thread: Thread, event: core.MessagesSnapshotEvent) -> Change:
    """Take over the messages the producer owns, each in the place of the stored one with its id (STATE-5)."""
    # Of a repeated id a dict keeps the first place and the last value.
    incoming = {message.id: message for message in event.messages}
    incoming |= {key: thread.received(each) for key, each in incoming.items() if each.role == "tool"}
    if len(incoming) < len(event.messages):
        thread.warn("STATE-5", event, "has several messages with one id; the last of them counts")
    # A message whose id was changed here would come back under its first one.
    for message_id in thread.rewritten:
        incoming.pop(message_id, None)
    if thread.before_snapshot is not None:
        thread.before_snapshot = thread.messages()
    calls_before = thread.calls.copy()
    _drop_what_is_missing(thread, incoming)
    new: list[core.Message] = []
    for message_id, message in incoming.items():
        if (slot := thread.slot(message_id)) is None:
            new.append(message)
        else:
            thread.replace(slot, message)
    moved: list[core.ToolMessage] = []
    if thread.by_role["tool"]:  # of a whole history, as a thread begins with, nothing is moved
        callers = {message.id for message in new if message.role == "assistant" and message.tool_calls}
        moved = [each for each in _results_of(incoming, callers) if each.id in thread.slots]
    for message in moved:
        thread.remove(thread.slots[message.id])
    # Once, behind all messages: an index for each of thousands would be built anew each time.
    thread.index_calls()
    # Results of calls that were there before stand behind those.
    calls = thread.calls
    late = {each.id: each for each in new if each.role == "tool" and each.tool_call_id in calls} if calls else {}
    thread.extend([each for each in new if each.id not in late] if late else new)
    thread.insert_results([*late.values(), *moved])
    thread.removed_calls |= {key: each for key, each in calls_before.items() if key not in thread.calls}
    return MESSAGES


def _results_of(incoming: dict[str, core.Message], callers: Set[str]) -> list[core.ToolMessage]:
    """Return the results in a snapshot of the calls that some of its messages make.

    Args:
        incoming: The messages of the snapshot, in order.
        callers: The ids of the assistant messages.
    """
    if not callers:
        return []
    places: dict[str, str] = {}
    found: list[core.ToolMessage] = []
    for message in incoming.values():
        if message.role == "assistant":
            places.update((call.id, message.id) for call in message.tool_calls or ())
        elif message.role == "tool" and places.get(message.tool_call_id) in callers:
            found.append(message)
    return found


def _drop_what_is_missing(thread: Thread, incoming: dict[str, core.Message]) -> None:
    """Remove the messages that a snapshot lacks.

    Activity and reasoning messages may be the client's alone, so they stay unless the snapshot has some of that role:
    then it has all of them (STATE-6, STATE-7). They are not even looked at, as there may be thousands.
    """
    declared = {message.role for message in incoming.values()}
    for role, slots in thread.by_role.items():
        if role in ("activity", "reasoning") and role not in declared:
            continue
        for slot in list(slots):
            message_id = slot.model.id
            is_restated = message_id in incoming and thread.slot(message_id) is slot
            if _is_own(slot.model):
                continue
            if not (is_restated or message_id in thread.kept or message_id in thread.unsent):
                thread.remove(slot)


def _is_own(message: core.Message) -> bool:
    return isinstance(message, core.ActivityMessage) and message.activity_type.startswith(OWN_ACTIVITIES)


def run_started(thread: Thread, event: core.RunStartedEvent) -> Change:
    """Append those messages of an echoed input that the thread does not have, results behind their calls (LIFE-14)."""
    change = Change.NONE
    for message in event.input.messages if event.input is not None else ():
        if not thread.has(message.id) and message.id not in thread.rewritten:
            if message.role == "tool":
                thread.insert_results([thread.received(message)])
            else:
                thread.append(message)
            change = MESSAGES
    return change


def activity_snapshot(thread: Thread, event: core.ActivitySnapshotEvent) -> Change:
    """Create or replace an activity message; only its metadata accumulates (ACT-2, ACT-3)."""
    slot = thread.slot(event.message_id)
    if slot is not None and event.replace is False:
        # Content, type and owner stay as they are (ACT-4).
        if isinstance(slot.model, core.ActivityMessage):
            return thread.merge(slot, event)
        return thread.warn("ACT-4", event, f"skipped: {quoted(event.message_id)} is not an activity message")
    content = copied(event.content)
    message = core.ActivityMessage(id=event.message_id, activity_type=event.activity_type, content=content)
    if slot is None:
        thread.append(adopt(message, event))
        return MESSAGES
    stored = thread.message(slot)
    if not isinstance(stored, core.ActivityMessage):
        # The pages are silent about an id of another kind of message; the reference replaces that one, too.
        thread.warn("ACT-3", event, f"replaces {stored.role} message {quoted(event.message_id)}")
        thread.forget_calls(slot)
    elif stored.metadata is not None:
        message.metadata = stored.metadata
    thread.replace(slot, adopt(message, event))
    return MESSAGES


def activity_delta(thread: Thread, event: core.ActivityDeltaEvent) -> Change:
    """Patch an activity message and set its type (ACT-5, ACT-6); metadata merges even when the patch fails (ACT-7)."""
    slot = thread.slot(event.message_id)
    if slot is None or not isinstance(slot.model, core.ActivityMessage):
        return thread.warn("ACT-6", event, f"skipped: there is no activity message {quoted(event.message_id)}")
    if slot.document is None:
        slot.document = thread.new_document(slot.model.content)
    try:
        slot.document.patch(event.patch, is_object_required=True)
    except PatchFailed as failure:
        _patch_failed(thread, event, f"activity patch to {quoted(event.message_id)}: {failure}", "/patch")
        return thread.merge(slot, event)
    thread.merge(slot, event)
    return thread.change(slot, {"activity_type": event.activity_type})


def _patch_failed(thread: Thread, event: core.Event, what: str, path: str) -> Change:
    thread.log.add("SNAP-5", f"Failed to apply {what}; nothing was changed", path=path, event_type=event.type.value)
    return Change.NONE


def _chunk(thread: Thread, event: core.Event) -> Change:
    return thread.warn("CHUNK-1", event, "skipped: expand chunks before they are reduced")


REDUCTIONS: dict[type, Callable[[Thread, Any], Change]] = {
    **dict.fromkeys((core.TextMessageChunkEvent, core.ToolCallChunkEvent, core.ReasoningMessageChunkEvent), _chunk),
    **dict.fromkeys((core.TextMessageStartEvent, core.ReasoningMessageStartEvent), text_start),
    **dict.fromkeys((core.TextMessageContentEvent, core.ReasoningMessageContentEvent), text_content),
    **dict.fromkeys((core.TextMessageEndEvent, core.ReasoningMessageEndEvent), text_end),
    core.ReasoningEncryptedValueEvent: encrypted_value,
    core.ToolCallStartEvent: tool_call_start,
    core.ToolCallArgsEvent: tool_call_args,
    core.ToolCallEndEvent: tool_call_end,
    core.ToolCallResultEvent: tool_call_result,
    core.StateSnapshotEvent: state_snapshot,
    core.StateDeltaEvent: state_delta,
    core.MessagesSnapshotEvent: messages_snapshot,
    core.RunStartedEvent: run_started,
    core.ActivitySnapshotEvent: activity_snapshot,
    core.ActivityDeltaEvent: activity_delta,
}
"""The function that reduces each type of event; a type that is not here changes nothing."""

_MESSAGES: tuple[type[Message], ...] = get_args(get_args(Message)[0])
_MESSAGE_TYPES = frozenset(_MESSAGES)


class Reducer:
    """Turns events into the messages and the state they describe.

    Nothing handed out changes afterwards: a list, a message or a state stays as it was at the look. In return, messages
    and state are read-only, because they share what did not change. A text or argument delta costs the same however
    long its message is, a patch costs what it touches, and a look costs the messages changed since the last.

    Events are expected in order and expanded, without chunks. What cannot be reduced is skipped with a warning. One
    reducer may see any number of runs; it must not be used by two threads of execution at once.

        reducer = Reducer()
        for event in events:
            if reducer.feed(event) & Change.MESSAGES:
                show(reducer.messages)

    Args:
        messages: The messages so far. They are neither copied nor changed.
        state: The state so far, any JSON value; None is JSON's null. An empty object when not given (STATE-1).
        warnings: The log of what is skipped; a log of its own when None.
    """

    __slots__ = ("thread",)

    def __init__(
        self, messages: Iterable[Message] = (), state: Any = PydanticUndefined, *, warnings: WarningLog | None = None
    ) -> None:
        log = WarningLog() if warnings is None else warnings
        # For the parts that serve one conversation: what they note in it, applications have no use for.
        self.thread: Thread = Thread(messages, {} if state is PydanticUndefined else state, log)

    def reductions(self) -> tuple[Mapping[type[Any], Callable[[Any, Any], Change]], object]:
        """Return the function that takes in events of each type, and its first argument, for those who spare `feed`.

        One table serves all runs: a table of bound methods for each would keep the run alive until the collector comes.
        """
        return REDUCTIONS, self.thread

    def feed(self, event: Event) -> Change:
        """Take in one event.

        Args:
            event: A typed event. One that describes neither messages nor state (the end of a run, steps, RAW, CUSTOM,
                subagents) changes nothing.

        Returns:
            What the event changed.
        """
        reduce = REDUCTIONS.get(type(event))
        return NONE if reduce is None else reduce(self.thread, event)

    @property
    def messages(self) -> list[Message]:
        """The messages as they are now, in a new list at each look."""
        return self.thread.messages()

    def look(self) -> Sequence[Message]:
        """Return the messages as they are now, in a list that later events change: who keeps it makes a copy."""
        return self.thread.look()

    @property
    def state(self) -> Any:
        """The state as it is now, any JSON value. Read-only: later states share what did not change."""
        return self.thread.document.look()

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """The warnings in the current log, in the order in which they first occurred."""
        return self.thread.log.records()

    def message(self, message_id: str) -> Message | None:
        """Return one message as it is now; None when there is none with this id."""
        return self.thread.read(message_id)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return one tool call with its arguments as far as they have come; None when there is none with this id."""
        if (call := self.thread.indexed_calls.get(tool_call_id)) is not None:
            return call.build()
        found = self.thread.read_call(tool_call_id)
        return None if found is None else found[1]

    def tool_calls(self, tool_call_ids: Iterable[str]) -> list[ToolCall | None]:
        """Return tool calls by their ids, with None for those that are not there; of any number without a loop."""
        self.thread.look()
        call_ids = list(tool_call_ids)
        return list(map(attrgetter("model"), map(self.thread.calls_of(call_ids).get, call_ids, repeat(_NO_CALL))))

    def removed_call(self, tool_call_id: str) -> ToolCall | None:
        """Return a tool call that a snapshot of the present run has removed; None when there is none with this id."""
        call = self.thread.removed_calls.get(tool_call_id)
        return None if call is None else call.build()

    def place_of_call(self, tool_call_id: str) -> tuple[Message, int] | None:
        """Return the message of the latest call of an id, and its number among those; None when there is none."""
        if (call := self.thread.indexed_calls.get(tool_call_id)) is not None:
            return self.thread.message(call.owner), call.ordinal
        found = self.thread.read_call(tool_call_id)
        return None if found is None else (found[0], found[2])

    @property
    def losses(self) -> tuple[Thread, int]:
        """A value that is another one when a message or a call was removed or replaced since."""
        return self.thread, self.thread.losses

    @property
    def answered_call_ids(self) -> Collection[str]:
        """The ids of the tool calls that have a result."""
        return self.thread.answered_ids

    @property
    def open_call_ids(self) -> list[str]:
        """The ids of the tool calls that have no result, in the order of the messages."""
        return self.thread.open_ids

    def arguments_size(self, tool_call_id: str) -> int:
        """Return the number of characters that have come of a call's arguments; 0 when there is none with this id."""
        call = self.thread.call(tool_call_id)
        return 0 if call is None else call.size

    def text_of(self, message_id: str) -> str:
        """Return the text of one message as it is now, of content parts the joined texts; "" when there is none."""
        message = self.message(message_id)
        content = None if message is None else message.content
        return content_text(content, "", names_media=False) if isinstance(content, list | str) else ""

    def first_text(self, message_ids: Iterable[str]) -> str:
        """Return the first text that is not empty of messages by their ids; "" when there is none."""
        self.thread.look()
        ids = list(message_ids)
        slots: Iterable[Any] = map(self.thread.slots_of(ids).get, ids, repeat(_NOTHING))
        texts = (self.text_of(slot.model.id) for slot in filter(attrgetter("model.content"), slots))
        return next(filter(None, texts), "")

    def set_messages(self, messages: Iterable[Message]) -> None:
        """Store these messages instead of the present ones. They are neither copied nor changed.

        Raises:
            UsageError: One of them is not a message; the present ones stay.
        """
        self.thread.reset(_checked(messages))

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages. The caller keeps their ids unique: of two messages with one id, events find the first.

        Raises:
            UsageError: One of them is not a message; none is appended.
        """
        for message in _checked(messages):
            self.thread.append(message)

    def store_activity(self, activity: core.ActivityMessage) -> None:
        """Put an activity in the place of the one with its id, or at the end."""
        slot = self.thread.slot(activity.id)
        if slot is None:
            self.thread.append(activity)
        else:
            self.thread.replace(slot, activity)

    def set_state(self, state: Any) -> None:
        """Store this state instead of the present one: any JSON value, which is neither copied nor changed."""
        self.thread.document = self.thread.new_document(state)


def _checked(messages: Iterable[Message]) -> list[Message]:
    checked = messages if isinstance(messages, BegunMessages) else list(messages)
    if _MESSAGE_TYPES.issuperset(map(type, checked)):
        return checked
    for message in checked:
        # An isinstance takes half a microsecond for each class that it is not.
        if not isinstance(message, _MESSAGES):
            raise UsageError(f"a message is one of ag_ui.core's message classes, not a {type(message).__name__}")
    return checked
