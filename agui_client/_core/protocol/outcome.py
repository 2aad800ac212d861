"""The outcome of the last run of a stream (LIFE-4, LIFE-9, LIFE-13, TOOL-9, USAGE-1 … USAGE-3).

A stream may carry several runs, and a finished run may still turn into a failed one: nothing is settled before the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple

from ag_ui import core

from agui_client._core.protocol import custom_interrupts
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.placeholders import EXTENSION, extension_of
from agui_client._core.protocol.schema import is_array

_FACTS = ("incompleteIds", "missingIds")


class ThreadFacts(NamedTuple):
    """The facts about a stored thread that its messages do not tell, in the `metadata` of a MESSAGES_SNAPSHOT."""

    incomplete: Sequence[str]
    """The ids of the messages that runs began and did not complete."""
    missing: Sequence[str]
    """The ids of messages that a caller has or may have, and the thread does not."""

    @classmethod
    def from_snapshot(cls, event: core.MessagesSnapshotEvent) -> ThreadFacts:
        """Return the facts that a snapshot tells."""
        listed = [extension_of(event).get(name) for name in _FACTS]
        return cls(*([each for each in ids if isinstance(each, str)] if is_array(ids) else () for ids in listed))

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata of the snapshot; None without facts."""
        stated = {name: list(ids) for name, ids in zip(_FACTS, self, strict=True) if ids}
        return {EXTENSION: stated} if stated else None


LEFT_BRANCH = "leftBranch"
"""The member of a RUN_STARTED's extension with the id of the last message that the thread left for the run."""


def branch_left(message_id: str) -> str:
    """Return the sentence about a branch of a stored thread that a run has left."""
    what = "the input left messages of the thread that its sender may not have seen, as they may be another page's"
    return f"{what}: the last one of them is {quoted(message_id)}; the thread keeps them as a branch"


def partial_message_ids(closing: core.SubagentFinishedEvent | core.SubagentErrorEvent) -> list[str]:
    """Return the ids of the messages that a subagent had written when it failed, each once."""
    found = extension_of(closing).get("partialMessageIds")
    return list(dict.fromkeys(each for each in found if isinstance(each, str))) if is_array(found) else []


