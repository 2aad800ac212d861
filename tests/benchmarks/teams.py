"""A hundred members of a team at work side by side, held against the same runs without a team."""

from __future__ import annotations

import asyncio
import logging

from ag_ui.core import EventType

from agui_client import HttpAgent
from agui_client.teams import ParallelAgent
from benchmarks.loopback import EVENTS, loopback_server
from benchmarks.measure import Row, best_times
from benchmarks.wire import iterate

_MEMBERS = 100


def members_side_by_side(repeat: int) -> list[Row]:
    """100 members, 200 events each, over sockets."""
    counts: dict[str, int] = {}

    async def alone() -> None:
        """Run the agents."""
        async with HttpAgent(url) as agent:
            counts["alone"] = sum(await asyncio.gather(*(iterate(agent.clone()) for _ in range(_MEMBERS))))

    async def together() -> None:
        """Run them as a team."""
        async with HttpAgent(url) as agent:
            team = ParallelAgent(*(_named(agent, number) for number in range(_MEMBERS)))
            async with team.stream("Hi") as run:
                # The notes of the team in its state are its own, and not the members'.
                counts["together"] = sum([1 async for event in run if event.type != EventType.STATE_DELTA])

    # The server names one thread in all runs, which both sides warn of.
    logging.disable(logging.WARNING)
    with loopback_server() as url:
        ours, reference = best_times(repeat, lambda: asyncio.run(together()), lambda: asyncio.run(alone()))
    # Each RUN_STARTED and RUN_FINISHED became the begin and the end of a subagent, and the team has its own.
    errors = int(counts != {"alone": _MEMBERS * EVENTS, "together": _MEMBERS * EVENTS + 2})
    absolute = f"{ours:.2f} / {reference:.2f} s CPU"
    return [Row(f"{_MEMBERS} members, {EVENTS} events each", ours / reference, 1.5, "without a team", absolute, errors)]


def _named(agent: HttpAgent, number: int) -> HttpAgent:
    twin = agent.clone()
    twin.agent_id = f"member-{number}"
    return twin
