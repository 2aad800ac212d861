"""Middleware: functions around a run, outermost first, that rewrite the input, the events, or answer themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)

from agui_client import AbstractAgent, HttpAgent, UnrecognizedEvent, UsageError
from agui_client.errors import RunFailedError
from agui_client.testing import Reply, ScriptedAgent, Step, serve_bytes, sse, state, text, turn
from agui_client.types import Middleware, Next
from support import scenario
from support.verbs import Verb, every_kind_of_verb, every_result_verb, shown
from support.waiting import SOON


def unrecognized(event: object) -> UnrecognizedEvent | None:
    """The event if no model can hold it."""
    return event if isinstance(event, UnrecognizedEvent) else None


async def passing_on(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        yield event


async def loud(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        if isinstance(event, TextMessageContentEvent):
            yield event.model_copy(update={"delta": event.delta.upper()})
        else:
            yield event


async def cached(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield TextMessageStartEvent(message_id="cached", role="assistant")
    yield TextMessageContentEvent(message_id="cached", delta="From the cache.")
    yield TextMessageEndEvent(message_id="cached")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


# --- what middleware can do


@every_kind_of_verb
@pytest.mark.requirement("PROC-2", "PROC-14")
def test_passing_on_changes_nothing(verb: Verb) -> None:
    agent = ScriptedAgent(scenario.TURN, thread_id="thread-1", middleware=[passing_on, passing_on])
    ending = verb(agent, scenario.PROMPT, run_id="run-1")
    assert ending.error is None
    assert shown(agent.messages) == scenario.MESSAGES
    assert agent.state == scenario.STATE
    assert ending.usage == scenario.USAGE
    assert ending.events is None or ending.types == scenario.TYPES


@every_kind_of_verb
def test_middleware_runs_outermost_first(verb: Verb) -> None:
    order: list[str] = []

    def named(name: str) -> Middleware:
        async def middleware(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            order.append(f"{name} asked")
            async for event in following(input):
                if isinstance(event, RunFinishedEvent):
                    order.append(f"{name} saw the end")
                yield event
            order.append(f"{name} left")

        return middleware

    agent = ScriptedAgent(turn(), middleware=[named("outer")]).use(named("middle"), named("inner"))
    assert verb(agent).error is None
    assert order == [
        "outer asked",
        "middle asked",
        "inner asked",
        "inner saw the end",
        "middle saw the end",
        "outer saw the end",
        "inner left",
        "middle left",
        "outer left",
    ]


@every_kind_of_verb
@pytest.mark.requirement("INPUT-3", "INPUT-7")
def test_middleware_rewrites_the_input(verb: Verb) -> None:
    async def add_tenant(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        messages = [UserMessage(id="system", content="Be brief."), *input.messages]
        update = {"forwarded_props": {"tenant": "acme"}, "messages": messages, "state": {"seen": True}}
        async for event in following(input.model_copy(update=update)):
            yield event

    with serve_bytes(sse(turn(text("Hi.")))) as server:
        agent = HttpAgent(server.url, middleware=[add_tenant])
        assert verb(agent, "Hi").error is None
        sent = server.requests[0].json()
    assert sent["forwardedProps"] == {"tenant": "acme"}
    assert [message["content"] for message in sent["messages"]] == ["Be brief.", "Hi"]
    assert sent["state"] == {"seen": True}
    assert [message.content for message in agent.messages] == ["Hi", "Hi."]


@every_kind_of_verb
def test_middleware_rewrites_events(verb: Verb) -> None:
    agent = ScriptedAgent(turn(text("Hi there")), middleware=[loud])
    verb(agent, "Hi")
    assert agent.messages[-1].content == "HI THERE"


@every_kind_of_verb
def test_middleware_may_drop_and_add_events(verb: Verb) -> None:
    async def annotating(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            if isinstance(event, CustomEvent):
                continue
            yield event
            if isinstance(event, RunStartedEvent):
                yield TextMessageChunkEvent(message_id="note", delta="Note")

    agent = ScriptedAgent(turn(CustomEvent(name="x", value=1), text("Hi.")), middleware=[annotating])
    ending = verb(agent)
    assert [message.content for message in agent.messages] == ["Note", "Hi."]
    assert ending.events is None or "CUSTOM" not in ending.types


@every_result_verb
@pytest.mark.requirement("PROC-1")
def test_middleware_may_answer_itself(verb: Verb) -> None:
    with serve_bytes(b"") as server:
        agent = HttpAgent(server.url, middleware=[loud, cached])
        result = verb(agent, "Hi").result
        assert server.requests == []
    assert result is not None
    assert result.text == "FROM THE CACHE."
    assert result.response is None


@every_kind_of_verb
def test_middleware_may_ask_twice(verb: Verb) -> None:
    async def retrying(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        first = [event async for event in following(input)]
        if not any(isinstance(event, RunFinishedEvent) for event in first):
            async for event in following(input):
                yield event

    broken: list[Step] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
    agent = ScriptedAgent(broken, turn(text("Better.")), middleware=[retrying])
    assert verb(agent, "Hi").error is None
    assert agent.messages[-1].content == "Better."
    assert agent.inputs[0] == agent.inputs[1]


@every_kind_of_verb
def test_middleware_may_be_any_callable_that_returns_an_async_iterator(verb: Verb) -> None:
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        def __call__(self, input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            self.count += 1
            return following(input)

    counting = Counting()
    agent = ScriptedAgent(turn(text("Hi.")), middleware=[counting, lambda input, following: following(input)])
    assert verb(agent).error is None
    assert counting.count == 1


@every_kind_of_verb
def test_middleware_may_answer_when_the_agent_refuses_to_run(verb: Verb) -> None:
    class Refusing(AbstractAgent):
        def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
            raise ZeroDivisionError

    async def fallback(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        with pytest.raises(RunFailedError, match="the agent raised ZeroDivisionError"):
            following(input)
        async for event in cached(input, following):
            yield event

    agent = Refusing(middleware=[fallback, lambda input, following: following(input)])
    assert verb(agent).error is None
    assert agent.messages[-1].content == "From the cache."


@every_kind_of_verb
def test_what_middleware_yields_is_judged(verb: Verb) -> None:
    async def wrong(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        yield TextMessageContentEvent(message_id="m", delta="out of order")

    error = verb(ScriptedAgent(turn(), middleware=[wrong])).error
    assert getattr(error, "rule", None) == "LIFE-1"


@every_kind_of_verb
def test_what_middleware_makes_of_the_input_is_judged_before_it_is_sent(verb: Verb) -> None:
    async def wrong(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input.model_copy(update={"run_id": 7})):
            yield event

    with serve_bytes(b"") as server:
        error = verb(HttpAgent(server.url, middleware=[wrong]), "Hi").error
        assert server.requests == []
    assert isinstance(error, UsageError)


@every_kind_of_verb
def test_an_exception_in_middleware_comes_through_untouched(verb: Verb) -> None:
    own = ZeroDivisionError("mine")

    async def refusing(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            yield event
            if isinstance(event, TextMessageContentEvent):
                raise own

    with serve_bytes(Reply([sse(turn(text("a b")))], end="stall")) as server:
        agent = HttpAgent(server.url, middleware=[passing_on, refusing, passing_on])
        assert verb(agent, "Hi").error is own
        assert server.disconnected.wait(SOON)
    assert [message.content for message in agent.messages] == ["Hi", "a "]


@every_kind_of_verb
def test_an_error_of_the_transport_passes_through_middleware(verb: Verb) -> None:
    seen: list[str] = []

    async def watching(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        try:
            async for event in following(input):
                yield event
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    with serve_bytes(Reply(status=503)) as server:
        error = verb(HttpAgent(server.url, middleware=[watching]), "Hi").error
    assert seen == ["HTTPStatusError"]
    assert type(error).__name__ == "HTTPStatusError"


def test_a_clone_has_the_same_middleware_and_then_its_own() -> None:
    agent = ScriptedAgent(turn(text("hi")), middleware=[loud])
    clone = agent.clone().use(cached)
    assert agent.run_agent_sync().text == "HI"
    assert clone.run_agent_sync().text == "FROM THE CACHE."


# --- what middleware sees


def seen_by_middleware(*steps: Step) -> list[Any]:
    seen: list[Any] = []

    async def watching(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            seen.append(event)
            yield event

    with serve_bytes(sse(turn(*steps))) as server:
        HttpAgent(server.url, middleware=[watching]).run_agent_sync("Hi")
    return seen[1:-1]


@pytest.mark.requirement("PROC-2")
def test_middleware_sees_what_enforcement_removes() -> None:
    extra = {"type": "CUSTOM", "name": "x", "value": 1, "futureProp": {"a": None}}
    future = {"type": "FUTURE_EVENT", "payload": [1]}
    typed, unknown = seen_by_middleware(extra, future)
    assert isinstance(typed, CustomEvent)
    assert typed.model_extra == {"futureProp": {"a": None}}
    assert unknown == UnrecognizedEvent("FUTURE_EVENT", future)


@pytest.mark.requirement("PROC-2", "VER-10")
def test_middleware_sees_retired_shapes_translated() -> None:
    kinds = [event.type.value for event in seen_by_middleware({"type": "THINKING_START"}, {"type": "THINKING_END"})]
    assert kinds == ["REASONING_START", "REASONING_END"]


@pytest.mark.requirement("PROC-2", "PROC-14")
def test_middleware_sees_chunks_as_they_came() -> None:
    chunk = TextMessageChunkEvent(message_id="m", delta="Hi")
    assert seen_by_middleware(chunk) == [chunk]


@every_kind_of_verb
@pytest.mark.requirement("PROC-14")
def test_chunks_and_the_triads_made_of_them_lead_to_the_same(verb: Verb) -> None:
    async def expanding(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            if isinstance(event, TextMessageChunkEvent):
                yield TextMessageStartEvent(message_id="m", role="assistant")
                yield TextMessageContentEvent(message_id="m", delta=event.delta or "")
                yield TextMessageEndEvent(message_id="m")
            else:
                yield event

    script = turn(TextMessageChunkEvent(message_id="m", delta="Hi"), state({"n": 1}))
    plain, expanded = ScriptedAgent(script), ScriptedAgent(script, middleware=[expanding])
    endings = [verb(agent) for agent in (plain, expanded)]
    assert [ending.error for ending in endings] == [None, None]
    assert plain.messages == expanded.messages == [AssistantMessage(id="m", content="Hi")]
    assert endings[0].types == endings[1].types


@every_kind_of_verb
@pytest.mark.requirement("PROC-2", "PROC-7")
def test_middleware_translates_what_the_protocol_does_not_know(verb: Verb) -> None:
    async def translating(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            strange = unrecognized(event)
            if strange is not None and strange.type == "SAY":
                yield TextMessageChunkEvent(message_id="said", delta=strange.data["text"])
            else:
                yield event

    script = turn({"type": "SAY", "text": "Hello"}, {"type": "SING"})
    agent = ScriptedAgent(script, middleware=[translating])
    ending = verb(agent)
    assert ending.error is None
    assert [message.content for message in agent.messages] == ["Hello"]
    if ending.result:
        assert [warning.rule for warning in ending.result.warnings] == ["PROC-7"]


@every_result_verb
@pytest.mark.requirement("PROC-2", "PROC-8")
def test_middleware_sees_a_property_before_it_is_stripped_with_a_warning(verb: Verb) -> None:
    seen: list[Any] = []

    async def watching(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            seen.append(event.model_extra)
            yield event

    steps = turn({"type": "CUSTOM", "name": "x", "value": 1, "futureProp": 1})
    result = verb(ScriptedAgent(steps, middleware=[watching])).result
    assert {"futureProp": 1} in seen
    assert result is not None
    assert [(warning.rule, warning.path) for warning in result.warnings] == [("PROC-8", "/futureProp")]
