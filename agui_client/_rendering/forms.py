"""Forms for the answers to interrupts: fields made of a `responseSchema`, and the answer that is typed in them (INT-7).

The agent wrote the schema, so nothing in it is fetched; a part that no field can be made of is filled in as JSON, and
so is a schema that is larger than a person fills in. A form reads what was typed; the schema checks the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.decisions import ALWAYS, APPROVED, EDITED, REASON, decision_payload
from agui_client._core.tools.json_schema import is_usable, resolved, schema_faults, schema_problems
from agui_client._rendering.form_fields import MISSING, FieldKind, FormField, read_json
from agui_client._rendering.form_words import in_words, name_of, reasons_of
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

_SIMPLE: Mapping[object, FieldKind] = {kind: kind for kind in ("boolean", "integer", "number", "string")}
_DEFINITIONS = ("$schema", "$defs", "definitions")
_ANNOTATIONS = ("title", "description", "default", "format")
_MOST_FIELDS = 50
_MOST_VALUES = 1000
_DEEPEST = 3
"""Groups inside of each other; what is deeper is filled in as JSON."""


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


class FormError(ValueError):
    """What stands in a form is no answer.

    Args:
        problems: What is wrong, in words, by the names of fields; "" is about the answer as a whole.
        titles: The titles of the fields by their names.
    """

    def __init__(self, problems: Mapping[str, str], titles: Mapping[str, str]) -> None:
        told = [f"{titles[name]}: {text}" if name in titles else text for name, text in problems.items()]
        super().__init__("; ".join(told))
        self.problems = problems
        """What is wrong, in words, by the names of fields; "" is about the answer as a whole."""


class AnswerForm:
    """The form of an answer.

    Args:
        schema: The interrupt's `responseSchema`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._root = _form(schema)
        is_object_of_fields = self._root.kind == "group"
        self.fields: Sequence[FormField] = self._root.fields if is_object_of_fields else [self._root]
        """The fields and groups of fields, in the schema's order."""
        self.leaves: Sequence[FormField] = [*self._root.leaves]
        """The fields, those of groups, too."""

    def read(self, typed: Mapping[str, str]) -> Any:
        """Read all fields.

        Args:
            typed: The texts that stand in the fields, by field name.

        Returns:
            The answer as JSON.

        Raises:
            FormError: Fields are missing or do not fit, or the answer as a whole does not.
        """
        problems = dict[str, str]()
        answer = self._read(self._root, typed, problems)
        if not problems:
            for fault in schema_faults(self._schema, answer):
                for path, words in reasons_of(fault):
                    problems.setdefault(self._name_at(path), words)
        if problems:
            raise FormError(problems, {each.name: each.title for each in self.leaves if each.path})
        return answer

    def _read(self, field: FormField, typed: Mapping[str, str], problems: dict[str, str]) -> Any:
        if field.kind != "group":
            try:
                return field.read_line(typed.get(field.name, ""))
            except ValueError as error:
                problems[field.name] = str(error)
                return MISSING
        is_empty = not any(typed.get(each.name, "").strip() for each in field.leaves)
        if is_empty and field.takes_null and field.is_required:
            return None
        if is_empty and not field.is_required:
            return MISSING
        values = {each.path[-1]: self._read(each, typed, problems) for each in field.fields}
        return {name: value for name, value in values.items() if value is not MISSING}

    def _name_at(self, path: Sequence[str | int]) -> str:
        """Return the name of the field in which a place of the answer is; empty if it is in none."""
        found = [each for each in self.leaves if [*each.path] == [*path[: len(each.path)]]]
        return found[0].name if found else ""


