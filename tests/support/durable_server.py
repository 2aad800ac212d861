"""A server with durable runs, as a program that tests kill: `durable_server.py DATABASE-URL FOLDER PORT [KIND]`.

Its agent makes one call of a tool for each word of the prompt, one round after the other, and `+` joins calls of one
round. Each call writes its id to the file `calls` of the folder, and then waits as long as there is a file `hold`. A
file `silent` keeps the agent silent, and one `alone` lets it make one call at a time. `/team/` is a team, `/stored/`
and `/stored-team/` are the two with threads in the same database, and `/threads/` is the agent without runs. The file
`pids` gets the id of each process that runs the agent or a member. The kind is `spawned` or `forked` for a server with
two workers.
"""

from __future__ import annotations

import asyncio
import os
import socket
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

from agui_client import FunctionAgent, ToolContext, ToolLimits, tool
from agui_client.asgi import agent_app
from agui_client.store import Keeping, Store
from agui_client.teams import ParallelAgent, SequentialAgent

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


@tool
def pay2(ctx: ToolContext) -> str:
    """Pay once more."""
    return called("pay2", ctx)


def note_process() -> None:
    with (folder / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")


async def planner(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    note_process()
    rounds = str(next(each.content for each in run_input.messages if each.role == "user")).split()
    texts = [str(each.content) for each in run_input.messages if each.role == "assistant"]
    done = sum(each[:1].isdecimal() for each in texts)
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


def member(name: str) -> FunctionAgent:
    async def play(run_input: RunAgentInput) -> AsyncGenerator[Event]:
        note_process()
        with (folder / "members").open("a") as members:
            members.write(f"{run_input.thread_id.partition('/')[0]}:{name}\n")
        async for event in said(run_input, name):
            yield event
        with (folder / "members").open("a") as members:
            members.write(f"{run_input.thread_id.partition('/')[0]}:{name}.\n")

    return FunctionAgent(play, agent_id=name)


async def said(run_input: RunAgentInput, name: str) -> AsyncGenerator[Event]:
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    message_id = str(uuid4())
    yield TextMessageStartEvent(message_id=message_id)
    for number in range(PIECES):
        yield TextMessageContentEvent(message_id=message_id, delta=f"{name}.{number} ")
        await asyncio.sleep(float(os.environ.get("AGUI_PACE", "0.02")))
    yield TextMessageEndEvent(message_id=message_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


how: Any = "fail" if (folder / "fail").exists() else "again"
store, secret = Store(sys.argv[1], lease=float(os.environ.get("AGUI_LEASE", "1.5"))), "a secret of these tests"
limits = ToolLimits(at_once=1) if (folder / "alone").exists() else ToolLimits()
agent = FunctionAgent(planner, tools=[pay, pay2, look, book], agent_id="planner", tool_limits=limits)
both = ParallelAgent(member("b"), member("c"), agent_id="both")
team = SequentialAgent(member("a"), both, agent.clone(), agent_id="team")
alone = agent_app(
    agent, store=store, owner_of=lambda _: "", keeping=Keeping(threads="transcripts", on_crash=how), secret=secret
)
as_team = agent_app(
    team, store=store, owner_of=lambda _: "", keeping=Keeping(threads="transcripts"), secret=secret, name="team"
)
as_stored = agent_app(agent, store=store, owner_of=lambda _: "", name="stored", keeping=Keeping(on_crash=how))
without_runs = agent_app(lambda _, asked: store.threads.open(asked.thread_id, agent, wait=0))
as_stored_team = agent_app(team, store=store, owner_of=lambda _: "", name="both")


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve the agent and the team, alone and with stored threads, each at its path."""
    first = scope.get("path", "").split("/")[1:2]
    apps = {"team": as_team, "stored": as_stored, "stored-team": as_stored_team, "threads": without_runs}
    await apps.get("".join(first), alone)(scope, receive, send)


def serve_forked(port: int) -> None:
    """Serve with two processes that are forked from this one, which has imported the app, as gunicorn does."""
    listener = socket.create_server(("127.0.0.1", port))
    children: list[int] = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    port, kind = int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else ""
    if kind == "forked":
        serve_forked(port)
    elif kind == "spawned":
        uvicorn.run("support.durable_server:app", host="127.0.0.1", port=port, log_level="warning", workers=2)
    else:
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
