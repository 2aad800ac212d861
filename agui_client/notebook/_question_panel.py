"""A question below a notebook's cell: its text, its fields, and buttons, in one widget.

The page sends the values of all fields with the button, because ipykernel 7 does not report that it handled a change
while a cell waits, and pages of the same notebook show different values. Once the question is over, static content
takes its place, which a saved notebook keeps. The agent's text is shown without its markup (SEC-8).

To change

- a field of a notebook's form, or how it is read from the page: `form_field` here says what the page draws, and
  `notebook/question.js` draws it and sends what stands in it; `tests/support/notebook_page.py` is the page in tests
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import anyio

from agui_client._core.ground.concurrency import LoopThread
from agui_client._core.ground.secrets import is_secret_schema
from agui_client._rendering.escaping import exact, json_text, sentence
from agui_client._rendering.form_fields import entries_of
from agui_client._rendering.form_words import name_of
from agui_client.notebook._cell_widget import CellWidget, show
from agui_client.notebook._elements import Code, Element, Line, bundle
from agui_client.notebook._style import FORM_STYLE, STYLE

if TYPE_CHECKING:
    from types import TracebackType

    from agui_client._rendering.form_fields import FieldKind, FormField

SECONDS_TO_APPEAR = 10.0
"""Seconds until a page that shows no question is noticed; one that is opened later shows it all the same."""
_MISSING = (
    "No page shows the buttons of this question yet. If you look at this cell and see none, the package anywidget is "
    "missing where Jupyter runs, which may be another environment than the kernel's: install it there "
    "(pip install anywidget), and reload the page; or give widgets=False to the approver or answerer, and type answers."
)
_UNCONNECTED = (
    "If there is no form for this question below, it is not connected to a running cell any more: run the cell again, "
    "or await agent.run_agent(), which asks an open question again."
)
_NOTHING = {"text/html": "", "text/plain": ""}
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


class Panel:
    """A question that can be answered while the block lasts; static content takes its place afterwards.

    Args:
        question: The text of the question.
        fields: The fields.
        choices: The buttons.
    """

    def __init__(self, question: str, fields: Sequence[Field], choices: Sequence[QuestionButton]) -> None:
        self._asked_id = f"agui-asked-{uuid4().hex}"
        self._shown = {
            "asked_id": self._asked_id,
            "style": STYLE + FORM_STYLE,
            "question": sentence(question),
            "fields": [asdict(each) for each in fields],
            "choices": [asdict(each) for each in choices],
        }
        self._question = question
        self._ending: Sequence[Element] = [Line("No longer asked"), Line(question)]
        self._is_shown = False

    async def __aenter__(self) -> Panel:
        loop = LoopThread()
        incoming, self._pressed = anyio.create_memory_object_stream[Mapping[str, Any]](math.inf)
        self._incoming = incoming

        def take(message: Mapping[str, Any]) -> None:
            """Pass a message of a page on; one that comes late is dropped."""
            with suppress(anyio.ClosedResourceError):
                incoming.send_nowait(message)

        # In an output of its own: a notebook that is opened later shows it, where the form cannot be drawn any more.
        self._asked = show(bundle([Code(self._question), Line(_UNCONNECTED)], element_id=self._asked_id))
        self._widget = CellWidget("question", self._shown, _NOTHING, lambda message: loop.call(partial(take, message)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._widget.send({"ended": self._ending[0].plain()})
        self._widget.replace(_NOTHING)
        self._asked.update(bundle(self._ending), raw=True)
        self._incoming.close()
        self._pressed.close()

    async def pressed(self) -> tuple[str, Mapping[str, str]]:
        """Wait until a button is pressed.

        Returns:
            Its label, and the values that stand in the fields of the page on which it was pressed, by name.
        """
        message: Mapping[str, Any] = {}
        while "pressed" not in message:
            try:
                with anyio.fail_after(math.inf if self._is_shown else SECONDS_TO_APPEAR):
                    message = await self._pressed.receive()
            except TimeoutError:
                # Without anywidget the page shows an error, or nothing, and the kernel hears of neither.
                sys.stdout.write(f"{_MISSING}\n")
            self._is_shown = True
        return str(message["pressed"]), {str(name): str(value) for name, value in message["values"].items()}

    def say(self, problem: str, problems: Mapping[str, str] | None = None) -> None:
        """Show the reason why the answer was rejected.

        Args:
            problem: What is wrong with the answer as a whole.
            problems: What is wrong with each field, by the names of fields.
        """
        told = {name: sentence(text) for name, text in (problems or {}).items()}
        rejected = {"problem": sentence(problem), "problems": told}
        self._widget.update(**rejected)
        self._widget.send(rejected)

    def end_with(self, *ending: Element) -> None:
        """Set what stands in the place of the question when the block is over."""
        self._ending = ending


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
