"""Stopping a call without `await`: from another thread, by leaving its block, by disposing, and with Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from itertools import cycle

import pytest
from ag_ui.core import EventType

from agui_client import RunResult
from agui_client.testing import ScriptedAgent, serve, tool_call, turn
from support.holding import DONE, Holding, assert_aborted, assert_only_what_was_done_is_kept, every_holder
from support.leaks import nothing_left_behind_sync
from support.programs import DEV, Program
from support.tool_rounds import Ran, results_in
from support.waiting import LIMIT, in_thread, start_thread, until_sync
from support.watching import Watcher


@every_holder
def test_a_sync_call_is_stopped_from_another_thread(made: ScriptedAgent, holding: Holding) -> None:
    with nothing_left_behind_sync():
        join = start_thread(lambda: made.run_agent_sync("Hi", **holding.options))
        until_sync(holding.begun.is_set)
        made.abort_run()
        assert_aborted(join(LIMIT))
        assert_only_what_was_done_is_kept(made, holding)
        holding.may_end.set()
        until_sync(lambda: not _left_threads())


@every_holder
def test_a_sync_block_is_stopped_from_another_thread(made: ScriptedAgent, holding: Holding) -> None:
    def iterate() -> RunResult:
        with made.stream_sync("Hi", **holding.options) as run:
            list(run)
            return run.result()

    with nothing_left_behind_sync():
        join = start_thread(iterate)
        until_sync(holding.begun.is_set)
        made.abort_run()
        assert_aborted(join(LIMIT))
        assert_only_what_was_done_is_kept(made, holding)
        holding.may_end.set()
        until_sync(lambda: not _left_threads())


@pytest.mark.parametrize("last", [EventType.TOOL_CALL_END, EventType.RUN_FINISHED])
@pytest.mark.requirement("SEC-2")
def test_no_tool_is_run_for_a_sync_caller_who_leaves_before_he_is_past_the_end_of_the_run(last: EventType) -> None:
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look"), tool_call("listen")), DONE, tools=ran.tools)

    def leave() -> None:
        with agent.stream_sync("Hi") as run:
            next(event for event in run if event.type is last)
            for _ in range(10):
                assert run.tool_executions == []

    in_thread(leave)
    assert (ran.calls, len(agent.inputs), results_in(agent.messages)) == ([], 1, [])
    assert agent.pending_tool_calls[0].id == "call-1"


@every_holder
def test_an_observable_without_a_loop_is_disposed_of(made: ScriptedAgent, holding: Holding) -> None:
    watcher = Watcher()
    with nothing_left_behind_sync():
        subscription = watcher.watch(made.observe("Hi", **holding.options))
        until_sync(holding.begun.is_set)
        subscription.dispose()
        until_sync(lambda: not made.is_running)
        assert_only_what_was_done_is_kept(made, holding)
        holding.may_end.set()
        until_sync(lambda: not _left_threads())
        until_sync(lambda: not [each for each in threading.enumerate() if each.name == "agui_client.observe"])
    assert (watcher.errors, watcher.completions) == ([], 0)


def _left_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("agui_client:")]


# --- Ctrl-C

LEFT = "tool hold was left running in its thread; it can look at ctx.is_cancelled"
BEGINNING = """
import sys, threading, time
import anyio
from agui_client import HttpAgent, tool

@tool
async def hold() -> None:
    try:
        print("ready", flush=True)
        await anyio.sleep_forever()
    finally:
        print("cancelled", flush=True)

@tool(name="hold")
def hold_in_thread() -> None:
    print("ready", flush=True)
    threading.Event().wait()

agent = HttpAgent(sys.argv[1], tools=[hold_in_thread if sys.argv[2] == "sync" else hold])
"""
PROGRAMS = {
    "run_agent_sync": "agent.run_agent_sync('Hi')",
    "stream_sync": """
with agent.stream_sync("Hi") as run:
    for event in run:
        pass
""",
    "stream, asyncio": """
async def main():
    async with agent.stream("Hi") as run:
        async for event in run:
            pass

import asyncio
asyncio.run(main())
""",
    "run_agent, trio": """
import trio
trio.run(agent.run_agent, "Hi")
""",
    "observe in a loop": """
import asyncio

async def main():
    agent.observe("Hi").subscribe()
    await asyncio.Event().wait()

asyncio.run(main())
""",
    "observe in a thread": """
subscription = agent.observe("Hi").subscribe()
try:
    threading.Event().wait()
finally:
    subscription.dispose()
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals to another process are POSIX's")
@pytest.mark.parametrize(("name", "kind"), [*zip(PROGRAMS, cycle(["async", "sync"]))])
def test_ctrl_c_in_the_middle_of_a_tool_ends_the_program(name: str, kind: str) -> None:
    producer = ScriptedAgent(turn(tool_call("hold")), DONE)
    source = BEGINNING + PROGRAMS[name]
    with serve(producer) as server, Program("-c", source, server.url, kind, flags=DEV) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pressed_at = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=LIMIT)
        assert time.monotonic() - pressed_at < LIMIT
    assert process.returncode == -signal.SIGINT
    # What threads log may come before and after it.
    assert "KeyboardInterrupt" in complaints.splitlines()
    assert (printed, LEFT in complaints) == (("cancelled\n", False) if kind == "async" else ("", True))
    for word in ("Warning", "never awaited", "was destroyed", "Exception ignored", "never retrieved"):
        assert word not in complaints
    assert len(producer.inputs) == 1
