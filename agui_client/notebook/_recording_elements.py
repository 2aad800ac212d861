"""The displays of `result.inspect()` and `agui inspect A B`: a recording as elements, and two beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import Message
from pydantic import TypeAdapter

from agui_client._core.ground.prices import Prices
from agui_client._core.protocol.message_text import content_text
from agui_client._core.run.result import InspectedRun
from agui_client._core.tools.context import ToolExecution
from agui_client._rendering.story import (
    RunStory,
    Speakers,
    ToolCallStory,
    calls_in,
    counted,
    placed,
    read_json,
    seconds_text,
    time_text,
)
from agui_client.a2ui import Surfaces
from agui_client.errors import UsageError
from agui_client.inspector import inspector_page
from agui_client.inspector._prices import with_cost
from agui_client.inspector._summary import RecordingSummary, RequestSummary, RowSummary, by_calls, summary_of
from agui_client.notebook._content import beginning, conversation, elements_of, of_this_call, waiting_lines
from agui_client.notebook._elements import ChatMessage, Code, Details, Element, Line, Table, Tree, page
from agui_client.notebook._saving import document
from agui_client.notebook._timeline import Moment, Moments, Stretch, Timeline, Wide
from agui_client.recording import Recording
from agui_client.recording._matching import ABSENT, changed_places

if TYPE_CHECKING:
    from agui_client._core.run.result import RunResult

Pair: TypeAlias = tuple[RequestSummary | None, RequestSummary | None]

_NOTHING = "\u2013"
_MOST_ROWS = 400
_MOST_PIECES = 300
_MOST_CHANGES = 200
_NO_EVENTS = (
    "The events of this call were not kept, so there is no timeline. They are kept in notebooks, and elsewhere by "
    'agent.use(record("run.jsonl")).'
)
_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
_EXECUTIONS: TypeAdapter[list[ToolExecution]] = TypeAdapter(list[ToolExecution])
_PAGE_STYLE = (
    "body{margin:0;background:#fff;color-scheme:light dark}@media (prefers-color-scheme:dark){body{background:#0d1117}}"
    ".agui.agui{max-width:1280px;margin:0 auto;padding:12px 16px}"
)


@elements_of.register
def _(shown: InspectedRun) -> list[Element]:
    one = of_call(shown.result, "A" if shown.other else "", shown.prices)
    if shown.other is None:
        return of_recording(one, shown.prices)
    return of_two(one, of_call(shown.other, "B", shown.prices), shown.prices)


def of_call(result: RunResult[Any], title: str, prices: Prices | None) -> RecordingSummary:
    """Sum up a call: from its events if they were kept, and else from its result.

    Args:
        title: The name of the call in a comparison.
        prices: The prices of tokens.
    """
    if lines := result.kept_lines:
        return summary_of(Recording(Path(title), lines), prices)
    # A recording has secrets redacted line by line; nothing of this was recorded.
    plain: dict[str, Any] = result.hide_secrets(json.loads(result.to_json()))
    messages, new = _MESSAGES.validate_python(plain["messages"]), {each.id for each in result.new_messages}
    usage = [{name: value for name, value in each.items() if value is not None} for each in plain["usage"]]
    story, speakers = RunStory.from_result(result), Speakers(result.subagents)
    executions = _EXECUTIONS.validate_python(plain["tool_executions"])
    request = RequestSummary(
        **{each.name: getattr(story, each.name) for each in fields(RunStory)},
        until=result.timings.total or 0.0,
        messages=messages,
        interrupts=result.interrupts,
        known_ids=frozenset(each.id for each in messages if each.id not in new),
        state=plain["state"],
        calls=[
            *calls_in([each for each in messages if each.id in new], executions, result.answered, speakers).values()
        ],
        usage=[with_cost(each, prices) for each in usage],
        posts=[f"{each['status_code'] or each['error']} from {each['address']}" for each in plain["attempts"]],
        problems=[f"{each['rule']}: {each['message']}" for each in plain["warnings"]],
    )
    return RecordingSummary(title, [request], has_events=False, speakers=speakers)


def of_recording(shown: RecordingSummary, prices: Prices | None) -> list[Element]:
    """Describe a recording.

    Args:
        shown: The recording.
        prices: The prices that its tokens have.
    """
    requests = shown.requests
    if not requests:
        return [Line("no requests", "bad")]
    elements: list[Element] = [Line(_head(shown), "bad" if any(each.problems for each in requests) else "dim")]
    if shown.has_events:
        rows = [row for request in requests for row in request.rows]
        elements += [
            _timeline([("", shown)]),
            Details(f"events, in {len(rows)} rows", [_moments(rows, requests[0].at)], is_open=True),
        ]
    else:
        elements.append(Line(_NO_EVENTS))
    elements.append(Details("messages", _chat(requests, shown.speakers), is_open=True))
    elements += [Line(each) for request in requests for each in request.lines]
    elements += waiting_lines(requests[-1].interrupts, speakers=shown.speakers)
    changes = [
        [Line(f"{at - requests[0].at:.3f} s"), Line(path or "(all)"), _value(before), _value(after)]
        for request in requests
        for at, path, before, after in request.changes
    ]
    if changes:
        table = Table(["time", "place", "before", "after"], changes[-_MOST_CHANGES:])
        elements.append(Details(f"changes of the state: {len(changes)}", [table]))
    elements.append(Details("state at the end", [Tree(requests[-1].state)]))
    calls = [call for request in requests for call in request.calls]
    if calls:
        elements.append(Details(f"tool calls: {len(calls)}", [_call_table(calls)]))
    if shown.usage:
        elements.append(Details(f"tokens: {_tokens(shown.usage)}", _token_table(requests, prices)))
    elements.append(Details(f"requests: {len(requests)}", _request_lines(requests)))
    problems = [Line(each, "bad") for request in requests for each in request.problems]
    if problems:
        elements.append(Details(f"warnings and errors: {len(problems)}", problems, "bad", is_open=True))
    return elements


def of_two(one: RecordingSummary, other: RecordingSummary, prices: Prices | None) -> list[Element]:
    """Describe two recordings side by side, and their differences.

    Args:
        one: The first recording.
        other: The second.
        prices: The prices that their tokens have.
    """
    elements: list[Element] = [
        Line(f"{name}: {_named(each)}{_head(each)}") for name, each in (("A", one), ("B", other))
    ]
    one, other = by_calls(one), by_calls(other)
    pairs: list[Pair] = list(zip_longest(one.requests, other.requests))
    if one.has_events or other.has_events:
        elements.append(_timeline([("A", one), ("B", other)]))
    else:
        elements.append(Line(_NO_EVENTS))
    for number, pair in enumerate(pairs, 1):
        elements.append(_pair(number, pair, (one if pair[1] is None else other).speakers))
    if one.usage or other.usage:
        both = [
            Line(f"{name}: {_tokens(each.usage) if each.usage else 'no tokens were reported'}")
            for name, each in (("A", one), ("B", other))
        ]
        elements.append(Details("tokens", [*both, *_price_note(prices, [*one.usage, *other.usage])], is_open=True))
    return elements


def page_of_run(shown: InspectedRun) -> bytes:
    """Write the view of a call as a page; see `InspectedRun.save`.

    Raises:
        UsageError: The events of a call were not kept.
    """
    results = [shown.result] if shown.other is None else [shown.result, shown.other]
    recordings = [Recording(Path(name), each.kept_lines) for name, each in zip("AB", results, strict=False)]
    if not all(each.lines for each in recordings):
        raise UsageError(_NO_EVENTS)
    if shown.other is None:
        recordings[0].path = Path(f"run {shown.result.run_id}".replace("/", " "))
        return inspector_page(recordings[0], prices=shown.prices)
    return comparison_page(*recordings, prices=shown.prices)


def comparison_page(one: Recording, other: Recording, *, prices: Prices | None) -> bytes:
    """Write two recordings side by side as an HTML page that runs no script and loads nothing.

    Args:
        one: The first recording.
        other: The second.
        prices: The prices of tokens.
    """
    body = page(of_two(summary_of(one, prices), summary_of(other, prices), prices))
    # Behind the style of the elements, whose rules it replaces.
    return document("Two runs: AG-UI inspector", f"{body}<style>{_PAGE_STYLE}</style>")


def _head(shown: RecordingSummary) -> str:
    requests = shown.requests
    events = sum(max(1, len(row.pieces)) for each in requests for row in each.rows if row.is_event)
    facts = [requests[-1].ending if requests else "no requests", counted(len(requests), "request")]
    facts += [counted(events, "event")] if shown.has_events else []
    facts += [time_text(shown.seconds, shown.people), *([_tokens(shown.usage)] if shown.usage else [])]
    problems = sum(len(each.problems) for each in requests)
    return " · ".join([*facts, *([counted(problems, "warning")] if problems else [])])


def _named(shown: RecordingSummary) -> str:
    return f"{shown.title} · " if shown.title not in ("A", "B", "") else ""


# --- time


def _timeline(shown: Sequence[tuple[str, RecordingSummary]]) -> Timeline:
    """Draw recordings over each other; each call begins where that of the others with its number begins."""
    starts = [0.0]
    for each in zip_longest(*(recording.requests for _, recording in shown)):
        starts.append(starts[-1] + max(request.until - request.at for request in each if request is not None))
    lanes: list[tuple[str, list[Stretch]]] = []
    for name, recording in shown:
        # Alone, the pauses between requests are shown, too.
        begins = starts if len(shown) > 1 else [each.at - recording.requests[0].at for each in recording.requests]
        own: dict[int, list[Stretch]] = {number: [] for number in range(len(recording.lanes))}
        for begin, request in zip(begins, recording.requests, strict=False):
            for row in request.rows:
                if row.lane is not None:
                    stretch = Stretch(begin + row.at - request.at, begin + row.until - request.at, row.family)
                    own[row.lane].append(stretch)
        names = [f"{name} {label}".strip() for label in recording.lanes]
        lanes += [(label, sorted(own[number], key=lambda each: each.start)) for number, label in enumerate(names)]
    length = starts[-1] if len(shown) > 1 else max(shown[0][1].seconds, 0.0)
    return Timeline(lanes, length)


def _moments(rows: Sequence[RowSummary], begin: float) -> Moments:
    left_out = len(rows) - _MOST_ROWS
    earlier = [Moment("", f"{left_out} earlier rows", "", "frame")] if left_out > 0 else []
    return Moments([*earlier, *(_moment(row, begin) for row in rows[-_MOST_ROWS:])])


def _moment(row: RowSummary, begin: float) -> Moment:
    pieces = [f"{at - begin:.3f}  {text}" for at, text in row.pieces[:_MOST_PIECES]]
    if len(row.pieces) < 2:
        return Moment(f"{row.at - begin:.3f}", row.name, row.summary, row.family)
    more = [f"… {len(row.pieces) - _MOST_PIECES} more"] if len(row.pieces) > _MOST_PIECES else []
    name = f"{row.name} \u00d7{len(row.pieces)} in {seconds_text(row.until - row.at)}"
    return Moment(f"{row.at - begin:.3f}", name, row.summary, row.family, "\n".join([*pieces, *more]))


# --- messages, tools, tokens


def _chat(requests: Sequence[RequestSummary], speakers: Speakers) -> list[Element]:
    """Describe the messages of requests, each once and as it was at the end, with the prompts before them."""
    merged = {message.id: message for request in requests for message in request.messages}
    known, calls = requests[0].known_ids, [call for request in requests for call in request.calls]
    messages = of_this_call([*merged.values()], lambda message_id: message_id not in known)
    chat = conversation(messages, placed(messages, calls), speakers=speakers)
    return [*chat, *elements_of(Surfaces([*merged.values()]))]


def _call_table(calls: Sequence[ToolCallStory]) -> Table:
    lines: list[list[Element]] = []
    for call in calls:
        result = Line("") if call.result is None else _text(call.result)
        name = f"{call.author}: {call.name}" if call.author else call.name
        lines.append([Line(name), _text(call.arguments), result, Line(call.facts)])
    return Table(["tool", "arguments", "result", "status"], lines)


def _text(text: str) -> Element:
    """Describe a text that may be JSON: a short one as it is."""
    if len(text) <= 80 and "\n" not in text:
        return Code(text)
    value = read_json(text)
    return Details(beginning(text), [Tree(value) if isinstance(value, dict | list) else Code(text)])


def _value(value: Any) -> Element:
    return Line(_NOTHING) if value is ABSENT else _text(json.dumps(value, ensure_ascii=False))


def _token_table(requests: Sequence[RequestSummary], prices: Prices | None) -> list[Element]:
    lines: list[list[Element]] = []
    for number, request in enumerate(requests, 1):
        for usage in request.usage:
            counts = [Line(str(usage.get(name, "?"))) for name in ("inputTokens", "outputTokens", "totalTokens")]
            lines.append([Line(str(number)), Line(_model(usage)), *counts, Line(_money(usage.get("cost")))])
    everything = [usage for request in requests for usage in request.usage]
    return [Table(["request", "model", "in", "out", "total", "money"], lines), *_price_note(prices, everything)]


def _price_note(prices: Prices | None, usage: Sequence[Mapping[str, Any]]) -> list[Element]:
    if prices is None:
        return [Line("there is no money without prices: give prices= or --price")]
    given = "; ".join(f"{model} {first:g} in, {second:g} out" for model, (first, second) in prices.items())
    missing = sorted({_model(each) for each in usage if "cost" not in each})
    own = f"with the prices that you gave, per million tokens: {given}; else " if given else ""
    lines: list[Element] = [Line(f"money: {own}with those of genai-prices, if it is installed")]
    return [*lines, *([Line(f"without a price or a number of tokens: {', '.join(missing)}", "bad")] if missing else [])]


def _model(usage: Mapping[str, Any]) -> str:
    return str(usage.get("model") or usage.get("provider") or "unnamed model")


def _tokens(usage: Sequence[Mapping[str, Any]]) -> str:
    sums = [
        [each[name] for each in usage if each.get(name) is not None] for name in ("inputTokens", "outputTokens", "cost")
    ]
    counts = [str(sum(each)) if each else "?" for each in sums[:2]]
    money = f" · {_money(sum(sums[2]))}" if sums[2] else ""
    return f"{counts[0]} tokens in, {counts[1]} out{money}"


def _money(cost: float | None) -> str:
    if cost is None:
        return _NOTHING
    return f"{cost:.2f}" if cost >= 1 else f"{Decimal(f'{cost:.2g}'):f}"


def _request_lines(requests: Sequence[RequestSummary]) -> list[Element]:
    lines: list[Element] = []
    for number, each in enumerate(requests, 1):
        took = seconds_text(each.until - each.at)
        lines += [Line(f"{number} {each.agent} · {each.ending} · {took}"), *(Line(f"  {post}") for post in each.posts)]
    return lines


# --- two recordings


def _pair(number: int, pair: Pair, speakers: Speakers) -> Details:
    one, other = pair
    if one is None or other is None:
        side, only = ("A", one) if other is None else ("B", other)
        return Details(f"call {number}: only in {side}", [] if only is None else _alone(only, speakers), "bad")
    parts: dict[str, list[Element]] = {
        "request": _differing_places(one.asked, other.asked),
        "messages": _message_differences(one, other),
        "state": _differing_places(one.state, other.state),
        "tools": _tool_differences(one, other),
        "ending": [] if _end(one) == _end(other) else [Line(f"A: {_end(one)}"), Line(f"B: {_end(other)}")],
    }
    found = [name for name, elements in parts.items() if elements]
    content: list[Element] = [Details(name, elements, is_open=True) for name, elements in parts.items() if elements]
    if one.rows and other.rows:
        content.append(Details("events", [_event_differences(one, other)]))
    verdict = f"differs in {', '.join(found)}" if found else "the same"
    times = f"{seconds_text(one.until - one.at)} and {seconds_text(other.until - other.at)}"
    return Details(f"call {number}: {verdict} · {times}", content, "bad" if found else "good", is_open=bool(found))


def _end(request: RequestSummary) -> str:
    return " · ".join([request.ending, *RunStory(result=request.result).lines])


def _alone(request: RequestSummary, speakers: Speakers) -> list[Element]:
    return [*_chat([request], speakers), *([_call_table(request.calls)] if request.calls else [])]


def _said(request: RequestSummary) -> list[tuple[str, str]]:
    """Return the texts of an answer, each with its role; calls and their results have a table of their own."""
    new = (each for each in request.messages if each.id not in request.known_ids)
    return [(each.role, text) for each in new if each.role != "tool" and (text := content_text(each.content, "\n"))]


def _message_differences(one: RequestSummary, other: RequestSummary) -> list[Element]:
    """Describe the messages of two answers side by side; none if they are the same."""
    before, after = _said(one), _said(other)
    if before == after:
        return []
    lines: list[list[Element]] = []
    for (_, start, stop, begin, end), is_same in _stretches(before, after):
        for first, second in _by_roles(before[start:stop], after[begin:end]):
            lines.append([Line("" if is_same else "≠", "bad"), *(_bubble(each, is_same) for each in (first, second))])
    return [Wide(["", "A", "B"], lines)]


def _by_roles(
    one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str] | None, tuple[str, str] | None]]:
    """Pair messages with those of the same role, so that an answer stands beside an answer."""
    for (_, start, stop, begin, end), is_same in _stretches([role for role, _ in one], [role for role, _ in other]):
        if is_same:
            yield from zip(one[start:stop], other[begin:end], strict=True)
        else:
            yield from ((each, None) for each in one[start:stop])
            yield from ((None, each) for each in other[begin:end])


def _bubble(said: tuple[str, str] | None, is_same: bool) -> Element:
    if said is None:
        return Line(_NOTHING)
    role, text = said
    return (
        Line(f"{role}: {beginning(text)}")
        if is_same
        else ChatMessage("agent" if role == "assistant" else "system", role, text)
    )


def _differing_places(one: Any, other: Any) -> list[Element]:
    places = changed_places(one, other)
    lines: list[list[Element]] = [
        [Line(path or "(all)"), _value(first), _value(second)] for path, first, second in places
    ]
    return [Table(["place", "A", "B"], lines[:_MOST_CHANGES])] if lines else []


def _tool_differences(one: RequestSummary, other: RequestSummary) -> list[Element]:
    def facts(call: ToolCallStory) -> tuple[str, Any, Any, str]:
        """Return what counts of a call: its id is made anew each time."""
        return call.name, read_json(call.arguments), call.result, call.decided

    if [facts(each) for each in one.calls] == [facts(each) for each in other.calls]:
        return []
    lines: list[list[Element]] = []
    for first, second in zip_longest(one.calls, other.calls):
        is_same = first is not None and second is not None and facts(first) == facts(second)
        lines.append([Line("" if is_same else "≠", "bad"), _call(first), _call(second)])
    return [Wide(["", "A", "B"], lines)]


def _call(call: ToolCallStory | None) -> Element:
    if call is None:
        return Line(_NOTHING)
    decided = f", {call.decided}" if call.decided else ""
    return Code(f"{call.name} {call.arguments}{decided}\n→ {call.status if call.result is None else call.result}")


def _event_differences(one: RequestSummary, other: RequestSummary) -> Element:
    """Describe the rows of two answers, aligned by the types of their events."""
    before, after = one.rows[-_MOST_ROWS:], other.rows[-_MOST_ROWS:]
    lines: list[list[Element]] = []
    for (_, start, stop, begin, end), is_same in _stretches(
        [each.name for each in before], [each.name for each in after]
    ):
        for first, second in zip_longest(before[start:stop], after[begin:end]):
            cells: list[Element] = [
                Line(_NOTHING) if row is None else _moment(row, request.at)
                for row, request in ((first, one), (second, other))
            ]
            lines.append([Line("" if is_same else "≠", "bad"), *cells])
    return Wide(["", "A", "B"], lines)


def _stretches(one: Sequence[Any], other: Sequence[Any]) -> Iterator[tuple[tuple[str, int, int, int, int], bool]]:
    """Yield the stretches in which two sequences are the same, or are not."""
    for stretch in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        yield stretch, stretch[0] == "equal"
