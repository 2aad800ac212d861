"""The story of a run: who wrote each part, what tools were asked for and what ran, who decided, and how it ended.

It is made of the events, messages, executions and answers of a run. Terminals, notebooks, the inspector and
documents paint what stands here, and derive none of it themselves.

To change

- what terminals, notebooks, the inspector and documents say of a run: authors, tool calls as they were asked for and as
  they ran, who decided, answers, times, the result: this module, which all of them paint from; a decision is noted by
  `_core/tools/execute.py` and kept with the record of the call, and the time of people is counted by `PeopleTime` in
  `_core/tools/people.py`. `tests/rendering/test_story.py` asks each of them for the same facts
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ag_ui.core import (
    AssistantMessage,
    Message,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._core.ground.json_reading import load_json
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.ground.secrets import hidden_json
from agui_client._core.protocol.message_text import Picture, content_text, split_pictures, tool_calls_in
from agui_client._core.tools.approval import ToolDecision
from agui_client._core.tools.context import FailureName, ToolStatus
from agui_client._core.tools.decisions import shown_decision
from agui_client._core.tools.interrupts import shown_payload
from agui_client._core.tools.toolset import FAILED

if TYPE_CHECKING:
    from ag_ui.core import Event, Interrupt, TokenUsage

    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.run.result import RunResult
    from agui_client._core.run.subagents import SubagentResult
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.interrupts import AnsweredInterrupt

CallStage: TypeAlias = Literal["arriving", "called", "answered"] | ToolStatus
"""The stage of a tool call: "arriving" while its arguments come, "called" without a result, "answered" with one; of a
tool that is executed here, the stage of the execution, and "failed" with a result that is an error."""
_INVOCATION = re.compile(r"-[0-9a-f]{8}\.[0-9]+$")
"""The end of the id of a call of a team's member, after the names of the teams around it and its own."""

_INSIDE = " > "
"""Stands between the name of a subagent and that of one inside it."""
_MOST_AROUND = 8
"""The number of names that stand before that of a subagent, of more the first and the last ones."""
_LONGEST_AROUND = 80
"""The characters of each of them."""


class Speakers:
    """The names of the subagents of a run, those inside others with the names around them.

    Args:
        subagents: Those that are known, in the order of their beginnings.
    """

    def __init__(self, subagents: Iterable[SubagentResult] = ()) -> None:
        self._names: dict[str, str] = {}
        for each in subagents:
            self.begin(each)

    def begin(self, subagent: SubagentStartedEvent | SubagentResult) -> str:
        """Take note of a subagent, and return its name."""
        outer = self.name(subagent.parent_subagent_run_id).split(_INSIDE)
        # A name that has those of any number of others in it would take the square of what was received.
        around = outer if len(outer) <= _MOST_AROUND else [outer[0], "…", *outer[2 - _MOST_AROUND :]]
        shown = [*(cut_short(each, _LONGEST_AROUND) for each in around if each), subagent.name]
        name = self._names[subagent.subagent_run_id] = _INSIDE.join(shown)
        return name

    def name(self, subagent_run_id: str | None) -> str:
        """Return the name of the author of a part; empty for the agent itself.

        Of a subagent that began in another process, the id is known: that of a team's member says who it is.
        """
        if subagent_run_id is None:
            return ""
        return self._names.get(subagent_run_id) or _INSIDE.join(_INVOCATION.sub("", subagent_run_id).split("/"))

    def author(self, message: Message) -> str:
        """Return the author of a message: a subagent, the name in the message, "agent", or else its role."""
        name = self.name(getattr(message, "subagent_run_id", None)) or getattr(message, "name", None)
        return name or ("agent" if message.role == "assistant" else message.role)

    def ending(self, event: SubagentFinishedEvent | SubagentErrorEvent) -> str | None:
        """Return a sentence about the end of a subagent that is not a success."""
        name = self.name(event.subagent_run_id)
        if isinstance(event, SubagentErrorEvent):
            return f"{name} failed: {event.message}"
        is_waiting = event.outcome is not None and event.outcome.type == "suspended"
        return f"{name} waits for an answer" if is_waiting else None


