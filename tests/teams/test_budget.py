"""One budget for a whole tree of teams, and the clocks that stand still while a person is asked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import pytest
from ag_ui.core import RunErrorEvent, TokenUsage

from agui_client import AbstractAgent, Approve, HttpAgent, Resolve, RunFailedError, ToolContext, tool
from agui_client.asgi import agent_app
from agui_client.teams import (
    Member,
    ParallelAgent,
    SequentialAgent,
    Team,
    TeamAgent,
    TeamLimitError,
    TeamLimits,
)
from agui_client.testing import ScriptedAgent, interrupt, pause, text, tool_call, turn
from support.team_members import FIVE, agent, payer, saved_documents, says

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def spends(name: str, tokens: int = 150) -> ScriptedAgent:
    usage = [TokenUsage(model="m", total_tokens=tokens)]
    return agent(name, *(turn(text(name), usage=usage) for _ in range(4)))


def asks_by_tool(helper: ScriptedAgent) -> ScriptedAgent:
    turns = (turn(tool_call("ask", {"prompt": "Hm?"}), usage=FIVE), turn(text("There."), usage=FIVE))
    return agent("asker", *turns, tools=[helper.as_tool("ask", "Knows.")])


TREES: dict[str, tuple[AbstractAgent, TeamLimits]] = {
    "members that wait for their turn": (ParallelAgent(*map(spends, "abcd")), TeamLimits(at_once=1, tokens=150)),
    "an inner team": (SequentialAgent(SequentialAgent(*map(spends, "ab"), agent_id="inner")), TeamLimits(tokens=150)),
    "an agent that is a tool": (SequentialAgent(asks_by_tool(spends("a", 140)), spends("b")), TeamLimits(tokens=150)),
    "calls of an inner team": (SequentialAgent(SequentialAgent(*map(spends, "ab"), agent_id="inner")), TeamLimits(2)),
    "calls of agents that are tools": (SequentialAgent(asks_by_tool(spends("a", 140)), spends("b")), TeamLimits(2)),
}


@pytest.mark.parametrize("tree", TREES)
async def test_calls_and_tokens_of_the_whole_tree_count_and_a_larger_limit_goes_on(tree: str) -> None:
    made, limits = TREES[tree]

    def team(limits: TeamLimits) -> Any:
        return type(made)(*made.members, limits=limits, strict=True)  # type: ignore[attr-defined, call-arg]

    small, large = team(limits), team(TeamLimits(calls=5, tokens=500))
    with pytest.raises(TeamLimitError, match=r"the team (used|made)") as raised:
        await small.run_agent("Hi")
    assert raised.value.partial is not None
    assert [each.total_tokens for each in raised.value.partial.usage] == [150]
    large.restore(small.snapshot())
    with anyio.fail_after(30):
        result = await large.run_agent()
    assert {each.status for each in result.subagents} == {"success"}
    assert sum(each.total_tokens or 0 for each in result.usage) == {"members that wait for their turn": 450}.get(
        tree, 150
    )


async def test_calls_that_were_made_before_a_question_are_counted_once_and_their_tokens_still_count() -> None:
    async def lead(team: Team) -> None:
        await team.run("one", "First?")
        await team.run("asking", "Second?")
        await team.run("one", "Third?")

    def team(limits: TeamLimits) -> TeamAgent[Any]:
        asking = agent("asking", turn(text("Hm."), outcome=interrupt("Proceed?"), usage=FIVE), turn(usage=FIVE))
        return TeamAgent(lead, limits=limits, one=says("one", "A", "B"), asking=asking)

    for limits, reached in (
        (TeamLimits(calls=3, tokens=16), None),
        (TeamLimits(tokens=15), "used 15 tokens"),
        (TeamLimits(calls=2), "more than 2 calls"),
    ):
        asked = team(limits)
        (question,) = (await asked.run_agent("Hi")).interrupts
        if reached is None:
            result = await asked.run_agent(resume={question.id: Resolve()})
            assert [each.total_tokens for each in result.usage] == [10]
        else:
            with pytest.raises(TeamLimitError, match=reached):
                await asked.run_agent(resume={question.id: Resolve()})


async def test_an_agent_that_is_a_tool_is_a_subagent_of_the_run_with_its_tokens() -> None:
    asker = asks_by_tool(says("helper", "Yes."))
    result = await asker.run_agent("Hi")
    (helper,) = result.subagents
    call = result.tool_executions[0].tool_call_id
    assert (helper.name, helper.status, helper.text, helper.parent_tool_call_id) == ("helper", "success", "Yes.", call)
    assert (helper.usage, [each.total_tokens for each in result.usage]) == (FIVE, [15])
    result = await SequentialAgent(asker, strict=True).run_agent("Hi")
    by_name = {each.name: each for each in result.subagents}
    assert by_name["helper"].parent_subagent_run_id == by_name["asker"].subagent_run_id
    assert (by_name["helper"].text, [each.total_tokens for each in result.usage]) == ("Yes.", [15])


async def test_the_caller_of_a_served_team_gets_the_tokens_of_a_run_that_came_to_a_limit() -> None:
    team = SequentialAgent(asks_by_tool(says("helper", "Yes.")), says("next", "No."), limits=TeamLimits(calls=2))
    with pytest.raises(RunFailedError, match="the server's log has the reason") as raised:
        await HttpAgent("http://team/", app=agent_app(team), strict=True).run_agent("Hi")
    assert raised.value.partial is not None
    assert [each.total_tokens for each in raised.value.partial.usage] == [15]


@pytest.mark.parametrize("way", ["answer", "approve"])
async def test_the_time_of_a_person_is_nobodys_time_out(way: str) -> None:
    @tool
    async def look(ctx: ToolContext) -> str:
        """Looks."""
        return await ctx.ask("Where?")

    async def person(_request: Any) -> Any:
        await anyio.sleep(1.2)
        return Approve() if way == "approve" else Resolve("here")

    asking = (
        payer([]) if way == "approve" else agent("asking", turn(tool_call("look")), turn(text("Done.")), tools=[look])
    )
    handlers: Any = {way: person}
    member = Member(asking, timeout=1.0)
    inner = SequentialAgent(member, agent_id="inner", limits=TeamLimits(seconds=1.0))
    result = await SequentialAgent(inner, limits=TeamLimits(seconds=1.0), **handlers).run_agent("Hi")
    assert result.text in ("Paid.", "Done.")


async def test_the_seconds_of_the_runs_before_count_when_a_team_goes_on() -> None:
    slow = agent("slow", turn(pause(0.8), text("Hm."), outcome=interrupt("Proceed?")), turn(pause(0.8), text("Done.")))
    team = SequentialAgent(slow, limits=TeamLimits(seconds=1.5))
    (question,) = (await team.run_agent("Hi")).interrupts
    with pytest.raises(TeamLimitError, match=r"longer than 1\.5 seconds"):
        await team.run_agent(resume={question.id: Resolve()})


async def test_members_that_each_make_the_same_call_once_are_no_loop_and_one_that_repeats_it_is() -> None:
    @tool
    def where_am_i() -> str:
        """Says where."""
        return "Oslo"

    def member(name: str, times: int = 1) -> ScriptedAgent:
        return agent(name, *[turn(tool_call("where_am_i"))] * times, turn(text(f"{name} is done.")))

    inner = SequentialAgent(member("c"), member("d"), agent_id="inner")
    team = SequentialAgent(member("a"), member("b"), inner, tools=[where_am_i], strict=True)
    assert (await team.run_agent("Hi")).text == "d is done."
    with pytest.raises(Exception, match="the same call 3 rounds in a row"):
        await SequentialAgent(member("a", 5), tools=[where_am_i]).run_agent("Hi")


async def test_a_member_is_asked_again_as_often_as_it_may_be_and_its_partial_words_go() -> None:
    def busy() -> ScriptedAgent:
        failed = turn(text("Half."), RunErrorEvent(message="overloaded", usage=FIVE))
        return agent("busy", failed, failed, turn(text("Whole."), usage=FIVE))

    team = SequentialAgent(Member(busy(), retries=2), strict=True)
    result = await team.run_agent("Hi")
    (record,) = result.subagents
    assert (result.text, [each.content for each in team.messages]) == ("Whole.", ["Hi", "Whole."])
    assert ([each.total_tokens for each in result.usage], record.usage) == ([15], result.usage)
    assert [each.rule for each in result.warnings] == ["SUB-9"]
    without = await SequentialAgent(Member(busy(), retries=1), says("next", "N"), on_error="continue").run_agent("Hi")
    assert [each.message for each in without.warnings] == [
        "busy is asked again, as it failed: RunFailedError: overloaded",
        "busy failed, and the team continued without it: RunFailedError: overloaded",
    ]
    with pytest.raises(RunFailedError, match="busy: overloaded"):
        await SequentialAgent(Member(busy(), retries=1)).run_agent("Hi")
    with pytest.raises(RunFailedError, match="busy: overloaded"):
        await SequentialAgent(Member(busy(), retries=9), limits=TeamLimits(tokens=10)).run_agent("Hi")


@pytest.mark.parametrize("retries", [0, 1])
async def test_calls_that_are_made_again_after_failures_and_kills_do_not_count_again(retries: int) -> None:
    def team(last: int) -> AbstractAgent:
        failing = agent("b", *[turn(text("Half."), RunErrorEvent(message="broken"))] * 4, turn(text("B")))
        inner = SequentialAgent(says("a", "A"), Member(failing, retries=retries), agent_id="inner")
        return SequentialAgent(inner, says("c", "C"), limits=TeamLimits(calls=last), strict=True)

    async def end(made: AbstractAgent) -> str:
        """Run a team until it does not fail."""
        while True:
            with suppress(RunFailedError):
                return (await made.run_agent("Hi" if not made.messages else None)).text

    asked = team(4)
    for document in [*await saved_documents(asked, "Hi"), asked.snapshot()]:
        killed = team(4)
        killed.restore(document)
        assert await end(killed) == "C"
    with pytest.raises(TeamLimitError, match="more than 3 calls"):
        await end(team(3))
