"""Python values as JSON: models by their wire names, and values that JSON cannot hold refused instead of converted.

An application and an agent of this process build Python objects, and assignments to them are not checked. `write` makes
JSON of a model that conforms, at the speed of compiled code; `members_as_json` makes JSON of any model, to be validated
(INPUT-3, INPUT-6). The models' own serialisation converts or fails at the values that are to be validated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import Any, cast

from ag_ui.core.types import ConfiguredBaseModel
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter
from pydantic_core import SchemaSerializer, core_schema, to_jsonable_python
from pydantic_core.core_schema import CoreSchema

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.json_reading import DEEPEST_READ, load_json
from agui_client._core.protocol import schema
from agui_client._core.protocol.patch import DEEPEST_TEXT, nests_deeper
from agui_client._core.protocol.problems import Refusal
from agui_client._core.protocol.schema import is_object, is_text

_is_json = TypeAdapter[Any](JsonValue, config=ConfigDict(strict=True, allow_inf_nan=False)).validator.isinstance_python
_SURELY_FITS = 100
"""Levels of an open value that fit wherever it lies; deeper ones are left to those who count exactly."""


def object_in(text: str | None) -> dict[str, Any]:
    """Return the JSON object that a text holds; an empty one for anything else."""
    try:
        value: object = load_json(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if is_object(value) else {}


def members_as_json(
    model: ConfiguredBaseModel, refusals: list[Refusal], *, keeps_halves: bool = False
) -> dict[str, Any]:
    """Return the members of an official model as JSON.

    Args:
        model: Any model: its fields may hold anything, and None in an optional one means absent (PROC-17).
        refusals: The list that receives the values that JSON cannot hold.
        keeps_halves: Whether halves of characters stay, for a caller that joins or replaces them.

    Returns:
        A new object with JSON values all the way down.
    """
    plain: dict[str, Any] = {}
    for name, value in _members(model):
        if keeps_halves and type(value) is str:
            plain[name] = value  # nothing can be wrong with it, as with nearly all members of events
            continue
        try:
            plain[name] = _as_json(value, pointer("", name), refusals, keeps_halves=keeps_halves)
            is_too_deep = nests_deeper(plain[name], DEEPEST_TEXT - 1)
        except RecursionError:
            is_too_deep = True
        if is_too_deep:
            refusals.append(Refusal(pointer("", name), "contains itself, or is nested too deeply"))
    return plain


def _members(model: ConfiguredBaseModel) -> Iterator[tuple[str, Any]]:
    """Yield the wire names and values of a model's members, unknown ones at the end."""
    fields = type(model).model_fields
    for name, value in model.__dict__.items():
        field = fields.get(name)
        if value is None and field is not None and not field.is_required() and field.default is None:
            continue
        yield field.alias or name if field is not None else name, value
    yield from (model.__pydantic_extra__ or {}).items()


def _as_json(value: Any, path: str, refusals: list[Refusal], *, keeps_halves: bool) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return _text(value, path, refusals, keeps_halves=keeps_halves)
        case float():
            if not math.isfinite(value):
                refusals.append(Refusal(path, f"is {value}, which is not a JSON number"))
            return value
        case _ if path.count("/") > DEEPEST_READ:
            raise RecursionError("it has too many levels")
        case ConfiguredBaseModel():
            return _object(_members(value), path, refusals, keeps_halves=keeps_halves)
        case _ if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
            return _foreign(value, path, refusals, keeps_halves=keeps_halves)
        case _ if is_object(value):
            return _object(value.items(), path, refusals, keeps_halves=keeps_halves)
        case list() | tuple():
            return [
                _as_json(item, f"{path}/{index}", refusals, keeps_halves=keeps_halves)
                for index, item in enumerate(cast("list[Any]", value))
            ]
        case _:
            refusals.append(Refusal(path, f"is of type {type(value).__name__}, which JSON cannot hold"))
            return None


