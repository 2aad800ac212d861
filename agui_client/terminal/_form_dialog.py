"""The dialogue that fills in a form, line by line, until it fits its schema (INT-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from agui_client._rendering.escaping import exact, sentence
from agui_client._rendering.forms import FormError
from agui_client.terminal._questions import LeftError

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._rendering.form_fields import FormField
    from agui_client._rendering.forms import AnswerForm
    from agui_client.terminal._questions import Keyboard

_YES = {"y", "yes"}


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
        typed, asked = dict[str, str](), [*self._form.fields]
        while True:
            for field in asked:
                self._fill(field, typed)
            try:
                return self._form.read(typed)
            except FormError as error:
                self._say(str(error))
                # Who is told what is wrong with one field need not type the others again.
                asked = [each for each in self._form.leaves if each.name in error.problems] or [*self._form.fields]

    def _fill(self, field: FormField, typed: dict[str, str]) -> None:
        self._explain(field)
        if field.kind != "group":
            typed[field.name] = self._typed(field)
        elif field.is_needed or self._keyboard.read(f"{sentence(field.title)}: fill it in? [y/N] ").lower() in _YES:
            for each in field.fields:
                self._fill(each, typed)
        else:
            typed.update((each.name, "") for each in field.leaves)

    def _explain(self, field: FormField) -> None:
        if field.kind == "group" and field.is_needed:
            self._say(field.title)
        if field.description:
            self._say(field.description)
        for number, title in enumerate(field.choice_titles, 1):
            self._say(f"{number}  {exact(title)}", is_exact=True)

    def _typed(self, field: FormField) -> str:
        """Ask for one field, until there is a value or it is left out."""
        while True:
            typed = self._keyboard.read(f"{sentence(field.label)}: ", default=self._prefilled(field))
            if not typed.strip() and field.is_needed:
                raise LeftError
            try:
                field.read_line(typed)
            except ValueError as error:
                self._say(str(error))
            else:
                return typed

    def _prefilled(self, field: FormField) -> str:
        """Return the text that the line begins with: no default that a screen would show as another text (SEC-8)."""
        if exact(field.default) == field.default:
            return field.default
        self._say(f"default: {exact(field.default)}", is_exact=True)
        return ""

    def _say(self, what: str, *, is_exact: bool = False) -> None:
        self._console.print(Text(f"  {what if is_exact else sentence(what)}", style="dim"))
