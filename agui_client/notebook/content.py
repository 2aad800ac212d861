"""Documents about agents, results, conversations, warnings and tool executions, as elements of a display.

`encryptedValue`s and addresses are left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    CustomEvent,
    Message,
    ReasoningMessage,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic_core import to_jsonable_python

from agui_client._conversation.snapshot import ConversationSnapshot
from agui_client._protocol.message_text import content_text
from agui_client._protocol.warnings import ProtocolWarning
from agui_client._run.inspected_run import InspectedRun
from agui_client._run.result import RunResult, Snapshot
from agui_client._run.subagents import SubagentResult
from agui_client._secrets import hidden_json
from agui_client._tools.context import ToolExecution
from agui_client._widgets.drawing import Drawing, Drawings
from agui_client._widgets.views import MOST_VALUES, ShownCustom, find_view, is_unfinished, shown_call
from agui_client.agent import AbstractAgent
from agui_client.batch.results import RowResult
from agui_client.errors import UsageError
from agui_client.notebook.elements import Bubble, Code, Element, Fold, Given, Line, Tree, as_json, bundle

if TYPE_CHECKING:
    from ag_ui.core import Interrupt


_MOST_MESSAGES = 100
_MOST_CUSTOM = 20
"""The number of values of custom events of a name that are shown without a view."""
_MESSAGES: tuple[type, ...] = get_args(get_args(Message)[0])


def bundle_of(shown: object) -> dict[str, str]:
    """Write an object as the content of a cell's output, by MIME type.

    Raises:
        UsageError: There is no display of such an object.
    """
    return bundle(elements_of(shown))


@singledispatch
def elements_of(shown: object) -> list[Element]:
    """Describe an object by elements.

    Raises:
        UsageError: There is no display of such an object.
    """
    if type(shown).__module__.startswith("agui_client.batch.") and type(shown) not in elements_of.registry:
        import_module("agui_client.notebook.batch_tables")  # which registers what it describes
        return elements_of(shown)
    if isinstance(shown, InspectedRun) and type(shown) not in elements_of.registry:
        import_module("agui_client.notebook.recording_elements")
        return elements_of(shown)
    known = "a run, a result, an agent, messages, warnings, subagents, tool executions, batches or their rows"
    raise UsageError(f"show() takes {known}, not {type(shown).__name__}")


@elements_of.register(list)
@elements_of.register(tuple)
def _(shown: Sequence[Any]) -> list[Element]:
    if all(isinstance(each, _MESSAGES) for each in shown):
        return conversation(shown)
    if all(isinstance(each, RowResult) for each in shown):
        table: list[Element] = import_module("agui_client.notebook.batch_tables").table_of_rows(shown)
        return table
    return [element for each in shown for element in elements_of(each)]


def _message_alone(shown: Message) -> list[Element]:
    return conversation([shown])


for _kind in _MESSAGES:
    elements_of.register(_kind, _message_alone)


@elements_of.register
def of_result(shown: RunResult) -> list[Element]:
    """Describe the chat of a call, and how it ended."""
    new = {message.id for message in shown.new_messages}
    messages = of_this_call(shown.messages, new.__contains__)
    names = names_of(shown.subagents)
    elements = conversation(messages, shown.tool_executions, names=names)
    if shown.subagents:
        lines = [_subagent(each, names[each.subagent_run_id]) for each in shown.subagents]
        elements.append(Fold(_count(len(lines), "subagent"), lines))
    waiting = waiting_lines(shown.interrupts, shown.pending_tool_calls)
    elements += [*custom_events(shown.custom), *waiting, *state_fold(shown.state)]
    if shown.warnings:
        warnings = [element for each in shown.warnings for element in elements_of(each)]
        elements.append(Fold(_count(len(warnings), "warning"), warnings, "bad"))
    return [*elements, ending_line(shown)]


@elements_of.register
def _(shown: SubagentResult) -> list[Element]:
    return [*([Bubble("agent", shown.name, shown.text)] if shown.text else []), _subagent(shown, shown.name)]


@elements_of.register
def _(shown: AbstractAgent) -> list[Element]:
    name = f" {shown.name}" if shown.name else ""
    head = Line(f"{type(shown).__name__}{name} · thread {shown.thread_id} · {_count(len(shown.messages), 'message')}")
    waiting = waiting_lines(shown.pending_interrupts, shown.pending_tool_calls)
    return [head, *conversation(shown.messages), *waiting, *state_fold(shown.state)]


@elements_of.register
def _(shown: ConversationSnapshot) -> list[Element]:
    head = Line(f"conversation · thread {shown.thread_id} · {_count(len(shown.messages), 'message')}")
    waiting = waiting_lines(shown.pending_interrupts)
    return [head, *conversation(shown.messages), *waiting, *state_fold(shown.state)]


@elements_of.register
def _(shown: Snapshot) -> list[Element]:
    return [Line(f"after {shown.event.type.value}"), *conversation(shown.messages), *state_fold(shown.state)]


@elements_of.register
def _(shown: ProtocolWarning) -> list[Element]:
    times = f" · {shown.count} times" if shown.count > 1 else ""
    place = f" · at {shown.path}" if shown.path is not None else ""
    event = f" · event {shown.event_index}" if shown.event_index is not None else ""
    kind = f" {shown.event_type}" if shown.event_type is not None else ""
    return [Line(f"{shown.rule}: {shown.message}{event}{kind}{place}{times}", "bad")]


@elements_of.register
def _(shown: ToolExecution) -> list[Element]:
    return [_call(shown.name, dict(shown.arguments), shown.message, shown)]


def conversation(
    messages: Sequence[Message],
    executions: Iterable[ToolExecution] = (),
    drawings: Drawings | None = None,
    names: Mapping[str, str] | None = None,
    *,
    is_live: bool = False,
) -> list[Element]:
    """Describe messages; the result of a tool call stands with the call.

    Args:
        messages: The messages; of very many only the latest are described.
        executions: Executions of the calls in them.
        drawings: What views drew of them before.
        names: The names of subagents by the ids of their invocations.
        is_live: Whether the run goes on: then the latest thought is unfolded, and arguments may still arrive.
    """
    drawings, names = drawings or Drawings(), names or {}
    results = _results(messages)
    by_call = {each.tool_call_id: each for each in executions}
    left_out = max(0, len(messages) - _MOST_MESSAGES)
    elements: list[Element] = [Line(f"{_count(left_out, 'earlier message')}")] if left_out else []
    called: set[str] = set()
    for message in messages:
        calls = (message.tool_calls or []) if isinstance(message, AssistantMessage) else []
        called.update(call.id for call in calls)
    for message in messages[left_out:]:
        owner = _owner(message, names)
        if not isinstance(message, ToolMessage) or message.tool_call_id not in called:
            is_thought = is_live and message is messages[-1]
            elements += _message(message, owner, drawings, is_thought)
        for call in (message.tool_calls or []) if isinstance(message, AssistantMessage) else []:
            result = results.get((message.id, call.id))
            execution = by_call.get(call.id)
            is_arriving = is_live and result is None and execution is None and is_unfinished(call.function.arguments)
            if is_arriving and find_view(("tool", call.function.name)) is None:
                elements.append(_arriving(call, owner))
            else:
                elements.append(_tool_call(call, result, execution, owner, drawings))
    return elements


def _results(messages: Iterable[Message]) -> dict[tuple[str, str], ToolMessage]:
    """Return the results of calls by the ids of their messages and their own, which may come again."""
    places, results = dict[str, str](), dict[tuple[str, str], ToolMessage]()
    for message in messages:
        if isinstance(message, AssistantMessage):
            places |= {call.id: message.id for call in message.tool_calls or ()}
        elif isinstance(message, ToolMessage) and message.tool_call_id in places:
            results[places[message.tool_call_id], message.tool_call_id] = message
    return results


def custom_events(events: Iterable[CustomEvent], drawings: Drawings | None = None) -> list[Element]:
    """Describe custom events: those of one name by their view, and the others as a list of values.

    Args:
        events: The events; of very many of a name only the latest are described.
        drawings: What views drew of them before.
    """
    by_name = dict[str, deque[Any]]()
    for event in events:
        by_name.setdefault(event.name, deque(maxlen=MOST_VALUES)).append(event.value)
    drawings = drawings or Drawings()
    return [_custom(name, tuple(values), drawings) for name, values in by_name.items()]


def _custom(name: str, values: tuple[Any, ...], drawings: Drawings) -> Element:
    """Describe the custom events of one name."""
    if find_view(("custom", name)) is not None:
        drawing = drawings.of(("custom", name), "", ShownCustom(name, values[-1], values))
        if drawing is not None:
            return Fold(name, [_drawn(drawing)], is_open=True)
    times = f" · {len(values)} times" if len(values) > 1 else ""
    plain = hidden_json(to_jsonable_python(values[-_MOST_CUSTOM:], by_alias=True, fallback=repr))
    return Fold(f"custom {name}{times}", [Tree(plain[0] if len(values) == 1 else plain)])


def _tool_call(
    call: ToolCall, result: ToolMessage | None, execution: ToolExecution | None, owner: str, drawings: Drawings
) -> Element:
    """Describe a tool call, with its result and its execution as far as there are any."""
    name, arguments = call.function.name, call.function.arguments
    if find_view(("tool", name)) is not None:
        message = result or (execution.message if execution is not None else None)
        text = None if message is None else content_text(message.content, "\n")
        shown = shown_call(call.id, name, arguments, text, execution)
        if (drawing := drawings.of(("tool", name), call.id, shown)) is not None:
            return Fold(f"{owner}{name} → {shown.status}", [_drawn(drawing)], is_open=True)
    return _call(f"{owner}{name}", read_json(arguments), result, execution)


def _arriving(call: ToolCall, owner: str) -> Element:
    """Describe a call whose arguments still arrive."""
    partial = shown_call(call.id, call.function.name, call.function.arguments).partial_arguments
    content: Element = Tree(partial) if isinstance(partial, dict | list) else Code(call.function.arguments)
    return Fold(f"{owner}{call.function.name} …", [content, Line("arguments still arrive")], "unfinished", is_open=True)


def names_of(subagents: Iterable[SubagentResult]) -> dict[str, str]:
    """Return the names of subagents by the ids of their invocations, those inside others with the names around them."""
    names: dict[str, str] = {}
    for each in subagents:
        names[each.subagent_run_id] = nested(names.get(each.parent_subagent_run_id or ""), each.name)
    return names


def nested(outer: str | None, name: str) -> str:
    """Return the name of a subagent with that of the one around it."""
    return f"{outer} > {name}" if outer else name


def _owner(message: Message, names: Mapping[str, str]) -> str:
    """Return the beginning of a line about the message of a subagent; empty if it is of the agent itself."""
    owner: str | None = getattr(message, "subagent_run_id", None)
    return "" if owner is None else f"{names.get(owner, 'subagent')}: "


def _subagent(shown: SubagentResult, name: str) -> Line:
    took = [] if shown.seconds is None else [seconds_text(shown.seconds)]
    failure = [shown.error] if shown.error else []
    line = " · ".join([name, shown.status, *took, *map(_usage_text, shown.usage), *failure])
    return Line(line, "bad" if shown.status in ("error", "abandoned") else "dim")


def of_this_call(messages: Sequence[Message], is_new: Callable[[str], bool]) -> list[Message]:
    """Return the new messages, and what the user wrote right before them."""
    first = next((place for place, each in enumerate(messages) if is_new(each.id)), len(messages))
    while first and isinstance(messages[first - 1], UserMessage):
        first -= 1
    return list(messages[first:])


def state_fold(state: Any) -> list[Element]:
    """Describe the state; an empty one is left out."""
    return [Fold("state", [Tree(state)])] if state not in (None, {}, []) else []


def ending_line(result: RunResult) -> Line:
    """Describe how a call ended, and what it cost."""
    ending = result.outcome.type if result.outcome else "aborted" if result.aborted else "no outcome"
    moments = {"first text": result.timings.first_text, "total": result.timings.total}
    times = [f"{name} {seconds_text(value)}" for name, value in moments.items() if value is not None]
    return Line(" · ".join([ending, *times, *map(_usage_text, result.usage)]))


def _usage_text(usage: TokenUsage) -> str:
    """Write the tokens of one model; a count that was not reported is "?" (USAGE-1)."""
    counts = ["?" if each is None else str(each) for each in (usage.input_tokens, usage.output_tokens)]
    return f"{usage.model or usage.provider or 'unnamed model'}: {counts[0]} tokens in, {counts[1]} out"


def seconds_text(value: float) -> str:
    """Write a duration: milliseconds below a second."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def read_json(text: str) -> Any:
    """Read JSON; return a text that is none as it is."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def waiting_lines(interrupts: Sequence[Interrupt], calls: Sequence[ToolCall] = ()) -> list[Line]:
    """Describe what waits for the application: an answer, or the result of a call."""
    asked = [Line(f"waits for an answer: {each.message or each.reason} ({each.id})", "bad") for each in interrupts]
    return [*asked, *(Line(f"waits for the result of {call.function.name}", "bad") for call in calls)]


def _message(message: Message, owner: str, drawings: Drawings, is_thought: bool) -> list[Element]:
    match message:
        case ReasoningMessage():
            summary = f"{owner}thought: {beginning(message.content)}"
            return [Fold(summary, [Bubble("system", "reasoning", message.content)], is_open=is_thought)]
        case ActivityMessage():
            drawing = drawings.of(("activity", message.activity_type), message.id, message)
            content = Tree(message.content) if drawing is None else _drawn(drawing)
            return [Fold(f"{owner}activity {message.activity_type}", [content], is_open=drawing is not None)]
        case UserMessage():
            return [Bubble("user", message.name or "user", content_text(message.content, "\n"))]
        case AssistantMessage():
            author = message.name or owner.removesuffix(": ") or "agent"
            return [Bubble("agent", author, message.content)] if message.content else []
        case ToolMessage():
            return [Fold(f"result of {message.tool_call_id}", [_value(content_text(message.content, "\n"))])]
        case _:
            return [
                Fold(f"{message.role} message", [Bubble("system", message.role, content_text(message.content, "\n"))])
            ]


def _call(name: str, arguments: Any, result: ToolMessage | None, execution: ToolExecution | None) -> Element:
    result = result or (execution.message if execution is not None else None)
    status = execution.status if execution is not None else _status(result)
    took = f" in {seconds_text(execution.seconds)}" if execution is not None and execution.seconds is not None else ""
    content: list[Element] = [Tree(arguments) if isinstance(arguments, dict | list) else Code(str(arguments))]
    if execution is not None and execution.progress:
        content.append(Line(f"progress: {execution.progress[-1]}"))
    if result is not None:
        content += [Line("result"), _value(content_text(result.content, "\n"))]
        content += [Line(result.error, "bad")] if result.error else []
    shown = arguments if isinstance(arguments, str) else as_json(arguments, indent=None)
    good = status in ("succeeded", "answered")
    return Fold(f"{name} {beginning(shown)} → {status}{took}", content, "good" if good else "bad")


def _drawn(drawing: Drawing) -> Element:
    """Return what a view drew, as an element."""
    return Code(drawing.text) if drawing.html is None else Given(drawing.html, drawing.text)


def _status(result: ToolMessage | None) -> str:
    return "no result" if result is None else "failed" if result.error else "answered"


def _value(text: str) -> Element:
    value = read_json(text)
    return Tree(value) if isinstance(value, dict | list) and value else Code(text)


def beginning(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[:200].split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
