"""Watching tools at work: `run.tool_executions`, `on_tool_execution` of observers, progress from threads."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import Any

import anyio
import pytest

from agui_client import (
    RunObserver,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolLimits,
    tool,
)
from agui_client.testing import Gate, ScriptedAgent, text, tool_call, turn
from agui_client.types import RunScope
from support.tool_rounds import Ran, results_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb
from support.waiting import LIMIT, start_thread, until_sync

DONE = turn(text("Done."))
CALL = turn(tool_call("work", {"pieces": 2}, tool_call_id="c1"))

Told = tuple[str, tuple[Any, ...], str | None]
"""Of an execution: the status, the progress, and the error the agent is told."""


@tool
async def work(ctx: ToolContext, pieces: int = 0) -> str:
    """Reports each piece."""
    for number in range(pieces):
        ctx.report(number)
    return "worked"


@tool(name="work")
def work_in_thread(ctx: ToolContext, pieces: int = 0) -> str:
    """Reports each piece, from its thread."""
    for number in range(pieces):
        ctx.report(number)
    return "worked"


def brief(execution: ToolExecution) -> Told:
    error = None if execution.message is None else execution.message.error
    return execution.status, tuple(execution.progress), error


class Watch(RunObserver):
    """Notes what it observes, by call."""

    def __init__(self) -> None:
        self.told: defaultdict[str, list[Told]] = defaultdict(list)

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Take note."""
        self.told[execution.tool_call_id].append(brief(execution))


@pytest.mark.parametrize("worker", [work, work_in_thread], ids=["task", "thread"])
@every_kind_of_verb
def test_observers_see_every_step_in_order(verb: Verb, worker: Any) -> None:
    watch = Watch()
    agent = ScriptedAgent(CALL, DONE, tools=[worker])
    agent.add_observer(watch)
    assert verb(agent, "Hi").error is None
    assert watch.told == {
        "c1": [
            ("waiting", (), None),
            ("running", (), None),
            ("running", (0,), None),
            ("running", (0, 1), None),
            ("succeeded", (0, 1), None),
        ]
    }


def test_of_many_reports_the_latest_hundred_are_kept() -> None:
    watch = Watch()
    agent = ScriptedAgent(turn(tool_call("work", {"pieces": 5000}, tool_call_id="c1")), DONE, tools=[work])
    agent.add_observer(watch)
    (execution,) = agent.run_agent_sync("Hi").tool_executions
    assert tuple(execution.progress) == tuple(range(4900, 5000))
    assert watch.told["c1"][-1] == ("succeeded", tuple(range(4900, 5000)), None)


@every_kind_of_verb
def test_observers_see_how_calls_fail(verb: Verb) -> None:
    @tool
    def break_down() -> str:
        raise ToolError("no coal")

    @tool(timeout=0.01)
    async def wait() -> str:
        await anyio.sleep_forever()
        return ""

    @tool(approval="always")
    def pay() -> str:
        return "paid"

    watch = Watch()
    names = ("break_down", "wait", "pay", "work")
    calls = [tool_call(name, '{"pieces":' if name == "work" else "{}", tool_call_id=name) for name in names]
    agent = ScriptedAgent(turn(*calls), DONE, tools=[break_down, wait, pay, work], approve=lambda request: False)
    agent.add_observer(watch)
    assert verb(agent, "Hi").error is None
    errors = {tool_call_id: error for tool_call_id, _, error in results_sent(agent)[1]}
    assert list(errors) == list(names)
    assert watch.told == {
        "break_down": [("waiting", (), None), ("running", (), None), ("failed", (), "no coal")],
        "wait": [("waiting", (), None), ("running", (), None), ("timed out", (), errors["wait"])],
        "pay": [("waiting", (), None), ("denied", (), "The user denied this tool call.")],
        "work": [("waiting", (), None), ("failed", (), errors["work"])],
    }


@every_result_verb
def test_the_result_says_how_each_call_was_carried_out(verb: Verb) -> None:
    agent = ScriptedAgent(CALL, DONE, tools=[work])
    result = verb(agent, "Hi").result
    assert result is not None
    (execution,) = result.tool_executions
    assert (execution.tool_call_id, execution.name, execution.status) == ("c1", "work", "succeeded")
    assert (execution.arguments, execution.progress) == ({"pieces": 2}, (0, 1))
    assert execution.message == agent.messages[2]
    assert execution.seconds is not None
    assert execution.seconds >= 0


