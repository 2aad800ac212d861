"""Streams of kept runs, served by uvicorn, whose connections are cut again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
)

from agui_client import FunctionAgent, HttpAgent, RetryPolicy
from agui_client.asgi import agent_app
from agui_client.reconnect import Connect, LastEventId, ReconnectPolicy
from agui_client.runs import Runs
from agui_client.testing import ScriptedAgent, serve, text, turn
from support.cutting_proxy import CuttingProxy
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

_WORDS = [f"word{number} " for number in range(60)]


@pytest.mark.parametrize("policy", [LastEventId(attempts=50), Connect(attempts=50)], ids=["at a cursor", "again"])
async def test_a_run_that_is_kept_runs_once_and_its_answer_is_whole_after_twenty_cuts(policy: ReconnectPolicy) -> None:
    begun: list[str] = []

    async def tell(run_input: RunAgentInput) -> AsyncIterator[Event]:
        begun.append(run_input.run_id)
        thread_id, run_id = run_input.thread_id, run_input.run_id
        yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
        yield StateSnapshotEvent(snapshot={"n": 0})
        yield StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/n", "value": 1}]})
        yield TextMessageStartEvent(message_id="m", role="assistant")
        for word in _WORDS:
            await anyio.sleep(0.002)
            yield TextMessageContentEvent(message_id="m", delta=word)
        await until(lambda: not proxy.left)
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=thread_id, run_id=run_id)

    with serve(agent_app(FunctionAgent(tell), runs=Runs())) as server:
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=20, seconds=(0.015, 0.04), seed=5)
        async with proxy.serving():
            agent = HttpAgent(
                f"{proxy.url}/",
                connect_url="connect",
                reconnect=policy,
                retry=RetryPolicy(first_wait=0.002, max_wait=0.005),
            )
            result = await agent.run_agent("Tell me")
    assert (result.text, agent.state, result.warnings) == ("".join(_WORDS), {"n": 1}, [])
    assert (len(begun), proxy.left) == (1, 0)
    assert result.reconnects > 5


@pytest.mark.parametrize("unanswered", [1, 3], ids=["one request", "three requests"])
async def test_a_run_whose_post_gets_no_answer_is_connected_to_and_not_posted_again(unanswered: int) -> None:
    agent = ScriptedAgent(turn(text("All is well.")))
    with serve(agent_app(agent, runs=Runs())) as server:
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
