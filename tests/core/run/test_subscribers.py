"""Subscribers: which hook is called when and with what, what mutations do, and what a hook that raises does."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    BaseEvent,
    Event,
    EventType,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    ToolCall,
)

from agui_client import FunctionAgent, HookContext, HttpAgent, IncompleteRunError, RunFailedError, Subscriber
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    Step,
    patch,
    reasoning,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from support import scenario
from support.recording import Recorder, recorded
from support.verbs import Verb, every_kind_of_verb

STATE_EVENTS = turn(state({"n": 1}), text("a b", message_id="m1"), patch({"op": "add", "path": "/m", "value": 2}))


# --- which hooks


@every_kind_of_verb
def test_hooks_are_called_in_order_with_every_verb(verb: Verb) -> None:
    assert recorded(verb, ScriptedAgent(STATE_EVENTS)).names == [
        "on_run_initialized",
        "on_event", "on_run_started_event",
        "on_event", "on_state_snapshot_event", "on_state_changed",
        "on_event", "on_text_message_start_event", "on_messages_changed",
        "on_event", "on_text_message_content_event", "on_messages_changed",
        "on_event", "on_text_message_content_event", "on_messages_changed",
        "on_event", "on_text_message_end_event", "on_new_message",
        "on_event", "on_state_delta_event", "on_state_changed",
        "on_event", "on_run_finished_event",
        "on_run_finalized",
    ]  # fmt: skip


def test_there_is_a_hook_for_every_type_of_event_an_application_sees() -> None:
    hooks = {name for name in dir(Subscriber) if name.startswith("on_") and name.endswith("_event")}
    seen = {each.value for each in EventType if not each.value.endswith("_CHUNK")}
    assert hooks == {f"on_{name.lower()}_event" for name in seen} | {"on_event"}


def test_an_event_type_that_came_after_this_version_fails_no_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Subscriber, "on_state_snapshot_event")
    recorder = Recorder()
    agent = ScriptedAgent(STATE_EVENTS)
    agent.subscribe(recorder)
    assert agent.run_agent_sync("Hi").text == "a b"


def test_every_events_hook_gets_that_event() -> None:
    subagent: list[Step] = [
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "helper"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "s2", "message": "lost"},
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
    ]
    agent = ScriptedAgent([scenario.TURN, turn(*subagent, run_id="run-2"), RunErrorEvent(message="late")])
    recorder = Recorder()
    agent.subscribe(recorder)
    with pytest.raises(RunFailedError):
        agent.run_agent_sync("Hi")
    called = [(name, details[0]) for name, details in recorder.calls if name.endswith("_event") and name != "on_event"]
    assert {name for name, _ in called} == {
        name for name in dir(Subscriber) if name.startswith("on_") and name.endswith("_event") and name != "on_event"
    }
    assert all(name == f"on_{event.type.value.lower()}_event" for name, event in called)
    assert [event for _, event in called] == [details[0] for details in recorder.of("on_event")]


@every_kind_of_verb
def test_complete_messages_and_calls_are_told(verb: Verb) -> None:
    agent = ScriptedAgent(turn(reasoning("Hm."), text("Hi."), tool_call("look", {"a": 1}), tool_result("seen")))
    recorder = recorded(verb, agent)
    messages: list[Message] = [message for message, _ in recorder.of("on_new_message")]
    calls: list[ToolCall] = [call for call, _ in recorder.of("on_new_tool_call")]
    assert [(message.role, message.content) for message in messages] == [
        ("reasoning", "Hm."),
        ("assistant", "Hi."),
        ("tool", "seen"),
    ]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("look", '{"a": 1}')]


@every_kind_of_verb
def test_a_failure_is_told_before_the_end(verb: Verb) -> None:
    with serve_bytes(Reply(sse(turn(text("a"))).splitlines(keepends=True)[:4])) as server:
        recorder = recorded(verb, HttpAgent(server.url))
    assert recorder.names[-2:] == ["on_run_failed", "on_run_finalized"]
    [(error, context)] = recorder.of("on_run_failed")
    assert isinstance(error, IncompleteRunError)
    assert error.partial is not None
    assert context.messages == error.partial.messages


@every_kind_of_verb
def test_an_exception_of_the_agent_says_where_it_happened(verb: Verb) -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise ValueError("broken")

    recorder = recorded(verb, FunctionAgent(broken, thread_id="t"))
    [(error, context)] = recorder.of("on_run_failed")
    assert isinstance(error, RunFailedError)
    assert (error.run_id, error.thread_id, type(error.raised)) == (context.run_id, "t", ValueError)


@every_kind_of_verb
def test_the_context_shows_the_run_and_what_was_there_before_the_event(verb: Verb) -> None:
    seen: list[tuple[str, list[Any], Any]] = []

    class Looking(Subscriber):
        def on_event(self, event: Event, context: HookContext) -> None:
            assert (context.thread_id, context.run_id) == ("thread-1", "run-1")
            assert context.input.messages[0].content == scenario.PROMPT.content
            seen.append((event.type.value, [message.content for message in context.messages[1:]], context.state))

    agent = ScriptedAgent(STATE_EVENTS, thread_id="thread-1")
    agent.subscribe(Looking())
    verb(agent, scenario.PROMPT, run_id="run-1")
    assert seen == [
        ("RUN_STARTED", [], {}),
        ("STATE_SNAPSHOT", [], {}),
        ("TEXT_MESSAGE_START", [], {"n": 1}),
        ("TEXT_MESSAGE_CONTENT", [""], {"n": 1}),
        ("TEXT_MESSAGE_CONTENT", ["a "], {"n": 1}),
        ("TEXT_MESSAGE_END", ["a b"], {"n": 1}),
        ("STATE_DELTA", ["a b"], {"n": 1}),
        ("RUN_FINISHED", ["a b"], {"n": 1, "m": 2}),
    ]


@every_kind_of_verb
def test_async_hooks_are_awaited_before_the_event_is_given_out(verb: Verb) -> None:
    order: list[str] = []

    class Slow(Subscriber):
        async def on_text_message_content_event(self, event: TextMessageContentEvent, context: HookContext) -> None:
            await anyio.lowlevel.checkpoint()
            order.append(f"hook {event.delta}")

        async def on_messages_changed(self, context: HookContext) -> None:
            await anyio.lowlevel.checkpoint()
            order.append(str(context.messages[-1].content))

    agent = ScriptedAgent(turn(text("a b")))
    agent.subscribe(Slow())
    verb(agent)
    assert order == ["", "hook a ", "a ", "hook b", "a b"]


# --- who listens


def test_subscribers_hear_in_the_order_they_came_and_until_they_leave() -> None:
    heard: list[str] = []

    class Named(Subscriber):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_run_started_event(self, event: RunStartedEvent, context: HookContext) -> None:
            heard.append(self.name)

    agent = ScriptedAgent(turn())
    first = agent.subscribe(Named("first"))
    with agent.subscribe(Named("second")) as second:
        agent.run_agent_sync()
        first.unsubscribe()
        first.unsubscribe()
        agent.run_agent_sync()
    agent.run_agent_sync()
    second.unsubscribe()
    assert heard == ["first", "second", "second"]


@pytest.mark.anyio
async def test_one_may_come_and_go_in_the_middle_of_a_run() -> None:
    agent, recorder = ScriptedAgent(turn(text("a b c"))), Recorder()
    async with agent.stream("Hi") as run:
        await anext(run)
        await anext(run)
        with agent.subscribe(recorder):
            await anext(run)
        await run.result()
    assert recorder.names == ["on_event", "on_text_message_content_event", "on_messages_changed"]


def test_a_clone_has_the_same_subscribers_and_then_its_own() -> None:
    agent, recorder = ScriptedAgent(turn()), Recorder()
    subscription = agent.subscribe(recorder)
    clone = agent.clone()
    subscription.unsubscribe()
    agent.run_agent_sync()
    assert recorder.names == []
    clone.run_agent_sync()
    assert recorder.names[-1] == "on_run_finalized"


def test_on_decorates_a_function_for_one_type_of_event() -> None:
    agent = ScriptedAgent(STATE_EVENTS)
    pieces: list[str] = []
    states: list[Any] = []
    kinds: list[str] = []

    @agent.on(TextMessageContentEvent)
    def piece(event: TextMessageContentEvent) -> None:
        pieces.append(event.delta)

    @agent.on(TextMessageEndEvent)
    async def with_context(event: TextMessageEndEvent, context: HookContext) -> None:
        await anyio.lowlevel.checkpoint()
        states.append(context.state)

    @agent.on(BaseEvent)
    def every(event: BaseEvent) -> int:
        kinds.append(event.type.value)
        return 7

    agent.run_agent_sync("Hi")
    assert pieces == ["a ", "b"]
    assert states == [{"n": 1}]
    assert (kinds[0], kinds[-1], len(kinds)) == ("RUN_STARTED", "RUN_FINISHED", 8)
    assert inspect.isfunction(piece)


def test_on_takes_methods_partials_and_lists() -> None:
    heard: list[BaseEvent] = []
    agent = ScriptedAgent(turn())
    agent.on(RunFinishedEvent)(heard.append)
    agent.run_agent_sync()
    assert [event.type.value for event in heard] == ["RUN_FINISHED"]
