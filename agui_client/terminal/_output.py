"""Output of the commands: the agent's text on stdout, everything about the run on stderr.

A terminal never gets control characters that an agent sent (`_lines.py`); a file or a pipe gets the text unchanged.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ag_ui.core import (
    ActivityMessage,
    CustomEvent,
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    RunFinishedCancelledOutcome,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    aggregate_token_usage,
)

from agui_client._core.protocol.traits import STATE_EVENTS
from agui_client._core.verbs.async_run import ReplyText
from agui_client._rendering.app_text import app_line
from agui_client._rendering.drawing import draw, drawn_text
from agui_client._rendering.story import (
    EventStory,
    RunStory,
    ToolCallStory,
    question_text,
    seconds_text,
    time_text,
    usage_text,
)
from agui_client._rendering.views import MOST_VALUES, Key, ShownCustom, find_view, shown_call
from agui_client.terminal._lines import one_line, printable

if TYPE_CHECKING:
    from agui_client._core.run.observers import Timings
    from agui_client._core.run.result import RunResult
    from agui_client._core.tools.context import ToolExecution
    from agui_client._rendering.views import Viewed

PROGRAM_HEADING = "The same in five lines of Python, with `agui demo --serve` in another terminal:"
"""The line above the program at the end of the demo."""


def timings_line(timings: Timings) -> str:
    """Write the times from the start of a run to its milestones."""
    moments = {
        "connected": timings.connect,
        "first event": timings.first_event,
        "first text": timings.first_text,
    }
    known = {name: seconds_text(value) for name, value in moments.items() if value is not None}
    if timings.total is not None:
        known["total"] = time_text(timings.total, timings.people)
    return ", ".join(f"{name} {text}" for name, text in known.items())


def summary(results: Sequence[RunResult]) -> list[str]:
    """Write the tokens of several runs together, and the timings of each."""
    usage = aggregate_token_usage([entry for result in results for entry in result.usage])
    lines = [f"run {number}: {timings_line(result.timings)}" for number, result in enumerate(results, 1)]
    return [f"usage: {usage_text(usage)}", *lines]


class Writer:
    """Writes one run while it happens.

    Args:
        answers: The stream for the text of the reply as it arrives; None to drop the text.
        notes: The stream for tool calls and everything else, one line each.
        verbose: Whether reasoning, state, usage and timings are written, too.
    """

    def __init__(self, *, answers: TextIO | None, notes: TextIO, verbose: bool = False) -> None:
        self._answers = answers
        self._notes = notes
        self._verbose = verbose
        self._is_shown_raw = answers is not None and not answers.isatty()
        self._shares_screen = answers is not None and _is_same_place(answers, notes)
        self._text = ReplyText()
        self._is_mid_line = False
        self._is_new_message = False
        self._needs_gap = False
        self.story = EventStory()
        """The speakers and the tool calls of the run so far."""
        self._authors: dict[str, str] = {}
        self._activities: dict[str, ActivityMessage] = {}
        self._custom: dict[str, deque[Any]] = {}
        self._parts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def show(self, event: Event, state: Any, viewed: Viewed | None = None) -> None:
        """Write the text of an event, or a note about it.

        Args:
            state: The state with the event in it.
            viewed: The part of the event that a view draws; an activity is written when the run is over.
        """
        if viewed is not None:
            self._show_viewed(viewed)
        elif (line := app_line(event)) is not None:
            self.note(line)
        elif isinstance(event, CustomEvent):
            self._detail(f"custom {event.name}: {json.dumps(event.value, ensure_ascii=False)}")
        self._show_item(event, self.story.note(event))
        self._show_other(event, state)
        if text := self._text.text_in(event):
            self._answer(text)

    def _show_item(self, event: Event, call: ToolCallStory | None) -> None:
        match event:
            case ToolCallEndEvent() if call is not None:
                self.note(f"{call.title}({call.asked})")
            case ToolCallResultEvent() if call is not None:
                self._call(call)
            case TextMessageStartEvent(subagent_run_id=str() as owner):
                self._authors[event.message_id] = owner
            case TextMessageStartEvent():
                self._is_new_message = True
            case TextMessageContentEvent() if event.message_id in self._authors:
                self._parts["words", event.message_id].append(event.delta)
            case TextMessageEndEvent() if event.message_id in self._authors:
                speaker = self.story.speakers.name(self._authors.pop(event.message_id))
                self.note(f"{speaker}: {self._joined('words', event.message_id)}")
            case _:
                pass

    def _show_other(self, event: Event, state: Any) -> None:
        match event:
            case SubagentStartedEvent():
                self.note(f"{self.story.speakers.name(event.subagent_run_id)} is at work")
            case SubagentFinishedEvent() | SubagentErrorEvent():
                if (sentence := self.story.speakers.ending(event)) is not None:
                    self.note(sentence)
            case ReasoningMessageContentEvent():
                self._parts["thought", event.message_id].append(event.delta)
            case ReasoningMessageEndEvent():
                self._detail(f"thought: {self._joined('thought', event.message_id)}")
            case _ if self._verbose and isinstance(event, STATE_EVENTS):
                self._detail(f"state: {json.dumps(state, ensure_ascii=False)}")
            case _:
                pass

    def _show_viewed(self, viewed: Viewed) -> None:
        if isinstance(viewed, CustomEvent):
            values = self._custom.setdefault(viewed.name, deque(maxlen=MOST_VALUES))
            values.append(viewed.value)
            self._draw(("custom", viewed.name), ShownCustom(viewed.name, viewed.value, tuple(values)))
        else:
            self._activities[viewed.id] = viewed

    def close(self, result: RunResult, *, is_kept: bool = False) -> None:
        """Write replies, the result, interrupts, pending calls, usage and timings of a run that has ended.

        Args:
            result: The result of the run.
            is_kept: Whether `agui runs` can answer it.
        """
        self.end_line()
        for line in RunStory.from_result(result).lines:
            self.note(line)
        for interrupt in result.interrupts:
            asked = question_text(interrupt, self.story.speakers)
            how = "from Python, resume= answers it"
            if is_kept:
                word = "approve" if len(result.interrupts) == 1 else f"{interrupt.id}=approve"
                how = f"agui runs answer URL {shlex.join([result.run_id, word])}, or deny, cancel, JSON or text"
            self.note(f"waiting for an answer to {interrupt.id!r}: {asked} ({how})")
        for call in result.pending_tool_calls:
            self.note(f"waiting for the result of {call.function.name} ({call.id})")
        if isinstance(result.outcome, RunFinishedCancelledOutcome):
            self.note("the agent cancelled the run")
        if result.usage:
            self._detail(f"usage: {usage_text(result.usage)}")
        self._detail(f"timings: {timings_line(result.timings)}")

    def note(self, line: str) -> None:
        """Write a note: one line about the run."""
        self._note_lines([one_line(line)])

    def _note_lines(self, lines: Iterable[str]) -> None:
        if self._shares_screen:
            self.end_line()
            self._needs_gap = False
        self._notes.writelines(f"{line}\n" for line in lines)
        self._notes.flush()

    def execution(self, execution: ToolExecution) -> None:
        """Write a note about an execution that has reported progress or ended."""
        call = self.story.execute(execution)
        if call.is_over or call.progress:
            self._call(call)

    def show_text(self, text: str) -> None:
        """Write lines of the command itself to the stream of the replies."""
        self.end_line()
        self._needs_gap = False
        self._write(f"{text if self._is_shown_raw else printable(text)}\n")

    def end(self) -> None:
        """End the last line of a run, and write what views draw of its activities."""
        self.end_line()
        for activity in self._activities.values():
            self._draw(("activity", activity.activity_type), activity)
        self._activities.clear()
        self._custom.clear()

    def end_line(self) -> None:
        """End the reply's last line, if it is not ended yet."""
        if self._is_mid_line:
            self._write("\n")

    def _detail(self, line: str) -> None:
        if self._verbose:
            self.note(line)

    def _answer(self, text: str) -> None:
        if self._is_new_message and self._needs_gap:
            self.end_line()
            self._write("\n")
        self._is_new_message = False
        self._needs_gap = True
        self._write(text if self._is_shown_raw else printable(text))

    def _write(self, text: str) -> None:
        if self._answers is not None:
            self._answers.write(text)
            self._answers.flush()
            self._is_mid_line = not text.endswith("\n")

    def _call(self, call: ToolCallStory) -> None:
        """Write what the view of a call's tool draws of its result, or else the call in a line."""
        key: Key = ("tool", call.name)
        if call.result is None or find_view(key) is None or not self._draw(key, shown_call(call)):
            self.note(call.line)

    def _draw(self, key: Key, shown: object) -> bool:
        """Write what a view draws, a note for each line; return whether there is a view."""
        drawn = draw(key, shown, drawn_text)
        if drawn is not None:
            self._note_lines(map(printable, drawn.splitlines()))
        return drawn is not None

    def _joined(self, kind: str, item_id: str) -> str:
        return "".join(self._parts.pop((kind, item_id), ()))


def _is_same_place(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return one is other
