"""Traits of the types of events: one row for each class of the official union.

A question that several modules ask of a type ("is it about the state?", "is it a piece of a text?") is answered here.
What is done about an event stays with the stage that does it: checks in `open_items`, reductions in `reduce`, hooks in
`_core/run/hooks.py`, a team's handlers in `teams/_event_forwarder.py`. `tests/core/protocol/test_traits.py` compares
all of them.

To add a type: a row here; its reduction if it changes messages or state; its hook; a handler in
`teams/_event_forwarder.py` if it is about the state or names an item.

To change

- a new event type: comes with `ag_ui.core`, and decoding and validation read its class; its row here, its hook in
  `Subscriber` (`_core/run/hooks.py`). Only if it changes messages or state: its entry in `REDUCTIONS`
  (`_core/protocol/reduce.py`), and a handler in `teams/_event_forwarder.py`. Only if its order inside a run matters:
  its check in `_core/protocol/open_items.py`. `tests/core/protocol/test_traits.py` says which of them is missing, and
  which modules tell the types about its subject from each other; an example of it for
  `tests/core/protocol/test_feed.py` and `tests/core/protocol/test_expand.py`, and a stream with any number of it in
  `tests/support/proportion.py`
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ag_ui import core

Subject: TypeAlias = Literal[
    "run", "text", "reasoning", "phase", "call", "state", "messages", "activity", "value", "step", "subagent", "other"
]
Part: TypeAlias = Literal["start", "content", "end", "chunk", "result", "snapshot", "delta", "whole"]
Completed: TypeAlias = Literal["message", "call"]
EventClass: TypeAlias = type[Any]


class Traits(NamedTuple):
    """The facts about one type of event that more than one module reads."""

    about: Subject
    """The thing that the event is about: "phase" is a span of reasoning, "value" an encrypted one."""
    part: Part
    """The part of it: "content" is a piece of text, "delta" a patch, "whole" all of what has one event only."""
    ends: Literal["no lane", "its lane", "every lane"] = "its lane"
    """The lanes of chunks whose assembly the event ends (CHUNK-7 … CHUNK-9)."""
    completes: Completed | None = None
    """The thing that is complete after the event."""
    is_repeatable: bool = False
    """Whether an application that receives the event twice is none the worse for it."""


TRAITS: Final[dict[EventClass, Traits]] = {
    core.RunStartedEvent: Traits("run", "start", ends="every lane"),
    core.RunFinishedEvent: Traits("run", "end", ends="every lane"),
    core.RunErrorEvent: Traits("run", "end", ends="every lane"),
    core.TextMessageStartEvent: Traits("text", "start"),
    core.TextMessageContentEvent: Traits("text", "content"),
    core.TextMessageEndEvent: Traits("text", "end", completes="message"),
    core.TextMessageChunkEvent: Traits("text", "chunk"),
    core.ReasoningMessageStartEvent: Traits("reasoning", "start"),
    core.ReasoningMessageContentEvent: Traits("reasoning", "content"),
    core.ReasoningMessageEndEvent: Traits("reasoning", "end", completes="message"),
    core.ReasoningMessageChunkEvent: Traits("reasoning", "chunk"),
    core.ReasoningStartEvent: Traits("phase", "start"),
    core.ReasoningEndEvent: Traits("phase", "end"),
    core.ReasoningEncryptedValueEvent: Traits("value", "whole", ends="no lane"),
    core.ToolCallStartEvent: Traits("call", "start"),
    core.ToolCallArgsEvent: Traits("call", "content"),
    core.ToolCallEndEvent: Traits("call", "end", completes="call"),
    core.ToolCallChunkEvent: Traits("call", "chunk"),
    core.ToolCallResultEvent: Traits("call", "result", completes="message"),
    core.StateSnapshotEvent: Traits("state", "snapshot", is_repeatable=True),
    core.StateDeltaEvent: Traits("state", "delta"),
    core.MessagesSnapshotEvent: Traits("messages", "snapshot", ends="every lane", is_repeatable=True),
    core.ActivitySnapshotEvent: Traits("activity", "snapshot", ends="no lane", is_repeatable=True),
    core.ActivityDeltaEvent: Traits("activity", "delta", ends="no lane"),
    core.StepStartedEvent: Traits("step", "start"),
    core.StepFinishedEvent: Traits("step", "end"),
    core.SubagentStartedEvent: Traits("subagent", "start", ends="no lane"),
    core.SubagentFinishedEvent: Traits("subagent", "end"),
    core.SubagentErrorEvent: Traits("subagent", "end"),
    core.RawEvent: Traits("other", "whole", ends="no lane", is_repeatable=True),
    core.CustomEvent: Traits("other", "whole", is_repeatable=True),
}


def types_about(*subjects: Subject, part: Part | None = None) -> tuple[EventClass, ...]:
    """Return the classes of the events about some things, for `isinstance`, in the order of the table.

    Args:
        subjects: The things; every one if none is given.
        part: The part of them that the events are; None for any.
    """
    rows = TRAITS.items()
    return tuple(each for each, row in rows if (not subjects or row.about in subjects) and part in (None, row.part))


DELTAS: Final[dict[EventClass, str]] = {
    each: "tool_call_id" if TRAITS[each].about == "call" else "message_id" for each in types_about(part="content")
}
"""The events that most streams are made of, pieces of a text, with the fields that name what they belong to."""
STATE_EVENTS: Final = types_about("state")
"""The events that change the state."""
REPEATABLE: Final = frozenset(each for each, row in TRAITS.items() if row.is_repeatable)
"""The events that an application may receive twice."""
