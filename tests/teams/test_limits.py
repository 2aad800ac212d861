"""Members that fail, hang or go on for ever, and runs that are left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
)

from agui_client import AbstractAgent, AGUIError, FunctionAgent, RunFailedError
from agui_client.teams import HandoffAgent, Member, ParallelAgent, SequentialAgent, TeamLimitError, TeamLimits
from agui_client.testing import Turn, pause, step, text, tool_call, turn
from support.team_members import FIVE, agent, events_of, says

pytestmark = pytest.mark.anyio


async def test_members_that_hand_over_for_ever_come_to_a_limit() -> None:
    one, other = (agent(a, turn(tool_call(f"transfer_to_{b}"))) for a, b in (("one", "other"), ("other", "one")))
    with pytest.raises(TeamLimitError, match="handed over more than 3 times"):
        await HandoffAgent(one, other, limits=TeamLimits(handovers=3)).run_agent("Hi")


async def test_a_member_that_fails_ends_the_run_and_the_others() -> None:
    failing = agent("failing", turn(text("Hm"), RunErrorEvent(message="overloaded", code="busy", usage=FIVE)))
    team = ParallelAgent(failing, agent("other", turn(text("O"), pause(60))), then=says("judge", "J"), strict=True)
    events: list[Event] = []
    with pytest.raises(RunFailedError, match="overloaded") as raised:
        await events_of(team, into=events)
    failed = [(event.message, event.code) for event in events if isinstance(event, SubagentErrorEvent)]
    assert failed == [("overloaded", "busy"), ("other was cancelled", "cancelled")]
    assert (raised.value.code, raised.value.event.usage) == ("busy", FIVE)


async def test_a_team_goes_on_without_a_member_that_failed_in_the_middle() -> None:
    unfinished: list[Turn] = [
        [RunStartedEvent(thread_id="t", run_id="r"), text("Half"), TextMessageStartEvent(message_id="open"), {}]
    ]
    failing = agent("failing", *unfinished)
    team = ParallelAgent(failing, says("other", "O"), then=says("judge", "J"), on_error="continue", strict=True)
    result = await team.run_agent("Hi")
    assert (result.text, result.incomplete_ids) == ("J", [])


async def test_a_member_that_takes_too_long_is_given_up() -> None:
    slow = agent("slow", turn(step("thinking", pause(60))))
    team = SequentialAgent(Member(slow, timeout=0.05, on_error="continue"), says("other", "O"), strict=True)
    events = await events_of(team)
    failed = [(event.message, event.code) for event in events if isinstance(event, SubagentErrorEvent)]
    assert failed == [("slow took longer than 0.05 seconds", "timeout")]


async def test_an_exception_of_a_member_is_the_teams_and_its_text_goes_to_nobody_else() -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise LookupError("/srv/secret.db")

    team = SequentialAgent(FunctionAgent(broken))
    events: list[Event] = []
    with pytest.raises(LookupError, match="secret"):
        await events_of(team, into=events)
    assert "secret" not in json.dumps([event.model_dump(mode="json") for event in events])


async def test_teams_inside_each_other_come_to_a_limit() -> None:
    team: AbstractAgent = says("innermost", "I")
    for depth in range(4):
        team = SequentialAgent(team, agent_id=f"team-{depth}", limits=TeamLimits(depth=3))
    with pytest.raises(TeamLimitError, match="more than 3 agents"):
        await team.run_agent("Hi")


async def test_leaving_a_run_closes_every_member() -> None:
    closed: list[str] = []

    def hanging(name: str) -> AbstractAgent:
        async def hang(input: RunAgentInput) -> AsyncIterator[Any]:
            try:
                yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
                await anyio.sleep_forever()
            finally:
                closed.append(name)

        return FunctionAgent(hang, agent_id=name)

    team = ParallelAgent(hanging("one"), SequentialAgent(hanging("two"), agent_id="inner"))
    async with team.stream("Hi") as run:
        count = 0
        async for event in run:
            count += isinstance(event, SubagentStartedEvent)
            if count == 3:
                break
        await anyio.lowlevel.checkpoint()
    assert sorted(closed) == ["one", "two"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_a_member_that_cancels_itself_fails_the_team_and_cancels_nobody_else(kind: Any) -> None:
    async def cancelled(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise asyncio.CancelledError

    with pytest.raises(AGUIError, match="cancelled itself"):
        await kind(FunctionAgent(cancelled, agent_id="one"), says("two", "Fine.")).run_agent("Hi")
