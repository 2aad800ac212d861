"""Displays in notebooks: what they contain, and that nothing which an agent wrote is more than text."""

from __future__ import annotations

import io
import json
import os
import time
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Message,
    ReasoningMessage,
    RunErrorEvent,
    StateSnapshotEvent,
    SystemMessage,
    TokenUsage,
    ToolMessage,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from agui_client import ProtocolWarning, RunFailedError, ToolExecution, UsageError, tool
from agui_client._cli import main
from agui_client._widgets.escaping import exact, sentence
from agui_client._widgets.tool_views import shown_call
from agui_client.conversation import Conversation
from agui_client.notebook import ShownCall, renders, show
from agui_client.notebook.content import bundle_of
from agui_client.testing import ScriptedAgent, interrupt, reasoning, serve, text, tool_call, tool_result, turn

ALIGNED = ("left", "center", "right")
EXAMPLES = int(os.environ.get("AGUI_DISPLAYS", "15"))
TEXT_TAGS = "a blockquote br code em h1 h2 h3 h4 h5 h6 hr li ol p pre strong table tbody td th thead tr ul"
TAGS = {*TEXT_TAGS.split(), "details", "div", "span", "summary"}
HOSTILE = st.lists(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "![x](http://evil.example/?secret)",
            "[x](javascript:alert(1))",
            '[x](http://a.example/" onclick="alert(1))',
            "</div></details>",
            "<!--",
            "&#x202e;&lt;b&gt;",
            "```html\n<iframe>\n",
            "\n\n<style>*{display:none}</style>\n\n",
            "[a]: http://evil.example\n![a]",
            "\x1b[31m\u202e\u2066",
            "'\"`",
        ]
    )
    | st.text(max_size=10),
    max_size=4,
).map("".join)
VALUES = st.recursive(
    HOSTILE | st.none() | st.booleans() | st.integers(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(HOSTILE, inside, max_size=3),
    max_leaves=6,
)


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@dataclass
class Page(HTMLParser):
    """The tags, attributes and texts of HTML."""

    tags: set[str] = field(default_factory=set[str])
    attributes: set[tuple[str, str | None]] = field(default_factory=set[tuple[str, "str | None"]])
    written: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)
        self.depth += tag not in ("br", "hr")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag not in ("br", "hr")

    def handle_data(self, data: str) -> None:
        self.written += data


def read(html: str) -> Page:
    page = Page()
    page.feed(html.partition("</style>")[2])
    page.close()
    return page


def plain_of(shown: Any) -> str:
    return bundle_of(shown)["text/plain"]


@pytest.mark.requirement("SEC-8")
@given(prose=HOSTILE, state=VALUES, name=HOSTILE)
@settings(max_examples=EXAMPLES, deadline=None)
def test_nothing_that_an_agent_wrote_is_more_than_text(prose: str, state: Any, name: str) -> None:
    call: Any = {"id": name, "type": "function", "function": {"name": name, "arguments": prose}}
    messages: list[Message] = [
        UserMessage(id="u", content=prose),
        AssistantMessage(id="a", name=name, content=prose, tool_calls=[call]),
        ToolMessage(id="t", tool_call_id=name, content=prose, error=prose),
    ]
    conversation = Conversation("t", messages, {"state": state}).snapshot()
    shown = bundle_of(conversation)
    page = read(shown["text/html"])
    links = {value for key, value in page.attributes if key == "href"}
    assert page.tags <= TAGS
    assert {key for key, _ in page.attributes} <= {"class", "href", "open", "start", "style"}
    assert {value for key, value in page.attributes if key == "style"} <= {f"text-align:{side}" for side in ALIGNED}
    assert not any(str(link).lower().startswith(("javascript:", "data:", "vbscript:")) for link in links)
    assert page.depth == 0
    assert exact(" ".join(name.split())) in page.written
    if isinstance(state, str):
        assert exact(json.dumps(state, ensure_ascii=False).expandtabs(4)) in page.written
    assert sentence(prose.expandtabs(4)) in page.written
    for content in shown.values():
        assert content == sentence(content)
    assert "<" not in shown["text/markdown"].replace("&lt;", "").partition("```")[0]


