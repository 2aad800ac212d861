"""The dialogue that decides a call: yes, no and why, or yes with other arguments (SEC-2, SEC-3).

Only a plain yes approves; Enter alone does not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.padding import Padding
from rich.text import Text

from agui_client._answers.form import read_arguments
from agui_client._cli.display import beginning, json_lines
from agui_client._cli.terminal import LeftError
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.sight import json_text, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._cli.terminal import Keyboard


@dataclass(frozen=True, slots=True)
class Decidable:
    """A call that waits for a decision."""

    arguments: Mapping[str, Any] | None
    """What it would be carried out with; None if nobody said."""
    schema: Mapping[str, Any] | None = None
    """What edited arguments are held against; None if that is for somebody else to do."""
    can_edit: bool = True
    """Whether it may be approved with other arguments."""
    can_explain: bool = True
    """Whether a no may have a reason."""


class Deciding:
    """One decision in the making.

    Args:
        call: What is to be decided.
        console: Where it is shown.
        keyboard: Where the answers come from.
    """

    def __init__(self, call: Decidable, console: Console, keyboard: Keyboard) -> None:
        self._call = call
        self._console = console
        self._keyboard = keyboard
        self._arguments = call.arguments
        self._is_cut = False

    def decide(self) -> Approve | Deny:
        """Ask until there is a decision.

        Raises:
            LeftError: The person left the question.
            WithdrawnError: The question was taken back.
        """
        self._show()
        while True:
            match self._keyboard.read(self._question()).strip().lower():
                case "y" | "yes":
                    return Approve(None if self._arguments == self._call.arguments else self._arguments)
                case "n" | "no":
                    return self._deny()
                case "":
                    return Deny()
                case "e" | "edit" if self._can_edit:
                    self._edit()
                case "v" | "view" if self._is_cut:
                    self._console.print(Padding(json_lines(self._arguments), (0, 2)))
                case _:
                    self._say("a word of these, please; Enter alone means no")

    @property
    def _can_edit(self) -> bool:
        return self._call.can_edit and self._call.arguments is not None

    def _question(self) -> str:
        words = ["[y]es", "[n]o", *(["[e]dit"] if self._can_edit else ()), *(["[v]iew all"] if self._is_cut else ())]
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

    def _deny(self) -> Deny:
        if not self._call.can_explain:
            return Deny()
        try:
            reason = self._keyboard.read("Why? The agent is told; may be empty: ").strip()
        except LeftError:
            return Deny()
        return Deny(reason) if reason else Deny()

    def _edit(self) -> None:
        """Have the arguments changed; they stay as they are if that comes to nothing."""
        try:
            edited = self._edited()
            if edited is not None:
                self._arguments = read_arguments(edited, self._call.schema)
                self._show()
        except LeftError:
            self._say("not changed")
        except (ValueError, click.ClickException) as error:
            self._say(f"not changed: {error}")

    def _edited(self) -> str | None:
        """The arguments as text, changed in the editor that was chosen for such things, or else in a line."""
        if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
            return click.edit(json_text(self._arguments), extension=".json")
        return self._keyboard.read("arguments: ", default=json_text(self._arguments, indent=None))

    def _say(self, what: str) -> None:
        self._console.print(Text(f"  {sentence(what)}", style="dim"))
