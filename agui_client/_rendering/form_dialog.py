"""A form that is filled in line by line, where there are no pages, until it fits its schema (INT-7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.protocol.schema import is_object
from agui_client._rendering.escaping import exact, sentence
from agui_client._rendering.form_fields import MISSING
from agui_client._rendering.form_readers import read_choice
from agui_client._rendering.forms import FormError

if TYPE_CHECKING:
    from agui_client._rendering.form_fields import FormField
    from agui_client._rendering.forms import AnswerForm

_YES = {"y", "yes"}
_MOST_LISTED = 12
"""The choices that are listed; of a longer list, a part of a title is typed."""


class LeftError(Exception):
    """The user left the question, with Esc or Ctrl-D."""


class FormDialog:
    """A dialogue about one form.

    Args:
        form: The form to fill in.
        read: Reads a line: gets the text before it, and the text that it begins with.
        say: Shows a line.
    """

    def __init__(self, form: AnswerForm, read: Callable[[str, str], str], say: Callable[[str], object]) -> None:
        self._form = form
        self._read = read
        self._say = say
        self._typed: dict[str, str] = {}
        self._asked: dict[str, FormField] = {}
        """The fields of one line that were asked for, by their names."""

    def fill(self) -> Any:
        """Ask for every field, again if the whole answer does not fit.

        Returns:
            The answer as JSON.

        Raises:
            LeftError: The user left the question.
        """
        wrong: list[str] = []
        while True:
            # A person who corrects one field need not type the others again.
            for name in wrong:
                self._line(self._asked[name], name)
            if not wrong:
                self._all()
            try:
                return self._form.read(self._typed)
            except FormError as error:
                self._say(sentence(str(error)))
                wrong = [name for name in error.problems if name in self._asked]

    def _all(self) -> None:
        root = self._form.root
        if root.kind != "group":
            self._fill(root, "")
            return
        for each in root.fields:
            self._fill(each, pointer("", each.key))

    def _fill(self, field: FormField, name: str) -> None:
        match field.kind:
            case "fixed":
                pass
            case "group" | "tuple":
                self._group(field, name)
            case "rows" | "map":
                self._rows(field, name)
            case "variants":
                self._variants(field, name)
            case _ if field.is_read_only:
                self._say(f"{sentence(field.title)}: {exact(field.text)}")
            case _:
                self._explain(field)
                self._line(field, name)

    def _explain(self, field: FormField) -> None:
        if field.description:
            self._say(sentence(field.description))
        for number, title in enumerate(field.choice_titles[:_MOST_LISTED], 1):
            self._say(f"{number}  {exact(title)}")
        if more := len(field.choice_titles[_MOST_LISTED:]):
            self._say(f"and {more} more: type a part of one")

    def _group(self, field: FormField, name: str) -> None:
        if field.is_needed:
            self._say(sentence(field.title))
        self._describe(field)
        if field.is_needed or self._is_yes(f"{sentence(field.title)}: fill it in?"):
            self._typed[name] = "yes"
            for each in field.fields:
                self._fill(each, pointer(name, each.key))
        else:
            self._typed[name] = ""

    def _rows(self, field: FormField, name: str) -> None:
        """Ask for the entries that are there, and for further ones."""
        assert field.entry is not None
        self._describe(field)
        title, first = sentence(field.label), field.entries
        least = field.schema.get("minItems", 0) if field.is_required and field.kind == "rows" else 0
        keys = [*field.value] if is_object(field.value) else []
        count = 0
        while count < max(len(first), least) or self._is_yes(f"{title}: add {'another' if count else 'one'}?"):
            inside = pointer(name, str(count))
            if field.kind == "map":
                self._typed[f"?{inside}"] = self._read("name: ", keys[count] if count < len(keys) else "")
            entry = first[count] if count < len(first) else field.entry(MISSING)
            self._say(f"{sentence(field.title)} {count + 1}")
            self._fill(entry, inside)
            count += 1
        self._typed[name] = ",".join(map(str, range(count)))

    def _variants(self, field: FormField, name: str) -> None:
        self._describe(field)
        titles = [each.title for each in field.fields]
        for number, title in enumerate(titles, 1):
            self._say(f"{number}  {exact(title)}")
        chosen = self._chosen(field, titles)
        self._typed[f"?{name}"] = "" if chosen is None else str(chosen)
        if chosen is not None:
            self._fill(field.fields[chosen], name)

    def _chosen(self, field: FormField, titles: Sequence[str]) -> int | None:
        """Ask which variant it is; return None for none."""
        hint = "" if field.is_needed else " (may be empty)"
        while typed := self._read(f"{sentence(field.title)}, one of these{hint}: ", "").strip():
            try:
                return titles.index(read_choice(typed, titles, titles))
            except ValueError as error:
                self._say(sentence(str(error)))
        if field.is_needed:
            raise LeftError
        return None

    def _line(self, field: FormField, name: str) -> None:
        """Ask for one field, until there is a value or it is left out; what was refused is there to be corrected."""
        self._asked[name] = field
        begins = self._typed.get(name) or self._prefilled(field)
        while True:
            typed = self._read(f"{sentence(field.label)}: ", begins)
            if not typed.strip() and field.is_needed:
                raise LeftError
            try:
                field.read_line(typed)
            except ValueError as error:
                self._say(sentence(str(error)))
                begins = typed
            else:
                self._typed[name] = typed
                return

    def _prefilled(self, field: FormField) -> str:
        """Return the text that the line begins with: no default that a screen would show as another text (SEC-8)."""
        if field.is_shown_whole:
            return field.text
        self._say(f"default: {exact(field.text)}")
        return ""

    def _describe(self, field: FormField) -> None:
        if field.description:
            self._say(sentence(field.description))

    def _is_yes(self, question: str) -> bool:
        return self._read(f"{question} [y/N] ", "").strip().lower() in _YES
