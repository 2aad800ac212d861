"""The structure read off the official models agrees with the JSON Schema that pydantic makes of the same models."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import BaseEvent, Event, ReasoningMessageStartEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agui_client._pipeline.enforce import Enforcer
from agui_client._pipeline.events import UnrecognizedEvent
from agui_client._pipeline.schema import (
    EVENT_MODELS,
    OPTIONAL_FIELDS,
    SHALLOW,
    Anything,
    Choice,
    Integer,
    Items,
    OpenObject,
    Pinned,
    Record,
    Scalar,
    Shape,
    TextOrItems,
    Variants,
    record,
)
from agui_client._pipeline.warnings import WarningLog

_EVENTS = TypeAdapter[Event](Event)
_DEFINITIONS: dict[str, Any] = _EVENTS.json_schema(by_alias=True)["$defs"]


def _records(shape: Shape) -> dict[str, Record]:
    match shape:
        case Record(model=model, slots=slots):
            found = {model.__name__: shape}
            for slot in slots.values():
                found |= _records(slot.shape)
            return found
        case Variants(members=members):
            return {name: inner for member in members.values() for name, inner in _records(member).items()}
        case Items(item=item):
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
        case Items(item=item):
            return schema["type"] == "array" and _agrees(item, schema["items"])
        case TextOrItems(items=items):
            text, array = schema["anyOf"]
            return text == {"type": "string"} and _agrees(items, array)
        case Variants():
            refs = {tag: _reference(member) for tag, member in shape.members.items()}
            return bool(schema["discriminator"] == {"mapping": refs, "propertyName": shape.discriminator})
        case Record():
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
        case Choice(values=values):
            return values == frozenset(schema["enum"])
        case OpenObject():
            return schema == {"type": "object", "additionalProperties": True}
        case _:
            return isinstance(shape, Anything) and not schema


def _reference(structure: Record) -> str:
    return f"#/$defs/{structure.model.__name__}"


def test_every_event_type_has_its_class() -> None:
    assert {name: model.__name__ for name, model in EVENT_MODELS.items()} == {
        tag: reference.rpartition("/")[2]
        for tag, reference in _EVENTS.json_schema(by_alias=True)["discriminator"]["mapping"].items()
    }


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


def test_the_classes_that_strict_validation_alone_cannot_vouch_for() -> None:
    assert {model.__name__ for model in EVENT_MODELS.values()} - {model.__name__ for model in SHALLOW} == {
        "MessagesSnapshotEvent",
        "ReasoningMessageStartEvent",
        "RunErrorEvent",
        "RunFinishedEvent",
        "RunStartedEvent",
        "SubagentFinishedEvent",
        "ToolCallResultEvent",
    }


def test_optional_fields_are_named_as_in_python() -> None:
    assert OPTIONAL_FIELDS[EVENT_MODELS["CUSTOM"]] == {"timestamp", "raw_event", "metadata", "subagent_run_id"}
    assert OPTIONAL_FIELDS[ReasoningMessageStartEvent] == {"timestamp", "raw_event", "metadata", "subagent_run_id"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def _shallow_guesses(draw: st.DrawFn) -> dict[str, Any]:
    """An object with the type of a shallow event, and anything at all in its members."""
    model = draw(st.sampled_from(sorted(SHALLOW, key=lambda model: model.__name__)))
    slots = record(model).slots
    likely = _JSON | st.text(max_size=3) | st.sampled_from(["assistant", "message", True, 7])
    members = draw(st.dictionaries(st.sampled_from(sorted(slots)), likely))
    needed = {wire: draw(likely) for wire, slot in slots.items() if slot.required}
    return {**needed, **members, "type": model.model_fields["type"].default.value}


@given(_shallow_guesses())
def test_what_strict_validation_lets_pass_of_a_shallow_class_conforms(data: dict[str, Any]) -> None:
    try:
        event: BaseEvent = _EVENTS.validate_python(data, strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return
    nulls = [name for name in event.model_fields_set & OPTIONAL_FIELDS[type(event)] if getattr(event, name) is None]
    if nulls or event.__pydantic_extra__:
        return
    warnings = WarningLog()
    assert Enforcer(warnings).feed(UnrecognizedEvent(data["type"], data)) == event
    assert warnings.records() == []
