"""Agents together: one after the other, side by side, and led by a function, with an approval three agents deep.

A member asks, the whole team waits, and another process answers: only the member that asked continues.
"""

import asyncio
import sys

from agui_client import Approve, ConversationSnapshot, HttpAgent
from agui_client.demo import demo_agent
from agui_client.teams import ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import serve


async def sequence(url: str) -> None:
    """One after the other: the last one speaks for the team."""
    team = SequentialAgent(HttpAgent(url, agent_id="researcher"), HttpAgent(url, agent_id="writer"))
    result = await team.run_agent("A day in Oslo?")
    print(f"{[each.name for each in result.subagents]}: {result.text}")


async def fan_out(url: str) -> None:
    """Side by side, and one that is shown all answers."""
    optimist, pessimist = HttpAgent(url, agent_id="optimist"), HttpAgent(url, agent_id="pessimist")
    team = ParallelAgent(optimist, pessimist, then=HttpAgent(url, agent_id="judge"))
    result = await team.run_agent("Shall we go?")
    print(f"{[each.name for each in result.subagents]}: {result.text}")


async def delegation(url: str) -> None:
    """A function that leads: a member of a member's member asks before it books, and another process answers."""

    async def plan(team: Team) -> None:
        look, booked = await team.gather(("guide", "A day in Oslo?"), ("office", "Book the ferry."))
        await team.say(f"The guide wrote {len(look.text)} characters. {booked.text}")

    office = SequentialAgent(SequentialAgent(HttpAgent(url, agent_id="clerk"), agent_id="desk"))
    team = TeamAgent(plan, guide=HttpAgent(url), office=office)
    [question] = (await team.run_agent("Plan my trip.")).interrupts
    saved = team.snapshot().model_dump_json()

    another = TeamAgent(plan, guide=HttpAgent(url), office=office)
    another.restore(ConversationSnapshot.model_validate_json(saved))
    result = await another.run_agent(resume={question.id: Approve()})
    print(f"{[each.name for each in result.subagents]} after {question.message!r}: {result.text}")


async def main(url: str) -> None:
    for flow in (sequence, fan_out, delegation):
        await flow(url)


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
