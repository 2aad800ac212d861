"""Displays in notebooks: what they contain, and that nothing which an agent wrote is more than text."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    DataSource,
    FunctionCall,
    ImagePart,
    Message,
    ReasoningMessage,
    RunErrorEvent,
    StateSnapshotEvent,
    SystemMessage,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
)
from anyio import fail_after
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from nbclient import NotebookClient

from agui_client import ProtocolWarning, RunFailedError, ToolError, ToolExecution, UsageError, tool
from agui_client._core.conversation.conversation import Conversation
from agui_client._rendering.escaping import exact, sentence
from agui_client.a2ui import show_surface
from agui_client.notebook import _style_sheet, html_page, show
from agui_client.notebook._content import bundle_of
from agui_client.notebook._elements import COPYING
from agui_client.notebook._inert_markdown import InertMarkdown
from agui_client.teams import SequentialAgent, SubagentResult
from agui_client.testing import ScriptedAgent, interrupt, reasoning, state, text, tool_call, tool_result, turn
from support.browser import Chromium
from support.cells import Cell, shown_cell

ATTRIBUTES = {"aria-label", "class", "dir", "href", "open", "role", "start", "style"}
ALIGNED = ("left", "center", "right")
EXAMPLES = int(os.environ.get("AGUI_DISPLAYS", "15"))
TEXT_TAGS = "a blockquote br code em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul"
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
        ReasoningMessage(id="r", content=prose),
        ActivityMessage(id="p", activity_type=name, content={name: state}),
    ]
    conversation = Conversation("t", messages, {"state": state}).snapshot()
    others: list[Any] = [
        SubagentResult(name, "s", "error", prose, error=prose),
        ProtocolWarning("PROC-8", prose, name, 1, name),
        ToolExecution("c", name, "failed", {name: prose}, progress=[state]),
    ]
    shown = bundle_of([conversation, *others])
    page = read(shown["text/html"].removesuffix(COPYING))
    links = {value for key, value in page.attributes if key == "href"}
    assert page.tags <= TAGS
    assert {key for key, _ in page.attributes} <= ATTRIBUTES
    assert {value for key, value in page.attributes if key == "style"} <= {f"text-align:{side}" for side in ALIGNED}
    assert all(str(link).lower().startswith(("http://", "https://", "mailto:")) for link in links)
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
    assert "Add 1 and 2" in agent._repr_mimebundle_()["text/plain"]
    assert agent.snapshot()._repr_mimebundle_()["text/plain"].endswith('"Oslo"\n      ]\n    }\n  }')


def test_notebooks_show_no_frame_of_the_package_in_tracebacks() -> None:
    agent = ScriptedAgent(turn(RunErrorEvent(message="overloaded")))
    with pytest.raises(RunFailedError) as caught:
        agent.run_agent_sync("Hi")
    shown = caught.value._render_traceback_()
    assert shown[-1].endswith("RunFailedError: overloaded")
    assert not any(", in run_agent_sync" in line for line in shown)


def test_a_call_that_failed_says_why_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """An exception's text is for the person who looks; the JSON of a result, and the log, have its class alone."""

    @tool
    def look_up(city: str) -> str:
        raise LookupError(f"no {city} in\n<the list>; password=hunter2")

    @tool
    def book(city: str) -> str:
        raise ToolError("There is no room left.")

    calls = turn(tool_call("look_up", {"city": "Oslo"}), tool_call("book", {"city": "Oslo"}))
    result = ScriptedAgent(calls, turn(text("Sorry.")), tools=[look_up, book]).run_agent_sync("Hi")
    lines = [re.sub(r" in \d+ ms", "", line) for line in bundle_of(result)["text/plain"].splitlines()]
    why = "LookupError: no Oslo in <the list>; password=[redacted]"
    assert f'look_up {{"city": "Oslo"}} → failed: {why}' in lines
    assert 'book {"city": "Oslo"} → failed: There is no room left.' in lines
    assert [each.error for each in result.tool_executions] == ["LookupError", "ToolError"]
    kept = [pickle.loads(pickle.dumps(result.tool_executions[0])), copy.deepcopy(result.tool_executions[0])]
    assert all(why in bundle_of(each)["text/plain"] for each in kept)
    assert "the list" not in f"{result.to_json()}{result.tool_executions[0]!r}{caplog.text}"


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
    page = {"resourceUri": "ui://p", "serverHash": "h", "result": {"content": [{"type": "text", "text": "Oslo"}]}}
    assert plain_of(ActivityMessage(id="p", activity_type="mcp-apps", content=page)) == "page ui://p: Oslo"
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


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    return shown_cell(monkeypatch)


