"""What the commands write: the agent's text on stdout, everything about the run on stderr.

What an agent sends is never given to a terminal with its control characters (SEC-8); a file or a pipe gets the text
exactly as it came.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO
from unicodedata import category

from ag_ui.core import (
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    RunFinishedCancelledOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    aggregate_token_usage,
)

from agui_client._surfaces.stream import AnswerText
from agui_client._tools.sight import exact, sentence

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

    from agui_client.messages import Part
    from agui_client.result import RunResult, Timings, ToolExecution

_LONGEST_LINE = 400


class _Shown(dict[int, str | None]):
    """What is shown for each character, found out when it is first met."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        shown: str | None = " " if category(character).startswith("Z") else None
        if character in "\n\t" or sentence(character) == character or category(character) in _UNKNOWN:
            shown = character
        self[code] = shown
        return shown


_UNKNOWN = ("Cn", "Co")
"""Characters that are newer than this Python, or nobody's: at worst a terminal has no glyph for one."""
_SHOWN = _Shown()


def printable(text: str) -> str:
    """Prose without what a screen would obey, hide or turn round, which `_tools/sight.py` defines; tabs stay."""
    return text if text.isprintable() else text.translate(_SHOWN)


def one_line(text: str) -> str:
    """The text as one printable line, cut if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def shown_json(text: str, out: TextIO) -> str:
    """JSON as a stream may have it: for a terminal, what it would obey or hide is escaped, as JSON allows."""
    return exact(text) if out.isatty() else text


def usage_line(usage: list[TokenUsage]) -> str:
    """Tokens per model; a count that was not reported reads "?" (USAGE-1)."""
    return "; ".join(
        f"{entry.model or entry.provider or 'unnamed model'}: "
        f"{_count(entry.input_tokens)} tokens in, {_count(entry.output_tokens)} out"
        for entry in usage
    )


def timings_line(timings: Timings) -> str:
    """How long the run took until what."""
    moments = {
        "connected": timings.connect,
        "first event": timings.first_event,
        "first text": timings.first_text,
        "total": timings.total,
    }
    return ", ".join(f"{name} {_seconds(value)}" for name, value in moments.items() if value is not None)


def summary(results: Sequence[RunResult]) -> list[str]:
    """What several runs took: their tokens together, their timings one by one."""
    usage = aggregate_token_usage([entry for result in results for entry in result.usage])
    lines = [f"run {number}: {timings_line(result.timings)}" for number, result in enumerate(results, 1)]
    return [f"usage: {usage_line(usage)}", *lines]


def told(content: str | Sequence[Part] | Mapping[str, Any]) -> str:
    """What a message says, as text; of media the kind."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False)
    return ", ".join(part.text if part.type == "text" else f"[{part.type}]" for part in content)


def is_over(execution: ToolExecution) -> bool:
    """Whether nothing more comes of a tool's work on a call."""
    return execution.status not in ("waiting", "running")


def execution_line(execution: ToolExecution) -> str:
    """How far one of the application's tools has come with a call."""
    name = f"tool {execution.name}"
    if execution.message is not None:
        arrow = " ->" if execution.status == "succeeded" else f" {execution.status}:"
        return f"{name}{arrow} {told(execution.message.content)}"
    progress = f": {execution.progress[-1]}" if execution.progress else ""
    return f"{name} {execution.status}{progress}"


class WarningLines(logging.Handler):
    """Shows what the package logs, as it happens, in place of Python's last-resort handler.

    Args:
        write: Takes one line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        # In place of a traceback: what a tool raised is for its author to see.
        raised = record.exc_info[1] if record.exc_info else None
        why = "" if raised is None else f": {type(raised).__name__}: {raised}"
        self._write(f"{record.levelname.lower()}: {record.getMessage()}{why}")

    def install(self) -> None:
        """Become the one handler of the package's logger."""
        logger = logging.getLogger("agui_client")
        logger.handlers = [self]
        logger.propagate = False


class Transcript:
    """Writes one run while it happens.

    Args:
        answers: Where the text of the answer goes as it arrives; None for nowhere.
        notes: Where a line goes for each tool call, and for what else happens.
        verbose: Whether reasoning, state, usage and timings are told too.
    """

    def __init__(self, *, answers: TextIO | None, notes: TextIO, verbose: bool) -> None:
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
        self._parts: defaultdict[str, list[str]] = defaultdict(list)

    def show(self, event: Event, state: Any) -> None:
        """Write what one event adds.

        Args:
            event: The event.
            state: The state with the event in it.
        """
        match event:
            case ToolCallStartEvent():
                self._names[event.tool_call_id] = event.tool_call_name
            case ToolCallArgsEvent():
                self._parts[event.tool_call_id].append(event.delta)
            case ToolCallEndEvent():
                self.note(f"{self._tool(event.tool_call_id)}({self._joined(event.tool_call_id)})")
            case ToolCallResultEvent():
                self.note(f"{self._tool(event.tool_call_id)} -> {told(event.content)}")
            case ReasoningMessageContentEvent():
                self._parts[event.message_id].append(event.delta)
            case ReasoningMessageEndEvent():
                self._detail(f"thought: {self._joined(event.message_id)}")
            case StateSnapshotEvent() | StateDeltaEvent() if self._verbose:
                self._detail(f"state: {json.dumps(state, ensure_ascii=False)}")
            case TextMessageStartEvent():
                self._is_new_message = True
            case _:
                pass
        if text := self._text.of(event):
            self._answer(text)

    def close(self, result: RunResult) -> None:
        """Write what there is to say once the run is over."""
        self.end_line()
        for interrupt in result.interrupts:
            asked = interrupt.message or interrupt.reason
            self.note(f"waiting for an answer to {interrupt.id!r}: {asked} (from Python, resume= answers it)")
        for call in result.pending_tool_calls:
            self.note(f"waiting for the result of {call.function.name} ({call.id})")
        if isinstance(result.outcome, RunFinishedCancelledOutcome):
            self.note("the agent cancelled the run")
        if result.usage:
            self._detail(f"usage: {usage_line(result.usage)}")
        self._detail(f"timings: {timings_line(result.timings)}")

    def note(self, line: str) -> None:
        """Write one line beside the answer."""
        if self._shares_screen:
            self.end_line()
            self._needs_gap = False
        self._notes.write(f"{one_line(line)}\n")
        self._notes.flush()

    def execution(self, execution: ToolExecution) -> None:
        """Write how far one of the application's tools has come, if it has come further."""
        if is_over(execution) or execution.progress:
            self.note(execution_line(execution))

    def tell(self, text: str) -> None:
        """Write lines that are no part of an answer where answers go."""
        self.end_line()
        self._needs_gap = False
        self._write(f"{text if self._is_shown_raw else printable(text)}\n")

    def end_line(self) -> None:
        """End the answer's last line, if that is not done yet."""
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

    def _tool(self, tool_call_id: str) -> str:
        return f"tool {self._names.get(tool_call_id, tool_call_id)}"

    def _joined(self, item_id: str) -> str:
        return "".join(self._parts.pop(item_id, ()))


def _is_same_place(one: TextIO, other: TextIO) -> bool:
    """Whether two streams end on the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return one is other


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
