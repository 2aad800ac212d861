"""The acceptance lines of ag-ui's proposals for a Python client (#2799, #2800, #2801), one test for each.

What answers here is written with upstream's own server parts: its event classes, its encoder, and FastAPI.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import re
import runpy
import socket
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import ag_ui.core as agui
import anyio
import httpx
import pytest
from ag_ui.encoder import EventEncoder
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import agui_client
from agui_client import HttpAgent, IncompleteRunError, RunFailedError, ToolArgumentsError, tool
from agui_client.testing import serve
from support.tool_rounds import results_in

ROOT = Path(__file__).resolve().parents[3]
TOOLS_PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")

STARTED = agui.RunStartedEvent(thread_id="thread-1", run_id="run-1")
FINISHED = agui.RunFinishedEvent(thread_id="thread-1", run_id="run-1")


def said(*pieces: str, message_id: str = "m1") -> list[agui.BaseEvent]:
    """A text message."""
    contents = [agui.TextMessageContentEvent(message_id=message_id, delta=piece) for piece in pieces]
    return [
        agui.TextMessageStartEvent(message_id=message_id, role="assistant"),
        *contents,
        agui.TextMessageEndEvent(message_id=message_id),
    ]


def begun(tool_call_id: str, name: str) -> agui.BaseEvent:
    return agui.ToolCallStartEvent(tool_call_id=tool_call_id, tool_call_name=name)


def added(tool_call_id: str, piece: str) -> agui.BaseEvent:
    return agui.ToolCallArgsEvent(tool_call_id=tool_call_id, delta=piece)


def ended(tool_call_id: str) -> agui.BaseEvent:
    return agui.ToolCallEndEvent(tool_call_id=tool_call_id)


def called(name: str, *pieces: str, tool_call_id: str = "c1") -> list[agui.BaseEvent]:
    """A tool call."""
    return [begun(tool_call_id, name), *(added(tool_call_id, piece) for piece in pieces), ended(tool_call_id)]


def encoded(events: Iterable[agui.BaseEvent | str]) -> str:
    return "".join(event if isinstance(event, str) else EventEncoder().encode(event) for event in events)


def fixture_stream(*events: agui.BaseEvent | str) -> HttpAgent:
    """An agent whose server is a recorded stream; no socket is opened."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=encoded(events))

    def client() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    return HttpAgent("http://agent.test/", http_client=client, thread_id="thread-1")


class StarterServer:
    """A server such as upstream's starters: it calls the first tool it is offered, and says what came of it.

    Args:
        arguments: The text of the call's arguments.
    """

    def __init__(self, arguments: str) -> None:
        self.inputs: list[agui.RunAgentInput] = []
        self.app = FastAPI()
        self.app.post("/")(self._answer)
        self._arguments = arguments

    async def _answer(self, input: agui.RunAgentInput) -> StreamingResponse:
        self.inputs.append(input)
        stream = (EventEncoder().encode(event) async for event in self._events(input))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _events(self, input: agui.RunAgentInput) -> AsyncIterator[agui.BaseEvent]:
        yield agui.RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        last, number = input.messages[-1], len(input.messages)
        if isinstance(last, agui.ToolMessage):
            told = f"failed: {last.error}" if last.error else last.content
            parts = said("The tool said: ", str(told), message_id=f"m{number}")
        elif input.tools:
            name, text = input.tools[0].name, self._arguments
            parts = called(name, text[:5], text[5:], tool_call_id=f"c{number}")
        else:
            parts = said("Hello ", "world.", message_id=f"m{number}")
        for event in parts:
            yield event
            await anyio.lowlevel.checkpoint()
        yield agui.RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    @contextlib.contextmanager
    def running(self) -> Generator[str]:
        """Serve it; gives its address."""
        with serve(self.app) as server:
            yield server.url


@tool
def get_weather(city: str) -> str:
    """Current weather for a city.

    Args:
        city: The city.
    """
    if city == "Atlantis":
        raise LookupError("not on this map: /srv/maps/secret.db")
    return f"18 degrees in {city}"


# --- #2799: a minimal client for text


@pytest.mark.anyio
async def test_2799_a_user_message_to_a_local_server_gets_the_streamed_reply() -> None:
    with StarterServer("").running() as url:
        async with HttpAgent(url).stream("Hi") as run:
            pieces = [piece async for piece in run.text_stream]
            result = await run.result()
    assert (pieces, result.text) == (["Hello ", "world."], "Hello world.")
    assert [message.content for message in result.messages] == ["Hi", "Hello world."]


