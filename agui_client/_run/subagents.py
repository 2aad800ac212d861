"""The subagents of a run: a record of each, and its text, from the events that are about it (SUB-5 … SUB-11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ag_ui.core import (
    AssistantMessage,
    Event,
    StateDeltaEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TokenUsage,
)
from pydantic import TypeAdapter, ValidationError

from agui_client._display import Displayed
from agui_client._field_docs import Record
from agui_client._protocol.schema import is_object

if TYPE_CHECKING:
    from agui_client._protocol.outcome import Outcome
    from agui_client._protocol.reduce import Reducer

EXTENSION = "agui-client"
"""The member of a closing event's metadata that may have the subagent's `usage`, and the `messageId` of its answer."""
JOURNAL = "_team"
"""The member of a team's state that says, until the team's run has finished, how far the members have come."""
_USAGE = TypeAdapter(list[TokenUsage])


@dataclass(frozen=True, slots=True)
class SubagentResult(Record, Displayed):
    """One invocation of a subagent."""

    name: str
    """The name that it was announced with."""
    subagent_run_id: str
    """The id of the invocation."""
    status: Literal["running", "success", "suspended", "error", "abandoned"]
    """The state of the subagent: "suspended" waits for answers, "abandoned" was cut off with the run."""
    text: str = ""
    """The last text that it wrote; empty if it wrote none."""
    result: Any = None
    """The result that it ended with, any JSON value; None if there was none."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """Tokens per provider and model; empty where the agent does not say."""
    seconds: float | None = None
    """The seconds from its beginning to its end; None while it is running."""
    error: str | None = None
    """The message of its failure; None if it did not fail."""
    parent_subagent_run_id: str | None = None
    """The invocation that began it; None if the run's own agent did."""


def is_of_a_member(event: object) -> bool:
    """Return whether an event notes in the journal of a team what a member has done, which must not be lost."""
    return isinstance(event, StateDeltaEvent) and any(each.path.startswith(f"/{JOURNAL}/") for each in event.delta)


def subagent_results(outcomes: Iterable[Outcome], reducer: Reducer, *, is_over: bool) -> list[SubagentResult]:
    """Return a record of each subagent of a call, in the order of their beginnings.

    Args:
        outcomes: The outcomes of the call's runs; a subagent that was suspended may go on in a later one.
        reducer: The messages.
        is_over: Whether no further event comes.
    """
    started: dict[str, tuple[SubagentStartedEvent, float]] = {}
    ended: dict[str, tuple[SubagentFinishedEvent | SubagentErrorEvent, float]] = {}
    for outcome in outcomes:
        for subagent_run_id, beginning in outcome.subagents_started.items():
            started[subagent_run_id] = beginning
            ended.pop(subagent_run_id, None)
        ended |= outcome.subagents_ended
    if not started:
        return []
    texts = {
        message.subagent_run_id: message.content
        for message in reducer.messages
        if isinstance(message, AssistantMessage) and message.content
    }
    return [
        _result(event, since, ended.get(each), texts.get(each) or "", reducer, is_over=is_over)
        for each, (event, since) in started.items()
    ]


def _result(
    event: SubagentStartedEvent,
    since: float,
    end: tuple[SubagentFinishedEvent | SubagentErrorEvent, float] | None,
    text: str,
    reducer: Reducer,
    *,
    is_over: bool,
) -> SubagentResult:
    parent = event.parent_subagent_run_id
    status: Any = "abandoned" if is_over else "running"
    record = SubagentResult(event.name, event.subagent_run_id, status, text, parent_subagent_run_id=parent)
    if end is None:
        return record
    closing, at = end
    more = (closing.metadata or {}).get(EXTENSION)
    if is_object(more):
        text = reducer.text_of(str(more.get("messageId"))) or text
    record = replace(record, text=text, seconds=at - since, usage=reported_usage(closing))
    if isinstance(closing, SubagentErrorEvent):
        return replace(record, status="abandoned" if closing.code == "cancelled" else "error", error=closing.message)
    is_waiting = closing.outcome is not None and closing.outcome.type == "suspended"
    return replace(record, status="suspended" if is_waiting else "success", result=closing.result)


def reported_usage(closing: SubagentFinishedEvent | SubagentErrorEvent) -> list[TokenUsage]:
    """Return the tokens that a subagent's end reports; none where it does not say, or not in a way that is known."""
    more = (closing.metadata or {}).get(EXTENSION)
    try:
        return _USAGE.validate_python(more.get("usage") or [] if is_object(more) else [])
    except ValidationError:
        return []


class SubagentText:
    """Tells the text of subagents from everything else in a stream."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._authors: dict[str, str] = {}

    def of(self, event: Event) -> tuple[str, str] | None:
        """Return the name of a subagent and the text that an event adds to its words; None if it adds none.

        Args:
            event: The next event of the stream.
        """
        if isinstance(event, TextMessageContentEvent):
            name = self._authors.get(event.message_id)
            return None if name is None or not event.delta else (name, event.delta)
        if isinstance(event, SubagentStartedEvent):
            self._names[event.subagent_run_id] = event.name
            return None
        owner = event.subagent_run_id if isinstance(event, TextMessageStartEvent) else None
        if isinstance(event, TextMessageStartEvent) and owner is not None and event.role in (None, "assistant"):
            self._authors[event.message_id] = self._names.get(owner, owner)
        return None
