"""A program that runs a batch, to be killed at any moment and started again.

python killed_batch.py AGENT ROWS JOURNAL VERB
"""

from __future__ import annotations

import asyncio
import sys

from agui_client import HttpAgent
from agui_client.batch import Batch, run_many


async def follow(batch: Batch) -> None:
    async for _ in batch:
        pass


if __name__ == "__main__":
    url, rows, journal, verb = sys.argv[1:]
    prompts = [{"prompt": f"row {number}", "id": f"r{number}"} for number in range(int(rows))]
    batch = run_many(HttpAgent(url), prompts, key="id", at_once=4, journal=journal)
    if verb == "async":
        asyncio.run(follow(batch))
    else:
        for _ in batch:
            pass
