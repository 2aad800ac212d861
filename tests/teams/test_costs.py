"""The costs of teams do not grow with what went before: counted in calls of functions, which are the same each time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from ag_ui.core import AssistantMessage, Message, RunAgentInput, UserMessage

from agui_client import AbstractAgent, FunctionAgent
from agui_client.teams import Member, ParallelAgent, Team, TeamAgent, TeamLimits
from agui_client.teams._id_scope import IdMap, invocation_id
from agui_client.teams._members import Sees
from agui_client.teams._transcript import TeamTranscript
from support.proportion import lines_of
from support.reduction import calls_of

_LIMITS = TeamLimits(calls=1000, depth=20)


def _speaker(pieces: int = 1) -> AbstractAgent:
    async def speak(input: RunAgentInput) -> AsyncIterator[str]:
        for _ in range(pieces):
            yield "word "

    return FunctionAgent(speak)


def _caller(member: AbstractAgent, calls: int, sees: Sees = "last") -> AbstractAgent:
    """A team that calls its member again and again."""

    async def lead(team: Team) -> None:
        for _ in range(calls):
            await team.run("member")

    return TeamAgent(lead, limits=_LIMITS, member=Member(member, sees=sees, memory="call"))


def _cost(team: AbstractAgent, history: int = 0) -> int:
    messages: list[Message] = [UserMessage(id=f"m{number}", content="Words.") for number in range(history)]
    team.set_messages(messages)
    return calls_of(lambda: asyncio.run(team.run_agent("Go.")))


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """What is imported or made with the first run is not counted."""
    _cost(ParallelAgent(_caller(_speaker(), 2, "all"), _speaker()))


@pytest.mark.parametrize(("sees", "growth"), [("last", 1.05), ("all", 1.2)])
def test_a_call_costs_after_many_rounds_what_the_first_cost(sees: Sees, growth: float) -> None:
    until = {rounds: _cost(_caller(_speaker(), rounds, sees)) for rounds in (5, 10, 40, 45)}
    assert until[45] - until[40] <= growth * (until[10] - until[5])


def test_an_event_and_a_call_cost_the_same_on_each_level_of_teams_inside_each_other() -> None:
    def cost(depth: int, pieces: int, calls: int) -> int:
        """Return the cost of a team that makes these calls at the bottom, without the pauses of a busy machine."""

        def made() -> AbstractAgent:
            team = _caller(_speaker(pieces), calls)
            for _ in range(depth - 1):
                team = _caller(team, 1)
            return team

        return min(_cost(made()) for _ in range(2))

    # Many pieces and calls: what a busy machine adds to a call at any depth is little beside them.
    for pieces, calls in ((201, 1), (1, 21)):
        by_depth = {depth: cost(depth, pieces, calls) - cost(depth, 1, 1) for depth in (1, 2, 4, 6)}
        assert by_depth[6] - by_depth[4] <= 1.4 * 2 * (by_depth[2] - by_depth[1])


def test_what_many_members_said_is_read_once() -> None:
    def cost(members: int) -> int:
        """Return the lines that are run to show what each of some members said to one of them."""
        keys = [f"m{at}" for at in range(members)]
        calls = [invocation_id(key, "0" * 8, at) for at, key in enumerate(keys)]
        said: list[Message] = [
            AssistantMessage(id=f"{each}/said", content="Words.", subagent_run_id=each) for each in calls
        ]
        transcript = TeamTranscript({key: key for key in keys})
        return lines_of(lambda: transcript.shown(said, IdMap(calls[0], f"{calls[0]}/"), "all"))

    assert cost(400) <= 4.2 * cost(100)


def test_a_long_history_is_written_once_for_all_members() -> None:
    def cost_of_member(history: int) -> float:
        """Return the cost of each further member that is shown a history."""
        few, many = (ParallelAgent(*(Member(_speaker(), f"m{at}") for at in range(size))) for size in (2, 7))
        return (_cost(many, history) - _cost(few, history)) / 5

    # Of each message, the copy for the member is checked, and its conversation has a place for it.
    assert (cost_of_member(300) - cost_of_member(3)) / 297 <= 3
