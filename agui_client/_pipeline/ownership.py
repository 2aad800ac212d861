"""What one run has open and whose it is: streamed items, steps, activities, subagents (STREAM, REASON, LIFE-16, SUB).

An owner is a `subagentRunId`, or None for the parent agent. It outlives the end of its item, because a reopening in the
same run must agree with it. Also here, because chunks break the same rules: the wording that every fault of order
shares. When a run begins and ends is verify's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    EventType,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from agui_client.errors import EventOrderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ag_ui.core import Message

    from agui_client._pipeline.warnings import WarningLog

Owner: TypeAlias = str | None
"""The `subagentRunId` of an invocation; None is the parent agent, as much an owner as any."""

_LONGEST_NAME = 80
_MOST_NAMES = 5


def quoted(name: str) -> str:
    """An id or name as it stands in a message: escaped, and cut after 80 characters, since a producer chose it."""
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


def owner_name(owner: Owner) -> str:
    """An owner as it stands in a message."""
    return "the parent agent" if owner is None else f"subagent {quoted(owner)}"


def listed(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def order_error(warnings: WarningLog, rule: str, event: BaseEvent, sentence: str) -> EventOrderError:
    """The error for an event out of place.

    Args:
        warnings: Knows the position of the event in the stream.
        rule: The rule that was broken.
        event: The event that broke it.
        sentence: What the producer did wrong, ids included.
    """
    where = "event" if warnings.event_index is None else f"event {warnings.event_index}"
    return EventOrderError(f"{where} ({event.type.value}): {sentence}", rule=rule, event=event)


class OwnedItems:
    """The owners of one kind of item in one run.

    Args:
        kind: What an item is called in a message, such as "activity".
        warnings: Knows where the stream is.
    """

    __slots__ = ("_warnings", "kind", "owners")

    def __init__(self, kind: str, warnings: WarningLog) -> None:
        self._warnings = warnings
        self.kind = kind
        self.owners: dict[str, Owner] = {}
        """The owner of every item that the run has shown, closed ones included."""

    def agree(self, event: BaseEvent, item_id: str, tag: Owner) -> None:
        """Reject a tag that disagrees with the item's owner; no tag never disagrees (SUB-2, SUB-3)."""
        if tag is None or self.owners.get(item_id, tag) == tag:
            return
        owner = owner_name(self.owners[item_id])
        sentence = f"subagentRunId {quoted(tag)} does not match the owner of {self.named(item_id)}, which is {owner}"
        raise order_error(self._warnings, "SUB-3", event, sentence)

    def named(self, item_id: str) -> str:
        """The item as it stands in a message."""
        return f"{self.kind} {quoted(item_id)}"


class StreamedItems(OwnedItems):
    """The items of one kind that arrive as start, content and end, in one run.

    Args:
        kind: What an item is called in a message, such as "text message".
        opener: The type of the event that opens one.
        rule: The rule that its start, content and end obey.
        warnings: Knows where the stream is.
    """

    __slots__ = ("_opener", "_rule", "open")

    def __init__(self, kind: str, opener: EventType, rule: str, warnings: WarningLog) -> None:
        super().__init__(kind, warnings)
        self._opener = opener.value
        self._rule = rule
        self.open: dict[str, None] = {}
        """The ids of the open items, in the order in which they were opened."""

    def start(self, event: BaseEvent, item_id: str, tag: Owner) -> None:
        """Open an item, or reopen a closed one, whose first owner stands (STREAM-5)."""
        if item_id in self.open:
            sentence = f"the producer started {self.named(item_id)} which is already open"
            raise order_error(self._warnings, self._rule, event, sentence)
        self.agree(event, item_id, tag)
        self.open[item_id] = None
        self.owners.setdefault(item_id, tag)

    def proceed(self, event: BaseEvent, item_id: str, tag: Owner) -> None:
        """Accept what continues an open item."""
        if item_id not in self.open:
            raise self._not_open(event, item_id)
        if tag is not None:
            self.agree(event, item_id, tag)

    def end(self, event: BaseEvent, item_id: str, tag: Owner) -> None:
        """Close an open item."""
        self.proceed(event, item_id, tag)
        del self.open[item_id]

    def _not_open(self, event: BaseEvent, item_id: str) -> EventOrderError:
        why = "is closed" if item_id in self.owners else "was not started"
        sentence = f"the producer continued {self.named(item_id)} that {why}; {self._opener} has to come first"
        return order_error(self._warnings, self._rule, event, sentence)


