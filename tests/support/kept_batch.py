"""A program that runs a batch on durable runs, to be killed and started again: `kept_batch.py DATABASE-URL FOLDER`.

The agent writes each row that it begins to the file `begun` of the folder. From the fourth row on, it waits as long as
there is a file `hold`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from ag_ui.core import Event, RunAgentInput, RunFinishedEvent, RunStartedEvent, TextMessageChunkEvent

from agui_client import FunctionAgent
from agui_client.batch import run_many
from agui_client.store import Store

folder = Path(sys.argv[2])


async def answer(run_input: RunAgentInput) -> AsyncGenerator[Event]:
    prompt = str(run_input.messages[-1].content)
    with (folder / "begun").open("a") as begun:
        begun.write(f"{prompt}\n")
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    yield TextMessageChunkEvent(message_id="m", role="assistant", delta="Answer to ")
    while int(prompt) > 3 and (folder / "hold").exists():  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(0.02)
    yield TextMessageChunkEvent(message_id="m", delta=prompt)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


async def main() -> None:
    store = Store(sys.argv[1], lease=1.5)
    store.runs.add("answerer", FunctionAgent(answer))
    async for done in run_many("answerer", [str(number) for number in range(1, 10)], on=store, name="b", at_once=3):
        sys.stdout.write(f"{done.text or done.error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
