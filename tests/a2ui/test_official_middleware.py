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


def _through_middleware(tmp_path: Path, events: list[dict[str, Any]], props: Any = None) -> dict[str, Any]:
    """Return what the agent was told and what the client gets, as the official middleware has it."""
    ids = {"threadId": "t", "runId": "r"}
    script: dict[str, Any] = {
        "config": {},
        "input": {**ids, "messages": [], "tools": [], "context": [], "forwardedProps": props or {}},
        "events": [{"type": "RUN_STARTED", **ids}, *events, {"type": "RUN_FINISHED", **ids}],
    }
    (tmp_path / "script.json").write_text(json.dumps(script), "utf-8")
    program = Path(__file__).with_name("official_middleware.mjs")
    package = ("@ag-ui/a2ui-middleware", "0.0.10")
    seen: dict[str, Any] = run_typescript(program, str(tmp_path / "script.json"), package=package)
    return seen


def _render_call(pieces: int) -> list[dict[str, Any]]:
    text = json.dumps({"surfaceId": "ferry", "components": COMPONENTS, "data": DATA})
    size = -(-len(text) // pieces)
    deltas = [text[start : start + size] for start in range(0, len(text), size)]
    return [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "render_a2ui"},
        *({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": delta} for delta in deltas),
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
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


@pytest.mark.parametrize("pieces", [1, 7, 60])
async def test_what_the_official_middleware_streams_is_drawn_and_what_was_typed_stays(
    tmp_path: Path, pieces: int
) -> None:
    events = _EVENTS.validate_python(_through_middleware(tmp_path, _render_call(pieces))["events"])

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


async def test_the_result_of_a_tool_of_ours_goes_through_the_official_middleware(tmp_path: Path) -> None:
    result = surface_result(show_surface("ferry", COMPONENTS, DATA))
    call = [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "find_ferries"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": result},
    ]
    sent = _through_middleware(tmp_path, call)["events"]
    (activity,) = [each for each in sent if each["type"] == "ACTIVITY_SNAPSHOT"]
    assert activity["content"] == show_surface("ferry", COMPONENTS, DATA).content
