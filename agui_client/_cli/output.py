"""Output of the commands: the agent's text on stdout, everything about the run on stderr.

A terminal never gets control characters that an agent sent (`lines.py`); a file or a pipe gets the text unchanged.
"""

from __future__ import annotations

import json
import os
import re
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
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    aggregate_token_usage,
)

from agui_client._cli.lines import one_line, printable
from agui_client._protocol.message_text import content_text
from agui_client._protocol.traits import STATE_EVENTS
from agui_client._run.async_run import AnswerText
from agui_client._widgets.drawing import draw, drawn_text
from agui_client._widgets.views import MOST_VALUES, Key, ShownCustom, find_view, shown_call

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

    from agui_client._run.result import RunResult, Timings
    from agui_client._tools.context import ToolExecution
    from agui_client._widgets.views import Viewed

PROGRAM_HEADING = "The same in five lines of Python, with `agui demo --serve` in another terminal:"
"""The line above the program at the end of the demo."""


def usage_line(usage: list[TokenUsage]) -> str:
    """Write tokens per model; a count that was not reported is "?" (USAGE-1)."""
    return "; ".join(
        f"{entry.model or entry.provider or 'unnamed model'}: "
        f"{_count(entry.input_tokens)} tokens in, {_count(entry.output_tokens)} out"
        for entry in usage
    )


def timings_line(timings: Timings) -> str:
    """Write the times from the start of a run to its milestones."""
    moments = {
        "connected": timings.connect,
        "first event": timings.first_event,
        "first text": timings.first_text,
        "total": timings.total,
    }
    return ", ".join(f"{name} {seconds_text(value)}" for name, value in moments.items() if value is not None)


def summary(results: Sequence[RunResult]) -> list[str]:
    """Write the tokens of several runs together, and the timings of each."""
    usage = aggregate_token_usage([entry for result in results for entry in result.usage])
    lines = [f"run {number}: {timings_line(result.timings)}" for number, result in enumerate(results, 1)]
    return [f"usage: {usage_line(usage)}", *lines]


def is_over(execution: ToolExecution) -> bool:
    """Return whether an execution has ended."""
    return execution.status not in ("waiting", "running")


def execution_line(execution: ToolExecution) -> str:
    """Write the status of an execution: its result, its failure or its latest progress."""
    name = f"tool {execution.name}"
    if execution.message is not None:
        arrow = " ->" if execution.status == "succeeded" else f" {execution.status}:"
        return f"{name}{arrow} {content_text(execution.message.content)}"
    progress = f": {execution.progress[-1]}" if execution.progress else ""
    return f"{name} {execution.status}{progress}"


_INVOCATION = re.compile(r"-[0-9a-f]{8}\.[0-9]+$")
"""The end of the id of a call of a team's member, after the names of the teams around it and its own."""


