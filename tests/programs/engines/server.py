"""A server with stored runs, whose agent pays once in each run: `server.py DATABASE-URL FILE PORT`."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from ag_ui.core import (
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
from agui_client.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ag_ui.core import Event, RunAgentInput


@tool
def pay(ctx: ToolContext) -> str:
    """Pay."""
    with Path(sys.argv[2]).open("a") as payments:
        payments.write(f"{ctx.tool_call_id}\n")
    return "paid"


async def play(given: RunAgentInput) -> AsyncIterator[Event]:
    """Pay once, and say so."""
    results = [str(each.content) for each in given.messages if each.role == "tool"]
    message_id, call_id = f"{given.run_id}-{len(results)}", f"{given.thread_id}/pay"
    events: list[Event] = [
        ToolCallStartEvent(tool_call_id=call_id, tool_call_name="pay", parent_message_id=message_id),
        ToolCallArgsEvent(tool_call_id=call_id, delta="{}"),
        ToolCallEndEvent(tool_call_id=call_id),
    ]
    if results:
        events = [
            TextMessageStartEvent(message_id=message_id),
            TextMessageContentEvent(message_id=message_id, delta=results[-1]),
            TextMessageEndEvent(message_id=message_id),
        ]
    yield RunStartedEvent(thread_id=given.thread_id, run_id=given.run_id)
    for event in events:
        await asyncio.sleep(random.uniform(0.0, 0.1))
        yield event
    yield RunFinishedEvent(thread_id=given.thread_id, run_id=given.run_id)


if __name__ == "__main__":
    store = Store(sys.argv[1], lease=1.0)
    app = agent_app(FunctionAgent(play, tools=[pay]), store=store, owner_of=lambda _: "")
    uvicorn.run(app, port=int(sys.argv[3]), log_level="error")
