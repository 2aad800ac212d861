"""Streams of kept runs, served by uvicorn, whose connections are cut again and again.

`AGUI_CLIENT_CUTS=3 pytest tests/store/runs/test_cut_streams.py` cuts three times, at other random moments each time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
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

from agui_client import AGUIError, FunctionAgent, HttpAgent, HTTPStatusError, RetryPolicy, RunResult, tool
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


def _address_for(policy: ReconnectPolicy | Literal["auto"]) -> dict[str, Any]:
    """Return the address that a policy takes streams up at; the header of such servers says it, too."""
    return {} if policy == "auto" else {"connect_url": "connect"}


def _cuts(policy: ReconnectPolicy | Literal["auto"]) -> int:
    # While the agent waits for the last cuts, no event comes: fewer of them than the twelve requests of "auto".
    return 10 if policy == "auto" else 20


def _check_requests(result: RunResult, policy: ReconnectPolicy | Literal["auto"]) -> None:
    """Check that each cut was of a request and led to another one; how many come before an answer is the machine's."""
    assert len(result.attempts) > _cuts(policy)
    assert result.reconnects > 0


async def _slow_text(message_id: str) -> AsyncIterator[Event]:
    yield TextMessageStartEvent(message_id=message_id, role="assistant")
    for word in _WORDS:
        await anyio.sleep(0.002)
        yield TextMessageContentEvent(message_id=message_id, delta=word)


@pytest.mark.parametrize(
    ("policy", "cutting"),
    [("auto", _IN_ANSWERS), (_AT_CURSOR, _IN_ANSWERS), (_AGAIN, _IN_ANSWERS), (_AGAIN, _BEFORE_ANSWERS_TOO)],
    ids=["without a setting", "at a cursor", "again", "again, before answers, too"],
)
@pytest.mark.parametrize("seed", _SEEDS)
async def test_a_run_that_is_kept_runs_once_and_its_answer_is_whole_after_many_cuts(
    policy: ReconnectPolicy | Literal["auto"], cutting: dict[str, Any], runs_url: str | None, seed: int
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
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=_cuts(policy), seed=seed, **cutting)
        async with proxy.serving():
            agent = HttpAgent(f"{proxy.url}/", reconnect=policy, retry=_QUICK, **_address_for(policy))
            result = await agent.run_agent("Tell me")
    assert (result.text, agent.state, result.warnings) == ("".join(_WORDS), {"n": 1}, [])
    assert (len(begun), proxy.left) == (1, 0)
    _check_requests(result, policy)


@pytest.mark.parametrize(
    ("policy", "anyio_backend"), [("auto", "trio"), (_AGAIN, "asyncio")], ids=["without a setting, trio", "again"]
)
@pytest.mark.parametrize("seed", _SEEDS)
async def test_a_tool_of_the_caller_is_called_once_whatever_is_cut_before_and_after_it(
    policy: ReconnectPolicy | Literal["auto"], runs_url: str | None, seed: int
) -> None:
    begun: list[str] = []
    asked: list[str] = []

    async def tell(run_input: RunAgentInput) -> AsyncIterator[Event]:
        begun.append(run_input.run_id)
        thread_id, run_id, number = run_input.thread_id, run_input.run_id, len(begun)
        yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
        async for event in _slow_text(f"m{number}"):
            yield event
        await until(lambda: proxy.left <= _cuts(policy) * (2 - number) // 2)
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
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=_cuts(policy), seed=seed, **_IN_ANSWERS)
        async with proxy.serving():
            agent = HttpAgent(f"{proxy.url}/", reconnect=policy, retry=_QUICK, tools=[ask], **_address_for(policy))
            result = await agent.run_agent("Tell me")
    assert (asked, len(begun), proxy.left, result.warnings) == (["How many?"], 2, 0, [])
    contents = [each.content for each in agent.messages]
    assert contents == ["Tell me", "".join(_WORDS), "Two.", "".join(_WORDS)]
    _check_requests(result, policy)


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


