"""The functions of the package that three things pass through, counted with `sys.setprofile`.

`python tests/programs/benchmarks/calls.py` prints them: one text delta from the socket to `async for`, a tool's
`ctx.report` to a hook, and `resume=` to the body of the POST.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import agui_client
from agui_client import HttpAgent, Resolve, RunObserver, ToolContext, ToolExecution, tool
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    events_of,
    interrupt,
    pause,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from agui_client.types import RunScope

_PACKAGE = str(Path(agui_client.__file__).parent)


class Calls:
    """The functions that were called, in order of their first call."""

    def __init__(self) -> None:
        self.functions: dict[str, None] = {}

    def __str__(self) -> str:
        shown = "\n".join(f"    {name}" for name in self.functions)
        return f"{len(self.functions)} functions in {len(self.files)} files\n{shown}"

    @property
    def files(self) -> set[str]:
        """The files of the functions."""
        return {name.partition(":")[0] for name in self.functions}

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take note of a call."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE) and "testing" not in code.co_filename:
            self.functions[f"{code.co_filename[len(_PACKAGE) + 1 :]}:{code.co_qualname}"] = None

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count in this thread while the block lasts."""
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)


async def one_delta() -> Calls:
    """Count one text delta that comes in a read of its own."""
    calls = Calls()
    pieces: list[Any] = [step for event in events_of(sse(turn(text("a b c d e f")))) for step in (event, pause(0.05))]
    with serve_bytes(Reply(pieces)) as server:
        async with HttpAgent(server.url).stream("Hi") as run:
            events = aiter(run)
            for _ in range(5):
                await anext(events)
            with calls.counting():
                await anext(events)
    return calls


async def one_report() -> Calls:
    """Count from a tool's `ctx.report` to the hook that gets it."""
    calls = Calls()

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        await asyncio.sleep(0.01)
        sys.setprofile(calls.note)
        ctx.report("half done")
        await asyncio.sleep(0.01)
        return "done"

    class Watching(RunObserver):
        def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
            if execution.progress:
                sys.setprofile(None)

    agent = ScriptedAgent(turn(tool_call("work")), turn(text("Done.")), tools=[work])
    agent.add_observer(Watching())
    await agent.run_agent("Hi")
    return calls


async def one_answer() -> Calls:
    """Count from `resume=` to the body of the POST: the calls that have the answers, or the input, in hand."""
    calls = Calls()
    marks = {"resume", "entries", "run_input", "input", "model", "options"}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if marks & set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
            calls.note(frame, event, argument)

    body = sse(turn(outcome=interrupt("Sure?")))
    with serve_bytes(body, sse(turn(text("Done.")))) as server:
        agent = HttpAgent(server.url)
        result = await agent.run_agent("Hi")
        sys.setprofile(note)
        async with agent.stream(resume={result.interrupts[0].id: Resolve("yes")}) as run:
            await anext(aiter(run))
            sys.setprofile(None)
    return calls


def main() -> None:
    """Print the three counts."""
    for what in (one_delta, one_report, one_answer):
        print(f"{what.__doc__}\n  {asyncio.run(what())}")


if __name__ == "__main__":
    main()
