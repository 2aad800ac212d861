"""The answer to an interrupt as a form: what a person is asked, one line at a time (INT-7).

The agent wrote the `responseSchema`, so nothing in it is fetched; what no field can be made of is asked for as JSON.
A form reads what was typed; whether the answer fits is the schema's to say. A schema that is larger than anybody
fills in is asked for as JSON, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agui_client._answers.judging import found, is_modest, schema_errors
from agui_client._answers.payloads import APPROVED, EDITED, REASON, decision_payload
from agui_client._pipeline.schema import is_array, is_object
from agui_client._tools.approval import Approve, Deny
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

MISSING = object()
"""What is typed into a field that is left out."""
FieldKind = Literal["choice", "boolean", "integer", "number", "string", "json"]

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_WHOLE = ""
"""The name of a form's only field when the answer is no object."""
_HINTS: Mapping[FieldKind, str] = {
    "boolean": "yes or no",
    "integer": "whole number",
    "number": "number",
    "json": "JSON",
}
_SIMPLE: Mapping[Any, FieldKind] = {
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "string": "string",
}
_DEFINITIONS = ("$schema", "$defs", "definitions")
_SAID = ("title", "description", "default")
_DEEPEST = 8
_MOST_FIELDS = 50
_MOST_VALUES = 1000
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """A question that is answered with yes or no."""

    can_edit: bool
    """Whether the arguments may be approved with changes."""
    can_explain: bool
    """Whether a no may have a reason."""


