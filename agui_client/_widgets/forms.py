"""Forms for the answers to interrupts: fields made of a `responseSchema`, filled in one line at a time (INT-7).

The agent wrote the schema, so nothing in it is fetched; a part that no field can be made of is filled in as JSON, and
so is a schema that is larger than a person fills in. A form reads what was typed; the schema checks the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agui_client._interrupts.decisions import ALWAYS, APPROVED, EDITED, REASON, decision_payload
from agui_client._protocol.schema import is_array, is_object
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.json_schema import is_usable, plainly, referred_part, schema_problems
from agui_client._widgets.escaping import json_text
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

MISSING = object()
"""The value of a field that is left out."""
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
_SIMPLE: Mapping[object, FieldKind] = {kind: kind for kind in ("boolean", "integer", "number", "string")}
_DEFINITIONS = ("$schema", "$defs", "definitions")
_ANNOTATIONS = ("title", "description", "default")
_MOST_FIELDS = 50
_MOST_VALUES = 1000
_MOST_REFERENCES = 8
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """A form that is answered with yes or no."""

    can_edit: bool
    """Whether the arguments may be approved with changes."""
    can_explain: bool
    """Whether a no may have a reason."""
    can_last: bool = False
    """Whether a yes may be about later calls of the tool, too."""


def decision_form(interrupt: Interrupt) -> DecisionForm | None:
    """Make the form of an interrupt that is answered with a decision.

    Args:
        interrupt: The interrupt.

    Returns:
        The form; None if the interrupt wants more of an answer than a decision.
    """
    schema = interrupt.response_schema
    if schema is None:
        is_decision = interrupt.tool_call_id is not None or interrupt.reason == "confirmation"
        return DecisionForm(can_edit=False, can_explain=False) if is_decision else None
    properties = schema.get("properties")
    if not is_object(properties) or not properties.keys() <= {*APPROVED, *EDITED, *REASON, *ALWAYS}:
        return None
    try:
        payloads = [decision_payload(interrupt, decision) for decision in (Approve(), Deny())]
    except InterruptsNotCoveredError:
        return None
    if any(schema_problems(schema, payload) for payload in payloads):
        return None
    names = properties.keys()
    can_edit, can_explain, can_last = (not names.isdisjoint(words) for words in (EDITED, REASON, ALWAYS))
    return DecisionForm(can_edit, can_explain, can_last)


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    name: str
    """The name of the property; empty for an answer that is no object."""
    kind: FieldKind
    """The kind of value that is typed."""
    schema: dict[str, Any]
    """The JSON Schema of the value."""
    is_required: bool
    """Whether the field must be filled in."""
    takes_null: bool = False
    """Whether nothing is an answer, too."""
    choices: Sequence[Any] = ()
    """The values to choose from; empty unless it is a choice."""

    @property
    def title(self) -> str:
        """The field's title."""
        title = self.schema.get("title")
        return ((title if isinstance(title, str) else "") or self.name or "answer")[:_LONGEST_TITLE]

    @property
    def label(self) -> str:
        """The field's title, with a hint at what to type."""
        hints = [_HINTS[self.kind]] if self.kind in _HINTS else []
        if not self.is_required or self.takes_null:
            hints.append("may be empty")
        return self.title + (f" ({', '.join(hints)})" if hints else "")

    @property
    def description(self) -> str:
        """The agent's description of the field; empty if there is none."""
        description = self.schema.get("description")
        return description if isinstance(description, str) else ""

    @property
    def default(self) -> str:
        """The text of the schema's default as a person would type it; empty if there is none."""
        default = self.schema.get("default")
        if default is None:
            return ""
        if self.kind == "boolean" and isinstance(default, bool):
            return "yes" if default else "no"
        return json_text(default, indent=None) if self.kind == "json" else name_of(default)

    def read_line(self, typed: str) -> Any:
        """Read a line that may be empty.

        Returns:
            The value; `MISSING` for a field that is left out.

        Raises:
            ValueError: The line is no value of this kind, or does not fit; the message says why.
        """
        if typed.strip():
            return self.read(typed)
        if not self.is_required:
            return MISSING
        if self.takes_null:
            return None
        raise ValueError("this cannot be left out")

    def read(self, typed: str) -> Any:
        """Read a value.

        Raises:
            ValueError: The text is no value of this kind, or does not fit; the message says why.
        """
        value = _READERS[self.kind](self, typed)
        if problems := schema_problems(self.schema, value):
            raise ValueError(plainly(problems))
        return value


