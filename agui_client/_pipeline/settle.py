"""Settling: what the last run of a stream came to (LIFE-4, LIFE-9, LIFE-13, TOOL-9, USAGE-1 … USAGE-3).

A stream may carry several runs, and a finished run may still turn into a failed one: nothing is settled before the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    Interrupt,
    MessagesSnapshotEvent,
    ReasoningMessageEndEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallEndEvent,
    ToolCallStartEvent,
    aggregate_token_usage,
)


class Settlement:
    """Follows the runs of one stream; its fields are about the last run."""

    def __init__(self) -> None:
        self.started: RunStartedEvent | None = None
        """The last RUN_STARTED."""
        self.finished: RunFinishedEvent | None = None
        """Its RUN_FINISHED; None while it is open, or when it failed."""
        self.error: RunErrorEvent | None = None
        """Its RUN_ERROR, also one that came after RUN_FINISHED (LIFE-4)."""
        self.text_message_ids: list[str] = []
        """The assistant messages it streamed into that belong to no subagent, in order."""
        self.restated_ids: set[str] = set()
        """The messages it gave in snapshots."""
        self.tool_call_ids: dict[str, None] = {}
        """The tool calls it started, in order."""
        self.ended_tool_call_ids: set[str] = set()
        """Those of them that have ended."""
        self.completed_ids: set[str] = set()
        """The messages and tool calls that came to their end in any run of the stream, or were given whole."""
        self.first_event_at: float | None = None
        """`time.perf_counter()` of the first event."""
        self.first_text_at: float | None = None
        """`time.perf_counter()` of the first text delta."""
        self.handlers: dict[type[Any], Callable[[Any], None]] = {
            RunStartedEvent: self._start,
            RunFinishedEvent: self._finish,
            RunErrorEvent: self._fail,
            TextMessageStartEvent: self._text,
            TextMessageContentEvent: self._first_text,
            TextMessageEndEvent: self._message_end,
            ReasoningMessageEndEvent: self._message_end,
            ToolCallStartEvent: self._tool_call,
            ToolCallEndEvent: self._tool_call_end,
            MessagesSnapshotEvent: self._restate,
        }
        """What to call with an event, by its class; whoever feeds events asks here, as most settle nothing."""
        self._unfinished_before: list[str] = []

    @property
    def outcome(self) -> RunFinishedOutcome | None:
        """How the run finished: an absent outcome means success (LIFE-9); None while open or after RUN_ERROR."""
        if self.finished is None:
            return None
        return self.finished.outcome or RunFinishedSuccessOutcome()

    @property
    def unfinished_call_ids(self) -> list[str]:
        """The calls of the stream's runs that failed, were cancelled or cut off, unless a later run finished them."""
        has_finished = self.finished is not None and not isinstance(self.outcome, RunFinishedCancelledOutcome)
        if has_finished:
            return [each for each in self._unfinished_before if each not in self.tool_call_ids]
        return [*self._unfinished_before, *self.tool_call_ids]

    @property
    def interrupts(self) -> list[Interrupt]:
        """What the run waits for."""
        outcome = self.outcome
        return list(outcome.interrupts) if isinstance(outcome, RunFinishedInterruptOutcome) else []

    @property
    def named_pending(self) -> Sequence[str]:
        """The pending tool calls as the producer named them; empty means that they must be derived (TOOL-9)."""
        outcome = self.outcome
        named = outcome.pending_tool_call_ids if isinstance(outcome, RunFinishedSuccessOutcome) else None
        return named or ()

    @property
    def usage(self) -> list[TokenUsage]:
        """Tokens per provider and model; what was not reported stays absent (USAGE-1)."""
        terminal = self.error or self.finished
        return aggregate_token_usage((terminal and terminal.usage) or [])

    def _start(self, event: RunStartedEvent) -> None:
        self._note_first()
        self._unfinished_before = self.unfinished_call_ids
        self.started, self.finished, self.error = event, None, None
        self.text_message_ids = []
        self.restated_ids = set()
        self.tool_call_ids = {}
        self.ended_tool_call_ids = set()

    def _finish(self, event: RunFinishedEvent) -> None:
        self.finished = event

    def _fail(self, event: RunErrorEvent) -> None:
        self._note_first()
        self.error, self.finished = event, None

    def _text(self, event: TextMessageStartEvent) -> None:
        if event.role in (None, "assistant") and event.subagent_run_id is None:
            self.text_message_ids.append(event.message_id)

    def _first_text(self, event: TextMessageContentEvent) -> None:
        if event.delta:
            self.first_text_at = time.perf_counter()
            del self.handlers[TextMessageContentEvent]

    def _tool_call(self, event: ToolCallStartEvent) -> None:
        self.tool_call_ids[event.tool_call_id] = None
        self.ended_tool_call_ids.discard(event.tool_call_id)

    def _tool_call_end(self, event: ToolCallEndEvent) -> None:
        self.ended_tool_call_ids.add(event.tool_call_id)
        self.completed_ids.add(event.tool_call_id)

    def _message_end(self, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> None:
        self.completed_ids.add(event.message_id)

    def _restate(self, event: MessagesSnapshotEvent) -> None:
        self.restated_ids.update(message.id for message in event.messages)
        self.completed_ids |= self.restated_ids
        for message in event.messages:
            if isinstance(message, AssistantMessage) and message.tool_calls:
                self.completed_ids.update(call.id for call in message.tool_calls)

    def _note_first(self) -> None:
        if self.first_event_at is None:
            self.first_event_at = time.perf_counter()
