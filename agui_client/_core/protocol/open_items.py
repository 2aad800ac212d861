"""The open items of one run and their owners: messages, calls, steps, activities, subagents (STREAM, REASON, SUB).

An owner is a `subagentRunId`, or None for the parent agent. An item keeps its owner after its end, because a reopening
in the same run must agree with it. Errors of order are made here, too, because chunks break the same rules. The rules
for the begin and the end of a run are in `verify` (but LIFE-16 is here).

To change

- a check of event order: `RunItems.checks` here inside a run, `_core/protocol/verify.py` between runs; the rule in
  `tests/requirements/`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from ag_ui import core

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import EventOrderError

Owner: TypeAlias = str | None
"""The `subagentRunId` of an invocation; None is the parent agent, as much an owner as any."""

_LONGEST_NAME = 80
_MOST_NAMES = 5


def quoted(name: str) -> str:
    """Quote an id or name for a message: escaped, and cut after 80 characters, since a producer chose it."""
    return repr(cut_short(name, _LONGEST_NAME))


def owner_name(owner: Owner) -> str:
    """Name an owner in a message."""
    return "the parent agent" if owner is None else f"subagent {quoted(owner)}"


def listed(names: Sequence[str]) -> str:
    """List the first five names, and the number of further ones."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def order_error(
    warnings: WarningLog, rule: str, event: core.BaseEvent, sentence: str, fix: str | None = None
) -> EventOrderError:
    """Make the error for an event out of place.

    Args:
        warnings: The log that knows the position of the event in the stream.
        rule: The rule that was broken.
        event: The event that broke it.
        sentence: The producer's fault, ids included.
        fix: What to do about it on this side.
    """
    index = warnings.event_index
    place = f"{'event' if index is None else f'event {index}'} ({event.type.value}): "
    return EventOrderError(sentence, rule=rule, event=event, event_index=index, fix=fix, place=place)


class ItemTable:
    """The items of one kind in one run, closed ones included. Its checks take any event that names such an item.

    Args:
        noun: The word for an item in a message, such as "text message".
        fault: Makes the error for an event out of place: see `order_error`.
        opener: The type of the event that opens an item; empty for items that are not streamed.
        rule: The rule that start, content and end obey.
        id_field: The field of the events with the item's id.
    """

    __slots__ = ("_fault", "_id_field", "_noun", "_opener", "_rule", "open", "owners")

    def __init__(
        self,
        noun: str,
        fault: Callable[..., EventOrderError],
        opener: str = "",
        rule: str = "STREAM-1",
        id_field: str = "message_id",
    ) -> None:
        self._noun, self._opener, self._rule, self._id_field = noun, opener, rule, id_field
        self._fault = fault
        self.owners: dict[str, Owner] = {}
        """The owner of every item of the run."""
        self.open: dict[str, None] = {}
        """The ids of the open items, in the order in which they were opened."""

    def start(self, event: Any) -> None:
        """Open an item, or reopen a closed one, which keeps its first owner (STREAM-5)."""
        self.start_of(event, event.subagent_run_id)

    def start_of(self, event: Any, owner: Owner) -> None:
        """Open an item of this owner."""
        item_id = getattr(event, self._id_field)
        if item_id in self.open:
            raise self._fault(self._rule, event, f"the producer started {self.named(item_id)} which is already open")
        self.agree(event, item_id, owner)
        self.open[item_id] = None
        self.owners.setdefault(item_id, owner)

    def content(self, event: Any) -> None:
        """Accept an event that continues an open item; nearly every event passes here, and calls nothing more."""
        item_id = getattr(event, self._id_field)
        if item_id not in self.open:
            why = "is closed" if item_id in self.owners else "was not started"
            sentence = f"the producer continued {self.named(item_id)} that {why}; {self._opener} has to come first"
            raise self._fault(self._rule, event, sentence)
        if (tag := event.subagent_run_id) is not None:
            self.agree(event, item_id, tag)

    def end(self, event: Any) -> None:
        """Close an open item."""
        self.content(event)
        del self.open[getattr(event, self._id_field)]

    def agree(self, event: Any, item_id: str, tag: Owner) -> None:
        """Reject a tag that disagrees with the owner of an item; an absent one never does (SUB-2, SUB-3)."""
        if tag is None or self.owners.get(item_id, tag) == tag:
            return
        owner = owner_name(self.owners[item_id])
        sentence = f"subagentRunId {quoted(tag)} does not match the owner of {self.named(item_id)}, which is {owner}"
        raise self._fault("SUB-3", event, sentence)

    def named(self, item_id: str) -> str:
        """Name an item in a message."""
        return f"{self._noun} {quoted(item_id)}"