@pytest.mark.anyio
@pytest.mark.requirement("PROC-4")
async def test_2799_unknown_or_future_event_types_are_skipped_without_a_crash() -> None:
    future = 'data: {"type": "HOLOGRAM_SHOWN", "id": 7}\n\n'
    result = await fixture_stream(STARTED, future, *said("Hello"), FINISHED).run_agent("Hi", run_id="run-1")
    assert result.text == "Hello"
    assert [warning.message for warning in result.warnings] == ["unknown event type HOLOGRAM_SHOWN dropped"]


@pytest.mark.anyio
@pytest.mark.requirement("TRUNC-1")
async def test_2799_a_stream_that_ends_without_a_terminal_event_is_an_error() -> None:
    with pytest.raises(IncompleteRunError) as error:
        await fixture_stream(STARTED, *said("Hello")).run_agent("Hi", run_id="run-1")
    assert error.value.partial is not None
    assert error.value.partial.text == "Hello"


@pytest.mark.anyio
async def test_2799_run_error_becomes_an_exception() -> None:
    failed = agui.RunErrorEvent(message="overloaded", code="busy")
    with pytest.raises(RunFailedError, match="overloaded") as error:
        await fixture_stream(STARTED, failed).run_agent("Hi", run_id="run-1")
    assert error.value.code == "busy"


@pytest.mark.anyio
async def test_2799_text_messages_are_rebuilt_and_the_events_still_exposed() -> None:
    async with fixture_stream(STARTED, *said("Hello ", "world."), FINISHED).stream("Hi", run_id="run-1") as run:
        events = [event async for event in run]
    assert events == [STARTED, *said("Hello ", "world."), FINISHED]
    assert run.messages[-1].content == "Hello world."


def test_2799_tests_use_fixture_streams_without_a_network() -> None:
    def connect(self: socket.socket, address: object) -> None:
        pytest.fail("a connection was made")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        assert anyio.run(fixture_stream(STARTED, *said("Hello"), FINISHED).run_agent, "Hi").text == "Hello"


TYPESCRIPT_NAMES = (
    "runAgent", "run", "use", "subscribe", "addMessage", "addMessages", "setMessages", "setState", "clone",
    "abortRun", "connectAgent", "pendingInterrupts", "agentId", "description", "threadId", "messages", "state",
)  # fmt: skip
"""Members of `@ag-ui/client`'s AbstractAgent and HttpAgent."""


def test_2799_the_public_api_follows_the_names_of_the_typescript_client() -> None:
    names = {re.sub(r"([A-Z])", r"_\1", name).lower() for name in TYPESCRIPT_NAMES}
    agent = HttpAgent("http://localhost:9/", initial_messages=[], initial_state={}, headers={})
    assert names - set(dir(agent)) == set()
    assert {"AbstractAgent", "HttpAgent"} <= set(agui_client.__all__)
    assert {"initial_messages", "initial_state", "thread_id"} <= set(inspect.signature(HttpAgent).parameters)
    assert "ForwardRef" not in str(inspect.signature(HttpAgent))


# --- #2800: streaming tool calls, and a demo

INTERLEAVED = (
    begun("c1", "look"),
    begun("c2", "find"),
    added("c1", '{"at": '),
    added("c2", '{"what": "k'),
    added("c1", '"map"}'),
    added("c2", 'ey"}'),
    ended("c2"),
    ended("c1"),
)
SEQUENTIAL = (
    *called("look", '{"at": ', '"map"}'),
    *called("find", '{"what": "k', 'ey"}', tool_call_id="c2"),
)


@pytest.mark.anyio
@pytest.mark.parametrize("events", [SEQUENTIAL, INTERLEAVED], ids=["sequential", "interleaved"])
async def test_2800_sequential_and_interleaved_calls_both_decode(events: Sequence[agui.BaseEvent]) -> None:
    result = await fixture_stream(STARTED, *events, FINISHED).run_agent("Hi", run_id="run-1")
    assert [(call.id, call.function.name, call.function.arguments) for call in result.pending_tool_calls] == [
        ("c1", "look", '{"at": "map"}'),
        ("c2", "find", '{"what": "key"}'),
    ]


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-1")
async def test_2800_the_collected_arguments_parse_as_json_when_the_call_ends() -> None:
    at_the_end: dict[str, Any] = {}
    async with fixture_stream(STARTED, *INTERLEAVED, FINISHED).stream("Hi", run_id="run-1") as run:
        async for event in run:
            if isinstance(event, agui.ToolCallEndEvent):
                call = run.tool_calls[event.tool_call_id]
                assert json.loads(call.arguments_text) == call.arguments
                at_the_end[call.name] = call.arguments
    assert at_the_end == {"find": {"what": "key"}, "look": {"at": "map"}}


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-2")
async def test_2800_broken_arguments_are_an_error_that_names_the_call_and_does_not_end_the_stream() -> None:
    events = (*called("look", '{"at": ', tool_call_id="c9"), *said("Hello"))
    async with fixture_stream(STARTED, *events, FINISHED).stream("Hi", run_id="run-1") as run:
        types = [event.type.value async for event in run]
        with pytest.raises(ToolArgumentsError, match="the arguments of tool call 'c9' are not JSON") as error:
            assert run.tool_calls["c9"].arguments
    assert (error.value.tool_call_id, types[-1]) == ("c9", "RUN_FINISHED")
    assert (await run.result()).text == "Hello"


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-2")
async def test_2800_broken_arguments_of_a_registered_tool_are_told_to_the_agent_by_the_id_of_the_call() -> None:
    server = StarterServer('{"city": ')
    with server.running() as url:
        result = await HttpAgent(url, tools=[get_weather]).run_agent("Weather?")
    ((tool_call_id, _, error),) = results_in(server.inputs[1].messages)
    assert (tool_call_id, str(error).startswith("tool call 'c1': the arguments are not JSON: ")) == ("c1", True)
    assert result.text.startswith("The tool said: failed: tool call 'c1'")


