"""A program with two tools and an approval, to be killed at any moment: it writes down all that it does, and goes on.

python killed_chat.py DATABASE AGENT THREAD LEDGER VERB
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from agui_client import ApprovalRequest, Approve, HttpAgent, ToolContext, tool
from agui_client.store import Store, Threads

LEASE = 0.4
TURNS = 2


def note(what: str, **more: Any) -> None:
    """Write a line, which is there whatever happens next."""
    os.write(_ledger, (json.dumps({"what": what, **more}) + "\n").encode())


@tool
async def look(ctx: ToolContext, place: str) -> str:
    """Look at a place."""
    note("called", id=ctx.tool_call_id)
    await asyncio.sleep(0.01)
    note("returned", id=ctx.tool_call_id, value=f"seen {place}")
    return f"seen {place}"


@tool(approval="always")
def pay(ctx: ToolContext, amount: int) -> str:
    """Pay an amount."""
    note("called", id=ctx.tool_call_id)
    note("returned", id=ctx.tool_call_id, value=f"paid {amount}")
    return f"paid {amount}"


def approve(request: ApprovalRequest) -> bool:
    """Ask a person."""
    note("asked", id=request.tool_call_id, arguments=dict(request.arguments))
    return True


def options(agent: HttpAgent, turn: int) -> dict[str, Any]:
    """The keywords of the next run: answers to the calls that wait, or a prompt."""
    unknown = {call.id for call in agent.unknown_tool_calls}
    waiting = {call.id: "nobody knows" if call.id in unknown else Approve() for call in agent.pending_tool_calls}
    incomplete = {each.tool_call_id for each in agent.snapshot().tool_calls if each.status == "cut"}
    waiting = {key: "never mind" if key in incomplete and key not in unknown else each for key, each in waiting.items()}
    return {"tool_results": waiting} if waiting else {"prompt": f"turn {turn}"}


def opened_with(agent: HttpAgent) -> None:
    """Write down the results that the thread shows."""
    results = {each.tool_call_id: each.content for each in agent.messages if each.role == "tool"}
    note("opened", results=results)


def told(result: Any) -> None:
    """Tell a person the answer."""
    note("answered", text=result.text, ids=[message.id for message in result.new_messages])


async def chat(threads: Threads, agent: HttpAgent, thread_id: str) -> None:
    async with threads.open(thread_id, agent, wait=20) as opened:
        opened_with(opened)
        for turn in range(TURNS):
            told(await opened.run_agent(**options(opened, turn)))


def chat_sync(threads: Threads, agent: HttpAgent, thread_id: str) -> None:
    with threads.open(thread_id, agent, wait=20) as opened:
        opened_with(opened)
        for turn in range(TURNS):
            told(opened.run_agent_sync(**options(opened, turn)))


if __name__ == "__main__":
    database, url, thread_id, ledger, verb = sys.argv[1:]
    _ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    note("started")
    agent = HttpAgent(url, tools=[look, pay], approve=approve)
    threads = Store(database, lease=LEASE).threads
    if verb == "sync":
        chat_sync(threads, agent, thread_id)
    else:
        asyncio.run(chat(threads, agent, thread_id))
    note("ended")