@pytest.mark.anyio
async def test_a_run_is_drawn_in_one_output_at_most_20_times_a_second(cell: Cell) -> None:
    agent = ScriptedAgent(turn(text("word " * 200, delay=0.002), StateSnapshotEvent(snapshot={"n": 1})))
    result = await show(agent.stream("Hi"))
    assert all(later - earlier > 0.049 for earlier, later in pairwise(cell.moments[1:-1]))
    assert "running · " in cell.drawings[0]["text/plain"]
    assert cell.drawings[-1] == bundle_of(result)
    assert result.state == {"n": 1}


def test_a_pause_of_the_run_finds_the_latest_event_drawn(cell: Cell) -> None:
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look at the cell while the run waits for this tool."""
        seen.append(cell.wait_for("look {}"))
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
    lines = cell.drawings[-1]["text/plain"].splitlines()
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
    surface = show_surface("s", [{"id": "root", "component": "Text", "text": "Dawn"}])
    await show(ScriptedAgent(turn(surface)).stream("Hi"))
    assert capsys.readouterr().out == "── s\nDawn\n"


@pytest.mark.anyio
async def test_a_run_in_its_block_and_one_that_is_over_are_shown_too(cell: Cell) -> None:
    async with ScriptedAgent(turn(text("All of it."))).stream("Hi") as run:
        await anext(run)
        result = await show(run)
    assert cell.drawings[-1] == bundle_of(result)
    del cell.drawings[:]
    assert await show(run) is result
    assert cell.drawings[-1] == bundle_of(result)
    with ScriptedAgent(turn(text("All of it."))).stream_sync("Hi") as other:
        next(other)
        show(other)
    del cell.drawings[:]
    assert show(other).text == "All of it."
    assert "user: Hi\nagent: All of it.\n" in cell.drawings[-1]["text/plain"]


def test_a_result_that_show_left_in_a_cell_is_not_displayed_there_again(cell: Cell) -> None:
    agent = ScriptedAgent(turn(text("Hello.")), turn(text("Again.")))
    earlier = agent.run_agent_sync("Hi")
    result = show(agent.stream_sync("Hi"))
    assert result._repr_mimebundle_() == {"text/plain": repr(result)}
    assert "text/html" in earlier._repr_mimebundle_()


@pytest.mark.anyio
async def test_what_subagents_do_is_shown_under_their_names(cell: Cell) -> None:
    rooms = ScriptedAgent(turn(tool_call("rooms"), tool_result("2"), text("Two rooms.")), agent_id="hotels")
    team = SequentialAgent(rooms, ScriptedAgent(turn(text("Booked.")), agent_id="desk"), agent_id="team")
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look at the cell while the run waits for this tool."""
        seen.append(cell.wait_for("look {}"))
        return "looked"

    last = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=[look])
    result = await show(SequentialAgent(team, last, agent_id="all").stream("Book"))
    assert "team > hotels: Two rooms." in seen[0]
    shown = cell.drawings[-1]["text/plain"]
    assert "team > hotels: Two rooms." in shown
    assert "team > hotels: rooms {} → answered" in shown
    assert "4 subagents\n  team · success · " in shown
    assert "\n  team > hotels · success · " in shown
    assert any(
        "team > hotels: Two rooms." in each["text/plain"] and "running" in each["text/plain"]
        for each in cell.drawings[:-1]
    )
    hotels = next(each for each in result.subagents if each.name == "hotels")
    assert plain_of(hotels).startswith("hotels: Two rooms.\nhotels · success · ")


def test_of_a_very_long_text_the_beginning_and_the_end_are_shown() -> None:
    shown = bundle_of(AssistantMessage(id="a", content="first " + "x" * 100_000 + " last"))
    for content in shown.values():
        assert len(content) < 64_000
        assert "first x" in content
        assert "x last" in content


