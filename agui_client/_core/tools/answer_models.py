"""Typed answers: a pydantic model from an interrupt's `responseSchema` (INT-7).

The agent wrote the schema: nothing in it is fetched, and no name in it is evaluated as Python. A model can be more
lenient than its schema, by which the answer is checked when it is sent, as for patterns.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import Interrupt
from pydantic import BaseModel, RootModel

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.json_schema import is_usable, referred_part
from agui_client._core.tools.schema_keywords import MOST_REFERENCES_WITHIN
from agui_client.errors import UsageError

_IN_A_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ALONE = frozenset({"items", "additionalProperties", "not"})
_LEFT_OUT = frozenset({"$defs", "definitions", "pattern"})
_BEFORE_TYPE = frozenset({"anyOf", "oneOf", "allOf", "not", "const"})
"""Keywords for which the converter does not look at the type."""
_MOST_VALUES = 3000
"""The most values of a schema, with its references followed: the time to make a model grows with them."""


def answer_model(interrupt: Interrupt) -> type[BaseModel] | None:
    """Make a model for the answer to an interrupt: fill it in, and answer with `Resolve(model)`.

    `Model = answer_model(interrupt)`, then `resume={interrupt.id: Resolve(Model(quarter="Q1", year=2026))}`. Its fields
    have the names, descriptions and constraints of the schema's properties; a form can be made from
    `Model.model_fields`. It needs the extra `answers`.

    Returns:
        A model; None if the interrupt has no `responseSchema`, or one that does not describe one object, that no model
        can be made of, or that is larger than a person can answer.

    Raises:
        UsageError: The extra is not installed.
    """
    schema = interrupt.response_schema
    if schema is None:
        return None
    try:
        from jsonschema_pydantic_converter import transform
    except ImportError as missing:
        raise UsageError(
            "answer_model needs jsonschema-pydantic-converter: pip install 'agui-client[answers]'"
        ) from missing

    try:
        model = transform(_converted(schema))
    except Exception:
        # A broken schema shows in any exception of the converter or of pydantic.
        return None
    return None if issubclass(model, RootModel) else model


def _converted(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as the converter takes it: with references followed, and one type at a time.

    The converter makes names of references, which Python evaluates.

    Raises:
        ValueError: The schema is too large, or refers to itself or too far.
    """
    if not is_usable(schema, _MOST_VALUES):
        raise ValueError("the schema is too large")

    followed: list[str] = []

    def convertible(part: Any) -> Any:
        """Return a part of the schema as the converter takes it."""
        if not is_object(part):
            return part
        if isinstance(reference := part.get("$ref"), str):
            if reference in followed or len(followed) == MOST_REFERENCES_WITHIN:
                raise ValueError("the schema refers to itself, or too far")
            followed.append(reference)
            part = {**referred_part(schema, reference), **{key: part[key] for key in part if key != "$ref"}}
            converted = convertible(part)
            followed.pop()
            return converted
        converted = {key: member(key, value) for key, value in part.items() if key not in _LEFT_OUT}
        kinds = part.get("type")
        if is_array(kinds) and _BEFORE_TYPE.isdisjoint(part):
            return {**converted, "anyOf": [{**converted, "type": kind} for kind in dict.fromkeys(kinds)]}
        return converted

    def member(keyword: str, value: Any) -> Any:
        """Return the value of a keyword as the converter takes it."""
        if keyword in _ALONE:
            return convertible(value)
        if keyword == "properties" and is_object(value):
            return {name: convertible(schema) for name, schema in value.items()}
        return list(map(convertible, value)) if keyword in _IN_A_LIST and is_array(value) else value

    converted: dict[str, Any] = convertible(schema)
    return converted
