"""Up to five calls streamed in any order, with arguments of every kind: ours are answered once, none runs twice."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import anyio
import pytest
from ag_ui.core import Tool
from hypothesis import given
from hypothesis import strategies as st

from agui_client import FunctionTool, RunResult, ToolContext, tool
from weaves.memory import Server, framed

ASK_USER = Tool(name="ask_user", description="Asks the user.", parameters={"type": "object"})
NAMES = ("count", "keep", "ask_user", "search")
"""A sync function, an async one, a definition without a function, and a tool that nobody offered."""
HUGE = "x" * 200_000

ARGUMENTS: dict[str, frozenset[str]] = {
    '{"number": 3}': frozenset({"count"}),
    '{"number": 3.0}': frozenset({"count"}),
    '{"value": {"a": [null, 1e400]}}': frozenset(),
    '{"value": {"a": [null, "ü😀"]}}': frozenset({"keep"}),
    '{"value": "\\ud83d\\ude00"}': frozenset({"keep"}),
    f'{{"value": "{HUGE}"}}': frozenset({"keep"}),
    f'{{"value": "{HUGE}"': frozenset(),
    f'{{"number": {"9" * 5000}}}': frozenset(),
    "[" * 50_000: frozenset(),
    "{}": frozenset({"keep"}),
    "": frozenset({"keep"}),
    " \n": frozenset({"keep"}),
    '{"number": "three"}': frozenset(),
    '{"number": NaN}': frozenset(),
    '{"number": 3, "other": 1}': frozenset(),
    '{"number": ': frozenset(),
    '{"number": 3}}': frozenset(),
    '{"number": 3}{"number": 3}': frozenset(),
    "[3]": frozenset(),
    '"text"': frozenset(),
    "3": frozenset(),
    "null": frozenset(),
    "true": frozenset(),
    "not JSON at all": frozenset(),
    "\x00": frozenset(),
}
"""Argument texts, and the tools they fit."""


@dataclass(frozen=True)
class Call:
    """A call as the agent makes it."""

    tool_call_id: str
    name: str
    arguments: str
    owner: str
    """The message that makes it."""
    frames: list[str]

    @property
    def fits(self) -> bool:
        """Whether its function can be called with its arguments."""
        return self.name in ARGUMENTS[self.arguments]


@dataclass(frozen=True)
class Woven:
    """A run that makes calls."""

    calls: list[Call]
    """In the order they were begun."""
    frames: list[str]
    are_named: bool
    """Whether the agent says which calls it waits for."""

    @property
    def ours(self) -> list[Call]:
        """The calls to be answered here, message by message."""
        owners = [call.owner for call in self.calls]
        ours = [call for call in self.calls if call.name in ("count", "keep")]
        return sorted(ours, key=lambda call: owners.index(call.owner))

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for the caller: one of a tool without a function, or of one that nobody offered.

        A call of the latter kind is the agent's own unless the agent says that it waits for it (TOOL-9).
        """
        return any(call.name == "ask_user" or (call.name == "search" and self.are_named) for call in self.calls)


@st.composite
def calls(draw: st.DrawFn, tool_call_id: str) -> Call:
    name, arguments = draw(st.sampled_from(NAMES)), draw(st.sampled_from(list(ARGUMENTS)))
    parent = draw(st.sampled_from([{}, {"parentMessageId": "m1"}]))
    cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
    ends = [0, *cuts, len(arguments)]
    pieces = [arguments[start:end] for start, end in pairwise(ends)]
    events: list[dict[str, Any]] = [
        {"type": "TOOL_CALL_START", "toolCallId": tool_call_id, "toolCallName": name, **parent},
        *({"type": "TOOL_CALL_ARGS", "toolCallId": tool_call_id, "delta": piece} for piece in pieces),
        {"type": "TOOL_CALL_END", "toolCallId": tool_call_id},
    ]
    owner = parent.get("parentMessageId", tool_call_id)
    return Call(tool_call_id, name, arguments, owner, [json.dumps(event) for event in events])