@dataclass(slots=True)
class ToolCallStory:
    """A tool call, as far as it has come."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    pieces: list[str] = field(default_factory=list[str])
    """The agent's arguments, as JSON in pieces."""
    author: str = ""
    """The subagent that calls; empty for the agent itself."""
    status: CallStage = "arriving"
    """The stage of the call."""
    progress: Sequence[Any] = ()
    """The values that a tool here has reported."""
    result: str | None = None
    """The result as text; None before it is there."""
    pictures: Sequence[Picture] = ()
    """The pictures in the result."""
    error: str | None = None
    """The reason why it failed; None if it did not."""
    seconds: float | None = None
    """The time that a tool here ran; None for others, and before its end."""
    decision: ToolDecision | None = None
    """The decision about the call; None if it wanted none."""
    exception: str = ""
    """The class of the exception that failed a tool here, with its text; empty if none did, or it is not known."""

    @property
    def asked(self) -> str:
        """The arguments that the agent asked for, as JSON."""
        self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0]

    @property
    def arguments(self) -> str:
        """The arguments that count, as JSON: those that the call was changed to, or else those of the agent."""
        if self.decision is None or self.decision.arguments is None:
            return self.asked
        return as_json(self.decision.arguments)

    @property
    def decided(self) -> str:
        """The decision, with what the agent had asked for if it was changed; empty without one."""
        was = "" if self.decision is None or self.decision.arguments is None else f" from {self.asked}"
        return "" if self.decision is None else f"{self.decision}{was}"

    @property
    def facts(self) -> str:
        """The stage, the time and the decision, in a line."""
        if self.decision is not None and self.decision.verdict == self.status:
            return self.decided
        took = "" if self.seconds is None else f" in {seconds_text(self.seconds)}"
        return ", ".join(filter(None, [f"{self.status}{took}", self.decided]))

    @property
    def cause(self) -> str:
        """The reason why the call failed, in a line: its author's words, or else the exception; empty if none."""
        if self.status != "failed":
            return ""
        is_silent = self.result == FAILED and self.exception
        return " ".join(((self.exception if is_silent else self.error) or "").split())

    @property
    def title(self) -> str:
        """The tool, with the subagent that calls it."""
        return f"{self.author}: tool {self.name}" if self.author else f"tool {self.name}"

    @property
    def line(self) -> str:
        """The call with its result, or how far it has come, in a line."""
        is_changed = self.decision is not None and self.decision.arguments is not None
        call = f"{self.title}({self.arguments})" if is_changed else self.title
        if self.result is None:
            progress = f": {self.progress[-1]}" if self.progress else ""
            return f"{call} {self.status}{progress}"
        if self.decision is not None and self.decision.verdict == self.status:
            return f"{call} {self.decided}: {self.result}"
        decided = f", {self.decided}" if self.decided else ""
        is_good = self.status in ("succeeded", "answered")
        return f"{call}{decided} -> {self.result}" if is_good else f"{call}{decided} {self.status}: {self.result}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of the call."""
        return self.status not in ("arriving", "called", "waiting", "running")

    def note(self, execution: ToolExecution) -> None:
        """Take in the execution as it is now."""
        self.status, self.seconds, self.progress = execution.status, execution.seconds, execution.progress
        self.decision = execution.decision or self.decision
        if isinstance(name := execution.error, FailureName):
            self.exception = f"{name}: {name.text}" if name.text else name
        if execution.message is not None:
            self.note_result(execution.message)

    def note_result(self, result: ToolMessage | ToolCallResultEvent) -> None:
        """Take in the result."""
        rest, self.pictures = split_pictures(result.content)
        self.result = content_text(rest, "\n")
        self.error = result.error if isinstance(result, ToolMessage) else None
        if self.status in ("arriving", "called"):
            is_denied = self.decision is not None and self.decision.verdict == "denied"
            self.status = "denied" if is_denied else "failed" if self.error else "answered"


Calls: TypeAlias = Mapping[tuple[str, str], ToolCallStory]
"""Tool calls by the ids of their messages and their own, which servers use again."""


