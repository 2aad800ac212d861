"""Typed answers: a pydantic model from an interrupt's `responseSchema` (INT-7).

The agent wrote the schema: nothing in it is fetched, and no name in it is evaluated as Python. A model can be more
lenient than its schema, which has the last word when the answer is sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel

from agui_client._pipeline.schema import is_array, is_object

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

# Converters make references to names, and Python finds names by evaluating them: only what is plainly a name is one.
_REFERENCE = re.compile(r"#/(\$defs|definitions)/[\w.-]+", re.ASCII)
_BY_NAME = frozenset({"properties", "$defs", "definitions"})
_IN_A_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ALONE = frozenset({"items", "additionalProperties", "not"})


def answer_model(interrupt: Interrupt) -> type[BaseModel] | None:
    """A model for the answer to an interrupt: fill it in, and answer with `Resolve(model)`.

    `Model = answer_model(interrupt)`, then `resume={interrupt.id: Resolve(Model(quarter="Q1", year=2026))}`. Its fields
    have the names, descriptions and constraints of the schema's properties; a form can be made from
    `Model.model_fields`.

    Args:
        interrupt: What was asked.

    Returns:
        A model; None if the interrupt has no `responseSchema`, or one that does not describe one object, or that no
        model can be made of.
    """
    schema = interrupt.response_schema
    if schema is None:
        return None
    # Loaded when somebody asks for a model.
    from jsonschema_pydantic_converter import transform

    try:
        return _object_model(transform(_convertible(schema)))
    except Exception:
        # What is wrong with a schema shows in whatever the converter or pydantic trips over.
        return None


def _object_model(model: type[BaseModel]) -> type[BaseModel] | None:
    """The model if it is an object's, or the one that a root which only refers to an object refers to."""
    if not issubclass(model, RootModel):
        return model
    root = model.model_fields["root"].annotation
    return root if isinstance(root, type) and issubclass(root, BaseModel) else None


def _convertible(schema: Any) -> Any:
    """The schema as the converter takes it: references to names, and one type at a time.

    Raises:
        ValueError: A reference is to something else.
    """
    if not is_object(schema):
        return schema
    reference = schema.get("$ref")
    if reference is not None and not _REFERENCE.fullmatch(reference):
        raise ValueError("a reference to something else than a definition of this schema")
    converted = {key: _subschemas(key, value) for key, value in schema.items()}
    kinds = schema.get("type")
    if is_array(kinds):
        return {**converted, "anyOf": [{**converted, "type": kind} for kind in kinds]}
    return converted


def _subschemas(keyword: str, value: Any) -> Any:
    if keyword in _ALONE:
        return _convertible(value)
    if keyword in _BY_NAME and is_object(value):
        return {name: _convertible(schema) for name, schema in value.items()}
    if keyword in _IN_A_LIST and is_array(value):
        return [_convertible(schema) for schema in value]
    return value
