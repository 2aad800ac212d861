"""However a run is left, its connection is closed at once and nothing stays behind (LIFE-11)."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput, TextMessageContentEvent

from agui_client import AbstractAgent, AgentRun, HookContext, HttpAgent, Subscriber
from agui_client.testing import (
    ByteServer,
    Reply,
    ScriptedAgent,
    Server,
    Step,
    pause,
    serve,
    serve_bytes,
    sse,
    text,
    turn,
)
from agui_client.types import Next
from support.leaks import nothing_left_behind
from support.waiting import LIMIT, SOON, start_thread, until

pytestmark = pytest.mark.both_loops

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""

Way = Callable[[AbstractAgent], Awaitable[None]]


class RefusalError(Exception):
    """The application's own."""


async def read_two_words(run: AgentRun) -> None:
    for _ in range(4):
        await anext(run)


async def wait_for_more(run: AgentRun) -> None:
    async for _ in run:
        pass
    raise AssertionError("the stream has no end")


class OnText(Subscriber):
    """Calls back when text arrives."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
        """Call back."""
        self._call()


def end(scope: anyio.CancelScope) -> None:
    """Let a scope's time be over soon."""
    scope.deadline = anyio.current_time() + 0.01


# --- ways to leave


async def leaving_the_block(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)


async def break_in_the_loop(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        async for _ in run:
            break


async def break_in_the_text(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        async for piece in run.text_stream:
            assert piece == "One "
            break


async def break_in_the_snapshots(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        async for snapshot in run.snapshots:
            assert snapshot.messages
            break


async def an_exception(agent: AbstractAgent) -> None:
    async def refuse() -> None:
        async with agent.stream("Hi") as run:
            async for _ in run:
                raise RefusalError

    with pytest.raises(RefusalError):
        await refuse()


async def a_cancelled_scope(agent: AbstractAgent) -> None:
    with anyio.CancelScope() as scope:
        async with agent.stream("Hi") as run:
            await read_two_words(run)
            scope.cancel()
            await wait_for_more(run)
    assert scope.cancelled_caught


async def a_time_out_around_the_block(agent: AbstractAgent) -> None:
    with anyio.move_on_after(LIMIT) as scope:
        async with agent.stream("Hi") as run:
            await read_two_words(run)
            end(scope)
            await wait_for_more(run)
    assert scope.cancelled_caught


async def a_time_out_inside_the_block(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        with anyio.move_on_after(0.01) as scope:
            await wait_for_more(run)
        assert scope.cancelled_caught


async def a_time_out_around_run_agent(agent: AbstractAgent) -> None:
    with anyio.move_on_after(LIMIT) as scope, agent.subscribe(OnText(lambda: end(scope))):
        await agent.run_agent("Hi")
    assert scope.cancelled_caught


async def a_sibling_that_fails(agent: AbstractAgent) -> None:
    begun = anyio.Event()

    async def iterate() -> None:
        async with agent.stream("Hi") as run:
            await read_two_words(run)
            begun.set()
            await wait_for_more(run)

    async def fail() -> None:
        await begun.wait()
        raise RefusalError

    with pytest.RaisesGroup(RefusalError):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(iterate)
            tasks.start_soon(fail)


async def cancel_in_the_loop(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        async for _ in run:
            run.cancel()
        assert (await run.result()).aborted


async def abort_from_another_task(agent: AbstractAgent) -> None:
    async def abort() -> None:
        await until(lambda: len(agent.messages) == 2)
        agent.abort_run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(abort)
        result = await agent.run_agent("Hi")
        assert (result.aborted, result.outcome) == (True, None)


async def abort_from_another_thread(agent: AbstractAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        join = start_thread(agent.abort_run)
        async for _ in run:
            pass
        assert (await run.result()).text == "One two"
    join(SOON)


WAYS: list[Way] = [
    leaving_the_block,
    break_in_the_loop,
    break_in_the_text,
    break_in_the_snapshots,
    an_exception,
    a_cancelled_scope,
    a_time_out_around_the_block,
    a_time_out_inside_the_block,
    a_time_out_around_run_agent,
    a_sibling_that_fails,
    cancel_in_the_loop,
    abort_from_another_task,
    abort_from_another_thread,
]

every_way = pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)


async def assert_left_at_once(server: ByteServer, leave: Awaitable[None]) -> None:
    async with nothing_left_behind():
        await leave
        left_at = time.monotonic()
        await until(server.disconnected.is_set, SOON)
    assert server.disconnected_at is not None
    assert server.disconnected_at - left_at < SOON


async def passing_on(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        yield event


# --- what must hold for each


@every_way
@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11")
async def test_the_connection_is_closed_at_once(leave: Way) -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        agent = HttpAgent(server.url)
        await assert_left_at_once(server, leave(agent))
        assert not agent.is_running
        assert agent.messages[0].content == "Hi"


@every_way
@pytest.mark.anyio
async def test_the_connection_is_closed_at_once_under_middleware(leave: Way) -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        agent = HttpAgent(server.url, middleware=[passing_on, passing_on])
        await assert_left_at_once(server, leave(agent))


@every_way
@pytest.mark.anyio
async def test_a_kept_client_stays_usable(leave: Way) -> None:
    with serve_bytes(Reply([BEGUN], end="stall"), sse(turn(text("Three", message_id="m2")))) as server:
        async with HttpAgent(server.url) as agent:
            await assert_left_at_once(server, leave(agent))
            assert (await agent.run_agent("Go on")).text == "Three"


@pytest.fixture(scope="module")
def real_server() -> Iterator[Server]:
    with serve(ScriptedAgent(turn(text("One two", message_id="m1"), pause(math.inf)))) as server:
        yield server


@every_way
@pytest.mark.anyio
async def test_a_real_server_stops_its_agent(leave: Way, real_server: Server) -> None:
    before = real_server.disconnects
    async with nothing_left_behind():
        await leave(HttpAgent(real_server.url))
        await until(lambda: real_server.disconnects == before + 1, SOON)


@every_way
@pytest.mark.anyio
async def test_an_agent_in_this_process_is_closed_in_the_task_that_ran_it(leave: Way) -> None:
    closed_in: list[int] = []

    async def endless(input: RunAgentInput) -> AsyncIterator[Step]:
        opened_in = anyio.get_current_task().id
        try:
            yield turn(text("One two", message_id="m1"), pause(math.inf))
        finally:
            closed_in.append(anyio.get_current_task().id - opened_in)

    agent = ScriptedAgent(endless)
    async with nothing_left_behind():
        await leave(agent)
        assert closed_in == [0]
    assert not agent.is_running


@every_way
@pytest.mark.anyio
async def test_the_agent_can_run_again(leave: Way) -> None:
    with serve_bytes(Reply([BEGUN], end="stall"), sse(turn(text("Three", message_id="m2")))) as server:
        agent = HttpAgent(server.url)
        await leave(agent)
        assert (await agent.run_agent("Go on")).text == "Three"
        assert server.requests[1].json()["messages"][0]["content"] == "Hi"
