"""The fields of a form: how each is labelled, and what a text that was typed in it means (INT-7)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Literal
from urllib.parse import urlsplit

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.protocol.schema import is_array
from agui_client._core.tools.json_schema import schema_faults
from agui_client._rendering.escaping import json_text
from agui_client._rendering.form_words import bounds_of, in_words, name_of

MISSING = object()
"""The value of a field that is left out."""
FieldKind = Literal["choice", "choices", "boolean", "integer", "number", "string", "list", "json", "group"]

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_HINTS: Mapping[FieldKind, str] = {
    "boolean": "yes or no",
    "choices": "some of these, separated by commas",
    "integer": "whole number",
    "number": "number",
    "list": "separated by commas",
    "json": "JSON",
}
_UNITS: Mapping[FieldKind, str] = {"string": "character", "choices": "choice", "list": "entry"}
_LONGEST_TITLE = 200
_MAIL = re.compile(r"[^@\s]+@[^@\s]+")


def _read_moment(typed: str) -> str:
    # JSON Schema's date-time has a zone; a time without one is meant by the clock of the person.
    moment = datetime.fromisoformat(typed)
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()


def _read_mail(typed: str) -> str:
    if _MAIL.fullmatch(typed) is None:
        raise ValueError
    return typed


def _read_address(typed: str) -> str:
    if not (parts := urlsplit(typed)).scheme or not parts.path + parts.netloc or " " in typed:
        raise ValueError
    return typed


_FORMATS: Mapping[str, tuple[Callable[[str], str], str, str]] = {
    "date": (lambda typed: date.fromisoformat(typed).isoformat(), "date", "2026-11-24"),
    "time": (lambda typed: time.fromisoformat(typed).isoformat(), "time", "14:30"),
    "date-time": (_read_moment, "date and time", "2026-11-24 14:30"),
    "email": (_read_mail, "e-mail address", "ann@example.org"),
    "uri": (_read_address, "address", "https://example.org"),
}
"""The formats of text that a form checks: what reads it, its name, and an example."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    path: tuple[str, ...]
    """The names of the properties that lead to the value; empty for an answer that is no object."""
    kind: FieldKind
    """The kind of value that is typed; "group" for an object with fields of its own."""
    schema: dict[str, Any]
    """The JSON Schema of the value."""
    is_required: bool
    """Whether the value must be there."""
    takes_null: bool = False
    """Whether nothing is an answer, too."""
    choices: Sequence[Any] = ()
    """The values to choose from."""
    choice_titles: Sequence[str] = ()
    """The choices as they are shown."""
    item_kind: FieldKind = "string"
    """The kind of the entries of a list."""
    fields: Sequence[FormField] = ()
    """The fields of a group."""

    @property
    def name(self) -> str:
        """The JSON pointer of the value in the answer."""
        name = ""
        for each in self.path:
            name = pointer(name, each)
        return name

    @property
    def leaves(self) -> Iterator[FormField]:
        """The field, or the fields in its groups, in order."""
        for each in self.fields:
            yield from each.leaves
        if self.kind != "group":
            yield self

    @property
    def title(self) -> str:
        """The field's title."""
        title = self.schema.get("title")
        own = self.path[-1] if self.path else ""
        return ((title if isinstance(title, str) else "") or own or "answer")[:_LONGEST_TITLE]

    @property
    def format(self) -> str:
        """The format of a text, if a form knows it; else empty."""
        given = self.schema.get("format")
        return given if self.kind == "string" and isinstance(given, str) and given in _FORMATS else ""

    @property
    def bounds(self) -> str:
        """The bounds of the value, such as `2 to 6`; empty if there are none."""
        is_bounded = self.kind in ("integer", "number", "string", "choices", "list") and not self.format
        return bounds_of(self.schema, _UNITS.get(self.kind, "")) if is_bounded else ""

    @property
    def is_needed(self) -> bool:
        """Whether the field cannot be left empty."""
        return self.is_required and not self.takes_null and not self._may_have_no_entry

    @property
    def label(self) -> str:
        """The field's title, with a hint at what to type in a line."""
        hints = [_HINTS[self.kind]] if self.kind in _HINTS else []
        if self.format:
            _, name, example = _FORMATS[self.format]
            hints = [f"{name}, such as {example}"]
        hints += [self.bounds] if self.bounds else []
        hints += [] if self.is_needed else ["may be empty"]
        return self.title + (f" ({', '.join(hints)})" if hints else "")

    @property
    def description(self) -> str:
        """The agent's description of the field; empty if there is none."""
        description = self.schema.get("description")
        return description if isinstance(description, str) else ""

    @property
    def default(self) -> str:
        """The text of the schema's default as a person would type it; empty if there is none that fits."""
        default = self.schema.get("default")
        if default is None or schema_faults(self.schema, default):
            return ""
        if self.kind == "boolean" and isinstance(default, bool):
            return "yes" if default else "no"
        if self.kind in ("choices", "list") and is_array(default):
            names = [name_of(each) for each in default]
            is_plain = all(name.strip() == name and name and not set(name) & set(",[") for name in names)
            return ", ".join(names) if is_plain else json_text(names, indent=None)
        return json_text(default, indent=None) if self.kind == "json" else name_of(default)

    @property
    def _may_have_no_entry(self) -> bool:
        return self.kind in ("choices", "list") and not schema_faults(self.schema, [])

    def read_line(self, typed: str) -> Any:
        """Read a line that may be empty.

        Returns:
            The value; `MISSING` for a field that is left out.

        Raises:
            ValueError: The line is no value of this kind, or does not fit; the message says why.
        """
        if typed.strip() and not (typed.strip() == "[]" and self.kind in ("choices", "list")):
            return self.read(typed)
        if not self.is_required:
            return MISSING
        if self.takes_null:
            return None
        if self._may_have_no_entry:
            return []
        raise ValueError("this cannot be left out")

    def read(self, typed: str) -> Any:
        """Read a value.

        Raises:
            ValueError: The text is no value of this kind, or does not fit; the message says why.
        """
        value = _READERS[self.kind](self, typed)
        if faults := schema_faults(self.schema, value):
            raise ValueError(in_words(faults))
        return value

    def shown(self, typed: str) -> str:
        """Write what was typed, as it is shown once it was sent."""
        return ", ".join(entries_of(typed)) if self.kind in ("choices", "list") else typed