def test_a_result_shows_the_chat_the_tools_the_state_and_what_it_cost() -> None:
    agent = ScriptedAgent(
        turn(
            reasoning("Numbers."),
            tool_call("add", {"a": 1, "b": 2}),
            StateSnapshotEvent(snapshot={"trip": {"legs": ["Oslo"]}}),
        ),
        turn(text("It is **3**."), usage=[TokenUsage(model="m", input_tokens=3)]),
        tools=[add],
    )
    result = agent.run_agent_sync("Add 1 and 2")
    shown = result._repr_mimebundle_()
    page = read(shown["text/html"])
    assert "<strong>3</strong>" in shown["text/html"]
    for part in ("Add 1 and 2", "thought: Numbers.", "→ succeeded", "legs", "m: 3 tokens in, ? out", "total "):
        assert part in page.written
        assert part in shown["text/plain"]
    assert page.tags >= {"details", "summary"}
    assert shown["text/markdown"].startswith("**user**\n\nAdd 1 and 2\n\n*thought: Numbers.*")
    assert set(result._repr_mimebundle_(include={"text/html"})) == {"text/html"}
    assert set(result._repr_mimebundle_(exclude={"text/html"})) == {"text/markdown", "text/plain"}
    assert "Add 1 and 2" in agent._repr_mimebundle_()["text/plain"]
    assert agent.snapshot()._repr_mimebundle_()["text/plain"].endswith('"Oslo"\n      ]\n    }\n  }')


def test_what_an_agent_waits_for_is_shown() -> None:
    agent = ScriptedAgent(turn(text("Hm."), outcome=interrupt("Book it?")))
    result = agent.run_agent_sync("Book")
    for shown in (result, agent, agent.snapshot()):
        assert "waits for an answer: Book it?" in plain_of(shown)


def test_warnings_executions_and_messages_show_alone_and_in_lists() -> None:
    warning = ProtocolWarning("PROC-8", "something <odd>", "/a", 3, "CUSTOM", 2)
    assert plain_of([warning]) == "PROC-8: something <odd> · event 3 CUSTOM · at /a · 2 times"
    execution = ToolExecution("c", "add", "running", {"a": 1}, progress=["half"])
    assert plain_of(execution) == 'add {"a": 1} → running\n  {\n    "a": 1\n  }\n  progress: half'
    message = UserMessage(id="u", content="Hi")
    assert plain_of(message) == plain_of([message]) == "user: Hi"
    result = ToolMessage(id="t", tool_call_id="c", content='{"n": 1}')
    thought = ReasoningMessage(id="r", content="Hm.", encrypted_value="secret")
    activity = ActivityMessage(id="a", activity_type="PLAN", content={"step": 1})
    prompt = SystemMessage(id="s", content="Be brief.")
    assert [plain_of(each).splitlines()[0] for each in (result, thought, activity, prompt)] == [
        "result of c",
        "thought: Hm.",
        "activity PLAN",
        "system message",
    ]
    assert not any("secret" in content for content in bundle_of([thought, result]).values())
    with pytest.raises(UsageError, match="not int"):
        bundle_of(1)


def test_of_very_many_messages_the_latest_are_shown() -> None:
    messages = [UserMessage(id=str(each), content=f"number {each}") for each in range(150)]
    assert plain_of(messages).startswith("50 earlier messages\nuser: number 50\n")


class Cell:
    """The output of a cell, with the time of each drawing."""

    def __init__(self) -> None:
        self.drawings: list[tuple[float, dict[str, str]]] = []

    def update(self, content: dict[str, str], *, raw: bool, display_id: bool = True) -> Cell:
        assert raw
        self.drawings.append((time.monotonic(), content))
        return self


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    shown = Cell()
    monkeypatch.setattr("agui_client.notebook.showing._is_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", shown.update)
    return shown


@pytest.mark.anyio
async def test_a_run_is_drawn_in_one_output_at_most_20_times_a_second(cell: Cell) -> None:
    agent = ScriptedAgent(turn(text("word " * 200, delay=0.002), StateSnapshotEvent(snapshot={"n": 1})))
    result = await show(agent.stream("Hi"))
    moments = [moment for moment, _ in cell.drawings[1:-1]]
    assert all(later - earlier > 0.049 for earlier, later in pairwise(moments))
    assert "running · " in cell.drawings[0][1]["text/plain"]
    assert cell.drawings[-1][1] == bundle_of(result)
    assert result.state == {"n": 1}