class Speakers:
    """Names the subagents of a run, those inside others with the names around them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def begin(self, event: SubagentStartedEvent) -> str:
        """Take note of a subagent, and return its name."""
        outer = self.name(event.parent_subagent_run_id)
        name = one_line(f"{outer} > {event.name}" if outer else event.name)
        self._names[event.subagent_run_id] = name
        return name

    def name(self, subagent_run_id: str | None) -> str:
        """Return the name of the owner of an event or a question; empty for the agent itself.

        Of a subagent that began in another process, the id is known: that of a team's member says who it is.
        """
        if subagent_run_id is None:
            return ""
        return self._names.get(subagent_run_id) or one_line(" > ".join(_INVOCATION.sub("", subagent_run_id).split("/")))

    def ending(self, event: SubagentFinishedEvent | SubagentErrorEvent) -> str | None:
        """Return a sentence about an end that is no success."""
        name = self.name(event.subagent_run_id)
        if isinstance(event, SubagentErrorEvent):
            return f"{name} failed: {event.message}"
        is_waiting = event.outcome is not None and event.outcome.type == "suspended"
        return f"{name} waits for an answer" if is_waiting else None


class Transcript:
    """Writes one run while it happens.

    Args:
        answers: The stream for the text of the answer as it arrives; None to drop the text.
        notes: The stream for tool calls and everything else, one line each.
        verbose: Whether reasoning, state, usage and timings are written, too.
    """

    def __init__(self, *, answers: TextIO | None, notes: TextIO, verbose: bool = False) -> None:
        self._answers = answers
        self._notes = notes
        self._verbose = verbose
        self._is_shown_raw = answers is not None and not answers.isatty()
        self._shares_screen = answers is not None and _is_same_place(answers, notes)
        self._text = AnswerText()
        self._is_mid_line = False
        self._is_new_message = False
        self._needs_gap = False
        self._names: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self.speakers = Speakers()
        """The names of the subagents so far."""
        self._authors: dict[str, str] = {}
        self._activities: dict[str, ActivityMessage] = {}
        self._custom: dict[str, deque[Any]] = {}
        self._parts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def show(self, event: Event, state: Any, viewed: Viewed | None = None) -> None:
        """Write the text of an event, or a note about it.

        Args:
            event: The event.
            state: The state with the event in it.
            viewed: The part of the event that a view draws; an activity is written when the run is over.
        """
        if viewed is not None:
            self._show_viewed(viewed)
        elif isinstance(event, CustomEvent):
            self._detail(f"custom {event.name}: {json.dumps(event.value, ensure_ascii=False)}")
        if not self._is_of_subagent(event):
            self._show(event, state)

    def _show(self, event: Event, state: Any) -> None:
        match event:
            case ToolCallStartEvent():
                self._names[event.tool_call_id] = event.tool_call_name
            case ToolCallArgsEvent():
                self._parts["call", event.tool_call_id].append(event.delta)
            case ToolCallEndEvent():
                arguments = self._arguments[event.tool_call_id] = self._joined("call", event.tool_call_id)
                self.note(f"{self._tool(event.tool_call_id)}({arguments})")
            case ToolCallResultEvent():
                self._result(event.tool_call_id, content_text(event.content))
            case ReasoningMessageContentEvent():
                self._parts["thought", event.message_id].append(event.delta)
            case ReasoningMessageEndEvent():
                self._detail(f"thought: {self._joined('thought', event.message_id)}")
            case _ if self._verbose and isinstance(event, STATE_EVENTS):
                self._detail(f"state: {json.dumps(state, ensure_ascii=False)}")
            case TextMessageStartEvent():
                self._is_new_message = True
            case _:
                pass
        if text := self._text.of(event):
            self._answer(text)

    def _show_viewed(self, viewed: Viewed) -> None:
        if isinstance(viewed, CustomEvent):
            values = self._custom.setdefault(viewed.name, deque(maxlen=MOST_VALUES))
            values.append(viewed.value)
            self._draw(("custom", viewed.name), ShownCustom(viewed.name, viewed.value, tuple(values)))
        else:
            self._activities[viewed.id] = viewed

    def _is_of_subagent(self, event: Event) -> bool:
        """Write the words of a subagent, its begin or its end; return whether the event is one of these."""
        match event:
            case TextMessageStartEvent(subagent_run_id=str() as owner):
                self._authors[event.message_id] = owner
            case TextMessageContentEvent() if event.message_id in self._authors:
                self._parts["words", event.message_id].append(event.delta)
            case TextMessageEndEvent() if event.message_id in self._authors:
                speaker = self.speakers.name(self._authors.pop(event.message_id))
                self.note(f"{speaker}: {self._joined('words', event.message_id)}")
            case SubagentStartedEvent():
                self.note(f"{self.speakers.begin(event)} is at work")
            case SubagentFinishedEvent() | SubagentErrorEvent():
                if (sentence := self.speakers.ending(event)) is not None:
                    self.note(sentence)
            case _:
                return False
        return True

    def close(self, result: RunResult, *, is_kept: bool = False) -> None:
        """Write interrupts, pending calls, usage and timings of a run that has ended.

        Args:
            result: The result of the run.
            is_kept: Whether `agui runs` can answer it.
        """
        self.end_line()
        for interrupt in result.interrupts:
            asker = self.speakers.name(interrupt.subagent_run_id)
            asked = f"{asker}: " * bool(asker) + (interrupt.message or interrupt.reason)
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
            self._detail(f"usage: {usage_line(result.usage)}")
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
        message, tool_call_id = execution.message, execution.tool_call_id
        if message is not None and self._drew(tool_call_id, content_text(message.content), execution):
            return
        if is_over(execution) or execution.progress:
            self.note(execution_line(execution))

    def show_text(self, text: str) -> None:
        """Write lines of the command itself to the stream of the answers."""
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
        """End the answer's last line, if it is not ended yet."""
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

    def _result(self, tool_call_id: str, result: str) -> None:
        if not self._drew(tool_call_id, result):
            self.note(f"{self._tool(tool_call_id)} -> {result}")

    def _drew(self, tool_call_id: str, result: str, execution: ToolExecution | None = None) -> bool:
        """Write what the view of a call's tool draws, a note for each line; return whether the tool has one."""
        name, arguments = self._names.get(tool_call_id, ""), self._arguments.pop(tool_call_id, "")
        key: Key = ("tool", name)
        return find_view(key) is not None and self._draw(
            key, shown_call(tool_call_id, name, arguments, result, execution)
        )

    def _draw(self, key: Key, shown: object) -> bool:
        """Write what a view draws, a note for each line; return whether there is a view."""
        drawn = draw(key, shown, drawn_text)
        if drawn is not None:
            self._note_lines(map(printable, drawn.splitlines()))
        return drawn is not None

    def _tool(self, tool_call_id: str) -> str:
        return f"tool {self._names.get(tool_call_id, tool_call_id)}"

    def _joined(self, kind: str, item_id: str) -> str:
        return "".join(self._parts.pop((kind, item_id), ()))


def _is_same_place(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return one is other


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def seconds_text(value: float) -> str:
    """Write a duration: milliseconds below a second."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