def _object(
    members: Iterable[tuple[Any, Any]], path: str, refusals: list[Refusal], *, keeps_halves: bool
) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in members:
        if isinstance(name, str) and (keeps_halves or is_text(name)):
            plain[name] = _as_json(value, pointer(path, name), refusals, keeps_halves=keeps_halves)
        else:
            refusals.append(Refusal(path, f"has a name of type {type(name).__name__} that is not text"))
    return plain


def _foreign(model: object, path: str, refusals: list[Refusal], *, keeps_halves: bool) -> Any:
    """Return an application's own model or dataclass, among its data, as pydantic serialises it."""
    try:
        return _as_json(to_jsonable_python(model, by_alias=True), path, refusals, keeps_halves=keeps_halves)
    except ValueError:
        refusals.append(Refusal(path, f"is a {type(model).__name__} that cannot be written as JSON"))
        return None


def _text(value: str, path: str, refusals: list[Refusal], *, keeps_halves: bool) -> str:
    if not (keeps_halves or is_text(value)):
        refusals.append(Refusal(path, "holds half of a character (a lone surrogate)"))
    return str(value.value) if isinstance(value, Enum) else value


def write(model: BaseModel) -> bytes:
    """Return a model as JSON if it conforms: as `model_dump_json(by_alias=True)`, in a third of the time.

    Args:
        model: An official model, however it was made or changed.

    Raises:
        ValueError: It does not conform, or is too deep to be sure of it.
    """
    return _writer(type(model)).to_json(model, by_alias=True, exclude_none=True, warnings="error")


@cache
def _writer(model: type[BaseModel]) -> SchemaSerializer:
    return SchemaSerializer(_schema(schema.record(model)))


def _schema(shape: schema.Shape) -> CoreSchema:
    match shape:
        case schema.ObjectSchema():
            return _object_schema(shape)
        case schema.Variants(members=members):
            choices = {tag: _object_schema(member) for tag, member in members.items()}
            discriminator = next(iter(members.values())).slots[shape.discriminator].name
            return core_schema.tagged_union_schema(choices, discriminator)
        case schema.ListSchema(item=item):
            return core_schema.list_schema(_schema(item))
        case schema.TextOrItems(items=items):
            return core_schema.union_schema([core_schema.str_schema(), _schema(items)])
        case schema.Pinned(value=value):
            return core_schema.literal_schema([value])
        case schema.ChoiceSchema(values=values):
            return core_schema.literal_schema(sorted(values))
        case schema.Integer():
            return core_schema.int_schema()
        case schema.Anything() | schema.OpenObject():
            return _read_by(_checked)
        case _:
            return core_schema.str_schema()


def _object_schema(structure: schema.ObjectSchema) -> CoreSchema:
    """Return the schema of an official class: that of a dict, which is read off the model."""
    fields = {
        slot.name: core_schema.typed_dict_field(_schema(slot.shape), serialization_alias=wire_name)
        for wire_name, slot in structure.slots.items()
    }
    return _read_by(_reader(structure), core_schema.typed_dict_schema(fields))


def _read_by(read: Callable[[Any], Any], schema: CoreSchema | None = None) -> CoreSchema:
    read_as = core_schema.plain_serializer_function_ser_schema(read, return_schema=schema)
    return core_schema.any_schema(serialization=read_as)


def _reader(structure: schema.ObjectSchema) -> Callable[[Any], Any]:
    model = structure.model
    required = [slot.name for slot in structure.slots.values() if slot.required]
    # A second time the first, since the getter of one item returns no tuple; and there is none of no items.
    get_required = itemgetter(*required, required[0]) if required else tuple

    def read(value: Any) -> Any:
        """Return the members of a model of this class and no other, if all that is required is there."""
        if type(value) is not model or value.__pydantic_extra__ or None in get_required(value.__dict__):
            raise ValueError
        return value.__dict__

    return read


def _checked(value: Any) -> Any:
    """Return an open value if it is JSON."""
    if not _is_json(value) or nests_deeper(value, _SURELY_FITS):
        raise ValueError
    return value
