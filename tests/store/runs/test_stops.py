"""Runs that are stopped in the middle of a message, a call or a member, and callers who stop them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import (
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunStartedEvent,
    StepStartedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallStartEvent,
    UserMessage,
)
from fastapi import FastAPI

from agui_client import FunctionAgent, HttpAgent, UsageError, tool
from agui_client.asgi import agent_app, served_run
from agui_client.reconnect import stop_run
from agui_client.store import Keeping, Store
from agui_client.teams import SequentialAgent
from agui_client.testing import Gate, ScriptedAgent, events_of, text, tool_call, turn
from support.stores import FOR_ALL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from ag_ui.core import Event

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
_SECONDS = 20.0
_CANCELLED = RunFinishedCancelledOutcome()

looked: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_looked_at() -> None:
    looked.clear()


@tool
def look(place: str = "") -> str:
    """Look."""
    looked.append(place)
    return "sun"


def _stuck(*events: Event) -> FunctionAgent:
    """An agent that begins a run with events, and never ends it."""

    async def play(run_input: RunAgentInput) -> AsyncGenerator[Event]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        for event in events:
            yield event
        await anyio.sleep_forever()

    return FunctionAgent(play)


_THOUGHT = (
    ReasoningStartEvent(message_id="s"),
    ReasoningMessageStartEvent(message_id="r", role="reasoning"),
    ReasoningMessageContentEvent(message_id="r", delta="Well"),
)
_CALL = (ToolCallStartEvent(tool_call_id="c", tool_call_name="look"), ToolCallArgsEvent(tool_call_id="c", delta="{}"))
_TEAM = (
    SubagentStartedEvent(subagent_run_id="outer", name="outer"),
    SubagentStartedEvent(subagent_run_id="inner", name="inner", parent_subagent_run_id="outer"),
    StepStartedEvent(step_name="plan", subagent_run_id="inner"),
    TextMessageStartEvent(message_id="m", subagent_run_id="inner"),
    TextMessageContentEvent(message_id="m", delta="One", subagent_run_id="inner"),
)
_OPEN: dict[str, tuple[tuple[Event, ...], list[tuple[str, str]]]] = {
    "a message": (
        (TextMessageStartEvent(message_id="m"), TextMessageContentEvent(message_id="m", delta="One")),
        [("TEXT_MESSAGE_END", "m")],
    ),
    "chunks": ((TextMessageChunkEvent(message_id="m", delta="One"),), [("TEXT_MESSAGE_END", "m")]),
    "reasoning": (_THOUGHT, [("REASONING_MESSAGE_END", "r"), ("REASONING_END", "s")]),
    "a call": (_CALL, [("TOOL_CALL_END", "c")]),
    "a call of a message": (
        (TextMessageStartEvent(message_id="m"), *_CALL),
        [("TOOL_CALL_END", "c"), ("TEXT_MESSAGE_END", "m")],
    ),
    "a member of a member": (
        _TEAM,
        [
            ("TEXT_MESSAGE_END", "m"),
            ("STEP_FINISHED", "plan"),
            ("SUBAGENT_ERROR", "inner"),
            ("SUBAGENT_ERROR", "outer"),
        ],
    ),
}


def _subject(event: Any) -> tuple[str, str]:
    """The type of an event, and the id or name that it is about."""
    names = ("tool_call_id", "message_id", "step_name", "subagent_run_id")
    return event.type.value, next((value for name in names if (value := getattr(event, name, None))), "")


def _kept(place: str, folder: Path) -> Store:
    if place == "memory":
        return Store()
    return Store(f"sqlite:///{folder / 'runs.db'}")


async def _stop_behind(store: Store, number: int) -> None:
    """Stop the run `r` when it has a number of events."""
    seen = 0
    async for _ in store.runs.follow("r"):
        seen += 1
        if seen == number:
            await store.runs.stop("r")


@pytest.mark.parametrize("place", ["memory", "database"])
@pytest.mark.parametrize("cut", _OPEN)
async def test_what_a_stopped_run_has_open_is_closed_before_its_end(cut: str, place: str, tmp_path: Path) -> None:
    events, ends = _OPEN[cut]
    store = _kept(place, tmp_path)
    app = agent_app(_stuck(*events), store=store, **FOR_ALL, name="stuck")
    caller = HttpAgent("http://app/", app=app, thread_id="t", tools=[look])
    seen: list[Event] = []
    async with store:
        with anyio.fail_after(_SECONDS):
            async with caller.stream("Hi", run_id="r") as run, asyncio.TaskGroup() as tasks:
                async for event in run:
                    if isinstance(event, RunStartedEvent):
                        tasks.create_task(_stop_behind(store, 1 + _count(events)))
                    seen += [event]
            page = HttpAgent("http://app/", app=app, thread_id="t", tools=[look], connect_url="connect")
            connected = await page.connect_agent()
    *_, last = seen
    assert [_subject(each) for each in seen[-1 - len(ends) : -1]] == ends
    assert isinstance(last, RunFinishedEvent)
    assert (last.outcome, connected.outcome) == (_CANCELLED, _CANCELLED)
    assert connected.warnings == []
    # What was cut is nobody's to carry out, though its arguments may look whole.
    assert looked == []


def _count(events: tuple[Event, ...]) -> int:
    """The number of events that are in the log for those of an agent: the first chunk becomes two."""
    return len(events) + any(isinstance(each, TextMessageChunkEvent) for each in events)


async def test_a_run_that_ends_with_an_error_closes_nothing_that_was_cut() -> None:
    events, _ = _OPEN["a call"]
    store = Store()
    begun = await store.runs.start(_stuck(*events), "Hi")
    seen: list[Event] = []
    with anyio.fail_after(_SECONDS):
        async for _, event in store.runs.follow(begun.run_id):
            seen.append(event)
            if isinstance(event, ToolCallArgsEvent):
                await store.aclose()
    assert [each.type.value for each in seen[-2:]] == ["TOOL_CALL_ARGS", "RUN_ERROR"]
    assert isinstance(seen[-1], RunErrorEvent)
    assert seen[-1].code == "shutting_down"


@pytest.mark.parametrize("kind", ["team", "agent as a tool"])
async def test_a_member_and_an_agent_that_is_asked_end_with_the_run_that_is_stopped(kind: str) -> None:
    begun = asyncio.Event()
    seen: list[Event] = []

    async def play(run_input: RunAgentInput) -> AsyncGenerator[Event]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        yield TextMessageStartEvent(message_id="m")
        if kind == "agent as a tool":
            begun.set()
        await asyncio.sleep(_SECONDS)

    async def stop() -> None:
        await begun.wait()
        await store.runs.stop("r")

    helper, store = FunctionAgent(play), Store()
    asking = ScriptedAgent(turn(tool_call("helper", {"prompt": "Hi"})), tools=[helper.as_tool("helper", "Helps.")])
    app = agent_app(SequentialAgent(helper) if kind == "team" else asking, store=store, **FOR_ALL)
    with anyio.fail_after(_SECONDS):
        async with asyncio.TaskGroup() as tasks, HttpAgent("http://app/", app=app).stream("Hi", run_id="r") as run:
            tasks.create_task(stop())
            async for event in run:
                seen.append(event)
                if isinstance(event, SubagentStartedEvent):  # a member that nobody has seen begin has no end
                    begun.set()
            result = await run.result()
    about: list[Any] = [event for event in seen if event.type.value.startswith("SUBAGENT_")]
    assert (result.outcome, result.warnings) == (_CANCELLED, [])
    assert [event.type.value for event in about] == ["SUBAGENT_STARTED", "SUBAGENT_ERROR"]
    assert len({event.subagent_run_id for event in about}) == 1
    await store.aclose()


async def test_a_served_run_that_its_program_stops_is_whole_for_its_caller() -> None:
    asked = RunAgentInput(thread_id="t", run_id="r", messages=[UserMessage(id="u", content="Hi")])
    run, frames = served_run(_stuck(*_OPEN["a message"][0]), asked), list[bytes]()
    with anyio.fail_after(_SECONDS):
        async for chunk in run.sse():
            frames += events_of(chunk)
            if b"TEXT_MESSAGE_CONTENT" in chunk:
                run.cancel()
    kinds = [json.loads(each.removeprefix(b"data: "))["type"] for each in frames]
    assert kinds[-3:] == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]


async def test_a_stored_thread_goes_on_without_the_call_that_a_stop_cut() -> None:
    agent = ScriptedAgent(turn(*_CALL, Gate()), turn(text("Sun.")), tools=[look])
    threads, store = Store().threads, Store()
    app = agent_app(lambda _, asked: threads.open(asked.thread_id, agent), store=store, **FOR_ALL)
    caller = HttpAgent("http://app/", app=app, thread_id="t", connect_url="connect", on_abort=stop_run)
    with anyio.fail_after(_SECONDS):
        async with caller.stream("Look at it") as run:
            async for event in run:
                if isinstance(event, ToolCallArgsEvent):
                    break
        await caller.connect_agent()
        result = await caller.run_agent("And now?")
    assert (result.text, looked) == ("Sun.", [])
    # The agent is told that the call has no result, as it is for each call that was given up (TOOL-10).
    *_, answered, asked = agent.inputs[-1].messages
    assert (answered.role, asked.content) == ("tool", "And now?")
    await store.aclose()


def _of_user(_: str, path: str, headers: Mapping[str, str]) -> object:
    del path
    return headers.get("x-user")


@pytest.mark.parametrize("url", ["http://app/house/agents/planner/", "http://app/house/agents/planner"])
async def test_a_prompt_that_interrupts_takes_the_place_of_a_kept_run(url: str) -> None:
    store, agent = Store(), ScriptedAgent(turn(text("One."), Gate()), turn(text("Two.")))
    house = FastAPI()
    house.mount("/house", agent_app(agent, store=store, keeping=Keeping(threads="transcripts"), authorize=_of_user))
    caller = HttpAgent(url, app=house, thread_id="t", on_abort=stop_run, headers={"x-user": "bob"})
    with anyio.fail_after(_SECONDS):
        async with caller.stream("First", headers={"x-user": "ann"}) as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    break
            second = asyncio.ensure_future(caller.run_agent("Second", when_busy="interrupt", headers={"x-user": "ann"}))
            first = await run.result()
        assert (first.aborted, (await second).text) == (True, "Two.")
    assert [(each.owner, each.status.value) for each in await store.runs.list()] == [
        ("ann", "finished"),
        ("ann", "stopped"),
    ]


async def test_a_run_that_nobody_posted_cannot_be_stopped_at_a_server(caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent(turn(text("One."), Gate()), on_abort=stop_run)
    async with agent.stream("Hi") as run:
        async for event in run:
            if isinstance(event, TextMessageContentEvent):
                break
    [record] = [each for each in caplog.records if each.exc_info]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], UsageError)
