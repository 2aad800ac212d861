"""The protocol's structure, read off the official models of `ag_ui.core`: names, slots, unions, closed sets.

Nothing of the protocol is written down a second time here, with one exception: that patch operations are open objects
(PROC-10) cannot be seen on the models. Other modules decide what is done about material that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

from ag_ui.core import BaseEvent, Event, StateDeltaEvent
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ModelT = TypeVar("ModelT", bound=BaseModel)

new_model = object.__new__
"""Makes an official model without values; `set_…` then give it its four parts, as validation does."""
set_values, set_given, set_extra, set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class Scalar:
    """A string or boolean, without parts."""


class Anything:
    """Any JSON value; null too where the field is required (PROC-17)."""


class OpenObject:
    """An object whose members are data, nulls included (PROC-10)."""


class Integer:
    """A JSON integer, which 5.0 is as well."""


@dataclass(eq=False, repr=False)
class Pinned:
    """A string with one allowed value: another one is malformed, not unknown (PROC-18)."""

    value: str


@dataclass(eq=False, repr=False)
class ChoiceSchema:
    """A closed set of strings: another string is an unknown member (PROC-18)."""

    values: frozenset[str]


@dataclass(eq=False, repr=False)
class ListSchema:
    """A list."""

    item: Shape


@dataclass(eq=False, repr=False)
class TextOrItems:
    """A string or a list."""

    items: ListSchema


@dataclass(eq=False, repr=False)
class Variants:
    """Objects distinguished by a string in one of their members; another string is an unknown member (PROC-9)."""

    discriminator: str
    """The wire name of that member."""
    members: Mapping[str, ObjectSchema]
    """The object for each value of the discriminator."""


@dataclass(eq=False, repr=False)
class ObjectSchema:
    """An object the protocol describes."""

    model: type[BaseModel]
    """The official class."""
    slots: Mapping[str, Slot]
    """Its members by wire name."""
    stamps: tuple[str, ...]
    """Wire names of pinned members that are required, though the official class fills them in when they are missing."""
    is_open: bool
    """Whether members beyond these are data rather than unknown material."""


Shape: TypeAlias = (
    Scalar
    | Anything
    | OpenObject
    | Integer
    | Pinned
    | ChoiceSchema
    | ListSchema
    | TextOrItems
    | Variants
    | ObjectSchema
)


@dataclass(eq=False, repr=False)
class Slot:
    """The place of one member in an object."""

    name: str
    """The Python name of the field."""
    required: bool
    """Whether the member must be there; an optional one may be absent but never null (PROC-17)."""
    shape: Shape
    """The values that are allowed there."""


def is_a(value: object, kind: type | UnionType) -> bool:
    """Return whether a value is of a type.

    For arguments of the application: type checkers take their annotations for granted, and would report the test.
    """
    return isinstance(value, kind)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def is_text(value: str) -> bool:
    """Return whether a string holds whole characters only, no lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def assembled(kind: type[ModelT], values: dict[str, Any], given: set[str], extra: dict[str, Any]) -> ModelT:
    """Return an official model of values that conform, of which it keeps all parts: nothing is checked or copied."""
    model = new_model(kind)
    set_values(model, values)
    set_given(model, given)
    set_extra(model, extra)
    set_private(model, None)
    return model


def successor(model: ModelT, changes: dict[str, Any]) -> ModelT:
    """Return a copy of an official model with changes: `model_copy` in a third of the time."""
    extra = model.__pydantic_extra__
    given = {*model.__pydantic_fields_set__, *changes}
    return assembled(type(model), {**model.__dict__, **changes}, given, extra.copy() if extra else {})


# The hand-stated fact: RFC 6902 makes members that an operation does not define something to ignore (PROC-10).
(_OPERATION,) = get_args(StateDeltaEvent.model_fields["delta"].annotation)
_OPEN_MODELS = frozenset(get_args(get_args(_OPERATION)[0]))