class AnswerForm:
    """The form of an answer.

    Args:
        schema: The interrupt's `responseSchema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        is_small = is_usable(schema, _MOST_VALUES)
        properties = _properties(schema) if is_small else {}
        self._is_whole = not properties
        whole = _field(_WHOLE, schema, schema) if is_small else FormField(_WHOLE, "json", schema, is_required=True)
        self.fields = _fields(schema, properties) or [whole]
        """The fields, in the schema's order."""

    def read(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """Read all fields.

        Args:
            typed: The lines by field name.

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
        """Make the answer of its values.

        Args:
            values: The values by field name, without those that were left out.
        """
        return values.get(_WHOLE) if self._is_whole else dict(values)

    def problems(self, payload: Any) -> list[str]:
        """Check an answer by the schema; see `schema_problems`."""
        return schema_problems(self._schema, payload)


def read_arguments(typed: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Read the arguments of a tool call that a person edited.

    Args:
        typed: The JSON text.
        schema: The JSON Schema to check them by; None checks nothing.

    Raises:
        ValueError: They are no JSON object, or do not fit; the message says why.
    """
    arguments = _json(typed)
    if not is_object(arguments):
        raise ValueError("arguments are a JSON object")
    if schema is not None and (problems := schema_problems(schema, arguments)):
        raise ValueError(plainly(problems))
    return arguments


def name_of(choice: Any) -> str:
    """Write a choice as it is shown and typed: text as it is, any other value as JSON."""
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)


# --- fields made of a schema


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that become fields; empty if the answer is filled in as a whole."""
    root = _resolved(schema, schema)
    properties = root.get("properties")
    is_form = is_object(properties) and root.get("type", "object") == "object" and len(properties) <= _MOST_FIELDS
    return properties if is_object(properties) and is_form else {}


def _fields(schema: dict[str, Any], properties: dict[str, Any]) -> list[FormField]:
    required = _resolved(schema, schema).get("required")
    needed: Sequence[Any] = required if is_array(required) else ()
    return [
        _field(name, of if is_object(of) else {}, schema, is_required=name in needed) for name, of in properties.items()
    ]


def _field(name: str, schema: dict[str, Any], root: dict[str, Any], *, is_required: bool = True) -> FormField:
    whole = _resolved(schema, root)
    value = _not_null(whole, root)
    # Annotations where a definition is used come before those of the definition.
    own = _only(_DEFINITIONS, root) | _only(_ANNOTATIONS, value) | schema
    choices = _choices(value)
    kind: FieldKind = "choice" if choices else _SIMPLE.get(_kind(value), "json")
    return FormField(name, kind, own, is_required, kind != "json" and _takes_null(whole), choices)


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema itself, or the part of the same document that it refers to."""
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref")
        referred = referred_part(root, reference) if isinstance(reference, str) else None
        if not is_object(referred):
            break
        schema = referred
    return schema


def _only(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _kind(schema: dict[str, Any]) -> object:
    """Return the one type besides null; None if there are several."""
    kinds = [kind for kind in _array(schema.get("type")) or [schema.get("type")] if kind != "null"]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def _takes_null(schema: dict[str, Any]) -> bool:
    if variants := _variants(schema):
        return any(is_object(each) and each.get("type") == "null" for each in variants)
    return None in choices if (choices := _choices(schema)) else "null" in _array(schema.get("type"))


def _choices(schema: dict[str, Any]) -> Sequence[Any]:
    return (schema["const"],) if "const" in schema else tuple(_array(schema.get("enum")))


def _not_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value that is there: `anyOf: [..., {"type": "null"}]`."""
    others = [each for each in _variants(schema) if is_object(each) and each.get("type") != "null"]
    return _resolved(others[0], root) if len(others) == 1 else schema


def _variants(schema: dict[str, Any]) -> Sequence[Any]:
    return _array(schema.get("anyOf", schema.get("oneOf")))


def _array(value: object) -> Sequence[Any]:
    return value if is_array(value) else ()


# --- values that were typed


def _read_choice(field: FormField, typed: str) -> Any:
    by_name = {name_of(choice): choice for choice in field.choices}
    if typed in by_name:
        return by_name[typed]
    if typed.isdecimal() and 1 <= int(typed) <= len(field.choices):
        return field.choices[int(typed) - 1]
    raise ValueError(f"choose one of 1 to {len(field.choices)}")


def _read_boolean(field: FormField, typed: str) -> bool:
    word = typed.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("say yes or no")
    return word in _YES


def _read_integer(field: FormField, typed: str) -> int:
    try:
        return int(typed)
    except ValueError:
        raise ValueError("this is no whole number") from None


def _read_number(field: FormField, typed: str) -> float:
    try:
        value = _json(typed.strip().removeprefix("+"))
    except ValueError:
        value = None
    if isinstance(value, float | int) and not isinstance(value, bool):
        return value
    raise ValueError("this is no number")


def _json(typed: str) -> Any:
    """Read JSON, without the numbers that Python has and JSON does not."""

    def refuse(word: str) -> None:
        """Refuse NaN and infinity."""
        raise ValueError(f"{word} is no number of JSON's")

    def finite(digits: str) -> float:
        """Refuse a number that would become infinity."""
        if math.isinf(number := float(digits)):
            raise ValueError("a number is out of range")
        return number

    try:
        return json.loads(typed, parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("this is no JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None


_READERS: Mapping[FieldKind, Callable[[FormField, str], Any]] = {
    "choice": _read_choice,
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "string": lambda field, typed: typed,
    "json": lambda field, typed: _json(typed),
}
