"""Forms for the answers to interrupts and the arguments of calls, and what is typed in their fields (INT-7).

`form_schema` makes the fields of a schema. A form reads what was typed; the schema checks the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.secrets import is_secret_schema
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.decisions import ALWAYS, APPROVED, EDITED, REASON, decision_payload
from agui_client._core.tools.json_schema import schema_faults, schema_problems
from agui_client._rendering.escaping import exact
from agui_client._rendering.form_fields import MISSING, FormField
from agui_client._rendering.form_readers import read_json
from agui_client._rendering.form_schema import DEFAULTS, root_field
from agui_client._rendering.form_words import in_words, reasons_of
from agui_client.errors import InterruptsNotCoveredError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt


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
    """The content of a form is not an answer.

    Args:
        problems: The faults, in words, by the names of fields; "" is about the answer as a whole.
        titles: The titles of the fields by their names.
    """

    def __init__(self, problems: Mapping[str, str], titles: Mapping[str, str]) -> None:
        lines = [f"{titles[name]}: {text}" if name in titles else text for name, text in problems.items()]
        super().__init__("; ".join(lines))
        self.problems = problems
        """The faults, in words, by the names of fields; "" is about the answer as a whole."""


def said(error: FormError) -> str:
    """Say what the fields do not: how many of them have a problem, and what is wrong with the whole answer."""
    count = len(error.problems.keys() - {""})
    fields = f"{count} fields need another look." if count > 1 else "One field needs another look." if count else ""
    return " ".join(filter(None, [fields, error.problems.get("", "")]))


class AnswerForm:
    """The form of an answer, or of the arguments of a call.

    Args:
        schema: The schema of the answer, such as an interrupt's `responseSchema`.
        given: The value that stands in the fields at first; the schema's defaults if left out.
        kept: Members of the answer that have no field.
    """

    def __init__(
        self, schema: dict[str, Any], given: Any = DEFAULTS, kept: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._schema = schema
        self.kept = kept
        """Members of the answer that have no field."""
        self.root = root_field(schema, given)
        """The field of the whole answer."""
        self.fields: Sequence[FormField] = self.root.fields if self.root.kind == "group" else [self.root]
        """The fields and groups of fields, in the schema's order."""

    @property
    def texts(self) -> dict[str, str]:
        """The texts that stand in the fields at first, by the names of fields."""
        return dict(_texts(self.root, ""))

    def read(self, typed: Mapping[str, str]) -> Any:
        """Read all fields.

        Args:
            typed: The texts that stand in the fields, by the names of fields.

        Returns:
            The answer as JSON.

        Raises:
            FormError: Fields are missing or do not fit, or the answer as a whole does not.
        """
        reading = _Reading(typed)
        answer = reading.value(self.root, "", ())
        if self.kept and is_object(answer):
            answer = {**self.kept, **answer}
        if not reading.problems:
            for fault in schema_faults(self._schema, answer):
                for path, words in reasons_of(fault):
                    reading.problems.setdefault(reading.name_at(path), words)
        if reading.problems:
            raise FormError(reading.problems, reading.titles)
        return answer

    def shown(self, typed: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return what was typed, as it is shown once it was sent: titles, and texts without secrets."""
        reading = _Reading(typed)
        reading.value(self.root, "", ())
        texts = [
            (title, "•••" if text and is_secret_schema(field.schema) else field.shown(text))
            for title, field, text in reading.given
        ]
        return [(title, text) for title, text in texts if text.strip()]


def call_form(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> AnswerForm | None:
    """Make the form of a tool call.

    Args:
        schema: The schema of the arguments.
        arguments: The arguments, which stand in the fields.

    Returns:
        The form; None if it would not show each argument that the schema names as it is, or has no fields.
    """
    named = [each.key for each in AnswerForm(dict(schema)).fields]
    kept = {name: value for name, value in arguments.items() if name not in named}
    form = AnswerForm(dict(schema), {name: arguments[name] for name in arguments if name not in kept}, kept)
    if form.root.kind != "group" or any(exact(text) != text for text in form.texts.values()):
        return None
    try:
        read = form.read(form.texts)
    except FormError:
        return None
    return form if is_same_json(read, arguments) else None


class _Reading:
    """The values in the fields of a form, read once.

    Args:
        typed: The texts by the names of fields. The name is the JSON pointer of the value, with entries of lists and
            maps by ids of their own, of which the list has the order; with "?" before it, it has the position of the
            chosen variant, or the name of a member of a map.
    """

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._typed = typed
        self._names: dict[tuple[str | int, ...], str] = {}
        self.problems: dict[str, str] = {}
        """The faults, in words, by the names of fields."""
        self.titles: dict[str, str] = {}
        """The titles of fields, by their names."""
        self.given: list[tuple[str, FormField, str]] = []
        """The titles of fields, the fields, and the texts that stand in them."""

    def name_at(self, path: Sequence[str | int]) -> str:
        """Return the name of the field in which a place of the answer is; empty if it is in none."""
        places = (tuple(path[:length]) for length in range(len(path), 0, -1))
        return next((self._names[each] for each in places if each in self._names), "")

    def value(self, field: FormField, name: str, path: tuple[str | int, ...], around: str = "") -> Any:
        """Read a field, and those in it.

        Args:
            path: The place of its value in the answer.
            around: The title of the entry around it.

        Returns:
            The value; `MISSING` if it is left out or does not fit.
        """
        if name:
            self._names[path] = name
            self.titles[name] = " · ".join(filter(None, [around, field.own_title])) or field.title
        match field.kind:
            case "group":
                return self._group(field, name, path, around)
            case "tuple":
                return self._tuple(field, name, path, around)
            case "rows":
                return self._rows(field, name, path)
            case "map":
                return self._map(field, name, path)
            case "variants":
                return self._variants(field, name, path, around)
            case _:
                return self._leaf(field, name)

    def _leaf(self, field: FormField, name: str) -> Any:
        typed = self._typed.get(name, "")
        if field.kind != "fixed":
            self.given.append((self.titles.get(name, field.title), field, typed))
        return self._unless_wrong(name, lambda: field.read_line(typed))

    def _unless_wrong(self, name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ValueError as error:
            self.problems[name] = str(error)
            return MISSING

    def _group(self, field: FormField, name: str, path: tuple[str | int, ...], around: str) -> Any:
        if not self._is_there(field, name):
            return self._unless_wrong(name, field.left_out)
        values = {
            each.key: self.value(each, pointer(name, each.key), (*path, each.key), around) for each in field.fields
        }
        return {key: value for key, value in values.items() if value is not MISSING}

    def _is_there(self, field: FormField, name: str) -> bool:
        if field.is_needed or not name:
            return True
        if name in self._typed:
            return bool(self._typed[name])
        return any(text.strip() for each, text in self._typed.items() if each.startswith(f"{name}/"))

    def _tuple(self, field: FormField, name: str, path: tuple[str | int, ...], around: str) -> Any:
        if not self._is_there(field, name):
            return self._unless_wrong(name, field.left_out)
        pairs = enumerate(field.fields)
        return [self.value(each, pointer(name, each.key), (*path, at), around) for at, each in pairs]

    def _rows(self, field: FormField, name: str, path: tuple[str | int, ...]) -> Any:
        entries = self._entries(field, name)
        if not entries:
            return self._without_entries(field, name)
        title = self.titles.get(name, field.title)
        return [self.value(entry, each, (*path, at), f"{title} {at + 1}") for at, (each, entry) in enumerate(entries)]

    def _map(self, field: FormField, name: str, path: tuple[str | int, ...]) -> Any:
        entries = self._entries(field, name)
        if not entries:
            return self._without_entries(field, name)
        values: dict[str, Any] = {}
        for each, entry in entries:
            key = self._typed.get(f"?{each}", "")
            value = self.value(entry, each, (*path, key), f"{self.titles.get(name, field.title)} {key}".rstrip())
            if not key or key in values:
                self.problems[each] = "this name is there twice" if key else "the name cannot be left out"
            values[key] = value
        return values

    def _entries(self, field: FormField, name: str) -> list[tuple[str, FormField]]:
        """Return the names and fields of the entries that are there; those from the first have their first values."""
        make, first, ids = field.entry, field.entries, self._typed.get(name, "")
        if make is None:
            return []
        numbers = [int(each) for each in ids.split(",") if each.isdecimal()]
        return [
            (pointer(name, str(number)), first[number] if number < len(first) else make(MISSING)) for number in numbers
        ]

    def _without_entries(self, field: FormField, name: str) -> Any:
        if field.value is MISSING or field.value is None:
            return self._unless_wrong(name, field.left_out)
        return field.nothing

    def _variants(self, field: FormField, name: str, path: tuple[str | int, ...], around: str) -> Any:
        chosen = self._typed.get(f"?{name}", "")
        if not chosen.isdecimal() or int(chosen) >= len(field.fields):
            return self._unless_wrong(name, field.left_out)
        variant = field.fields[int(chosen)]
        self.given.append((self.titles.get(name, field.title), field, variant.title))
        value = self.value(variant, name, path, around)
        if name:
            self.titles[name] = field.title
        return value


def _texts(field: FormField, name: str) -> Iterator[tuple[str, str]]:
    """List what stands in a field, and in those in it, at first."""
    match field.kind:
        case "group" | "tuple":
            if not field.is_needed and name:
                yield name, "yes" if field.is_there else ""
            for each in field.fields if field.is_there else ():
                yield from _texts(each, pointer(name, each.key))
        case "rows" | "map":
            yield name, ",".join(map(str, range(len(field.entries))))
            keys = [*field.value] if field.kind == "map" and is_object(field.value) else []
            for at, entry in enumerate(field.entries):
                inside = pointer(name, str(at))
                yield from [(f"?{inside}", keys[at])] if keys else []
                yield from _texts(entry, inside)
        case "variants":
            yield f"?{name}", "" if field.chosen is None else str(field.chosen)
            if field.chosen is not None:
                yield from _texts(field.fields[field.chosen], name)
        case "fixed":
            pass
        case _:
            yield name, field.text


def read_arguments(typed: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Read the arguments of a tool call that a person edited.

    Args:
        typed: The JSON text.
        schema: The JSON Schema to check them by; None checks nothing.

    Raises:
        ValueError: They are not a JSON object, or do not fit; the message says why.
    """
    arguments = read_json(typed)
    if not is_object(arguments):
        raise ValueError("arguments are a JSON object")
    if schema is not None and (faults := schema_faults(schema, arguments)):
        raise ValueError(in_words(faults))
    return arguments
