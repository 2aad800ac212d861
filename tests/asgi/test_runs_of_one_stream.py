"""A served agent whose one stream has several runs: its caller sees one run, in which nothing is opened twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from ag_ui.core import (
    PROTOCOL_VERSION,
    AssistantMessage,
    CustomEvent,
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
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import AbstractAgent, FunctionAgent, HttpAgent, tool
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


@pytest.mark.requirement("LIFE-5", "STREAM-1", "LIFE-16", "SUB-7", "SET-27")
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


def _helper(number: int) -> list[Event]:
    """One run in which a subagent says something in the message "m", and calls a tool."""
    return [
        SubagentStartedEvent(subagent_run_id="helper", name="helper"),
        StepStartedEvent(step_name="work", subagent_run_id="helper"),
        TextMessageStartEvent(message_id="m", subagent_run_id="helper"),
        TextMessageContentEvent(message_id="m", delta=f"{number}.", subagent_run_id="helper"),
        TextMessageEndEvent(message_id="m"),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="look", parent_message_id="m", subagent_run_id="helper"),
        ToolCallEndEvent(tool_call_id="c"),
        StepFinishedEvent(step_name="work", subagent_run_id="helper"),
        CustomEvent(name="note", value=number, subagent_run_id="helper"),
        SubagentFinishedEvent(subagent_run_id="helper"),
    ]


async def _calls_its_helper_twice(input: RunAgentInput) -> AsyncIterator[Event]:
    for number in (1, 2):
        echo = input.model_copy(update={"messages": [*input.messages, UserMessage(id=f"u{number}", content="Also")]})
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id, input=echo)
        for event in _helper(number):
            yield event
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.requirement("SUB-1", "SUB-3", "SUB-6")
async def test_a_subagent_of_two_runs_of_one_stream_is_announced_under_two_ids() -> None:
    app = agent_app(FunctionAgent(_calls_its_helper_twice))
    async with HttpAgent("http://app.test/", app=app, strict=True).stream("Hi") as run:
        events = [event async for event in run]
    result = await run.result()
    announced = [event.subagent_run_id for event in events if isinstance(event, SubagentStartedEvent)]
    ended = [event.subagent_run_id for event in events if isinstance(event, SubagentFinishedEvent)]
    steps = [event.subagent_run_id for event in events if isinstance(event, StepFinishedEvent | CustomEvent)]
    assert announced == ended == ["helper", "helper~2"]
    assert steps == ["helper", "helper", "helper~2", "helper~2"]
    (said,) = [each for each in result.messages if isinstance(each, AssistantMessage)]
    assert (said.content, said.subagent_run_id) == ("1.2.", "helper")


@pytest.mark.requirement("LIFE-14")
async def test_messages_that_an_agent_echoes_in_any_run_of_its_stream_reach_the_caller() -> None:
    agent = HttpAgent("http://app.test/", app=agent_app(FunctionAgent(_calls_its_helper_twice)))
    async with agent.stream("Hi") as run:
        events = [event async for event in run]
    (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
    assert started.input is not None
    assert [message.id for message in started.input.messages] == ["u1"]
    sent = agent.messages[0].id
    assert [message.id for message in agent.messages] == [sent, "u1", "m", "u2"]


async def _says_nothing(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id, input=input)
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


async def test_an_input_that_is_echoed_as_it_was_sent_does_not_come_back() -> None:
    app = agent_app(FunctionAgent(_says_nothing, initial_messages=[SystemMessage(id="s", content="Be brief.")]))
    async with HttpAgent("http://app.test/", app=app).stream("Hi") as run:
        events = [event async for event in run]
    assert isinstance(events[0], RunStartedEvent)
    assert events[0].input is None


async def _asks_its_helper_before_and_after_a_tool(input: RunAgentInput) -> AsyncIterator[Event]:
    is_answered = any(isinstance(message, ToolMessage) for message in input.messages)
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield SubagentStartedEvent(subagent_run_id="helper", name="helper")
    yield SubagentFinishedEvent(subagent_run_id="helper")
    if not is_answered:
        yield ToolCallStartEvent(tool_call_id="clock-1", tool_call_name="clock")
        yield ToolCallEndEvent(tool_call_id="clock-1")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


@pytest.mark.requirement("SUB-6")
async def test_a_subagent_that_comes_back_after_a_tool_of_the_server_is_announced_under_another_id() -> None:
    @tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    app = agent_app(FunctionAgent(_asks_its_helper_before_and_after_a_tool, tools=[clock]))
    async with HttpAgent("http://app.test/", app=app, strict=True).stream("Hi") as run:
        announced = [event.subagent_run_id async for event in run if isinstance(event, SubagentStartedEvent)]
    assert announced == ["helper", "helper~2"]


async def _speaks_another_version(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id, protocol_version="0.9")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


class _SendsAgain(AbstractAgent):
    """An agent that sends a thread of two runs again."""

    async def run(self, input: RunAgentInput) -> AsyncGenerator[Event]:
        async for event in _speaks_another_version(input):
            yield event

    async def connect(self, input: RunAgentInput) -> AsyncGenerator[Event]:
        for _ in range(2):
            async for event in self.run(input):
                yield event


@pytest.mark.requirement("VER-3", "SET-21")
@pytest.mark.parametrize("declared", ["0.9", None])
async def test_the_version_of_what_is_served_is_this_packages_own(declared: str | None) -> None:
    async def run(input: RunAgentInput) -> AsyncIterator[Event]:
        async for event in _speaks_another_version(input):
            yield event.model_copy(update={"protocol_version": declared}) if event.type == "RUN_STARTED" else event

    caller = HttpAgent("http://app.test/", app=agent_app(FunctionAgent(run)))
    async with caller.stream("Hi") as served:
        versions = [each.protocol_version async for each in served if isinstance(each, RunStartedEvent)]
    assert versions == [PROTOCOL_VERSION]


@pytest.mark.requirement("VER-3", "SET-21")
async def test_the_version_of_a_thread_that_is_sent_again_is_this_packages_own() -> None:
    caller = HttpAgent("http://app.test/", app=agent_app(_SendsAgain()), connect_url="connect")
    seen: list[str | None] = []

    @caller.on(RunStartedEvent)
    def _see(event: RunStartedEvent) -> None:
        seen.append(event.protocol_version)

    await caller.connect_agent()
    assert seen == [PROTOCOL_VERSION] * 2
