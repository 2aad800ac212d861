"""Record a run of an agent, replay it ten times as fast where there is no agent, and look at what was recorded."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from agui_client import AbstractAgent, HttpAgent
from agui_client.demo import demo_agent
from agui_client.recording import Recording, ReplayAgent, record


async def show(agent: AbstractAgent, prompt: str) -> None:
    async with agent.stream(prompt) as run:
        async for piece in run.text_stream:
            print(piece, end="", flush=True)
    print()


async def main(path: Path, url: str | None) -> None:
    agent = HttpAgent(url) if url else demo_agent()
    await show(agent.use(record(path)), "How is the weather in Oslo?")

    print("--- the same again, from the recording")
    await show(ReplayAgent(path, speed=10), "How is the weather in Oslo?")

    print("--- what was recorded")
    for exchange in Recording.read(path).exchanges:
        types = [line.event["type"] for line in exchange.events]
        assert exchange.outcome is not None
        print(f"{len(types)} events from {types[0]} to {types[-1]}: {exchange.outcome.ending}")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder) / "run.jsonl", sys.argv[1] if sys.argv[1:] else None))
