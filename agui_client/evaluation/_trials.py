"""Trials: what is known of one conversation of an agent with the user of a scenario.

A trial is plain data, so that a journal has it as JSON, and checks are functions of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Interrupt, Message, TokenUsage
from pydantic_core import to_json

from agui_client._checking.stream_faults import StreamFault
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.message_text import content_text, tool_calls_in
from agui_client._core.protocol.patch import parse_json
from agui_client._core.run.result import RunResult
from agui_client._core.tools.context import ToolExecution
from agui_client._core.tools.interrupts import AnsweredInterrupt


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """The answer to the question whether a conversation passes a check."""

    passed: bool
    """Whether it does."""
    reason: str = ""
    """The reason, in a sentence; empty where nothing is to be said."""
    score: float | None = None
    """The judge's score, from 0 to 1; None without one."""


@dataclass(frozen=True, slots=True)
class CalledTool(Record):
    """A tool call of the agent, whichever side executed it."""

    name: str
    """The name of the tool."""
    arguments: Any
    """The arguments; a text if they are not JSON."""
    turn: int
    """The number of the turn, from 1."""
    result: str | None = None
    """The result as text; None without one."""


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """A prompt of the user, and all that the agent did until the next one."""

    prompt: str
    """The prompt."""
    text: str = ""
    """The agent's last answer."""
    result: Any = None
    """The result in RUN_FINISHED, any JSON value."""
    outcome: str | None = None
    """The outcome: "success", "interrupt" or "cancelled"; None if the run did not finish."""
    seconds: float = 0.0
    """The time that the turn took, tools included."""
    messages: list[Message] = field(default_factory=list["Message"])
    """The messages of the turn, the prompt and results of tools included."""
    tool_executions: list[ToolExecution] = field(default_factory=list[ToolExecution])
    """The tools that were executed here, with the decision about each."""
    answered: list[AnsweredInterrupt] = field(default_factory=list[AnsweredInterrupt])
    """The questions of the agent that were answered."""
    interrupts: list[Interrupt] = field(default_factory=list["Interrupt"])
    """The questions of the agent that were not."""
    first_text: float | None = None
    """The seconds until the first text of the agent; None if there was none."""
    faults: list[StreamFault] = field(default_factory=list[StreamFault])
    """The rules of the protocol that the agent broke, as `validate` finds them."""

    @property
    def said(self) -> str:
        """All texts of the agent in this turn, before tools and behind them."""
        texts = [content_text(each.content) for each in self.messages if each.role == "assistant"]
        return "\n".join(text for text in texts if text) or self.text


@dataclass(slots=True)
class Trial(Record):
    """One conversation of an agent in a scenario; checks are functions of it."""

    scenario: str
    """The name of the scenario."""
    repetition: int = 1
    """The number of the repetition, from 1."""
    turns: list[Turn] = field(default_factory=list[Turn])
    """The prompts, each with what the agent did."""
    state: Any = None
    """The state, at the end."""
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])
    """The tokens that the agent used."""
    seconds: float = 0.0
    """The time that the conversation took."""
    judged: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    """The verdicts of the judge, by the statements."""
    error: str | None = None
    """The reason why the conversation ended too early; None if it did not."""
    thread_id: str = ""
    """The id of the conversation, which its reproduction has, too."""
    tools: dict[str, Any] = field(default_factory=dict[str, Any])
    """The JSON Schemas of the arguments of tools that the application offered, by their names."""
    agent: str = ""
    """The address of the agent without user, password and query; of one in this process, its name or class."""

    @property
    def messages(self) -> list[Message]:
        """All messages, in order."""
        return [message for turn in self.turns for message in turn.messages]

    @property
    def calls(self) -> list[CalledTool]:
        """All tool calls of the agent, in order: those that were executed here, and its own."""
        return [call for number, turn in enumerate(self.turns, start=1) for call in _called_tools(turn, number)]

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """The tools that were executed here."""
        return [each for turn in self.turns for each in turn.tool_executions]

    @property
    def answered(self) -> list[AnsweredInterrupt]:
        """The questions of the agent that were answered."""
        return [each for turn in self.turns for each in turn.answered]

    @property
    def asked(self) -> list[Interrupt]:
        """All questions of the agent, answered or not."""
        return [each for turn in self.turns for each in (*(one.interrupt for one in turn.answered), *turn.interrupts)]

    @property
    def faults(self) -> list[StreamFault]:
        """The rules of the protocol that the agent broke, as `validate` finds them."""
        return [each for turn in self.turns for each in turn.faults]

    @property
    def said(self) -> str:
        """All texts of the agent."""
        return "\n".join(turn.said for turn in self.turns)

    @property
    def tokens(self) -> int:
        """The number of tokens that the agent used."""
        return sum(each.total_tokens or (each.input_tokens or 0) + (each.output_tokens or 0) for each in self.usage)

    @property
    def transcript(self) -> str:
        """The conversation as text: what each side said, tool calls with their results, and questions."""
        return "\n".join(lines_of(self))

    def add(self, prompt: str, result: RunResult, messages: list[Message], seconds: float) -> None:
        """Add a turn.

        Args:
            result: The result of the call; of one that failed, as far as it came.
            messages: The messages of the turn.
            seconds: The time that it took.
        """
        self.turns.append(
            Turn(
                prompt,
                result.text,
                result.result,
                None if result.outcome is None else result.outcome.type,
                round(seconds, 6),
                messages,
                result.tool_executions,
                result.answered,
                list(result.interrupts),
                result.timings.first_text,
            )
        )
        self.usage += result.usage
        self.state = result.state


def lines_of(trial: Trial) -> Iterator[str]:
    """Yield the parts of a transcript: each is what one side said, a call, or a question."""
    for turn in trial.turns:
        yield from _lines(turn)


def _lines(turn: Turn) -> Iterator[str]:
    for message in turn.messages:
        if text := content_text(getattr(message, "content", None)):
            # Indented, so that no line of a text looks like one of another speaker.
            yield f"{message.role}: {text.strip().replace(chr(10), chr(10) + '  ')}"
        for _, call in tool_calls_in([message]):
            yield f"call: {call.function.name}({call.function.arguments})"
    for each in turn.answered:
        yield f"question: {_question(each.interrupt)} -> {to_json(each.entry.payload).decode()}"
    for open_one in turn.interrupts:
        yield f"question: {_question(open_one)}"


def _question(interrupt: Interrupt) -> str:
    return interrupt.message or interrupt.reason


def _called_tools(turn: Turn, number: int) -> Iterator[CalledTool]:
    results = {each.tool_call_id: content_text(each.content) for each in turn.messages if each.role == "tool"}
    for _, call in tool_calls_in(turn.messages):
        yield CalledTool(call.function.name, arguments_of(call.function.arguments), number, results.get(call.id))


def arguments_of(text: str) -> Any:
    """Return the arguments of a call as JSON; as the text that they are if they are none."""
    try:
        return parse_json(text) if text.strip() else {}
    except ValueError:
        return text
