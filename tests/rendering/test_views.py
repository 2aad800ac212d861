"""Views: functions of the application that draw tool calls, activities and custom events, wherever runs are shown."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    CustomEvent,
    FunctionCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from rich.console import Console, ConsoleOptions, RenderResult
from rich.file_proxy import FileProxy
from rich.panel import Panel
from rich.text import Text

from agui_client import ToolContext, ToolExecution, UsageError, tool
from agui_client._cli import main
from agui_client._rendering.drawing import call_html, drawing, drawn_text
from agui_client._rendering.story import ToolCallStory, calls_in
from agui_client._rendering.views import shown_call
from agui_client.notebook import ShownCall, ShownCustom, renders, show
from agui_client.notebook._content import bundle_of
from agui_client.terminal._plain_view import paused_screen
from agui_client.testing import Gate, ScriptedAgent, serve, text, tool_call, tool_result, turn
from support.cells import Cell, shown_cell


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def plain_of(shown: object) -> str:
    return bundle_of(shown)["text/plain"]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    return shown_cell(monkeypatch)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The codes and the text that a terminal gets."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=30, _environ={})
    monkeypatch.setattr("agui_client.terminal._watching.drawing_board", lambda: console)
    return out


class Card:
    """A drawing with HTML of its own."""

    def __init__(self, title: str) -> None:
        self.title = title

    def _repr_html_(self) -> str:
        return f"<table><tr><td>{escape(self.title)}</td></tr></table>"

    def __str__(self) -> str:
        return f"card: {self.title}"


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the views of a test after it."""
    monkeypatch.setattr("agui_client._rendering.views._views", {})
    monkeypatch.setattr("agui_client._rendering.views._reported", set[str]())


def weather() -> ScriptedAgent:
    return ScriptedAgent(
        turn(tool_call("get_weather", {"city": "<Oslo>"}), tool_result({"celsius": 18}), text("Fine.")),
    )


@pytest.mark.usefixtures("views")
def test_a_view_draws_a_tool_from_its_first_argument_to_its_result(cell: Cell) -> None:
    seen: list[ShownCall] = []

    @renders("get_weather")
    def card(call: ShownCall) -> Card:
        seen.append(call)
        return Card(f"{call.partial_arguments} {call.result}")

    result = show(weather().stream_sync("Hi"))
    html = cell.drawings[-1]["text/html"]
    assert "<td>{&#x27;city&#x27;: &#x27;&lt;Oslo&gt;&#x27;} {&#x27;celsius&#x27;: 18}</td>" in html
    assert "get_weather → answered\n  card: {'city': '<Oslo>'} {'celsius': 18}" in cell.drawings[-1]["text/plain"]
    assert (seen[-1].status, seen[-1].result, seen[-1].name) == ("answered", {"celsius": 18}, "get_weather")
    assert plain_of(result) == cell.drawings[-1]["text/plain"]


def told(name: str, arguments: str, result: str | None = None, execution: ToolExecution | None = None) -> ToolCallStory:
    asked = AssistantMessage(
        id="m", tool_calls=[ToolCall(id="c", function=FunctionCall(name=name, arguments=arguments))]
    )
    answers = [] if result is None else [ToolMessage(id="r", tool_call_id="c", content=result)]
    return calls_in([asked, *answers], [] if execution is None else [execution])["m", "c"]


def test_a_view_gets_what_can_be_read_of_arguments_and_how_far_the_call_is() -> None:
    arriving = shown_call(told("t", '{"city": "Os'))
    assert (arriving.partial_arguments, arriving.status) == ({"city": "Os"}, "arriving")
    assert shown_call(told("t", "}")).partial_arguments is None
    assert (shown_call(told("t", "")).partial_arguments, shown_call(told("t", "")).status) == ({}, "called")
    execution = ToolExecution("c", "t", "running", progress=["half"], seconds=None)
    running = shown_call(told("t", "{}", execution=execution))
    assert (running.status, running.progress, running.result) == ("running", ["half"], None)
    assert shown_call(told("t", "{}", "Sunny")).result == "Sunny"


class Shown:
    """An object that displays itself in one form."""

    def __init__(self, method: str, data: object) -> None:
        setattr(self, method, lambda: data)

    def __str__(self) -> str:
        return "an object"


class Point(NamedTuple):
    """A record."""

    x: int
    name: str


@dataclass
class Place:
    """A record with a name that is HTML."""

    city: str
    metres: float | None = None


PNG = b"\x89PNG"


class Figure:
    """A figure as one of matplotlib is where no notebook has set it up."""

    def savefig(self, out: io.BytesIO, **options: object) -> None:
        out.write(PNG)

    def __str__(self) -> str:
        return "a figure"


SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'


