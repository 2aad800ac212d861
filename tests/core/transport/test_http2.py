"""HTTP/2: runs that share one connection, and end or are left without harm to each other."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, TextMessageContentEvent
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from starlette.types import Receive, Send

from agui_client import AgentRun, ConnectError, HttpAgent, IncompleteRunError, RunResult
from agui_client.testing import Gate, ScriptedAgent, ScriptedApp, Step, agui_app, pause, sse, text, turn
from support.http2 import STREAMS_AT_ONCE, begin, http2_client, serve_http2, serve_raw_http2
from support.leaks import nothing_left_behind
from support.waiting import LIMIT, SOON, until

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
"""RUN_STARTED, TEXT_MESSAGE_START and two words."""

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


@dataclass
class Service:
    """A server that is running, and what it saw.

    Asked to "wait" it says two words and then nothing more; asked to "go on" it says the second one when the gate is
    opened; otherwise it says "Hello."
    """

    url: str = ""
    gate: Gate = field(default_factory=Gate)
    connections: set[int] = field(default_factory=set[int])
    """The ports that clients came from."""

    def __post_init__(self) -> None:
        self.app: ScriptedApp = agui_app(ScriptedAgent(self._answer))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.connections.add(scope["client"][1])
        await self.app(scope, receive, send)

    async def _answer(self, input: RunAgentInput) -> AsyncIterator[Step]:
        match input.messages[-1].content:
            case "wait":
                yield turn(text("One two"), pause(math.inf))
            case "go on":
                yield turn(text("One "), self.gate, text("two"))
            case _:
                yield turn(text("Hello."))


@contextmanager
def serving() -> Generator[Service]:
    service = Service()
    with serve_http2(service) as service.url:
        yield service


@asynccontextmanager
async def sharing() -> AsyncGenerator[tuple[Service, HttpAgent]]:
    """A server, and an agent to clone, with one client for all of them; nothing may be left of any."""
    # The server keeps the sockets of connections that are closed for seconds, unless it is stopped.
    async with nothing_left_behind():
        with serving() as service:
            async with http2_client() as client:
                with anyio.fail_after(LIMIT):
                    yield service, HttpAgent(service.url, http_client=client)


async def test_text_arrives_and_the_result_says_how() -> None:
    async with sharing() as (_, agent):
        result = await agent.run_agent("Hi")
    assert (result.text, result.warnings) == ("Hello.", [])
    assert result.response is not None
    assert result.response.http_version == "HTTP/2"


async def test_an_agent_can_have_an_http2_client_for_each_run_or_keep_one() -> None:
    async with nothing_left_behind():
        with serving() as service:
            agent = HttpAgent(service.url, http_client=http2_client)
            assert [(await agent.run_agent("Hi")).text for _ in range(2)] == ["Hello."] * 2
            assert len(service.connections) == 2
            async with agent:
                assert [(await agent.run_agent("Hi")).text for _ in range(2)] == ["Hello."] * 2
            assert len(service.connections) == 3


def test_the_sync_verb_speaks_it_too() -> None:
    with serving() as service:
        result = HttpAgent(service.url, http_client=http2_client).run_agent_sync("Hi")
    assert result.text == "Hello."
    assert result.response is not None
    assert result.response.http_version == "HTTP/2"


async def test_runs_at_once_share_one_connection() -> None:
    results: list[RunResult] = []

    async def ask(agent: HttpAgent) -> None:
        results.append(await agent.run_agent("Hi"))

    async with sharing() as (service, agent):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask, agent.clone())
        assert [result.text for result in results] == ["Hello."] * 50
        assert len(service.connections) == 1


# --- leaving


async def read_two_words(run: AgentRun) -> None:
    words = 0
    async for event in run:
        words += isinstance(event, TextMessageContentEvent)
        if words == 2:
            return


async def leaving_the_block(agent: HttpAgent) -> AgentRun:
    async with agent.stream("wait") as run:
        await read_two_words(run)
    return run


async def aborting_between_two_events(agent: HttpAgent) -> AgentRun:
    async with agent.stream("wait") as run:
        await read_two_words(run)
        agent.abort_run()
        assert [event async for event in run] == []
    return run


async def aborting_while_it_is_waited_for(agent: HttpAgent) -> AgentRun:
    async def abort() -> None:
        await anyio.wait_all_tasks_blocked()
        agent.abort_run()

    async with anyio.create_task_group() as tasks, agent.stream("wait") as run:
        await read_two_words(run)
        tasks.start_soon(abort)
        async for _ in run:
            pass
    return run


async def cancelling_its_scope(agent: HttpAgent) -> AgentRun:
    run = agent.stream("wait")
    with anyio.CancelScope() as scope:
        async with run:
            await read_two_words(run)
            scope.cancel()
            await anext(run)
    return run


Leave = Callable[[HttpAgent], Awaitable[AgentRun]]

every_way_to_leave = pytest.mark.parametrize(
    "leave",
    [leaving_the_block, aborting_between_two_events, aborting_while_it_is_waited_for, cancelling_its_scope],
    ids=lambda way: way.__name__,
)


untold = pytest.mark.xfail(
    strict=True, reason="httpcore forgets a stream that is left, and resets it on neither side (encode/httpcore#943)"
)


@every_way_to_leave
@pytest.mark.requirement("LIFE-11")
async def test_leaving_a_run_leaves_another_on_its_connection_alone(leave: Leave) -> None:
    results: list[RunResult] = []

    async def ask(agent: HttpAgent) -> None:
        results.append(await agent.run_agent("go on"))

    async with sharing() as (service, agent):
        other = agent.clone()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, other)
            await until(lambda: len(other.messages) == 2)
            run = await leave(agent.clone())
            assert (run.partial.text, run.partial.aborted) == ("One two", True)
            service.gate.open()
        assert (await agent.clone().run_agent("Hi")).text == "Hello."
        assert [message.content for message in other.messages] == ["go on", "One ", "two"]
        assert [result.text for result in results] == ["two"]
        assert len(service.connections) == 1


@untold
@pytest.mark.parametrize("leave", [leaving_the_block, aborting_while_it_is_waited_for])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.requirement("LIFE-11")
async def test_the_server_sees_that_a_run_on_a_shared_connection_was_left(leave: Leave) -> None:
    async with sharing() as (service, agent):
        await leave(agent.clone())
        await until(lambda: service.app.disconnects == 1, 0.1)
        assert (await agent.run_agent("Hi")).text == "Hello."
        assert (service.app.disconnects, len(service.connections)) == (1, 1)


@every_way_to_leave
@pytest.mark.requirement("LIFE-11")
async def test_the_server_sees_that_a_run_with_its_own_connection_was_left(leave: Leave) -> None:
    async with nothing_left_behind():
        with serving() as service:
            with anyio.fail_after(LIMIT):
                await leave(HttpAgent(service.url, http_client=http2_client))
            await until(lambda: service.app.disconnects == 1, SOON)


@untold
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_more_runs_can_be_left_on_one_connection_than_it_takes_at_once() -> None:
    async with sharing() as (service, agent):
        for _ in range(STREAMS_AT_ONCE + 1):
            await leaving_the_block(agent.clone())
        assert (await agent.clone().run_agent("Hi")).text == "Hello."
        assert len(service.connections) == 1


# --- breaking


def reset(connection: H2Connection, stream_id: int) -> None:
    connection.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)


def go_away(connection: H2Connection, stream_id: int) -> None:
    del stream_id
    connection.close_connection(ErrorCodes.INTERNAL_ERROR)


every_break = pytest.mark.parametrize("break_off", [reset, go_away], ids=lambda way: way.__name__)


@every_break
@pytest.mark.requirement("TRUNC-1", "SSE-10")
async def test_a_stream_broken_in_the_middle_of_a_run_is_an_incomplete_run(break_off: Callable[..., None]) -> None:
    def answer(connection: H2Connection, stream_id: int) -> None:
        begin(connection, stream_id, BEGUN)
        break_off(connection, stream_id)

    with serve_raw_http2(answer) as server:
        async with nothing_left_behind(), http2_client() as client:
            agent = HttpAgent(server.url, http_client=client, thread_id="thread-1")
            with pytest.raises(IncompleteRunError, match="connection") as caught:
                await agent.run_agent("Hi", run_id="run-1")
        assert caught.value.partial is not None
        assert (caught.value.partial.text, caught.value.partial.outcome) == ("One two", None)
        assert [message.content for message in agent.messages] == ["Hi", "One two"]
        assert server.requests == 1


@every_break
@pytest.mark.parametrize("has_headers", [False, True])
async def test_a_stream_broken_before_its_first_event_is_not_asked_for_again(
    break_off: Callable[..., None], has_headers: bool
) -> None:
    def answer(connection: H2Connection, stream_id: int) -> None:
        if has_headers:
            begin(connection, stream_id, b"")
        break_off(connection, stream_id)

    with serve_raw_http2(answer) as server:
        async with nothing_left_behind(), http2_client() as client:
            with pytest.raises(ConnectError) as caught:
                await HttpAgent(server.url, http_client=client).run_agent("Hi")
        assert caught.value.partial is not None
        assert caught.value.partial.text == ""
        assert server.requests == 1


async def test_a_reset_stream_leaves_the_others_on_its_connection_alone() -> None:
    def answer(connection: H2Connection, stream_id: int) -> None:
        begin(connection, stream_id, FRAMES)
        connection.end_stream(stream_id)

    def refuse(connection: H2Connection, stream_id: int) -> None:
        begin(connection, stream_id, BEGUN)
        reset(connection, stream_id)

    with serve_raw_http2(refuse, answer) as server:
        async with nothing_left_behind(), http2_client() as client:
            agent = HttpAgent(server.url, http_client=client, thread_id="thread-1")
            with pytest.raises(IncompleteRunError):
                await agent.clone().run_agent("Hi", run_id="run-1")
            assert (await agent.clone().run_agent("Hi", run_id="run-1")).text == "One two"
        assert (server.requests, server.connections) == (2, 1)
