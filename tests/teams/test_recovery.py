"""Teams that failed, were left or changed go on where they were: nothing that a member has done is done again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import MessagesSnapshotEvent, RunAgentInput, RunErrorEvent, RunStartedEvent, StateSnapshotEvent

from agui_client import AbstractAgent, Approve, FunctionAgent, HttpAgent, Resolve, RunFailedError, UsageError
from agui_client.asgi import agent_app
from agui_client.errors import ConnectError
from agui_client.teams import Member, ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, interrupt, patch, pause, state, text, tool_call, turn
from agui_client.threads import Threads
from support.team_members import agent, pay_tool, resumed, says, shown, told

pytestmark = pytest.mark.anyio

BROKEN = RunErrorEvent(message="broken")


def asks(name: str = "asker") -> ScriptedAgent:
    return agent(name, turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))


def flaky(name: str = "flaky") -> ScriptedAgent:
    """An agent that fails once, in the middle of its words."""
    return agent(name, turn(text("Half."), BROKEN), turn(text("Whole.")))


def counts(*members: ScriptedAgent) -> list[int]:
    return [len(each.inputs) for each in members]


@pytest.mark.parametrize("place", ["in the process", "served"])
@pytest.mark.parametrize("way", ["no prompt", "the same answer"])
async def test_a_resumed_run_that_failed_goes_on_with_the_member_that_failed(place: str, way: str) -> None:
    first, asker, failing = says("first", "F"), asks(), flaky()
    team: AbstractAgent = SequentialAgent(first, asker, failing, strict=True)
    if place == "served":
        team = HttpAgent("http://team/", app=agent_app(team), strict=True)
    (asked,) = (await team.run_agent("Hi")).interrupts
    answers: Any = {asked.id: Resolve(True)}
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent(resume=answers)
    result = await resumed(team, **({} if way == "no prompt" else {"resume": answers}))
    assert (result.text, result.state, counts(first, asker, failing)) == ("Whole.", {}, [1, 2, 2])
    assert shown(failing) == [("user", "Hi"), ("user", "[first]: F"), ("user", "[asker]: Sure?"), ("user", "[asker]: Done.")]
    assert told(team.messages)[-1] == ("assistant", "Whole.")
    assert "Half." not in [message.content for message in team.messages]
