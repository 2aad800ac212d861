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
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._concurrency import LoopThread
from agui_client._secrets import is_secret_schema
from agui_client._widgets.escaping import exact, sentence
from agui_client._widgets.forms import name_of
from agui_client.notebook.cell_widget import CellWidget
from agui_client.notebook.elements import Element, Line, bundle

if TYPE_CHECKING:
    from types import TracebackType

    from agui_client._widgets.forms import FormField

SECONDS_TO_APPEAR = 10.0
"""Seconds until a page that shows no question is noticed; one that is opened later shows it all the same."""
_MISSING = (
    "No page shows the buttons of this question yet. If you look at this cell and see none, the package anywidget is "
    "missing where Jupyter runs, which may be another environment than the kernel's: install it there "
    "(pip install anywidget), and reload the page; or give widgets=False to the approver or answerer, and type answers."
)
_MOST_ROWS = 20


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
    choices: Sequence[str] | None = None
    """The values to choose from; None if it is typed."""
    shown_choices: Sequence[str] = ()
    """The choices as they are shown."""
    rows: int = 0
    """The number of lines; 0 for a field of one line, where Enter presses a button."""
    is_required: bool = False
    """Whether it must be filled in."""
    is_secret: bool = False
    """Whether the page hides what is typed."""
    enters: str | None = None
    """The button that Enter presses; None for the first."""


@dataclass(frozen=True, slots=True)
class Choice:
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

    def __init__(self, question: str, fields: Sequence[Field], choices: Sequence[Choice]) -> None:
        self._shown = {
            "question": sentence(question),
            "fields": [asdict(each) for each in fields],
            "choices": [asdict(each) for each in choices],
        }
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

        static = bundle([Line(str(self._shown["question"]))])
        self._widget = CellWidget("question", self._shown, static, lambda message: loop.call(partial(take, message)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._widget.replace(bundle(self._ending))
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

    def say(self, problem: str) -> None:
        """Show the reason why the answer was rejected."""
        self._widget.update(problem=sentence(problem))
        self._widget.send({"problem": sentence(problem)})

    def end_with(self, *ending: Element) -> None:
        """Set what stands in the place of the question when the block is over."""
        self._ending = ending


def form_field(field: FormField) -> Field:
    """Make a field of one of an answer's form, with the schema's default."""
    choices = field.choices and [name_of(choice) for choice in field.choices]
    if field.kind == "boolean":
        choices = ["yes", "no"]
    if choices:
        value = field.default if field.default in choices else ""
    else:
        # A default that a field cannot show as it is would be sent unseen.
        value = field.default if exact(field.default) == field.default else ""
    return Field(
        name=field.name,
        label=sentence(field.label),
        value=value,
        description=sentence(field.description),
        choices=choices or None,
        shown_choices=[exact(choice) for choice in choices],
        rows=0 if choices or not (field.kind == "json" or "\n" in value) else rows_of(value),
        is_required=field.is_required,
        is_secret=is_secret_schema(field.schema),
    )


def rows_of(text: str) -> int:
    """Return the number of lines that a field for a text has."""
    return min(text.count("\n") + 1 + len(text) // 100, _MOST_ROWS)