class OpenRun:
    """Everything that is tracked for one run and forgotten with it (LIFE-6).

    Args:
        warnings: Knows where the stream is.
    """

    __slots__ = ("_active", "_activities", "_calls", "_ended", "_reasoning", "_spans", "_steps", "_warnings", "texts")

    def __init__(self, warnings: WarningLog) -> None:
        self._warnings = warnings
        self.texts = StreamedItems("text message", EventType.TEXT_MESSAGE_START, "STREAM-1", warnings)
        self._calls = StreamedItems("tool call", EventType.TOOL_CALL_START, "STREAM-1", warnings)
        # Spans and reasoning messages are separate namespaces and may share an id (REASON-3).
        self._spans = StreamedItems("reasoning span", EventType.REASONING_START, "REASON-1", warnings)
        self._reasoning = StreamedItems("reasoning message", EventType.REASONING_MESSAGE_START, "REASON-2", warnings)
        self._activities = OwnedItems("activity", warnings)
        self._steps: dict[tuple[Owner, str], None] = {}
        self._active: dict[str, None] = {}
        self._ended: set[str] = set()

    def still_open(self) -> list[str]:
        """What keeps the run from finishing, apart from subagents, as it stands in a message (LIFE-5)."""
        streamed = (self.texts, self._reasoning, self._spans, self._calls)
        names = [items.named(item_id) for items in streamed for item_id in items.open]
        return names + [f"step {quoted(name)} of {owner_name(owner)}" for owner, name in self._steps]

    def open_ids(self) -> list[str]:
        """The messages and tool calls that are open."""
        return [item_id for items in (self.texts, self._reasoning, self._calls) for item_id in items.open]

    def active_subagents(self) -> list[str]:
        """The announced invocations that have not ended, as they stand in a message (SUB-7)."""
        return [owner_name(subagent_run_id) for subagent_run_id in self._active]

    def _text_start(self, event: TextMessageStartEvent) -> None:
        self.texts.start(event, event.message_id, event.subagent_run_id)

    def _text_content(self, event: TextMessageContentEvent) -> None:
        self.texts.proceed(event, event.message_id, event.subagent_run_id)

    def _text_end(self, event: TextMessageEndEvent) -> None:
        self.texts.end(event, event.message_id, event.subagent_run_id)

    def _reasoning_start(self, event: ReasoningMessageStartEvent) -> None:
        self._reasoning.start(event, event.message_id, event.subagent_run_id)

    def _reasoning_content(self, event: ReasoningMessageContentEvent) -> None:
        self._reasoning.proceed(event, event.message_id, event.subagent_run_id)

    def _reasoning_end(self, event: ReasoningMessageEndEvent) -> None:
        self._reasoning.end(event, event.message_id, event.subagent_run_id)

    def _span_start(self, event: ReasoningStartEvent) -> None:
        self._spans.start(event, event.message_id, event.subagent_run_id)

    def _span_end(self, event: ReasoningEndEvent) -> None:
        self._spans.end(event, event.message_id, event.subagent_run_id)

    def _call_start(self, event: ToolCallStartEvent) -> None:
        tag, message_id = event.subagent_run_id, event.parent_message_id
        if message_id is not None and message_id in self.texts.owners:
            tag = self._owner_of_call(event, message_id)
        self._calls.start(event, event.tool_call_id, tag)

    def _owner_of_call(self, event: ToolCallStartEvent, message_id: str) -> Owner:
        """A call belongs to whoever owns the message that holds it (SUB-4)."""
        tag, owner = event.subagent_run_id, self.texts.owners[message_id]
        claimed = self._calls.owners.get(event.tool_call_id, owner) if tag is None else tag
        if claimed == owner:
            return owner
        call = self._calls.named(event.tool_call_id)
        sentence = f"{call} of {owner_name(claimed)} does not match the owner of its message {quoted(message_id)}"
        raise order_error(self._warnings, "SUB-4", event, f"{sentence}, which is {owner_name(owner)}")

    def _call_args(self, event: ToolCallArgsEvent) -> None:
        self._calls.proceed(event, event.tool_call_id, event.subagent_run_id)

    def _call_end(self, event: ToolCallEndEvent) -> None:
        self._calls.end(event, event.tool_call_id, event.subagent_run_id)

    def _call_result(self, event: ToolCallResultEvent) -> None:
        """A result makes a message of its own, which later events may only continue under the same owner."""
        self.texts.owners.setdefault(event.message_id, event.subagent_run_id)

    def _activity_snapshot(self, event: ActivitySnapshotEvent) -> None:
        """A snapshot gives the activity its owner, unless it left an existing one as it was (ACT-3, ACT-4)."""
        if event.replace is not False or event.message_id not in self._activities.owners:
            self._activities.owners[event.message_id] = event.subagent_run_id

    def _activity_delta(self, event: ActivityDeltaEvent) -> None:
        self._activities.agree(event, event.message_id, event.subagent_run_id)

    def _messages_snapshot(self, event: MessagesSnapshotEvent) -> None:
        """The snapshot replaces messages whole, their owners included (STATE-8)."""
        activities = {message.id for message in event.messages if isinstance(message, ActivityMessage)}
        if activities:  # Then it is the full set of activities (STATE-7), and what is gone has no owner.
            self._activities.owners.clear()
        for message in event.messages:
            self._restate(message)

    def _restate(self, message: Message) -> None:
        owner = message.subagent_run_id
        match message:
            case ActivityMessage():
                self._activities.owners[message.id] = owner
            case ReasoningMessage():
                self._reasoning.owners[message.id] = owner
            case _:
                self.texts.owners[message.id] = owner
        if isinstance(message, AssistantMessage):
            self._calls.owners.update(dict.fromkeys((call.id for call in message.tool_calls or ()), owner))

    def _step_started(self, event: StepStartedEvent) -> None:
        step = (event.subagent_run_id, event.step_name)
        if step in self._steps:
            name = f"step {quoted(event.step_name)} of {owner_name(event.subagent_run_id)}"
            raise order_error(self._warnings, "LIFE-16", event, f"the producer started {name} which is already open")
        self._steps[step] = None

    def _step_finished(self, event: StepFinishedEvent) -> None:
        step = (event.subagent_run_id, event.step_name)
        if step not in self._steps:
            raise self._step_not_open(event)
        del self._steps[step]

    def _step_not_open(self, event: StepFinishedEvent) -> EventOrderError:
        step, owner = quoted(event.step_name), owner_name(event.subagent_run_id)
        sentence = f"the producer finished step {step} of {owner} that was not started"
        others = [owner_name(other) for other, name in self._steps if name == event.step_name]
        if not others:
            return order_error(self._warnings, "LIFE-16", event, sentence)
        sentence += f"; a step of that name is open for {listed(others)}, and it ends under the tag it started with"
        return order_error(self._warnings, "SUB-5", event, sentence)

    def _subagent_started(self, event: SubagentStartedEvent) -> None:
        fault = self._announcement_fault(event)
        if fault is not None:
            raise order_error(self._warnings, "SUB-6", event, fault)
        self._active[event.subagent_run_id] = None

    def _announcement_fault(self, event: SubagentStartedEvent) -> str | None:
        subagent = owner_name(event.subagent_run_id)
        if event.subagent_run_id in self._active:
            return f"the producer announced {subagent} which is already active"
        if event.subagent_run_id in self._ended:
            return f"the producer announced {subagent} which has already ended in this run; ids are never reused"
        parent = event.parent_subagent_run_id
        if parent is None or parent in self._active or parent in self._ended:
            return None
        return f"the producer announced {subagent} as spawned by {owner_name(parent)} that was not started in this run"

    def _subagent_ended(self, event: SubagentFinishedEvent | SubagentErrorEvent) -> None:
        subagent_run_id = event.subagent_run_id
        if subagent_run_id not in self._active:
            why = "has already ended" if subagent_run_id in self._ended else "was not started"
            sentence = f"the producer ended {owner_name(subagent_run_id)} that {why}"
            raise order_error(self._warnings, "SUB-6", event, sentence)
        del self._active[subagent_run_id]
        self._ended.add(subagent_run_id)

    checks: ClassVar[dict[type, Callable[[OpenRun, Any], None]]] = {
        TextMessageStartEvent: _text_start,
        TextMessageContentEvent: _text_content,
        TextMessageEndEvent: _text_end,
        ToolCallStartEvent: _call_start,
        ToolCallArgsEvent: _call_args,
        ToolCallEndEvent: _call_end,
        ToolCallResultEvent: _call_result,
        ReasoningStartEvent: _span_start,
        ReasoningEndEvent: _span_end,
        ReasoningMessageStartEvent: _reasoning_start,
        ReasoningMessageContentEvent: _reasoning_content,
        ReasoningMessageEndEvent: _reasoning_end,
        ActivitySnapshotEvent: _activity_snapshot,
        ActivityDeltaEvent: _activity_delta,
        MessagesSnapshotEvent: _messages_snapshot,
        StepStartedEvent: _step_started,
        StepFinishedEvent: _step_finished,
        SubagentStartedEvent: _subagent_started,
        SubagentFinishedEvent: _subagent_ended,
        SubagentErrorEvent: _subagent_ended,
    }
    """What each type of event has to satisfy; a type that is not here may come anywhere in an open run (STREAM-3)."""