class RunItems:
    """The items of one run, which end with it (LIFE-6).

    Args:
        warnings: The log that knows the position in the stream.
    """

    def __init__(self, warnings: WarningLog) -> None:
        self._fault = fault = partial(order_error, warnings)
        self._texts = ItemTable("text message", fault, "TEXT_MESSAGE_START")
        self._calls = ItemTable("tool call", fault, "TOOL_CALL_START", id_field="tool_call_id")
        # Spans and reasoning messages are separate namespaces and may share an id (REASON-3).
        self._spans = ItemTable("reasoning span", fault, "REASONING_START", "REASON-1")
        self._thoughts = ItemTable("reasoning message", fault, "REASONING_MESSAGE_START", "REASON-2")
        self._activities = ItemTable("activity", fault)
        self._steps: dict[tuple[Owner, str], None] = {}
        self._subagents: dict[str, bool] = {}  # False for those that have ended

    def checks(self) -> dict[type, Callable[[Any], None]]:
        """Return the check of each type of event; a type that is not here may come anywhere in the run (STREAM-3).

        The run does not keep it: it would keep itself alive by its checks.
        """
        texts, calls, spans, thoughts = self._texts, self._calls, self._spans, self._thoughts
        return {
            core.TextMessageStartEvent: texts.start,
            core.TextMessageContentEvent: texts.content,
            core.TextMessageEndEvent: texts.end,
            core.ToolCallStartEvent: self._call_start,
            core.ToolCallArgsEvent: calls.content,
            core.ToolCallEndEvent: calls.end,
            core.ToolCallResultEvent: self._call_result,
            core.ReasoningStartEvent: spans.start,
            core.ReasoningEndEvent: spans.end,
            core.ReasoningMessageStartEvent: thoughts.start,
            core.ReasoningMessageContentEvent: thoughts.content,
            core.ReasoningMessageEndEvent: thoughts.end,
            core.ReasoningEncryptedValueEvent: self._encrypted_value,
            core.ActivitySnapshotEvent: self._activity_snapshot,
            core.ActivityDeltaEvent: self._activity_delta,
            core.MessagesSnapshotEvent: self._messages_snapshot,
            core.StepStartedEvent: self._step_started,
            core.StepFinishedEvent: self._step_finished,
            core.SubagentStartedEvent: self._subagent_started,
            **dict.fromkeys((core.SubagentFinishedEvent, core.SubagentErrorEvent), self._subagent_ended),
        }

    def still_open(self) -> list[str]:
        """Name all that keeps the run from finishing, apart from subagents (LIFE-5)."""
        streamed = (self._texts, self._thoughts, self._spans, self._calls)
        names = [items.named(item_id) for items in streamed for item_id in items.open]
        return names + [f"step {quoted(name)} of {owner_name(owner)}" for owner, name in self._steps]

    def open_ids(self) -> list[str]:
        """Return the ids of the messages and tool calls that are open."""
        return [*self._texts.open, *self._thoughts.open, *self._calls.open]

    def ends(self) -> list[core.Event]:
        """Return events that end all that is open apart from subagents, inner items first."""
        end_of: list[core.Event] = []
        end_of += [core.ToolCallEndEvent(tool_call_id=each) for each in self._calls.open]
        end_of += [core.TextMessageEndEvent(message_id=each) for each in self._texts.open]
        end_of += [core.ReasoningMessageEndEvent(message_id=each) for each in self._thoughts.open]
        end_of += [core.ReasoningEndEvent(message_id=each) for each in self._spans.open]
        end_of += [core.StepFinishedEvent(step_name=name, subagent_run_id=owner) for owner, name in self._steps]
        return end_of

    def subagent_ends(self, message: str) -> list[core.Event]:
        """Return events that end the announced invocations that have not ended, inner ones first.

        Args:
            message: The reason, for people.
        """
        active = [each for each, is_active in reversed(self._subagents.items()) if is_active]
        return [core.SubagentErrorEvent(subagent_run_id=each, message=message, code="cancelled") for each in active]

    def active_subagents(self) -> list[str]:
        """Name the announced invocations that have not ended (SUB-7)."""
        return [owner_name(subagent) for subagent, is_active in self._subagents.items() if is_active]

    def _call_start(self, event: core.ToolCallStartEvent) -> None:
        owner, message_id = event.subagent_run_id, event.parent_message_id
        if message_id is not None and message_id in self._texts.owners:
            # The owner of a call is that of its message (SUB-4).
            tag, owner = owner, self._texts.owners[message_id]
            claimed = self._calls.owners.get(event.tool_call_id, owner) if tag is None else tag
            if claimed != owner:
                what = (
                    f"{self._calls.named(event.tool_call_id)} of {owner_name(claimed)} does not match the owner of its"
                )
                raise self._fault("SUB-4", event, f"{what} message {quoted(message_id)}, which is {owner_name(owner)}")
        self._calls.start_of(event, owner)

    def _call_result(self, event: core.ToolCallResultEvent) -> None:
        """Note the owner of the message that a result makes; later events may only continue it under the same one."""
        self._texts.owners.setdefault(event.message_id, event.subagent_run_id)

    def _activity_snapshot(self, event: core.ActivitySnapshotEvent) -> None:
        """Note the owner of an activity, unless the snapshot leaves an existing one as it was (ACT-3, ACT-4)."""
        if event.replace is not False or event.message_id not in self._activities.owners:
            self._activities.owners[event.message_id] = event.subagent_run_id

    def _activity_delta(self, event: core.ActivityDeltaEvent) -> None:
        self._activities.agree(event, event.message_id, event.subagent_run_id)

    def _encrypted_value(self, event: core.ReasoningEncryptedValueEvent) -> None:
        """Reject a value of another owner than its call or message; it may come after the end of that (REASON-8)."""
        messages = self._texts if event.entity_id in self._texts.owners else self._thoughts
        items = self._calls if event.subtype == "tool-call" else messages
        items.agree(event, event.entity_id, event.subagent_run_id)

    def _messages_snapshot(self, event: core.MessagesSnapshotEvent) -> None:
        """Replace the owners of messages along with the messages (STATE-8)."""
        # Roles instead of isinstance, which takes half a microsecond where a model is of another class.
        if "activity" in {message.role for message in event.messages}:
            # Then it is the full set of activities (STATE-7), and those that are gone have no owner.
            self._activities.owners.clear()
        owners = {"activity": self._activities.owners, "reasoning": self._thoughts.owners}
        texts = self._texts.owners
        for message in event.messages:
            owners.get(message.role, texts)[message.id] = message.subagent_run_id
            if message.role == "assistant" and message.tool_calls:
                for call in message.tool_calls:
                    self._calls.owners[call.id] = message.subagent_run_id

    def _step_started(self, event: core.StepStartedEvent) -> None:
        step = (event.subagent_run_id, event.step_name)
        if step in self._steps:
            name = f"step {quoted(event.step_name)} of {owner_name(event.subagent_run_id)}"
            raise self._fault("LIFE-16", event, f"the producer started {name} which is already open")
        self._steps[step] = None

    def _step_finished(self, event: core.StepFinishedEvent) -> None:
        step = (owner, name) = (event.subagent_run_id, event.step_name)
        if step in self._steps:
            del self._steps[step]
            return
        sentence = f"the producer finished step {quoted(name)} of {owner_name(owner)} that was not started"
        others = [owner_name(other) for other, open_name in self._steps if open_name == name]
        if not others:
            raise self._fault("LIFE-16", event, sentence)
        advice = f"a step of that name is open for {listed(others)}, and it ends under the tag it started with"
        raise self._fault("SUB-5", event, f"{sentence}; {advice}")

    def _subagent_started(self, event: core.SubagentStartedEvent) -> None:
        known, fault, parent = self._subagents, None, event.parent_subagent_run_id
        if event.subagent_run_id in known:
            ended = "has already ended in this run; ids are never reused"
            fault = "which is already active" if known[event.subagent_run_id] else f"which {ended}"
        elif parent is not None and parent not in known:
            fault = f"as spawned by {owner_name(parent)} that was not started in this run"
        if fault is not None:
            raise self._fault("SUB-6", event, f"the producer announced {owner_name(event.subagent_run_id)} {fault}")
        known[event.subagent_run_id] = True

    def _subagent_ended(self, event: core.SubagentFinishedEvent | core.SubagentErrorEvent) -> None:
        subagent = event.subagent_run_id
        if not self._subagents.get(subagent):
            why = "has already ended" if subagent in self._subagents else "was not started"
            raise self._fault("SUB-6", event, f"the producer ended {owner_name(subagent)} that {why}")
        self._subagents[subagent] = False
