"""A server with durable runs, as a program that tests kill: `durable_server.py DATABASE-URL FOLDER PORT`.

Its agent makes one call of a tool for each word of the prompt, one round after the other, and `+` joins calls of one
round. Each call writes its id to the file `calls` of the folder, and then waits as long as there is a file `hold`. A
file `silent` keeps the agent silent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
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

from agui_client import FunctionAgent, ToolContext, tool
from agui_client.asgi import agent_app
from agui_client.runs import Runs

folder = Path(sys.argv[2])
PIECES = 6


def called(name: str, ctx: ToolContext) -> str:
    with (folder / "calls").open("a") as calls:
        calls.write(f"{ctx.tool_call_id}\n")
    while (folder / "hold").exists():
        time.sleep(0.01)
    return f"{name} done"


@tool
def pay(ctx: ToolContext) -> str:
    """Pay."""
    return called("pay", ctx)


@tool(idempotent=True)
def look(ctx: ToolContext) -> str:
    """Look."""
    return called("look", ctx)


@tool(approval="always")
def book(ctx: ToolContext) -> str:
    """Book."""
    return called("book", ctx)


async def planner(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    rounds = str(next(each.content for each in reversed(run_input.messages) if each.role == "user")).split()
    done = sum(each.role == "assistant" for each in run_input.messages)
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    while (folder / "silent").exists():  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(0.05)
    message_id = str(uuid4())
    yield TextMessageStartEvent(message_id=message_id)
    for number in range(PIECES):
        yield TextMessageContentEvent(message_id=message_id, delta=f"{done}.{number} ")
        await asyncio.sleep(float(os.environ.get("AGUI_PACE", "0.02")))
    yield TextMessageEndEvent(message_id=message_id)
    for name in rounds[done].split("+") if done < len(rounds) else ():
        tool_call_id = f"{name}-{done}"
        yield ToolCallStartEvent(tool_call_id=tool_call_id, tool_call_name=name, parent_message_id=message_id)
        yield ToolCallArgsEvent(tool_call_id=tool_call_id, delta="{}")
        yield ToolCallEndEvent(tool_call_id=tool_call_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


if __name__ == "__main__":
    agent = FunctionAgent(planner, tools=[pay, look, book])
    how: Any = "fail" if (folder / "fail").exists() else "again"
    app = agent_app(agent, runs=Runs(sys.argv[1]), secret="a secret of these tests", on_crash=how)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="warning")