def calls_in(
    messages: Iterable[Message],
    executions: Iterable[ToolExecution] = (),
    answered: Iterable[AnsweredInterrupt] = (),
    speakers: Speakers | None = None,
    records: Iterable[ToolCallRecord] = (),
) -> Calls:
    """Tell of the tool calls in messages.

    Args:
        messages: The messages, in order.
        executions: The executions of the calls in them, in order.
        answered: The interrupts that were answered, of which some may be about calls.
        speakers: The names of subagents.
        records: The records of a conversation's calls.
    """
    speakers, by_call = speakers or Speakers(), {each.interrupt.tool_call_id: each for each in answered}
    recorded = {each.tool_call_id: each.decision for each in records}
    calls, results = list[tuple[AssistantMessage, ToolCall]](), dict[tuple[str, str], ToolMessage]()
    latest = dict[str, str]()
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls += tool_calls_in([message])
            latest |= {call.id: message.id for call in message.tool_calls or ()}
        elif isinstance(message, ToolMessage) and message.tool_call_id in latest:
            results[latest[message.tool_call_id], message.tool_call_id] = message
    executed = defaultdict[str, list["ToolExecution"]](list)
    for each in executions:
        executed[each.tool_call_id].append(each)
    stories: dict[tuple[str, str], ToolCallStory] = {}
    # From the end, as the first calls of an id may have been executed before.
    for message, call in reversed(calls):
        key, execution = (message.id, call.id), executed[call.id].pop() if executed[call.id] else None
        decision = recorded.pop(call.id, None) or decision_about(by_call.pop(call.id, None), call.function.arguments)
        author, asked = speakers.name(message.subagent_run_id), [call.function.arguments]
        story = stories[key] = ToolCallStory(call.id, call.function.name, asked, author, decision=decision)
        if execution is not None:
            story.note(execution)
        elif read_json(story.asked) is not story.asked:
            story.status = "called"
        if (result := results.get(key)) is not None:
            story.note_result(result)
    return dict(reversed(stories.items()))


def decision_about(answered: AnsweredInterrupt | None, asked: str) -> ToolDecision | None:
    """Return the decision about a tool call of the agent that the answer to an interrupt is; None if it is none.

    Args:
        answered: The interrupt with its answer; None if there is none about the call.
        asked: The arguments that the agent asked for.
    """
    if answered is None or (decision := shown_decision(answered.entry)) is None:
        return None
    return ToolDecision.of(decision, "nobody" if answered.by == "nobody" else "person", read_json(asked))


@dataclass(slots=True)
class RunStory:
    """The end of a call, and what belongs to all of it."""

    ending: str = "running"
    """The outcome of the run, "aborted", or a sentence about the failure."""
    seconds: float | None = None
    """The time until the end; None if it is not known."""
    people: float = 0.0
    """The part of that time in which people were asked."""
    result: Any = None
    """The result that the run ended with, as JSON without secrets."""
    answered: Sequence[AnsweredInterrupt] = ()
    """The interrupts that were answered."""

    @classmethod
    def from_result(cls, result: RunResult[Any]) -> RunStory:
        """Tell of a call by its result."""
        ending = result.failure or ("no outcome" if result.outcome is None else result.outcome.type)
        times, shown = result.timings, hidden_json(result.result)
        return cls("aborted" if result.aborted else ending, times.total, times.people, shown, result.answered)

    @property
    def lines(self) -> list[str]:
        """Sentences about the answers and the result."""
        result = [] if self.result is None else [f"result: {as_text(self.result)}"]
        return [*map(answer_text, self.answered), *result]


def answer_text(answered: AnsweredInterrupt) -> str:
    """Describe an interrupt and its answer, without secrets."""
    given = "no answer" if answered.entry.status == "cancelled" else as_text(shown_payload(answered))
    who = answered.by if answered.by == "nobody" else f"{'a' if answered.by == 'person' else 'the'} {answered.by}"
    took = "" if answered.seconds is None else f" in {seconds_text(answered.seconds)}"
    return f"{question_text(answered.interrupt)} {given}, answered by {who}{took}"


def question_text(interrupt: Interrupt, speakers: Speakers | None = None) -> str:
    """Return the question of an interrupt, with the subagent that asks."""
    asker = (speakers or Speakers()).name(interrupt.subagent_run_id)
    return ": ".join(filter(None, [asker, interrupt.message or interrupt.reason or interrupt.id]))


