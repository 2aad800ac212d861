"""A served agent whose one stream has several runs: its caller sees one run, in which nothing is opened twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import FunctionAgent, HttpAgent
from agui_client.asgi import agent_app

pytestmark = pytest.mark.anyio


async def _tries_twice(input: RunAgentInput) -> AsyncIterator[Event]:
    for number in (1, 2):
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield SubagentStartedEvent(subagent_run_id=f"helper-{number}", name="helper")
        yield StepStartedEvent(step_name="work")
        yield TextMessageStartEvent(message_id="m")
        yield TextMessageContentEvent(message_id="m", delta=f"{number}.")
        if number == 1:
            yield RunErrorEvent(message="busy")
    yield TextMessageEndEvent(message_id="m")
    yield StepFinishedEvent(step_name="work")
    yield SubagentFinishedEvent(subagent_run_id="helper-2")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.requirement("LIFE-5", "STREAM-1", "LIFE-16", "SUB-7")
async def test_what_a_failed_run_left_open_is_ended_before_the_next_run_of_the_stream_begins() -> None:
    app = agent_app(FunctionAgent(_tries_twice))
    events: list[Event] = []
    async with HttpAgent("http://app.test/", app=app, strict=True).stream("Hi") as run:
        async for event in run:
            events.append(event)  # noqa: PERF401 - what came before a failure counts
    ends = [type(event) for event in events[5:8]]
    assert ends == [TextMessageEndEvent, StepFinishedEvent, SubagentErrorEvent]
    assert [type(event) for event in events].count(RunStartedEvent) == 1
    assert ((await run.result()).text, type(events[-1])) == ("1.2.", RunFinishedEvent)
