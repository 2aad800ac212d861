"""Where the lines of a chat come from: somebody who types, with a history, or a file or pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import PromptSession

from agui_client._cli.terminal import screen
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prompt_toolkit.history import History


class TypedLines:
    """Lines that somebody types, with the keys of a shell; Alt-Enter begins another line of the same prompt.

    Args:
        words: What Tab completes at the beginning of a line.
    """

    is_typed = True
    """Whether somebody sits there."""

    def __init__(self, words: Iterable[str]) -> None:
        self._session = PromptSession[str](
            history=_history(),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            key_bindings=_KEYS,
            output=screen(),
        )

    def next(self) -> str | None:
        """The next line; None when there is none any more (Ctrl-D).

        Raises:
            KeyboardInterrupt: Ctrl-C on an empty line; on any other it empties the line.
        """
        while True:
            try:
                return self._session.prompt(FormattedText([("bold", "> ")]))
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._session.default_buffer.text:
                    raise


class GivenLines:
    """Lines from stdin where nobody types."""

    is_typed = False
    """Whether somebody sits there."""

    def next(self) -> str | None:
        """The next line; None when there is none any more.

        Raises:
            UsageError: It is not text.
        """
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise UsageError(f"a line of stdin cannot be read: {error}") from error
        return line.removesuffix("\n") if line else None


class _KeptHistory(FileHistory):
    """What was typed before, in a file that only its owner reads; just for now where there can be none."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The lines that were kept, the latest first."""
        with suppress(OSError):
            return list(super().load_history_strings())
        return ()

    def store_string(self, string: str) -> None:
        """Keep a line, if there is still a file to keep it in."""
        with suppress(OSError, UnicodeError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            super().store_string(string)


def _history() -> History:
    try:
        return _KeptHistory(_state_folder() / "chat_history")
    except RuntimeError:  # nobody's home
        return InMemoryHistory()


def _state_folder() -> Path:
    if os.name == "nt":
        return Path(click.get_app_dir("agui", roaming=False))
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "agui"


def _begin_another_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


_KEYS = KeyBindings()
_KEYS.add("escape", "enter")(_begin_another_line)