def test_what_nests_too_deeply_is_cut_and_what_is_no_text_is_named() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for shown in bundle_of(ToolExecution("c", "t", "running", {"deep": deep})).values():
        assert "nested too deeply" in shown
    image: Any = {"type": "image", "source": {"type": "url", "value": "http://a.example/i.png"}}
    content: Any = [{"type": "text", "text": "Look:"}, image]
    parts = UserMessage(id="u", content=content)
    assert plain_of(parts) == "user: Look:\n[image]"
    assert "a.example" not in bundle_of(parts)["text/html"]


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("mark", [">", "> ", "- ", "> - ", "1. ", "["])
@pytest.mark.parametrize("times", [5, 17, 18, 19, 20, 21, 5_000])
def test_no_markup_hides_what_stands_in_it(mark: str, times: int) -> None:
    shown = bundle_of(AssistantMessage(id="a", content=f"{mark * times}deep"))["text/html"]
    assert "deep" in read(shown).written


@pytest.mark.anyio
async def test_the_items_of_snapshots_and_lists_are_shown_at_once(cell: Cell) -> None:
    async with ScriptedAgent(turn(text("Hello."))).stream("Hi") as run:
        seen = [each async for each in run.snapshots]
    show(seen[-2:])
    assert cell.drawings[-1]["text/plain"].splitlines() == [
        "after TEXT_MESSAGE_END",
        "user: Hi",
        "agent: Hello.",
        "after RUN_FINISHED",
        "user: Hi",
        "agent: Hello.",
    ]


def test_without_the_library_for_it_markdown_is_shown_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(has_math: bool) -> None:
        """Find no library."""

    monkeypatch.setattr("agui_client._rendering.markdown._markdown_parser", without)
    shown = bundle_of(AssistantMessage(id="a", content="**Bold** <b> without markdown-it"))["text/html"]
    assert "<p>**Bold** &lt;b&gt; without markdown-it</p>" in shown


LOOK = """
<script>
document.querySelectorAll("details").forEach(each => each.open = true)
const wide = [...document.querySelectorAll(".agui, .agui *")].filter(each => {
  for (let box = each.parentElement; box; box = box.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false
  return each.getBoundingClientRect().right > document.documentElement.clientWidth
})
document.title = `${document.documentElement.scrollWidth} ${wide.map(each => each.className).join(" ")}`
</script>
"""


def test_nothing_overflows_a_narrow_page(browser: Chromium, tmp_path: Path) -> None:
    long = "x" * 300
    table = f"| {long} | b |\n|---|---|\n| c | {long} |\n\n```\n{long}\n```\n\n# {long}\n\n[{long}](http://a.example/{long})"
    call: Any = {"id": "c", "type": "function", "function": {"name": long, "arguments": json.dumps({long: long})}}
    messages: list[Message] = [
        UserMessage(id="u", name=long, content=long),
        ReasoningMessage(id="r", content=long),
        AssistantMessage(id="a", content=table, tool_calls=[call]),
        ToolMessage(id="t", tool_call_id="c", content=long, error=long),
        ActivityMessage(id="p", activity_type=long, content={"a": [[[[{long: long}]]]]}),
    ]
    shown = bundle_of(Conversation("t", messages, {"a": {"b": [long, {long: [1]}]}}).snapshot())
    place = tmp_path / "page.html"
    place.write_text(f"<!doctype html><meta charset=utf-8><body>{shown['text/html']}{LOOK}", "utf-8")
    title, complaints = browser.visit(place, lambda page: page.title(), width=600)
    assert complaints == []
    width, _, wide = title.partition(" ")
    assert int(width) <= 600
    assert wide == ""


CELLS = """
from agui_client import ProtocolWarning, tool
from agui_client.notebook import renders, show
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, reasoning, text, tool_call, turn
from ag_ui.core import ActivitySnapshotEvent, CustomEvent, StateSnapshotEvent

@tool
def add(a: int, b: int) -> str:
    "Add two numbers."
    return "Hello <b>you</b>"

@renders(activity="PLAN")
def plan(activity):
    return str(activity.content["steps"])

@renders(custom="progress")
def progress(shown):
    return f"{shown.value} %"

events = (CustomEvent(name="progress", value=50), StateSnapshotEvent(snapshot={"trip": {"legs": ["Oslo"]}}),
          ActivitySnapshotEvent(message_id="p", activity_type="PLAN", content={"steps": ["pack"]}))
calls = turn(reasoning("Numbers."), tool_call("add", {"a": 1, "b": 2}), *events)
agent = ScriptedAgent(*[calls, turn(text("# Hello <b>you</b>", delay=0.05))] * 3, tools=[add])
result = await agent.run_agent("Hi")
result
---
agent
---
agent.snapshot()
---
show(agent.messages)
---
result.tool_executions[0]
---
ProtocolWarning("PROC-8", "Hello <b>you</b>")
---
await show(agent.stream("Hi"))
---
show(agent.stream_sync("Hi"));
---
team = [ScriptedAgent(turn(text("Hello <b>you</b>")), agent_id=name) for name in ("first", "second")]
result = await show(SequentialAgent(*team).stream("Hi"))
---
result.subagents[0]
"""