@pytest.mark.anyio
async def test_a_run_shows_its_tools_while_they_are_at_work() -> None:
    seen: list[list[tuple[str, str]]] = []
    may_end, has_begun = Gate(), Gate()

    @tool
    async def hold() -> None:
        has_begun.open()
        await may_end.wait()

    agent = ScriptedAgent(
        turn(tool_call("hold"), tool_call("look")),
        DONE,
        tools=[hold, *Ran().tools],
        tool_limits=ToolLimits(at_once=1),
    )
    async with agent.stream("Hi") as run, anyio.create_task_group() as tasks:

        async def look() -> None:
            await has_begun.wait()
            seen.append([(each.name, each.status) for each in run.tool_executions])
            may_end.open()

        tasks.start_soon(look)
        assert run.tool_executions == []
        with anyio.fail_after(LIMIT):
            await run.result()
        assert [(each.name, each.status) for each in run.tool_executions] == [
            ("hold", "succeeded"),
            ("look", "succeeded"),
        ]
    ((hold_seen, look_seen),) = seen
    assert hold_seen == ("hold", "running")
    # Which of the two comes first is the event loop's to say.
    assert look_seen in (("look", "waiting"), ("look", "succeeded"))


def test_a_sync_run_shows_its_tools_to_another_thread_while_they_are_at_work() -> None:
    may_end = threading.Event()

    @tool
    def hold(ctx: ToolContext) -> None:
        ctx.report("here")
        may_end.wait()

    agent = ScriptedAgent(turn(tool_call("hold")), DONE, tools=[hold])

    def let_go() -> None:
        until_sync(lambda: [brief(each) for each in run.tool_executions] == [("running", ("here",), None)])
        may_end.set()

    with agent.stream_sync("Hi") as run:
        join = start_thread(let_go)
        list(run)
        join(LIMIT)
        assert [brief(each) for each in run.tool_executions] == [("succeeded", ("here",), None)]
        assert run.result().tool_executions == run.tool_executions


@every_kind_of_verb
def test_progress_may_be_reported_from_any_thread(verb: Verb) -> None:
    @tool
    def work(ctx: ToolContext) -> None:
        start_thread(lambda: ctx.report("elsewhere"))(LIMIT)

    watch = Watch()
    agent = ScriptedAgent(turn(tool_call("work")), DONE, tools=[work])
    agent.add_observer(watch)
    assert verb(agent, "Hi").error is None
    assert watch.told["call-1"][2:] == [("running", ("elsewhere",), None), ("succeeded", ("elsewhere",), None)]


@every_kind_of_verb
def test_what_is_reported_after_the_end_is_dropped(verb: Verb) -> None:
    contexts: list[ToolContext] = []

    @tool
    def work(ctx: ToolContext) -> None:
        contexts.append(ctx)

    @tool
    async def late() -> bool:
        contexts[0].report("too late")
        return contexts[0].is_cancelled

    watch = Watch()
    agent = ScriptedAgent(turn(tool_call("work")), turn(tool_call("late")), DONE, tools=[work, late])
    agent.add_observer(watch)
    assert verb(agent, "Hi").error is None
    assert watch.told["call-1"][-1] == ("succeeded", (), None)
    assert results_sent(agent)[2][1] == ("call-2", "true", None)


@every_result_verb
def test_a_tool_knows_its_call_and_the_conversation(verb: Verb) -> None:
    known: list[Any] = []

    @tool
    def look(ctx: ToolContext, at: str) -> str:
        known.extend([ctx.tool_call_id, ctx.name, ctx.arguments, ctx.thread_id, ctx.run_id, ctx.state])
        known.append([message.role for message in ctx.messages])
        return at

    agent = ScriptedAgent(turn(tool_call("look", {"at": "sea"})), DONE, tools=[look], initial_state={"a": 1})
    verb(agent, "Hi", run_id="r1")
    roles = ["user", "assistant"]
    assert known == ["call-1", "look", {"at": "sea"}, agent.thread_id, "r1", {"a": 1}, roles]


def test_what_became_of_a_call_is_logged_without_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "agui_client.tools"):
        agent = ScriptedAgent(turn(tool_call("look", {"at": "secret"})), DONE, tools=Ran().tools)
        agent.run_agent_sync("Hi")
    assert [each.getMessage() for each in caplog.records if each.name == "agui_client.tools"] == [
        "tool 'look' succeeded (call 'call-1')"
    ]
    (fields,) = [each.__dict__["agui"] for each in caplog.records if each.name == "agui_client.tools"]
    assert (fields["thread_id"], fields["run_id"]) == (agent.thread_id, agent.inputs[0].run_id)
    assert (fields["tool"], fields["tool_call_id"], fields["status"]) == ("look", "call-1", "succeeded")
    assert "secret" not in str(fields)
