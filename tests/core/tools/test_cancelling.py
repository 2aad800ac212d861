"""A call that is stopped while tools or people are at it ends at once: nothing hangs, and nothing is done twice.

What waits in a task is cancelled; what waits in a thread is left there with a warning. Results that are there are kept.
"""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest
from ag_ui.core import Interrupt, ResumeEntry, RunFinishedEvent

from agui_client import HookContext, IncompleteRunError, Resolve, RunResult, ToolContext, UsageError, tool
from agui_client.testing import ScriptedAgent, interrupt, tool_call, turn
from support.given_up import NO_RESULT
from support.holding import (
    DONE,
    HOLDERS,
    Holding,
    assert_aborted,
    assert_only_what_was_done_is_kept,
    every_holder,
)
from support.leaks import nothing_left_behind
from support.tool_rounds import Ran, results_in, results_sent
from support.waiting import LIMIT, start_thread, until, until_sync
from support.watching import Watcher

pytestmark = pytest.mark.both_loops

Way = Callable[[ScriptedAgent, Holding], Awaitable[None]]


class OtherError(Exception):
    """The application's own."""


async def begun(holding: Holding) -> None:
    await until(holding.begun.is_set)


# --- ways to stop


async def a_cancelled_scope(agent: ScriptedAgent, holding: Holding) -> None:
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:

            async def stop() -> None:
                await begun(holding)
                scope.cancel()

            tasks.start_soon(stop)
            await agent.run_agent("Hi", **holding.options)
        assert scope.cancelled_caught


async def a_time_out(agent: ScriptedAgent, holding: Holding) -> None:
    async with anyio.create_task_group() as tasks:

        async def soon() -> None:
            await begun(holding)
            scope.deadline = anyio.current_time()

        with anyio.move_on_after(LIMIT) as scope:
            tasks.start_soon(soon)
            async with agent.stream("Hi", **holding.options) as run:
                async for _ in run:
                    pass
        assert scope.cancelled_caught


async def a_sibling_that_fails(agent: ScriptedAgent, holding: Holding) -> None:
    async def fail() -> None:
        await begun(holding)
        raise OtherError

    async def ask() -> None:
        await agent.run_agent("Hi", **holding.options)

    with pytest.RaisesGroup(OtherError):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(fail)


async def abort_from_another_task(agent: ScriptedAgent, holding: Holding) -> None:
    async def stop() -> None:
        await begun(holding)
        agent.abort_run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        assert_aborted(await agent.run_agent("Hi", **holding.options))


async def abort_from_another_thread(agent: ScriptedAgent, holding: Holding) -> None:
    def stop() -> None:
        until_sync(holding.begun.is_set)
        agent.abort_run()

    join = start_thread(stop)
    async with agent.stream("Hi", **holding.options) as run:
        async for _ in run:
            pass
        assert_aborted(await run.result())
        assert [event async for event in run] == []
    join(LIMIT)


async def cancel_the_task(agent: ScriptedAgent, holding: Holding) -> None:
    """As programs do that know asyncio only."""
    if not _is_asyncio():
        return await a_cancelled_scope(agent, holding)
    task = asyncio.create_task(agent.run_agent("Hi", **holding.options))
    await begun(holding)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    return None


async def dispose(agent: ScriptedAgent, holding: Holding) -> None:
    if not _is_asyncio():
        return await abort_from_another_task(agent, holding)
    watcher = Watcher()
    subscription = watcher.watch(agent.observe("Hi", **holding.options))
    await begun(holding)
    subscription.dispose()
    await until(lambda: not agent.is_running)
    assert (watcher.errors, watcher.completions) == ([], 0)
    return None


def _is_asyncio() -> bool:
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


WAYS: list[Way] = [
    a_cancelled_scope,
    a_time_out,
    a_sibling_that_fails,
    abort_from_another_task,
    abort_from_another_thread,
    cancel_the_task,
    dispose,
]
every_way = pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)


