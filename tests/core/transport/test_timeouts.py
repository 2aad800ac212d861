"""Each wait has its own limit and its own error; virtual time where no socket is needed."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import anyio
import httpx
import pytest
import trio.testing
from ag_ui.core import CustomEvent, Event, RunAgentInput, RunStartedEvent

from agui_client import (
    AGUIError,
    ConnectTimeoutError,
    FirstEventTimeoutError,
    FunctionAgent,
    HttpAgent,
    HTTPStatusError,
    IdleTimeoutError,
    RetryPolicy,
    RunFailedError,
    RunResult,
    RunTimeoutError,
    StreamTimeoutError,
    Timeouts,
    TransportError,
)
from agui_client._core.verbs import sync_run
from agui_client.testing import Reply, pause, serve_bytes, sse, text, turn
from agui_client.types import Middleware, Next
from support.bodies import URL, Body, memory_agent, response
from support.verbs import Verb, every_kind_of_verb, every_verb
from support.waiting import LIMIT

FRAMES = [frame + b"\n\n" for frame in sse(turn(text("One two three."))).split(b"\n\n") if frame]
"""Six of them: the run, the message, three words, and so on."""
SOON_AGAIN = RetryPolicy(first_wait=0.01)
"""As often as by default."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A clock that jumps whenever everybody waits: hours cost nothing, and nothing depends on the machine."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def wait(seconds: float) -> Callable[[], Awaitable[None]]:
    async def waiting() -> None:
        await (anyio.sleep_forever() if math.isinf(seconds) else anyio.sleep(seconds))

    return waiting


async def failure_of(agent: HttpAgent, **options: Any) -> tuple[AGUIError, float]:
    """What a run fails with, and after how many seconds."""
    started = anyio.current_time()
    with pytest.raises(AGUIError) as caught:
        await agent.run_agent("Hi", **options)
    return caught.value, anyio.current_time() - started


def test_a_stream_is_left_in_time_where_a_program_freezes_all_clocks_but_the_event_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, frozen = time.monotonic, time.monotonic() + 1000
    monkeypatch.setattr(time, "monotonic", lambda: frozen)

    def now(loop: asyncio.BaseEventLoop) -> float:
        return clock()

    monkeypatch.setattr(asyncio.BaseEventLoop, "time", now)

    async def run() -> None:
        with anyio.fail_after(LIMIT):
            agent = memory_agent(FRAMES[0], anyio.sleep_forever, timeout=Timeouts(idle=0.1))
            with pytest.raises(IdleTimeoutError):
                await agent.run_agent("Hi")

    asyncio.run(run())


async def passing_on(input: RunAgentInput, next: Next) -> AsyncGenerator[Event]:
    async for event in next(input):
        yield event


# --- the first event


@pytest.mark.anyio
@pytest.mark.parametrize("before", [[], [b": alive\n\n"], [b"id: 1\n\n"]], ids=["nothing", "a comment", "no data"])
async def test_the_first_event_must_come_in_time(before: list[bytes]) -> None:
    agent = memory_agent(*before, wait(math.inf), timeout=Timeouts(first_event=7, idle=60))
    error, seconds = await failure_of(agent)
    assert type(error) is FirstEventTimeoutError
    seen = "one keep-alive comment" if before == [b": alive\n\n"] else "no keep-alive comment"
    assert str(error) == (
        f"no event arrived within 7 s; {seen} had come; raise Timeouts.first_event if the agent needs longer"
    )
    assert (error.keep_alives, error.last_event) == (before.count(b": alive\n\n"), None)
    assert error.silent == pytest.approx(7)
    assert seconds == pytest.approx(7)


@pytest.mark.anyio
async def test_waiting_for_the_response_is_waiting_for_the_first_event() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    error, seconds = await failure_of(HttpAgent(URL, http_client=client, timeout=Timeouts(first_event=7)))
    assert type(error) is FirstEventTimeoutError
    assert seconds == pytest.approx(7)
    assert isinstance(error.partial, RunResult)
    assert error.partial.response is None


