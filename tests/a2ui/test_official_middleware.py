"""The official middleware under node: what it tells an agent, we tell it, too, and what it sends is drawn here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

from agui_client import FunctionAgent
from agui_client.a2ui import A2UI, Action, show_surface, surface_result
from support.a2ui_fixtures import plain
from support.typescript import run_typescript

pytestmark = pytest.mark.anyio

COMPONENTS: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "ferries"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "ferries", "component": "List", "children": {"componentId": "ferry", "path": "/ferries"}},
    {"id": "ferry", "component": "Text", "text": {"path": "name"}},
]
DATA = {"name": "", "ferries": [{"name": "Dawn"}, {"name": "Dusk"}]}
_EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])


def _through_middleware(
    tmp_path: Path, events: list[dict[str, Any]], props: Any = None, **config: Any
) -> dict[str, Any]:
    """Return what the agent was told and what the client gets, as the official middleware has it."""
    (seen,) = _all_through_middleware(tmp_path, [_script(events, props, **config)])
    return seen


def _script(events: list[dict[str, Any]], props: Any = None, **config: Any) -> dict[str, Any]:
    ids = {"threadId": "t", "runId": "r"}
    return {
        "config": config,
        "input": {**ids, "messages": [], "tools": [], "context": [], "forwardedProps": props or {}},
        "events": [{"type": "RUN_STARTED", **ids}, *events, {"type": "RUN_FINISHED", **ids}],
    }


def _all_through_middleware(tmp_path: Path, scripts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (tmp_path / "scripts.json").write_text(json.dumps(scripts), "utf-8")
    program = Path(__file__).with_name("official_middleware.mjs")
    package = ("@ag-ui/a2ui-middleware", "0.0.10")
    seen: list[dict[str, Any]] = run_typescript(program, str(tmp_path / "scripts.json"), package=package)
    return seen


def _render_call(pieces: int, call_id: str = "c", **arguments: Any) -> list[dict[str, Any]]:
    text = json.dumps(arguments or {"surfaceId": "ferry", "components": COMPONENTS, "data": DATA})
    size = -(-len(text) // pieces)
    deltas = [text[start : start + size] for start in range(0, len(text), size)]
    return [
        {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": "render_a2ui"},
        *({"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta} for delta in deltas),
        {"type": "TOOL_CALL_END", "toolCallId": call_id},
    ]


def _result(content: str) -> list[dict[str, Any]]:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "find_ferries"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": content},
    ]


async def test_an_action_is_told_as_the_official_middleware_tells_it(tmp_path: Path) -> None:
    action = Action("book", "hotels", "b", {"guest": "Ann", "seats": [1, 2]})
    told = _through_middleware(tmp_path, [], action.run_options()["forwarded_props"])["input"]
    ours: list[RunAgentInput] = []

    async def agent(input: RunAgentInput) -> AsyncIterator[str]:
        ours.append(input)
        yield "Booked"

    await FunctionAgent(agent).use(A2UI()).run_agent(**action.run_options())
    theirs = RunAgentInput.model_validate(told)
    assert [_without_ids(each) for each in ours[0].messages] == [_without_ids(each) for each in theirs.messages]
    assert ours[0].forwarded_props == theirs.forwarded_props


def _without_ids(message: Any) -> dict[str, Any]:
    plain = message.model_dump(exclude={"id", "tool_call_id"}, exclude_none=True)
    for call in plain.get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        del call["id"]
    return dict(plain)


async def test_what_the_official_middleware_streams_is_drawn_and_what_was_typed_stays(tmp_path: Path) -> None:
    for seen in _all_through_middleware(tmp_path, [_script(_render_call(pieces)) for pieces in (1, 7, 60)]):
        await _is_drawn_and_keeps_what_was_typed(_EVENTS.validate_python(seen["events"]))


async def _is_drawn_and_keeps_what_was_typed(events: list[Event]) -> None:
    async def replayed(input: RunAgentInput) -> AsyncIterator[Event]:
        for event in events:
            yield event

    agent = FunctionAgent(replayed, thread_id="t")
    statuses: list[str] = []
    has_typed = False
    async with agent.stream("Hi", run_id="r") as run:
        async for _ in run:
            statuses += [each.status for each in run.surfaces.progress]
            if "ferry" in run.surfaces and not has_typed:
                run.surfaces["ferry"].set("name", "Ann")
                has_typed = True
    surface = agent.surfaces["ferry"]
    assert "building" in statuses
    assert [each.values["text"] for each in surface.tree.walk() if each.id == "ferry"] == ["Dawn", "Dusk"]
    assert surface.data["name"] == "Ann"
    assert agent.pending_tool_calls == []


async def _seen(events: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """What a client shows of a run: each surface with its values and data, and what is not there."""

    async def replayed(input: RunAgentInput) -> AsyncIterator[Event]:
        for event in _EVENTS.validate_python(events):
            yield event

    agent = FunctionAgent(replayed, thread_id="t")
    await agent.run_agent("Hi", run_id="r")
    shown = {surface_id: (plain(each.tree), each.data) for surface_id, each in agent.surfaces.items()}
    return shown, [each.status for each in agent.surfaces.progress]


_TWO = [show_surface("ferry", COMPONENTS, DATA), show_surface("hotel", COMPONENTS, {"name": "Ann", "ferries": []})]
_SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "a call": _render_call(3),
    "calls of two surfaces": [
        *_render_call(1),
        *_render_call(1, "d", surfaceId="hotel", components=COMPONENTS, data=DATA),
    ],
    "a result": _result(surface_result(_TWO[0])),
    "a result with two surfaces": _result(surface_result(*_TWO)),
    "JSON in JSON": _result(json.dumps(surface_result(_TWO[0]))),
    "a result that gave up": _result(json.dumps({"error": "no", "code": "a2ui_recovery_exhausted", "attempts": []})),
    "a result about something else": _result('{"ferries": 2}'),
}


async def test_an_agent_is_seen_alike_with_and_without_the_official_middleware(tmp_path: Path) -> None:
    scripts = {name: _script(events) for name, events in _SCRIPTS.items()}
    direct = {name: await _seen(script["events"]) for name, script in scripts.items()}
    through = _all_through_middleware(tmp_path, [*scripts.values()])
    assert direct == {name: await _seen(each["events"]) for name, each in zip(scripts, through, strict=True)}


async def test_an_agent_is_offered_the_tool_and_told_of_surfaces_as_the_official_middleware_does(
    tmp_path: Path,
) -> None:
    schema = {"catalogId": "basic", "components": {"Text": {"type": "object"}}}
    seen = _through_middleware(tmp_path, _render_call(1), injectA2UITool=True, schema=schema)
    theirs: dict[str, Any] = seen["input"]
    inputs: list[RunAgentInput] = []

    async def agent(input: RunAgentInput) -> AsyncIterator[Event]:
        inputs.append(input)
        started = {"type": "RUN_STARTED", "threadId": input.thread_id, "runId": input.run_id}
        finished = {**started, "type": "RUN_FINISHED"}
        for event in _EVENTS.validate_python([started, *_render_call(1), finished]):
            yield event

    result = await FunctionAgent(agent).use(A2UI(render_tool=True, catalog=schema)).run_agent("Hi")
    ours: dict[str, Any] = inputs[0].model_dump(by_alias=True, mode="json")
    told, known = ({each["description"]: each["value"] for each in input["context"]} for input in (ours, theirs))
    assert told.keys() == known.keys()
    (described,) = [name for name in told if name.startswith("A2UI Component Schema")]
    assert json.loads(told[described]) == json.loads(known[described]) == schema
    assert ours["forwardedProps"] == theirs["forwardedProps"]
    (tool,), (other,) = ours["tools"], theirs["tools"]
    assert tool["name"] == other["name"]
    assert tool["parameters"]["required"] == other["parameters"]["required"]
    assert tool["parameters"]["properties"].keys() >= other["parameters"]["properties"].keys()
    (answer,) = [each["content"] for each in seen["events"] if each["type"] == "TOOL_CALL_RESULT"]
    (message,) = [each for each in result.messages if each.role == "tool"]
    assert json.loads(str(message.content)) == json.loads(answer)


async def test_the_result_of_a_tool_of_ours_goes_through_the_official_middleware(tmp_path: Path) -> None:
    result = surface_result(show_surface("ferry", COMPONENTS, DATA))
    sent = _through_middleware(tmp_path, _result(result))["events"]
    (activity,) = [each for each in sent if each["type"] == "ACTIVITY_SNAPSHOT"]
    assert activity["content"] == show_surface("ferry", COMPONENTS, DATA).content
