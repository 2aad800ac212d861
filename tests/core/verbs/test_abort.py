"""Aborting in every situation: the server sees it within a tenth of a second, and what was begun is kept (LIFE-11)."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput, TextMessageContentEvent

from agui_client import AgentRun, ConversationSnapshot, HookContext, HttpAgent, Subscriber, tool
from agui_client.testing import (
    ByteServer,
    Reply,
    events_of,
    faults,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from agui_client.types import Next
from support.leaks import nothing_left_behind
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, in_thread, start_thread, until, until_sync
from support.watching import Watcher

pytestmark = pytest.mark.both_loops

FRAMES = sse(turn(text("One two", message_id="message-1")))
BEGUN = b"".join(events_of(FRAMES)[:4])
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""
STALLING = Reply([BEGUN], end="stall")
FLOOD = sse(turn(text("x" * 2_000_000, chunk=100)))
"""More than sockets and the sync surface hold back: its server waits until somebody reads."""
TENTH = 0.1
"""Seconds within which the server sees that a run was aborted."""
FLOODED_SECONDS = 0.5
"""The same where megabytes are on their way, which the event loop reads meanwhile."""


# --- how soon the server sees it

AsyncMode: TypeAlias = Callable[[HttpAgent, ByteServer], Awaitable[float]]
SyncMode: TypeAlias = Callable[[HttpAgent, ByteServer], float]
"""Runs the agent, aborts the run, stays in it until the server has noticed, and says when it aborted."""


async def passing_on(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        yield event


async def read_two_words(run: AgentRun) -> None:
    for _ in range(4):
        await anext(run)


def aborted_now(agent: HttpAgent) -> float:
    moment = time.monotonic()
    agent.abort_run()
    return moment


async def aborted_while(agent: HttpAgent, is_ready: Callable[[], object]) -> float:
    """The moment when another task aborts the run that this one waits for."""
    moments: list[float] = []

    async def abort() -> None:
        await until(is_ready)
        moments.append(aborted_now(agent))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(abort)
        assert (await agent.run_agent("Hi")).aborted
    return moments[0]


async def iterated(agent: HttpAgent, server: ByteServer) -> float:
    return await aborted_while(agent, lambda: len(agent.messages) == 2)


async def iterated_under_middleware(agent: HttpAgent, server: ByteServer) -> float:
    return await aborted_while(agent.use(passing_on, passing_on), lambda: len(agent.messages) == 2)


async def iterated_and_aborted_from_a_thread(agent: HttpAgent, server: ByteServer) -> float:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        join = start_thread(lambda: aborted_now(agent))
        assert (await run.result()).aborted
        return join(LIMIT)


async def _stay(agent: HttpAgent, server: ByteServer, abort: Callable[[], float]) -> float:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        moment = abort()
        await until(server.disconnected.is_set)
        assert [event async for event in run] == []
        assert (await run.result()).text == "One two"
    return moment


async def not_iterated(agent: HttpAgent, server: ByteServer) -> float:
    return await _stay(agent, server, lambda: aborted_now(agent))


async def not_iterated_under_middleware(agent: HttpAgent, server: ByteServer) -> float:
    return await _stay(agent.use(passing_on, passing_on), server, lambda: aborted_now(agent))


async def not_iterated_and_aborted_from_a_thread(agent: HttpAgent, server: ByteServer) -> float:
    return await _stay(agent, server, lambda: in_thread(lambda: aborted_now(agent)))


class Slow(Subscriber):
    """Takes its time over a piece of text, until the server has seen the client go."""

    def __init__(self, server: ByteServer) -> None:
        self._server = server
        self.has_begun = False

    async def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
        self.has_begun = True
        await until(self._server.disconnected.is_set)


async def in_the_middle_of_a_hook(agent: HttpAgent, server: ByteServer) -> float:
    slow = Slow(server)
    agent.subscribe(slow)
    return await aborted_while(agent, lambda: slow.has_begun)


async def in_the_middle_of_a_hook_under_middleware(agent: HttpAgent, server: ByteServer) -> float:
    return await in_the_middle_of_a_hook(agent.use(passing_on), server)


async def in_the_middle_of_middleware(agent: HttpAgent, server: ByteServer) -> float:
    waits: list[bool] = []

    async def slow(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            yield event
            waits.append(True)
            await anyio.sleep_forever()

    return await aborted_while(agent.use(passing_on, slow, passing_on), lambda: waits)


ASYNC_MODES: list[AsyncMode] = [
    iterated,
    iterated_under_middleware,
    iterated_and_aborted_from_a_thread,
    not_iterated,
    not_iterated_under_middleware,
    not_iterated_and_aborted_from_a_thread,
    in_the_middle_of_a_hook,
    in_the_middle_of_a_hook_under_middleware,
    in_the_middle_of_middleware,
]


def sync_awaited(agent: HttpAgent, server: ByteServer) -> float:
    join = start_thread(lambda: agent.run_agent_sync("Hi"))
    until_sync(lambda: len(agent.messages) == 2)
    moment = aborted_now(agent)
    assert join(LIMIT).aborted
    return moment


def sync_iterated(agent: HttpAgent, server: ByteServer) -> float:
    def iterate() -> None:
        with agent.stream_sync("Hi") as run:
            assert len(list(run)) == 4

    join = start_thread(iterate)
    until_sync(lambda: len(agent.messages) == 2)
    moment = aborted_now(agent)
    join(LIMIT)
    return moment


def sync_not_iterated(agent: HttpAgent, server: ByteServer) -> float:
    with agent.stream_sync("Hi") as run:
        next(run)
        moment = start_thread(lambda: aborted_now(agent))(LIMIT)
        until_sync(server.disconnected.is_set)
        assert run.result().aborted
    return moment


def observed_in_a_thread(agent: HttpAgent, server: ByteServer) -> float:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi"))
    until_sync(lambda: len(watcher.values) == 4)
    moment = aborted_now(agent)
    assert watcher.over.wait(LIMIT)
    assert (watcher.errors, watcher.completions) == ([], 1)
    return moment


async def _observe(agent: HttpAgent, abort: Callable[[], float]) -> float:
    watcher = Watcher()
    watcher.watch(agent.observe("Hi"))
    await until(lambda: len(watcher.values) == 4)
    moment = abort()
    await until(watcher.over.is_set)
    assert (watcher.errors, watcher.completions) == ([], 1)
    return moment


def observed_in_a_loop(agent: HttpAgent, server: ByteServer) -> float:
    return anyio.run(_observe, agent, lambda: aborted_now(agent))


def observed_in_a_loop_and_aborted_from_a_thread(agent: HttpAgent, server: ByteServer) -> float:
    return anyio.run(_observe, agent, lambda: in_thread(lambda: aborted_now(agent)))


SYNC_MODES: list[SyncMode] = [
    sync_awaited,
    sync_iterated,
    sync_not_iterated,
    observed_in_a_thread,
    observed_in_a_loop,
    observed_in_a_loop_and_aborted_from_a_thread,
]


def latency(mode: SyncMode, *replies: Reply) -> float:
    """Seconds from an abort to the moment the server saw the connection closed."""
    with serve_bytes(*replies) as server:
        moment = in_thread(lambda: mode(HttpAgent(server.url), server))
        until_sync(server.disconnected.is_set)
        assert server.disconnected_at is not None
        return server.disconnected_at - moment


def assert_seen_at_once(mode: SyncMode, *replies: Reply, seconds: float = TENTH) -> None:
    """Three tries, as a machine that is busy with something else is not what is tested."""
    taken: list[float] = []
    while not taken or (taken[-1] >= seconds and len(taken) < 3):
        taken.append(latency(mode, *replies))
    assert taken[-1] < seconds, f"after {statistics.median(taken):.3f} s"


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ASYNC_MODES, ids=lambda mode: mode.__name__)
def test_the_server_sees_an_abort_at_once(mode: AsyncMode, backend: str) -> None:
    assert_seen_at_once(lambda agent, server: anyio.run(mode, agent, server, backend=backend), STALLING)


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("mode", SYNC_MODES, ids=lambda mode: mode.__name__)
def test_the_server_sees_an_abort_at_once_without_await(mode: SyncMode) -> None:
    assert_seen_at_once(mode, STALLING)


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "reply", [faults.unanswered(end="stall"), Reply([b"no"], status=500, end="stall")], ids=["response", "refusal"]
)
def test_the_server_sees_an_abort_at_once_while_a_response_is_waited_for(reply: Reply, backend: str) -> None:
    def mode(agent: HttpAgent, server: ByteServer) -> float:
        return anyio.run(aborted_while, agent, lambda: server.requests, backend=backend)

    assert_seen_at_once(mode, reply)


# --- back-pressure


async def flooded(agent: HttpAgent, server: ByteServer) -> float:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        moment = aborted_now(agent)
        await until(server.disconnected.is_set)
    return moment


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_server_that_is_held_back_sees_an_abort_at_once(backend: str) -> None:
    def mode(agent: HttpAgent, server: ByteServer) -> float:
        return anyio.run(flooded, agent, server, backend=backend)

    assert_seen_at_once(mode, Reply([FLOOD] * 5, end="stall"), seconds=FLOODED_SECONDS)


def flooded_sync(agent: HttpAgent, server: ByteServer) -> float:
    with agent.stream_sync("Hi") as run:
        for _ in range(10):
            next(run)
        moment = start_thread(lambda: aborted_now(agent))(LIMIT)
        until_sync(server.disconnected.is_set)
        assert run.result().aborted
    return moment


@pytest.mark.requirement("LIFE-11")
def test_a_server_that_a_slow_sync_reader_holds_back_sees_an_abort_at_once() -> None:
    assert_seen_at_once(flooded_sync, Reply([FLOOD] * 5, end="stall"), seconds=FLOODED_SECONDS)


# --- tools


@every_result_verb
def test_an_abort_while_a_tool_runs_ends_the_call_at_once_and_asks_nothing_more(verb: Verb) -> None:
    store, told, moments = threading.Event(), list[HookContext](), list[float]()

    @tool
    async def hold() -> None:
        store.set()
        await anyio.sleep_forever()

    def abort() -> None:
        assert store.wait(LIMIT)
        moments.append(aborted_now(agent))

    with serve_bytes(sse(turn(tool_call("hold"))), FRAMES) as server:
        agent = HttpAgent(server.url, tools=[hold], on_abort=told.append)
        join = start_thread(abort)
        result = verb(agent, "Hi").result
        over = time.monotonic()
        join(LIMIT)
        assert (len(server.requests), server.disconnected.is_set()) == (1, False)
    assert result is not None
    assert (result.aborted, [call.function.name for call in result.pending_tool_calls]) == (True, ["hold"])
    assert over - moments[0] < LIMIT
    assert told == []


# --- what is left of the run


@every_result_verb
@pytest.mark.requirement("LIFE-11")
def test_what_was_begun_is_kept_and_marked(verb: Verb) -> None:
    begun = sse(
        turn(text("Let me look.", message_id="message-1"), tool_call("look", '{"at": "m', tool_call_id="call-1"))
    )
    cut = b"".join(each for each in events_of(begun) if b"_END" not in each and b"RUN_FINISHED" not in each)
    whole = sse(turn(text("Done.", message_id="message-2")))
    with serve_bytes(Reply([cut], end="stall"), whole) as server:
        agent = HttpAgent(server.url)

        def abort() -> None:
            until_sync(lambda: "call-1" in str(agent.messages))
            agent.abort_run()

        join = start_thread(abort)
        result = verb(agent, "Hi").result
        join(LIMIT)
        assert result is not None
        assert (result.aborted, result.outcome, result.text) == (True, None, "Let me look.")
        assert sorted(result.incomplete_ids) == sorted(agent.incomplete_ids) == ["call-1", "message-1"]
        assert [message.role for message in agent.messages] == ["user", "assistant", "assistant"]
        saved = agent.snapshot().model_dump_json()
        for other in (agent.clone(), HttpAgent(server.url)):
            other.restore(ConversationSnapshot.model_validate_json(saved))
            assert sorted(other.incomplete_ids) == ["call-1", "message-1"]
        again = verb(agent, "Go on").result
        assert again is not None
        assert (again.incomplete_ids, sorted(agent.incomplete_ids)) == ([], ["call-1", "message-1"])
        assert [each["role"] for each in server.requests[1].json()["messages"]] == [
            "user",
            "assistant",
            "assistant",
            "tool",  # no result: the conversation goes on without one
            "user",
        ]


@pytest.mark.anyio
@pytest.mark.parametrize("is_waiting", [True, False], ids=["waited for", "between events"])
async def test_middleware_unwinds_from_the_inside_out_in_the_consumers_task(is_waiting: bool) -> None:
    unwound: list[tuple[str, int]] = []

    def layer(name: str) -> Any:
        async def noting(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            try:
                async for event in following(input):
                    yield event
            finally:
                unwound.append((name, anyio.get_current_task().id))

        return noting

    with serve_bytes(STALLING) as server:
        agent = HttpAgent(server.url, middleware=[layer("outer"), layer("middle"), layer("inner")])
        async with nothing_left_behind(), agent.stream("Hi") as run:
            await read_two_words(run)
            if is_waiting:
                async with anyio.create_task_group() as tasks:

                    async def abort() -> None:
                        agent.abort_run()

                    tasks.start_soon(abort)
                    assert [event async for event in run] == []
                here = anyio.get_current_task().id
                assert unwound == [(name, here) for name in ("inner", "middle", "outer")]
    here = anyio.get_current_task().id
    assert unwound == [(name, here) for name in ("inner", "middle", "outer")]
