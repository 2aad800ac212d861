"""Typed answers: a pydantic model from an interrupt's `responseSchema` (INT-7).

The agent wrote the schema: nothing in it is fetched, and no name in it is evaluated as Python. A model can be more
lenient than its schema, which has the last word when the answer is sent: patterns, for instance, are left to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel

from agui_client._answers.judging import is_modest
from agui_client._pipeline.schema import is_array, is_object

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

_IN_A_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ALONE = frozenset({"items", "additionalProperties", "not"})
_LEFT_OUT = frozenset({"$defs", "definitions", "pattern"})
_BEFORE_TYPE = frozenset({"$ref", "anyOf", "oneOf", "allOf", "not", "const"})
"""Keywords for which the converter does not look at the type."""
_MOST_VALUES = 3000
"""What a model takes to make and to fill in grows with the values of its schema, once its references are followed."""


def answer_model(interrupt: Interrupt) -> type[BaseModel] | None:
    """A model for the answer to an interrupt: fill it in, and answer with `Resolve(model)`.

    `Model = answer_model(interrupt)`, then `resume={interrupt.id: Resolve(Model(quarter="Q1", year=2026))}`. Its fields
    have the names, descriptions and constraints of the schema's properties; a form can be made from
    `Model.model_fields`.

    Args:
        interrupt: What was asked.

    Returns:
        A model; None if the interrupt has no `responseSchema`, or one that does not describe one object, that no model
        can be made of, or that is larger than a person can answer.
    """
    schema = interrupt.response_schema
    if schema is None:
        return None
    # Loaded when somebody asks for a model.
    from jsonschema_pydantic_converter import transform

    try:
        return _object_model(transform(_Conversion(schema).converted()))
    except Exception:
        # What is wrong with a schema shows in whatever the converter or pydantic trips over.
        return None


def _object_model(model: type[BaseModel]) -> type[BaseModel] | None:
    """The model if it is an object's, or the one that a root which only refers to an object refers to."""
    if not issubclass(model, RootModel):
        return model
    root = model.model_fields["root"].annotation
    return root if isinstance(root, type) and issubclass(root, BaseModel) else None


class _Conversion:
    """A schema on its way to the converter.

    Args:
        schema: The interrupt's `responseSchema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        section = "$defs" if "$defs" in schema else "definitions"
        self._definitions: dict[str, Any] = schema.get(section, {})
        # The converter makes names of references, which Python finds by evaluating them, and takes two for the same
        # that differ in case or signs only: so the names are ours.
        self._references = {
            f"#/{section}/{name}": f"#/$defs/d{index}"
            for index, name in enumerate(self._definitions)
            if "/" not in name  # a reference spells it otherwise
        }

    def converted(self) -> dict[str, Any]:
        """The schema as the converter takes it: definitions by number, and one type at a time.

        Raises:
            ValueError: It is too large.
            KeyError: A reference is to something else than a definition.
        """
        if not is_modest(self._schema, _MOST_VALUES):
            raise ValueError("a schema that takes too long")
        definitions = {f"d{index}": self._convertible(each) for index, each in enumerate(self._definitions.values())}
        return {**self._convertible(self._schema), "$defs": definitions}

    def _convertible(self, schema: Any) -> Any:
        if not is_object(schema):
            return schema
        converted = {key: self._part(key, value) for key, value in schema.items() if key not in _LEFT_OUT}
        kinds = schema.get("type")
        if is_array(kinds) and _BEFORE_TYPE.isdisjoint(schema):
            return {**converted, "anyOf": [{**converted, "type": kind} for kind in dict.fromkeys(kinds)]}
        return converted

    def _part(self, keyword: str, value: Any) -> Any:
        if keyword == "$ref":
            return self._references[value]
        if keyword in _ALONE:
            return self._convertible(value)
        if keyword == "properties" and is_object(value):
            return {name: self._convertible(schema) for name, schema in value.items()}
        if keyword in _IN_A_LIST and is_array(value):
            return [self._convertible(schema) for schema in value]
        return value