def waiting_texts(
    interrupts: Sequence[Interrupt], calls: Sequence[ToolCall] = (), speakers: Speakers | None = None
) -> list[str]:
    """Return a sentence about each thing that waits for the application: an answer, or the result of a call."""
    asked = [f"waits for an answer: {question_text(each, speakers)} ({each.id})" for each in interrupts]
    return [*asked, *(f"waits for the result of {call.function.name}" for call in calls)]


def usage_text(usage: Iterable[TokenUsage]) -> str:
    """Write tokens per model; a count that was not reported is "?" (USAGE-1)."""

    def count(tokens: int | None) -> str:
        """Write a count."""
        return "?" if tokens is None else str(tokens)

    return "; ".join(
        f"{each.model or each.provider or 'unnamed model'}: "
        f"{count(each.input_tokens)} tokens in, {count(each.output_tokens)} out"
        for each in usage
    )


def counted(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds_text(value: float) -> str:
    """Write a duration: milliseconds below a second."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def time_text(seconds: float, people: float) -> str:
    """Write a time, with and without the part in which people were asked."""
    alone = f", {seconds_text(seconds - people)} without people" if people else ""
    return f"{seconds_text(seconds)}{alone}"


def as_json(value: Any, indent: int | None = None) -> str:
    """Write a JSON value as text that is not escaped yet."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=repr)
    except (RecursionError, ValueError):
        return "(nested too deeply to show)"


def as_text(value: Any) -> str:
    """Write JSON in a line, and a text as it is."""
    return value if isinstance(value, str) else as_json(value)


def read_json(text: str) -> Any:
    """Read JSON; return a text that is none as it is."""
    try:
        return load_json(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def placed(messages: Iterable[Message], calls: Iterable[ToolCallStory]) -> Calls:
    """Return tool calls that are known by the messages that make them; of others, what the messages say.

    Args:
        calls: The calls, in order.
    """
    found, known = calls_in(messages), defaultdict[str, list[ToolCallStory]](list)
    for each in calls:
        known[each.tool_call_id].append(each)
    return {key: known[key[1]].pop(0) if known[key[1]] else call for key, call in found.items()}


class EventStory:
    """The speakers and the tool calls of a run, event by event.

    Args:
        speakers: The names of the subagents so far; None if there are none.
    """

    def __init__(self, speakers: Speakers | None = None) -> None:
        self.speakers: Speakers = speakers or Speakers()
        """The names of the subagents so far."""
        self.calls: dict[str, ToolCallStory] = {}
        """The tool calls, by their ids."""

    def note(self, event: Event) -> ToolCallStory | None:
        """Take in an event; return the tool call that it is about, None if it is about none."""
        match event:
            case SubagentStartedEvent():
                self.speakers.begin(event)
            case ToolCallStartEvent():
                author = self.speakers.name(event.subagent_run_id)
                self.calls[event.tool_call_id] = ToolCallStory(event.tool_call_id, event.tool_call_name, author=author)
            case ToolCallArgsEvent():
                self.call(event.tool_call_id).pieces.append(event.delta)
            case ToolCallEndEvent():
                self.call(event.tool_call_id).status = "called"
            case ToolCallResultEvent():
                self.call(event.tool_call_id).note_result(event)
            case _:
                return None
        return self.calls.get(getattr(event, "tool_call_id", ""))

    def call(self, tool_call_id: str, name: str = "") -> ToolCallStory:
        """Return a tool call; one that began before has its id for a name."""
        return self.calls.setdefault(tool_call_id, ToolCallStory(tool_call_id, name or tool_call_id))

    def execute(self, execution: ToolExecution) -> ToolCallStory:
        """Take in the execution of a call as it is now."""
        call = self.call(execution.tool_call_id, execution.name)
        call.note(execution)
        return call

    def decide(self, answered: Iterable[AnsweredInterrupt]) -> None:
        """Take in the decisions in answers to interrupts."""
        for each in answered:
            if (call := self.calls.get(each.interrupt.tool_call_id or "")) is not None:
                call.decision = decision_about(each, call.asked)
