"""Tools of real MCP servers in processes of their own, over stdio and HTTP, of the present protocol and an older."""

from __future__ import annotations

import base64
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from ast import literal_eval
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import httpx2
import psutil
import pytest
from ag_ui.core import ImagePart, Interrupt

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

from mcp.server.mcpserver import Context, MCPServer

from agui_client import (
    ApprovalRequest,
    Approve,
    Cancel,
    Deny,
    Resolve,
    RunResult,
    ToolLimits,
    ToolsetError,
    UsageError,
    tool,
)
from agui_client.mcp import StdioServerParameters, mcp_server
from agui_client.testing import ScriptedAgent, serve, text, tool_call, turn
from agui_client.types import Answer
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.mcp_house import PIXEL, make_older_server, make_server
from support.tool_rounds import results_in, tools_sent
from support.verbs import Verb, every_result_verb
from support.waiting import until, until_sync

# The SDK reads a stream of events up to the answer, and leaves the generators to the event loop; trio warns of that.
OF_OTHERS = frozenset({"mcp", "httpx2", "httpcore2", "AnyIO worker thread", "asyncio_"})
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(mcp|httpx2|httpcore2)[.]:ResourceWarning")

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of processes, which cost a second each, and of what no event loop has a part in."""
HOUSE = str(Path(__file__).parents[1] / "support" / "mcp_house.py")
SECONDS = 20.0
"""The time that a server and its libraries have to start on a busy machine."""


def over_stdio(*options: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[HOUSE, "stdio", *options])


@contextmanager
def over_http() -> Generator[str]:
    """Serve in a process of its own; the URL."""
    with subprocess.Popen(
        [sys.executable, HOUSE, "http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


@pytest.fixture(autouse=True, scope="module")
def _collect() -> Iterator[None]:
    """Collect what others leave before the tests of another module, which take warnings for errors."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """Servers in threads, which start sooner than processes."""
    present, older = make_server().streamable_http_app(), make_older_server().streamable_http_app()
    with serve(present) as served, serve(older) as served_older:
        yield {"http": f"{served.url}mcp", "http-older": f"{served_older.url}mcp"}


@pytest.fixture
def server(request: pytest.FixtureRequest, urls: dict[str, str]) -> Any:
    kind: str = request.param
    return urls[kind] if kind in urls else make_server()


def calling(*calls: tuple[str, dict[str, Any]], tools: Any, **options: Any) -> ScriptedAgent:
    """An agent that makes one call a run."""
    turns = [turn(tool_call(name, arguments)) for name, arguments in calls]
    return ScriptedAgent(*turns, turn(text("Done.")), tools=tools, **options)


def results(result: RunResult | None) -> list[tuple[Any, str | None]]:
    assert result is not None
    return [(content, error) for _, content, error in results_in(result.new_messages)]


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("add", {"a": 1}),
    ("measure", {"city": "Oslo"}),
    ("draw", {}),
    ("show_everything", {}),
    ("fail", {}),
    ("count", {"to": 3}),
    ("reserve", {"day": "Monday"}),
    ("add", {"a": "one"}),
)


def assert_that_all_kinds_arrived(agent: ScriptedAgent, result: RunResult, questions: list[Interrupt]) -> None:
    assert tools_sent(agent.inputs[0])[:3] == ["add", "measure", "draw"]
    offered = agent.inputs[0].tools or []
    assert offered[0].parameters is not None
    assert offered[0].parameters["required"] == ["a"]
    added, measured, drawn, everything, failed, counted, reserved, refused = results(result)[: len(CALLS)]
    assert (added, reserved) == (("2", None), ("4 seats on Monday", None))
    assert measured == ('{"city":"Oslo","celsius":18}', None)
    assert counted == ('{"result":"done"}', None)
    assert failed == ("The oven is off.", "The oven is off.")
    assert "a: " in str(refused[1])
    sentence, picture = drawn[0]
    assert sentence.text == "A pixel:"
    assert isinstance(picture, ImagePart)
    assert base64.b64decode(picture.source.value) == PIXEL
    assert [part.type for part in everything[0]] == ["audio", "text", "text", "document"]
    assert [part.text for part in everything[0][1:3]] == ["report: file:///report.txt", "A note."]
    [counting] = [each for each in result.tool_executions if each.name == "count"]
    assert counting.progress == tuple({"progress": n, "total": 3, "message": f"{n}"} for n in (1, 2, 3))
    [question] = questions
    assert (question.message, question.tool_call_id) == ("How many seats on Monday?", "call-7")


def answering(questions: list[Interrupt]) -> Callable[[Interrupt], Resolve]:
    """A function that takes four seats, and notes the questions."""

    def answer(question: Interrupt) -> Resolve:
        questions.append(question)
        return Resolve({"seats": 4})

    return answer


@pytest.mark.anyio
async def test_tools_of_a_server_are_offered_and_called_and_all_kinds_of_results_arrive(urls: dict[str, str]) -> None:
    questions: list[Interrupt] = []
    agent = calling(*CALLS, tools=[mcp_server(urls["http"])], answer=answering(questions))
    with anyio.fail_after(SECONDS):
        async with nothing_left_behind(apart_from=OF_OTHERS):
            result = await agent.run_agent("Hi")
    assert_that_all_kinds_arrived(agent, result, questions)


def test_a_program_is_called_without_await_like_a_remote_server_and_ends_with_the_call() -> None:
    questions: list[Interrupt] = []
    agent = calling(*CALLS, ("get_pid", {}), tools=[mcp_server(over_stdio())], answer=answering(questions))
    with nothing_left_behind_sync():
        result = agent.run_agent_sync("Hi")
        pid = int(results(result)[-1][0])
        until_sync(lambda: not psutil.pid_exists(pid))
    assert_that_all_kinds_arrived(agent, result, questions)


@every_result_verb
def test_a_server_is_called_by_every_verb_in_one_event_loop_after_the_other(verb: Verb, urls: dict[str, str]) -> None:
    tools = mcp_server(urls["http"])
    for number in (1, 2):
        agent = calling(("add", {"a": number}), tools=tools)
        assert results(verb(agent, "Hi").result) == [(str(number + 1), None)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Resolve({"seats": 2}), "2 seats on Monday"),
        (Cancel(), "cancel"),
        (Deny(), "decline"),
        (Resolve({"seats": "two"}), "could not be used"),
    ],
    ids=["answered", "cancelled", "denied", "misfit"],
)
@pytest.mark.parametrize("kind", ["object", "http-older"])
async def test_an_answer_to_a_question_of_a_server_arrives_there(
    kind: str, answer: Answer, expected: str, urls: dict[str, str]
) -> None:
    server = urls.get(kind) or make_server()

    def answered(question: Interrupt) -> Answer:
        return answer

    agent = calling(("reserve", {"day": "Monday"}), tools=mcp_server(server), answer=answered)
    with anyio.fail_after(SECONDS):
        [(content, error)] = results(await agent.run_agent("Hi"))
    assert expected.lower() in content.lower()
    assert (error is None) == (expected == "2 seats on Monday")


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize(("answer", "action"), [(Approve(), "accept"), (Deny(), "decline"), (Cancel(), "cancel")])
async def test_a_form_without_fields_is_a_yes_or_no(answer: Answer, action: str, urls: dict[str, str]) -> None:
    def answered(question: Interrupt) -> Answer:
        return answer

    agent = calling(("confirm", {}), tools=mcp_server(urls["http-older"]), answer=answered)
    with anyio.fail_after(SECONDS):
        assert results(await agent.run_agent("Hi")) == [(f'{{"result":"{action}"}}', None)]


@pytest.mark.anyio
@on_asyncio
async def test_a_default_that_does_not_fit_its_own_type_is_left_to_the_server() -> None:
    server = MCPServer("notes")

    @server.tool()
    def note(text: str, copies: int = 1, folder: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013 - as servers write it
        return f"{text} in {folder}, {copies} times"

    seen: list[ApprovalRequest] = []
    agent = calling(("note", {"text": "milk"}), tools=mcp_server(server, approval="always"), approve=_noting(seen))
    with anyio.fail_after(SECONDS):
        assert results(await agent.run_agent("Hi")) == [('{"result":"milk in None, 1 times"}', None)]
    assert [each.arguments for each in seen] == [{"text": "milk", "copies": 1}]
    parameters: Any = seen[0].tool.parameters
    assert parameters["properties"]["folder"] == {"default": None, "title": "Folder", "type": "string"}


def _noting(seen: list[ApprovalRequest]) -> Callable[[ApprovalRequest], bool]:
    """An approver who approves everything."""

    def approve(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    return approve


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize(("given", "days"), [({"car": "red"}, 3), ({"car": "red", "days": 1}, 1)])
async def test_a_field_that_is_left_out_has_the_default_that_the_server_names(
    given: dict[str, Any], days: int, urls: dict[str, str]
) -> None:

    def answered(question: Interrupt) -> Answer:
        return Resolve(given)

    agent = calling(("rent", {}), tools=mcp_server(urls["http-older"]), answer=answered)
    with anyio.fail_after(SECONDS):
        [(content, error)] = results(await agent.run_agent("Hi"))
    assert error is None
    assert literal_eval(json.loads(content)["result"]) == {"car": "red", "days": days}


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize(
    ("answer", "action"),
    [(Approve(), "accept"), (Resolve(payload=False), "decline"), (Cancel(), "cancel")],
)
async def test_a_page_to_open_is_a_question_with_its_address(answer: Answer, action: str, urls: dict[str, str]) -> None:
    questions: list[Interrupt] = []

    def answered(question: Interrupt) -> Answer:
        questions.append(question)
        return answer

    agent = calling(("open_page", {}), tools=mcp_server(urls["http-older"]), answer=answered)
    with anyio.fail_after(SECONDS):
        assert results(await agent.run_agent("Hi")) == [(f'{{"result":"{action}"}}', None)]
    assert [each.message for each in questions] == ["Please sign in.\nhttps://house.example/login"]


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "anyio_backend"), [("stdio", "asyncio"), ("http", "asyncio"), ("http", "trio")])
async def test_a_question_goes_to_the_person_whose_call_it_is_about(kind: str, urls: dict[str, str]) -> None:
    # Over stdio, the older protocol does not say which call a question is about: two people cannot be told apart.
    tools = mcp_server(urls["http-older"] if kind == "http" else over_stdio("--older"))
    both = anyio.Event()
    asked: dict[str, list[str | None]] = {"Ann": [], "Bob": []}
    ends: dict[str, list[tuple[Any, str | None]]] = {}

    async def run(person: str, seats: int) -> None:
        async def answer(question: Interrupt) -> Resolve:
            asked[person].append(question.message)
            if all(asked.values()):
                both.set()
            await both.wait()
            return Resolve({"seats": seats})

        agent = calling(("reserve", {"day": person}), tools=tools, answer=answer)
        ends[person] = results(await agent.run_agent("Hi"))

    with anyio.fail_after(SECONDS):
        async with tools, anyio.create_task_group() as tasks:
            tasks.start_soon(run, "Ann", 1)
            if kind == "stdio":
                await until(lambda: asked["Ann"])
                await run("Bob", 2)
                both.set()
            else:
                tasks.start_soon(run, "Bob", 2)
    assert ends["Ann"] == [("1 seats on Ann", None)]
    if kind == "http":
        assert ends["Bob"] == [("2 seats on Bob", None)]
        assert asked == {"Ann": ["How many seats on Ann?"], "Bob": ["How many seats on Bob?"]}
    else:
        assert "not clear which of the calls" in str(ends["Bob"][0][1])
        assert asked == {"Ann": ["How many seats on Ann?"], "Bob": []}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_program_serves_calls_at_once_is_started_again_when_it_died_and_ends_when_its_call_is_left() -> None:
    tools = mcp_server(over_stdio())
    many = turn(*[tool_call("add", {"a": number}) for number in range(5)])
    sums: list[list[tuple[Any, str | None]]] = []
    agent = calling(("get_pid", {}), ("die", {}), ("get_pid", {}), ("wait", {}), tools=tools)

    async def run() -> None:
        sums.append(results(await ScriptedAgent(many, turn(text("Done.")), tools=tools).run_agent("Hi")))

    with anyio.fail_after(SECONDS):
        async with nothing_left_behind(apart_from=OF_OTHERS):
            async with AsyncExitStack() as block:
                await block.enter_async_context(tools)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run)
                    tasks.start_soon(run)
                [program] = servers_of_this_process()
                async with agent.stream("Hi") as last:
                    async for _ in last:
                        if len(agent.inputs) == 4:
                            break
                    await block.aclose()
                    assert len(servers_of_this_process()) == 1
            await until(lambda: not servers_of_this_process())
    assert sums == [[(str(number + 1), None) for number in range(5)]] * 2
    (_, first, _), (_, _, died), (_, second, _) = results_in(agent.messages)
    assert died == "The tool server house went away; the effect of the call is unknown."
    assert (first == str(program.pid), first != second) == (True, True)


@pytest.mark.anyio
@on_asyncio
async def test_a_remote_server_that_dies_in_mid_call_fails_that_call_and_those_after_it() -> None:
    with over_http() as url:
        agent = calling(("die", {}), ("add", {"a": 1}), tools=mcp_server(url))
        with anyio.fail_after(SECONDS):
            async with nothing_left_behind(apart_from=OF_OTHERS):
                died, gone = results(await agent.run_agent("Hi"))
    assert died[1] == "The tool server house went away; the effect of the call is unknown."
    assert gone[1] == "The tool server house cannot be reached."


@pytest.fixture(params=[make_server, make_older_server], ids=["present", "older"])
def two_apps(request: pytest.FixtureRequest) -> list[Any]:
    """One server twice, made outside of the event loop of the test, which is not its own."""
    return [request.param().streamable_http_app() for _ in range(2)]


@pytest.mark.anyio
async def test_a_remote_server_may_go_and_come_back_while_a_connection_is_kept(two_apps: list[Any]) -> None:
    before, after = two_apps
    with serve(before) as first:
        port = urlsplit(first.url).port or 0
        tools = mcp_server(f"{first.url}mcp")
        with anyio.fail_after(SECONDS):
            await tools.__aenter__()
            assert results(await calling(("add", {"a": 1}), tools=tools).run_agent("Hi")) == [("2", None)]
    with serve(after, port=port), anyio.fail_after(SECONDS):
        assert results(await calling(("add", {"a": 1}), tools=tools).run_agent("Hi")) == [("2", None)]
        await tools.__aexit__(None, None, None)


@pytest.mark.anyio
async def test_a_server_that_cannot_be_reached_ends_the_call_before_anything_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for server in (f"http://127.0.0.1:{port}/mcp", StdioServerParameters(command="/no/such/program")):
        agent = calling(("add", {"a": 1}), tools=mcp_server(server))
        async with nothing_left_behind(apart_from=OF_OTHERS):
            with anyio.fail_after(SECONDS), pytest.raises(ToolsetError, match="could not list its tools"):
                await agent.run_agent("Hi")
        assert agent.inputs == []


class CountingServer(MCPServer):
    """A server that counts how often it lists its tools."""

    lists = 0

    async def list_tools(self) -> Any:
        self.lists += 1
        return await super().list_tools()


def make_growing_server() -> CountingServer:
    """A server with a tool that adds another one, and says so."""
    server = CountingServer("garden", log_level="ERROR")

    def tree() -> str:
        """Be a tree."""
        return "oak"

    async def plant(ctx: Context) -> str:
        server.add_tool(tree)
        await ctx.notify_tools_changed()
        return "planted"

    server.add_tool(plant)
    return server


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "anyio_backend"), [("http", "asyncio"), ("object", "asyncio"), ("object", "trio")])
async def test_a_list_is_asked_for_again_when_the_connection_is_new_or_the_server_says_that_it_changed(
    kind: str,
) -> None:
    server = make_growing_server()
    with ExitStack() as stack:
        address = f"{stack.enter_context(serve(server.streamable_http_app())).url}mcp" if kind == "http" else server
        tools = mcp_server(address)

        async def names(*calls: str) -> list[list[str]]:
            agent = calling(*((each, dict[str, Any]()) for each in calls), tools=tools)
            await agent.run_agent("Hi")
            return [tools_sent(each) for each in agent.inputs]

        with anyio.fail_after(SECONDS):
            await names()
            async with tools:
                # The first call of a connection lists, and so does the second, which listens for changes from then on.
                assert [await names() for _ in range(4)] == [[["plant"]]] * 4
                assert server.lists == 3
                await names("plant")
                while await names() != [["plant", "tree"]]:
                    await anyio.lowlevel.checkpoint()
                assert server.lists == 4
                assert await names("tree") == [["plant", "tree"]] * 2
            await names("tree")
    assert server.lists == 5


@pytest.mark.anyio
async def test_a_call_goes_on_without_an_optional_server_that_cannot_be_used(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    dead = mcp_server(f"http://127.0.0.1:{port}/mcp", name="weather", optional=True)
    agent = calling(("add", {"a": 1}), tools=[mcp_server(make_server(), include=["add"]), dead])
    with anyio.fail_after(SECONDS):
        async with nothing_left_behind(apart_from=OF_OTHERS):
            assert results(await agent.run_agent("Hi")) == [("2", None)]
    assert [tools_sent(each) for each in agent.inputs] == [["add"]] * 2
    [warning] = [record for record in caplog.records if record.name == "agui_client.mcp"]
    assert (warning.levelname, warning.getMessage()[:39]) == ("WARNING", "the tool server weather is left out: Co")


@pytest.mark.anyio
@on_asyncio
async def test_a_server_that_is_silent_for_too_long_fails_its_call(urls: dict[str, str]) -> None:
    agent = calling(("wait", {}), ("add", {"a": 1}), tools=mcp_server(urls["http"], idle=1))
    with anyio.fail_after(SECONDS):
        silent, added = results(await agent.run_agent("Hi"))
    assert silent[1] == "The tool server house went away; the effect of the call is unknown."
    assert added == ("2", None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("server", "anyio_backend"),
    [("http", "asyncio"), ("http", "trio"), ("http-older", "asyncio"), ("object", "trio")],
    indirect=["server"],
)
async def test_a_tool_that_takes_too_long_is_given_up_and_the_server_stays(server: Any) -> None:
    limits = ToolLimits(timeout=1)
    agent = calling(("wait", {}), ("add", {"a": 1}), tools=mcp_server(server), tool_limits=limits)
    with anyio.fail_after(SECONDS):
        late, added = results(await agent.run_agent("Hi"))
    assert "longer than 1 second" in str(late[1])
    assert added == ("2", None)


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")
async def test_sampling_is_denied(urls: dict[str, str]) -> None:
    agent = calling(("dream", {}), tools=mcp_server(urls["http-older"]))
    with anyio.fail_after(SECONDS):
        [(_, error)] = results(await agent.run_agent("Hi"))
    assert error == "The tool server house refused the call: Sampling not supported"


@pytest.mark.anyio
@on_asyncio
async def test_tools_are_included_and_excluded_by_the_names_of_the_server() -> None:
    agent = calling(("add", {"a": 1}), tools=mcp_server(make_server(), include=["add", "draw"], exclude=["draw"]))
    assert results(await agent.run_agent("Hi")) == [("2", None)]
    assert tools_sent(agent.inputs[0]) == ["add"]


@pytest.mark.anyio
@on_asyncio
async def test_tools_for_the_app_of_a_server_alone_are_not_offered_and_what_it_says_of_pages_is_kept() -> None:
    server = MCPServer("pages")
    page = {"resourceUri": "ui://pages/board", "visibility": ["model", "app"]}

    @server.tool(meta={"ui": page})
    def board() -> str:
        return "shown"

    @server.tool(meta={"ui": {"resourceUri": "ui://pages/board", "visibility": ["app"]}})
    def move() -> str:
        return "moved"

    agent = calling(("board", {}), tools=mcp_server(server))
    assert results(await agent.run_agent("Hi")) == [('{"result":"shown"}', None)]
    [offered] = agent.inputs[0].tools or []
    assert (offered.name, offered.metadata) == ("board", {"ui": page})


@pytest.mark.anyio
@on_asyncio
async def test_however_a_server_writes_it_a_tool_is_for_the_model_if_that_is_named_or_nobody_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = MCPServer("pages")
    said: list[object] = [None, "model", "Model", ["app", " MODEL "], "app", "App", [], ["APP"]]
    unknown: list[object] = ["person", ["person", 5], 5, {"model": True}, True, "", [["model"]]]
    for number, visibility in enumerate([*said, *unknown]):
        server.tool(name=f"t{number:02}", meta={"ui": {"visibility": visibility}})(lambda: "seen")
    agent = ScriptedAgent(turn(text("Hi")), tools=mcp_server(server, include=["t00", "t03", "t04", "t06"]))
    await agent.run_agent("Hi")
    assert tools_sent(agent.inputs[0]) == ["t00", "t03"]
    [warned] = [each.getMessage() for each in caplog.records if "its own app" in each.getMessage()]
    assert warned == "the tool server pages keeps 't04', 't06' for its own app, which include= does not change"
    every = ScriptedAgent(turn(text("Hi")), tools=mcp_server(server))
    await every.run_agent("Hi")
    assert tools_sent(every.inputs[0]) == ["t00", "t01", "t02", "t03"]


@pytest.mark.anyio
@on_asyncio
async def test_a_name_that_the_server_does_not_have_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer("small")

    @server.tool()
    def look() -> str:
        return "seen"

    agent = ScriptedAgent(turn(text("Hi")), tools=mcp_server(server, include=["look", "lok"], exclude=["rm"]))
    await agent.run_agent("Hi")
    said = [each.getMessage() for each in caplog.records if "has no tool" in each.getMessage()]
    assert said == [
        "the tool server small has no tool 'lok', which include= names; its tools are 'look'",
        "the tool server small has no tool 'rm', which exclude= names; its tools are 'look'",
    ]


@tool
def add(a: int) -> str:
    """Add elsewhere."""
    return "elsewhere"


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_tool_whose_name_is_taken_is_offered_with_the_name_of_its_server(is_first: bool) -> None:
    garden = mcp_server(make_server("garden"), include=["add"])
    shed = mcp_server(make_server("garden"), name="my shed", include=["add", "draw"])
    tools = [add, garden, shed] if is_first else [garden, shed, add]
    agent = calling(("add", {"a": 1}), ("mcp__garden__add", {"a": 1}), tools=tools)
    assert results(await agent.run_agent("Hi")) == [("elsewhere", None), ("2", None)]
    names = tools_sent(agent.inputs[0])
    [odd] = set(names) - {"add", "draw", "mcp__garden__add"}
    assert odd.startswith("mcp__my_shed__add_")
    assert results(await calling((odd, {"a": 2}), tools=tools).run_agent("Hi")) == [("3", None)]


def test_what_is_no_tool_server_is_told_how_it_becomes_one() -> None:
    with pytest.raises(UsageError, match=r"starts with http:// or https://; a program is given as StdioServerParam"):
        mcp_server("uvx mcp-server-time")
    wrong: Any = make_server()
    with pytest.raises(
        UsageError, match=r"agui_client\.mcp has mcp_server\(\.\.\.\), which makes tools of an MCP server"
    ):
        ScriptedAgent(turn(text("Hi")), tools=[wrong])


@pytest.mark.anyio
@on_asyncio
async def test_two_servers_of_one_name_need_another() -> None:
    tools = [mcp_server(make_server(), include=["add"]), mcp_server(make_server(), include=["add"])]
    with pytest.raises(UsageError, match="mcp__house__add"):
        await calling(("add", {}), tools=tools).run_agent("Hi")


@pytest.mark.anyio
@on_asyncio
async def test_a_name_that_models_would_not_accept_is_cut() -> None:
    name = "a_tool_with_an_odd_name_that_is_far_too_long_for_the_pr_a7b45b24"
    agent = calling((name, {}), tools=mcp_server(make_server()))
    assert results(await agent.run_agent("Hi")) == [("odd", None)]
    assert all(len(each) <= 64 for each in tools_sent(agent.inputs[0]))


@pytest.mark.anyio
@on_asyncio
async def test_long_names_of_two_servers_stay_apart_and_within_what_models_accept() -> None:
    tools = [mcp_server(make_server(each), name=each * 30) for each in ("shed", "garden")]
    agent = calling(("add", {"a": 1}), tools=tools)
    await agent.run_agent("Hi")
    names = tools_sent(agent.inputs[0])
    assert len(set(names)) == len(names)
    assert all(0 < len(each) <= 64 for each in names)
    assert all(each.startswith("mcp__") for each in names)
    result = await calling(*((name, dict[str, Any]()) for name in names[-2:]), tools=tools).run_agent("Hi")
    assert len(results(result)) == 2


@pytest.mark.anyio
@on_asyncio
async def test_calls_wait_for_approval_by_the_rule_that_was_given() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.name)
        return False

    def is_drawing(request: ApprovalRequest) -> bool:
        return request.name == "draw"

    tools = mcp_server(make_server(), approval=is_drawing)
    agent = calling(("add", {"a": 1}), ("draw", {}), tools=tools, approve=approve)
    added, drawn = results(await agent.run_agent("Hi"))
    assert (added, asked) == (("2", None), ["draw"])
    assert drawn[1] is not None


@pytest.mark.anyio
@on_asyncio
async def test_an_own_function_answers_the_questions_of_a_server() -> None:
    from mcp_types import ElicitRequestParams, ElicitResult

    async def elicit(ctx: Any, params: ElicitRequestParams) -> ElicitResult:
        await anyio.lowlevel.checkpoint()
        return ElicitResult(action="accept", content={"seats": len(ctx.tool_call_id)})

    agent = calling(("reserve", {"day": "Monday"}), tools=mcp_server(make_server(), elicit=elicit))
    assert results(await agent.run_agent("Hi")) == [("6 seats on Monday", None)]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["http", "http-older"])
async def test_headers_reach_the_server_and_no_log_and_no_representation(
    kind: str, urls: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tools = mcp_server(urls[kind], headers={"Authorization": "Bearer s3cret"})
    agent = calling(("get_authorization", {}), tools=tools)
    with anyio.fail_after(SECONDS):
        async with nothing_left_behind(apart_from=OF_OTHERS):
            assert results(await agent.run_agent("Hi")) == [("Bearer s3cret", None)]
    assert "s3cret" not in repr((tools, agent))
    # The SDK logs results when it is asked to, and no request's headers.
    logged = [record.getMessage() for record in caplog.records if "s3cret" in record.getMessage()]
    assert [line for line in logged if "uthorization" in line.replace("get_authorization", "")] == []


class SignedIn(httpx2.Auth):
    """Gets a token from the server itself, as an `OAuthClientProvider` does, before the first request."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self.asked:
            response = yield httpx2.Request("GET", request.url.join("/token"))
            self.asked.append(f"{response.status_code} {response.url.query.decode()}")
        request.headers["Authorization"] = "Bearer s3cret"
        yield request


