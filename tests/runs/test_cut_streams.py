"""Streams of kept runs, served by uvicorn, whose connections are cut again and again.

`AGUI_CLIENT_CUTS=3 pytest tests/runs/test_cut_streams.py` cuts three times, at other random moments each time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from agui_client import FunctionAgent, HttpAgent, RetryPolicy, tool
from agui_client.asgi import agent_app
from agui_client.reconnect import Connect, LastEventId, ReconnectPolicy
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, serve, text, turn
from support.cutting_proxy import CuttingProxy
from support.stores import FOR_ALL
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

_WORDS = [f"word{number} " for number in range(60)]
_QUICK = RetryPolicy(first_wait=0.002, max_wait=0.005)
_SEEDS = range(5, 5 + int(os.environ.get("AGUI_CLIENT_CUTS", "1")))
_AT_CURSOR, _AGAIN = LastEventId(attempts=50), Connect(attempts=50)
_IN_ANSWERS: dict[str, Any] = {"seconds": (0.015, 0.04)}
_BEFORE_ANSWERS_TOO: dict[str, Any] = {"seconds": (0.0, 0.03), "unanswered": 1, "at_any_moment": True}


async def _slow_text(message_id: str) -> AsyncIterator[Event]:
    yield TextMessageStartEvent(message_id=message_id, role="assistant")
    for word in _WORDS:
        await anyio.sleep(0.002)
        yield TextMessageContentEvent(message_id=message_id, delta=word)


@pytest.mark.parametrize(
    ("policy", "cutting"),
    [(_AT_CURSOR, _IN_ANSWERS), (_AGAIN, _IN_ANSWERS), (_AGAIN, _BEFORE_ANSWERS_TOO)],
    ids=["at a cursor", "again", "again, before answers, too"],
)
@pytest.mark.parametrize("seed", _SEEDS)
async def test_a_run_that_is_kept_runs_once_and_its_answer_is_whole_after_twenty_cuts(
    policy: ReconnectPolicy, cutting: dict[str, Any], runs_url: str | None, seed: int
) -> None:
    begun: list[str] = []

    async def tell(run_input: RunAgentInput) -> AsyncIterator[Event]:
        begun.append(run_input.run_id)
        thread_id, run_id = run_input.thread_id, run_input.run_id
        yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
        yield StateSnapshotEvent(snapshot={"n": 0})
        yield StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/n", "value": 1}]})
        async for event in _slow_text("m"):
            yield event
        await until(lambda: not proxy.left)
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=thread_id, run_id=run_id)

    with serve(agent_app(FunctionAgent(tell), store=Store(runs_url), **FOR_ALL)) as server:
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=20, seed=seed, **cutting)
        async with proxy.serving():
            agent = HttpAgent(f"{proxy.url}/", connect_url="connect", reconnect=policy, retry=_QUICK)
            result = await agent.run_agent("Tell me")
    assert (result.text, agent.state, result.warnings) == ("".join(_WORDS), {"n": 1}, [])
    assert (len(begun), proxy.left) == (1, 0)
    assert result.reconnects > 5


@pytest.mark.parametrize("policy", [_AT_CURSOR, _AGAIN], ids=["at a cursor", "again"])
@pytest.mark.parametrize("seed", _SEEDS)
async def test_a_tool_of_the_caller_is_called_once_whatever_is_cut_before_and_after_it(
    policy: ReconnectPolicy, runs_url: str | None, seed: int
) -> None:
    begun: list[str] = []
    asked: list[str] = []

    async def tell(run_input: RunAgentInput) -> AsyncIterator[Event]:
        begun.append(run_input.run_id)
        thread_id, run_id, number = run_input.thread_id, run_input.run_id, len(begun)
        yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
        async for event in _slow_text(f"m{number}"):
            yield event
        await until(lambda: proxy.left <= 20 - 10 * number)
        yield TextMessageEndEvent(message_id=f"m{number}")
        if number == 1:
            yield ToolCallStartEvent(tool_call_id="c", tool_call_name="ask", parent_message_id="m1")
            for delta in ('{"quest', 'ion": "How m', 'any?"}'):
                yield ToolCallArgsEvent(tool_call_id="c", delta=delta)
            yield ToolCallEndEvent(tool_call_id="c")
        yield RunFinishedEvent(thread_id=thread_id, run_id=run_id)

    @tool
    def ask(question: str) -> str:
        """Ask the person in front of the screen."""
        asked.append(question)
        return "Two."

    with serve(agent_app(FunctionAgent(tell), store=Store(runs_url), **FOR_ALL)) as server:
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=20, seed=seed, **_IN_ANSWERS)
        async with proxy.serving():
            agent = HttpAgent(f"{proxy.url}/", connect_url="connect", reconnect=policy, retry=_QUICK, tools=[ask])
            result = await agent.run_agent("Tell me")
    assert (asked, len(begun), proxy.left, result.warnings) == (["How many?"], 2, 0, [])
    contents = [each.content for each in agent.messages]
    assert contents == ["Tell me", "".join(_WORDS), "Two.", "".join(_WORDS)]
    assert result.reconnects > 5


@pytest.mark.parametrize("unanswered", [1, 3], ids=["one request", "three requests"])
async def test_a_run_whose_post_gets_no_answer_is_connected_to_and_not_posted_again(unanswered: int) -> None:
    agent = ScriptedAgent(turn(text("All is well.")))
    with serve(agent_app(agent, store=Store(), **FOR_ALL)) as server:
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=0, seconds=(0, 0), unanswered=unanswered)
        async with proxy.serving():
            caller = HttpAgent(
                f"{proxy.url}/", connect_url="connect", reconnect=Connect(), retry=RetryPolicy(first_wait=0.002)
            )
            result = await caller.run_agent("Tell me")
    assert (result.text, len(result.attempts), result.reconnects) == ("All is well.", unanswered + 1, 1)
    assert len(agent.inputs) == 1
    assert [message.role for message in caller.messages] == ["user", "assistant"]
    assert result.warnings == []
