"""Surfaces of a conversation: the three carriers, each surface once, lifecycle, updates, and what a person entered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import ActivityMessage, AssistantMessage, FunctionCall, Message, ToolCall, ToolMessage, UserMessage

from agui_client.a2ui import Progress, Surfaces
from support.a2ui_fixtures import shown

FIELD = {"id": "root", "component": "TextField", "label": "Name", "value": {"path": "/name"}}
CREATE: dict[str, Any] = {"createSurface": {"surfaceId": "ferry", "catalogId": "basic"}}
COMPONENTS: dict[str, Any] = {"updateComponents": {"surfaceId": "ferry", "components": [FIELD]}}


def _data(value: Any, path: str = "/") -> dict[str, Any]:
    return {"updateDataModel": {"surfaceId": "ferry", "path": path, "value": value}}


def _status(message_id: str = "m", **content: Any) -> ActivityMessage:
    return ActivityMessage(id=message_id, activity_type="a2ui-surface", content=content)


def _render_call(arguments: dict[str, Any] | str, call_id: str = "c") -> AssistantMessage:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = FunctionCall(name="render_a2ui", arguments=text)
    return AssistantMessage(id=f"a-{call_id}", tool_calls=[ToolCall(id=call_id, function=function)])


def _result(content: Any, message_id: str = "r") -> ToolMessage:
    text = content if isinstance(content, str) else json.dumps(content)
    return ToolMessage(id=message_id, tool_call_id="c", content=text)


OPERATIONS = [{"version": "v0.9", **each} for each in (CREATE, COMPONENTS, _data({"name": "Ann"}))]


@pytest.mark.parametrize(
    "messages",
    [
        [shown(CREATE, COMPONENTS, _data({"name": "Ann"}))],
        [_render_call({"surfaceId": "ferry", "components": [FIELD], "data": {"name": "Ann"}})],
        [_result({"a2ui_operations": OPERATIONS})],
        [_result(json.dumps(json.dumps({"a2ui_operations": OPERATIONS})))],
    ],
    ids=["activity", "call", "result", "JSON in JSON"],
)
def test_a_surface_comes_in_three_carriers(messages: list[Message]) -> None:
    surfaces = Surfaces(messages)
    assert list(surfaces) == ["ferry"]
    assert surfaces["ferry"]["root"].values == {"label": "Name", "value": "Ann"}
    assert (surfaces["ferry"].status, surfaces["ferry"].problems, surfaces["ferry"].unknown) == ("ready", [], [])


def test_what_came_through_the_middleware_is_read_of_its_activities_alone() -> None:
    call = _render_call({"surfaceId": "ferry", "components": [FIELD], "data": {"name": "of the call"}})
    result = _result({"a2ui_operations": [*OPERATIONS, {"createSurface": {"surfaceId": "other"}}]})
    surfaces = Surfaces([call, result, shown(CREATE, COMPONENTS, _data({"name": "of the activity"}))])
    assert {surface_id: each.data for surface_id, each in surfaces.items()} == {"ferry": {"name": "of the activity"}}


def test_a_result_does_not_draw_again_what_a_call_of_its_turn_has_drawn() -> None:
    call = _render_call({"surfaceId": "ferry", "components": [FIELD], "data": {"name": "Ann"}})
    again = _result({"a2ui_operations": [*OPERATIONS[:2], {**_data({"name": "again"}), "version": "v0.9"}]})
    assert Surfaces([call, again])["ferry"].data == {"name": "Ann"}
    assert Surfaces([call, UserMessage(id="u", content="More"), again])["ferry"].data == {"name": "again"}


def test_an_update_of_a_later_message_changes_the_surface_that_is_there() -> None:
    surfaces = Surfaces([shown(CREATE, COMPONENTS, _data({"name": "Ann"}), message_id="m1")])
    surface = surfaces["ferry"]
    surfaces.update([*surfaces.looked_at, shown(_data("Bob", "/name"), message_id="m2")])
    assert surfaces["ferry"] is surface
    assert (surface.data, surface.message_ids) == ({"name": "Bob"}, ["m1", "m2"])
    update = {"surfaceId": "ferry", "components": [{**FIELD, "label": "Guest"}], "intent": "update"}
    ours = Surfaces([_render_call({"surfaceId": "ferry", "components": [FIELD], "data": {"name": "Ann"}})])
    ours.update([*ours.looked_at, _render_call(update, "d")])
    assert (ours["ferry"].data, ours["ferry"]["root"].values["label"]) == ({"name": "Ann"}, "Guest")


def test_what_a_person_entered_stays_while_the_surface_grows() -> None:
    surfaces = Surfaces([shown(CREATE, COMPONENTS)])
    surfaces["ferry"].set("root", "Ann")
    for growing in ({"items": [1]}, {"items": [1, 2]}, {"items": [1, 2], "name": ""}):
        surfaces.update([shown(CREATE, COMPONENTS, _data(growing))])
        assert surfaces["ferry"].data == {**growing, "name": "Ann"}
    surfaces.update([shown(CREATE, COMPONENTS, _data({"name": "Bob"}))])
    assert (surfaces["ferry"].data, surfaces["ferry"].entered) == ({"name": "Bob"}, {})


def test_an_operation_is_carried_out_once_however_often_its_content_comes() -> None:
    surfaces = Surfaces([shown(CREATE, COMPONENTS, _data("Ann", "/name"))])
    surfaces["ferry"].set("root", "Bob")
    surfaces.update([shown(CREATE, COMPONENTS, _data("Ann", "/name"), _data(1, "/seats"))])
    assert surfaces["ferry"].data == {"name": "Bob", "seats": 1}


def test_a_later_message_of_the_agent_replaces_what_a_person_entered() -> None:
    surfaces = Surfaces([shown(CREATE, COMPONENTS, message_id="m1")])
    surfaces["ferry"].set("root", "Ann")
    surfaces.update([*surfaces.looked_at, shown(_data({"name": ""}), message_id="m2")])
    assert (surfaces["ferry"].data, surfaces["ferry"].entered) == ({"name": ""}, {})


def test_a_surface_that_is_deleted_or_rewound_is_gone_and_one_that_is_created_again_is_new() -> None:
    first = shown(CREATE, COMPONENTS, _data({"name": "Ann"}), message_id="m1")
    surfaces = Surfaces([first, shown({"deleteSurface": {"surfaceId": "ferry"}}, message_id="m2")])
    assert not surfaces
    surfaces.update([first])
    assert surfaces["ferry"].data == {"name": "Ann"}
    surfaces.update([first, shown(CREATE, message_id="m3")])
    assert (surfaces["ferry"].data, surfaces["ferry"].tree.note) == ({}, "not sent yet")
    surfaces.update([])
    assert not surfaces


def test_what_an_agent_writes_over_what_was_entered_stays_so_when_the_conversation_is_read_again() -> None:
    kept: list[dict[str, Any]] = []
    surfaces = Surfaces(
        [shown(CREATE, COMPONENTS, _data({"name": ""}))], keep=lambda _, content: kept.append({**content})
    )
    surfaces["ferry"].set("root", "Ann")
    typed = ActivityMessage(id="typed", activity_type="agui-client/a2ui-typed", content=kept[0])
    grown = shown(CREATE, COMPONENTS, _data({"name": ""}), _data("Paris", "/city"), message_id="m")
    emptied = shown(CREATE, COMPONENTS, _data({"name": ""}), _data("", "/name"), _data("Paris", "/city"))
    assert Surfaces([grown, typed])["ferry"].data == {"name": "Ann", "city": "Paris"}
    assert Surfaces([emptied, typed])["ferry"].data == {"name": "", "city": "Paris"}
    surfaces.update([emptied])
    assert surfaces["ferry"].data == {"name": "", "city": "Paris"}


def test_the_revision_of_a_surface_tells_one_that_was_made_anew_from_the_one_before() -> None:
    made: list[dict[str, Any]] = [
        {"createSurface": {"surfaceId": "s"}},
        {"updateComponents": {"surfaceId": "s", "components": []}},
    ]
    surfaces = Surfaces([shown(*made)])
    before = surfaces["s"].revision
    surfaces.update([shown(*made), shown({"deleteSurface": {"surfaceId": "s"}}, *made, message_id="n")])
    assert surfaces["s"].revision > before


def test_the_lifecycle_of_a_surface_is_its_status() -> None:
    surfaces = Surfaces([_status(status="building", progressTokens=40)])
    assert (surfaces.progress, surfaces.problems) == ([Progress("m", "building", tokens=40)], [])
    errors = [{"code": "x", "path": "/components/0", "message": "no such component"}]
    surfaces.update([_status(status="retrying", attempt=2, maxAttempts=3, errors=errors)])
    assert surfaces.progress == [Progress("m", "retrying", attempt=2, error="no such component")]
    surfaces.update([shown(CREATE, COMPONENTS)])
    assert (surfaces.progress, surfaces["ferry"].status) == ([], "ready")
    surfaces.update([_status(status="failed", error="gave up", attempts=[], maxAttempts=3)])
    assert (surfaces.progress, surfaces["ferry"].status) == ([Progress("m", "failed", error="gave up")], "failed")


def test_a_call_that_still_arrives_is_being_built_and_one_that_was_given_up_has_failed() -> None:
    assert [each.status for each in Surfaces([_render_call('{"surfaceId": "fer')]).progress] == ["building"]
    exhausted = {"error": "no valid surface", "code": "a2ui_recovery_exhausted", "attempts": 3}
    assert Surfaces([_result(exhausted)]).progress == [Progress("r", "failed", error="no valid surface")]


@pytest.mark.parametrize("catalog", ["https://a2ui.org/specification/v0_9/basic_catalog.json",
    "https://a2ui.org/specification/v0_9/catalogs/basic/catalog.json", "https://example.com/ours.json"])  # fmt: skip
def test_both_ids_of_the_basic_catalog_are_known_and_another_is_a_problem(catalog: str) -> None:
    create = {"createSurface": {"surfaceId": "ferry", "catalogId": catalog}}
    problems = Surfaces([shown(create, COMPONENTS)])["ferry"].problems
    assert (problems == []) == catalog.startswith("https://a2ui.org/")


BROKEN: list[Any] = [1, {"id": 2}, {"id": "a", "component": {"Text": {}}}]
SENSELESS: list[dict[str, Any]] = [
    {"a2ui_operations": "x"},
    {"a2ui_operations": [1, None, []]},
    {},
    {"status": []},
    {"a2ui_operations": [{"updateComponents": {"surfaceId": "s", "components": BROKEN}}]},
]


@pytest.mark.parametrize("content", SENSELESS)
def test_contents_that_make_no_sense_raise_nothing(content: dict[str, Any]) -> None:
    surfaces = Surfaces([_status(**content)])
    assert all(each.tree.note == "not sent yet" for each in surfaces.values())


def test_taking_in_a_growing_content_costs_in_proportion_to_what_is_new() -> None:
    operations = [CREATE, COMPONENTS]
    surfaces = Surfaces([shown(*operations)])
    for index in range(200):
        operations.append(_data(index, f"/items/{index}"))
        surfaces.update([shown(*operations)])
    assert surfaces["ferry"].data == {"items": list(range(200))}
