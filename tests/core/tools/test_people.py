"""People who do not answer: every wait for one is bounded in a program, and has no bound at a screen (SEC-3, INT-7)."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest
from ag_ui.core import Interrupt, RunFinishedInterruptOutcome

from agui_client import People, ToolContext, ToolError, UsageError, tool
from agui_client._core.tools.people import bounds_of
from agui_client.notebook import NotebookAnswerer, NotebookApprover
from agui_client.terminal import TerminalAnswerer, TerminalApprover
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.tool_rounds import results_sent
from support.waiting import LIMIT

DECISION = Interrupt(id="i1", reason="confirmation", message="Pay?")
WORDS = Interrupt(id="i2", reason="question", response_schema={"type": "object", "properties": {"why": {}}})
QUESTIONS = RunFinishedInterruptOutcome(type="interrupt", interrupts=[DECISION, WORDS])
DONE = turn(text("Done."))


async def nobody(request: Any) -> Any:
    await anyio.sleep_forever()


def brief(fallback: Literal["deny", "leave"] = "deny") -> People:
    return People(wait=0.02, fallback=fallback)


@tool(approval="always")
def pay() -> str:
    raise AssertionError("nobody approved this")


@pytest.mark.anyio
@pytest.mark.requirement("INT-7")
async def test_interrupts_that_nobody_answers_are_denied_where_that_can_be_said_and_cancelled_elsewhere() -> None:
    agent = ScriptedAgent(turn(outcome=QUESTIONS), DONE, answer=nobody, people=brief())
    with anyio.fail_after(LIMIT):
        assert (await agent.run_agent("Pay")).text == "Done."
    sent = [(each.interrupt_id, each.status, each.payload) for each in agent.inputs[-1].resume or ()]
    assert sent == [("i1", "resolved", False), ("i2", "cancelled", None)]


@pytest.mark.anyio
@pytest.mark.requirement("SEC-3", "INT-7")
async def test_what_nobody_decides_can_be_left_for_a_later_run() -> None:
    asking = ScriptedAgent(turn(outcome=QUESTIONS), answer=nobody, people=brief("leave"))
    calling = ScriptedAgent(turn(tool_call("pay", {})), tools=[pay], approve=nobody, people=brief("leave"))
    with anyio.fail_after(LIMIT):
        assert [each.id for each in (await asking.run_agent("Pay")).interrupts] == ["i1", "i2"]
        [call] = (await calling.run_agent("Pay")).pending_tool_calls
    assert call.function.name == "pay"


@pytest.mark.anyio
async def test_a_question_of_a_tool_that_nobody_answers_is_declined() -> None:
    @tool
    async def ask(ctx: ToolContext) -> str:
        try:
            return str(await ctx.ask("How many?", int))
        except ToolError as error:
            return error.message

    agent = ScriptedAgent(
        turn(tool_call("ask", {}, tool_call_id="c1")), DONE, tools=[ask], answer=nobody, people=brief()
    )
    with anyio.fail_after(LIMIT):
        await agent.run_agent("Go")
    assert results_sent(agent)[1] == [("c1", "The user did not want to answer this tool's question.", None)]


def test_a_program_waits_fifteen_minutes_and_a_handler_at_a_screen_for_ever() -> None:
    at_screen = (
        TerminalApprover(),
        TerminalAnswerer(),
        NotebookApprover(widgets=False),
        NotebookAnswerer(widgets=False),
    )
    assert [bounds_of(None, each).wait for each in (nobody, *at_screen)] == [900, None, None, None, None]
    assert bounds_of(People(wait=5), at_screen[0]).wait == 5
    assert [People(wait=each).limit for each in (None, 0.5, 90.0)] == ["any time", "0.5 seconds", "90 seconds"]
    assert People() == People(wait=900.0, fallback="deny")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"wait": 0}, "People.wait is a number of seconds above zero, or None, not 0"),
        ({"wait": True}, "People.wait is a number of seconds above zero, or None, not True"),
        ({"wait": "5"}, "People.wait is a number of seconds above zero, or None, not '5'"),
        ({"fallback": "approve"}, "People.fallback is 'deny' or 'leave', not 'approve'"),
    ],
    ids=repr,
)
def test_bounds_that_mean_nothing_are_refused(given: Any, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        People(**given)
    assert str(refused.value) == problem