@pytest.mark.anyio
async def test_the_first_event_may_take_two_minutes_unless_said_otherwise() -> None:
    error, seconds = await failure_of(memory_agent(wait(math.inf)))
    assert type(error) is FirstEventTimeoutError
    assert seconds == pytest.approx(120)
    result = await memory_agent(wait(119), *FRAMES).run_agent("Hi")
    assert result.text == "One two three."


@pytest.mark.anyio
async def test_comments_do_not_put_off_the_first_event() -> None:
    comments = [piece for _ in range(20) for piece in (b": alive\n\n", wait(1))]
    error, seconds = await failure_of(memory_agent(*comments, timeout=Timeouts(first_event=7.5, idle=2)))
    assert type(error) is FirstEventTimeoutError
    assert seconds == pytest.approx(7.5)


# --- silence


@pytest.mark.anyio
async def test_a_silent_stream_is_given_up() -> None:
    agent = memory_agent(*FRAMES[:3], wait(math.inf), timeout=Timeouts(idle=7))
    error, seconds = await failure_of(agent)
    assert type(error) is IdleTimeoutError
    assert str(error) == (
        "the stream was silent for 7 s, 7.0 s into the run; no keep-alive comment had come, the last event was "
        "TEXT_MESSAGE_CONTENT; raise Timeouts.idle, or let the server send comments to keep it alive"
    )
    assert seconds == pytest.approx(7)
    assert [message.content for message in agent.messages] == ["Hi", "One "]
    assert error.partial is not None
    assert error.partial.text == "One "


@pytest.mark.anyio
@pytest.mark.requirement("SSE-6")
async def test_comments_are_life() -> None:
    comments = [piece for _ in range(20) for piece in (wait(6), b": alive\n\n")]
    result = await memory_agent(*FRAMES[:3], *comments, *FRAMES[3:], timeout=Timeouts(idle=7)).run_agent("Hi")
    assert result.text == "One two three."


@pytest.mark.anyio
async def test_a_byte_is_life() -> None:
    last = FRAMES[-1]
    bytewise = [piece for at in range(len(last)) for piece in (wait(6), last[at : at + 1])]
    result = await memory_agent(*FRAMES[:-1], *bytewise, timeout=Timeouts(idle=7)).run_agent("Hi")
    assert result.text == "One two three."


@pytest.mark.anyio
async def test_a_stream_may_be_silent_for_five_minutes_unless_said_otherwise() -> None:
    error, seconds = await failure_of(memory_agent(*FRAMES[:1], wait(math.inf)))
    assert type(error) is IdleTimeoutError
    assert seconds == pytest.approx(300)
    result = await memory_agent(FRAMES[0], wait(299), *FRAMES[1:-1], wait(299), FRAMES[-1]).run_agent("Hi")
    assert result.text == "One two three."


@pytest.mark.anyio
async def test_the_time_an_application_takes_is_no_silence() -> None:
    agent = memory_agent(*FRAMES, timeout=Timeouts(first_event=2, idle=2))
    async with agent.stream("Hi") as run:
        async for _ in run:
            await anyio.sleep(60)
        assert (await run.result()).text == "One two three."


# --- the whole run


@pytest.mark.anyio
async def test_a_run_must_end_in_time() -> None:
    endless = [piece for _ in range(100) for piece in (wait(1), b": alive\n\n")]
    error, seconds = await failure_of(memory_agent(*FRAMES[:3], *endless, timeout=Timeouts(total=7.5)))
    assert type(error) is RunTimeoutError
    assert str(error) == (
        "the run took longer than 7.5 s, silent for the last 0.5 s; 7 keep-alive comments had come, the last event was "
        "TEXT_MESSAGE_CONTENT; raise Timeouts.total to allow more"
    )
    # The call began before its run.
    assert error.silent == pytest.approx(0.5, abs=0.05)
    assert (error.keep_alives, error.last_event) == (7, "TEXT_MESSAGE_CONTENT")
    assert seconds == pytest.approx(7.5, abs=0.05)


