"""The rows of the inspector's page: one for each line of a recording, with everything that the page needs of it.

The page knows no rules of the protocol. It shows what stands here, and applies the operations of the rows to come to
the conversation at any moment. Rows are made one by one, so that a page can follow a recording while it is written.

To change

- what the inspector knows of a line, or of an event's effects: `Inspection.row` here, `inspector/_response_changes.py`;
  the page in `inspector/page/` shows rows, applies their JSON Patches and knows no rule of the protocol.
  `_cli/inspection_server.py` is the proxy and the live page of `agui inspect URL`
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Interrupt

from agui_client._core.ground.prices import Prices
from agui_client._core.tools.context import ToolExecution
from agui_client._core.tools.interrupts import AnsweredInterrupt
from agui_client._rendering.drawing import call_html
from agui_client._rendering.markdown import prose, without_styles
from agui_client._rendering.story import (
    EventStory,
    RunStory,
    Speakers,
    ToolCallStory,
    answer_text,
    as_text,
    calls_in,
    question_text,
)
from agui_client._rendering.views import find_view
from agui_client.inspector._prices import with_cost
from agui_client.inspector._response_changes import ResponseChanges
from agui_client.inspector._surface_rows import SurfaceRows
from agui_client.recording._format import (
    EndingPart,
    EndLine,
    EventLine,
    HeaderLine,
    Line,
    OutcomeLine,
    RequestLine,
    ToolLine,
)
from agui_client.recording._references import InputReferences

_CALL_EVENTS = frozenset({"TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"})
_SUBAGENT_ENDS = frozenset({"SUBAGENT_FINISHED", "SUBAGENT_ERROR"})
_ONE_PARAGRAPH = re.compile(r"<p>[^<]*</p>\n?")


@dataclass
class _Lane:
    """A line of the timeline: an agent, or a subagent, which is busy with at most one thing at a time."""

    number: int
    is_busy: bool = False


@dataclass
class InspectedResponse:
    """A request whose response is followed."""

    number: int
    changes: ResponseChanges
    lane: _Lane
    story: EventStory
    """The tool calls of its thread so far."""
    surfaces: SurfaceRows
    """The surfaces of its conversation."""
    subagents: dict[str, _Lane] = field(default_factory=dict[str, _Lane])
    """The lanes of its subagents, by the ids of their invocations."""
    made: dict[int, ToolCallStory] = field(default_factory=dict[int, ToolCallStory])
    """The tool calls that it made, or that were executed after it, by their identity."""
    answered: list[AnsweredInterrupt] = field(default_factory=list[AnsweredInterrupt])
    """The interrupts that the request answered."""

    @property
    def calls(self) -> list[ToolCallStory]:
        """The tool calls that it made or restated, or that were executed after it."""
        found = {each.tool_call_id for each in self.made.values()}
        restated = calls_in(self.changes.new_messages, speakers=self.story.speakers).values()
        return [*self.made.values(), *(each for each in restated if each.tool_call_id not in found)]


class Inspection:
    """Makes rows of the lines of a recording, in their order.

    Args:
        prices: The prices of tokens; None for rows without money.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.speakers: Speakers = Speakers()
        """The names of the subagents so far."""
        self.responses: dict[str, InspectedResponse] = {}
        """The requests with their responses so far, by their keys."""
        self._prices = prices
        self._drawn: set[str] = set()
        self._began: float | None = None
        self._offsets: dict[str, float] = {}
        self._latest = 0.0
        self._lanes: dict[tuple[int | None, str], list[_Lane]] = {}
        self._lane_count = 0
        self._references = InputReferences()
        self._new_lanes: list[dict[str, Any]] = []
        self._lanes_of_calls: dict[str, _Lane] = {}
        self._stories: dict[tuple[str, str], EventStory] = {}
        self._interrupts: dict[str, Interrupt] = {}
        self._early: dict[str, list[ToolExecution]] = {}

    def row(self, line: Line) -> dict[str, Any]:
        """Return the row of a line.

        Returns:
            JSON, with these members: `t`, the seconds since the recording began; `k`, the kind of the line; `d`, its
            content, of an event the event, of a request with references as a recording has them; and those of these
            that there is something for: `r` and `l`, the numbers of its request and its lane; `lanes`, lanes that
            begin; `c`, the conversation that a request begins with, if that is not in its input; `o`, operations that
            change it; `a`, the tool call that it is about, as far as it has come; `n`, the id and the name of a
            subagent that begins; `s`, sentences about answers, questions, the result and the time; `q`, the ids of
            the interrupts that a run ends with; `w`, warnings; `e`, the reason
            why a client stops; `v`, the HTML that a view makes of a tool call; `m`, texts of the agent that are
            complete, each with its Markdown as HTML, once in a recording; `u`, the tokens of a run, as a list of
            `TokenUsage`, each with its `cost` if that is known; `f`, surfaces that changed, by their ids, each with
            its HTML, or null if it is gone; under the empty id sentences about what belongs to none.
        """
        row: dict[str, Any] = {"t": self._time(line), "k": line.kind}
        match line:
            case EventLine():
                row["d"] = line.event
                self._add_event(row, line)
            case RequestLine():
                written = line.model_dump(mode="json", exclude_none=True, exclude={"base", "same"})
                row["d"] = written if line.base is not None else self._references.shorten(written)
                self._add_request(row, line)
            case _:
                row["d"] = line.model_dump(mode="json", exclude_none=True)
                self._place(row, line)
        if self._new_lanes:
            row["lanes"], self._new_lanes = self._new_lanes, []
        return row

    def _time(self, line: Line) -> float:
        """Return the seconds since the recording began; of several sessions, the first."""
        if isinstance(line, HeaderLine):
            time = line.time.timestamp()
            self._began = time if self._began is None else self._began
            at = self._offsets[line.session] = time - self._began
        else:
            key = line.call if isinstance(line, ToolLine | EndingPart) else line.request
            at = line.at + self._offsets.get(key.rpartition("-")[0], 0.0)
        # Threads that write at the same moment may swap two lines.
        self._latest = max(self._latest, at)
        return round(self._latest, 6)

    def _add_request(self, row: dict[str, Any], line: RequestLine) -> None:
        parent = self._lanes_of_calls.get(line.parent or "")
        lane = self._free_lane(parent, line.agent.shown, "agent")
        story = self._stories.setdefault((line.agent.shown, str(line.input.get("threadId"))), EventStory(self.speakers))
        changes = ResponseChanges(line, story)
        response = InspectedResponse(len(self.responses), changes, lane, story, SurfaceRows(changes.messages))
        self.responses[line.request] = response
        for execution in self._early.pop(line.call, ()):
            self._note_call(response, execution.tool_call_id, execution)
        self._note_answers(response, line)
        if response.answered:
            row["s"] = [answer_text(each) for each in response.answered]
        self._lanes_of_calls.setdefault(line.call, lane)
        row.update(r=response.number, l=lane.number)
        beginning = response.changes.beginning
        if beginning != {name: line.input.get(name) for name in ("messages", "state")}:
            row["c"] = beginning
        if response.changes.error is not None:
            row["e"] = response.changes.error
        if response.surfaces.beginning:
            row["f"] = response.surfaces.beginning
        self._add_markdown(row, (str(each.get("content")) for each in beginning["messages"] if _is_answer(each)))

    def _add_event(self, row: dict[str, Any], line: EventLine) -> None:
        response = self.responses.get(line.request)
        if response is None:
            return
        row.update(r=response.number, l=self._lane_of_event(response, line.event).number)
        effects = response.changes.feed(line.event)
        shown = response.surfaces.changed(line.event, response.changes)
        members = {"o": effects.operations, "w": effects.warnings, "e": effects.error, "f": shown}
        row.update({name: value for name, value in members.items() if value})
        self._add_markdown(row, response.changes.completed_texts(line.event))
        if usage := response.changes.usage(line.event):
            row["u"] = [with_cost(each, self._prices) for each in usage]
        kind, tool_call_id = str(line.event.get("type")), line.event.get("toolCallId")
        if response.changes.error is not None:
            return  # what comes behind is shown as events only
        if kind in _CALL_EVENTS and isinstance(tool_call_id, str):
            _add_call(row, self._note_call(response, tool_call_id, is_made=kind == "TOOL_CALL_START"))
        elif kind == "SUBAGENT_STARTED":
            subagent = str(line.event.get("subagentRunId"))
            row["n"] = [subagent, self.speakers.name(subagent)]
        elif kind == "RUN_FINISHED":
            asked = {each.id: each for each in response.changes.outcome.interrupts}
            self._interrupts |= asked
            waits = [f"waits for an answer: {question_text(each, self.speakers)}" for each in asked.values()]
            row["s"] = [*RunStory(result=response.changes.result).lines, *waits]
            if asked:
                row["q"] = [*asked]

    def _note_answers(self, response: InspectedResponse, line: RequestLine) -> None:
        """Take note of the interrupts that a request answers, and of the decisions about tool calls in the answers."""
        for entry in response.changes.resume:
            interrupt = self._interrupts.get(entry.interrupt_id) or Interrupt(id=entry.interrupt_id, reason="")
            by = (line.answers or {}).get(interrupt.id, ("caller", None))
            response.answered.append(AnsweredInterrupt(interrupt, entry, *by))
        response.story.decide(response.answered)

    def _note_call(
        self,
        response: InspectedResponse,
        tool_call_id: str,
        execution: ToolExecution | None = None,
        *,
        is_made: bool = True,
    ) -> ToolCallStory:
        """Take note of a tool call that a response makes, or that is executed after it; return it as it is now."""
        call = response.story.call(tool_call_id, "" if execution is None else execution.name)
        if not call.pieces and (made := response.changes.call(tool_call_id)) is not None:
            call.name, call.pieces = made.function.name, [made.function.arguments]
        if execution is not None:
            if not call.pieces:
                call.pieces = [as_text(execution.arguments)]
            call.note(execution)
        if is_made:
            response.made[id(call)] = call
        return call

    def _add_markdown(self, row: dict[str, Any], texts: Iterable[str]) -> None:
        """Add the HTML of texts that are more than a paragraph."""
        drawn: list[list[str]] = []
        for text in texts:
            if text in self._drawn:
                continue
            self._drawn.add(text)
            html = prose(text)
            if not _ONE_PARAGRAPH.fullmatch(html):
                # The page's policy allows no styles in elements.
                drawn.append([text, without_styles(html)])
        if drawn:
            row["m"] = drawn

    def _place(self, row: dict[str, Any], line: Line) -> None:
        """Find the request and the lane of a line that is neither a request nor an event."""
        response = self.responses.get(getattr(line, "request", None) or "")
        if isinstance(line, OutcomeLine) and line.warnings:
            row["w"] = [[each.rule, each.message, each.path] for each in line.warnings]
        if isinstance(line, EndingPart):
            row["s"] = [line.text]
        elif isinstance(line, ToolLine) and response is not None:
            _add_call(row, self._note_call(response, line.tool_call_id, line.execution))
        elif isinstance(line, ToolLine):
            self._early.setdefault(line.call, []).append(line.execution)
            call = ToolCallStory(line.tool_call_id, line.name, [as_text(line.arguments)])
            call.note(line.execution)
            _add_call(row, call)
        if response is None:
            lane = self._lanes_of_calls.get(line.call) if isinstance(line, ToolLine | EndingPart) else None
            if lane is not None:
                row["l"] = lane.number
            return
        row.update(r=response.number, l=response.lane.number)
        if isinstance(line, EndLine):
            self._add_markdown(row, response.changes.texts())
            if shown := response.surfaces.at_end():
                row["f"] = shown
            for lane in (response.lane, *response.subagents.values()):
                lane.is_busy = False

    def _lane_of_event(self, response: InspectedResponse, event: dict[str, Any]) -> _Lane:
        subagent = event.get("subagentRunId")
        if not isinstance(subagent, str):
            return response.lane
        if subagent not in response.subagents:
            parent = response.subagents.get(str(event.get("parentSubagentRunId")), response.lane)
            name = event.get("name") if event.get("type") == "SUBAGENT_STARTED" else None
            response.subagents[subagent] = self._free_lane(parent, str(name or subagent), "subagent")
        lane = response.subagents[subagent]
        if str(event.get("type")) in _SUBAGENT_ENDS:
            lane.is_busy = False
        return lane

    def _free_lane(self, parent: _Lane | None, name: str, kind: str) -> _Lane:
        """Return a lane that is not busy, so that there are no more than things that happened side by side."""
        lanes = self._lanes.setdefault((None if parent is None else parent.number, name), [])
        lane = next((each for each in lanes if not each.is_busy), None)
        if lane is None:
            lane = _Lane(self._lane_count)
            lanes.append(lane)
            self._lane_count += 1
            above = None if parent is None else parent.number
            self._new_lanes.append({"id": lane.number, "parent": above, "name": name, "kind": kind})
        lane.is_busy = True
        return lane


def _add_call(row: dict[str, Any], call: ToolCallStory) -> None:
    """Add a tool call as it is now, and with its result the drawing of its tool's view, if that has one."""
    facts = {
        "id": call.tool_call_id,
        "name": call.name,
        "author": call.author or None,
        "arguments": call.arguments,
        "result": call.result,
        "facts": call.facts,
    }
    row["a"] = {name: value for name, value in facts.items() if value is not None}
    if call.result is not None and find_view(("tool", call.name)) is not None:
        row["v"] = call_html(call)


def _is_answer(message: Any) -> bool:
    return message.get("role") == "assistant" and bool(message.get("content"))