@pytest.mark.anyio
async def test_2800_the_demo_prints_calls_as_they_stream_from_a_starter_server() -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "tools.py"))
    printed = io.StringIO()
    with StarterServer('{"city": "Oslo"}').running() as url, contextlib.redirect_stdout(printed):
        await demo["main"](url)
    lines = printed.getvalue().splitlines()
    assert lines[:2] == ["[get_weather is called with {}]", "[get_weather is called with {'city': 'Oslo'}]"]
    assert "The tool said: 18 degrees" in lines
    assert "python examples/tools.py http://localhost:8000/agent" in str(demo["__doc__"])


# --- #2801: tools of the application


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-8")
async def test_2801_a_registered_tool_is_advertised_and_called() -> None:
    server = StarterServer('{"city": "Oslo"}')
    with server.running() as url:
        result = await HttpAgent(url, tools=[get_weather]).run_agent("Weather?")
    assert server.inputs[0].tools == [get_weather.definition]
    assert [(each.name, each.arguments, each.status) for each in result.tool_executions] == [
        ("get_weather", {"city": "Oslo"}, "succeeded")
    ]


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-10")
async def test_2801_the_result_returns_and_the_conversation_completes() -> None:
    server = StarterServer('{"city": "Oslo"}')
    with server.running() as url:
        agent = HttpAgent(url, tools=[get_weather])
        result = await agent.run_agent("Weather?")
    assert results_in(server.inputs[1].messages) == [("c1", "18 degrees in Oslo", None)]
    assert (result.text, result.pending_tool_calls) == ("The tool said: 18 degrees in Oslo", [])
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.outcome == agui.RunFinishedSuccessOutcome()


@pytest.mark.anyio
@pytest.mark.requirement("TOOL-10")
async def test_2801_an_exception_in_a_tool_is_reported_as_a_tool_error_neither_swallowed_nor_fatal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "agui_client.tools")
    server = StarterServer('{"city": "Atlantis"}')
    with server.running() as url:
        result = await HttpAgent(url, tools=[get_weather]).run_agent("Weather?")
    ((_, content, error),) = results_in(server.inputs[1].messages)
    assert content == error == "The tool failed because of an internal error of the application."
    assert result.text == f"The tool said: failed: {error}"
    (record,) = [record for record in caplog.records if record.exc_info]
    assert isinstance(record.exc_info[1] if record.exc_info else None, LookupError)


def test_2801_a_page_walks_through_the_cycle() -> None:
    section = TOOLS_PAGE.partition("\n## A function as a tool\n")[2].partition("\n## ")[0]
    steps = ("@tool", "ToolError", "tools=[", "run_agent(", "result.text", "tool_executions")
    assert [step for step in steps if step not in section] == []
    # tests/examples/test_readme.py runs it.


@pytest.mark.parametrize("verb", ["run_agent", "run_agent_sync"])
def test_2801_a_round_trip_end_to_end_against_a_fixture_server(verb: str) -> None:
    server = StarterServer('{"city": "Turin"}')
    with server.running() as url:
        agent = HttpAgent(url, tools=[get_weather])
        result = anyio.run(agent.run_agent, "Weather?") if verb == "run_agent" else agent.run_agent_sync("Weather?")
        again = agent.run_agent_sync("And again?")
    assert (result.text, again.text) == ("The tool said: 18 degrees in Turin",) * 2
    assert [len(asked.messages) for asked in server.inputs] == [1, 3, 5, 7]
    assert again.warnings == []
