"""Middleware: functions around every run. They may change the input, change the events, or answer themselves.

A middleware takes the input and the rest of the chain, and yields events. The first one is the outermost.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

from ag_ui.core import Event, RunAgentInput, TextMessageContentEvent, ToolCallStartEvent

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve
from agui_client.types import Next


async def count_events(input: RunAgentInput, next: Next) -> AsyncIterator[Event]:
    started = time.perf_counter()
    events = 0
    async for event in next(input):
        events += 1
        yield event
    print(f"[{events} events in {time.perf_counter() - started:.1f} seconds]")


async def add_tenant(input: RunAgentInput, next: Next) -> AsyncIterator[Event]:
    print("[sent for the tenant acme]")
    async for event in next(input.model_copy(update={"forwarded_props": {"tenant": "acme"}})):
        yield event


async def shout(input: RunAgentInput, next: Next) -> AsyncIterator[Event]:
    async for event in next(input):
        match event:
            case TextMessageContentEvent():
                yield event.model_copy(update={"delta": event.delta.upper()})
            case ToolCallStartEvent(tool_call_name=name):
                print(f"[the agent calls {name}]")
                yield event
            case _:
                yield event


async def main(url: str) -> None:
    agent = HttpAgent(url, middleware=[count_events])
    agent.use(add_tenant, shout)
    result = await agent.run_agent("Plan my Saturday in Oslo, and book the ferry.")
    print(result.text)


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
