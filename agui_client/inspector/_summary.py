"""A recording for displays that do not move: its requests, each with its rows, tool calls, tokens and changes.

The inspector's page goes to any moment; notebooks, the terminal and comparisons show what this module sums up. Deltas
of one text that follow each other are one row here, as they are on the page.

To change

- what `result.inspect()` and `agui inspect A B` show: this module sums up a recording,
  `notebook/_recording_elements.py` describes it by elements, `notebook/_timeline.py` has the elements for time.
  `Recorder.kept` reads the lines of a call; in notebooks `recording/_kept_calls.py` keeps them in memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.ground.prices import Prices
from agui_client._core.protocol.schema import is_array
from agui_client._rendering.story import RunStory, Speakers, ToolCallStory, as_text
from agui_client.inspector._rows import InspectedResponse, Inspection
from agui_client.recording._format import EndingPart, EndLine, HeaderLine, Line, ResponseLine, ToolLine
from agui_client.recording._matching import ABSENT, changed_places, question
from agui_client.recording._reading import Exchange, Recording

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, Message

Family: TypeAlias = Literal["text", "reasoning", "tool", "state", "subagent", "run", "waiting", "frame", "other", "bad"]
_FAMILIES: Mapping[str, Family] = {
    "TEXT": "text",
    "REASONING": "reasoning",
    "THINKING": "reasoning",
    "TOOL": "tool",
    "STATE": "state",
    "MESSAGES": "state",
    "ACTIVITY": "state",
    "SUBAGENT": "subagent",
    "RUN": "run",
    "STEP": "run",
}
NAMED = (
    *("delta", "toolCallName", "stepName", "message", "content"),
    *("name", "snapshot", "patch", "messageId", "toolCallId"),
)
"""The members of events that say most, the first of them first; the page of the inspector has the same."""
_LONGEST = 200


@dataclass(slots=True)
class RowSummary:
    """One line of a recording, or the deltas of one text that follow each other."""

    at: float
    """Seconds since the recording began."""
    until: float
    """The same of the last delta."""
    name: str
    """The type of the event, or the kind of the line."""
    summary: str
    """The content in a line, of deltas the text."""
    family: Family
    """The kind of row, which has a colour."""
    lane: int | None
    """The number of the agent's line in the timeline; None for none."""
    is_event: bool = False
    """Whether it is an event of the agent, and no line about the request or a tool here."""
    pieces: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """The deltas, each with its time; empty for other rows."""
    stream: str | None = None
    """The name of the text that the deltas belong to."""


@dataclass(slots=True)
class RequestSummary(RunStory):
    """A request with everything that belongs to its response."""

    agent: str = ""
    """The name or the address of the agent."""
    call: str = ""
    """The key of the call of a verb that it belongs to."""
    at: float = 0.0
    """Seconds from the beginning of the recording to the request."""
    until: float = 0.0
    """The same to the last row."""
    rows: list[RowSummary] = field(default_factory=list[RowSummary])
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The input, without the ids that are made anew each time."""
    messages: Sequence[Message] = ()
    """The messages at the end."""
    known_ids: frozenset[str] = frozenset()
    """The ids of the messages that the request brought."""
    state: Any = None
    """The state at the end."""
    changes: list[tuple[float, str, Any, Any]] = field(default_factory=list[tuple[float, str, Any, Any]])
    """The changes of the state: seconds, place, and the values before and after, which may be `ABSENT`."""
    calls: list[ToolCallStory] = field(default_factory=list[ToolCallStory])
    """The tool calls."""
    interrupts: Sequence[Interrupt] = ()
    """The interrupts that the run ended with."""
    usage: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The tokens, as JSON of `TokenUsage`, each with its `cost` if that is known."""
    posts: list[str] = field(default_factory=list[str])
    """The attempts to post the request, a sentence each."""
    problems: list[str] = field(default_factory=list[str])
    """Warnings and errors, a sentence each."""


@dataclass(slots=True)
class RecordingSummary:
    """A recording, or what is known of a call without one."""

    title: str
    requests: list[RequestSummary]
    lanes: list[str] = field(default_factory=list[str])
    """The names of the agents and subagents, by the numbers of their lanes."""
    has_events: bool = True
    """Whether the events were recorded."""
    speakers: Speakers = field(default_factory=Speakers)
    """The names of subagents."""

    @property
    def usage(self) -> list[dict[str, Any]]:
        """The tokens of all requests."""
        return [each for request in self.requests for each in request.usage]

    @property
    def seconds(self) -> float:
        """The time from the first request to the last row."""
        return max(each.until for each in self.requests) - self.requests[0].at if self.requests else 0.0

    @property
    def people(self) -> float:
        """The part of the time in which people were asked, by the calls that no other one is around."""
        return sum(each.people for each in self.requests)


def summary_of(recording: Recording, prices: Prices | None = None) -> RecordingSummary:
    """Sum up a recording.

    Args:
        prices: The prices of tokens; None for none.
    """
    inspection = Inspection(prices)
    found: dict[str, RequestSummary] = {}
    exchanges = {each.request.request: each for each in recording.exchanges}
    lanes: list[str] = []
    early: list[RowSummary] = []
    for line in recording.lines:
        key = "" if isinstance(line, HeaderLine) else line.request or ""
        before = inspection.responses[key].changes.state if key in found else ABSENT
        row = inspection.row(line)
        lanes += [str(lane["name"]) for lane in row.get("lanes", ())]
        if isinstance(line, HeaderLine):
            continue
        if line.kind == "request" and key in exchanges:
            known = frozenset(each.id for each in inspection.responses[key].changes.messages)
            found[key] = RequestSummary(
                agent=line.agent.shown, call=line.call, at=row["t"], known_ids=known, ending="no end"
            )
        if (request := found.get(key)) is None:
            # A tool that the call approved is executed before the first request.
            early.append(_row(row, line))
            continue
        request.rows += early
        early.clear()
        _add(request, row, line, before, inspection.responses[key].changes.state)
    for key, request in found.items():
        _complete(request, exchanges[key], inspection.responses[key])
    return RecordingSummary(recording.path.name, [*found.values()], lanes, speakers=inspection.speakers)