@every_holder
@every_way
@pytest.mark.anyio
@pytest.mark.requirement("LIFE-11", "SEC-3", "TOOL-10")
async def test_a_call_that_is_stopped_ends_at_once_and_the_conversation_goes_on_without_repeating_anything(
    made: ScriptedAgent, holding: Holding, stop: Way, caplog: pytest.LogCaptureFixture
) -> None:
    threads = set(threading.enumerate())
    async with nothing_left_behind():
        with anyio.fail_after(LIMIT):
            await stop(made, holding)
        assert_only_what_was_done_is_kept(made, holding)
        assert holding.ended.is_set() is not holding.in_thread
        with anyio.fail_after(LIMIT):
            await _assert_that_the_conversation_goes_on(made, holding)
        holding.may_end.set()
        await until(lambda: set(threading.enumerate()) <= threads or holding.ended.is_set())
        await until(lambda: not [each for each in threading.enumerate() if each.name.startswith("agui_client:")])
    assert any("left" in message and "in its thread" in message for message in caplog.messages) is holding.in_thread
    stopped = "tool 'hold' was stopped in the middle (call 'c2'); its effect is unknown"
    assert (stopped in caplog.messages) is (holding.has_sibling and holding.status == "running")


async def _assert_that_the_conversation_goes_on(made: ScriptedAgent, holding: Holding) -> None:
    made.abandon_interrupts()
    is_unknown = "c2" in [each.id for each in made.unknown_tool_calls]
    result = await made.run_agent("Go on")
    assert (result.text, holding.calls) == ("Done.", 1)
    assert [message.role for message in made.messages].count("user") == 2
    if holding.has_sibling:
        (warning,) = result.warnings
        assert (warning.rule, "'c2'" in warning.message, "'c1'" in warning.message) == ("TOOL-10", True, False)
        unknown = "unknown: the tool was called, and stopped before it answered; it may have had its effect or not"
        # Where the approver was asked still, the function was never called.
        no_result = unknown if is_unknown else NO_RESULT
        assert results_sent(made)[1] == [("c1", "seen", None), ("c2", no_result, no_result)]


@every_holder
@pytest.mark.anyio
async def test_a_wait_that_was_cancelled_cannot_be_taken_up_again(made: ScriptedAgent, holding: Holding) -> None:
    async with anyio.create_task_group() as tasks, made.stream("Hi", **holding.options) as run:

        async def soon() -> None:
            await begun(holding)
            scope.cancel()

        with anyio.move_on_after(LIMIT) as scope:
            tasks.start_soon(soon)
            async for _ in run:
                pass
        assert scope.cancelled_caught
        with pytest.raises(IncompleteRunError, match="the run was cancelled while it waited") as first:
            await anext(run)
        assert [event async for event in run] == []
        with pytest.raises(IncompleteRunError) as second:
            await run.result()
        assert first.value is second.value
        assert isinstance(first.value.partial, RunResult)
        statuses = [("c1", "succeeded"), ("c2", "cancelled")] if holding.has_sibling else []
        assert [(each.tool_call_id, each.status) for each in first.value.partial.tool_executions] == statuses
        assert results_in(first.value.partial.messages) == results_in(made.messages)
    assert_only_what_was_done_is_kept(made, holding)


@pytest.mark.anyio
async def test_left_after_a_wait_that_was_cancelled_a_run_has_no_result(holding: Holding) -> None:
    agent = HOLDERS["async tool"](holding)
    async with anyio.create_task_group() as tasks, agent.stream("Hi") as run:
        with anyio.CancelScope() as scope:

            async def soon() -> None:
                await begun(holding)
                scope.cancel()

            tasks.start_soon(soon)
            await run.result()
    with pytest.raises(UsageError, match="left before the run ended"):
        await run.result()


@every_holder
@pytest.mark.anyio
async def test_a_second_task_that_pulls_is_refused_and_disturbs_nothing(made: ScriptedAgent, holding: Holding) -> None:
    async with anyio.create_task_group() as tasks, made.stream("Hi", **holding.options) as run:

        async def pull() -> None:
            await begun(holding)
            with pytest.raises(UsageError, match="two tasks iterate one run"):
                await anext(run)
            assert not holding.ended.is_set()
            run.cancel()

        tasks.start_soon(pull)
        with anyio.fail_after(LIMIT):
            async for _ in run:
                pass
            assert_aborted(await run.result())
    assert_only_what_was_done_is_kept(made, holding)


# --- a tool that stops its own run


@pytest.mark.anyio
@pytest.mark.parametrize("waits", [True, False], ids=["and waits", "and returns"])
async def test_a_tool_may_stop_its_own_run(waits: bool) -> None:
    @tool
    async def stop() -> str:
        agent.abort_run()
        if waits:
            await anyio.sleep_forever()
        return "stopped"

    agent = ScriptedAgent(turn(tool_call("stop")), DONE, tools=[stop])
    with anyio.fail_after(LIMIT):
        async with nothing_left_behind():
            assert_aborted(await agent.run_agent("Hi"))
    assert (len(agent.inputs), agent.is_running) == (1, False)


