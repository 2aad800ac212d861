"""A team whose members pay and look, each payment under a key that says what it is for, however often it is asked for.

A member makes the calls of its rounds that have no result yet, with new ids each time, as a model would.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

from ag_ui.core import AssistantMessage, Message, RunAgentInput, ToolMessage

from agui_client import ToolLimits, tool
from agui_client.teams import HandoffAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, pause, text, tool_call, turn

At = Callable[[str, str], Awaitable[None]]
"""Takes "begins" or "ends" and the key of a call; it may wait."""
MEMBERS = {
    "solo": ("one", "six"),
    "left": ("two",),
    "right": ("three",),
    "worker": ("four", "five"),
    "first": ("seven",),
    "giver": ("seven",),
    "taker": ("seven",),
}
"""What each member is asked, also those of the inner teams."""
ROUNDS = (("look-1", "pay-1", "pay-2"), ("pay-3",))
"""The calls of each round of a member."""
KEYS = frozenset(
    f"{name}:{asked}:{call}"
    for name, questions in MEMBERS.items()
    for asked in questions
    for calls in ROUNDS
    for call in calls
)
"""The keys of all calls of one run of the team."""


def payers(at: At, *, pace: float = 0.0, at_once: int = 32, thinks: Callable[[str], object] = str) -> TeamAgent:
    """Return the team.

    Args:
        at: Called when a function begins, and before it ends.
        pace: The seconds that a member takes for a word.
        at_once: The number of tools of a member that run at once.
        thinks: Called with the name of a member, and what it was asked, when a run of it begins.
    """

    @tool
    async def pay(key: str) -> str:
        """Pay."""
        await at("begins", key)
        await at("ends", key)
        return f"paid {key}"

    @tool(idempotent=True)
    async def look(key: str) -> str:
        """Look."""
        await at("begins", key)
        await at("ends", key)
        return f"seen {key}"

    def member(name: str, *, gives: bool = False) -> ScriptedAgent:
        async def play(input: RunAgentInput) -> AsyncIterator[Any]:
            asked = [str(each.content) for each in input.messages if each.role == "user"]
            question = [each for each in asked if not each.startswith("[")][-1]
            thinks(f"{name}:{question}")
            done = [*results_of(input.messages)]
            keys = [[f"{name}:{question}:{call}" for call in calls] for calls in ROUNDS]
            left = [[each for each in some if each not in done] for some in keys]
            missing = next((some for some in left if some), list[str]())
            calls = [tool_call(key.split(":")[2][:-2], {"key": key}, tool_call_id=str(uuid4())) for key in missing]
            transfers = [each.name for each in input.tools or () if each.name.startswith("transfer_to_")]
            if gives and not missing and transfers:
                calls = [tool_call(transfers[0], {}, tool_call_id=str(uuid4()))]
            words = [step for word in ("I ", "am ", name) for step in (text(word), pause(pace))]
            yield turn(*words, *calls)

        limits = ToolLimits(at_once=at_once)
        return ScriptedAgent(play, agent_id=name, tools=[pay, look], tool_limits=limits)

    async def lead(team: Team) -> str:
        await team.run("solo", "one")
        await team.gather(("left", "two"), ("right", "three"))
        await team.map("worker", ["four", "five"])
        await team.run("solo", "six")
        await team.run("inner", "seven")
        return "all paid"

    pair = HandoffAgent(member("giver", gives=True), member("taker"), agent_id="pair")
    inner = SequentialAgent(member("first"), pair, agent_id="inner")
    members: Any = {name: member(name) for name in ("solo", "left", "right", "worker")}
    return TeamAgent(lead, inner=inner, options={"agent_id": "payers"}, **members)


def results_of(messages: list[Message]) -> dict[str, str]:
    """Return the results of the calls of a conversation by their keys; for several with one key, all of them."""
    keys = {
        call.id: json.loads(call.function.arguments).get("key", "")
        for each in messages
        if isinstance(each, AssistantMessage)
        for call in each.tool_calls or ()
    }
    found: dict[str, str] = {}
    for each in messages:
        if isinstance(each, ToolMessage) and (key := keys.get(each.tool_call_id)):
            found[key] = f"{found[key]}, {each.content}" if key in found else str(each.content)
    return found
