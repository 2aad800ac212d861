"""The fields of a form: how each is labelled, and what a text that was typed in it means (INT-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agui_client._core.protocol.schema import is_array
from agui_client._core.tools.json_schema import schema_faults
from agui_client._rendering.escaping import exact, json_text
from agui_client._rendering.form_readers import (
    FORMATS,
    entries_of,
    read_boolean,
    read_choice,
    read_decimal,
    read_entries,
    read_format,
    read_json,
    read_number,
    read_whole,
)
from agui_client._rendering.form_words import bounds_of, in_words, name_of, unit_of

MISSING = object()
"""The value of a field that is left out."""
FieldKind = Literal[
    "choice",
    "choices",
    "boolean",
    "integer",
    "number",
    "decimal",
    "string",
    "list",
    "json",
    "fixed",
    "group",
    "tuple",
    "rows",
    "map",
    "variants",
]
"""The kinds of values. One is typed in a line: a text, a number, a choice, a list of such. The others have fields: an
object ("group"), an array with places of its own ("tuple"), an array of entries that are alike ("rows"), an object with
any names ("map"), and a value that has one of several forms ("variants"). A "fixed" one is not asked for."""
PARTED: frozenset[FieldKind] = frozenset({"group", "tuple", "rows", "map", "variants"})
"""The kinds of values with fields of their own."""

_HINTS: Mapping[FieldKind, str] = {
    "boolean": "yes or no",
    "choices": "some of these, separated by commas",
    "integer": "whole number",
    "number": "number",
    "decimal": "number",
    "list": "separated by commas",
    "json": "JSON",
}
_BOUNDED: Mapping[FieldKind, str] = {
    **dict.fromkeys(("integer", "number", "decimal"), ""),
    "string": "character",
    "choices": "choice",
    **dict.fromkeys(("list", "rows", "map"), "entry"),
}
"""The kinds with bounds, and what these count."""
_LONGEST_TITLE = 200
_LONG_TEXT = 200
"""The length from which on a text has several lines, in characters."""


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    key: str
    """The name of the property, or the position, in the value around it; empty for the whole answer."""
    kind: FieldKind
    """The kind of the value."""
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
    value: Any = MISSING
    """The value that stands in the field at first."""
    reference: str = ""
    """The reference to the definition that the field was made of; empty if there is none."""
    parts: Callable[[], Sequence[FormField]] = tuple
    """Makes the fields of a group or a tuple, or one for each variant."""
    entry: Callable[[Any], FormField] | None = None
    """Makes the field of an entry with a value, or with none: `MISSING` takes the schema's default."""

    @cached_property
    def fields(self) -> Sequence[FormField]:
        """The fields of a group or a tuple, or one for each variant."""
        return self.parts()

    @property
    def own_title(self) -> str:
        """The title in the schema, or the name of the property; empty for an entry without a title."""
        title = self.schema.get("title")
        return ((title if isinstance(title, str) else "") or self.key)[:_LONGEST_TITLE]

    @property
    def title(self) -> str:
        """The field's title."""
        return self.own_title or "answer"

    @property
    def format(self) -> str:
        """The format of a text, if a form knows it; else empty."""
        given = self.schema.get("format")
        return given if self.kind == "string" and isinstance(given, str) and given in FORMATS else ""

    @property
    def bounds(self) -> str:
        """The unit and the bounds of the value, such as `NOK, 2 to 6`; empty if there are none."""
        if self.kind not in _BOUNDED or self.format:
            return ""
        return ", ".join(filter(None, [unit_of(self.schema), bounds_of(self.schema, _BOUNDED[self.kind])]))

    @property
    def is_needed(self) -> bool:
        """Whether the field cannot be left empty."""
        return self.is_required and not self.takes_null and not self._may_have_no_entry

    @property
    def is_there(self) -> bool:
        """Whether the fields inside stand there at first: those of a value that must be there, or that is."""
        return (self.is_required and not self.takes_null) or (self.value is not MISSING and self.value is not None)

    @property
    def chosen(self) -> int | None:
        """The position of the variant that is chosen at first; None for none."""
        if self.value is MISSING or self.value is None:
            return 0 if self.is_needed else None
        fitting = (at for at, each in enumerate(self.fields) if not schema_faults(each.schema, self.value))
        return next(fitting, 0)

    @property
    def is_read_only(self) -> bool:
        """Whether the value is shown, and stays as it is."""
        return self.schema.get("readOnly") is True and self.value is not MISSING

    @property
    def is_long(self) -> bool:
        """Whether a text has several lines."""
        longest = self.schema.get("maxLength")
        is_long = isinstance(longest, int) and longest > _LONG_TEXT
        return self.kind == "string" and (is_long or self.schema.get("format") == "textarea" or "\n" in self.text)

    @property
    def label(self) -> str:
        """The field's title, with a hint at what to type in a line."""
        hints = [_HINTS[self.kind]] if self.kind in _HINTS else []
        if self.format:
            _, name, example = FORMATS[self.format]
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
    def text(self) -> str:
        """The value that stands in the field at first, as a person would type it; empty if there is none."""
        value = self.value
        if value is MISSING or value is None:
            return ""
        if self.kind == "boolean" and isinstance(value, bool):
            return "yes" if value else "no"
        if self.kind in ("choices", "list") and is_array(value):
            names = [name_of(each) for each in value]
            is_plain = all(name.strip() == name and name and not set(name) & set(",[") for name in names)
            return ", ".join(names) if is_plain else json_text(names, indent=None)
        return json_text(value, indent=None) if self.kind == "json" else name_of(value)

    @property
    def is_shown_whole(self) -> bool:
        """Whether a screen shows the text as it is: nothing in it is hidden, or reverses what stands around it."""
        return exact(self.text) == self.text

    @property
    def entries(self) -> Sequence[FormField]:
        """The entries of a list or a map that stand in it at first; those that are needed at least."""
        if self.entry is None:
            return ()
        if self.value is not MISSING and self.value is not None:
            return [self.entry(each) for each in (self.value.values() if self.kind == "map" else self.value)]
        least = self.schema.get("minItems") if self.is_required and self.kind == "rows" else 0
        return [self.entry(MISSING) for _ in range(least if isinstance(least, int) else 0)]

    @property
    def _may_have_no_entry(self) -> bool:
        return self.kind in ("choices", "list", "rows", "map") and not schema_faults(self.schema, self.nothing)

    @property
    def nothing(self) -> Any:
        """The value of a list or a map without entries."""
        return {} if self.kind == "map" else []

    def read_line(self, typed: str) -> Any:
        """Read a line that may be empty.

        Returns:
            The value; `MISSING` for a field that is left out.

        Raises:
            ValueError: The line is not a value of this kind, or does not fit; the message says why.
        """
        if self.kind == "fixed" or self.is_read_only:
            return self.value
        if self.value is not MISSING and self.is_shown_whole and typed == self.text:
            return self.value  # not a digit of it is read anew
        if typed.strip() and not (typed.strip() == "[]" and self.kind in ("choices", "list")):
            return self.read(typed)
        return self.left_out()

    def left_out(self) -> Any:
        """Return the value of a field in which there is nothing.

        Raises:
            ValueError: Something must be there.
        """
        if self.value is None:
            return None
        if not self.is_required:
            return MISSING
        if self.takes_null:
            return None
        if self._may_have_no_entry:
            return self.nothing
        raise ValueError("this cannot be left out")

    def read(self, typed: str) -> Any:
        """Read a value.

        Raises:
            ValueError: The text is not a value of this kind, or does not fit; the message says why.
        """
        value = _READERS[self.kind](self, typed)
        if faults := schema_faults(self.schema, value):
            raise ValueError(in_words(faults, self.description))
        return value

    def shown(self, typed: str) -> str:
        """Write what was typed, as it is shown once it was sent."""
        return ", ".join(entries_of(typed)) if self.kind in ("choices", "list") else typed


def _read_list(field: FormField, typed: str) -> list[Any]:
    assert field.entry is not None
    return read_entries(typed, field.entry(MISSING).read)


def _read_choices(field: FormField, typed: str) -> list[Any]:
    return read_entries(typed, lambda each: _read_choice(field, each))


def _read_choice(field: FormField, typed: str) -> Any:
    return read_choice(typed, field.choices, field.choice_titles)


def _read_string(field: FormField, typed: str) -> str:
    return read_format(field.format, typed) if field.format else typed


_READERS: Mapping[FieldKind, Callable[[FormField, str], Any]] = {
    "choice": _read_choice,
    "choices": _read_choices,
    "boolean": lambda field, typed: read_boolean(typed),
    "integer": lambda field, typed: read_whole(typed),
    "number": lambda field, typed: read_number(typed),
    "decimal": lambda field, typed: read_decimal(typed, as_text=field.schema.get("type") == "string"),
    "string": _read_string,
    "list": _read_list,
    "json": lambda field, typed: read_json(typed),
}
