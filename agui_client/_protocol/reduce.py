"""Reduction: events become messages and state. The last stage, and a public accumulator of its own without any I/O.

The functions that reduce one event are in `reductions`, the messages and the state in `thread_state`. Events have been
verified before; one that fits nothing in the thread is skipped with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, get_args

from ag_ui.core import Event, Message, TextPart, ToolCall, ToolMessage

from agui_client._protocol.patch import Document
from agui_client._protocol.reductions import REDUCTIONS
from agui_client._protocol.thread_state import NONE, Change, Thread
from agui_client._protocol.warnings import ProtocolWarning, WarningLog
from agui_client.errors import UsageError

__all__ = ["Change", "Reducer"]

_UNSET: Any = object()
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
        self, messages: Iterable[Message] = (), state: Any = _UNSET, *, warnings: WarningLog | None = None
    ) -> None:
        log = WarningLog() if warnings is None else warnings
        self.thread = Thread(messages, {} if state is _UNSET else state, log)

    def handlers(self) -> Mapping[type[Any], Callable[[Any], Change]]:
        """Return the function that takes in events of each type, for those who spare `feed`; others change nothing."""
        return {kind: partial(reduce, self.thread) for kind, reduce in REDUCTIONS.items()}

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

    @property
    def before_snapshot(self) -> list[Message]:
        """The messages before the latest MESSAGES_SNAPSHOT since `remember_before_snapshot`; empty before the first."""
        return self.thread.before_snapshot or []

    def remember_before_snapshot(self) -> None:
        """Keep `before_snapshot` from now on, which costs a look at every MESSAGES_SNAPSHOT."""
        self.thread.before_snapshot = self.thread.before_snapshot or []

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
        slot = self.thread.slots.get(message_id)
        return None if slot is None else self.thread.message(slot)

    def tool_call(self, tool_call_id: str) -> ToolCall | None:
        """Return one tool call with its arguments as far as they have come; None when there is none with this id."""
        call = self.thread.calls.get(tool_call_id)
        return None if call is None else call.build()

    @property
    def answered_call_ids(self) -> Collection[str]:
        """The ids of the tool calls that have a result."""
        return self.thread.results.keys()

    def arguments_size(self, tool_call_id: str) -> int:
        """Return the number of characters that have come of a call's arguments; 0 when there is none with this id."""
        call = self.thread.calls.get(tool_call_id)
        return 0 if call is None else call.size

    def text_of(self, message_id: str) -> str:
        """Return the text of one message as it is now, of content parts the joined texts; "" when there is none."""
        message = self.message(message_id)
        content = None if message is None else message.content
        if isinstance(content, list):
            return "".join(part.text for part in content if isinstance(part, TextPart))
        return content if isinstance(content, str) else ""

    def set_messages(self, messages: Iterable[Message]) -> None:
        """Store these messages instead of the present ones. They are neither copied nor changed.

        Raises:
            UsageError: One of them is no message; the present ones stay.
        """
        self.thread.reset(_checked(messages))

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Append messages. The caller keeps their ids unique: of two messages with one id, events find the first.

        Raises:
            UsageError: One of them is no message; none is appended.
        """
        for message in _checked(messages):
            self.thread.append(message)

    def keep(self, message_ids: Iterable[str]) -> None:
        """Keep messages that snapshots do not know."""
        self.thread.kept.update(message_ids)

    def note_sent(self, messages: Iterable[Message]) -> None:
        """Note what a run sends of this thread: what the agent does not know, its snapshots cannot drop or replace."""
        self.thread.note_sent(messages)

    def add_results(self, results: Iterable[ToolMessage]) -> None:
        """Put results of tool calls behind the messages that made the calls and the results already there."""
        self.thread.insert_results(results)

    def set_state(self, state: Any) -> None:
        """Store this state instead of the present one: any JSON value, which is neither copied nor changed."""
        self.thread.document = Document(state)

    def use_warnings(self, warnings: WarningLog) -> None:
        """Record from now on in this log what is skipped: a conversation has one for each run."""
        self.thread.log = warnings


def _checked(messages: Iterable[Message]) -> list[Message]:
    checked = list(messages)
    for message in checked:
        # An isinstance takes half a microsecond for each class that it is not.
        if type(message) not in _MESSAGE_TYPES and not isinstance(message, _MESSAGES):
            raise UsageError(f"a message is one of ag_ui.core's message classes, not a {type(message).__name__}")
    return checked