class Shell:
    """A shell whose front end says of each execution which cell it is of, and which cells were deleted."""

    def __init__(self) -> None:
        self.events, self.before = self, list[Any]()
        self.parent: dict[str, Any] = {}

    def register(self, event: str, callback: Any) -> None:
        assert event == "pre_run_cell"
        self.before.append(callback)

    def get_parent(self) -> dict[str, Any]:
        return self.parent

    def run(self, cell_id: str, *shown: object, deleted: tuple[str, ...] = ()) -> list[str]:
        """Execute a cell; return the HTML of its outputs."""
        self.parent = {"metadata": {"cellId": cell_id, "deletedCells": [*deleted]}}
        for each in self.before:
            each(None)
        return [bundle_of(each)["text/html"] for each in shown]


def test_the_style_sheet_is_in_one_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again as soon as that cell is executed anew or deleted, and in each output where nobody says so."""
    shell, result = Shell(), ScriptedAgent(turn(text("Hi"))).run_agent_sync("Hi")
    (alone,) = shell.run("none", result)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("agui_client.notebook._style_sheet._HOLDER", _style_sheet.Holder())

    def styled(cell_id: str, *shown: object, deleted: tuple[str, ...] = ()) -> list[bool]:
        return ["<style" in each for each in shell.run(cell_id, *shown, deleted=deleted)]

    assert styled("a", result, result) == [True, True]
    assert styled("b", result) == [False]
    assert styled("a", result) == [True]
    assert styled("a") == []
    assert [styled("b", result), styled("c", result)] == [[True], [False]]
    assert styled("d", deleted=("b",)) == []
    assert [styled("c", result), styled("b", result)] == [[True], [False]]
    outputs = [html for number in range(20) for html in shell.run(f"cell {number}", result)]
    assert sum(map(len, outputs)) < 20 * len(alone) / 8
    assert len(html_page(result)) > len(alone), "what leaves the notebook has it"
    shell.parent = {"metadata": {}}
    assert bundle_of(result)["text/html"] == alone


def test_a_notebook_displays_everything() -> None:
    sources = CELLS.strip().split("---\n")
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": each, "metadata": {}, "outputs": []} for each in sources
    ]
    notebooks: Any = nbformat
    notebook = notebooks.from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    for cell in notebook.cells:
        output = cell.outputs[0]
        assert set(output.data) == {"text/html", "text/markdown", "text/plain"}
        assert "Hello &lt;b&gt;you&lt;/b&gt;" in output.data["text/html"]
        assert "running" not in output.data["text/plain"]
    # What a cell has shown, it does not display again as its value.
    assert [list(each.data) for each in notebook.cells[6].outputs[1:]] == [["text/plain"]]
    assert "progress\n  50 %" in notebook.cells[6].outputs[0].data["text/plain"]
    if "AGUI_DISPLAYS_NOTEBOOK" in os.environ:  # to look at the pages
        notebooks.write(notebook, os.environ["AGUI_DISPLAYS_NOTEBOOK"])


def test_markdown_has_boxes_and_colours_and_tex_only_where_it_was_asked_for(cell: Cell) -> None:
    code = "```python\ndef f(): ...\n```"
    tex = r"\(x_1\) and" + "\n" + r"\[\frac{a}{b}\]"
    message = AssistantMessage(
        id="a", content=f"$5 and $10, $x_1$ `$y`\n\n- [ ] buy\n- [x] pack\n\n{code}\n\n$a$\n\n{tex}"
    )
    show(message)
    show(message, math=True)
    plain, drawn = cell.drawings
    assert 'class="agui tex2jax_ignore mathjax_ignore"' in plain["text/html"]
    assert "_process" not in plain["text/html"]
    assert re.findall(r'mathjax_process">([^<]*)<', drawn["text/html"]) == [
        "$x_1$",
        "$a$",
        r"\(x_1\)",
        r"\[\frac{a}{b}\]",
    ]
    assert "$x_1$ and\n$$\\frac{a}{b}$$" in drawn["text/markdown"]
    assert re.findall(r"<li class=\"agui-task\">([^<]*)</li>", plain["text/html"]) == ["☐ buy", "☑ pack"]
    assert '<span class="agui-c-k">def</span>' in plain["text/html"]
    assert r"\$5 and \$10, \$x_1\$ `$y`" in plain["text/markdown"]
    assert code in plain["text/markdown"]


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def image(value: str = PIXEL, mime_type: str = "image/png") -> ImagePart:
    return ImagePart(source=DataSource(value=value, mime_type=mime_type))


@pytest.mark.requirement("SEC-8")
def test_pictures_that_came_by_value_are_shown_and_nothing_else_is_fetched() -> None:
    call = ToolCall(id="c", function=FunctionCall(name="plot", arguments="{}"))
    other = [
        image("PHN2Zy8+", "image/svg+xml"),
        image('"onerror="'),
        ImagePart(source=UrlSource(value="https://example.org/a.png", mime_type="image/png")),
    ]
    messages: list[Message] = [
        UserMessage(id="u", content=[TextPart(text="Look"), image(), *other]),
        AssistantMessage(id="a", tool_calls=[call]),
        ToolMessage(id="t", tool_call_id="c", content=[TextPart(text="plotted"), image(mime_type="image/jpeg")]),
    ]
    shown = bundle_of(Conversation("t", messages).snapshot())
    assert re.findall(r'<img[^>]* src="([^"]*)"', shown["text/html"]) == [
        f"data:image/png;base64,{PIXEL}",
        f"data:image/jpeg;base64,{PIXEL}",
    ]
    assert "Look\n[image]\n[image]\n[image]</p>" in shown["text/html"]
    assert "user: Look\n[image]\n[image]\n[image]\n[image/png, 1 KiB]" in shown["text/plain"]
    assert PIXEL not in shown["text/markdown"]


def allow_any(address: str) -> bool:
    """Allow any address in a link."""
    return True


LINKS = {
    "[a](https://example.org/b)": True,
    "[a](MAILTO:ann@example.org)": True,
    "[a](javascript:alert(1))": False,
    "[a]( \n javascript:alert(1))": False,
    "[a](<vbscript:x>)": False,
    "[a](data:image/png;base64,AAAA)": False,
    "[a](//example.org)": False,
    "[a](other.ipynb)": False,
    "[a](#top)": False,
    "[a](&#106;avascript:x)": False,
    "[a]\n\n[a]: javascript:alert(1)": False,
}


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize(("written", "is_link"), LINKS.items())
def test_links_lead_to_web_pages_and_mail_only(written: str, is_link: bool) -> None:
    shown = bundle_of([AssistantMessage(id="a", content=written)])
    inert = InertMarkdown()
    streamed = "".join(map(inert.feed, written)) + inert.end()
    assert ("<a href" in shown["text/html"]) is is_link
    # With another reader's rules, which may allow any address.
    reader: Any = MarkdownIt()
    reader.validateLink = allow_any
    for document in (shown["text/markdown"], streamed):
        assert ("<a href" in reader.render(document)) is is_link, document


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("opened", ["```", "~~~", "````py", "```\na\n ````\n```", "- a\n\n  ```"])
def test_a_block_of_code_that_an_agent_leaves_open_ends_with_its_message(opened: str) -> None:
    call = ToolCall(id="c", function=FunctionCall(name="look", arguments='{"tag": "<b>"}'))
    messages: list[Message] = [
        AssistantMessage(id="a", content=opened, tool_calls=[call]),
        AssistantMessage(id="b", content="```\na < b\n```"),
    ]
    written = bundle_of(Conversation("t", messages).snapshot())["text/markdown"]
    blocks = [token for token in MarkdownIt().parse(written) if token.type == "fence" and not token.level]
    assert [each.content for each in blocks[:2]] == ['{\n  "tag": "<b>"\n}\n', "a < b\n"]


@dataclass
class LivePage:
    """The page of a live cell: what its script reads, and the HTML that it puts together."""

    blocks: dict[str, str] = field(default_factory=dict[str, str])
    drawn: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    ended: str = ""
    sent: int = 0
    on_drawn: Any = None
    comm: Any = None

    def publish(self, comm: Any, message_type: str, data: Any = None, *rest: Any, **keys: Any) -> None:
        """Take in what the kernel sends."""
        self.sent += len(json.dumps(data))
        if message_type == "comm_open":
            self.comm = comm
            self.tell({"ready": True})
        elif message_type == "comm_msg" and data["method"] == "custom":
            content = data["content"]
            if (ended := content.get("ended")) is not None:
                self.ended = ended
                return
            before = {} if content.get("whole") else self.blocks
            self.blocks = {key: before.get(key, "") for key in content["keys"]}
            for key, start, end, fresh in content["changes"]:
                units = before.get(key, "").encode("utf-16-le")
                made = units[: 2 * start] + fresh.encode("utf-16-le") + units[len(units) - 2 * end :]
                self.blocks[key] = made.decode("utf-16-le")
            self.drawn.append(self.blocks)
            if self.on_drawn is not None:
                self.on_drawn(self)

    def tell(self, content: Any) -> None:
        """Send a message of the page, a little later, as a kernel takes it."""
        message: dict[str, Any] = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        asyncio.get_event_loop().call_soon(self.comm.handle_msg, message)


@pytest.fixture
def live_page(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> LivePage:
    page = LivePage()
    monkeypatch.setattr("agui_client.notebook._live_cell.has_widgets", lambda: True)
    monkeypatch.setattr("agui_client.notebook._live_cell._WIDGET_SECONDS_APART", 0.02)

    def publish(comm: Any, *args: Any, **keys: Any) -> None:
        page.publish(comm, *args, **keys)

    monkeypatch.setattr("comm.DummyComm.publish_msg", publish)
    return page


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_widget_is_sent_what_is_new_and_leaves_the_result(cell: Cell, live_page: LivePage) -> None:
    prose = "".join(f"word {each} 🎈 **bold**\n\n" for each in range(200))
    states = [StateSnapshotEvent(snapshot={"count": count}) for count in range(2)]
    agent = ScriptedAgent(turn(reasoning("Hm. " * 50, delay=0.001), *states, text(prose, delay=0.002)))
    result = await show(agent.stream("Hi"))
    whole = len(bundle_of(result)["text/html"])
    assert len(live_page.drawn) > 10
    assert live_page.ended == bundle_of(result)["text/html"], "for a page that was opened again"
    assert live_page.sent < 4 * whole + 200 * len(live_page.drawn), "each drawing has only what is new"
    assert 'open><summary class="agui-dim">thought' in live_page.drawn[1]["message 1"]
    final = bundle_of(result)["text/html"]
    assert live_page.blocks["message 1"] in final
    assert live_page.blocks["state"] in final
    assert cell.drawings[-1]["text/plain"] == bundle_of(result)["text/plain"]
    assert re.sub(' id="[^"]*"', "", cell.drawings[-1]["text/html"]) == final


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_arguments_that_arrive_look_unfinished_and_stop_ends_the_run(live_page: LivePage) -> None:
    loop = asyncio.get_running_loop()

    def stop(page: LivePage) -> None:
        """Press Stop once the arguments have begun to arrive."""
        if "agui-unfinished" in "".join(page.blocks.values()):
            page.on_drawn = None
            loop.call_soon_threadsafe(page.tell, {"stop": True})

    live_page.on_drawn = stop
    call = tool_call("book", {"city": "Oslo", "note": "because " * 200}, delay=0.01)
    with fail_after(20):
        result = await show(ScriptedAgent(turn(call)).stream("Hi"))
    assert result.aborted
    assert "book …" in live_page.blocks["message 1"]


def test_a_chat_is_saved_as_one_page_with_all_of_it_and_nothing_that_runs_or_loads() -> None:
    hostile = "</style></title><script>alert(1)</script><img src=http://127.0.0.1:9/x>"
    answers = [turn(text(f"answer {number} {hostile}"), state({"n": number})) for number in range(70)]
    agent = ScriptedAgent(*answers)
    result = [agent.run_agent_sync(f"question {number}.") for number in range(70)][-1]
    by_result, by_agent = (html_page(shown, title=hostile).decode() for shown in (result, agent))
    for page in (by_result, by_agent, html_page(agent.messages).decode()):
        assert all(f"question {number}." in page and f"answer {number} " in page for number in range(70))
        assert ("<script" in page, "<img" in page, page.count("<style>")) == (False, False, 2)
    assert "default-src &#x27;none&#x27;" in by_agent or "default-src 'none'" in by_agent
    assert "<title>&lt;/style&gt;" in by_agent
