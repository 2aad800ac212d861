"""A stored team to be killed at any moment: it writes down which member begins, and goes on where it was.

python killed_team.py DATABASE THREAD LEDGER
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import RunAgentInput

from agui_client.store import Store
from agui_client.teams import SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, pause, text, turn

_database, _thread_id, _path = sys.argv[1:]
_ledger = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(what: str) -> None:
    """Write a line, which is there whatever happens next."""
    os.write(_ledger, f"{what}\n".encode())


def member(name: str) -> ScriptedAgent:
    """A member that says two words, and writes down what it was shown of its own."""

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        own = [str(each.content) for each in input.messages if each.role == "assistant"]
        note(f"{name} begins{' after ' + repr(own) if own else ''}")
        yield turn(text(f"{name} is "), pause(0.02), text("done."))

    return ScriptedAgent(play, agent_id=name)


async def lead(team: Team) -> None:
    """Lead two members and a team."""
    await team.once(lambda: note("once"))
    await team.run("a")
    await team.run("inner")
    await team.run("d")


async def main() -> None:
    """Run the team, or go on with it."""
    inner = SequentialAgent(member("b"), member("c"), agent_id="inner")
    team = TeamAgent(lead, a=member("a"), inner=inner, d=member("d"))
    async with Store(_database, lease=0.4) as store, store.threads.open(_thread_id, team, wait=30) as agent:
        result = await agent.run_agent(*([] if agent.messages else ["Hi"]))
        note(f"ended {result.state} {[each.content for each in agent.messages]}")


asyncio.run(main())
