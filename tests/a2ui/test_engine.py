"""The engine of surfaces: data, templates, functions, checks and limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from agui_client import UsageError
from agui_client.a2ui import Surfaces
from support.a2ui_fixtures import shown, surface_of, value_of

ATTACK = 30_000
"""The size of what a hostile agent asks for."""


def _call(name: str, **args: Any) -> dict[str, Any]:
    return {"call": name, "args": args}


@pytest.mark.parametrize(
    ("dynamic", "value"),
    [
        ({"path": "/guest/name"}, "Ann"),
        ({"path": "guest/name/"}, "Ann"),
        ({"path": "/odd~1name"}, "slash"),
        ({"path": "/seats/1"}, 2),
        ({"path": "/seats/01"}, None),
        ({"path": "/nobody/name"}, None),
        ({"path": "/guest/name/0"}, None),
        (_call("formatString", value="Dear ${/guest/name}, seat ${/seats/0}: \\${5}$"), "Dear Ann, seat 1: ${5}$"),
        (_call("formatString", value="${formatNumber(value: ${/price}, decimals: 1)}"), "1,234.6"),
        (_call("formatString", value="${pluralize(value:2,one:'a',other:'b')}"), "b"),
        (_call("formatString", value="${/seats}${/nothing}${/is_open}"), "[1,2]true"),
        (_call("formatString", value="${unclosed"), None),
        (_call("formatNumber", value={"path": "/price"}), "1,234.567"),
        (_call("formatNumber", value=2.5, decimals=0), "3"),
        (_call("formatNumber", value=-1234567, grouping=False), "-1234567"),
        (_call("formatNumber", value="many"), None),
        (_call("formatCurrency", value=1234.5, currency="EUR"), "€1,234.50"),
        (_call("formatCurrency", value=-3, currency="JPY"), "-¥3"),
        (_call("formatCurrency", value=3, currency="CHF"), "CHF\u00a03.00"),
        (_call("formatDate", value="2026-07-15T19:05:00Z", format="EEE, MMM d 'at' h:mm a"), "Wed, Jul 15 at 7:05 PM"),
        (_call("formatDate", value="2026-02-30", format="yyyy"), ""),
        (_call("formatDate", value="2026-07-15T19:05:00Z", format="Q"), "2026-07-15T19:05:00.000Z"),
        (_call("pluralize", value=1, one="one seat", other="seats"), "one seat"),
        (_call("and", values=[True, {"path": "/is_open"}]), True),
        (_call("or", values=[False, {"path": "/nothing"}]), False),
        (_call("not", value={"path": "/is_open"}), False),
        (_call("email", value="ann@example.com"), True),
        (_call("email", value="ann@example"), False),
        (_call("length", value="Ann", min=4), False),
        (_call("numeric", value="7", min=1, max=7), True),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("in_utc")
def test_a_value_is_worked_out(dynamic: Any, value: Any) -> None:
    data = {
        "guest": {"name": "Ann"},
        "odd/name": "slash",
        "seats": [1, 2],
        "price": 1234.567,
        "is_open": True,
    }
    assert value_of(dynamic, data) == value


def test_a_list_draws_its_component_for_each_item_and_relative_paths_are_the_items() -> None:
    surface = surface_of(
        [
            {"id": "root", "component": "List", "children": {"componentId": "ferry", "path": "/ferries"}},
            {"id": "ferry", "component": "Button", "child": "name",
             "action": {"event": {"name": "book", "context": {"id": {"path": "id"}, "for": {"path": "/guest"}}}}},
            {"id": "name", "component": "Text", "text": {"path": "name"}},
        ],
        {"guest": "Ann", "ferries": [{"id": 1, "name": "Dawn"}, {"id": 2, "name": "Dusk"}]},
    )  # fmt: skip
    assert [each.values["text"] for each in surface.tree.walk() if each.component == "Text"] == ["Dawn", "Dusk"]
    with pytest.raises(UsageError, match="drawn at '/ferries/0', '/ferries/1': say which with at="):
        surface.press("ferry")
    action = surface.press("ferry", at="/ferries/1")
    assert (action.name, action.context) == ("book", {"id": 2, "for": "Ann"})


def test_a_button_is_pressed_when_its_checks_hold() -> None:
    surface = surface_of(
        [
            {"id": "root", "component": "Column", "children": ["name", "book", "open"]},
            {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
            {"id": "book", "component": "Button", "child": "t",
             "action": {"event": {"name": "book", "context": {"name": {"path": "/name"}}}},
             "checks": [{"condition": _call("required", value={"path": "/name"}), "message": "Who are you?"}]},
            {"id": "open", "component": "Button", "child": "t",
             "action": {"functionCall": _call("openUrl", url="https://example.com")}},
            {"id": "t", "component": "Text", "text": "Book"},
        ],
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"cannot be pressed yet: Who are you\?"):
        surface.press("book")
    surface.set("name", "Ann")
    assert surface.press("book").user_action()["context"] == {"name": "Ann"}
    with pytest.raises(UsageError, match=r"on the page alone \(openUrl\)"):
        surface.press("open")
    with pytest.raises(UsageError, match="is a TextField without an action"):
        surface.press("name")
    with pytest.raises(UsageError, match="draws no component 'nobody'"):
        surface.press("nobody")


@pytest.mark.parametrize(
    ("component", "value", "entered"),
    [
        ({"component": "TextField", "label": "L"}, "Ann", "Ann"),
        ({"component": "TextField", "label": "L", "variant": "number"}, 5, "5"),
        ({"component": "TextField", "label": "L", "variant": "number"}, "five", UsageError),
        ({"component": "TextField", "label": "L"}, True, UsageError),
        ({"component": "CheckBox", "label": "L"}, True, True),
        ({"component": "CheckBox", "label": "L"}, "yes", UsageError),
        ({"component": "ChoicePicker", "options": [{"label": "A", "value": "a"}]}, "a", ["a"]),
        ({"component": "ChoicePicker", "options": [{"label": "A", "value": "a"}]}, "b", UsageError),
        ({"component": "Slider", "max": 10}, 7, 7),
        ({"component": "Slider", "max": 10}, 11, UsageError),
        ({"component": "DateTimeInput", "enableDate": True, "min": "2026-01-01"}, "2026-05-01", "2026-05-01"),
        ({"component": "DateTimeInput", "enableDate": True, "min": "2026-01-01"}, "2025-05-01", UsageError),
        ({"component": "DateTimeInput", "enableTime": True}, "noon", UsageError),
        ({"component": "Text", "text": "L"}, "x", UsageError),
    ],
)
def test_an_input_takes_what_fits(component: dict[str, Any], value: Any, entered: Any) -> None:
    surface = surface_of([{"id": "root", "value": {"path": "/value"}, **component}])
    if entered is UsageError:
        with pytest.raises(UsageError, match="root"):
            surface.set("root", value)
        assert surface.data == {}
    else:
        surface.set("root", value)
        assert surface.data == {"value": entered}


def test_what_an_agent_may_not_have_checked_here_is_left_to_it() -> None:
    rule = {"condition": _call("regex", value={"path": "/x"}, pattern="^(a+)+$"), "message": "Only a"}
    surface = surface_of(
        [
            {"id": "root", "component": "Button", "child": "t", "action": {"event": {"name": "go"}}, "checks": [rule]},
            {"id": "t", "component": "Text", "text": "Go"},
        ],
        {"x": "a" * ATTACK + "!"},
    )
    assert surface.press("root").name == "go"
    assert surface["root"].unchecked == ["Only a"]
    assert surface.unknown == ["regex()"]
    assert surface.problems == ["regex(): a pattern of an agent is not matched here: the agent has to check this value"]


def test_names_that_models_were_taught_by_mistake_are_read() -> None:
    surface = surface_of(
        [
            {"id": "root", "component": "Tabs", "tabItems": [{"title": "One", "child": "f"}]},
            {"id": "f", "component": "TextField", "label": "L", "text": {"path": "/x"}, "textFieldType": "obscured"},
        ],
        {"x": "secret"},
    )
    assert surface["f"].values == {"label": "L", "value": "secret", "variant": "obscured"}


def test_what_is_unknown_is_named_and_its_children_are_drawn() -> None:
    surface = surface_of(
        [
            {"id": "root", "component": "Carousel", "children": ["t"], "speed": {"path": "/speed"}},
            {"id": "t", "component": "Text", "text": _call("shout", value="x")},
        ],
        {"speed": 3},
    )
    assert surface.unknown == ["Carousel", "shout()"]
    assert (surface.tree.values["speed"], surface["t"].values) == (3, {})


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ({"surfaceUpdate": {"surfaceId": "s"}}, "surfaceUpdate is of A2UI v0.8"),
        ({"version": "v1.0", "createSurface": {"surfaceId": "s"}}, "A2UI v1.0 is not drawn here"),
        ({"createSurface": {"surfaceId": "s"}, "deleteSurface": {"surfaceId": "s"}}, "this one has 2"),
        ({"createSurface": {"catalogId": "basic"}}, "createSurface has no surfaceId"),
        ({"createSurface": []}, "createSurface has no surfaceId"),
    ],
)
def test_an_operation_of_another_kind_is_refused_by_name(operation: dict[str, Any], problem: str) -> None:
    surfaces = Surfaces([shown(operation)])
    assert not surfaces
    assert problem in surfaces.problems[0]


def _deep(depth: int) -> list[dict[str, Any]]:
    cards = [{"id": f"c{index}", "component": "Card", "child": f"c{index + 1}"} for index in range(depth)]
    return [{"id": "root", "component": "Card", "child": "c0"}, *cards]


def _nested_call(depth: int) -> Any:
    call: Any = True
    for _ in range(depth):
        call = {"call": "not", "args": {"value": call}}
    return call


def _text(text: Any) -> list[dict[str, Any]]:
    return [{"id": "root", "component": "Text", "text": text}]


def _listed(inner: dict[str, Any]) -> list[dict[str, Any]]:
    template = {"componentId": "inner", "path": "/items"}
    return [{"id": "root", "component": "List", "children": template}, {"id": "inner", **inner}]


_ITEMS = {"items": list(range(ATTACK))}
HOSTILE: dict[str, tuple[Callable[[], list[dict[str, Any]]], Any, str]] = {
    "itself": (lambda: [{"id": "root", "component": "Card", "child": "root"}], None, "inside itself"),
    "each other": (
        lambda: [{"id": "root", "component": "Card", "child": "b"}, {"id": "b", "component": "Card", "child": "root"}],
        None,
        "inside itself",
    ),
    "depth": (lambda: _deep(200), None, "deeper than 50"),
    "items": (lambda: _listed({"component": "Text", "text": "x"}), _ITEMS, "more than 5,000"),
    "doubling": (
        lambda: (
            [{"id": "root", "component": "Row", "children": ["c0"] * 2}]
            + [{"id": f"c{each}", "component": "Row", "children": [f"c{each + 1}"] * 2} for each in range(40)]
        ),
        None,
        "more than 5,000",
    ),
    "lists of lists": (
        lambda: _listed({"component": "List", "children": {"componentId": "inner", "path": "/items"}}),
        _ITEMS,
        "more than 5,000",
    ),
    "components": (
        lambda: [{"id": f"c{index}", "component": "Text", "text": "x"} for index in range(ATTACK)],
        None,
        "more than 2,000 components",
    ),
    "a long template": (lambda: _text(_call("formatString", value="x" * ATTACK)), None, "longer than 10,000"),
    "a deep template": (
        lambda: _text(_call("formatString", value="${" * 200 + "/x" + "}" * 200)),
        None,
        "nested deeper than 100",
    ),
    "nested calls": (lambda: _text(_nested_call(150)), None, "calls are nested deeper"),
    "much text": (
        lambda: _text(_call("formatString", value="${/long}" * 1_000)),
        {"long": "x" * ATTACK},
        "more than 200,000 characters",
    ),
    "formats of formats": (
        lambda: _text(_call("formatString", value="${formatString(value: ${/f})}" * 300)),
        {"f": "${formatString(value: ${/f})}" * 300},
        "more than",
    ),
    "many values": (
        lambda: _listed({"component": "Text", "text": _call("and", values=[{"path": "/items"}] * 100)}),
        {"items": list(range(4_000))},
        "more than 100,000 values",
    ),
    "a far index": (lambda: _text("x"), None, ""),
    "a long number": (lambda: _text(_call("formatNumber", value=1e308, decimals=1e9)), None, "decimals is not"),
    "a wide date": (lambda: _text(_call("formatDate", value=0, format="y" * 9_000)), None, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_surface_costs_in_proportion_and_says_why_it_is_not_whole(name: str) -> None:
    components, data, problem = HOSTILE[name]
    start = time.thread_time()
    surface = surface_of(components(), data)
    drawn = sum(1 for _ in surface.tree.walk())
    assert time.thread_time() - start < 2
    assert drawn <= 15_001
    assert any(problem in each for each in surface.problems) or not problem


def test_an_index_far_beyond_an_array_makes_no_array_of_that_length() -> None:
    update = {"updateDataModel": {"surfaceId": "s", "path": "/items/999999999", "value": 1}}
    surface = Surfaces([shown({"createSurface": {"surfaceId": "s", "catalogId": "basic"}}, update)])["s"]
    assert surface.data == {"items": []}
    assert "far beyond the end" in surface.problems[0]


def test_only_the_first_thousand_operations_of_a_message_are_carried_out() -> None:
    updates = [{"updateDataModel": {"surfaceId": "s", "path": f"/{index}", "value": 1}} for index in range(1_200)]
    create: dict[str, Any] = {"createSurface": {"surfaceId": "s", "catalogId": "basic"}}
    surfaces = Surfaces([shown(create, *updates)])
    # The same, if they come one by one.
    growing = Surfaces([shown(create)])
    for count in (500, 998, 999, 1_000, 1_001, 1_200):
        growing.update([shown(create, *updates[:count])])
    for surface in (surfaces["s"], growing["s"]):
        assert len(surface.data) == 999
        assert surface.problems == ["a message has more than 1,000 operations; only the first are carried out"]


def test_the_message_that_carried_the_data_never_changes() -> None:
    field = {"id": "root", "component": "TextField", "label": "L", "value": {"path": "/a/b"}}
    message = shown(
        {"updateComponents": {"surfaceId": "s", "components": [field]}},
        {"updateDataModel": {"surfaceId": "s", "value": {"a": {"b": "old"}}}},
    )
    before = message.model_dump_json()
    surface = Surfaces([message])["s"]
    surface.set("root", "new")
    assert surface.data == {"a": {"b": "new"}}
    assert message.model_dump_json() == before
