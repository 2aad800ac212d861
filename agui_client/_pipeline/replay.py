"""Replay: a thread told again to a client that holds some of it; nothing is doubled or lost (see `connect_agent`).

A message or call that is held and starts again is told from its beginning, so what was held of it goes first; it comes
back if the replay is cut before it came as far. What the replay does not mention stays. A server that goes on where it
was cut needs a middleware that knows its cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ag_ui.core import (
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    MessagesSnapshotEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._pipeline.reduce import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from ag_ui.core import Event

    from agui_client._pipeline.reduce import Reducer
    from agui_client._pipeline.warnings import WarningLog

    _Ready: TypeAlias = tuple[Event | None, Change]
    """What is left to reduce, and what was touched already."""


class Replay:
    """Reduces a replayed thread.

    Args:
        reducer: Holds what was there before, and takes the replay.
        warnings: Where a state that cannot be trusted is reported.
    """

    def __init__(self, reducer: Reducer, warnings: WarningLog) -> None:
        self.restored: list[str] = []
        """The messages and calls that the replay was cut in, and that are what they were before."""
        self._reducer = reducer
        self._warnings = warnings
        self._told: set[str] = set()
        self._texts_asked_with: dict[str, str] = {}
        self._held_messages: dict[str, str] = {}
        self._held_calls: dict[str, str] = {}
        agents = (each for each in reducer.messages if isinstance(each, AssistantMessage | ReasoningMessage))
        self._untold = {message.id for message in agents}
        parted = (each for each in reducer.messages if isinstance(each.content, list))
        self._parted = {message.id for message in parted if not isinstance(message, ToolMessage)}
        self._activities = [each for each in reducer.messages if isinstance(each, ActivityMessage)]
        self._state_before, self._has_state = reducer.state, False

    @property
    def is_behind(self) -> bool:
        """Whether it has not come as far yet as what was held when it began."""
        return bool(self._untold or self.restored)

    def feed(self, event: Event) -> Change:
        """Take in one event.

        Args:
            event: A typed event of the replay.

        Returns:
            What the event touched.
        """
        prepare = self._preparations.get(type(event))
        if prepare is None:
            return self._reducer.feed(event)
        ready, change = prepare(self, event)
        return change if ready is None else change | self._reducer.feed(ready)

    def cut_off(self) -> Change:
        """The replay ends before its last run does: what it has not told as far as it was held is put back."""
        self._put_back(self._held_messages, self._reducer.text_of, self._reducer.restart_text)
        self._put_back(self._held_calls, self._reducer.arguments_of, self._reducer.restart_arguments)
        if not self.is_behind:
            return Change.NONE
        self._reducer.set_state(self._state_before)
        for activity in self._activities:
            self._reducer.put_back(activity)
        return Change.MESSAGES | Change.STATE

    def _put_back(self, held: dict[str, str], look: Callable[[str], str], restart: Callable[[str, str], None]) -> None:
        for item_id, text in held.items():
            if text.startswith(look(item_id)):
                restart(item_id, text)
                self.restored.append(item_id)

    def _message_start(self, event: TextMessageStartEvent | ReasoningMessageStartEvent) -> _Ready:
        """Told for the first time, it begins anew; a second start goes on with the first."""
        message_id = event.message_id
        if message_id in self._parted or message_id in self._told:
            return self._unless_parted(event)
        self._mention(message_id)
        if self._reducer.message(message_id) is not None:
            self._held_messages[message_id] = self._reducer.text_of(message_id)
            self._reducer.restart_text(message_id, self._texts_asked_with.get(message_id, ""))
        return event, Change.MESSAGES

    def _message_end(self, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> _Ready:
        self._held_messages.pop(event.message_id, None)
        return self._unless_parted(event)

    def _unless_parted(self, event: Any) -> _Ready:
        """Text cannot tell a message of several parts again: what is held of it stands."""
        return None if event.message_id in self._parted else event, Change.NONE

    def _call_start(self, event: ToolCallStartEvent) -> _Ready:
        if (key := f"call {event.tool_call_id}") in self._told:
            return event, Change.NONE
        self._told.add(key)
        self._untold -= {event.parent_message_id, event.tool_call_id}
        if self._reducer.tool_call(event.tool_call_id) is not None:
            self._held_calls[event.tool_call_id] = self._reducer.arguments_of(event.tool_call_id)
            self._reducer.restart_arguments(event.tool_call_id, "")
        return event, Change.MESSAGES

    def _call_end(self, event: ToolCallEndEvent) -> _Ready:
        self._held_calls.pop(event.tool_call_id, None)
        return event, Change.NONE

    def _activity(self, event: ActivitySnapshotEvent) -> _Ready:
        """What patches come after it were made for the activity as it is here (ACT-4)."""
        is_first = event.message_id not in self._told
        self._mention(event.message_id)
        return event.model_copy(update={"replace": True}) if is_first else event, Change.NONE

    def _snapshot(self, event: MessagesSnapshotEvent) -> _Ready:
        """Its messages are told, and whole: what starts again goes on with them (LIFE-13)."""
        for message in event.messages:
            self._mention(message.id)
            self._held_messages.pop(message.id, None)
            for call in (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ():
                self._told.add(f"call {call.id}")
                self._held_calls.pop(call.id, None)
        return event, Change.NONE

    def _run_started(self, event: RunStartedEvent) -> _Ready:
        """What the run was asked with is what it went on from (LIFE-14, STATE-1)."""
        if event.input is None:
            return event, Change.NONE
        for message in event.input.messages:
            if message.id not in self._told and isinstance(message.content, str):
                self._texts_asked_with[message.id] = message.content
            self._untold.discard(message.id)
        if event.input.state is None and self._has_state:
            return event, Change.NONE
        self._has_state = True
        self._reducer.set_state({} if event.input.state is None else event.input.state)
        return event, Change.STATE

    def _state_snapshot(self, event: StateSnapshotEvent) -> _Ready:
        self._has_state = True
        return event, Change.NONE

    def _state_delta(self, event: StateDeltaEvent) -> _Ready:
        if not self._has_state:
            what = "patches a state that the replay did not set: the one held here may have had the change before"
            self._warnings.add("STATE-1", f"{event.type.value} {what}", event_type=event.type.value)
        return event, Change.NONE

    def _mention(self, message_id: str) -> None:
        self._told.add(message_id)
        self._untold.discard(message_id)

    _preparations: ClassVar[dict[type, Callable[[Replay, Any], _Ready]]] = {
        TextMessageStartEvent: _message_start,
        TextMessageContentEvent: _unless_parted,
        TextMessageEndEvent: _message_end,
        ReasoningMessageStartEvent: _message_start,
        ReasoningMessageContentEvent: _unless_parted,
        ReasoningMessageEndEvent: _message_end,
        ToolCallStartEvent: _call_start,
        ToolCallEndEvent: _call_end,
        ActivitySnapshotEvent: _activity,
        MessagesSnapshotEvent: _snapshot,
        RunStartedEvent: _run_started,
        StateSnapshotEvent: _state_snapshot,
        StateDeltaEvent: _state_delta,
    }
