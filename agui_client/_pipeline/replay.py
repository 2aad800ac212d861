"""Replay: a thread told again to a client that holds some of it; nothing is doubled or lost (see `connect_agent`).

A message or call that is held and starts again is told from its beginning, so what was held of it goes first. What the
replay does not mention stays. At the end, what came as far as was held stands in the order it was told in; before that,
everything is put back. A server that goes on where it was cut needs a middleware that knows its cursor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ag_ui.core import (
    ActivitySnapshotEvent,
    MessagesSnapshotEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._pipeline.reduce import Change, Reducer
from agui_client._pipeline.retold import Progress, arranged, calls_of, put_back, text_of
from agui_client._pipeline.snapshots import CLIENT_ONLY
from agui_client._pipeline.warnings import WarningLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ag_ui.core import Event, Message

    _Ready: TypeAlias = tuple[Event | None, Change]
    """What is left to reduce, and what was touched already."""


class Replay:
    """Reduces a replayed thread.

    Args:
        reducer: Holds what was there before, and takes the replay.
        warnings: Where a state that cannot be trusted is reported.
    """

    def __init__(self, reducer: Reducer, warnings: WarningLog) -> None:
        self.progress = Progress(reducer.messages)
        """How far it has come, compared with what was held when it began."""
        self.interrupt_ids: set[str] = set()
        """The interrupts it told of."""
        self.is_behind = False
        """Whether it is over, and ended before it came as far as what was held."""
        self.restored: set[str] = set()
        """The messages and calls that were told in part, if at all, and are what they were before."""
        self._reducer = reducer
        self._warnings = warnings
        self._outline = Reducer(warnings=WarningLog(is_logged=False))
        """What was told, without its text: where a client that held nothing would have the messages."""
        self._started: set[object] = set()
        self._texts_asked_with: dict[str, str] = {}
        self._snapshot_roles: set[str] | None = None
        parted = (each for each in reducer.messages if isinstance(each.content, list))
        self._parted = {message.id for message in parted if not isinstance(message, ToolMessage)}
        self._state_before: Any = reducer.state
        self._state_told: Any = reducer.state
        self._has_state = False

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

    def fall_behind(self) -> Change:
        """It is over and did not come as far as what was held: all of that is what it was before.

        What was told beyond, or differently, stands.

        Returns:
            What that touched.
        """
        self.is_behind = True
        now = self._arranged(self._reducer.messages)
        missing = self.progress.held.keys() - {message.id for message in now}
        everything = [*now, *(self.progress.held[message_id] for message_id in missing)]
        kept = [put_back(self.progress.as_held(each), each, self.restored) for each in everything]
        change = self._hold(arranged(kept, self.progress.places))
        if self._reducer.state is not self._state_told:
            # The application has set one of its own meanwhile.
            return change
        self._reducer.set_state(self._state_before)
        return change | Change.STATE

    def catch_up(self, *, is_whole: bool, unheard: Collection[str] = ()) -> Change:
        """It is over and came as far as what was held: its order counts.

        Args:
            is_whole: Whether it was told to its end, so that what its last snapshot left out is gone (STATE-6).
            unheard: The messages that no run has heard yet: no snapshot leaves them out, and what is asked comes last.

        Returns:
            What that touched.
        """
        messages = self._arranged(self._reducer.messages, unheard)
        if is_whole and self._snapshot_roles is not None:
            kept = set(CLIENT_ONLY) - self._snapshot_roles
            gone = {each.id for each in messages if each.role not in kept and self.progress.is_untold(each.id)}
            messages = [each for each in messages if each.id in unheard or each.id not in gone]
        return self._hold(messages)

    def _hold(self, messages: list[Message]) -> Change:
        if messages == self._reducer.messages:
            return Change.NONE
        self._reducer.set_messages(messages)
        return Change.MESSAGES

    def _arranged(self, messages: list[Message], unheard: Collection[str] = ()) -> list[Message]:
        """The messages in the order they were told in, what was not told after what it was held after."""
        told = {message.id: place for place, message in enumerate(self._outline.messages)}
        asked = (each.id for each in messages if each.id in unheard and not isinstance(each, ToolMessage))
        later = {message_id: len(told) for message_id in asked if self.progress.is_untold(message_id)}
        return arranged(messages, {**told, **later})

    def _message_start(self, event: TextMessageStartEvent | ReasoningMessageStartEvent) -> _Ready:
        """Told for the first time, it begins anew; a second start goes on with the first."""
        message_id = event.message_id
        is_first = message_id not in self._started
        self._tell(event, message_id)
        if not is_first or message_id in self._parted:
            return self._unless_parted(event)
        begun = self._texts_asked_with.get(message_id, "")
        self._reducer.restart_text(message_id, begun)
        self.progress.told_text(message_id, begun)
        return event, Change.MESSAGES

    def _message_content(self, event: TextMessageContentEvent | ReasoningMessageContentEvent) -> _Ready:
        if event.message_id in self._parted:
            return None, Change.NONE
        self.progress.grow(event.message_id, len(event.delta))
        return event, Change.NONE

    def _message_end(self, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> _Ready:
        self.progress.told_text(event.message_id, self._reducer.text_of(event.message_id))
        return self._unless_parted(event)

    def _unless_parted(self, event: Any) -> _Ready:
        """Text cannot tell a message of several parts again: what is held of it stands."""
        return None if event.message_id in self._parted else event, Change.NONE

    def _call_start(self, event: ToolCallStartEvent) -> _Ready:
        self._outline.feed(event)
        self.progress.mention_call(event.tool_call_id, event.parent_message_id or event.tool_call_id)
        if (key := ("call", event.tool_call_id)) in self._started:
            return event, Change.NONE
        self._started.add(key)
        self._reducer.restart_arguments(event.tool_call_id, "")
        self.progress.told_arguments(event.tool_call_id, "")
        return event, Change.MESSAGES

    def _call_args(self, event: ToolCallArgsEvent) -> _Ready:
        self.progress.grow(("call", event.tool_call_id), len(event.delta))
        return event, Change.NONE

    def _call_end(self, event: ToolCallEndEvent) -> _Ready:
        self.progress.told_arguments(event.tool_call_id, self._reducer.arguments_of(event.tool_call_id))
        return event, Change.NONE

    def _call_result(self, event: ToolCallResultEvent) -> _Ready:
        self._tell(event, event.message_id)
        return event, Change.NONE

    def _activity(self, event: ActivitySnapshotEvent) -> _Ready:
        """What patches come after it were made for the activity as it is here (ACT-4)."""
        is_first = event.message_id not in self._started
        self._tell(event, event.message_id)
        return event.model_copy(update={"replace": True}) if is_first else event, Change.NONE

    def _snapshot(self, event: MessagesSnapshotEvent) -> _Ready:
        """Its messages are told, and whole: what starts again goes on with them (LIFE-13).

        It was made in the middle of the thread: what is held and was not told yet is not what it leaves out.
        """
        for message in event.messages:
            self._restate(message)
        self._outline.feed(event)
        self._snapshot_roles = {message.role for message in event.messages}
        before = self._reducer.messages
        change = self._reducer.feed(event)
        now = {message.id: message for message in self._reducer.messages}
        kept = [now.pop(each.id, each) for each in before if each.id in now or self.progress.is_untold(each.id)]
        return None, change | self._hold(self._arranged([*kept, *now.values()]))

    def _restate(self, message: Message) -> None:
        self.progress.mention(message.id)
        self._started.add(message.id)
        self.progress.told_text(message.id, text_of(message))
        for call in calls_of(message):
            self.progress.mention_call(call.id, message.id)
            self._started.add(("call", call.id))
            self.progress.told_arguments(call.id, call.function.arguments)

    def _run_started(self, event: RunStartedEvent) -> _Ready:
        """What the run was asked with is what it went on from (LIFE-14, STATE-1)."""
        self._snapshot_roles = None
        self._outline.feed(event)
        if event.input is None:
            return event, Change.NONE
        for message in event.input.messages:
            if isinstance(message.content, str):
                self._texts_asked_with[message.id] = message.content
            self.progress.mention(message.id)
        if event.input.state is None and self._has_state:
            return event, Change.NONE
        self._has_state = True
        self._state_told = {} if event.input.state is None else event.input.state
        self._reducer.set_state(self._state_told)
        return event, Change.STATE

    def _run_finished(self, event: RunFinishedEvent) -> _Ready:
        if isinstance(event.outcome, RunFinishedInterruptOutcome):
            self.interrupt_ids.update(interrupt.id for interrupt in event.outcome.interrupts)
        return event, Change.NONE

    def _state_snapshot(self, event: StateSnapshotEvent) -> _Ready:
        self._has_state = True
        return self._change_state(event)

    def _state_delta(self, event: StateDeltaEvent) -> _Ready:
        if not self._has_state:
            what = "patches a state that the replay did not set: the one held here may have had the change before"
            self._warnings.add("STATE-1", f"{event.type.value} {what}", event_type=event.type.value)
        return self._change_state(event)

    def _change_state(self, event: StateSnapshotEvent | StateDeltaEvent) -> _Ready:
        change = self._reducer.feed(event)
        self._state_told = self._reducer.state
        return None, change

    def _tell(self, event: Event, message_id: str) -> None:
        self._outline.feed(event)
        self._started.add(message_id)
        self.progress.mention(message_id)

    _preparations: ClassVar[dict[type, Callable[[Replay, Any], _Ready]]] = {
        TextMessageStartEvent: _message_start,
        TextMessageContentEvent: _message_content,
        TextMessageEndEvent: _message_end,
        ReasoningMessageStartEvent: _message_start,
        ReasoningMessageContentEvent: _message_content,
        ReasoningMessageEndEvent: _message_end,
        ToolCallStartEvent: _call_start,
        ToolCallArgsEvent: _call_args,
        ToolCallEndEvent: _call_end,
        ToolCallResultEvent: _call_result,
        ActivitySnapshotEvent: _activity,
        MessagesSnapshotEvent: _snapshot,
        RunStartedEvent: _run_started,
        RunFinishedEvent: _run_finished,
        StateSnapshotEvent: _state_snapshot,
        StateDeltaEvent: _state_delta,
    }