def read_arguments(typed: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Read the arguments of a tool call that a person edited.

    Args:
        typed: The JSON text.
        schema: The JSON Schema to check them by; None checks nothing.

    Raises:
        ValueError: They are no JSON object, or do not fit; the message says why.
    """
    arguments = read_json(typed)
    if not is_object(arguments):
        raise ValueError("arguments are a JSON object")
    if schema is not None and (faults := schema_faults(schema, arguments)):
        raise ValueError(in_words(faults))
    return arguments


# --- fields made of a schema


def _form(schema: dict[str, Any]) -> FormField:
    """Make the field of a whole answer: a group for an object, if nobody has to fill in too much for it."""
    if not is_usable(schema, _MOST_VALUES):
        return FormField((), "json", schema, is_required=True)
    for depth in (_DEEPEST, 1):
        root = _field((), schema, schema, depth=depth)
        if sum(1 for _ in root.leaves) <= _MOST_FIELDS:
            return root
    return _field((), schema, schema, depth=0)


def _field(
    path: tuple[str, ...], schema: dict[str, Any], root: dict[str, Any], *, is_required: bool = True, depth: int
) -> FormField:
    whole = resolved(schema, root)
    value = _not_null(whole, root)
    # Annotations where a definition is used come before those of the definition; nothing else is checked but the value
    # that is there, so that a problem names its bound, and not the alternatives.
    own = _only(_DEFINITIONS, root) | value | _only(_ANNOTATIONS, schema)
    takes_null = _takes_null(whole)
    if depth and (properties := _properties(value)):
        needed, defaults = _array(value.get("required")), own.get("default")
        fields = [
            _field((*path, name), each, root, is_required=name in needed, depth=depth - 1)
            for name, each in _with_defaults(properties, defaults if is_object(defaults) else {})
        ]
        return FormField(path, "group", own, is_required, takes_null, fields=fields)
    items = _items(value, root)
    if choices := _choices(value) or _choices(items):
        kind: FieldKind = "choice" if _choices(value) else "choices"
        titles, values = [title for title, _ in choices], [value for _, value in choices]
        return FormField(path, kind, own, is_required, takes_null, values, titles)
    if (item_kind := _SIMPLE.get(_kind(items))) is not None and item_kind != "boolean":
        return FormField(path, "list", own, is_required, takes_null, item_kind=item_kind)
    if (kind := _SIMPLE.get(_kind(value), "json")) == "json":
        own = _only(_DEFINITIONS, root) | _only(_ANNOTATIONS, value) | schema
    return FormField(path, kind, own, is_required, kind != "json" and takes_null)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that become fields; empty if the value is filled in as a whole."""
    properties = schema.get("properties")
    return properties if is_object(properties) and (schema.get("type", "object")) == "object" else {}


def _with_defaults(properties: dict[str, Any], defaults: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return schemas of properties by name, each with its part of the default of their object."""
    schemas = {name: each if is_object(each) else {} for name, each in properties.items()}
    own = {name: {"default": defaults[name]} for name in schemas if name in defaults}
    return [(name, each | own.get(name, {})) for name, each in schemas.items()]


def _items(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the entries of an array that are all alike; empty if there is none."""
    items = schema.get("items")
    is_list = _kind(schema) == "array" and is_object(items) and "prefixItems" not in schema
    return resolved(items, root) if is_list and is_object(items) else {}


def _only(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _kind(schema: dict[str, Any]) -> object:
    """Return the one type besides null; None if there are several."""
    kinds = [kind for kind in _array(schema.get("type")) or [schema.get("type")] if kind != "null"]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def _takes_null(schema: dict[str, Any]) -> bool:
    if variants := _variants(schema):
        return any(
            is_object(each) and (each.get("type") == "null" or each.get("const", 0) is None) for each in variants
        )
    return (
        None in [value for _, value in choices]
        if (choices := _choices(schema))
        else "null" in _array(schema.get("type"))
    )


def _choices(schema: dict[str, Any]) -> Sequence[tuple[str, Any]]:
    """Return values to choose from, with titles: of an enumeration, or of alternatives that are one value each."""
    variants = [each for each in _variants(schema) if is_object(each)]
    values: Sequence[Any] = [schema["const"]] if "const" in schema else _array(schema.get("enum"))
    titles: Sequence[Any] = _array(schema.get("enumNames"))
    if not values and variants and all("const" in each for each in variants):
        values = [each["const"] for each in variants]
        titles = [each.get("title", each["const"]) for each in variants]
    names = [name_of(each) for each in (titles if len(titles) == len(values) else values)]
    # Two choices under one title could not be told apart.
    return [*zip(names if len({*names}) == len(names) else map(name_of, values), values, strict=True)]


def _not_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional value that is there: `anyOf: [..., {"type": "null"}]`."""
    others = [each for each in _variants(schema) if is_object(each) and each.get("type") != "null"]
    return resolved(others[0], root) if len(others) == 1 else schema


def _variants(schema: dict[str, Any]) -> Sequence[Any]:
    return _array(schema.get("anyOf", schema.get("oneOf")))


def _array(value: object) -> Sequence[Any]:
    return value if is_array(value) else ()