class OutcomeTracker:
    """Follows the runs of one stream; its fields are about the last run."""

    def __init__(self) -> None:
        self.started: core.RunStartedEvent | None = None
        """The last RUN_STARTED."""
        self.finished: core.RunFinishedEvent | None = None
        """Its RUN_FINISHED; None while it is open, or when it failed."""
        self.error: core.RunErrorEvent | None = None
        """Its RUN_ERROR, also one that came after RUN_FINISHED (LIFE-4)."""
        self.outcome: core.RunFinishedOutcome | None = None
        """The outcome of the run, success when it is absent (LIFE-9) and nothing was asked in custom events; None while
        open or after RUN_ERROR."""
        self.asked_before: Sequence[core.Interrupt] = ()
        """The questions of earlier runs of the stream, if none has finished since: a failed run answers nothing."""
        self.text_message_ids: list[str] = []
        """The assistant messages it streamed into that belong to no subagent, in order."""
        self.restated_ids: set[str] = set()
        """The messages it gave in snapshots."""
        self.cut_ids: set[str] = set()
        """The messages in its last snapshot that are cut off, as the server of their thread said."""
        self.missing_ids: set[str] = set()
        """The messages that the server said then it does not have, or has taken back."""
        self.tool_call_ids: dict[str, None] = {}
        """The tool calls it started, in order."""
        self.ended_tool_call_ids: set[str] = set()
        """Those of them that have ended."""
        self.completed_ids: set[str] = set()
        """The messages and tool calls that came to their end in any run of the stream, or were given whole."""
        self.subagents_started: dict[str, tuple[core.SubagentStartedEvent, float]] = {}
        """The begin of each subagent that it announced, by id, with its `time.perf_counter()`."""
        self.subagents_ended: dict[str, tuple[core.SubagentFinishedEvent | core.SubagentErrorEvent, float]] = {}
        """Their ends, so far."""
        self.partial_ids: Collection[str] = ()
        """The messages that those which failed had written until then."""
        self.custom: list[core.CustomEvent] = []
        """The CUSTOM events of all runs of the stream, in order."""
        self.read_custom: Callable[[core.CustomEvent], core.CustomEvent] | None = None
        """Called with each CUSTOM event; returns the one to keep, whose value may be an object of the application."""
        self.first_event_at: float | None = None
        """`time.perf_counter()` of the first event."""
        self.first_text_at: float | None = None
        """`time.perf_counter()` of the first text delta."""
        self.handlers: dict[type[Any], Callable[[OutcomeTracker, Any], None]] = self._HANDLERS.copy()
        """The handlers of those events that are about the outcome, by their classes; the pipeline calls them with it.

        They are functions: bound methods of each run would be a tenth of what it leaves to the garbage collector.
        """
        self._unfinished_before: dict[str, None] = {}
        self._questions: list[core.CustomEvent] = []

    @property
    def is_terminal(self) -> bool:
        """Whether the last run has its terminal event."""
        return self.finished is not None or self.error is not None

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end: not open, not failed, not cancelled."""
        return self.finished is not None and not isinstance(self.outcome, core.RunFinishedCancelledOutcome)

    @property
    def unfinished_call_ids(self) -> Collection[str]:
        """The calls of the stream's runs that failed, were cancelled or cut off, unless a later run finished them."""
        if not self.is_finished:
            return self._unfinished_before | self.tool_call_ids
        return [each for each in self._unfinished_before if each not in self.tool_call_ids]

    @property
    def interrupts(self) -> list[core.Interrupt]:
        """The interrupts that the run waits for."""
        outcome = self.outcome
        return list(outcome.interrupts) if isinstance(outcome, core.RunFinishedInterruptOutcome) else []

    @property
    def named_pending(self) -> Sequence[str]:
        """The pending tool calls as the producer named them; empty means that they must be derived (TOOL-9)."""
        outcome = self.outcome
        named = outcome.pending_tool_call_ids if isinstance(outcome, core.RunFinishedSuccessOutcome) else None
        return named or ()

    @property
    def usage(self) -> list[core.TokenUsage]:
        """Tokens per provider and model; a number that was not reported stays absent (USAGE-1)."""
        terminal = self.error or self.finished
        return core.aggregate_token_usage((terminal and terminal.usage) or [])

    def so_far(self) -> OutcomeTracker:
        """Return what is known of the runs and their subagents now, whatever comes later."""
        found = copy(self)
        found.subagents_started, found.subagents_ended = {**self.subagents_started}, {**self.subagents_ended}
        return found

    def note(self, event: core.Event) -> None:
        """Note an event, if it is about the outcome."""
        if (note := self.handlers.get(type(event))) is not None:
            note(self, event)

    def _start(self, event: core.RunStartedEvent) -> None:
        self.first_event_at = self.first_event_at or time.perf_counter()
        # In place: a stream may have any number of runs.
        for each in self.tool_call_ids:
            if self.is_finished:
                self._unfinished_before.pop(each, None)
            else:
                self._unfinished_before[each] = None
        self.asked_before = self.interrupts or (self.asked_before if self.finished is None else ())
        if self.started is not None:
            self.subagents_started, self.subagents_ended, self.partial_ids = {}, {}, ()
        self.started, self.finished, self.error, self.outcome = event, None, None, None
        self.text_message_ids, self.restated_ids = [], set()
        self.tool_call_ids, self.ended_tool_call_ids = {}, set()
        self._questions = []

    def _finish(self, event: core.RunFinishedEvent) -> None:
        # Made once: the end of a run looks at it a dozen times, and each model costs as much as an event.
        asked = self._asked(event) if self._questions else None
        self.finished, self.outcome = event, event.outcome or asked or core.RunFinishedSuccessOutcome()

    def _fail(self, event: core.RunErrorEvent) -> None:
        self.first_event_at = self.first_event_at or time.perf_counter()
        self.error, self.finished, self.outcome = event, None, None

    def _text(self, event: core.TextMessageStartEvent) -> None:
        if event.role in (None, "assistant") and event.subagent_run_id is None:
            self.text_message_ids.append(event.message_id)

    def _first_text(self, event: core.TextMessageContentEvent) -> None:
        if event.delta:
            self.first_text_at = time.perf_counter()
            # Each further piece of text passes one function less: tests/core/run/test_path_lengths.py counts them.
            del self.handlers[core.TextMessageContentEvent]

    def _tool_call(self, event: core.ToolCallStartEvent) -> None:
        self.tool_call_ids[event.tool_call_id] = None
        self.ended_tool_call_ids.discard(event.tool_call_id)

    def _tool_call_end(self, event: core.ToolCallEndEvent) -> None:
        self.ended_tool_call_ids.add(event.tool_call_id)
        self.completed_ids.add(event.tool_call_id)

    def _message_end(self, event: core.TextMessageEndEvent | core.ReasoningMessageEndEvent) -> None:
        self.completed_ids.add(event.message_id)

    def _custom(self, event: core.CustomEvent) -> None:
        self.custom.append(event if self.read_custom is None else self.read_custom(event))
        if event.name == custom_interrupts.ON_INTERRUPT:
            self._questions.append(event)

    def _asked(self, finished: core.RunFinishedEvent) -> core.RunFinishedInterruptOutcome | None:
        """Return the outcome of a run that asked in custom events; a subagent that ended has its answer already."""
        outcomes = {key: getattr(end, "outcome", None) for key, (end, _) in self.subagents_ended.items()}
        suspended = core.SubagentFinishedSuspendedOutcome
        answered = {key for key, outcome in outcomes.items() if not isinstance(outcome, suspended)}
        waiting = [each for each in self._questions if each.subagent_run_id not in answered]
        return custom_interrupts.outcome_of(finished.run_id, waiting)

    def _subagent_start(self, event: core.SubagentStartedEvent) -> None:
        self.subagents_started[event.subagent_run_id] = event, time.perf_counter()

    def _subagent_end(self, event: core.SubagentFinishedEvent | core.SubagentErrorEvent) -> None:
        self.subagents_ended[event.subagent_run_id] = event, time.perf_counter()
        if partial := partial_message_ids(event):
            # Made at the first use, as few runs have one.
            self.partial_ids = found = self.partial_ids if isinstance(self.partial_ids, set) else set[str]()
            found.update(partial)

    def _restate(self, event: core.MessagesSnapshotEvent) -> None:
        restated = {message.id for message in event.messages}
        facts = ThreadFacts.from_snapshot(event)
        self.cut_ids = restated.intersection(facts.incomplete)
        self.missing_ids.update(facts.missing)
        self.restated_ids |= restated
        self.completed_ids |= restated
        for message in event.messages:
            if message.role == "assistant":
                self.completed_ids.update(call.id for call in message.tool_calls or ())

    _HANDLERS: ClassVar[dict[type[Any], Callable[[OutcomeTracker, Any], None]]] = {
        core.RunStartedEvent: _start,
        core.RunFinishedEvent: _finish,
        core.RunErrorEvent: _fail,
        core.TextMessageStartEvent: _text,
        core.TextMessageContentEvent: _first_text,
        **dict.fromkeys((core.TextMessageEndEvent, core.ReasoningMessageEndEvent), _message_end),
        core.ToolCallStartEvent: _tool_call,
        core.ToolCallEndEvent: _tool_call_end,
        core.MessagesSnapshotEvent: _restate,
        core.CustomEvent: _custom,
        core.SubagentStartedEvent: _subagent_start,
        **dict.fromkeys((core.SubagentFinishedEvent, core.SubagentErrorEvent), _subagent_end),
    }
