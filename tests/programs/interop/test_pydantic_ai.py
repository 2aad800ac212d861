"""A server none of us wrote: pydantic-ai's AG-UI adapter with models that run offline, over real HTTP.

It speaks 1.0 and declares it. Measured with 2.68: no run below needed tolerance, so `warnings` is empty throughout,
apart from the adapter's own mode for older clients, whose THINKING events are translated.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import (
    ImagePart,
    RunFinishedCancelledOutcome,
    RunFinishedSuccessOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextPart,
    TokenUsage,
    Tool,
    UrlSource,
)
from pydantic import BaseModel

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")
from pydantic_ai import Agent, DeferredToolRequests, RunContext, ToolReturn
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui import StateDeps

from agui_client import (
    Cancel,
    ConversationSnapshot,
    HttpAgent,
    ProtocolWarning,
    Resolve,
    RunFailedError,
    ToolError,
    UsageError,
)
from support.offline_model import House
from support.state_edits import After
from support.verbs import Verb, every_result_verb

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    Piece = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]

_MINTED_ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
_SECONDS = 10

ASK_USER = Tool(
    name="ask_user",
    description="Asks the user; use it when a preference is missing.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)


HOUSE = House()
served = HOUSE.served


@pytest.fixture(autouse=True, scope="module")
def _open_house() -> Iterator[None]:
    with HOUSE.opened():
        yield


def plain(models: Iterable[BaseModel]) -> list[Any]:
    """Events or messages as JSON, without times, minted ids numbered in the order of their first occurrence."""
    dumped = [
        model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"timestamp"}) for model in models
    ]
    numbers: dict[str, str] = {}
    text = _MINTED_ID.sub(lambda found: numbers.setdefault(found[0], f"id-{len(numbers) + 1}"), json.dumps(dumped))
    numbered: list[Any] = json.loads(text)
    return numbered


def heard(messages: list[ModelMessage]) -> list[tuple[str, Any]]:
    """What the model is given: the kind and content of every part of every message."""
    return [
        (part.part_kind, getattr(part, "content", None) or getattr(part, "args", None))
        for message in messages
        for part in message.parts
    ]


def called(name: str, call_id: str, *arguments: str) -> Iterable[dict[int, DeltaToolCall]]:
    """A tool call as a model streams it: its name first, then its arguments in pieces."""
    yield {0: DeltaToolCall(name=name, tool_call_id=call_id)}
    for piece in arguments:
        yield {0: DeltaToolCall(json_args=piece, tool_call_id=call_id)}


async def talk(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
    """Tells how much it was told."""
    yield "I heard "
    yield f"{len(heard(messages))} parts."


@pytest.mark.anyio
async def test_text_streams_as_the_adapter_sends_it_and_becomes_a_message() -> None:
    with served(Agent(FunctionModel(stream_function=talk)), include_usage=True) as url:
        async with HttpAgent(url).stream("Hello") as run:
            events = plain([event async for event in run])
            result = await run.result()
    usage = [TokenUsage.model_validate(used) for used in events[-1].pop("usage")]
    assert events == [
        {"type": "RUN_STARTED", "threadId": "id-1", "runId": "id-2", "protocolVersion": "1.0"},
        {"type": "TEXT_MESSAGE_START", "messageId": "id-3", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "id-3", "delta": "I heard "},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "id-3", "delta": "1 parts."},
        {"type": "TEXT_MESSAGE_END", "messageId": "id-3"},
        {"type": "RUN_FINISHED", "threadId": "id-1", "runId": "id-2", "outcome": {"type": "success"}},
    ]
    assert plain(result.messages) == [
        {"id": "id-1", "role": "user", "content": "Hello"},
        {"id": "id-2", "role": "assistant", "content": "I heard 1 parts."},
    ]
    assert (result.text, result.outcome) == ("I heard 1 parts.", RunFinishedSuccessOutcome())
    assert (result.usage, [used.model for used in usage]) == (usage, ["function::talk"])
    assert result.warnings == []


def test_the_whole_conversation_is_sent_again_with_every_question() -> None:
    histories: list[list[tuple[str, Any]]] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        histories.append(heard(messages))
        yield f"Answer {len(histories)}."

    with served(Agent(FunctionModel(stream_function=model))) as url:
        agent = HttpAgent(url)
        answers = [agent.run_agent_sync(prompt).text for prompt in ("One?", "Two?")]
        saved = ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json())
        elsewhere = HttpAgent(url)
        elsewhere.restore(saved)
        answers.append(elsewhere.run_agent_sync("Three?").text)
    assert answers == ["Answer 1.", "Answer 2.", "Answer 3."]
    assert histories[2] == [
        ("user-prompt", "One?"),
        ("text", "Answer 1."),
        ("user-prompt", "Two?"),
        ("text", "Answer 2."),
        ("user-prompt", "Three?"),
    ]


def test_a_tool_of_the_server_is_called_and_answered_inside_the_run() -> None:
    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        kind, content = heard(messages)[-1]
        if kind == "tool-return":
            yield f"It is {content}."
            return
        yield "Let me look."
        for piece in called("get_weather", "call-1", '{"city":', ' "Oslo"}'):
            yield piece

    agent = Agent(FunctionModel(stream_function=model))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        return f"18 degrees in {city}"

    with served(agent) as url, HttpAgent(url).stream_sync("Weather?") as run:
        events = plain(run)
        result = run.result()
    assert events[4:11] == [
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "call-1",
            "toolCallName": "get_weather",
            "parentMessageId": "id-3",
        },
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call-1", "delta": '{"city":'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call-1", "delta": ' "Oslo"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "call-1"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "id-4",
            "toolCallId": "call-1",
            "content": "18 degrees in Oslo",
            "role": "tool",
        },
        {"type": "TEXT_MESSAGE_START", "messageId": "id-5", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "id-5", "delta": "It is 18 degrees in Oslo."},
    ]
    call = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
    }
    assert plain(result.messages) == [
        {"id": "id-1", "role": "user", "content": "Weather?"},
        {"id": "id-2", "role": "assistant", "content": "Let me look.", "toolCalls": [call]},
        {"id": "id-3", "role": "tool", "toolCallId": "call-1", "content": "18 degrees in Oslo"},
        {"id": "id-4", "role": "assistant", "content": "It is 18 degrees in Oslo."},
    ]
    assert (result.text, result.pending_tool_calls) == ("It is 18 degrees in Oslo.", [])
    assert result.warnings == []


class Trip(BaseModel):
    """The state that the agent and the application share."""

    city: str = ""
    stops: list[str] = []


def test_a_tool_reads_the_state_it_is_sent_and_writes_it_with_snapshot_and_delta() -> None:
    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        if heard(messages)[-1][0] == "tool-return":
            yield "Planned."
            return
        for piece in called("plan", "call-1", '{"city": "Oslo"}'):
            yield piece

    agent = Agent(FunctionModel(stream_function=model), deps_type=StateDeps[Trip])

    @agent.tool
    def plan(context: RunContext[StateDeps[Trip]], city: str) -> ToolReturn:
        snapshot = StateSnapshotEvent(snapshot={**context.deps.state.model_dump(), "city": city})
        delta = StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/stops/-", "value": "ferry"}]})
        return ToolReturn("planned", metadata=[snapshot, delta])

    with served(agent, deps=StateDeps(Trip())) as url:
        client = HttpAgent(url, initial_state={"city": "Turin", "stops": ["Mole"]})
        with client.stream_sync("Plan a day in Oslo") as run:
            states = [run.state for event in run if isinstance(event, StateSnapshotEvent | StateDeltaEvent)]
            result = run.result()
    assert states == [{"city": "Oslo", "stops": ["Mole"]}, {"city": "Oslo", "stops": ["Mole", "ferry"]}]
    assert (result.state, client.state) == (states[-1], states[-1])
    assert (result.text, result.warnings) == ("Planned.", [])


@every_result_verb
def test_an_edit_while_a_tool_writes_the_state_is_merged_with_it_and_reaches_the_tool_in_the_next_run(
    verb: Verb,
) -> None:
    known: list[Trip] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        if heard(messages)[-1][0] == "tool-return":
            yield "Planned."
            return
        for piece in called("plan", f"call-{len(messages)}", "{}"):
            yield piece

    agent = Agent(FunctionModel(stream_function=model), deps_type=StateDeps[Trip])

    @agent.tool
    def plan(context: RunContext[StateDeps[Trip]]) -> ToolReturn:
        state = context.deps.state
        known.append(state.model_copy(deep=True))
        delta = StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/stops/-", "value": "ferry"}]})
        snapshot = StateSnapshotEvent(snapshot={"city": "Oslo", "stops": [*state.stops, "ferry", "opera"]})
        return ToolReturn("planned", metadata=[delta, snapshot])

    with served(agent, deps=StateDeps(Trip())) as url:
        client = HttpAgent(url, state_model=Trip, initial_state=Trip(city="Turin", stops=["Mole"]))

        def edit() -> None:
            with client.edit_state() as trip:
                trip.stops.insert(0, "station")

        client.add_observer(editing := After(edit))
        first = verb(client, "Plan a day in Oslo").result
        assert first is not None
        assert (first.warnings, editing.errors) == ([], [])
        assert client.typed_state == Trip(city="Oslo", stops=["station", "Mole", "ferry", "opera"])
        second = verb(client, "Once more").result
    assert second is not None
    assert second.warnings == []
    assert known == [Trip(city="Turin", stops=["Mole"]), Trip(city="Oslo", stops=["station", "Mole", "ferry", "opera"])]


async def think(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
    """Thinks before it speaks, and signs what it thought."""
    yield {0: DeltaThinkingPart(content="Let me ")}
    yield {0: DeltaThinkingPart(content="think.", signature="signed")}
    yield "Done."


def test_reasoning_becomes_a_message_and_goes_back_with_its_signature() -> None:
    histories: list[list[ModelMessage]] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        histories.append(messages)
        async for piece in think(messages, info):
            yield piece

    with served(Agent(FunctionModel(stream_function=model))) as url:
        agent = HttpAgent(url)
        with agent.stream_sync("Think!") as run:
            events = plain(run)
            first = run.result()
        second = agent.run_agent_sync("Again!")
    encrypted = '{"signature": "signed", "provider_name": "function"}'
    assert events[1:8] == [
        {"type": "REASONING_START", "messageId": "id-3"},
        {"type": "REASONING_MESSAGE_START", "messageId": "id-3", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "id-3", "delta": "Let me "},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "id-3", "delta": "think."},
        {"type": "REASONING_MESSAGE_END", "messageId": "id-3"},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "id-3",
            "encryptedValue": encrypted,
        },
        {"type": "REASONING_END", "messageId": "id-3"},
    ]
    assert plain(first.new_messages) == [
        {"id": "id-1", "role": "reasoning", "content": "Let me think.", "encryptedValue": encrypted},
        {"id": "id-2", "role": "assistant", "content": "Done."},
    ]
    assert heard(histories[1]) == [
        ("user-prompt", "Think!"),
        ("thinking", "Let me think."),
        ("text", "Done."),
        ("user-prompt", "Again!"),
    ]
    assert getattr(histories[1][1].parts[0], "signature", None) == "signed"
    assert (first.warnings, second.warnings) == ([], [])


def test_a_model_that_breaks_down_fails_the_run_and_what_it_said_is_kept() -> None:
    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        yield "Well, "
        raise RuntimeError("the model is down")

    with served(Agent(FunctionModel(stream_function=model))) as url:
        agent = HttpAgent(url)
        with pytest.raises(RunFailedError, match=r"^the model is down$") as failed:
            agent.run_agent_sync("Hello")
    assert failed.value.code is None
    assert failed.value.partial is not None
    assert (failed.value.partial.text, failed.value.partial.outcome) == ("Well, ", None)
    assert [message.content for message in agent.messages] == ["Hello", "Well, "]


async def ask(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
    """Asks the user through a tool of the application, and repeats the answer."""
    kind, content = heard(messages)[-1]
    if kind == "tool-return":
        yield f"You said: {content}"
        return
    for piece in called("ask_user", "call-1", '{"question": ', '"Tea?"}'):
        yield piece


def test_a_tool_of_the_application_comes_back_pending_and_its_answer_goes_with_the_next_run() -> None:
    with served(Agent(FunctionModel(stream_function=ask))) as url:
        agent = HttpAgent(url, tools=[ASK_USER])
        asked = agent.run_agent_sync("Order something")
        answered = agent.run_agent_sync(tool_results={"call-1": {"drink": "tea"}})
    assert asked.outcome == RunFinishedSuccessOutcome(pending_tool_call_ids=["call-1"])
    call = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "ask_user", "arguments": '{"question": "Tea?"}'},
    }
    assert plain(asked.pending_tool_calls) == [call]
    assert plain(answered.messages) == [
        {"id": "id-1", "role": "user", "content": "Order something"},
        {"id": "id-2", "role": "assistant", "content": "", "toolCalls": [call]},
        {"id": "id-3", "role": "tool", "toolCallId": "call-1", "content": '{"drink":"tea"}'},
        {"id": "id-4", "role": "assistant", "content": "You said: {'drink': 'tea'}"},
    ]
    assert answered.pending_tool_calls == []
    assert (asked.warnings, answered.warnings) == ([], [])


def test_a_failed_tool_of_the_application_reaches_the_model_as_text() -> None:
    with served(Agent(FunctionModel(stream_function=ask))) as url:
        agent = HttpAgent(url, tools=[ASK_USER])
        agent.run_agent_sync("Order something")
        result = agent.run_agent_sync(tool_results={"call-1": ToolError("nobody is there")})
    assert result.text == "You said: nobody is there"


def approving_agent() -> Agent[None, Any]:
    """Deletes a file, once somebody has approved it."""

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        kind, content = heard(messages)[-1]
        if kind == "tool-return":
            yield str(content)
            return
        for piece in called("delete", "call-1", '{"path": "/a"}'):
            yield piece

    agent = Agent(FunctionModel(stream_function=model), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"deleted {path}"

    return agent


def test_an_approval_is_an_interrupt_and_the_answer_may_edit_the_arguments() -> None:
    with served(approving_agent()) as url:
        agent = HttpAgent(url)
        asked = agent.run_agent_sync("Delete /a")
        with pytest.raises(UsageError, match="responseSchema"):
            agent.run_agent_sync(resume={"int-call-1": Resolve({"approved": "yes"})})
        done = agent.run_agent_sync(resume={"int-call-1": Resolve({"approved": True, "editedArgs": {"path": "/b"}})})
    assert plain(asked.interrupts) == [
        {
            "id": "int-call-1",
            "reason": "tool_call",
            "message": 'Approve delete({"path":"/a"})?',
            "toolCallId": "call-1",
            "responseSchema": {
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "editedArgs": {"type": "object"},
                    "reason": {"type": "string"},
                },
                "required": ["approved"],
            },
        }
    ]
    assert [message.content for message in done.new_messages] == ["deleted /b", "deleted /b"]
    assert (done.interrupts, agent.pending_interrupts) == ([], [])
    assert (asked.warnings, done.warnings) == ([], [])


def test_an_approval_that_is_cancelled_is_a_denial_to_the_model() -> None:
    with served(approving_agent()) as url:
        agent = HttpAgent(url)
        agent.run_agent_sync("Delete /a")
        result = agent.run_agent_sync(resume={"int-call-1": Cancel()})
    assert result.text == "Cancelled by user."
    assert plain(result.new_messages) == [
        {
            "id": "id-1",
            "role": "tool",
            "toolCallId": "call-1",
            "content": "Cancelled by user.",
            "encryptedValue": '{"pydantic_ai": {"outcome": "denied"}}',
        },
        {"id": "id-2", "role": "assistant", "content": "Cancelled by user."},
    ]


def test_content_parts_reach_the_model_as_its_own_kinds() -> None:
    seen: list[Any] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        seen.extend(getattr(messages[-1].parts[-1], "content", ()))
        yield "A cat."

    image = ImagePart(source=UrlSource(value="https://example.org/cat.png", mime_type="image/png"))
    with served(Agent(FunctionModel(stream_function=model))) as url:
        assert HttpAgent(url).run_agent_sync([TextPart(text="What is this?"), image]).text == "A cat."
    assert seen[0] == "What is this?"
    assert (seen[1].url, seen[1].media_type) == ("https://example.org/cat.png", "image/png")


class City(BaseModel):
    """A structured answer."""

    name: str
    people: int


class Road(BaseModel):
    number: int


def test_a_structured_answer_is_the_arguments_of_the_adapters_own_tool() -> None:
    model = TestModel(custom_output_args={"name": "Oslo", "people": 717710})
    with served(Agent(model, output_type=City)) as url:
        result = HttpAgent(url).run_agent_sync("Which city?")
    call = next(call for message in result.new_messages for call in getattr(message, "tool_calls", None) or ())
    assert call.function.name == "final_result"
    assert result.parse(City) == City(name="Oslo", people=717710)
    assert (result.text, result.result, result.pending_tool_calls, result.warnings) == ("", None, [], [])


def test_a_structured_answer_that_is_no_object_or_one_of_several_is_read_too() -> None:
    async def listing(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        yield "Let me count."
        for piece in called(info.output_tools[-1].name, "c", '{"response": ', "[1, 2]}"):
            yield piece

    async def choosing(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        for piece in called(info.output_tools[-1].name, "c", '{"name": "Oslo", "people": 717710}'):
            yield piece

    with served(Agent(FunctionModel(stream_function=listing), output_type=list[int])) as url:
        assert HttpAgent(url).run_agent_sync("Which numbers?").parse(list[int]) == [1, 2]
    with served(Agent(FunctionModel(stream_function=choosing), output_type=[Road, City])) as url:
        assert HttpAgent(url).run_agent_sync("Which city?").parse(Road | City) == City(name="Oslo", people=717710)


def test_an_aside_of_the_server_is_an_activity_that_is_not_sent_back() -> None:
    histories: list[list[tuple[str, Any]]] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        histories.append(heard(messages))
        if len(histories) > 1:
            yield "Noted."
            return
        for piece in called("aside", "call-1", "{}"):
            yield piece

    agent = Agent(FunctionModel(stream_function=model))

    @agent.tool
    def aside(context: RunContext[object]) -> str:
        context.enqueue("By the way: it rains.")
        return "said"

    with served(agent) as url:
        client = HttpAgent(url)
        first = client.run_agent_sync("Hello")
        second = client.run_agent_sync("And now?")
    assert [message.role for message in first.messages] == ["user", "assistant", "tool", "activity", "assistant"]
    assert plain(first.messages)[3] == {
        "id": "id-4",
        "role": "activity",
        "activityType": "pydantic_ai_enqueued_messages",
        "content": {"messages": [{"id": "id-5", "role": "user", "content": "By the way: it rains."}]},
    }
    assert ("user-prompt", "By the way: it rains.") in histories[1]
    assert ("user-prompt", "By the way: it rains.") not in histories[2]
    assert (first.warnings, second.warnings) == ([], [])


def test_a_run_that_the_server_cancels_finishes_as_cancelled() -> None:
    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        yield "Well,"
        await anyio.sleep_forever()

    with served(Agent(FunctionModel(stream_function=model)), timeout=1) as url:
        result = HttpAgent(url).run_agent_sync("Hello")
    assert (result.text, result.outcome) == ("Well,", RunFinishedCancelledOutcome())
    assert (result.aborted, result.warnings) == (False, [])


@pytest.mark.anyio
async def test_leaving_the_block_stops_the_model_on_the_server() -> None:
    stopped = threading.Event()

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        try:
            yield "Well,"
            await anyio.sleep_forever()
        finally:
            stopped.set()

    with served(Agent(FunctionModel(stream_function=model))) as url:
        async with HttpAgent(url).stream("Hello") as run:
            async for _ in run.text_stream:
                break
        assert await anyio.to_thread.run_sync(stopped.wait, _SECONDS)


def test_the_adapters_mode_for_older_clients_is_translated_with_warnings() -> None:
    with served(Agent(FunctionModel(stream_function=think)), ag_ui_version="0.1.10") as url:
        result = HttpAgent(url).run_agent_sync("Think!")
    assert plain(result.new_messages) == [
        {"id": "id-1", "role": "reasoning", "content": "Let me think."},
        {"id": "id-2", "role": "assistant", "content": "Done."},
    ]
    assert (result.outcome, result.usage) == (RunFinishedSuccessOutcome(), [])
    retired = ["START", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "END"]
    assert [(warning.rule, warning.event_type, warning.count) for warning in result.warnings] == [
        ("VER-10", f"THINKING_{name}", 2 if name.endswith("CONTENT") else 1) for name in retired
    ]
    assert result.warnings[0] == ProtocolWarning(
        rule="VER-10",
        message="retired THINKING_START translated into REASONING_START; upgrade the producer",
        event_index=1,
        event_type="THINKING_START",
    )


def test_a_client_told_of_an_older_peer_is_understood_as_one() -> None:
    with served(approving_agent(), ag_ui_version="0.1.10") as url:
        result = HttpAgent(url, max_protocol_version="0.0.57").run_agent_sync("Delete /a")
    assert (result.outcome, result.interrupts) == (RunFinishedSuccessOutcome(), [])
    assert [call.id for call in result.pending_tool_calls] == ["call-1"]
    assert result.warnings == []
