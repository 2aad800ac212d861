"""The dialogue that fills in a form, line by line, until it fits its schema (INT-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from agui_client._cli.terminal_questions import LeftError
from agui_client._widgets.escaping import exact, sentence
from agui_client._widgets.forms import MISSING, name_of

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._cli.terminal_questions import Keyboard
    from agui_client._widgets.forms import AnswerForm, FormField


class FormDialog:
    """A dialogue about one form.

    Args:
        form: The form to fill in.
        console: The console that shows it.
        keyboard: The source of the answers.
    """

    def __init__(self, form: AnswerForm, console: Console, keyboard: Keyboard) -> None:
        self._form = form
        self._console = console
        self._keyboard = keyboard

    def fill(self) -> Any:
        """Ask for every field, again if the whole answer does not fit.

        Returns:
            The answer as JSON.

        Raises:
            LeftError: The user left the question.
            WithdrawnError: The question was withdrawn.
        """
        while True:
            payload = self._form.payload(self._values())
            problems = self._form.problems(payload)
            if not problems:
                return payload
            for problem in problems:
                self._say(f"the answer {problem}")

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in self._form.fields:
            self._explain(field)
            self._ask(field, values)
        return values

    def _explain(self, field: FormField) -> None:
        if field.description:
            self._say(field.description)
        for number, choice in enumerate(field.choices, 1):
            self._say(f"{number}  {exact(name_of(choice))}", is_exact=True)

    def _ask(self, field: FormField, values: dict[str, Any]) -> None:
        """Ask for one field, until there is a value or it is left out."""
        while True:
            typed = self._keyboard.read(f"{sentence(field.label)}: ", default=field.default)
            if not typed.strip() and field.is_required and not field.takes_null:
                raise LeftError
            try:
                value = field.read_line(typed)
            except ValueError as error:
                self._say(str(error))
                continue
            if value is not MISSING:
                values[field.name] = value
            return

    def _say(self, what: str, *, is_exact: bool = False) -> None:
        self._console.print(Text(f"  {what if is_exact else sentence(what)}", style="dim"))
