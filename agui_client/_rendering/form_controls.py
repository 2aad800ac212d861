"""The fields and buttons of a question, as pages draw them: below a notebook's cell, and in a chat.

To change

- a field of a form on a page, or how it is read from there: `Drawing` here says what the page draws, and
  `notebook/question.js` draws it and sends what stands in it; `tests/support/notebook_page.py` is the page in tests
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.secrets import is_secret_schema
from agui_client._core.protocol.schema import is_object
from agui_client._rendering.escaping import exact, json_text, sentence
from agui_client._rendering.form_fields import MISSING
from agui_client._rendering.form_readers import entries_of
from agui_client._rendering.form_words import name_of

if TYPE_CHECKING:
    from agui_client._rendering.form_fields import FieldKind, FormField
    from agui_client._rendering.forms import AnswerForm

_MOST_ROWS = 20
_MOST_BUTTONS = 4
_MOST_LISTED = 12
"""The choices of a list that a person looks through; in a longer one, a part of a title is searched."""
Control = Literal[
    "line", "area", "json", "lines", "select", "search", "box", "radio", "boxes", "group", "rows", "map", "variants"
]
"""The ways to draw a field: one line, where Enter presses a button; an area for any text, for JSON, or for an entry on
each line; a list to choose from or to search in, a box, or buttons of which one is chosen, or boxes of which some are;
a group of fields, entries of a list, or of an object with any names, and a list that chooses one of several fields."""
_CONTROLS: Mapping[FieldKind, Control] = {
    "choices": "boxes",
    "list": "lines",
    "json": "json",
    "group": "group",
    "tuple": "group",
    "rows": "rows",
    "map": "map",
    "variants": "variants",
}
_TYPES = {"date": "date", "time": "time", "date-time": "datetime-local", "email": "email", "uri": "url"}
_MODES: Mapping[FieldKind, str] = {"integer": "numeric", "number": "decimal", "decimal": "decimal"}
_HINTS: Mapping[FieldKind, str] = {"json": "JSON", "list": "one per line"}
_LONG_ROWS = 4


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a question, as the page draws it."""

    name: str
    """The name, by which the value comes back; of a field in another one, what is added to the name of that."""
    label: str
    """The text above it."""
    value: str = ""
    """The text that comes back if nobody touches the field."""
    stands: str = ""
    """The text that stands in it at first: the same, but of boxes a JSON array, and of lines each entry in its line."""
    title: str = ""
    """The title in the label; empty for an entry without one."""
    hint: str = ""
    """The hint in the label; empty for none."""
    description: str = ""
    """The text below the label; empty for none."""
    control: Control = "line"
    """The way in which the page draws it."""
    type: str = "text"
    """The type of a line, as HTML names it."""
    mode: str = ""
    """The keys that a telephone shows for it, as HTML names them; empty for all."""
    choices: Sequence[str] = ()
    """The values to choose from."""
    shown_choices: Sequence[str] = ()
    """The choices as they are shown."""
    rows: int = 0
    """The number of lines of an area."""
    is_needed: bool = False
    """Whether it must be filled in."""
    is_read_only: bool = False
    """Whether it cannot be changed."""
    enters: str | None = None
    """The button that Enter presses; None for the first."""
    fields: Sequence[Field] = ()
    """The fields of a group, the entries that are there at first, or one field for each variant."""
    item: Field | None = None
    """A new entry."""
    keys: Sequence[str] = ()
    """The names of the entries of a map that are there at first."""
    most: int | None = None
    """The most entries; None for any number."""
    is_open: bool = True
    """Whether the fields of a group are there at first."""
    chosen: int | None = None
    """The position of the variant that is chosen at first; None for none."""
    again: str = ""
    """The name of the template that is drawn here; empty for a field that is described in full."""


@dataclass(frozen=True, slots=True)
class QuestionButton:
    """A button of a question; Enter presses the first one, Esc the first that is a refusal."""

    name: str
    """The label."""
    tone: str = "plain"
    """The colour: "good", "bad" or "plain"."""
    is_refusal: bool = False
    """Whether it says no."""