@pytest.mark.anyio
@on_asyncio
async def test_a_class_of_the_sdk_signs_in_at_a_server(urls: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    signed_in = SignedIn()
    tools = mcp_server(f"{urls['http']}?key=s3cret", auth=signed_in)
    with anyio.fail_after(SECONDS):
        assert results(await calling(("get_authorization", {}), tools=tools).run_agent("Hi")) == [
            ("Bearer s3cret", None)
        ]
    # The query of the server's address is for the server alone.
    assert signed_in.asked == ["404 "]
    logged = [each.getMessage() for each in caplog.records if not each.name.startswith("uvicorn")]
    assert "s3cret" not in f"{logged}{tools!r}"
    wrong: Any = httpx.BasicAuth("ann", "s3cret")
    for server, auth in ((urls["http"], wrong), (over_stdio(), signed_in)):
        with pytest.raises(UsageError, match=r"auth= of a tool server is an httpx2\.Auth") as caught:
            mcp_server(server, auth=auth)
        assert "s3cret" not in str(caught.value)


@pytest.mark.anyio
@on_asyncio
async def test_a_password_in_an_address_reaches_the_server_and_no_log(
    urls: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tools = mcp_server(urls["http"].replace("http://", "http://ann:s3cret%21@"))
    with anyio.fail_after(SECONDS):
        [(sent, _)] = results(await calling(("get_authorization", {}), tools=tools).run_agent("Hi"))
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"ann:s3cret!"
    assert "s3cret" not in caplog.text + repr(tools)


@pytest.mark.anyio
@on_asyncio
async def test_a_refused_credential_is_an_error_without_it() -> None:
    address = "http://ann:s3cret@127.0.0.1:{port}/mcp?key=s3cret"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    agent = calling(("add", {"a": 1}), tools=mcp_server(address.format(port=port)))
    with anyio.fail_after(SECONDS), pytest.raises(ToolsetError) as caught:
        await agent.run_agent("Hi")
    assert "s3cret" not in f"{caught.value!r}{caught.value.__cause__!r}"


def servers_of_this_process() -> list[psutil.Process]:
    """The servers that were started here and still run."""
    children = psutil.Process().children()
    return [each for each in children if each.is_running() and each.status() != psutil.STATUS_ZOMBIE and is_house(each)]


def is_house(process: psutil.Process) -> bool:
    try:
        return "stdio" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.anyio
@on_asyncio
async def test_a_frozen_server_is_ended_with_its_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for patience in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT"):
        monkeypatch.setattr(f"mcp.client.stdio.{patience}", 0.1)
    tools = mcp_server(over_stdio())
    with anyio.fail_after(SECONDS):
        async with tools:
            [(pid, _)] = results(await calling(("get_pid", {}), tools=tools).run_agent("Hi"))
            os.kill(int(pid), signal.SIGSTOP)
    until_sync(lambda: not psutil.pid_exists(int(pid)))


@pytest.mark.anyio
@pytest.mark.skipif(
    find_spec("mcp_server_time") is None, reason="needs a server of others: pip install mcp-server-time"
)
@on_asyncio
async def test_a_server_that_others_wrote_is_called() -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "mcp_server_time", "--local-timezone=UTC"])
    zones = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    wrong = {"timezone": "Nowhere/Here"}
    agent = calling(("convert_time", zones), ("get_current_time", wrong), tools=mcp_server(command, name="time"))
    with anyio.fail_after(SECONDS):
        async with nothing_left_behind(apart_from=OF_OTHERS):
            converted, failed = results(await agent.run_agent("When is it?"))
    assert tools_sent(agent.inputs[0]) == ["get_current_time", "convert_time"]
    assert "21:00" in converted[0]
    assert converted[1] is None
    assert "Nowhere/Here" in str(failed[1])
