"""What the protocol describes, read off the official models of `ag_ui.core`: names, slots, unions, closed sets.

Nothing of the protocol is written down a second time here, with one exception: that patch operations are open objects
(PROC-10) cannot be seen on the models. What is done about material that does not fit is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, Union, get_args, get_origin

from ag_ui.core import BaseEvent, Event, StateDeltaEvent
from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string or boolean: without parts, so that validation alone judges it."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value; null too where the field is required (PROC-17)."""


@dataclass(frozen=True, slots=True)
class OpenObject:
    """An object whose members are data, nulls included (PROC-10)."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A JSON integer, which 5.0 is as well."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A string that can have one value only: another one is malformed, not unknown (PROC-18)."""

    value: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A closed set of strings: another string is an unknown member (PROC-18)."""

    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    item: Shape


@dataclass(frozen=True, slots=True)
class TextOrItems:
    """A string or a list."""

    items: Items


@dataclass(frozen=True, slots=True)
class Variants:
    """Objects told apart by a string in one of their members; another string is an unknown member (PROC-9)."""

    discriminator: str
    """Wire name of the telling member."""
    members: Mapping[str, Record]
    """The object for each value of the discriminator."""


@dataclass(frozen=True, slots=True)
class Record:
    """An object the protocol describes."""

    model: type[BaseModel]
    """The official class."""
    slots: Mapping[str, Slot]
    """Its members by wire name."""
    stamps: tuple[str, ...]
    """Wire names of pinned members that are required, though the official class fills them in when they are missing."""
    is_open: bool
    """Whether members beyond these are data rather than unknown material."""


Shape: TypeAlias = Scalar | Anything | OpenObject | Integer | Pinned | Choice | Items | TextOrItems | Variants | Record


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one member in an object."""

    name: str
    """The Python name of the field."""
    required: bool
    """Whether the member must be there; an optional one may be absent but never null (PROC-17)."""
    shape: Shape
    """What may stand there."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


@cache
def record(model: type[BaseModel]) -> Record:
    """The structure of an official model.

    Args:
        model: A class of `ag_ui.core`.

    Returns:
        Its members by wire name; the same object on every call.
    """
    slots: dict[str, Slot] = {}
    stamps: list[str] = []
    for name, field in model.model_fields.items():
        wire_name = field.alias or name
        is_stamp = not field.is_required() and field.default is not None
        if is_stamp:
            stamps.append(wire_name)
        slots[wire_name] = Slot(name, field.is_required() or is_stamp, _shape(field.annotation, field.discriminator))
    return Record(model, slots, tuple(stamps), is_open=model in _open_models())


def _shape(annotation: Any, discriminator: object = None) -> Shape:
    """What an annotation allows besides null, which only tells an optional field."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        return _shape(inner, next((m.discriminator for m in marks if isinstance(m, FieldInfo)), None))
    if origin is Union:
        return _union([member for member in get_args(annotation) if member is not NoneType], discriminator)
    if origin is list:
        return Items(_shape(get_args(annotation)[0]))
    if origin is dict:
        return OpenObject()
    if origin is Literal:
        return _literal([str(value.value if isinstance(value, Enum) else value) for value in get_args(annotation)])
    return _plain(annotation)


def _union(members: list[Any], discriminator: object) -> Shape:
    if len(members) == 1:
        return _shape(members[0])
    if isinstance(discriminator, str):
        return _variants([record(member) for member in members], discriminator)
    lists = [shape for shape in map(_shape, members) if isinstance(shape, Items)]
    return TextOrItems(lists[0]) if lists else Anything()


def _variants(records: list[Record], discriminator: str) -> Variants:
    wire_name = next(wire for wire, slot in records[0].slots.items() if slot.name == discriminator)
    members: dict[str, Record] = {}
    for member in records:
        tag = member.slots[wire_name].shape
        if isinstance(tag, Pinned):
            members[tag.value] = member
    return Variants(wire_name, members)


def _literal(values: list[str]) -> Shape:
    return Pinned(values[0]) if len(values) == 1 else Choice(frozenset(values))


def _plain(annotation: Any) -> Shape:
    if annotation is Any:
        return Anything()
    if annotation is int:
        return Integer()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return record(annotation)
    return Scalar()


@cache
def _open_models() -> frozenset[type[BaseModel]]:
    # The hand-stated fact: RFC 6902 makes members that an operation does not define something to ignore (PROC-10).
    (operations,) = get_args(StateDeltaEvent.model_fields["delta"].annotation)
    return frozenset(get_args(get_args(operations)[0]))


def _is_leaf(shape: Shape) -> bool:
    """Whether strict validation of the shape is the whole verdict on it."""
    match shape:
        case Record(is_open=is_open):
            return is_open
        case Variants(members=members):
            return all(member.is_open for member in members.values())
        case Items(item=item):
            return _is_leaf(item)
        case TextOrItems(items=items):
            return _is_leaf(items)
        case _:
            return True


def _is_shallow(structure: Record) -> bool:
    return structure.stamps == ("type",) and all(_is_leaf(slot.shape) for slot in structure.slots.values())


EVENT_MODELS: dict[str, type[BaseEvent]] = {
    str(model.model_fields["type"].default.value): model for model in get_args(get_args(Event)[0])
}
"""The class of every event type."""

SHALLOW: frozenset[type[BaseEvent]] = frozenset(model for model in EVENT_MODELS.values() if _is_shallow(record(model)))
"""Classes whose events conform if strict validation passes and they hold no extras and no null for an optional field.

Left out are those with closed objects inside, and those with a required member that the class would fill in.
"""

OPTIONAL_FIELDS: dict[type[BaseEvent], frozenset[str]] = {
    model: frozenset(slot.name for slot in record(model).slots.values() if not slot.required)
    for model in EVENT_MODELS.values()
}
"""Python names of the fields that may be absent, of every event class."""
