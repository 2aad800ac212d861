"""The dialogue about a tool call: yes, no with a reason, or yes with edited arguments (SEC-2, SEC-3).

Only a plain yes approves; Enter alone does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.highlighter import JSONHighlighter
from rich.padding import Padding
from rich.text import Text

from agui_client._core.protocol.patch import is_same_json
from agui_client._core.tools.approval import Approve, Deny
from agui_client._rendering.escaping import json_text, sentence
from agui_client._rendering.form_dialog import FormDialog, LeftError
from agui_client._rendering.forms import call_form, read_arguments

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._rendering.forms import AnswerForm
    from agui_client.terminal._questions import Keyboard


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that waits for a decision."""

    arguments: Mapping[str, Any] | None
    """The arguments of the call; None if they are unknown."""
    schema: Mapping[str, Any] | None = None
    """The schema that edited arguments must fit; None if they are checked elsewhere."""
    can_edit: bool = True
    """Whether the call may be approved with edited arguments."""
    can_explain: bool = True
    """Whether a denial may have a reason."""
    can_last: bool = True
    """Whether an approval may be about later calls of the tool, too."""


class ApprovalDialog:
    """A dialogue about one call.

    Args:
        call: The call to decide.
        console: The console that shows it.
        keyboard: The source of the answers.
    """

    def __init__(self, call: PendingCall, console: Console, keyboard: Keyboard) -> None:
        self._call = call
        self._console = console
        self._keyboard = keyboard
        self._arguments = call.arguments
        self._is_cut = False

    def decide(self) -> Approve | Deny:
        """Ask until there is a decision.

        Raises:
            LeftError: The user left the question.
            WithdrawnError: The question was withdrawn.
        """
        self._show()
        while True:
            match self._keyboard.read(self._question()).strip().lower():
                case "y" | "yes":
                    return self._approve()
                case "a" | "always" if self._call.can_last:
                    return self._approve(always=True)
                case "n" | "no":
                    return self._deny()
                case "":
                    return Deny()
                case "e" | "edit" if self._can_edit:
                    self._edit(self._from_fields if self._form() is not None else self._from_json)
                case "j" | "json" if self._can_edit:
                    self._edit(self._from_json)
                case "v" | "view" if self._is_cut:
                    self._console.print(Padding(json_lines(self._arguments), (0, 2)))
                case _:
                    self._say("type one of these words; Enter alone means no")

    @property
    def _can_edit(self) -> bool:
        return self._call.can_edit and self._call.arguments is not None

    def _question(self) -> str:
        further = {
            "[a]lways in this thread": self._call.can_last,
            "[e]dit": self._can_edit,
            "[j]son": self._can_edit and self._form() is not None,
            "[v]iew all": self._is_cut,
        }
        words = ["[y]es", "[n]o", *(word for word, is_possible in further.items() if is_possible)]
        return f"Allow it? {', '.join(words)}: "

    def _show(self) -> None:
        if self._arguments is None:
            return
        whole = json_lines(self._arguments)
        shown = beginning(whole, self._console)
        self._is_cut = shown is not whole
        self._console.print(Padding(shown, (0, 2)))
        if self._is_cut:
            self._say(f"{len(whole) - len(shown)} characters more: v shows them")

    def _approve(self, *, always: bool = False) -> Approve:
        is_edited = not is_same_json(self._arguments, self._call.arguments)
        return Approve(self._arguments if is_edited else None, always=always)

    def _deny(self) -> Deny:
        if not self._call.can_explain:
            return Deny()
        try:
            reason = self._keyboard.read("Why? (for the agent; may be empty): ").strip()
        except LeftError:
            return Deny()
        return Deny(reason) if reason else Deny()

    def _form(self) -> AnswerForm | None:
        """Return the arguments as a form; None if their schema is not known, or a form would not show all of them."""
        if self._call.schema is None or self._arguments is None:
            return None
        return call_form(self._call.schema, self._arguments)

    def _edit(self, edited: Callable[[], Mapping[str, Any] | None]) -> None:
        """Let the user edit the arguments; edits that do not fit change nothing."""
        try:
            arguments = edited()
            if arguments is not None:
                self._arguments = arguments
                self._show()
        except LeftError:
            self._say("not changed")
        except (ValueError, click.ClickException) as error:
            self._say(f"not changed: {error}")

    def _from_fields(self) -> Mapping[str, Any]:
        """Ask for the arguments one by one, each with what it is now."""
        form = self._form()
        assert form is not None
        self._say("Enter keeps what stands in a line; Ctrl-D changes nothing")
        filled: Mapping[str, Any] = FormDialog(form, self._read_line, self._say).fill()
        return filled

    def _read_line(self, prompt: str, begins: str) -> str:
        return self._keyboard.read(prompt, default=begins)

    def _from_json(self) -> Mapping[str, Any] | None:
        """Read the arguments as JSON from `$VISUAL` or `$EDITOR`, or else from a line; None if nothing was saved."""
        if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
            edited = click.edit(json_text(self._arguments), extension=".json")
        else:
            edited = self._keyboard.read("arguments: ", default=json_text(self._arguments, indent=None))
        return None if edited is None else read_arguments(edited, self._call.schema)

    def _say(self, what: str) -> None:
        self._console.print(Text(f"  {sentence(what)}", style="dim"))


_LINES = 30
"""The number of lines of one value that are shown at first."""

_highlight = JSONHighlighter().highlight


def json_lines(value: Any) -> Text:
    """Return a JSON value as coloured text."""
    text = Text(json_text(value), no_wrap=False, overflow="fold")
    _highlight(text)
    return text


def beginning(text: Text, console: Console) -> Text:
    """Cut a text to what fits a screen.

    Args:
        console: The console that is going to print it.

    Returns:
        The beginning of the text; the text itself if it fits.
    """
    width = max(console.width - 4, 1)
    wrapped = text[: _LINES * width].wrap(console, width, overflow="fold")
    if len(wrapped) <= _LINES and len(text) <= _LINES * width:
        return text
    return Text("\n").join(wrapped[:_LINES])