def decision_form(interrupt: Interrupt) -> DecisionForm | None:
    """How an interrupt is decided.

    Args:
        interrupt: What was asked.

    Returns:
        How; None if it wants more of an answer than a decision.
    """
    schema = interrupt.response_schema
    if schema is None:
        is_decision = interrupt.tool_call_id is not None or interrupt.reason == "confirmation"
        return DecisionForm(can_edit=False, can_explain=False) if is_decision else None
    properties = schema.get("properties")
    if not is_object(properties):
        return None
    try:
        payloads = [decision_payload(interrupt, decision) for decision in (Approve(), Deny())]
    except InterruptsNotCoveredError:
        return None
    told = {*APPROVED, *EDITED, *REASON}
    if not properties.keys() <= told or any(schema_errors(schema, payload) for payload in payloads):
        return None
    return DecisionForm(
        can_edit=any(name in properties for name in EDITED), can_explain=any(name in properties for name in REASON)
    )


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing to fill in."""

    name: str
    """The property; empty for an answer that is no object."""
    kind: FieldKind
    """What is typed."""
    schema: dict[str, Any]
    """What the agent says about it."""
    is_required: bool
    """Whether it may be left out."""
    takes_null: bool = False
    """Whether nothing is an answer, too."""
    choices: Sequence[Any] = ()
    """What may be chosen; empty unless it is a choice."""

    @property
    def title(self) -> str:
        """What it is called."""
        title = self.schema.get("title")
        return ((title if isinstance(title, str) else "") or self.name or "answer")[:_LONGEST_TITLE]

    @property
    def label(self) -> str:
        """What it is called, with what it takes."""
        hints = [_HINTS[self.kind]] if self.kind in _HINTS else []
        if not self.is_required or self.takes_null:
            hints.append("may be empty")
        return self.title + (f" ({', '.join(hints)})" if hints else "")

    @property
    def description(self) -> str:
        """What the agent says about it; empty if nothing."""
        description = self.schema.get("description")
        return description if isinstance(description, str) else ""

    def read_line(self, typed: str) -> Any:
        """The value that was typed, or that nothing was.

        Returns:
            The value; `MISSING` for a field that is left out.

        Raises:
            ValueError: It is none of this kind, or does not fit; the message says why.
        """
        if typed.strip():
            return self.read(typed)
        if not self.is_required:
            return MISSING
        if self.takes_null:
            return None
        raise ValueError("this cannot be left out")

    def read(self, typed: str) -> Any:
        """The value that was typed.

        Raises:
            ValueError: It is none of this kind, or does not fit; the message says why.
        """
        value = _READERS[self.kind](self, typed)
        problems = schema_errors(self.schema, value)
        if problems:
            raise ValueError(_plainly(problems))
        return value


class AnswerForm:
    """The fields of an answer.

    Args:
        schema: The interrupt's `responseSchema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        properties = _properties(schema)
        self._is_whole = not properties
        self.fields = _fields(schema, properties) or [_whole(schema)]
        """What to fill in, in the schema's order."""

    def read(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """The values that were typed, all at once.

        Args:
            typed: By field name.

        Returns:
            The values by field name, without those that were left out.

        Raises:
            ValueError: One is missing, or does not fit; the message says which.
        """
        values: dict[str, Any] = {}
        for field in self.fields:
            try:
                if (value := field.read_line(typed.get(field.name, ""))) is not MISSING:
                    values[field.name] = value
            except ValueError as error:
                raise ValueError(f"{field.title}: {error}") from None
        return values

    def payload(self, values: Mapping[str, Any]) -> Any:
        """The answer as JSON.

        Args:
            values: By field name; what was left out is not there.
        """
        if self._is_whole:
            return values.get(_WHOLE)
        return dict(values)

    def problems(self, payload: Any) -> list[str]:
        """What the schema has against an answer, in sentences."""
        return schema_errors(self._schema, payload)


def read_arguments(typed: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The arguments of a call, as a person changed them.

    Args:
        typed: JSON.
        schema: What they are held against; None if that is for somebody else to do.

    Raises:
        ValueError: They are none, or do not fit; the message says why.
    """
    try:
        arguments = _json(typed, object)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    if not is_object(arguments):
        raise ValueError("arguments are a JSON object")
    if schema is not None and (problems := schema_errors(dict(schema), arguments)):
        raise ValueError(_plainly(problems))
    return arguments


def _plainly(problems: Sequence[str]) -> str:
    """What a schema has against a value, without saying that there is a schema."""
    places = [problem.partition(" at $")[2] for problem in problems]
    return "; ".join(place.removeprefix(": ").removeprefix(".") for place in places)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    """What is asked for line by line; empty if the answer is asked for as a whole."""
    resolved = _resolved(schema, schema)
    properties = resolved.get("properties")
    if not is_object(properties) or resolved.get("type", "object") != "object" or len(properties) > _MOST_FIELDS:
        return {}
    return properties if is_modest(schema, _MOST_VALUES) else {}


def _fields(schema: dict[str, Any], properties: dict[str, Any]) -> list[FormField]:
    required = _resolved(schema, schema).get("required")
    needed: Sequence[Any] = required if is_array(required) else ()
    return [
        _field(name, of if is_object(of) else {}, schema, is_required=name in needed) for name, of in properties.items()
    ]


def _whole(schema: dict[str, Any]) -> FormField:
    if is_modest(schema, _MOST_VALUES):
        return _field(_WHOLE, schema, schema, is_required=True)
    return FormField(_WHOLE, "json", schema, is_required=True)


def _field(name: str, schema: dict[str, Any], root: dict[str, Any], *, is_required: bool) -> FormField:
    whole = _resolved(schema, root)
    resolved = _not_null(whole, root)
    # What the definition says stands under what is said where it is used.
    judged = _only(_DEFINITIONS, root) | _only(_SAID, resolved) | schema
    choices = _choices(resolved)
    kind: FieldKind = "choice" if choices else _SIMPLE.get(_kind(resolved), "json")
    takes_null = kind != "json" and _takes_null(whole)
    return FormField(name, kind, judged, is_required, takes_null, choices)


def _only(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _kind(schema: dict[str, Any]) -> object:
    """The one type besides null; None if there are several."""
    kinds = schema.get("type")
    if not is_array(kinds):
        return kinds if isinstance(kinds, str) else None
    others = [kind for kind in kinds if kind != "null"]
    return others[0] if len(others) == 1 and isinstance(others[0], str) else None


def _takes_null(schema: dict[str, Any]) -> bool:
    if variants := _variants(schema):
        return any(is_object(each) and each.get("type") == "null" for each in variants)
    kinds = schema.get("type")
    return None in _choices(schema) if _choices(schema) else is_array(kinds) and "null" in kinds


def _choices(schema: dict[str, Any]) -> Sequence[Any]:
    if "const" in schema:
        return (schema["const"],)
    choices = schema.get("enum")
    return tuple(choices) if is_array(choices) else ()


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, or the definition it refers to in the same document."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        referred = found(root, reference)
        if not is_object(referred):
            break
        schema = referred
    return schema


def _not_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """What an optional value is when it is there: `anyOf: [..., {"type": "null"}]`."""
    others = [each for each in _variants(schema) if is_object(each) and each.get("type") != "null"]
    return _resolved(others[0], root) if len(others) == 1 else schema


def _variants(schema: dict[str, Any]) -> Sequence[Any]:
    variants = schema.get("anyOf", schema.get("oneOf"))
    return variants if is_array(variants) else ()


# --- what was typed


def _read_choice(field: FormField, typed: str) -> Any:
    by_name = {name_of(choice): choice for choice in field.choices}
    if typed in by_name:
        return by_name[typed]
    if typed.isdecimal() and 1 <= int(typed) <= len(field.choices):
        return field.choices[int(typed) - 1]
    raise ValueError(f"choose one of 1 to {len(field.choices)}")


def _read_boolean(field: FormField, typed: str) -> bool:
    said = typed.strip().lower()
    if said not in _YES | _NO:
        raise ValueError("say yes or no")
    return said in _YES


def _read_integer(field: FormField, typed: str) -> int:
    try:
        return int(typed)
    except ValueError:
        raise ValueError("this is no whole number") from None


def _read_number(field: FormField, typed: str) -> Any:
    try:
        return _json(typed.strip().removeprefix("+"), float | int)
    except ValueError:
        raise ValueError("this is no number") from None


def _read_string(field: FormField, typed: str) -> str:
    return typed


def _read_json(field: FormField, typed: str) -> Any:
    try:
        return _json(typed, object)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None


def _json(typed: str, kind: Any) -> Any:
    def refuse(word: str) -> None:
        """Refuse a number that JSON does not have."""
        raise ValueError(f"{word} is no number of JSON's")

    try:
        value = json.loads(typed, parse_constant=refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, kind) or (kind is not object and isinstance(value, bool)):
        raise ValueError(typed)
    return value


def _finite(typed: str) -> float:
    if math.isinf(number := float(typed)):
        raise ValueError("a number is out of range")
    return number


def name_of(choice: Any) -> str:
    """A choice as it is shown and typed: text as it is, anything else as JSON."""
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)


_READERS: Mapping[FieldKind, Any] = {
    "choice": _read_choice,
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "string": _read_string,
    "json": _read_json,
}