@cache
def record(model: type[BaseModel]) -> ObjectSchema:
    """Return the structure of an official model.

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
    return ObjectSchema(model, slots, tuple(stamps), is_open=model in _OPEN_MODELS)


def _shape(annotation: Any, discriminator: object = None) -> Shape:
    """Return what an annotation allows besides null, which only marks an optional field."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        return _shape(inner, next((m.discriminator for m in marks if isinstance(m, FieldInfo)), None))
    if origin is Union:
        return _union([member for member in get_args(annotation) if member is not NoneType], discriminator)
    if origin is list:
        return ListSchema(_shape(get_args(annotation)[0]))
    if origin is dict:
        return OpenObject()
    if origin is Literal:
        values = [str(value.value if isinstance(value, Enum) else value) for value in get_args(annotation)]
        return Pinned(values[0]) if len(values) == 1 else ChoiceSchema(frozenset(values))
    if annotation is Any:
        return Anything()
    if annotation is int:
        return Integer()
    return record(annotation) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else Scalar()


def _union(members: list[Any], discriminator: object) -> Shape:
    if len(members) == 1:
        return _shape(members[0])
    if isinstance(discriminator, str):
        records = [record(member) for member in members]
        wire_name = next(wire for wire, slot in records[0].slots.items() if slot.name == discriminator)
        tags = [(member.slots[wire_name].shape, member) for member in records]
        return Variants(wire_name, {tag.value: member for tag, member in tags if isinstance(tag, Pinned)})
    lists = [shape for shape in map(_shape, members) if isinstance(shape, ListSchema)]
    return TextOrItems(lists[0]) if lists else Anything()


@dataclass(eq=False, repr=False)
class _Members:
    """The members of an official class, by what strict validation of JSON does not see in them."""

    plain: frozenset[str]
    """Those that need no more than validation, unless they are null; none if the class fills a required one in."""
    optional: frozenset[str]
    """Those for which validation accepts null, although they should be absent."""
    filled_in: frozenset[str]
    """Those that validation accepts as missing, although they are required."""
    nested: frozenset[str]
    """Those with official objects inside."""


@cache
def members(model: type[BaseModel]) -> _Members:
    """Return the Python names of a class's members, sorted by what has to be looked at after strict validation."""
    structure = record(model)
    slots = structure.slots.values()
    plain = frozenset(slot.name for slot in slots if isinstance(slot.shape, Scalar | Integer | Pinned | ChoiceSchema))
    return _Members(
        plain=plain if set(structure.stamps) <= {"type"} else frozenset(),
        optional=frozenset(slot.name for slot in slots if not slot.required),
        filled_in=frozenset(structure.slots[wire_name].name for wire_name in structure.stamps),
        nested=frozenset(slot.name for slot in slots if _has_closed_objects(slot.shape)),
    )


def conforms(model: BaseModel, *, has_nulls: bool = True) -> bool:
    """Return whether a model that strict validation of JSON has made has all that was in the JSON, and nothing else.

    Validation lets pass unknown members, null for an optional member, and a missing one that the class fills in.

    Args:
        model: Made of JSON by strict validation.
        has_nulls: Whether there may be a null in it.
    """
    models = [model]  # those inside come to it as they are found
    for each in models:
        found, fields = members(type(each)), each.__dict__
        if each.__pydantic_extra__ or not found.filled_in <= each.__pydantic_fields_set__:
            return False
        if has_nulls and None in map(fields.get, found.optional & each.__pydantic_fields_set__):
            return False
        for name in found.nested:
            value: Any = fields[name]
            # Most nested members are texts or absent, of which a snapshot has thousands.
            if value is None or type(value) is str:
                continue
            models += value if is_array(value) else (value,)
    return True


def _has_closed_objects(shape: Shape) -> bool:
    match shape:
        case ObjectSchema(is_open=is_open):
            return not is_open
        case Variants(members=variants):
            return not all(variant.is_open for variant in variants.values())
        case ListSchema(item=item) | TextOrItems(items=ListSchema(item=item)):
            return _has_closed_objects(item)
        case _:
            return False


EVENT_MODELS: dict[str, type[BaseEvent]] = {
    str(model.model_fields["type"].default.value): model for model in get_args(get_args(Event)[0])
}
"""The class of every event type."""