@pytest.mark.parametrize(
    ("drawn", "html", "as_text"),
    [
        (Shown("_repr_png_", PNG), f'<img src="data:image/png;base64,{b64encode(PNG).decode()}" alt="">', "an object"),
        (Shown("_repr_png_", (PNG, {"width": 1})), b64encode(PNG).decode(), "an object"),
        (Shown("_repr_jpeg_", PNG), "data:image/jpeg;base64,", "an object"),
        (Shown("_repr_svg_", SVG), f"data:image/svg+xml;base64,{b64encode(SVG.encode()).decode()}", "an object"),
        (Shown("_repr_markdown_", "**so** <b>x</b>"), "<strong>so</strong> &lt;b&gt;x", "**so** <b>x</b>"),
        (Shown("_repr_latex_", "$x < 1$"), ">$x &lt; 1$</span>", "$x < 1$"),
        (Shown("_repr_html_", "<i>so</i>"), "<i>so</i>", "an object"),
        (Figure(), f"data:image/png;base64,{b64encode(PNG).decode()}", "a figure"),
        ([{"city": "<Oslo>", "n": 2}, {"n": 10}], "<td>&lt;Oslo&gt;</td>", "city    n\n<Oslo>  2\n        10"),
        ([Place("Oslo", 2.5), Place("Bergen")], 'right">2.5</td>', "city    metres\nOslo    2.5\nBergen"),
        ([Point(1, "a")], "<th>name</th>", "x  name\n1  a"),
        ([SystemMessage(id="s", content="so")], "<td>so</td>", None),
        (["text", 1], None, "['text', 1]"),
        (Point(1, "a"), None, "Point(x=1, name='a')"),
    ],
)
def test_pictures_markup_and_records_are_drawn_as_html(drawn: Any, html: str | None, as_text: str | None) -> None:
    made = drawing(drawn)
    assert (made.html is None) if html is None else html in str(made.html)
    assert as_text in (None, made.text, drawn_text(drawn))
    assert made.html is None or "onload" not in made.html


def test_of_a_long_list_of_records_the_first_hundred_are_a_table() -> None:
    made = drawing([{"n": number} for number in range(150)])
    assert (str(made.html).count("<tr>"), made.text.endswith("99\nand 50 more")) == (101, True)


@pytest.mark.usefixtures("views")
def test_a_view_that_fails_is_logged_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    @renders("get_weather")
    def broken(call: ShownCall) -> str:
        raise KeyError("city")

    result = weather().run_agent_sync("Hi")
    assert plain_of(result) == plain_of(result)
    assert 'get_weather {"city": "<Oslo>"} → answered' in plain_of(result)
    assert [each.message for each in caplog.records] == ["the view of tool get_weather failed, and is left out"]