@pytest.mark.anyio
async def test_a_run_may_take_for_ever_unless_said_otherwise() -> None:
    hours = [piece for _ in range(100) for piece in (wait(250), b": alive\n\n")]
    assert (await memory_agent(*FRAMES[:3], *hours, *FRAMES[3:]).run_agent("Hi")).text == "One two three."


@pytest.mark.anyio
async def test_the_total_counts_before_the_first_event_too() -> None:
    error, _ = await failure_of(memory_agent(wait(math.inf), timeout=Timeouts(first_event=60, total=7)))
    assert type(error) is RunTimeoutError


@pytest.mark.anyio
async def test_no_time_out_means_no_time_out() -> None:
    for_ever = Timeouts(connect=None, first_event=None, idle=None, total=None, write=None, pool=None)
    agent = memory_agent(wait(100_000), *FRAMES[:3], wait(100_000), *FRAMES[3:], timeout=for_ever)
    assert (await agent.run_agent("Hi")).text == "One two three."


@pytest.mark.anyio
async def test_a_runs_own_time_outs_stand_in_for_the_agents() -> None:
    agent = memory_agent(wait(math.inf), timeout=60)
    failures = [
        await failure_of(agent, timeout=Timeouts(first_event=5)),
        await failure_of(agent, timeout=3),
        await failure_of(agent),
    ]
    assert [type(error) for error, _ in failures] == [FirstEventTimeoutError] * 3
    assert [seconds for _, seconds in failures] == pytest.approx([5, 3, 60])


@pytest.mark.anyio
async def test_a_refusal_with_a_body_that_never_ends_is_still_a_refusal() -> None:
    agent = memory_agent(make=lambda: response(Body([b"no luck", wait(math.inf)]), status=503))
    error, seconds = await failure_of(agent)
    assert isinstance(error, HTTPStatusError)
    assert error.body == "no luck"
    assert seconds <= 5


@pytest.mark.anyio
async def test_an_abort_is_no_time_out() -> None:
    agent = memory_agent(*FRAMES[:3], wait(math.inf), timeout=5)

    async def abort() -> None:
        await anyio.sleep(4)
        agent.abort_run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(abort)
        result = await agent.run_agent("Hi")
        assert result.aborted
        assert result.text == "One "


# --- on real sockets, with every verb


@every_verb
@pytest.mark.parametrize(
    ("reply", "limits", "expected"),
    [
        pytest.param(Reply(end="stall"), Timeouts(first_event=0.05), FirstEventTimeoutError, id="no event"),
        pytest.param(Reply(FRAMES[:3], end="stall"), Timeouts(idle=0.05), IdleTimeoutError, id="silence"),
    ],
)
def test_every_verb_gives_up(verb: Verb, reply: Reply, limits: Timeouts, expected: type[TransportError]) -> None:
    with serve_bytes(reply) as server:
        # On a busy machine, the time may be up before the server reads the request: then another is posted.
        for _ in range(20):
            error = verb(HttpAgent(server.url, timeout=limits), "Hi").error
            assert type(error) is expected
            if server.requests:
                break
        assert server.disconnected.wait(LIMIT)


@every_kind_of_verb
def test_every_kind_of_verb_ends_in_time(verb: Verb) -> None:
    endless = [piece for _ in range(1000) for piece in (b": alive\n\n", pause(0.01))]
    with serve_bytes(Reply([*FRAMES[:3], *endless])) as server:
        error = verb(HttpAgent(server.url), "Hi", timeout=Timeouts(total=0.3)).error
        assert type(error) is RunTimeoutError
        assert server.disconnected.wait(LIMIT)


