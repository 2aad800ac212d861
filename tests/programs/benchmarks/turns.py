"""What a turn costs around its events, counted in calls of the package's functions: the same on any machine."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
from ag_ui.core import Interrupt

import agui_client
from agui_client import ApprovalRequest, Approve, HttpAgent, Resolve, tool
from programs.benchmarks.measure import Row
from programs.benchmarks.wire import THREAD_ID, URL, frame, text

_PACKAGE = str(Path(agui_client.__file__).parent)
_OPEN = {"outcome": {"type": "interrupt", "interrupts": [{"id": "interrupt-1", "reason": "confirmation"}]}}

_Answer = tuple[Sequence[bytes], dict[str, Any]]
"""What comes between RUN_STARTED and RUN_FINISHED, and the further members of the latter."""


def _called(name: str) -> list[bytes]:
    call = {"toolCallId": f"call-{name}"}
    return [
        frame("TOOL_CALL_START", **call, toolCallName=name),
        frame("TOOL_CALL_ARGS", **call, delta='{"what": "x"}'),
        frame("TOOL_CALL_END", **call),
    ]


_LAST: _Answer = text(1), {}
_STORIES: dict[str, tuple[int, Sequence[_Answer]]] = {
    "plain": (812, [_LAST]),
    "a tool": (1555, [(_called("look"), {}), _LAST]),
    "an approval": (1587, [(_called("pay"), {}), _LAST]),
    "an interrupt": (1490, [((), _OPEN), _LAST]),
    "two rounds of tools": (2355, [(_called("look"), {}), (_called("pay"), {}), _LAST]),
}
"""The calls that a turn may take, and the answers of its agent: 4 % more than before a turn asked its conversation what
comes next."""


def calls_of_turns(repeat: int) -> list[Row]:
    """The calls of turns over HTTP, from `run_agent` to its result; the second of each counts."""
    del repeat  # They are the same each time.
    rows: list[Row] = []
    for name, (limit, answers) in _STORIES.items():
        _count(answers)
        calls = _count(answers)
        rows.append(Row(f"a turn over HTTP, {name}", calls / 1000, limit / 1000, "1 000 calls", f"{calls} calls"))
    return rows


@tool
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


@tool(approval="always")
async def pay(what: str) -> str:
    """Pay."""
    return f"paid {what}"


async def _approve(request: ApprovalRequest) -> Approve:
    return Approve()


async def _answer(interrupt: Interrupt) -> Resolve:
    return Resolve("yes")


def _count(answers: Sequence[_Answer]) -> int:
    left, calls = iter(answers), 0

    def note(called: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and called.f_code.co_filename.startswith(_PACKAGE)

    def serve(request: httpx.Request) -> httpx.Response:
        events, end = next(left)
        ids = {"threadId": THREAD_ID, "runId": json.loads(request.content)["runId"]}
        body = b"".join([frame("RUN_STARTED", **ids), *events, frame("RUN_FINISHED", **ids, **end)])
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    async def ask() -> str:
        client = httpx.AsyncClient(transport=httpx.MockTransport(serve))
        tools = [look, pay]
        agent = HttpAgent(URL, thread_id=THREAD_ID, http_client=client, tools=tools, approve=_approve, answer=_answer)
        sys.setprofile(note)
        try:
            return (await agent.run_agent("Hi")).text
        finally:
            sys.setprofile(None)

    if asyncio.run(ask()) != "hello 0":
        raise AssertionError("a turn did not come to its end")
    return calls