async def test_a_kept_run_that_is_followed_is_whole_after_many_cuts() -> None:
    async def tell(run_input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        async for event in _slow_text("m"):
            yield event
        await until(lambda: not proxy.left)
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    with serve(agent_app(FunctionAgent(tell), store=Store(), **FOR_ALL)) as server:
        proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=10, **_IN_ANSWERS)
        async with proxy.serving():
            async with HttpAgent(server.url, thread_id="t").stream("Tell me", run_id="r") as run:
                await anext(run.text_stream)
            kept = HttpAgent(f"{proxy.url}/", retry=_QUICK).runs
            followed = [each async for each in kept.follow("r", thread_id="t")]
            seen = [each async for each in HttpAgent(server.url).runs.follow("r", thread_id="t")]
    assert (followed, proxy.left) == (seen, 0)
    assert "".join(getattr(each.event, "delta", "") for each in followed) == "".join(_WORDS)


# --- the same call again


Ask: TypeAlias = Callable[..., Awaitable[RunResult]]


async def _ask_aside(agent: HttpAgent, *args: Any, **options: Any) -> RunResult:
    return await anyio.to_thread.run_sync(partial(agent.run_agent_sync, *args, **options))


class Begun:
    """An agent that calls a tool, tells its story when it has the result, and notes the runs that it began."""

    def __init__(self) -> None:
        self.inputs: list[RunAgentInput] = []
        self.count = 0
        self.proxy: CuttingProxy

    async def __call__(self, run_input: RunAgentInput) -> AsyncIterator[Event]:
        """Carry out a run."""
        self.inputs.append(run_input)
        about: dict[str, Any] = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
        self.count += 1
        number = self.count
        yield RunStartedEvent(**about)
        yield StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": f"/{number}", "value": 1}]})
        async for event in _slow_text(f"m{number}"):
            yield event
        await until(lambda: not (self.proxy.left or self.proxy.unanswered))
        yield TextMessageEndEvent(message_id=f"m{number}")
        if run_input.messages[-1].role == "user":
            yield ToolCallStartEvent(tool_call_id=f"c{number}", tool_call_name="look", parent_message_id=f"m{number}")
            yield ToolCallArgsEvent(tool_call_id=f"c{number}", delta="{}")
            yield ToolCallEndEvent(tool_call_id=f"c{number}")
        yield RunFinishedEvent(**about)


@asynccontextmanager
async def _asking(**how: Any) -> AsyncGenerator[tuple[Begun, HttpAgent, list[str]]]:
    """Serve an agent behind a proxy, to a caller that has a tool, and knows from its first run that runs go on."""
    begun, looked = Begun(), list[str]()

    @tool
    def look() -> str:
        """Look out of the window."""
        looked.append("rain")
        return "rain"

    with serve(agent_app(FunctionAgent(begun), store=Store(), **FOR_ALL)) as server:
        proxy = begun.proxy = CuttingProxy(urlsplit(server.url).port or 0, cuts=0, **_IN_ANSWERS)
        async with proxy.serving():
            agent = HttpAgent(f"{proxy.url}/", tools=[look], reconnect=None, retry=_QUICK, **how)
            await agent.run_agent("Hello")
            begun.inputs.clear()
            looked.clear()
            yield begun, agent, looked


_LOST: dict[str, tuple[str, int, str]] = {
    "before the answer": ("unanswered", 1, "asyncio"),
    "in the answer": ("left", 1, "asyncio"),
    "twice before the answer, trio": ("unanswered", 2, "trio"),
    "twice in the answer, trio": ("left", 2, "trio"),
}


