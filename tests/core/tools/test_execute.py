"""The executor by itself: what it records of each call, in which task, and what it awaits in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from ag_ui.core import FunctionCall, RunAgentInput, ToolCall

from agui_client import (
    FunctionTool,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolLimits,
    ToolRoundsExceededError,
    tool,
)
from agui_client._core.tools.execute import ToolExecutor
from agui_client._core.tools.interrupts import answer_question
from agui_client._core.tools.tool_limits import RoundLimits
from agui_client.types import Approver, ToolDecision
from support.tool_calls import offered
from support.waiting import LIMIT

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def call(name: str, tool_call_id: str = "", arguments: str = "{}") -> ToolCall:
    function = FunctionCall(name=name, arguments=arguments)
    return ToolCall(id=tool_call_id or name, type="function", function=function)


def executor(
    record: Callable[[ToolExecution], None],
    *tools: FunctionTool[..., Any],
    approve: Approver | None = None,
    decided: Callable[[str], ToolDecision | None] = lambda _: None,
) -> ToolExecutor:
    run_input = RunAgentInput(thread_id="t1", run_id="r1", messages=[])
    return ToolExecutor(
        run_input,
        {each.name: offered(each) for each in tools},
        approve,
        None,
        set(),
        ToolLimits(),
        partial(answer_question, None, None),
        decided,
        unnoted,
        record,
        unsaved,
    )


async def unsaved() -> None:
    """Save nothing."""


def unnoted(execution: ToolExecution) -> None:
    """Note nothing."""


class Record:
    """Everything that an executor records, with the task in which it did."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []
        self.tasks: dict[str, set[int]] = {}

    def record(self, execution: ToolExecution) -> None:
        """Note a change; a call is "waiting" first where all are begun."""
        self.seen.append((execution.tool_call_id, execution.status, execution.error))
        if execution.status != "waiting":
            self.tasks.setdefault(execution.tool_call_id, set()).add(anyio.get_current_task().id)

    def executor(self, *tools: FunctionTool[..., Any]) -> ToolExecutor:
        """An executor that denies."""
        return executor(self.record, *tools, approve=lambda request: False)

    def last(self, tool_call_id: str) -> tuple[str, str | None]:
        """The final status of a call, and its error."""
        return [(status, error) for each, status, error in self.seen if each == tool_call_id][-1]


TASKS: dict[str, int] = {}


@tool
async def work() -> str:
    """Works."""
    TASKS["work"] = anyio.get_current_task().id
    return "worked"


@tool
async def refuse() -> None:
    TASKS["refuse"] = anyio.get_current_task().id
    raise ToolError("no")


@tool
async def crash() -> None:
    TASKS["crash"] = anyio.get_current_task().id
    raise LookupError("secret")


@tool(timeout=0.01)
async def wait() -> None:
    TASKS["wait"] = anyio.get_current_task().id
    await anyio.sleep_forever()


@tool(approval="always")
def pay(amount: int = 1) -> int:
    return amount


async def test_the_running_and_the_final_status_are_recorded_in_the_task_that_executes_the_tool() -> None:
    made, tools = Record(), (work, refuse, crash, wait)
    with anyio.fail_after(LIMIT):
        await made.executor(*tools).execute([call(each.name) for each in tools])
    assert made.tasks == {each.name: {TASKS[each.name]} for each in tools}


async def test_a_cancelled_execution_is_recorded_once_and_in_its_task_too() -> None:
    made, has_begun = Record(), anyio.Event()

    @tool
    async def hold() -> None:
        TASKS["hold"] = anyio.get_current_task().id
        has_begun.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.executor(hold).execute, [call("hold")])
        with anyio.fail_after(LIMIT):
            await has_begun.wait()
        tasks.cancel_scope.cancel()
    assert [(status, error) for _, status, error in made.seen if status == "cancelled"] == [("cancelled", "cancelled")]
    assert made.tasks == {"hold": {TASKS["hold"]}}


@pytest.mark.requirement("TOOL-10")
async def test_an_execution_says_what_failed_it() -> None:
    made, tools = Record(), (work, refuse, crash, wait, pay)
    calls = [*(call(each.name) for each in tools), call("work", "unfit", "[]"), call("nothing")]
    with anyio.fail_after(LIMIT):
        messages = await made.executor(*tools).execute(calls)
    assert {each.id: made.last(each.id) for each in calls} == {
        "work": ("succeeded", None),
        "refuse": ("failed", "ToolError"),
        "crash": ("failed", "LookupError"),
        "wait": ("timed out", "timeout"),
        "pay": ("denied", "denied"),
        "unfit": ("failed", "ToolError"),
        "nothing": ("failed", "ToolError"),
    }
    assert [each.tool_call_id for each in messages] == [each.id for each in calls]
    assert [each.tool_call_id for each in messages if each.error is None] == ["work"]


async def test_an_execution_says_what_its_tool_is_for() -> None:
    seen: list[ToolExecution] = []
    await executor(seen.append, work).execute([call("work")])
    assert {each.description for each in seen} == {"Works."}


async def test_every_change_is_recorded_in_order() -> None:
    made = Record()

    @tool
    async def report(ctx: ToolContext) -> None:
        ctx.report(1)
        ctx.report(2)

    await made.executor(report).execute([call("report")])
    statuses = [status for _, status, _ in made.seen]
    assert statuses == ["waiting", "running", "running", "running", "succeeded"]


@pytest.mark.requirement("SEC-3")
async def test_an_approval_that_was_given_needs_no_approver_and_may_bring_all_arguments() -> None:
    made = Record()
    calls = [call("pay", "c1"), call("pay", "c2", "not even JSON"), call("pay", "c3")]
    made_before = {"c1": ToolDecision("approved", "person"), "c2": ToolDecision("changed", "person", {"amount": 2})}
    messages = await executor(made.record, pay, decided=made_before.get).execute(calls)
    assert [(each.tool_call_id, each.content) for each in messages] == [("c1", "1"), ("c2", "2")]
    assert made.last("c3") == ("waiting", None)


async def test_rounds_are_counted_where_they_are_checked() -> None:
    limits = RoundLimits(ToolLimits(rounds=2, repeats=None))
    limits.check({"": [call("work")]}, [])
    limits.check({"": [call("work")]}, [])
    with pytest.raises(ToolRoundsExceededError) as caught:
        limits.check({"": [call("work")]}, [])
    assert caught.value.rounds == 2
    RoundLimits(ToolLimits(repeats=1)).check({}, [])
