"""Where the tool loop stops: rounds, seconds, tokens, money, one call again and again; and each tool's own time."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, TokenUsage

from agui_client import AbstractAgent, RunResult, ToolLimits, ToolRoundsExceededError, UsageError, tool
from agui_client.testing import ScriptedAgent, Step, interrupt, text, tool_call, turn
from support.tool_rounds import Ran, results_in, results_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb


async def _asking_anew(input: RunAgentInput) -> AsyncIterator[Step]:
    """Looks somewhere else in every round."""
    number = sum(message.role == "tool" for message in input.messages)
    yield turn(
        tool_call("look", {"at": f"place {number}"}),
        usage=[TokenUsage(provider="p", model="m", input_tokens=30, output_tokens=10)],
    )


def stopped(verb: Verb, agent: AbstractAgent) -> ToolRoundsExceededError:
    error = verb(agent, "Hi").error
    assert isinstance(error, ToolRoundsExceededError)
    assert error.partial is not None
    assert (error.thread_id, error.run_id) == (agent.thread_id, error.partial.run_id)
    return error


@every_kind_of_verb
def test_after_so_many_rounds_the_calls_stay_pending(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=ToolLimits(rounds=2))
    error = stopped(verb, agent)
    assert str(error) == (
        "the agent still waits for answers after 2 rounds; ToolLimits.rounds is 2, and the calls without a result are "
        "on partial"
    )
    assert (error.rounds, ran.calls, len(agent.inputs)) == (2, ["look place 0", "look place 1"], 3)
    assert error.partial is not None
    assert [call.id for call in error.partial.pending_tool_calls] == ["call-3"]
    assert error.partial.messages == agent.messages


@every_result_verb
def test_the_calls_of_a_stopped_loop_can_be_answered_by_hand(verb: Verb) -> None:
    turns = turn(tool_call("look")), turn(tool_call("listen")), turn(text("Done."))
    agent = ScriptedAgent(*turns, tools=Ran().tools, tool_limits=ToolLimits(rounds=1))
    error = stopped(verb, agent)
    assert error.partial is not None
    (left,) = error.partial.pending_tool_calls
    ending = verb(agent, tool_results={left.id: "nothing"})
    assert ending.result is not None
    assert (ending.result.text, ending.result.warnings) == ("Done.", [])
    assert results_sent(agent)[2] == [("call-1", "seen map", None), ("call-2", "nothing", None)]


@every_result_verb
def test_the_next_call_goes_on_with_the_calls_of_a_stopped_loop_and_has_rounds_of_its_own(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=ToolLimits(rounds=2))
    stopped(verb, agent)
    again = verb(agent).error
    assert isinstance(again, ToolRoundsExceededError)
    # No call is left out or made twice, and nothing is sent before the call that waited has its result.
    assert ran.calls == [f"look place {number}" for number in range(5)]
    assert [len(results) for results in results_sent(agent)] == [0, 1, 2, 3, 4, 5]
    assert [call.id for call in agent.pending_tool_calls] == ["call-6"]


def test_ten_rounds_are_the_limit_unless_another_is_set() -> None:
    for limits, most in ((ToolLimits(), 10), (ToolLimits(rounds=12), 12)):
        ran = Ran()
        with pytest.raises(ToolRoundsExceededError):
            ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=limits).run_agent_sync("Hi")
        assert len(ran.calls) == most


@every_kind_of_verb
def test_the_third_round_with_the_same_call_is_not_answered(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(turn(tool_call("look", {"at": "sea"})), tools=ran.tools)
    error = stopped(verb, agent)
    assert str(error).startswith("the agent made the same call 3 rounds in a row; ToolLimits.repeats is 3, ")
    assert (ran.calls, error.rounds) == (["look sea"] * 2, 2)


def test_calls_that_differ_or_are_not_in_a_row_are_no_repetition() -> None:
    ran = Ran()
    sea, sky = tool_call("look", {"at": "sea"}), tool_call("look", {"at": "sky"})
    turns = [turn(sea), turn(sea), turn(sky), turn(sea), turn(sea), turn(text("Done."))]
    assert ScriptedAgent(*turns, tools=ran.tools).run_agent_sync("Hi").text == "Done."
    twice = ScriptedAgent(turn(sea, sea, sea), turn(text("Done.")), tools=Ran().tools)
    assert twice.run_agent_sync("Hi").text == "Done."
    assert len(ran.calls) == 5


def test_without_limits_the_loop_goes_on() -> None:
    ran = Ran()
    turns = [turn(tool_call("look"))] * 20
    agent = ScriptedAgent(
        *turns, turn(text("Done.")), tools=ran.tools, tool_limits=ToolLimits(rounds=None, repeats=None)
    )
    assert agent.run_agent_sync("Hi").text == "Done."
    assert len(ran.calls) == 20


@every_kind_of_verb
def test_the_rounds_end_when_their_time_is_over(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=ToolLimits(seconds=1e-9))
    error = stopped(verb, agent)
    assert re.match(r"the rounds took \d\.\d s; ToolLimits.seconds is 1e-09, ", str(error))
    assert (error.rounds, ran.calls) == (0, [])


@every_kind_of_verb
def test_the_rounds_end_when_their_tokens_are_used_up(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=ToolLimits(tokens=80))
    error = stopped(verb, agent)
    assert str(error).startswith("the rounds used 80 tokens; ToolLimits.tokens is 80, ")
    assert (error.rounds, ran.calls) == (1, ["look place 0"])


def test_a_reported_total_counts_as_it_is() -> None:
    used = [TokenUsage(model="m", total_tokens=50), TokenUsage(model="n", input_tokens=30)]
    agent = ScriptedAgent(turn(tool_call("look"), usage=used), tools=Ran().tools, tool_limits=ToolLimits(tokens=80))
    with pytest.raises(ToolRoundsExceededError, match="used 80 tokens"):
        agent.run_agent_sync("Hi")


@every_kind_of_verb
def test_the_rounds_end_when_their_money_is_spent(verb: Verb) -> None:
    ran = Ran()
    limits = ToolLimits(cost="0.08 USD", prices={"m": (1_000, 1_000)})  # 0.04 USD a run
    agent = ScriptedAgent(_asking_anew, tools=ran.tools, tool_limits=limits)
    error = stopped(verb, agent)
    assert str(error) == (
        "the runs cost 0.0800 USD; ToolLimits.cost is 0.08 USD; calls without a result are on partial"
    )
    assert (error.rounds, ran.calls, len(agent.inputs)) == (1, ["look place 0"], 2)
    assert error.partial is not None
    assert [call.id for call in error.partial.pending_tool_calls] == ["call-2"]


@pytest.mark.parametrize(
    ("usage", "named"),
    [([TokenUsage(model="own", input_tokens=1, output_tokens=1)], "'own'"), ([], "'tokens that were not reported'")],
    ids=["a model without a price", "no tokens"],
)
@every_result_verb
def test_a_run_whose_price_nobody_knows_ends_the_rounds_unless_the_caller_gives_one(
    verb: Verb, usage: list[TokenUsage], named: str
) -> None:
    turns = turn(tool_call("look"), usage=usage), turn(text("Done."), usage=usage)
    ran = Ran()
    error = stopped(verb, ScriptedAgent(*turns, tools=ran.tools, tool_limits=ToolLimits(cost="2.00 USD")))
    assert str(error).startswith(f"nobody knows what the runs cost: there is no price of {named}; give ToolLimits(")
    assert ran.calls == []
    for price in ((0, 0), (5, 25)):
        limits = ToolLimits(cost="2.00 USD", prices={"*": price})
        ending = verb(ScriptedAgent(*turns, tools=ran.tools, tool_limits=limits), "Hi")
        assert ending.result is not None
        assert ending.result.text == "Done."
        assert (str(ending.result.cost()).partition(" at the ")[0]).endswith(named.strip("'"))


def test_a_limit_of_money_holds_for_runs_that_the_user_steers_too() -> None:
    async def answering(input: RunAgentInput) -> AsyncIterator[Step]:
        agent.steer("And then?")
        yield turn(text("So."), usage=[TokenUsage(model="m", input_tokens=1_000_000, output_tokens=0)])

    agent = ScriptedAgent(answering, tool_limits=ToolLimits(cost="2.5 USD", prices={"m": (1, 1)}))
    with pytest.raises(ToolRoundsExceededError, match=r"the runs cost 3\.00 USD") as raised:
        agent.run_agent_sync("Hi")
    assert len(agent.inputs) == 3
    partial: RunResult[Any] | None = getattr(raised.value, "partial", None)
    assert partial is not None
    assert [each.content for each in partial.unsent_messages] == ["And then?"]


def test_a_limit_is_looked_at_before_anybody_is_asked() -> None:
    asked: list[str] = []
    agent = ScriptedAgent(
        turn(outcome=interrupt("Sure?")),
        answer=lambda question: asked.append(question.id),
        tool_limits=ToolLimits(seconds=1e-9),
    )
    with pytest.raises(ToolRoundsExceededError):
        agent.run_agent_sync("Hi")
    assert (asked, [each.id for each in agent.pending_interrupts]) == ([], ["interrupt-1"])


# --- the time of one tool

LATE = "The tool took longer than 0.01 seconds and was given up; its effect is unknown."


@pytest.mark.parametrize("own", [None, 0.01])
@every_result_verb
@pytest.mark.requirement("TOOL-10")
def test_a_tool_that_takes_too_long_is_given_up_and_the_agent_is_told(verb: Verb, own: float | None) -> None:
    ended: list[str] = []

    @tool(timeout=own)
    async def wait() -> str:
        try:
            await anyio.sleep_forever()
            return "woken"
        finally:
            ended.append("cancelled")

    limits = ToolLimits(timeout=0.01 if own is None else 60)
    calls = tool_call("wait", tool_call_id="c1"), tool_call("listen", tool_call_id="c2")
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[wait, *Ran().tools], tool_limits=limits)
    ending = verb(agent, "Hi")
    assert ending.result is not None
    assert results_sent(agent)[1] == [("c1", LATE, LATE), ("c2", '{"heard":true}', None)]
    assert [each.status for each in ending.result.tool_executions] == ["timed out", "succeeded"]
    assert ended == ["cancelled"]


@every_result_verb
@pytest.mark.requirement("TOOL-10")
def test_a_sync_tool_that_takes_too_long_is_left_in_its_thread_with_a_warning(
    verb: Verb, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()

    @tool(timeout=0.01)
    def wait() -> str:
        may_end.wait()
        return "too late"

    agent = ScriptedAgent(turn(tool_call("wait")), turn(text("Done.")), tools=[wait])
    try:
        ending = verb(agent, "Hi")
    finally:
        may_end.set()
    assert ending.error is None
    assert results_in(agent.messages) == [("call-1", LATE, LATE)]
    assert "tool wait was left running in its thread; it can look at ctx.is_cancelled" in caplog.messages


@pytest.mark.parametrize(
    "limits",
    [
        {"rounds": 0},
        {"seconds": -1},
        {"tokens": math.nan},
        {"repeats": True},
        {"at_once": None},
        {"timeout": "1"},
    ],
    ids=str,
)
def test_a_limit_that_is_none_is_refused(limits: dict[str, Any]) -> None:
    (name,) = limits
    with pytest.raises(UsageError, match=rf"^ToolLimits\.{name} is "):
        ToolLimits(**limits)