def by_calls(recording: RecordingSummary) -> RecordingSummary:
    """Return a recording in which all requests of a call are one, as tools here are executed between two of them."""
    calls: dict[str, list[RequestSummary]] = {}
    for each in recording.requests:
        calls.setdefault(each.call, []).append(each)
    return replace(recording, requests=[_joined(each) for each in calls.values()])


def _joined(requests: Sequence[RequestSummary]) -> RequestSummary:
    """Return one request, asked as the first of some, and answered by all of them."""
    lists = ("rows", "changes", "calls", "answered", "usage", "posts", "problems")
    last, people = requests[-1], sum(each.people for each in requests)
    ends = {name: getattr(last, name) for name in ("until", "ending", "result", "interrupts", "messages", "state")}
    whole = replace(requests[0], people=people, **ends)
    for name in lists:
        setattr(whole, name, [part for each in requests for part in getattr(each, name)])
    return whole


def _add(request: RequestSummary, row: dict[str, Any], line: Line, before: Any, after: Any) -> None:
    """Add a row to its request; the state was one thing before it, and may be another after it."""
    shown = _row(row, line)
    last = next((each for each in reversed(request.rows) if each.lane == shown.lane), None)
    if shown.stream is not None and last is not None and last.stream == shown.stream:
        last.pieces += shown.pieces
        last.until = shown.at
        last.summary = cut_short(last.summary + shown.pieces[0][1], _LONGEST)
        last.family = "bad" if shown.family == "bad" else last.family
    else:
        request.rows.append(shown)
    request.until = max(request.until, shown.at)
    request.usage += row.get("u", ())
    request.problems += [
        f"{rule}: {message}{f' at {path}' if path else ''}" for rule, message, path in row.get("w", ())
    ]
    if "e" in row:
        request.problems.append(f"a client stops here: {row['e']}")
    if before is not ABSENT and before is not after:
        request.changes += [(shown.at, *each) for each in changed_places(before, after)]


def _row(row: dict[str, Any], line: Line) -> RowSummary:
    event: dict[str, Any] = line.event if line.kind == "event" else {}
    name = str(event.get("type", "(no type)")) if line.kind == "event" else line.kind
    family: Family = "tool" if line.kind == "tool" else "frame"
    if line.kind == "event":
        family = "waiting" if "q" in row else _FAMILIES.get(name.partition("_")[0], "other")
    error = getattr(line, "error", None)
    if "e" in row or error is not None or name in ("RUN_ERROR", "SUBAGENT_ERROR"):
        family = "bad"
    is_event = line.kind == "event"
    shown = RowSummary(row["t"], row["t"], name, _summary(row, line, event), family, row.get("l"), is_event)
    delta = event.get("delta")
    if isinstance(delta, str):
        # A start between two deltas begins another text with the same id, and ends this row.
        shown.stream = f"{name} {event.get('messageId') or event.get('toolCallId')}"
        shown.pieces = [(row["t"], delta)]
    return shown


def _summary(row: dict[str, Any], line: Line, event: dict[str, Any]) -> str:
    """Describe a line of a recording in a line."""
    match line:
        case ResponseLine():
            return " ".join(filter(None, [str(line.status or ""), line.error, line.address]))
        case ToolLine():
            return " ".join([row["a"]["name"], row["a"]["facts"], row["a"].get("result", "")]).rstrip()
        case EndingPart():
            return line.text
        case HeaderLine():
            return line.package
        case _ if line.kind == "request":
            messages: object = line.input.get("messages")
            return f"{line.verb}, messages: {len(messages) if is_array(messages) else 0}"
        case EndLine():
            return _end_text(line)
        case _:
            rest = {name: value for name, value in event.items() if name not in ("type", "subagentRunId", "metadata")}
            value = next((rest[name] for name in NAMED if name in rest), rest or None)
            return cut_short("" if value is None else as_text(value), _LONGEST)


def _end_text(line: EndLine) -> str:
    return line.reason if line.error is None else f"{line.reason}: {line.error.type}"


def _complete(request: RequestSummary, exchange: Exchange, response: InspectedResponse) -> None:
    """Add what is known of a request when its response is over."""
    changes, request.calls, request.answered = response.changes, response.calls, response.answered
    request.interrupts = changes.outcome.interrupts
    request.messages, request.state, request.result = changes.messages, changes.state, changes.result
    request.asked = question(exchange.request.input)
    request.posts = [
        f"{each.status or 'no response'} from {each.address} after {each.seconds:.3f} s"
        + (f": {each.error}" if each.error else "")
        for each in exchange.responses
    ]
    if (outcome := exchange.outcome) is not None:
        request.ending = outcome.sentence
        # Warnings about a whole call, which belong to no event.
        known = " ".join(request.problems)
        request.problems += [f"{each.rule}: {each.message}" for each in outcome.warnings if each.message not in known]
    elif exchange.end is not None:
        request.ending = _end_text(exchange.end)
    if exchange.call_end is not None:
        # The last request of its call, which may have been stopped after the run.
        request.ending = exchange.call_end.sentence
        if exchange.request.parent is None:
            request.people = exchange.call_end.timings.get("people") or 0.0