@contextmanager
def deaf_address() -> Generator[str]:
    """An address where connections are neither accepted nor refused: its queue is full."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            for each in waiting:
                each.close()


@every_kind_of_verb
def test_every_kind_of_verb_gives_up_a_connection_that_is_not_made(verb: Verb) -> None:
    with deaf_address() as url:
        error = verb(HttpAgent(url, timeout=Timeouts(connect=0.05), retry=SOON_AGAIN), "Hi").error
    assert type(error) is ConnectTimeoutError
    assert str(error) == f"no connection to {url} within 0.05 s"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_without_a_free_connection_is_given_up(backend: str) -> None:
    async def main(url: str) -> None:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=1)) as client:
            agent = HttpAgent(url, http_client=client, timeout=Timeouts(pool=0.05), retry=SOON_AGAIN)
            async with agent.stream("Hi") as run:
                await anext(run)
                error, _ = await failure_of(agent.clone())
        assert type(error) is ConnectTimeoutError
        assert (error.may_have_started, error.is_pool_full) == (False, True)
        assert isinstance(error.partial, RunResult)
        assert len(error.partial.attempts) == 1
        assert str(error) == "the HTTP client had no connection free within 0.05 s"

    with serve_bytes(Reply(FRAMES[:3], end="stall")) as server:
        anyio.run(main, server.url, backend=backend)


# --- agents in this process


@pytest.mark.anyio
@pytest.mark.parametrize("middleware", [(), (passing_on,)], ids=["bare", "middleware"])
@pytest.mark.parametrize(
    ("before", "between", "timeout", "expected", "at"),
    [
        (math.inf, 0, 7, FirstEventTimeoutError, 7),
        (5, math.inf, Timeouts(first_event=7, idle=60), IdleTimeoutError, 65),
        (5, 5, Timeouts(first_event=7, idle=7, total=12), RunTimeoutError, 12),
    ],
)
async def test_an_agent_in_this_process_keeps_the_time_outs_of_a_run(
    before: float,
    between: float,
    timeout: float | Timeouts,
    expected: type[AGUIError],
    at: float,
    middleware: Sequence[Middleware],
) -> None:
    closed = anyio.Event()

    async def agent(input: RunAgentInput) -> AsyncGenerator[Event]:
        try:
            await anyio.sleep(before)
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            while True:
                await anyio.sleep(between)
                yield CustomEvent(name="alive", value=None)
        finally:
            closed.set()

    started = anyio.current_time()
    with pytest.raises(expected) as caught:
        await FunctionAgent(agent, middleware=middleware).run_agent("Hi", timeout=timeout)
    assert anyio.current_time() - started == pytest.approx(at, abs=0.1)
    assert closed.is_set()
    assert isinstance(caught.value, StreamTimeoutError)
    last = {7: None, 65: "RUN_STARTED", 12: "CUSTOM"}[int(at)]
    assert caught.value.last_event == last


@pytest.mark.anyio
async def test_a_sync_verb_that_blocks_the_loop_of_its_own_server_says_so(caplog: pytest.LogCaptureFixture) -> None:
    sync_run._warn_of_blocked_loop.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server:  # nobody answers while the loop is blocked
        agent = HttpAgent(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=Timeouts(first_event=0.05))
        for _ in range(2):
            with pytest.raises(FirstEventTimeoutError, match="if that loop serves the agent, await run_agent"):
                agent.run_agent_sync("Hi")
        with pytest.raises(FirstEventTimeoutError, match=r"raise Timeouts.first_event if the agent needs longer"):
            await agent.run_agent("Hi")
    assert [each.levelname for each in caplog.records if "sync verb" in each.message] == ["WARNING"]


# --- a response that stays open behind the end of its run

ALIVE: list[Any] = [piece for _ in range(1000) for piece in (wait(1), b": alive\n\n")]
OPEN: list[Any] = [wait(math.inf)]


def run_of(run_id: str, *steps: Any) -> list[bytes]:
    """The frames of one run."""
    return [frame + b"\n\n" for frame in sse(turn(*steps, run_id=run_id)).split(b"\n\n") if frame]


@pytest.mark.anyio
@pytest.mark.parametrize("rest", [OPEN, ALIVE, [wait(3), b": alive\n\n: a", wait(1), b"live\n\n", wait(math.inf)]])
@pytest.mark.parametrize("is_joined", [False, True])
async def test_a_response_that_stays_open_behind_the_end_of_its_run_is_left_with_a_warning(
    rest: list[Any], is_joined: bool
) -> None:
    frames = [b"".join(FRAMES)] if is_joined else FRAMES
    started = anyio.current_time()
    result = await memory_agent(*frames, *rest).run_agent("Hi", run_id="run-1")
    assert result.text == "One two three."
    assert anyio.current_time() - started == pytest.approx(5)
    [warning] = result.warnings
    assert warning.message.startswith(
        "after the run had ended, the response stayed open for 5 s and was left (Timeouts.after_end); "
    )


@pytest.mark.anyio
async def test_a_failed_run_ends_in_time_as_well() -> None:
    frames = [*FRAMES[:2], b'data: {"type": "RUN_ERROR", "message": "overloaded"}\n\n']
    started = anyio.current_time()
    with pytest.raises(RunFailedError, match="overloaded"):
        await memory_agent(*frames, *ALIVE).run_agent("Hi", run_id="run-1")
    assert anyio.current_time() - started == pytest.approx(5)


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-4")
async def test_a_late_error_is_read() -> None:
    late = b'data: {"type": "RUN_ERROR", "message": "not stored"}\n\n'
    with pytest.raises(RunFailedError, match="not stored"):
        await memory_agent(*FRAMES, *ALIVE[:8], late).run_agent("Hi", run_id="run-1")


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-13")
async def test_only_the_end_of_the_requested_run_starts_that_clock() -> None:
    before: list[Any] = [*run_of("run-0", text("Before.", message_id="m0")), wait(100)]
    failed: list[Any] = [*run_of("run-00")[:1], b'data: {"type": "RUN_ERROR", "message": "no"}\n\n', wait(100)]
    result = await memory_agent(*before, *failed, *FRAMES).run_agent("Hi", run_id="run-1")
    assert (result.text, result.warnings) == ("One two three.", [])


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-13")
async def test_a_further_run_stops_that_clock() -> None:
    first, *rest = run_of("run-1", text("Again.", message_id="m2"))
    result = await memory_agent(*FRAMES, wait(4), first, wait(100), *rest).run_agent("Hi", run_id="run-1")
    assert (result.text, result.warnings) == ("Again.", [])


@pytest.mark.anyio
@pytest.mark.requirement("LIFE-13")
async def test_a_replay_never_starts_that_clock() -> None:
    frames: list[Any] = [*run_of("run-1", text("Before.", message_id="m0")), wait(100), *run_of("run-1")]
    agent = memory_agent(*frames, connect_url="connect")
    result = await agent.connect_agent()
    assert (len(agent.messages), [each.rule for each in result.warnings]) == (1, [])


@pytest.mark.anyio
@pytest.mark.parametrize(("limit", "seconds"), [(0.5, 0.5), (None, 60)])
async def test_the_time_for_it_can_be_chosen(limit: float | None, seconds: float) -> None:
    started = anyio.current_time()
    agent = memory_agent(*FRAMES, *OPEN, timeout=Timeouts(after_end=limit, idle=60))
    assert (await agent.run_agent("Hi", run_id="run-1")).text == "One two three."
    assert anyio.current_time() - started == pytest.approx(seconds)


@pytest.mark.anyio
async def test_an_application_that_takes_its_time_with_the_last_events_is_not_warned_about() -> None:
    agent = memory_agent(b"".join(FRAMES), wait(1))
    async with agent.stream("Hi", run_id="run-1") as run:
        async for _ in run:
            await anyio.sleep(20)
        result = await run.result()
    assert (result.text, result.warnings) == ("One two three.", [])


@pytest.mark.parametrize("blocks_loop", [False, True])
def test_a_sync_verb_speaks_of_an_event_loop_only_where_it_blocks_one(blocks_loop: bool) -> None:
    def call() -> None:
        HttpAgent(server.url).run_agent_sync("Hi", timeout=Timeouts(idle=0.05))

    async def call_in_loop() -> None:
        call()

    with serve_bytes(Reply(FRAMES[:3], end="stall")) as server, pytest.raises(IdleTimeoutError) as caught:
        anyio.run(call_in_loop) if blocks_loop else call()
    assert ("a sync verb blocks a running event loop" in str(caught.value)) == blocks_loop
