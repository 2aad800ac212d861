"""The structure read off the official models agrees with the JSON Schema that pydantic makes of the same models."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import BaseEvent, Event, ReasoningMessageStartEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import agui_client
from agui_client import UnrecognizedEvent
from agui_client._checking.check import ID_FIELDS
from agui_client._core.protocol.schema import (
    EVENT_MODELS,
    Anything,
    ChoiceSchema,
    Integer,
    ListSchema,
    ObjectSchema,
    OpenObject,
    Pinned,
    Scalar,
    Shape,
    TextOrItems,
    Variants,
    conforms,
    members,
    record,
)
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog
from agui_client.inspector._summary import NAMED
from agui_client.recording._pieces import WIRE_NAMES

_EVENTS = TypeAdapter[Event](Event)
_DEFINITIONS: dict[str, Any] = _EVENTS.json_schema(by_alias=True)["$defs"]


def _records(shape: Shape) -> dict[str, ObjectSchema]:
    match shape:
        case ObjectSchema(model=model, slots=slots):
            found = {model.__name__: shape}
            for slot in slots.values():
                found |= _records(slot.shape)
            return found
        case Variants(members=members):
            return {name: inner for member in members.values() for name, inner in _records(member).items()}
        case ListSchema(item=item):
            return _records(item)
        case TextOrItems(items=items):
            return _records(items)
        case _:
            return {}


_RECORDS = {name: inner for model in EVENT_MODELS.values() for name, inner in _records(record(model)).items()}


def _is_object(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" and "properties" in schema


@pytest.mark.requirement("PROC-15")
def test_every_object_of_the_json_schema_is_described() -> None:
    described = {name for name, schema in _DEFINITIONS.items() if _is_object(schema)}
    assert set(_RECORDS) == described


@pytest.mark.parametrize("name", sorted(_RECORDS))
def test_an_object_has_the_members_the_json_schema_gives_it(name: str) -> None:
    schema, structure = _DEFINITIONS[name], _RECORDS[name]
    assert set(structure.slots) == set(schema["properties"])
    required = {wire for wire, slot in structure.slots.items() if slot.required}
    assert required - set(structure.stamps) == set(schema.get("required", []))
    for wire, slot in structure.slots.items():
        assert _agrees(slot.shape, schema["properties"][wire], nullable=not slot.required), wire


def _agrees(shape: Shape, schema: dict[str, Any], *, nullable: bool = False) -> bool:
    schema = {key: value for key, value in schema.items() if key not in ("title", "default", "description")}
    if nullable and "anyOf" in schema:
        rest = [option for option in schema["anyOf"] if option != {"type": "null"}]
        assert len(rest) == len(schema["anyOf"]) - 1
        schema = rest[0] if len(rest) == 1 else {"anyOf": rest}
    match shape:
        case ListSchema(item=item):
            return schema["type"] == "array" and _agrees(item, schema["items"])
        case TextOrItems(items=items):
            text, array = schema["anyOf"]
            return text == {"type": "string"} and _agrees(items, array)
        case Variants():
            refs = {tag: _reference(member) for tag, member in shape.members.items()}
            return bool(schema["discriminator"] == {"mapping": refs, "propertyName": shape.discriminator})
        case ObjectSchema():
            return schema == {"$ref": _reference(shape)}
        case _:
            return _leaf_agrees(shape, schema)


def _leaf_agrees(shape: Shape, schema: dict[str, Any]) -> bool:
    match shape:
        case Scalar():
            return schema["type"] in ("string", "boolean") and not schema.keys() & {"enum", "const"}
        case Integer():
            return bool(schema["type"] == "integer")
        case Pinned(value=value):
            return bool(schema["const"] == value)
        case ChoiceSchema(values=values):
            return values == frozenset(schema["enum"])
        case OpenObject():
            return schema == {"type": "object", "additionalProperties": True}
        case _:
            return isinstance(shape, Anything) and not schema


def _reference(structure: ObjectSchema) -> str:
    return f"#/$defs/{structure.model.__name__}"


def test_every_event_type_has_its_class() -> None:
    assert {name: model.__name__ for name, model in EVENT_MODELS.items()} == {
        tag: reference.rpartition("/")[2]
        for tag, reference in _EVENTS.json_schema(by_alias=True)["discriminator"]["mapping"].items()
    }


@pytest.mark.parametrize("names", [ID_FIELDS, NAMED, WIRE_NAMES])
def test_the_members_that_modules_look_for_in_json_are_those_of_an_event(names: tuple[str, ...]) -> None:
    # Nothing else would fail when a later version names one of them otherwise.
    assert set(names) <= {name for model in EVENT_MODELS.values() for name in record(model).slots}


def test_the_inspectors_page_looks_for_the_same_members() -> None:
    page = (Path(agui_client.__file__).parent / "inspector/page/page.js").read_text("utf-8")
    (listed,) = re.findall(r"const named = (\[.*\]);", page)
    assert tuple(json.loads(listed)) == NAMED


@pytest.mark.requirement("PROC-10")
def test_patch_operations_are_the_only_open_objects() -> None:
    assert {name for name, inner in _RECORDS.items() if inner.is_open} == {
        "AddOperation",
        "RemoveOperation",
        "ReplaceOperation",
        "MoveOperation",
        "CopyOperation",
        "TestOperation",
    }


def test_a_pinned_member_that_the_class_fills_in_is_required_on_the_wire() -> None:
    assert record(ReasoningMessageStartEvent).stamps == ("type", "role")
    assert _RECORDS["ToolCall"].stamps == ("type",)
    assert _RECORDS["ToolCallResultEvent"].stamps == ("type",)


def test_the_classes_in_which_strict_validation_alone_vouches_for_nothing() -> None:
    assert {model.__name__ for model in EVENT_MODELS.values() if not members(model).plain} == {
        "ReasoningMessageStartEvent"
    }


def test_the_members_with_objects_of_the_protocol_inside() -> None:
    nested = {model.__name__: members(model).nested for model in EVENT_MODELS.values() if members(model).nested}
    assert nested == {
        "MessagesSnapshotEvent": {"messages"},
        "RunErrorEvent": {"usage"},
        "RunFinishedEvent": {"outcome", "usage"},
        "RunStartedEvent": {"input"},
        "SubagentFinishedEvent": {"outcome"},
        "ToolCallResultEvent": {"content"},
    }


def test_optional_members_are_named_as_in_python() -> None:
    optional = {"timestamp", "raw_event", "metadata", "subagent_run_id"}
    assert members(EVENT_MODELS["CUSTOM"]).optional == optional
    assert members(ReasoningMessageStartEvent).optional == optional


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


_PARTS: st.SearchStrategy[Any] = st.sampled_from([None, "x", [], [{"type": "text", "text": "x"}], [{"text": "x"}]])
_CALLS: list[Any] = [
    [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
    [{"id": "c", "function": {"name": "f", "arguments": ""}}],
    [],
]
_NEEDED: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text(max_size=2),
    "role": st.sampled_from(["user", "assistant", "reasoning", "narrator"]),
}
_OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "content": _PARTS,
    "metadata": st.sampled_from([None, {"a": None}]),
    "unknown": st.just(1),
    "toolCalls": st.sampled_from(_CALLS),
}
_MESSAGES: st.SearchStrategy[Any] = st.lists(st.fixed_dictionaries(_NEEDED, optional=_OPTIONAL), max_size=2)


@st.composite
def _guesses(draw: st.DrawFn) -> dict[str, Any]:
    """An object with the type of an event, and anything at all in its members."""
    model = draw(st.sampled_from(sorted(EVENT_MODELS.values(), key=lambda model: model.__name__)))
    slots = record(model).slots
    words: list[Any] = ["assistant", "message", "reasoning", True, 7]
    likely: st.SearchStrategy[Any] = _JSON | st.text(max_size=3) | st.sampled_from(words) | _MESSAGES
    given_members = draw(st.dictionaries(st.sampled_from(sorted(slots)), likely))
    needed = {wire: draw(likely) for wire, slot in slots.items() if slot.required and wire != "role"}
    return {**needed, **given_members, "type": model.model_fields["type"].default.value}


@given(_guesses())
def test_what_strict_validation_has_made_and_conforms_passes_validation_unchanged(data: dict[str, Any]) -> None:
    try:
        event: BaseEvent = _EVENTS.validate_python(data, strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return
    if not conforms(event):
        return
    warnings = WarningLog()
    assert Validator(warnings).feed(UnrecognizedEvent(data["type"], data)) == event
    assert warnings.records() == []