@pytest.mark.anyio
async def test_a_tool_may_stop_its_own_run_from_its_thread() -> None:
    @tool
    def stop(ctx: ToolContext) -> bool:
        agent.abort_run()
        return ctx.ended.wait(LIMIT)

    agent = ScriptedAgent(turn(tool_call("stop")), DONE, tools=[stop])
    with anyio.fail_after(LIMIT):
        assert_aborted(await agent.run_agent("Hi"))
    assert len(agent.inputs) == 1


@pytest.mark.anyio
async def test_a_tool_that_takes_its_time_to_stop_is_waited_for(holding: Holding) -> None:
    steps: list[str] = []

    @tool
    async def hold() -> None:
        try:
            await holding.hold()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                steps.append("tidied up")

    holding.has_sibling = False
    agent = ScriptedAgent(turn(tool_call("hold")), DONE, tools=[hold])
    with anyio.fail_after(LIMIT):
        await abort_from_another_task(agent, holding)
    assert steps == ["tidied up"]


@pytest.mark.anyio
async def test_a_tool_that_will_not_be_cancelled_is_kept_with_its_result(holding: Holding) -> None:
    @tool
    async def hold() -> str:
        try:
            await holding.hold()
        except BaseException:
            return "done all the same"  # as careless code does
        return ""

    holding.has_sibling = False
    agent = ScriptedAgent(turn(tool_call("hold")), DONE, tools=[hold])
    with anyio.fail_after(LIMIT):
        await abort_from_another_task(agent, holding)
    assert results_in(agent.messages) == [("call-1", "done all the same", None)]
    assert len(agent.inputs) == 1


@pytest.mark.anyio
async def test_a_run_stopped_between_two_rounds_asks_nothing_more() -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE, tools=Ran().tools)

    @agent.on(RunFinishedEvent)
    def stop(event: RunFinishedEvent, context: HookContext) -> None:
        agent.abort_run()

    with anyio.fail_after(LIMIT):
        result = await agent.run_agent("Hi")
    assert (result.aborted, [call.id for call in result.pending_tool_calls]) == (False, ["call-1"])
    assert len(agent.inputs) == 1


@pytest.mark.anyio
async def test_an_answer_given_while_the_run_is_stopped_is_kept_for_the_next() -> None:
    async def answer(asked: Interrupt) -> Resolve:
        agent.abort_run()
        return Resolve("yes")

    agent = ScriptedAgent(turn(outcome=interrupt("Sure?")), DONE, answer=answer)
    with anyio.fail_after(LIMIT):
        assert_aborted(await agent.run_agent("Hi"))
        assert (len(agent.inputs), agent.pending_interrupts) == (1, [])
        await agent.run_agent()
    assert agent.inputs[1].resume == [ResumeEntry(interrupt_id="interrupt-1", status="resolved", payload="yes")]


@every_way
@pytest.mark.anyio
async def test_answers_are_kept_when_tools_are_stopped(holding: Holding, stop: Way) -> None:
    holding.has_sibling = False

    @tool
    async def hold() -> None:
        await holding.hold()

    agent = ScriptedAgent(
        turn(tool_call("hold"), outcome=interrupt("Sure?")), DONE, tools=[hold], answer=lambda asked: Resolve("yes")
    )
    with anyio.fail_after(LIMIT):
        await stop(agent, holding)
        assert agent.pending_interrupts == []
        await agent.run_agent(tool_results={"call-1": "by hand"})
    assert agent.inputs[1].resume == [ResumeEntry(interrupt_id="interrupt-1", status="resolved", payload="yes")]


@pytest.mark.anyio
async def test_answers_that_were_sent_are_not_kept_when_a_later_round_is_stopped(holding: Holding) -> None:
    holding.has_sibling = False

    @tool
    async def hold() -> None:
        await holding.hold()

    agent = ScriptedAgent(
        turn(outcome=interrupt("Sure?")),
        turn(tool_call("hold")),
        DONE,
        tools=[hold],
        answer=lambda asked: Resolve("yes"),
    )
    with anyio.fail_after(LIMIT):
        await abort_from_another_task(agent, holding)
        await agent.run_agent(tool_results={"call-1": "by hand"})
    assert [len(asked.resume or ()) for asked in agent.inputs] == [0, 1, 0]
