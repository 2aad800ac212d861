"""Reduction: events become messages and state. The last stage, and a public accumulator of its own without any I/O.

What each event does is streamed's and snapshots' to say, what is held is thread's. That events come in the right order
has been verified before; one that fits nothing held is skipped with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._pipeline import snapshots, streamed
from agui_client._pipeline.thread import NONE, Change, Thread
from agui_client._pipeline.warnings import ProtocolWarning, WarningLog
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Change", "Reducer"]

_UNSET: Any = object()
_MESSAGES: tuple[type[Message], ...] = get_args(get_args(Message)[0])


class Reducer:
    """Turns events into the messages and the state they describe.

    Nothing handed out changes afterwards: a list, a message or a state keeps what it showed when it was looked at. In
    return messages and state are to be treated as read-only, because they share what did not change. A text or
    argument delta costs the same however long its message is, and a look costs the messages changed since the last.

    Events are expected in order and expanded, without chunks. What cannot be reduced is skipped with a warning. One
    reducer may see any number of runs; it must not be used by two threads of execution at once.

        reducer = Reducer()
        for event in events:
            if reducer.feed(event) & Change.MESSAGES:
                show(reducer.messages)

    Args:
        messages: The messages so far. They are neither copied nor changed.
        state: The state so far, any JSON value; None is JSON's null. An empty object when not given (STATE-1).
        warnings: Where to record what is skipped; a log of its own when None.
    """

    __slots__ = ("_thread",)

    def __init__(
        self, messages: Iterable[Message] = (), state: Any = _UNSET, *, warnings: WarningLog | None = None
    ) -> None:
        log = WarningLog() if warnings is None else warnings
        self._thread = Thread(messages, {} if state is _UNSET else state, log)

    def feed(self, event: Event) -> Change:
        """Take in one event.

        Args:
            event: A typed event. One that describes neither messages nor state (the end of a run, steps, RAW, CUSTOM,
                subagents) changes nothing.

        Returns:
            What the event touched.
        """
        reduce = _REDUCTIONS.get(type(event))
        return NONE if reduce is None else reduce(self._thread, event)

    @property
    def messages(self) -> list[Message]:
        """The messages as they are now, in a new list at each look."""
        return self._thread.messages()

    @property
    def state(self) -> Any:
        """The state as it is now, any JSON value. Read-only: later states share what did not change."""
        return self._thread.state

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """What is in the current warning log, in the order it first happened."""
        return self._thread.log.records()

    def message(self, message_id: str) -> Message | None:
        """One message as it is now; None when there is none with this id."""
        slot = self._thread.slots.get(message_id)
        return None if slot is None else self._thread.message(slot)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """One tool call as it is now, with its arguments as far as they came; None when there is none with this id."""
        call = self._thread.calls.get(tool_call_id)
        return None if call is None else call.build()

    def arguments_size(self, tool_call_id: str) -> int:
        """How many characters the arguments of a tool call have so far; 0 when there is none with this id."""
        call = self._thread.calls.get(tool_call_id)
        return 0 if call is None else call.size

    def arguments_of(self, tool_call_id: str) -> str:
        """The arguments of a tool call as far as they came; "" when there is none with this id."""
        call = self.tool_call(tool_call_id)
        return "" if call is None else call.function.arguments

    def text_of(self, message_id: str) -> str:
        """The text of one message as it is now, of content parts the text ones joined; "" when there is none."""
        slot = self._thread.slots.get(message_id)
        if slot is None:
            return ""
        if slot.text is not None and slot.parts is None:
            return slot.text_now()
        content = self._thread.message(slot).content
        if isinstance(content, list):
            return "".join(part.text for part in content if isinstance(part, TextPart))
        return content if isinstance(content, str) else ""

    def set_messages(self, messages: Iterable[Message]) -> None:
        """Hold these messages instead of the present ones. They are neither copied nor changed.

        Raises:
            UsageError: One of them is no message; the present ones stay.
        """
        self._thread.reset(_checked(messages))

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages. Their ids are the caller's care: of two messages with one id, events find the first.

        Raises:
            UsageError: One of them is no message; none is appended.
        """
        for message in _checked(messages):
            self._thread.append(message)

    def add_results(self, results: Iterable[ToolMessage]) -> None:
        """Put results of tool calls right after the messages that made the calls and the results already there."""
        self._thread.insert_results(results)

    def restart_text(self, message_id: str, text: str) -> None:
        """Let a message's text begin anew with this; without effect on one that is not there or takes none."""
        slot = self._thread.slots.get(message_id)
        if slot is not None and slot.text is not None and (slot.text or text):
            slot.text, slot.parts = [text], None
            self._thread.dirty.add(slot)

    def restart_arguments(self, tool_call_id: str, arguments: str) -> None:
        """Let a tool call's arguments begin anew with this; without effect on one that is not there."""
        if (call := self._thread.calls.get(tool_call_id)) is not None:
            call.arguments, call.size, call.changed = [arguments], len(arguments), True
            self._thread.dirty.add(call.owner)

    def put_back(self, message: Message) -> None:
        """Hold a message as it was before, in its place; without effect on one that is not there."""
        if (slot := self._thread.slots.get(message.id)) is not None:
            self._thread.replace(slot, message)

    def set_state(self, state: Any) -> None:
        """Hold this state instead of the present one: any JSON value, which is neither copied nor changed."""
        self._thread.state = state

    def use_warnings(self, warnings: WarningLog) -> None:
        """Record what is skipped from now on in this log: a conversation has one for each run."""
        self._thread.log = warnings


def _checked(messages: Iterable[Message]) -> list[Message]:
    checked = list(messages)
    for message in checked:
        if not isinstance(message, _MESSAGES):
            raise UsageError(f"a message is one of ag_ui.core's message classes, not a {type(message).__name__}")
    return checked


def _chunk(thread: Thread, event: TextMessageChunkEvent | ToolCallChunkEvent | ReasoningMessageChunkEvent) -> Change:
    return thread.warn("CHUNK-1", event, "skipped: expand chunks before they are reduced")


_REDUCTIONS: dict[type, Callable[[Thread, Any], Change]] = {
    TextMessageStartEvent: streamed.text_start,
    TextMessageContentEvent: streamed.text_content,
    TextMessageEndEvent: streamed.text_end,
    TextMessageChunkEvent: _chunk,
    ReasoningMessageStartEvent: streamed.reasoning_start,
    ReasoningMessageContentEvent: streamed.text_content,
    ReasoningMessageEndEvent: streamed.text_end,
    ReasoningMessageChunkEvent: _chunk,
    ReasoningEncryptedValueEvent: streamed.encrypted_value,
    ToolCallStartEvent: streamed.tool_call_start,
    ToolCallArgsEvent: streamed.tool_call_args,
    ToolCallEndEvent: streamed.tool_call_end,
    ToolCallChunkEvent: _chunk,
    ToolCallResultEvent: streamed.tool_call_result,
    StateSnapshotEvent: snapshots.state_snapshot,
    StateDeltaEvent: snapshots.state_delta,
    MessagesSnapshotEvent: snapshots.messages_snapshot,
    RunStartedEvent: snapshots.run_started,
    ActivitySnapshotEvent: snapshots.activity_snapshot,
    ActivityDeltaEvent: snapshots.activity_delta,
}
