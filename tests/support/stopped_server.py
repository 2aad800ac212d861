"""A server that tests tell to stop while it works: `stopped_server.py DATABASE-URL FOLDER PORT`.

Its agent pays five times, one call after the other, whichever process it is run in. The file `calls` of the folder has
a line when a payment begins, and another one when it is done. The agent is served as it is at `/plain/`, in stored
threads at `/kept/`, with durable runs at `/durable/`, with both at `/stored/`, and as the member of a durable team at
`/team/`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from agui_client import FunctionAgent, tool
from agui_client.asgi import agent_app
from agui_client.store import Keeping, Store
from agui_client.teams import SequentialAgent

folder = Path(sys.argv[2])
PAYMENTS = 5


def note(word: str, key: str) -> None:
    with (folder / "calls").open("a") as calls:
        calls.write(f"{word}:{key}\n")


@tool
async def pay(key: str) -> str:
    """Pay."""
    note("begun", key)
    await asyncio.sleep(random.uniform(0.0, 0.3))
    note("done", key)
    return f"paid {key}"


async def payer(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    paid = sum(each.role == "tool" for each in run_input.messages)
    thread_id = next(str(each.content) for each in run_input.messages if each.role == "user")
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    message_id = str(uuid4())
    yield TextMessageStartEvent(message_id=message_id)
    for number in range(3):
        yield TextMessageContentEvent(message_id=message_id, delta=f"{paid}.{number} ")
        await asyncio.sleep(0.02)
    yield TextMessageEndEvent(message_id=message_id)
    if paid < PAYMENTS:
        key, tool_call_id = f"{thread_id}-{paid}", f"pay-{uuid4().hex[:8]}"
        yield ToolCallStartEvent(tool_call_id=tool_call_id, tool_call_name="pay", parent_message_id=message_id)
        yield ToolCallArgsEvent(tool_call_id=tool_call_id, delta=f'{{"key": "{key}"}}')
        yield ToolCallEndEvent(tool_call_id=tool_call_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


agent = FunctionAgent(payer, tools=[pay], agent_id="payer")
store, secret = Store(sys.argv[1]), "a secret of these tests"
apps = {
    "plain": agent_app(agent, secret=secret),
    "kept": agent_app(lambda _, asked: store.threads.open(asked.thread_id, agent, wait=0)),
    "durable": agent_app(
        agent, store=store, owner_of=lambda _: "", keeping=Keeping(threads="transcripts"), name="durable", secret=secret
    ),
    "stored": agent_app(agent, store=store, owner_of=lambda _: "", name="stored"),
    "team": agent_app(
        SequentialAgent(agent.clone(), agent_id="team"),
        store=store,
        owner_of=lambda _: "",
        keeping=Keeping(threads="transcripts"),
        name="team",
        secret=secret,
    ),
}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve each app at its path, and all of them in the lifespan."""
    if scope["type"] != "lifespan":
        await apps.get(scope["path"].split("/")[1], apps["plain"])(scope, receive, send)
        return
    async with apps["plain"].lifespan(), apps["kept"].lifespan(), apps["durable"].lifespan():
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="warning")
