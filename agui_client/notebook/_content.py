"""Documents about agents, results, conversations, warnings and tool executions, as elements of a display.

`encryptedValue`s and addresses are left out.

To change

- the display of an object in notebooks: a function here says of which elements it consists, `notebook/_elements.py`
  writes each element as HTML, Markdown and text, `_rendering/markdown.py` the Markdown of agents as HTML, and
  `notebook/_inert_markdown.py` makes it harmless for pages that draw it themselves; the class gets the base `Displayed`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import singledispatch
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, cast, get_args

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    CustomEvent,
    Message,
    ReasoningMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic_core import to_jsonable_python

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.ground.prices import Prices
from agui_client._core.ground.secrets import hidden_json
from agui_client._core.protocol.message_text import content_text, split_pictures
from agui_client._core.protocol.reduce import OWN_ACTIVITIES
from agui_client._core.protocol.warnings import ProtocolWarning
from agui_client._core.run.result import InspectedRun, RunResult, Snapshot
from agui_client._core.run.subagents import SubagentResult
from agui_client._core.tools.context import ToolExecution
from agui_client._rendering.app_text import app_text
from agui_client._rendering.drawing import Drawing, Drawings
from agui_client._rendering.markdown import words_of
from agui_client._rendering.story import (
    Calls,
    RunStory,
    Speakers,
    ToolCallStory,
    as_json,
    as_text,
    calls_in,
    counted,
    read_json,
    seconds_text,
    time_text,
    usage_text,
    waiting_texts,
)
from agui_client._rendering.views import MOST_VALUES, ShownCustom, find_view, shown_call
from agui_client.a2ui import Surface, Surfaces
from agui_client.a2ui._words import ACTIVITY_TYPE
from agui_client.batch._results import RowResult
from agui_client.errors import UsageError
from agui_client.mcp_apps._app import app_of
from agui_client.notebook._elements import ChatMessage, Code, Details, Element, Image, Line, Tree, TrustedHtml, bundle
from agui_client.notebook._surface_elements import painted, progress_lines

if TYPE_CHECKING:
    from ag_ui.core import Interrupt


_MOST_MESSAGES = 100
_PREVIEWED = 400
_LONGEST_LINE = 80
_MOST_CUSTOM = 20
"""The number of values of custom events of a name that are shown without a view."""
_DESCRIBED_ELSEWHERE = {
    "agui_client.batch.": ("_batch_tables", "_row_tables"),
    "agui_client.evaluation.": ("_evaluation_tables",),
    InspectedRun.__module__: ("_recording_elements",),
}
"""The modules that describe the classes of a module or package, which are loaded when one of them is shown."""
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
    if (describe := _describer(type(shown))) is not elements_of.registry[object]:
        return describe(shown)
    known = (
        "a run, a result, an agent, messages, warnings, subagents, tool executions, batches or their rows, evaluations"
    )
    raise UsageError(f"show() takes {known}, not {type(shown).__name__}")


def _describer(kind: type) -> Callable[..., list[Element]]:
    """Return the function that describes objects of a class, of which some are in modules that are loaded here."""
    for place, modules in _DESCRIBED_ELSEWHERE.items():
        if kind.__module__.startswith(place):
            for name in modules:
                import_module(f"agui_client.notebook.{name}")
    return elements_of.dispatch(kind)


def with_prices(shown: object, prices: Prices) -> list[Element]:
    """Describe an object with the cost of its tokens.

    Args:
        shown: Rows of a batch, a comparison of two batches, or an evaluation.
        prices: The prices of a million tokens by the names of models.

    Raises:
        UsageError: It is none of these.
    """
    kind: type[Any] = type(shown)
    if kind in (list, tuple) and all(isinstance(each, RowResult) for each in cast("Sequence[Any]", shown)):
        describe = import_module("agui_client.notebook._row_tables").table_of_rows
    else:
        describe = _describer(kind)
    if "prices" not in signature(describe).parameters:
        takes = "rows of a batch, compare() and evaluations"
        raise UsageError(f"prices= is for {takes}, not for {kind.__name__}; a result has inspect(prices=)")
    elements: list[Element] = describe(shown, prices=prices)
    return elements


@elements_of.register(list)
@elements_of.register(tuple)
def _(shown: Sequence[Any]) -> list[Element]:
    if all(isinstance(each, _MESSAGES) for each in shown):
        return [*conversation(shown), *elements_of(Surfaces(shown))]
    if all(isinstance(each, RowResult) for each in shown):
        table: list[Element] = import_module("agui_client.notebook._row_tables").table_of_rows(shown)
        return table
    return [element for each in shown for element in elements_of(each)]


def _message_alone(shown: Message) -> list[Element]:
    return conversation([shown])


for _kind in _MESSAGES:
    elements_of.register(_kind, _message_alone)


@elements_of.register
def _(shown: Surface) -> list[Element]:
    return painted([shown])


@elements_of.register
def _(shown: Surfaces) -> list[Element]:
    return [*painted(shown.values()), *progress_lines(shown)]


@elements_of.register
def of_result(shown: RunResult, surfaces: Collection[Surface] | None = None) -> list[Element]:
    """Describe the chat of a call, and how it ended.

    Args:
        shown: The result.
        surfaces: The surfaces that the call made or changed, if they are known.
    """
    new = {message.id for message in shown.new_messages}
    messages = of_this_call(shown.messages, new.__contains__)
    speakers = Speakers(shown.subagents)
    calls = calls_in(messages, shown.tool_executions, shown.answered, speakers)
    elements = conversation(messages, calls, speakers=speakers)
    elements += painted(shown.changed_surfaces if surfaces is None else surfaces)
    if shown.subagents:
        lines = [_subagent(each, speakers.name(each.subagent_run_id)) for each in shown.subagents]
        elements.append(Details(counted(len(lines), "subagent"), lines))
    elements += [*custom_events(shown.custom), *state_fold(shown.state)]
    if shown.warnings:
        warnings = [element for each in shown.warnings for element in elements_of(each)]
        elements.append(Details(counted(len(warnings), "warning"), warnings, "bad"))
    return [*elements, *closing_lines(shown)]


@elements_of.register
def _(shown: SubagentResult) -> list[Element]:
    return [*([ChatMessage("agent", shown.name, shown.text)] if shown.text else []), _subagent(shown, shown.name)]


@elements_of.register
def _(shown: AbstractAgent) -> list[Element]:
    name = f" {shown.name}" if shown.name else ""
    head = Line(f"{type(shown).__name__}{name} · thread {shown.thread_id} · {counted(len(shown.messages), 'message')}")
    waiting = waiting_lines(shown.pending_interrupts, shown.pending_tool_calls)
    return [head, *_document(shown.snapshot()), *waiting, *state_fold(shown.state)]


@elements_of.register
def _(shown: ConversationSnapshot) -> list[Element]:
    head = Line(f"conversation · thread {shown.thread_id} · {counted(len(shown.messages), 'message')}")
    waiting = waiting_lines(shown.pending_interrupts)
    return [head, *_document(shown), *waiting, *state_fold(shown.state)]


def _document(shown: ConversationSnapshot) -> list[Element]:
    """Describe the messages of a conversation, and what its records say of the calls in them."""
    chat = conversation(shown.messages, calls_in(shown.messages, records=shown.tool_calls))
    return [*chat, *elements_of(Surfaces(shown.messages))]


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
    call = ToolCallStory(shown.tool_call_id, shown.name, [as_json(dict(shown.arguments))])
    call.note(shown)
    return [_call(call, Drawings(), is_live=False)]


def conversation(
    messages: Sequence[Message],
    calls: Calls | None = None,
    drawings: Drawings | None = None,
    speakers: Speakers | None = None,
    *,
    is_live: bool = False,
    most: int | None = _MOST_MESSAGES,
) -> list[Element]:
    """Describe messages; the result of a tool call stands with the call.

    Args:
        messages: The messages; of very many only the latest are described.
        calls: The tool calls in them, if more is known of them than the messages say.
        drawings: What views drew of them before.
        speakers: The names of subagents.
        is_live: Whether the run is in progress: then the latest thought is unfolded, and arguments may still arrive.
        most: The most messages to describe; None for all.
    """
    drawings, speakers = drawings or Drawings(), speakers or Speakers()
    calls = calls_in(messages, speakers=speakers) if calls is None else calls
    left_out = 0 if most is None else max(0, len(messages) - most)
    elements: list[Element] = [Line(f"{counted(left_out, 'earlier message')}")] if left_out else []
    called = {call_id for _, call_id in calls}
    for message in messages[left_out:]:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in called:
            is_thought = is_live and message is messages[-1]
            elements += _message(message, speakers, drawings, is_thought)
        if isinstance(message, AssistantMessage):
            elements += [_call(calls[message.id, each.id], drawings, is_live) for each in message.tool_calls or ()]
    return elements


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
        drawing = drawings.draw(("custom", name), "", ShownCustom(name, values[-1], values))
        if drawing is not None:
            return Details(name, [_drawn(drawing)], is_open=True)
    times = f" · {len(values)} times" if len(values) > 1 else ""
    plain = hidden_json(to_jsonable_python(values[-_MOST_CUSTOM:], by_alias=True, fallback=repr))
    return Details(f"custom {name}{times}", [Tree(plain[0] if len(values) == 1 else plain)])


def _call(call: ToolCallStory, drawings: Drawings, is_live: bool) -> Element:
    """Describe a tool call as its view draws it, or else with its arguments and its result."""
    owner, arguments = f"{call.author}: " if call.author else "", read_json(call.arguments)
    if find_view(("tool", call.name)) is not None:
        drawing = drawings.draw(("tool", call.name), call.tool_call_id, shown_call(call))
        if drawing is not None:
            return Details(f"{owner}{call.name} → {_ending(call)}", [_drawn(drawing)], is_open=True)
    content: list[Element] = [_value(arguments)]
    if is_live and call.status == "arriving":
        partial = shown_call(call).partial_arguments
        content = [_value(call.arguments if partial is None else partial), Line("arguments still arrive")]
        return Details(f"{owner}{call.name} …", content, "unfinished", is_open=True)
    if call.progress and call.result is None:
        content.append(Line(f"progress: {call.progress[-1]}"))
    if call.result is not None:
        content += [Line("result"), *([_text(call.result)] if call.result or not call.pictures else [])]
        content += [Image(*each) for each in call.pictures]
        content += [Line(call.error, "bad")] if call.error and call.error != call.result else []
    summary = f"{owner}{call.name} {beginning(as_text(arguments))} → {_ending(call)}"
    is_good = call.status in ("succeeded", "answered")
    return Details(summary, content, "good" if is_good else "bad", is_open=bool(call.pictures))


def _ending(call: ToolCallStory) -> str:
    """Say what became of a call, and of one that failed, why."""
    return f"{call.facts}: {beginning(call.cause)}" if call.cause else call.facts


def _subagent(shown: SubagentResult, name: str) -> Line:
    took = [] if shown.seconds is None else [seconds_text(shown.seconds)]
    parts = [name, shown.status, *took, usage_text(shown.usage), shown.error]
    return Line(" · ".join(filter(None, parts)), "bad" if shown.status in ("error", "abandoned") else "dim")


def of_this_call(messages: Sequence[Message], is_new: Callable[[str], bool]) -> list[Message]:
    """Return the new messages, and what the user wrote right before them."""
    first = next((place for place, each in enumerate(messages) if is_new(each.id)), len(messages))
    while first and isinstance(messages[first - 1], UserMessage):
        first -= 1
    return list(messages[first:])


def state_fold(state: Any) -> list[Element]:
    """Describe the state; an empty one is left out."""
    return [Details("state", [Tree(state)])] if state not in (None, {}, []) else []


def closing_lines(result: RunResult) -> list[Line]:
    """Describe the end of a call: answers, the result, what waits for the application, and what it cost."""
    story, speakers = RunStory.from_result(result), Speakers(result.subagents)
    first = result.timings.first_text
    times = [f"first text {seconds_text(first)}"] if first is not None else []
    times += [f"total {time_text(story.seconds, story.people)}"] if story.seconds is not None else []
    ending = " · ".join(filter(None, [story.ending, *times, usage_text(result.usage)]))
    waiting = waiting_lines(result.interrupts, result.pending_tool_calls, speakers)
    return [*map(Line, story.lines), *waiting, Line(ending)]


def waiting_lines(
    interrupts: Sequence[Interrupt], calls: Sequence[ToolCall] = (), speakers: Speakers | None = None
) -> list[Line]:
    """Describe what waits for the application: an answer, or the result of a call."""
    return [Line(each, "bad") for each in waiting_texts(interrupts, calls, speakers)]


def _message(message: Message, speakers: Speakers, drawings: Drawings, is_thought: bool) -> list[Element]:
    name = speakers.name(getattr(message, "subagent_run_id", None))
    owner, author = f"{name}: " if name else "", speakers.author(message)
    match message:
        case ReasoningMessage():
            summary = f"{owner}thought: {preview(message.content)}"
            return [Details(summary, [ChatMessage("system", "reasoning", message.content)], is_open=is_thought)]
        case ActivityMessage(activity_type=kind) if kind == ACTIVITY_TYPE or kind.startswith(OWN_ACTIVITIES):
            # Surfaces stand below the chat, whole, however many messages they are made of.
            return []
        case ActivityMessage():
            drawing = drawings.draw(("activity", message.activity_type), message.id, message)
            app = app_of(message.id, message.activity_type, message.content)
            if app is not None and drawing is None:
                return [Line(f"{owner}{app_text(app)}")]
            content = Tree(message.content) if drawing is None else _drawn(drawing)
            return [Details(f"{owner}activity {message.activity_type}", [content], is_open=drawing is not None)]
        case UserMessage():
            rest, pictures = split_pictures(message.content)
            text = content_text(rest, "\n")
            bubbles = [ChatMessage("user", author, text)] if text or not pictures else []
            return [*bubbles, *(Image(*each, side="user") for each in pictures)]
        case AssistantMessage():
            return [ChatMessage("agent", author, message.content)] if message.content else []
        case ToolMessage():
            rest, pictures = split_pictures(message.content)
            shown = [_text(content_text(rest, "\n")), *(Image(*each) for each in pictures)]
            return [Details(f"result of {message.tool_call_id}", shown, is_open=bool(pictures))]
        case _:
            return [
                Details(
                    f"{message.role} message",
                    [ChatMessage("system", message.role, content_text(message.content, "\n"))],
                )
            ]


def _drawn(drawing: Drawing) -> Element:
    """Return what a view drew, as an element."""
    return Code(drawing.text) if drawing.html is None else TrustedHtml(drawing.html, drawing.text)


def _text(text: str) -> Element:
    value = read_json(text)
    return _value(value) if value else Code(text)


def _value(value: Any) -> Element:
    return Tree(value) if isinstance(value, dict | list) else Code(str(value))


def beginning(text: str) -> str:
    """Return the beginning of a text as one line."""
    return _one_line(" ".join(text[:_PREVIEWED].split()))


def preview(text: str) -> str:
    """Return the beginning of Markdown as one line, without its markup."""
    return _one_line(words_of(text[:_PREVIEWED]))


def _one_line(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
