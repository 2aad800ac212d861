"""What a tool knows of its call, and what it can say while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ag_ui.core import UserMessage

from agui_client import ToolError
from agui_client._core.ground.concurrency import LoopThread
from agui_client._core.tools.context import ToolContext
from agui_client._core.tools.function import tool
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
