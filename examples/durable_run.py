"""A run of a minute that outlives its process: kill the program, start it again, and it prints the whole answer.

`python examples/durable_run.py report.db` begins the run, or continues with the one that is in the database. `kill -9`
it as often as you like; another start after the end prints the answer again. PACE is the seconds that a chapter takes.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

from ag_ui import core

from agui_client import FunctionAgent, Reducer, tool
from agui_client.store import Store

CHAPTERS, PACE = 6, float(os.environ.get("PACE", "10"))


@tool(idempotent=True)  # a call that was cut is made again
async def write_chapter(number: int) -> str:
    """Write a chapter."""
    await asyncio.sleep(PACE)
    return f"Chapter {number}, written by process {os.getpid()}."


async def author(run_input: core.RunAgentInput) -> AsyncGenerator[core.Event]:
    """Call the tool for one chapter after the other, and then send the report."""
    chapters = [str(each.content) for each in run_input.messages if each.role == "tool"]
    call_id = f"call-{len(chapters) + 1}"
    yield core.RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    if len(chapters) < CHAPTERS:
        delta = f'{{"number": {len(chapters) + 1}}}'
        yield core.ToolCallChunkEvent(tool_call_id=call_id, tool_call_name="write_chapter", delta=delta)
    else:
        yield core.TextMessageChunkEvent(message_id="report", role="assistant", delta="\n".join(chapters))
    yield core.RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


async def work(database: str) -> None:
    """Begin the run, or follow the one that is in the database, and print its answer."""
    store, reducer = Store(f"sqlite:///{database}"), Reducer()
    store.runs.add("author", FunctionAgent(author, tools=[write_chapter]))
    async with store:
        if not await store.runs.list():
            await store.runs.start("author", "Write a report.", run_id="report")
        async for _, event in store.runs.follow("report"):
            reducer.feed(event)
            if event.type == "TOOL_CALL_RESULT":
                print(sum(each.role == "tool" for each in reducer.messages), "of", CHAPTERS, "chapters", flush=True)
        print(reducer.messages[-1].content)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1] if sys.argv[1:] else "report.db"))