@pytest.mark.usefixtures("views")
def test_a_view_for_a_name_that_no_tool_of_the_run_has_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    @renders("get_wether", "get_weather")
    def card(call: ShownCall) -> str:
        return "card"

    show(ScriptedAgent(turn(text("No tools at all."))).stream_sync("Hi"))
    assert not caplog.records
    for _ in range(2):
        show(weather().stream_sync("Hi"))
    assert [each.message for each in caplog.records] == [
        "there is a view for 'get_wether', and no tool of the run has that name"
    ]


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("drawn", ["18 degrees\x1b[31m", Text("18 degrees"), Card("18 degrees")])
def test_a_view_draws_lines_where_nothing_can_be_drawn(drawn: object, capsys: pytest.CaptureFixture[str]) -> None:
    @renders("get_weather", "add")
    def card(call: ShownCall) -> object:
        return drawn

    show(weather().stream_sync("Hi"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == 'tool get_weather({"city": "<Oslo>"})'
    assert lines[1].removeprefix("card: ").removesuffix("[31m") == "18 degrees"
    agent = ScriptedAgent(turn(tool_call("add", {"a": 1, "b": 2})), turn(text("3.")), tools=[add])
    show(agent.stream_sync("Hi"))
    assert "18 degrees" in capsys.readouterr().err.splitlines()[1]


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("drawn", [Panel("<18 degrees>"), weather().snapshot(), Card("<18 degrees>")])
def test_a_view_may_return_whatever_a_notebook_displays(drawn: object) -> None:
    @renders("get_weather")
    def card(call: ShownCall) -> object:
        return drawn

    shown = bundle_of(weather().run_agent_sync("Hi"))
    assert "agui-view" in shown["text/html"]
    assert "&lt;18 degrees&gt;" in shown["text/html"] or "conversation · thread" in shown["text/html"]


@pytest.mark.usefixtures("views")
def test_a_view_is_drawn_in_place_at_a_terminal(terminal: io.StringIO) -> None:
    @renders("get_weather", "add")
    def card(call: ShownCall) -> object:
        return Panel(f"{call.name} is {call.status}, {call.result}")

    show(weather().stream_sync("Hi"))
    assert "│ get_weather is answered, {'celsius': 18} " in terminal.getvalue()
    agent = ScriptedAgent(turn(tool_call("add", {"a": 1, "b": 2})), turn(text("3.")), tools=[add])
    show(agent.stream_sync("Hi"))
    assert "│ add is succeeded, 3 " in terminal.getvalue()


def test_agui_run_draws_with_the_views_of_a_module(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, views: None
) -> None:
    place = tmp_path / "cards.py"
    source = "from agui_client.notebook import renders\n"
    place.write_text(
        f"{source}@renders('get_weather')\ndef card(call):\n    return f'{{call.result}} degrees'\n", "utf-8"
    )
    with serve(weather()) as server:
        monkeypatch.setattr("sys.argv", ["agui", "run", server.url, "Hi", "--views", str(place)])
        assert main() == 0
    written = capfd.readouterr()
    assert (written.out, written.err.splitlines()[1]) == ("Fine.\n", "{'celsius': 18} degrees")


LEAVE: Any = {"op": "add", "path": "/steps/-", "value": "leave"}


def planning() -> ScriptedAgent:
    """An agent with an activity that changes, and with events of two names."""
    return ScriptedAgent(
        turn(
            ActivitySnapshotEvent(message_id="p", activity_type="PLAN", content={"steps": ["<pack>"]}),
            CustomEvent(name="progress", value=10),
            CustomEvent(name="other", value=10),
            ActivityDeltaEvent(message_id="p", activity_type="PLAN", patch=[LEAVE]),
            text("Fine."),
            CustomEvent(name="progress", value=100),
        )
    )


@pytest.fixture
def plan_views(views: None) -> list[object]:
    """Views of an activity and of custom events, and what they were called with."""
    seen: list[object] = []

    @renders(activity="PLAN")
    def plan(activity: ActivityMessage) -> str:
        seen.append(activity)
        return " then ".join(activity.content["steps"])

    @renders(custom="progress")
    def bar(shown: ShownCustom) -> Card:
        seen.append(shown)
        return Card(f"{shown.value} % after {len(shown.values)}")

    return seen


def test_views_draw_activities_and_custom_events_in_a_cell(cell: Cell, plan_views: list[object]) -> None:
    result = show(planning().stream_sync("Hi"))
    shown = cell.drawings[-1]
    assert "activity PLAN\n  <pack> then leave\n" in shown["text/plain"]
    assert "<pre>&lt;pack&gt; then leave</pre>" in shown["text/html"]
    assert "progress\n  card: 100 % after 2" in shown["text/plain"]
    assert "<td>100 % after 2</td>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[-1].startswith("success · ")
    assert ShownCustom("progress", 100, (10, 100)) in plan_views
    assert "custom other" in shown["text/plain"]
    kept = bundle_of(result)["text/plain"]
    assert ("<pack> then leave" in kept, "card: 100 % after 2" in kept) == (True, True)


@pytest.mark.usefixtures("plan_views")
def test_views_draw_activities_and_custom_events_at_a_terminal(terminal: io.StringIO) -> None:
    show(planning().stream_sync("Hi"))
    kept = terminal.getvalue()[terminal.getvalue().rindex("Fine.") :]
    assert "<pack> then leave" in kept
    assert "card: 100 % after 2" in kept


@pytest.mark.usefixtures("plan_views")
def test_views_draw_activities_and_custom_events_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show(planning().stream_sync("Hi"))
    written = capsys.readouterr()
    assert written.out == "Fine.\n"
    assert written.err.splitlines()[:-1] == ["card: 10 % after 1", "card: 100 % after 2", "<pack> then leave"]


@pytest.mark.usefixtures("views")
def test_a_view_follows_a_tool_of_the_application_while_it_works(cell: Cell) -> None:
    drawn = threading.Event()

    @tool
    async def count(ctx: ToolContext) -> str:
        """Count until the view has drawn that."""
        ctx.report("one")
        assert await asyncio.to_thread(drawn.wait, 10)
        return "counted"

    @renders("count")
    def card(call: ShownCall) -> str:
        if (call.status, list(call.progress)) == ("running", ["one"]):
            drawn.set()
        return f"{call.status}"

    show(ScriptedAgent(turn(tool_call("count")), turn(text("Done.")), tools=[count]).stream_sync("Hi"))
    assert re.search(r"count → succeeded in [\d.]+ m?s\n  succeeded", cell.drawings[-1]["text/plain"])


@pytest.mark.usefixtures("views")
def test_a_view_draws_again_only_what_has_changed(cell: Cell) -> None:
    seen: list[tuple[str, object]] = []

    @renders("get_weather")
    def card(call: ShownCall) -> str:
        seen.append((call.status, call.partial_arguments))
        return "card"

    gates = [Gate() for _ in range(4)]

    def update(content: dict[str, str], **options: bool) -> Cell:
        """Take a drawing, and let the agent write the next word."""
        for gate in gates[: len(cell.drawings)]:
            gate.open()
        return take(content, **options)

    take, cell.update = cell.update, update  # type: ignore[method-assign]
    words = [step for number, gate in enumerate(gates) for step in (text(f"word {number}"), gate)]
    show(ScriptedAgent(turn(tool_call("get_weather", {"city": "Oslo"}), tool_result("18"), *words)).stream_sync("Hi"))
    answered = [each for each in seen if each[0] == "answered"]
    assert len(cell.drawings) > 3
    assert len(answered) <= 2  # while the run went on, and of its result


class Failing:
    """A drawing that fails when it is written."""

    def _repr_html_(self) -> str:
        raise KeyError("city")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        raise KeyError("city")


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("place", ["cell", "terminal", "capsys"])
def test_a_drawing_that_fails_ends_no_run(
    place: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    request.getfixturevalue(place)

    @renders("get_weather")
    def failing(call: ShownCall) -> Failing:
        return Failing()

    assert show(weather().stream_sync("Hi")).text == "Fine."
    assert [each.message for each in caplog.records] == ["the view of tool get_weather failed, and is left out"]


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("place", ["cell", "terminal", "capsys"])
def test_a_view_that_hangs_ends_no_run_and_is_not_called_again(
    place: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(place)
    monkeypatch.setattr("agui_client._rendering.drawing._DRAW_TIMEOUT", 0.05)
    calls: list[object] = []
    goes_on = threading.Event()

    @renders("get_weather")
    def stuck(call: ShownCall) -> str:
        calls.append(call)
        goes_on.wait(20)
        return "never shown"

    try:
        result = show(weather().stream_sync("Hi"))
        assert 'get_weather {"city": "<Oslo>"} → answered' in bundle_of(result)["text/plain"]
        assert [each.message for each in caplog.records] == [
            "the view of tool get_weather takes too long, and is not called any more"
        ]
        assert len(calls) == 1
    finally:
        goes_on.set()


@pytest.mark.parametrize(
    "decorate",
    [
        renders,
        lambda: renders("a", activity="b"),  # type: ignore[call-overload]
        lambda: renders(activity="a", custom="b"),  # type: ignore[call-overload]
        lambda: renders(lambda call: "no parentheses"),  # type: ignore[call-overload]
        lambda: renders("a")(wait),
    ],
)
def test_what_is_no_view_is_refused_where_it_is_declared(decorate: Callable[[], Any]) -> None:
    with pytest.raises(UsageError):
        decorate()


async def wait(call: ShownCall) -> str:
    await anyio.lowlevel.checkpoint()
    return call.name


@pytest.mark.usefixtures("views")
def test_a_call_is_html_by_its_view_or_else_escaped() -> None:
    @renders("card")
    def card(call: ShownCall) -> Card:
        return Card(f"{call.result}")

    @renders("line")
    def line(call: ShownCall) -> str:
        return f"<{call.result}>\u202e"

    assert call_html(told("card", "{}", '"<b>"')) == "<table><tr><td>&lt;b&gt;</td></tr></table>"
    assert call_html(told("line", "{}", "b")) == "<pre>&lt;b&gt;\\u202e</pre>"
    assert call_html(told("<b>", "{", "<i>")) == "<pre>&lt;b&gt;({)\n&lt;i&gt;</pre>"
    assert call_html(told("other", "{}")) == "<pre>other({})</pre>"


def test_a_run_that_is_shown_inside_another_is_written_above_it_in_whole_lines(terminal: io.StringIO) -> None:
    @tool
    async def ask() -> str:
        """Show another run while this one is drawn."""
        inner = await show(ScriptedAgent(turn(text("Half a line, and the rest.", delay=0.001))).stream("Hi"))
        return inner.text

    result = show(ScriptedAgent(turn(tool_call("ask")), turn(text("Done.")), tools=[ask]).stream_sync("Hi"))
    assert result.text == "Done."
    assert "Half a line, and the rest.\n" in terminal.getvalue()


def test_a_question_interrupts_the_drawing_of_a_run(terminal: io.StringIO) -> None:
    drawn: list[bool] = []

    @tool
    def look() -> str:
        """Look whether the terminal is drawn on, before a question and while it is asked."""
        drawn.append(isinstance(sys.stdout, FileProxy))
        with paused_screen():
            drawn.append(isinstance(sys.stdout, FileProxy))
        drawn.append(isinstance(sys.stdout, FileProxy))
        return "looked"

    show(ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=[look]).stream_sync("Hi"))
    assert drawn == [True, False, True]