@pytest.mark.parametrize("ask", [HttpAgent.run_agent, _ask_aside], ids=["async", "sync"])
@pytest.mark.parametrize(("name", "times", "anyio_backend"), _LOST.values(), ids=_LOST)
async def test_the_same_call_after_a_lost_answer_asks_for_the_same_run(ask: Ask, name: str, times: int) -> None:
    async with _asking() as (begun, agent, looked):
        before = agent.messages
        setattr(begun.proxy, name, times)
        for _ in range(times):
            with pytest.raises(AGUIError) as failed:
                await ask(agent, "Tell me", forwarded_props={"a": 1})
            assert (failed.value.may_have_started, failed.value.run_id) == (True, begun.inputs[0].run_id)
        result = await ask(agent, "Tell me", forwarded_props={"a": 1}, headers={"x-token": "new"})
    assert [each.parent_run_id for each in begun.inputs] == [None, None]
    assert (result.text, looked, result.warnings) == ("".join(_WORDS), ["rain"], [])
    roles = [message.role for message in agent.messages[len(before) :]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert agent.messages[len(before)].id == begun.inputs[0].messages[-1].id


def _with_state(agent: HttpAgent, state: Any) -> dict[str, Any]:
    agent.set_state(state)
    return {}


_OTHERWISE: dict[str, Callable[[HttpAgent], dict[str, Any]]] = {
    "new_run": lambda _: {"new_run": True},
    "another prompt": lambda _: {"prompt": "Tell me less"},
    "other keywords": lambda _: {"forwarded_props": {"a": 1}},
    "another state": lambda agent: _with_state(agent, {"b": 1}),
}


@pytest.mark.parametrize("change", _OTHERWISE.values(), ids=_OTHERWISE)
async def test_a_call_that_differs_from_one_whose_answer_was_lost_begins_another_run(
    change: Callable[[HttpAgent], dict[str, Any]],
) -> None:
    async with _asking() as (begun, agent, _):
        begun.proxy.unanswered = 1
        with pytest.raises(AGUIError) as lost:
            await agent.run_agent("Tell me")
        otherwise: dict[str, Any] = {"prompt": "Tell me", **change(agent)}
        # The server still works on the run that was lost.
        with pytest.raises(HTTPStatusError, match="a run is in progress") as refused:
            await agent.run_agent(**otherwise)
    assert (refused.value.status_code, len(begun.inputs)) == (409, 1)
    assert refused.value.run_id != lost.value.run_id


async def _streamed(agent: HttpAgent, prompt: str) -> RunResult:
    async with agent.stream(prompt) as run:
        seen = [event async for event in run]
        result = await run.result()
    assert (type(seen[0]), type(seen[-1])) == (RunStartedEvent, RunFinishedEvent)
    assert [*run.tool_calls] == [each.id for each in result.pending_tool_calls]
    return result


async def _read_as_text(agent: HttpAgent, prompt: str) -> RunResult:
    async with agent.stream(prompt) as run:
        text = [piece async for piece in run.text_stream]
        result = await run.result()
    assert "".join(text) == result.text
    return result


async def _streamed_aside(agent: HttpAgent, prompt: str) -> RunResult:
    def stream() -> RunResult:
        with agent.stream_sync(prompt) as run:
            seen = [*run]
            assert (type(seen[0]), type(seen[-1])) == (RunStartedEvent, RunFinishedEvent)
            return run.result()

    return await anyio.to_thread.run_sync(stream)


async def _observed(agent: HttpAgent, prompt: str) -> RunResult:
    last = await agent.observe(prompt)
    assert isinstance(last, RunFinishedEvent)
    return await agent.connect_agent()


_VERBS: dict[str, Ask] = {
    "run_agent": HttpAgent.run_agent,
    "run_agent_sync": _ask_aside,
    "stream": _streamed,
    "its text": _read_as_text,
    "stream_sync": _streamed_aside,
    "observe": _observed,
}


@pytest.mark.parametrize(
    "ask",
    [
        # An asynchronous verb, one without `await` and one that is observed; the others ask in the same way.
        pytest.param(ask, id=verb, marks=() if verb in ("run_agent", "stream_sync", "observe") else pytest.mark.soak)
        for verb, ask in _VERBS.items()
    ],
)
async def test_a_lost_run_that_is_refused_when_it_is_asked_for_again_is_fetched_from_the_thread(ask: Ask) -> None:
    async with _asking() as (begun, agent, looked):
        begun.proxy.unanswered = 1
        with pytest.raises(AGUIError):
            await agent.run_agent("Tell me")
        agent.tools = []  # so it is not the same run for the server
        result = await ask(agent, "Tell me")
    assert (result.text, [call.function.name for call in result.pending_tool_calls]) == ("".join(_WORDS), ["look"])
    assert [message.role for message in agent.messages][-2:] == ["user", "assistant"]
    assert (len(begun.inputs), looked) == (1, [])


async def test_a_run_that_is_refused_for_a_reason_of_its_own_is_an_error_of_every_verb() -> None:
    async with _asking() as (begun, agent, _):
        begun.proxy.unanswered = 1
        with pytest.raises(AGUIError):
            await agent.run_agent("Tell me")
        for ask in _VERBS.values():
            with pytest.raises(HTTPStatusError, match="a run is in progress"):
                await ask(agent, "Tell me less")
