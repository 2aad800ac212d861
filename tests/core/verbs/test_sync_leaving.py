"""Leaving a sync run closes its connection at once, from its own thread and from others (LIFE-11)."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput, RunStartedEvent, TextMessageContentEvent

from agui_client import FunctionAgent, FunctionToolset, HttpAgent, SyncAgentRun
from agui_client.testing import (
    ByteServer,
    Reply,
    ScriptedAgent,
    patch,
    pause,
    serve_bytes,
    sse,
    state,
    text,
    turn,
)
from support.leaks import nothing_left_behind_sync
from support.waiting import SOON, in_thread, start_thread, until_sync

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""
COUNTING = turn(state({"n": 0}), text("a b c"), patch({"op": "replace", "path": "/n", "value": 1}), text("d"))


@contextmanager
def stalling(*replies: Reply) -> Generator[tuple[ByteServer, HttpAgent]]:
    with serve_bytes(*(replies or (Reply([BEGUN], end="stall"),))) as server:
        yield server, HttpAgent(server.url)


def read_two_words(run: SyncAgentRun) -> None:
    for _ in range(4):
        next(run)


def assert_gone(server: ByteServer, left_at: float) -> None:
    until_sync(server.disconnected.is_set, SOON)
    assert server.disconnected_at is not None
    assert server.disconnected_at - left_at < SOON


def leaving_the_block(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        read_two_words(run)


def break_in_the_loop(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for _ in run:
            break


def break_in_the_text(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for _ in run.text_stream:
            break


def an_exception(agent: HttpAgent) -> None:
    def refuse() -> None:
        with agent.stream_sync("Hi") as run:
            read_two_words(run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        refuse()


def an_interrupt(agent: HttpAgent) -> None:
    def interrupt() -> None:
        with agent.stream_sync("Hi") as run:
            read_two_words(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()


def cancel_in_the_loop(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for event in run:
            if isinstance(event, TextMessageContentEvent):
                run.cancel()
        assert run.result().aborted


def cancel_from_another_thread(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        read_two_words(run)
        join = start_thread(run.cancel)
        assert list(run) == []
        assert run.result().text == "One two"
        join(SOON)


def abort_from_another_thread(agent: HttpAgent) -> None:
    def abort() -> None:
        until_sync(lambda: agent.is_running)
        until_sync(lambda: len(agent.messages) == 2)
        agent.abort_run()

    join = start_thread(abort)
    with agent.stream_sync("Hi") as run:
        assert len(list(run)) == 4
        assert (run.result().aborted, run.result().outcome) == (True, None)
    join(SOON)


@pytest.mark.requirement("LIFE-11")
@pytest.mark.parametrize(
    "leave",
    [
        leaving_the_block,
        break_in_the_loop,
        break_in_the_text,
        an_exception,
        an_interrupt,
        cancel_in_the_loop,
        cancel_from_another_thread,
        abort_from_another_thread,
    ],
    ids=lambda way: way.__name__,
)
def test_the_connection_is_closed_at_once(leave: Callable[[HttpAgent], None]) -> None:
    with stalling() as (server, agent):
        with nothing_left_behind_sync():
            in_thread(lambda: leave(agent))
            assert_gone(server, time.monotonic())
        assert not agent.is_running
        assert agent.messages[0].content == "Hi"


@pytest.mark.requirement("LIFE-11")
def test_run_agent_sync_can_be_aborted_from_another_thread() -> None:
    with stalling() as (server, agent), nothing_left_behind_sync():
        join = start_thread(lambda: agent.run_agent_sync("Hi"))
        until_sync(lambda: bool(server.requests))
        agent.abort_run()
        assert join(SOON).aborted
        assert_gone(server, time.monotonic())


def test_a_run_far_ahead_of_its_reader_can_be_left() -> None:
    much = sse(turn(text("x" * 5_000, chunk=1)))
    with stalling(Reply([much], end="stall")) as (server, agent), nothing_left_behind_sync():
        with agent.stream_sync("Hi") as run:
            next(run)
        assert_gone(server, time.monotonic())


def test_a_run_nobody_reads_can_be_left() -> None:
    with stalling() as (_, agent), nothing_left_behind_sync():
        with agent.stream_sync("Hi"):
            pass
        assert not agent.is_running


def test_a_finished_run_leaves_nothing_behind() -> None:
    with serve_bytes(FRAMES) as server, nothing_left_behind_sync():
        HttpAgent(server.url).run_agent_sync("Hi")


def test_an_agent_in_this_process_is_closed_when_its_run_is_left() -> None:
    agent = ScriptedAgent(turn(text("One two"), pause(math.inf)))
    with nothing_left_behind_sync(), agent.stream_sync("Hi") as run:
        next(run)
    assert not agent.is_running


@pytest.mark.requirement("LIFE-11")
def test_cancelling_after_the_end_does_nothing() -> None:
    with ScriptedAgent(COUNTING).stream_sync("Hi") as run:
        result = run.result()
        run.cancel()
    run.cancel()
    assert not run.result().aborted
    assert run.result() is result


def test_ctrl_c_while_a_toolset_closes_waits_for_the_rest_of_it() -> None:
    class Closing(FunctionToolset):
        async def __aexit__(self, *exc_info: object) -> None:
            await anyio.sleep(0.05)  # until the caller's thread waits
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.05)

    agent = ScriptedAgent(turn(text("Hi")), tools=Closing([]))
    with pytest.raises(KeyboardInterrupt):
        agent.run_agent_sync("Hi")
    assert not agent.is_running


def test_ctrl_c_while_the_body_of_a_response_waits_closes_the_run() -> None:
    agent = ScriptedAgent(turn(text("Hi"), pause(math.inf)))
    body = agent.stream_sync("Hi").sse(keep_alive=SOON)
    while b"TEXT_MESSAGE_END" not in next(body):
        pass

    def read_on() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        list(body)

    with pytest.raises(KeyboardInterrupt):
        read_on()
    assert not agent.is_running


@pytest.mark.parametrize("moment", ["running", "closing"])
def test_ctrl_c_twice_waits_no_longer_for_a_loop_that_is_busy(moment: str) -> None:
    over = threading.Event()

    async def answer(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        await anyio.sleep(0.05)  # until the caller's thread waits
        try:
            if moment == "closing":
                os.kill(os.getpid(), signal.SIGINT)
                await anyio.sleep_forever()
        finally:
            for seconds in (0.1,) if moment == "closing" else (0.05, 0.1):
                threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
            over.wait(20)  # as a library that is imported blocks the loop

    agent = FunctionAgent(answer)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        agent.run_agent_sync("Hi")
    assert time.monotonic() - began < 10
    over.set()
    until_sync(lambda: not agent.is_running)


def test_the_first_run_imports_no_http_library_in_its_loop() -> None:
    program = "import sys, agui_client; agui_client.HttpAgent('http://localhost/'); print('httpcore' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60) == "True\n"
