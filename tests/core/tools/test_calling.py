"""Carrying out a call: in the task or in a thread, to the end or cancelled, and what of it the agent may know."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from ag_ui.core import TextPart

from agui_client import FunctionTool, ToolContext, tool
from agui_client._core.tools.function import call_function
from agui_client._core.tools.toolset import FAILED
from agui_client.errors import ToolError, ToolRoundsExceededError
from support.leaks import nothing_left_behind
from support.tool_calls import executed
from support.waiting import LIMIT, until

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

USER = contextvars.ContextVar("USER", default="nobody")


def context() -> ToolContext:
    return ToolContext(tool_call_id="c1", name="dig", thread_id="t1", run_id="r1")


async def outcome(offered: FunctionTool[..., Any], text: str = "") -> Any:
    """What comes of a call."""
    with anyio.fail_after(LIMIT):
        return await executed(offered, context(), text)


async def complaint(offered: FunctionTool[..., Any]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await outcome(offered)
    return caught.value


async def test_a_coroutine_function_runs_in_the_task() -> None:
    @tool
    async def where() -> list[str]:
        await anyio.lowlevel.checkpoint()
        return [threading.current_thread().name, USER.get()]

    USER.set("ada")
    assert await outcome(where) == f'["{threading.current_thread().name}","ada"]'


async def test_any_other_function_runs_in_a_thread_with_the_tasks_context() -> None:
    @tool
    def where() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), USER.get()

    USER.set("ada")
    assert await outcome(where) == '[false,"ada"]'


async def test_a_function_that_returns_something_to_await_is_awaited() -> None:
    async def slowly() -> str:
        await anyio.lowlevel.checkpoint()
        return "dug"

    @tool
    def dig() -> Awaitable[str]:
        return slowly()

    assert await outcome(dig) == "dug"


async def test_arguments_come_by_name_after_the_context() -> None:
    @tool
    async def dig(ctx: ToolContext, /, depth: int, *, tools: list[str]) -> list[Any]:
        return [ctx.tool_call_id, depth, tools]

    assert await outcome(dig, '{"tools": ["spade"], "depth": 2}') == '["c1",2,["spade"]]'


async def test_content_parts_stay_parts() -> None:
    @tool
    def look() -> list[TextPart]:
        return [TextPart(text="a"), TextPart(text="b")]

    assert await outcome(look) == [TextPart(text="a"), TextPart(text="b")]


@pytest.mark.requirement("TOOL-10")
async def test_a_tool_error_reaches_the_agent_in_its_own_words() -> None:
    @tool
    def dig() -> str:
        raise ToolError("the ground is frozen; \ud83d try later")

    @tool
    async def dig_slowly() -> str:
        raise ToolError("no spade")

    assert (await complaint(dig)).message == "the ground is frozen; ? try later"
    assert (await complaint(dig_slowly)).message == "no spade"


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize("error", [KeyError("password=1234"), TimeoutError(), StopIteration(), TypeError("x")])
async def test_any_other_exception_is_for_the_log_and_not_for_the_agent(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def dig() -> str:
        raise error

    @tool
    async def dig_slowly() -> str:
        raise error

    caplog.set_level(logging.DEBUG, "agui_client.tools")
    offered: list[FunctionTool[..., Any]] = [dig, dig_slowly]
    told = [await complaint(each) for each in offered]
    assert [each.message for each in told] == [FAILED] * 2
    records = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    # A generator of a coroutine may turn StopIteration into an exception that says so.
    kinds = [type(each.__cause__).__qualname__ for each in told]
    names = zip(("dig", "dig_slowly"), kinds, strict=True)
    assert records == [
        record
        for name, kind in names
        for record in (
            ("agui_client.tools", logging.ERROR, f"tool {name} failed in call 'c1': {kind}"),
            ("agui_client.tools", logging.DEBUG, f"tool {name} failed in call 'c1'"),
        )
    ]
    details = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(record.exc_info is not None and record.exc_info[2] is not None for record in details)
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG and record.exc_info]
    assert [each.__cause__ is error or isinstance(each.__cause__, RuntimeError) for each in told] == [True, True]


async def test_a_result_that_is_no_json_is_a_failure_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def dig() -> object:
        return object()

    caplog.set_level(logging.DEBUG, "agui_client.tools")
    assert (await complaint(dig)).message == FAILED
    assert "a value of the type object has no JSON form" in caplog.text


async def test_cancelled_a_coroutine_function_is_cancelled() -> None:
    seen: list[str] = []
    given = context()

    @tool
    async def dig(ctx: ToolContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append(f"left, cancelled: {ctx.is_cancelled}")

    async with nothing_left_behind():
        with anyio.move_on_after(0.01) as scope:
            await executed(dig, given)
    assert (scope.cancelled_caught, seen, given.is_cancelled) == (True, ["left, cancelled: False"], True)


async def test_cancelled_a_thread_is_left_with_a_warning_and_can_notice(caplog: pytest.LogCaptureFixture) -> None:
    given = context()
    stopped = threading.Event()
    begun = time.monotonic()

    @tool
    def dig(ctx: ToolContext) -> None:
        assert ctx.ended.wait(LIMIT)
        ctx.report("nobody hears this")
        stopped.set()

    with anyio.move_on_after(0.01) as scope:
        await executed(dig, given)
    assert scope.cancelled_caught
    assert time.monotonic() - begun < LIMIT / 2
    await until(stopped.is_set)
    await until(lambda: len(caplog.records) == 2)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, "tool dig was left running in its thread; it can look at ctx.is_cancelled"),
        (logging.WARNING, "dig, which had been left in its thread, has returned; that is dropped"),
    ]


async def test_cancelled_before_it_began_a_function_is_not_called(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[str] = []

    @tool
    def dig() -> None:
        begun.append("dig")

    with anyio.CancelScope() as scope:
        scope.cancel()
        await executed(dig, context())
    assert (scope.cancelled_caught, begun, caplog.records) == (True, [], [])


async def test_threads_that_were_left_keep_no_other_tool_from_starting() -> None:
    over = threading.Event()
    begun = 0

    @tool
    def hang() -> None:
        nonlocal begun
        begun += 1
        over.wait()

    @tool
    def dig() -> str:
        return "dug"

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(outcome, hang)
            await until(lambda: begun == 60)
            tasks.cancel_scope.cancel()
        assert await outcome(dig) == "dug"
    finally:
        over.set()


async def test_a_thread_that_was_left_keeps_no_program_from_ending() -> None:
    @tool
    def dig() -> bool:
        return threading.current_thread().daemon

    assert await outcome(dig) == "true"


async def test_a_cancellation_that_was_not_meant_for_the_tool_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def dig() -> None:
        raise asyncio.CancelledError

    @tool
    def dig_in_thread() -> None:
        raise asyncio.CancelledError

    caplog.set_level(logging.DEBUG, "agui_client.tools")
    offered: list[FunctionTool[..., Any]] = [dig, dig_in_thread]
    for each in offered:
        assert (await complaint(each)).message == FAILED
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert said == ["something that a function of the application waited for had been cancelled"] * 2


async def test_what_ends_the_program_is_let_through() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await call_function(leave, "leave")


def test_too_many_rounds_say_how_many() -> None:
    assert ToolRoundsExceededError("the agent still calls tools", rounds=10).rounds == 10
