"""Another process of durable runs, for measurements: `durable_worker.py DATABASE-URL`. Each line it reads starts a run.

The prompt `slow` has an agent send the time as text, every 2 ms; `silent` has it begin, and be silent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from uuid import uuid4

from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import FunctionAgent
from agui_client.store import Store

EVENTS = 500


async def clock(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    """Send the time, again and again."""
    message_id = str(uuid4())
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield TextMessageStartEvent(message_id=message_id)
    while run_input.messages[-1].content == "silent":  # noqa: ASYNC110 - for ever
        await asyncio.sleep(60)
    for _ in range(EVENTS):
        yield TextMessageContentEvent(message_id=message_id, delta=f"{time.time():.6f} ")
        await asyncio.sleep(0.002)
    yield TextMessageEndEvent(message_id=message_id)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def named(store: Store) -> Store:
    """Name the agent, as each process does."""
    store.runs.add("clock", FunctionAgent(clock))
    return store


async def main() -> None:
    """Start the runs that are asked for: `RUN-ID PROMPT`."""
    async with named(Store(sys.argv[1], lease=1.5)) as store:
        print("open", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            run_id, prompt = line.split()
            await store.runs.start("clock", prompt, run_id=run_id)


if __name__ == "__main__":
    asyncio.run(main())