class Drawing:
    """The fields of a form, as the page draws them."""

    def __init__(self, form: AnswerForm) -> None:
        self.templates: dict[str, Field] = {}
        """The fields of definitions that refer to themselves, by their references."""
        is_whole = form.root.kind != "group"
        self.fields: Sequence[Field] = [
            self._field(each, "" if is_whole else pointer("", each.key), (), is_whole=is_whole) for each in form.fields
        ]
        """The fields."""

    def as_json(self) -> dict[str, Any]:
        """Write the fields and templates as JSON."""
        templates = {name: asdict(each) for name, each in self.templates.items()}
        return {"fields": [asdict(each) for each in self.fields], "templates": templates}

    def _field(self, asked: FormField, name: str, around: tuple[str, ...], *, is_whole: bool = False) -> Field:
        """Describe a field.

        Args:
            asked: The field of the form.
            name: Its name, as the page gets it.
            around: The references of the definitions around it, which are not described again below a value that is
                not there.
            is_whole: Whether it is the whole answer.
        """
        drawn = _frame(asked, name)
        if drawn.control not in ("group", "rows", "map", "variants"):
            return _leaf(asked, drawn, is_whole=is_whole)
        if asked.reference and asked.reference in around and (asked.value is MISSING or asked.value is None):
            if asked.reference not in self.templates:
                self.templates[asked.reference] = drawn  # so that it is not described in itself
                self.templates[asked.reference] = self._inside(asked, drawn, (asked.reference,))
            return replace(drawn, again=asked.reference)
        return self._inside(asked, drawn, (*around, asked.reference) if asked.reference else around)

    def _inside(self, asked: FormField, drawn: Field, around: tuple[str, ...]) -> Field:
        """Add the fields that are in a field."""
        match drawn.control:
            case "group":
                fields = [self._field(each, pointer("", each.key), around) for each in _askable(asked.fields)]
                return replace(drawn, fields=fields, is_open=asked.is_there)
            case "variants":
                fields = [self._field(each, "", around) for each in asked.fields]
                return replace(drawn, fields=fields, chosen=asked.chosen)
            case _:
                assert asked.entry is not None
                entries = [self._field(each, "", around) for each in asked.entries]
                keys = [*asked.value] if is_object(asked.value) else [""] * len(entries)
                most = asked.schema.get("maxProperties" if drawn.control == "map" else "maxItems")
                item = self._field(asked.entry(MISSING), "", around)
                is_counted = isinstance(most, int) and not isinstance(most, bool)
                return replace(drawn, fields=entries, item=item, keys=keys, most=most if is_counted else None)


def _askable(fields: Sequence[FormField]) -> list[FormField]:
    return [each for each in fields if each.kind != "fixed"]


def _frame(asked: FormField, name: str) -> Field:
    """Describe what all fields have."""
    hint = ", ".join(filter(None, [_HINTS.get(asked.kind, ""), asked.bounds]))
    return Field(
        name=name,
        label=sentence(f"{asked.title} ({hint})" if hint else asked.title),
        title=sentence(asked.own_title),
        hint=sentence(hint),
        description=sentence(asked.description),
        control=_CONTROLS.get(asked.kind, "line"),
        is_needed=asked.is_needed,
    )


def _leaf(asked: FormField, drawn: Field, *, is_whole: bool) -> Field:
    choices = ["yes", "no"] if asked.kind == "boolean" else [*map(name_of, asked.choices)]
    value = (
        asked.text if asked.is_shown_whole and (not choices or asked.kind != "choice" or asked.text in choices) else ""
    )
    control = _control(asked, choices, is_whole=is_whole)
    if control == "box" and not value and asked.is_needed:
        value = "no"
    stands = _stands(asked, value)
    least = 3 if control == "lines" else _LONG_ROWS if asked.is_long else 1
    return replace(
        drawn,
        value=value,
        stands=stands,
        control=control,
        type=_type(asked),
        mode=_MODES.get(asked.kind, ""),
        choices=choices,
        shown_choices=[exact(title) for title in asked.choice_titles or choices],
        rows=max(rows_of(stands), least),
        is_read_only=asked.is_read_only,
    )


def _control(asked: FormField, choices: Sequence[str], *, is_whole: bool) -> Control:
    if asked.kind == "boolean" and not asked.takes_null and not is_whole:
        return "box"
    if asked.is_long:
        return "area"
    if not choices or asked.kind == "choices":
        return _CONTROLS.get(asked.kind, "line")
    if len(choices) > _MOST_LISTED:
        return "search"
    # Buttons cannot be left empty again.
    return "radio" if asked.is_needed and len(choices) <= _MOST_BUTTONS else "select"


def _type(asked: FormField) -> str:
    # The person who approves it has to see what the agent wrote.
    if is_secret_schema(asked.schema) and asked.value is MISSING:
        return "password"
    return _TYPES.get(asked.format, "text")


def _stands(asked: FormField, value: str) -> str:
    """Return the text that stands in a field at first."""
    if asked.kind == "json" and value:
        return json_text(asked.value)
    if asked.kind not in ("choices", "list"):
        return value
    entries = entries_of(value)
    return json_text(entries, indent=None) if asked.kind == "choices" else "\n".join(entries)


def rows_of(text: str) -> int:
    """Return the number of lines that a field for a text has."""
    return min(text.count("\n") + 1 + len(text) // 100, _MOST_ROWS)
