"""Teams, held against the same runs without a team: many members, many rounds, and a long conversation before them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from statistics import median

from ag_ui.core import EventType, Message, RunAgentInput, UserMessage

from agui_client import FunctionAgent, HttpAgent
from agui_client.teams import Member, ParallelAgent, Team, TeamAgent, TeamLimits
from agui_client.teams._members import Sees
from programs.benchmarks.loopback import EVENTS, loopback_server
from programs.benchmarks.measure import Row, best_times, without_collector
from programs.benchmarks.wire import iterate

_MEMBERS = 100
_ROUNDS, _NEAR = 300, 20
_SHOWN = 10
_HISTORY: list[Message] = [UserMessage(id=f"m{number}", content=f"Words {number}.") for number in range(5000)]


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


def many_rounds(repeat: int) -> list[Row]:
    """Two members that are called in turn: a call after 300 rounds against the first ones."""
    return [
        _late_call(repeat, "last", "shown the last words"),
        _late_call(repeat, "all", "shown all 600 messages"),
    ]


def long_history(repeat: int) -> list[Row]:
    """Ten members that are shown 5 000 messages, against the same agents by themselves."""

    async def alone() -> None:
        """Run the agents."""
        twins = [FunctionAgent(_speak) for _ in range(_SHOWN)]
        for twin in twins:
            twin.set_messages(_HISTORY)
        await asyncio.gather(*(twin.run_agent("Go.") for twin in twins))

    async def together() -> None:
        """Run them as a team."""
        team = ParallelAgent(*(Member(FunctionAgent(_speak), f"member-{number}") for number in range(_SHOWN)))
        team.set_messages(_HISTORY)
        await team.run_agent("Go.")

    ours, reference = best_times(repeat, lambda: asyncio.run(together()), lambda: asyncio.run(alone()))
    absolute = f"{ours / _SHOWN * 1e3:.1f} / {reference / _SHOWN * 1e3:.1f} ms each"
    return [Row(f"{_SHOWN} members after 5 000 messages", ours / reference, 2, "without a team", absolute)]


async def _speak(input: RunAgentInput) -> AsyncIterator[str]:
    yield "Words."


def _late_call(repeat: int, sees: Sees, name: str) -> Row:
    times: list[list[float]] = []

    async def lead(team: Team) -> None:
        """Call the members in turn."""
        for _ in range(_ROUNDS):
            began = time.process_time()
            for name in ("one", "two"):
                await team.run(name)
            times[-1].append(time.process_time() - began)

    one, two = (Member(FunctionAgent(_speak), sees=sees, memory="call") for _ in range(2))
    team = TeamAgent(lead, limits=TeamLimits(calls=2 * _ROUNDS), one=one, two=two)
    with without_collector():
        for _ in range(repeat):
            times.append([])
            asyncio.run(team.clone().run_agent("Go."))
    first, late = (min(median(each[part]) for each in times) / 2 for part in (slice(_NEAR), slice(-_NEAR, None)))
    absolute = f"{late * 1e3:.2f} / {first * 1e3:.2f} ms"
    return Row(f"a call after {_ROUNDS} rounds, {name}", late / first, 1.5, "the first calls", absolute)
