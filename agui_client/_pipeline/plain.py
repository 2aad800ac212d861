"""Python values as JSON: models by their wire names, and what JSON cannot hold named instead of converted on a guess.

What an application or an agent of this process builds is Python, and judged by the JSON it stands for. The models' own
serialisation is not used: it stumbles over the values that are to be judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeGuard

from ag_ui.core.types import ConfiguredBaseModel
from pydantic import BaseModel

from agui_client._pipeline.extent import DEEPEST_TEXT, nests_deeper
from agui_client._pipeline.refusal import Refusal, pointer
from agui_client._pipeline.schema import is_object


def members_as_json(model: ConfiguredBaseModel, refusals: list[Refusal]) -> dict[str, Any]:
    """The members of an official model as JSON.

    Args:
        model: Of any provenance: its fields may hold anything, and None in an optional one means absent (PROC-17).
        refusals: Where the values are noted that JSON cannot hold.

    Returns:
        A new object with JSON values all the way down.
    """
    plain: dict[str, Any] = {}
    for name, value in _members(model):
        try:
            plain[name] = _as_json(value, pointer("", name), refusals)
            is_too_deep = nests_deeper(plain[name], DEEPEST_TEXT - 1)
        except RecursionError:
            is_too_deep = True
        if is_too_deep:
            refusals.append(Refusal(pointer("", name), "contains itself, or is nested too deeply"))
    return plain


def _members(model: ConfiguredBaseModel) -> Iterator[tuple[str, Any]]:
    """Wire names and values of what a model holds, unknown properties at the end."""
    fields = type(model).model_fields
    for name, value in model.__dict__.items():
        field = fields.get(name)
        if value is None and field is not None and not field.is_required() and field.default is None:
            continue
        yield field.alias or name if field is not None else name, value
    yield from (model.__pydantic_extra__ or {}).items()


def _as_json(value: Any, path: str, refusals: list[Refusal]) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return _text(value, path, refusals)
        case float():
            if not math.isfinite(value):
                refusals.append(Refusal(path, f"is {value}, which is no JSON number"))
            return value
        case ConfiguredBaseModel():
            return _object(_members(value), path, refusals)
        case BaseModel():
            return _foreign(value, path, refusals)
        case _ if is_object(value):
            return _object(value.items(), path, refusals)
        case _ if _is_row(value):
            return [_as_json(item, f"{path}/{index}", refusals) for index, item in enumerate(value)]
        case _:
            refusals.append(Refusal(path, f"is of type {type(value).__name__}, which JSON cannot hold"))
            return None


def _object(members: Iterable[tuple[Any, Any]], path: str, refusals: list[Refusal]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in members:
        if isinstance(name, str) and _is_text(name):
            plain[name] = _as_json(value, pointer(path, name), refusals)
        else:
            refusals.append(Refusal(path, f"has a name of type {type(name).__name__} that is no text"))
    return plain


def _foreign(model: BaseModel, path: str, refusals: list[Refusal]) -> Any:
    """An application's own model, among its data, written as it says itself."""
    try:
        return _as_json(model.model_dump(mode="json", by_alias=True), path, refusals)
    except ValueError:
        refusals.append(Refusal(path, f"is a {type(model).__name__} that cannot be written as JSON"))
        return None


def _text(value: str, path: str, refusals: list[Refusal]) -> str:
    if not _is_text(value):
        refusals.append(Refusal(path, "holds half of a character (a lone surrogate)"))
    return str(value.value) if isinstance(value, Enum) else value


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_row(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)
