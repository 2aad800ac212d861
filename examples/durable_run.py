"""A run that takes a minute, and whose process is killed in the middle: another process goes on with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator

from ag_ui import core

from agui_client import FunctionAgent, tool
from agui_client.runs import Runs, RunStatus

CHAPTERS = 6


@tool
async def write_chapter(number: int) -> str:
    """Write a chapter."""
    await asyncio.sleep(float(sys.argv[2]))
    return f"chapter {number}"


async def author(run_input: core.RunAgentInput) -> AsyncGenerator[core.Event]:
    """Call the tool for the next chapter, until all are written."""
    number = 1 + sum(each.role == "tool" for each in run_input.messages)
    yield core.RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    if number <= CHAPTERS:
        call, arguments = f"call-{number}", f'{{"number": {number}}}'
        yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name="write_chapter")
        yield core.ToolCallArgsEvent(tool_call_id=call, delta=arguments)
        yield core.ToolCallEndEvent(tool_call_id=call)
    yield core.RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


async def work(database: str, name: str) -> None:
    """Begin the run, or go on with the one that is in the database."""
    runs = Runs(f"sqlite:///{database}")
    runs.add("author", FunctionAgent(author, tools=[write_chapter]))
    async with runs:
        going_on = [each for each in await runs.list() if each.status is RunStatus.RUNNING]
        run = going_on[0] if going_on else await runs.start("author", "Write a report.")
        async for _, event in runs.follow(run.run_id):
            if isinstance(event, core.ToolCallResultEvent):
                print(f"{name} process: {event.content}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(work(sys.argv[1], sys.argv[3]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, f"{folder}/runs.db", sys.argv[1] if sys.argv[1:] else "10"]
            with subprocess.Popen([*command, "first"], stdout=subprocess.PIPE) as process:
                while process.stdout and b"chapter 2" not in (line := process.stdout.readline()):
                    print(line.decode().strip(), flush=True)
                process.kill()
            subprocess.run([*command, "second"], check=True)