def test_a_pause_of_the_run_finds_the_latest_event_drawn(cell: Cell) -> None:
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look at the cell while the run waits for this tool."""
        deadline = time.monotonic() + 10
        while "look {}" not in cell.drawings[-1][1]["text/plain"] and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(cell.drawings[-1][1]["text/plain"])
        return "looked"

    agent = ScriptedAgent(turn(text("Let me look."), tool_call("look")), turn(text("Done.")), tools=[look])
    result = show(agent.stream_sync("Hi"))
    assert "agent: Let me look.\nlook {} → " in seen[0]
    assert result.text == "Done."


@pytest.mark.anyio
async def test_a_run_that_fails_leaves_what_arrived_and_the_error(cell: Cell) -> None:
    agent = ScriptedAgent(turn(text("So far."), RunErrorEvent(message="<overloaded>")))
    with pytest.raises(RunFailedError):
        await show(agent.stream("Hi"))
    lines = cell.drawings[-1][1]["text/plain"].splitlines()
    assert lines[1] == "agent: So far."
    assert "RunFailedError: " in lines[-1]
    assert "<overloaded>" in lines[-1]


@pytest.mark.anyio
async def test_without_a_notebook_a_run_is_shown_at_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    agent = ScriptedAgent(turn(tool_call("add", {"a": 1, "b": 2})), turn(text("It is 3.")), tools=[add])
    assert (await show(agent.stream("Add"))).text == "It is 3."
    written = capsys.readouterr()
    assert written.out == "It is 3.\n"
    assert written.err.splitlines()[:2] == ['tool add({"a": 1, "b": 2})', "tool add -> 3"]
    assert written.err.splitlines()[2].startswith("success · first text ")
    show(agent.messages[:1])
    assert capsys.readouterr().out == "user: Add\n"


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
    monkeypatch.setattr("agui_client._widgets.tool_views._views", {})
    monkeypatch.setattr("agui_client._widgets.tool_views._reported", set[str]())


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
    html = cell.drawings[-1][1]["text/html"]
    assert "<td>{&#x27;city&#x27;: &#x27;&lt;Oslo&gt;&#x27;} {&#x27;celsius&#x27;: 18}</td>" in html
    assert "get_weather → answered\n  card: {'city': '<Oslo>'} {'celsius': 18}" in cell.drawings[-1][1]["text/plain"]
    assert (seen[-1].status, seen[-1].result, seen[-1].name) == ("answered", {"celsius": 18}, "get_weather")
    assert plain_of(result) == cell.drawings[-1][1]["text/plain"]


def test_a_view_gets_what_can_be_read_of_arguments_and_how_far_the_call_is() -> None:
    arriving = shown_call("c", "t", '{"city": "Os')
    assert (arriving.partial_arguments, arriving.status) == ({"city": "Os"}, "arriving")
    assert shown_call("c", "t", "}").partial_arguments is None
    assert (shown_call("c", "t", "").partial_arguments, shown_call("c", "t", "").status) == ({}, "called")
    execution = ToolExecution("c", "t", "running", progress=["half"], seconds=None)
    running = shown_call("c", "t", "{}", None, execution)
    assert (running.status, running.progress, running.result) == ("running", ["half"], None)
    assert shown_call("c", "t", "{}", "Sunny").result == "Sunny"


@pytest.mark.usefixtures("views")
def test_a_view_that_fails_is_logged_once_and_the_call_shown_without_it(caplog: pytest.LogCaptureFixture) -> None:
    @renders("get_weather")
    def broken(call: ShownCall) -> str:
        raise KeyError("city")

    result = weather().run_agent_sync("Hi")
    assert plain_of(result) == plain_of(result)
    assert 'get_weather {"city": "<Oslo>"} → answered' in plain_of(result)
    assert [each.message for each in caplog.records] == [
        "the view of tool get_weather failed; its calls are shown without it"
    ]


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
    page = read(shown["text/html"])
    assert "agui-view" in shown["text/html"]
    assert "<18 degrees>" in page.written or "conversation · thread" in page.written


@pytest.mark.usefixtures("views")
def test_a_view_is_drawn_in_place_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=30, _environ={})
    monkeypatch.setattr("agui_client._cli.watching.drawing_board", lambda: console)

    @renders("get_weather", "add")
    def card(call: ShownCall) -> object:
        return Panel(f"{call.name} is {call.status}, {call.result}")

    show(weather().stream_sync("Hi"))
    assert "│ get_weather is answered, {'celsius': 18} " in out.getvalue()
    agent = ScriptedAgent(turn(tool_call("add", {"a": 1, "b": 2})), turn(text("3.")), tools=[add])
    show(agent.stream_sync("Hi"))
    assert "│ add is succeeded, 3 " in out.getvalue()


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


CELLS = """
from agui_client.notebook import show
from agui_client.testing import ScriptedAgent, text, turn
agent = ScriptedAgent(*[turn(text("Hello <b>you</b>", delay=0.05))] * 3)
await agent.run_agent("Hi")
---
agent
---
result = await show(agent.stream("Hi"))
---
result = show(agent.stream_sync("Hi"))
"""


def test_a_notebook_displays_results_agents_and_runs() -> None:
    sources = CELLS.strip().split("---\n")
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": each, "metadata": {}, "outputs": []} for each in sources
    ]
    notebooks: Any = nbformat
    notebook = notebooks.from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    for cell in notebook.cells:
        (output,) = cell.outputs
        assert set(output.data) == {"text/html", "text/markdown", "text/plain"}
        assert "Hello &lt;b&gt;you&lt;/b&gt;" in output.data["text/html"]
        assert "running" not in output.data["text/plain"]
    if "AGUI_DISPLAYS_NOTEBOOK" in os.environ:  # to look at the pages
        notebooks.write(notebook, os.environ["AGUI_DISPLAYS_NOTEBOOK"])
