"""What a tool knows of its call, and what it can say while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ag_ui.core import ActivityMessage, ActivitySnapshotEvent, Event, UserMessage

from agui_client import HookContext, HttpAgent, Subscriber, ToolContext, ToolError, tool
from agui_client._core.ground.concurrency import LoopThread
from agui_client.asgi import agent_app
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.tool_calls import executed
from support.waiting import start_thread


def context(on_report: Callable[[Any], None] | None = None, loop: LoopThread | None = None) -> ToolContext:
    return ToolContext(tool_call_id="c1", name="dig", thread_id="t1", run_id="r1", on_report=on_report, loop=loop)


@pytest.mark.anyio
async def test_a_tool_knows_its_call() -> None:
    said = UserMessage(id="m1", content="Dig!")
    seen: list[Any] = []

    @tool
    def dig(ctx: ToolContext, depth: int) -> str:
        seen.extend([ctx.tool_call_id, ctx.name, ctx.arguments, ctx.thread_id, ctx.run_id, ctx.messages, ctx.state])
        return f"{depth} m, {ctx.is_cancelled}"

    given = replace(context(), arguments={"depth": 2}, messages=[said], state={"soil": "clay"})
    assert await executed(dig, given, '{"depth": 2}') == "2 m, False"
    assert seen == ["c1", "dig", {"depth": 2}, "t1", "r1", [said], {"soil": "clay"}]


def test_a_context_can_be_made_where_no_loop_runs_as_in_a_test_of_the_function() -> None:
    reports: list[Any] = []
    context(reports.append).report("halfway")
    context().report("halfway")
    assert reports == ["halfway"]


@pytest.mark.anyio
async def test_a_coroutine_function_reports_in_its_task() -> None:
    reports: list[Any] = []

    @tool
    async def dig(ctx: ToolContext) -> str:
        ctx.report(1)
        assert reports == [1]
        ctx.report({"done": 0.5})
        return "dug"

    assert await executed(dig, context(reports.append)) == "dug"
    assert reports == [1, {"done": 0.5}]


@pytest.mark.anyio
async def test_reports_from_a_thread_arrive_in_order_in_the_loop_before_the_result() -> None:
    here = threading.get_ident()
    reports: list[tuple[int, bool]] = []

    def note(progress: int) -> None:
        reports.append((progress, threading.get_ident() == here))

    @tool
    def dig(ctx: ToolContext) -> None:
        assert threading.get_ident() != here
        for depth in range(100):
            ctx.report(depth)

    await executed(dig, context(note, LoopThread()))
    assert reports == [(depth, True) for depth in range(100)]


@pytest.mark.anyio
async def test_reports_after_the_end_of_the_call_are_dropped() -> None:
    reports: list[Any] = []
    given = context(reports.append)

    @tool
    async def dig(ctx: ToolContext) -> str:
        return "dug"

    await executed(dig, given)
    given.report("late")
    await anyio.to_thread.run_sync(given.report, "later")
    await anyio.lowlevel.checkpoint()
    assert (reports, given.is_cancelled, given.ended.is_set()) == ([], True, True)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_report_into_a_loop_that_is_gone_is_dropped(backend: str) -> None:
    reports: list[Any] = []

    async def made() -> ToolContext:
        return context(reports.append, LoopThread())

    given = anyio.run(made, backend=backend)
    start_thread(lambda: given.report("too late"))(5)
    assert reports == []


@pytest.mark.anyio
async def test_a_question_that_nobody_can_be_asked_fails_the_call() -> None:
    with pytest.raises(ToolError, match="Nobody is here to answer"):
        await context().ask("Which one?")


class Watching(Subscriber):
    """Notes the activities that a hook and an observer see."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_activity_snapshot_event(self, event: ActivitySnapshotEvent, context: HookContext) -> None:
        """Note the content, and the last message."""
        self.seen.append((event.content, context.messages[-1].role))


@tool
async def draw(ctx: ToolContext, name: str) -> str:
    """Draw something beside the result."""
    ctx.show_activity("PICTURE", {"of": name})
    ctx.show_activity("FRAME", {"of": name})
    return f"drew {name}"


@tool
def draw_in_thread(ctx: ToolContext) -> str:
    """Draw something in a thread."""
    ctx.show_activity("PICTURE", {"of": "thread"})
    return "drew"


@pytest.mark.anyio
async def test_what_tools_show_follows_their_results_and_is_stored_and_never_sent() -> None:
    calls = turn(tool_call("draw", {"name": "boat"}), tool_call("draw_in_thread", {}))
    agent, watching = ScriptedAgent(calls, turn(text("Look.")), tools=[draw, draw_in_thread]), Watching()
    agent.subscribe(watching)
    async with agent.stream("Draw") as run:
        events = [event async for event in run]
    shown = [event.content for event in events if isinstance(event, ActivitySnapshotEvent)]
    assert sorted(map(str, shown)) == ["{'of': 'boat'}", "{'of': 'boat'}", "{'of': 'thread'}"]
    kinds = [event.type.value for event in events if event.type.value in ("TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")]
    assert kinds == ["TOOL_CALL_RESULT"] * 2 + ["ACTIVITY_SNAPSHOT"] * 3
    assert watching.seen == [(each, "activity") for each in shown]
    stored = [each for each in agent.messages if isinstance(each, ActivityMessage)]
    assert [each.content for each in stored] == shown
    assert len({each.id for each in stored}) == 3
    roles = ["user", *["assistant", "tool"] * 2, *["activity"] * 3, "assistant"]
    assert [each.role for each in agent.messages] == roles
    assert "activity" not in [each.role for each in agent.inputs[1].messages]
    assert agent.snapshot().messages == agent.messages


@pytest.mark.anyio
async def test_callers_of_a_served_agent_and_of_a_team_get_what_its_tools_show() -> None:
    def drawing() -> ScriptedAgent:
        steps = [turn(tool_call("draw", {"name": "boat"})), turn(text("Look."))]
        return ScriptedAgent(*steps, tools=[draw], agent_id="painter")

    for agent in (drawing(), SequentialAgent(drawing())):
        caller = HttpAgent("http://app/", app=agent_app(agent))
        result = await caller.run_agent("Draw")
        stored = [each for each in result.messages if isinstance(each, ActivityMessage)]
        assert [(each.activity_type, each.content) for each in stored] == [
            ("PICTURE", {"of": "boat"}),
            ("FRAME", {"of": "boat"}),
        ]
        assert result.warnings == []


def test_what_is_shown_after_the_end_of_a_call_or_to_nobody_is_dropped() -> None:
    shown: list[Any] = []

    def note(event: Event, failure: BaseException | None) -> None:
        shown.append(event)

    ctx = replace(context(), on_event=note)
    ctx.end()
    ctx.show_activity("PICTURE", {})
    context().show_activity("PICTURE", {})
    assert shown == []