@st.composite
def weaves(draw: st.DrawFn) -> Woven:
    made = [draw(calls(f"c{number}")) for number in range(draw(st.integers(1, 5)))]
    turns = draw(st.permutations([call for call in made for _ in call.frames]))
    waiting = {call.tool_call_id: iter(call.frames) for call in made}
    frames = [next(waiting[call.tool_call_id]) for call in turns]
    begun = list(dict.fromkeys(call.tool_call_id for call in turns))
    made.sort(key=lambda call: begun.index(call.tool_call_id))
    return Woven(made, frames, draw(st.booleans()))


START = '{"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"}'
ANSWER = framed(
    [
        START.replace("run-1", "run-2"),
        '{"type": "TEXT_MESSAGE_START", "messageId": "m2"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "Done."}',
        '{"type": "TEXT_MESSAGE_END", "messageId": "m2"}',
        '{"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-2"}',
    ]
)


def body(woven: Woven) -> bytes:
    finish: dict[str, Any] = {"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-1"}
    if woven.are_named:
        named = [call.tool_call_id for call in woven.calls]
        finish["outcome"] = {"type": "success", "pendingToolCallIds": named}
    return framed([START, *woven.frames, json.dumps(finish)])


class Tools:
    """Functions that count how often a call reached them."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    @property
    def offered(self) -> list[Tool | FunctionTool[..., Any]]:
        """What is offered."""

        @tool
        def count(ctx: ToolContext, number: int) -> int:
            self.ran[ctx.tool_call_id] += 1
            return number

        @tool
        async def keep(ctx: ToolContext, value: Any = None) -> Any:
            self.ran[ctx.tool_call_id] += 1
            await anyio.lowlevel.checkpoint()
            return value

        return [count, keep, ASK_USER]


def expect(woven: Woven, server: Server, result: RunResult, ran: Counter[str]) -> None:
    ours = [call.tool_call_id for call in woven.ours]
    assert ran == Counter(call.tool_call_id for call in woven.ours if call.fits)
    results = [message for message in result.messages if message.role == "tool"]
    assert [message.tool_call_id for message in results] == ours
    for call, message in zip(woven.ours, results, strict=True):
        assert (message.error is None) is call.fits
        assert message.error is None or message.content == message.error
        assert message.error is None or call.tool_call_id in message.error
        assert len(str(message.error)) < 3000
    pending = [call.tool_call_id for call in woven.calls if call.tool_call_id not in ours]
    if ours and not woven.is_waiting:
        assert (len(server.requests), result.text, result.pending_tool_calls) == (2, "Done.", [])
        sent = [message for message in server.requests[1]["messages"] if message["role"] == "tool"]
        assert [(each["toolCallId"], each.get("error")) for each in sent] == [
            (each.tool_call_id, each.error) for each in results
        ]
    else:
        assert (len(server.requests), [call.id for call in result.pending_tool_calls]) == (1, pending)


async def ran(woven: Woven) -> None:
    tools, server = Tools(), Server([body(woven)], [ANSWER])
    agent = server.agent(tools=tools.offered)
    with anyio.fail_after(30):
        result = await agent.run_agent("Hi", run_id="run-1")
    expect(woven, server, result, tools.ran)


@pytest.mark.requirement("TOOL-1", "TOOL-2", "TOOL-9", "TOOL-10", "TOOL-11", "SEC-2", "SEC-4", "SET-3")
@given(woven=weaves())
def test_every_call_of_ours_is_answered_once_in_call_order_and_no_function_runs_twice(woven: Woven) -> None:
    anyio.run(ran, woven)


@given(woven=weaves())
def test_so_it_is_on_the_other_event_loop(woven: Woven) -> None:
    anyio.run(ran, woven, backend="trio")


@given(woven=weaves())
def test_so_it_is_without_await(woven: Woven) -> None:
    tools, server = Tools(), Server([body(woven)], [ANSWER])
    result = server.agent(tools=tools.offered).run_agent_sync("Hi", run_id="run-1")
    expect(woven, server, result, tools.ran)