def entries_of(typed: str) -> list[str]:
    """Return the entries of a line: a JSON array of them, as pages send it, or texts between commas.

    Raises:
        ValueError: It begins as a JSON array, and is none.
    """
    if typed.lstrip().startswith("["):
        return [name_of(each) for each in read_json(typed)]
    return [entry for each in typed.split(",") if (entry := each.strip())]


def _read_choice(field: FormField, typed: str) -> Any:
    by_title = dict(zip(field.choice_titles, field.choices, strict=True))
    by_name = {name_of(choice): choice for choice in field.choices}
    for known in (by_name, by_title):
        if typed in known:
            return known[typed]
    if typed.isdecimal() and 1 <= int(typed) <= len(field.choices):
        return field.choices[int(typed) - 1]
    raise ValueError(f"choose one of 1 to {len(field.choices)}")


def _read_entries(field: FormField, typed: str) -> list[Any]:
    read = _read_choice if field.kind == "choices" else _READERS[field.item_kind]
    values, problems = list[Any](), list[str]()
    for number, entry in enumerate(entries_of(typed), 1):
        try:
            values.append(read(field, entry))
        except ValueError as error:
            problems.append(f"entry {number}: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return values


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
        value = read_json(typed.strip().removeprefix("+"))
    except ValueError:
        value = None
    if isinstance(value, float | int) and not isinstance(value, bool):
        return value
    raise ValueError("this is no number")


def _read_string(field: FormField, typed: str) -> str:
    if not field.format:
        return typed
    read, name, example = _FORMATS[field.format]
    try:
        return read(typed.strip())
    except ValueError:
        raise ValueError(f"this is no {name}, such as {example}") from None


def read_json(typed: str) -> Any:
    """Read JSON, without the numbers that Python has and JSON does not.

    Raises:
        ValueError: The text is no JSON; the message says why.
    """

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
    "choices": _read_entries,
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "string": _read_string,
    "list": _read_entries,
    "json": lambda field, typed: read_json(typed),
}
