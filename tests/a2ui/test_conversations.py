"""Surfaces of agents: `run.surfaces`, `result.surfaces` and `agent.surfaces`, the middleware, and the agent's side."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import ConversationSnapshot, FunctionAgent, UsageError
from agui_client.a2ui import A2UI, Action, action_in, change_surface, show_surface, surface_result
from agui_client.notebook._content import bundle_of
from support.a2ui_fixtures import shown

pytestmark = pytest.mark.anyio

SCHEMA_CONTEXT = (
    "A2UI Component Schema \u2014 available components for generating UI surfaces. Use these component names and "
    "properties when creating A2UI operations."
)
COMPONENTS: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "pin", "book", "said"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "pin", "component": "TextField", "label": "PIN", "value": {"path": "/pin"}, "variant": "obscured"},
    {
        "id": "book",
        "component": "Button",
        "child": "said",
        "action": {"event": {"name": "book", "context": {"guest": {"path": "/name"}}}},
    },
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]


class _Ferry:
    """An agent that shows a form, and changes it when it was pressed."""

    def __init__(self) -> None:
        self.inputs: list[RunAgentInput] = []

    async def __call__(self, input: RunAgentInput) -> AsyncIterator[Event]:
        self.inputs.append(input)
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        if (action := action_in(input)) is None:
            yield show_surface("ferry", COMPONENTS, {"said": "Book", "name": ""})
        else:
            yield change_surface("ferry", path="/said", data=f"Booked for {action.context['guest']}")
        yield _finished(input)


def _finished(input: RunAgentInput) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, outcome=RunFinishedSuccessOutcome())


async def test_a_person_books_on_a_surface_and_the_agent_changes_it() -> None:
    ferry = _Ferry()
    agent = FunctionAgent(ferry).use(A2UI())
    async with agent.stream("A ferry, please") as run:
        async for event in run:
            if isinstance(event, ActivitySnapshotEvent):
                assert run.surfaces["ferry"]["said"].values == {"text": "Book"}
    surface = agent.surfaces["ferry"]
    surface.set("name", "Ann")
    action = surface.press("book")
    result = await agent.run_agent(**action.run_options({"trace": 1}))
    assert surface.data == {"said": "Booked for Ann", "name": "Ann"}
    assert result.surfaces["ferry"] is surface
    assert result.warnings == []
    told = ferry.inputs[1]
    assert told.forwarded_props == {"trace": 1, "a2uiAction": {"userAction": action.user_action()}}
    assert action_in(told) == Action("book", "ferry", "book", {"guest": "Ann"}, action.timestamp)
    assert not any(message.role == "activity" for each in ferry.inputs for message in each.messages)


async def test_a_result_knows_the_surfaces_that_its_turn_changed_of_earlier_messages_too() -> None:
    ferry = _Ferry()
    agent = FunctionAgent(ferry)
    first = await agent.run_agent("A ferry, please")
    assert [each.id for each in first.changed_surfaces] == ["ferry"]
    second = await agent.run_agent(**agent.surfaces["ferry"].press("book").run_options())
    assert [each.data["said"] for each in second.changed_surfaces] == ["Booked for "]
    assert [each.data["said"] for each in first.changed_surfaces] == ["Book"]
    assert bundle_of(second)["text/plain"].startswith("Name: …")
    assert bundle_of(pickle.loads(pickle.dumps(second)))["text/plain"].count("Name") == 0

    async def quiet(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield _finished(input)

    other = FunctionAgent(quiet)
    other.restore(agent.snapshot())
    assert (await other.run_agent("Hello")).changed_surfaces == []


async def test_what_a_person_entered_survives_in_a_snapshot_without_what_is_hidden() -> None:
    agent = FunctionAgent(_Ferry())
    await agent.run_agent("A ferry, please")
    agent.surfaces["ferry"].set("name", "A")
    agent.surfaces["ferry"].set("name", "Ann")
    agent.surfaces["ferry"].set("pin", "4711")
    document = agent.snapshot().model_dump_json()
    assert "4711" not in document
    other = FunctionAgent(_Ferry())
    other.restore(ConversationSnapshot.model_validate_json(document))
    assert other.surfaces["ferry"].data == {"said": "Book", "name": "Ann"}
    assert len(other.messages) == 3
    await other.run_agent(**other.surfaces["ferry"].press("book").run_options())
    assert other.surfaces["ferry"].data["said"] == "Booked for Ann"
    # Once more, and back to what was entered before.
    other.surfaces["ferry"].set("name", "Bob")
    other.restore(ConversationSnapshot.model_validate_json(document))
    assert other.surfaces["ferry"].data["name"] == "Ann"
    assert other.clone().surfaces["ferry"].data["name"] == "Ann"


async def test_a_snapshot_of_the_server_drops_nothing_that_a_person_entered() -> None:
    kept = shown(
        {"createSurface": {"surfaceId": "ferry", "catalogId": "basic"}},
        {"updateComponents": {"surfaceId": "ferry", "components": COMPONENTS}},
        message_id="a2ui-surface-ferry",
    )

    async def restating(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield MessagesSnapshotEvent(messages=[UserMessage(id="u", content="Hi"), kept])
        yield _finished(input)

    agent = FunctionAgent(restating, initial_messages=[kept])
    agent.surfaces["ferry"].set("name", "Ann")
    await agent.run_agent("Hi")
    assert agent.surfaces["ferry"].data == {"name": "Ann"}
    assert FunctionAgent(restating, initial_messages=agent.messages).surfaces["ferry"].data == {"name": "Ann"}


async def test_a_copy_of_a_result_has_the_surfaces_of_its_messages() -> None:
    agent = FunctionAgent(_Ferry())
    result = await agent.run_agent("A ferry, please")
    copy = pickle.loads(pickle.dumps(result))
    agent.surfaces["ferry"].set("name", "Ann")
    assert (copy.surfaces["ferry"].data["name"], result.surfaces["ferry"].data["name"]) == ("", "Ann")


def _calling(*, answers: bool) -> Any:
    async def calling(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        arguments = json.dumps({"surfaceId": "ferry", "components": COMPONENTS, "data": {"said": "Book"}})
        yield ToolCallStartEvent(tool_call_id="c", tool_call_name="render_a2ui")
        for piece in (arguments[:40], arguments[40:]):
            yield ToolCallArgsEvent(tool_call_id="c", delta=piece)
        yield ToolCallEndEvent(tool_call_id="c")
        if answers:
            yield show_surface("ferry", COMPONENTS, {"said": "Book"})
        yield _finished(input)

    return calling


async def test_a_call_of_render_a2ui_that_is_left_without_a_result_gets_one() -> None:
    agent = FunctionAgent(_calling(answers=False)).use(A2UI(render_tool=True))
    async with agent.stream("Hi") as run:
        seen = [[*(str(each.status) for each in run.surfaces.progress), *run.surfaces] async for _ in run]
    assert ["building"] in seen
    assert seen[-1] == ["ferry"]
    assert agent.pending_tool_calls == []
    (result,) = [each for each in agent.messages if isinstance(each, ToolMessage)]
    assert json.loads(str(result.content)) == {"status": "rendered"}


async def test_the_agent_reads_the_components_and_how_to_send_them() -> None:
    ferry = _Ferry()
    agent = FunctionAgent(ferry).use(A2UI(render_tool=True))
    await agent.run_agent("Hi", forwarded_props={"trace": 1})
    (input,) = ferry.inputs
    assert [each.description for each in input.context or ()] == [
        SCHEMA_CONTEXT,
        "A2UI render tool usage guide \u2014 how to call render_a2ui with valid arguments.",
    ]
    assert [each.name for each in input.tools or ()] == ["render_a2ui"]
    assert input.forwarded_props == {"trace": 1, "injectA2UITool": True}
    # What is added belongs to the run, not to the conversation.
    assert [each.role for each in agent.messages] == ["user", "activity"]


async def test_an_action_is_told_for_its_run_alone() -> None:
    ferry = _Ferry()
    agent = FunctionAgent(ferry).use(A2UI())
    await agent.run_agent(**Action("book", "ferry", "b", {"guest": "Ann"}).run_options())
    call, told = ferry.inputs[0].messages
    assert isinstance(call, AssistantMessage)
    assert [each.function.name for each in call.tool_calls or ()] == ["log_a2ui_event"]
    assert isinstance(told, ToolMessage)
    assert told.content == ('User performed action "book" on surface "ferry" (component: b). Context: {"guest":"Ann"}')
    await agent.run_agent("More")
    assert [each.role for each in ferry.inputs[1].messages] == ["user"]


@pytest.mark.parametrize("props", [None, {}, {"a2uiAction": 1}, {"a2uiAction": {"userAction": "book"}}, [1]])
def test_a_run_without_an_action_has_none(props: Any) -> None:
    input = RunAgentInput(thread_id="t", run_id="r", messages=[], forwarded_props=props)
    assert action_in(input) is None


def test_an_action_that_a_caller_wrote_badly_is_refused() -> None:
    props = {"a2uiAction": {"userAction": {"name": 1, "surfaceId": "s"}}}
    with pytest.raises(UsageError, match="needs the texts name and surfaceId"):
        action_in(RunAgentInput(thread_id="t", run_id="r", messages=[], forwarded_props=props))


async def test_a_tool_returns_a_surface_as_its_result() -> None:
    text = surface_result(show_surface("ferry", COMPONENTS), change_surface("ferry", path="/said", data="Hello"))
    agent = FunctionAgent(_Ferry(), initial_messages=[ToolMessage(id="r", tool_call_id="c", content=text)])
    assert agent.surfaces["ferry"].data == {"said": "Hello"}


async def test_a_change_that_names_a_path_means_what_a_person_entered_there() -> None:
    agent = FunctionAgent(_Ferry())
    await agent.run_agent("Hi")
    agent.surfaces["ferry"].set("name", "Ann")
    first = agent.messages[1]
    assert first.role == "activity"
    (operation,) = json.loads(surface_result(change_surface("ferry", path="/name", data="")))["a2ui_operations"]
    grown = first.model_copy(update={"content": {"a2ui_operations": [*first.content["a2ui_operations"], operation]}})
    agent.set_messages([agent.messages[0], grown, *agent.messages[2:]])
    assert agent.surfaces["ferry"].data["name"] == ""


def test_a_surface_that_draws_nothing_is_refused_where_it_is_made() -> None:
    with pytest.raises(UsageError, match="no component with the id 'root'"):
        show_surface("ferry", [{"id": "top", "component": "Text", "text": "x"}])
    with pytest.raises(UsageError, match="changes nothing"):
        change_surface("ferry")
