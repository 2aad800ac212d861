"""The fields and buttons of a question, as pages draw them: below a notebook's cell, and in a chat.

To change

- a field of a form on a page, or how it is read from there: `form_field` here says what the page draws, and
  `notebook/question.js` draws it and sends what stands in it; `tests/support/notebook_page.py` is the page in tests
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agui_client._core.ground.secrets import is_secret_schema
from agui_client._rendering.escaping import exact, json_text, sentence
from agui_client._rendering.form_fields import entries_of
from agui_client._rendering.form_words import name_of

if TYPE_CHECKING:
    from agui_client._rendering.form_fields import FieldKind, FormField

_MOST_ROWS = 20
_MOST_BUTTONS = 4
Control = Literal["line", "area", "lines", "select", "radio", "boxes", "group"]
"""The ways to draw a field: one line, where Enter presses a button; an area for any text, or for an entry on each line;
a list to choose from, or buttons of which one is chosen, or boxes of which some are; and a group of fields."""
_CONTROLS: Mapping[FieldKind, Control] = {"choices": "boxes", "list": "lines", "json": "area", "group": "group"}
_TYPES = {"date": "date", "time": "time", "date-time": "datetime-local", "email": "email", "uri": "url"}
_BOUNDS = {"min": "minimum", "max": "maximum"}
_HINTS: Mapping[FieldKind, str] = {"json": "JSON", "list": "one per line"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a question, as the page draws it."""

    name: str
    """The name, by which the value comes back."""
    label: str
    """The text above it."""
    value: str = ""
    """The text that stands in it at first."""
    description: str = ""
    """The text below the label; empty for none."""
    control: Control = "line"
    """The way in which the page draws it."""
    type: str = "text"
    """The type of a line, as HTML names it."""
    bounds: Mapping[str, float | str] = field(default_factory=dict[str, "float | str"])
    """The bounds of a line, as HTML names them."""
    choices: Sequence[str] = ()
    """The values to choose from."""
    shown_choices: Sequence[str] = ()
    """The choices as they are shown."""
    rows: int = 0
    """The number of lines of an area."""
    is_needed: bool = False
    """Whether it must be filled in."""
    enters: str | None = None
    """The button that Enter presses; None for the first."""
    fields: Sequence[Field] = ()
    """The fields of a group."""


@dataclass(frozen=True, slots=True)
class QuestionButton:
    """A button of a question; Enter presses the first one, Esc the first that is a refusal."""

    name: str
    """The label."""
    tone: str = "plain"
    """The colour: "good", "bad" or "plain"."""
    is_refusal: bool = False
    """Whether it says no."""


def form_field(asked: FormField) -> Field:
    """Make a field of one of an answer's form, with the schema's default."""
    hints = [_HINTS.get(asked.kind, ""), asked.bounds]
    hints += ["may be left empty"] if asked.kind == "group" and not asked.is_needed else []
    hint = ", ".join(filter(None, hints))
    choices = ["yes", "no"] if asked.kind == "boolean" else [*map(name_of, asked.choices)]
    value = _value(asked, choices)
    control = "area" if "\n" in value and asked.kind == "string" else _control(asked, choices)
    is_number = asked.kind in ("integer", "number")
    bounds = {name: asked.schema[of] for name, of in _BOUNDS.items() if of in asked.schema} if is_number else {}
    return Field(
        name=asked.name,
        label=sentence(f"{asked.title} ({hint})" if hint else asked.title),
        value=value,
        description=sentence(asked.description),
        control=control,
        type=_type(asked),
        bounds={**bounds, "step": "1" if asked.kind == "integer" else "any"} if is_number else {},
        choices=choices,
        shown_choices=[exact(title) for title in asked.choice_titles or choices],
        rows=max(rows_of(value), 3 if control == "lines" else 1),
        is_needed=asked.is_needed,
        fields=[form_field(each) for each in asked.fields],
    )


def _control(asked: FormField, choices: Sequence[str]) -> Control:
    if not choices or asked.kind == "choices":
        return _CONTROLS.get(asked.kind, "line")
    # Buttons cannot be left empty again.
    return "radio" if asked.is_needed and len(choices) <= _MOST_BUTTONS else "select"


def _type(asked: FormField) -> str:
    if is_secret_schema(asked.schema):
        return "password"
    return "number" if asked.kind in ("integer", "number") else _TYPES.get(asked.format, "text")


def _value(asked: FormField, choices: Sequence[str]) -> str:
    """Return the default of a field as the page has it; empty if the field could not show it as it is."""
    if asked.kind in ("choices", "list"):
        entries = entries_of(asked.default)
        if asked.kind == "choices":
            return json_text([each for each in entries if each in choices], indent=None)
        return "\n".join(entries) if all(exact(each) == each and "\n" not in each for each in entries) else ""
    if choices:
        return asked.default if asked.default in choices else ""
    return asked.default if exact(asked.default) == asked.default else ""


def rows_of(text: str) -> int:
    """Return the number of lines that a field for a text has."""
    return min(text.count("\n") + 1 + len(text) // 100, _MOST_ROWS)
