"""Sources of a chat's lines: a user who types, with a history, or a file or pipe."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import PromptSession

from agui_client._core.ground.waiting import wait_until_readable
from agui_client.errors import UsageError
from agui_client.terminal._questions import screen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prompt_toolkit.history import History
    from typing_extensions import Buffer


class TypedLines:
    """Lines that a user types, with the keys of a shell; Alt-Enter begins another line of the same prompt.

    Args:
        words: The words that Tab completes at the beginning of a line.
    """

    is_typed = True
    """Whether a user types the lines."""

    def __init__(self, words: Iterable[str]) -> None:
        self._session = PromptSession[str](
            history=_history(),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            key_bindings=_KEYS,
            output=screen(),
        )

    def next(self) -> str | None:
        """Return the next line; None at the end (Ctrl-D).

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
    """Lines of stdin where it is not a terminal."""

    is_typed = False
    """Whether a user types the lines."""

    def __init__(self) -> None:
        self._lines: TextIO = sys.stdin
        with suppress(io.UnsupportedOperation):  # a program may have put something else there
            read = io.BufferedReader(_PatientInput(sys.stdin.fileno(), closefd=False))
            self._lines = io.TextIOWrapper(read, encoding=sys.stdin.encoding, errors=sys.stdin.errors)

    def next(self) -> str | None:
        """Return the next line; None at the end.

        Raises:
            UsageError: The line is not text.
        """
        try:
            line = self._lines.readline()
        except UnicodeDecodeError as error:
            raise UsageError(f"a line of stdin cannot be read: {error}") from error
        return line.removesuffix("\n") if line else None


class _PatientInput(io.FileIO):
    """Input that misses no signal while it waits."""

    def readinto(self, buffer: Buffer, /) -> int | None:
        """Read what there is."""
        wait_until_readable(self.fileno())
        return super().readinto(buffer)


class _PrivateHistory(FileHistory):
    """Earlier lines in a file that only its owner reads; where no file can be written, in memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, the latest first."""
        with suppress(OSError):
            return list(super().load_history_strings())
        return ()

    def store_string(self, string: str) -> None:
        """Store a line, if the file can be written."""
        with suppress(OSError, UnicodeError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            super().store_string(string)


def _history() -> History:
    try:
        return _PrivateHistory(_state_folder() / "chat_history")
    except RuntimeError:  # the user has no home folder
        return InMemoryHistory()


def _state_folder() -> Path:
    if os.name == "nt":
        return Path(click.get_app_dir("agui", roaming=False))
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "agui"


def _begin_another_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


_KEYS = KeyBindings()
_KEYS.add("escape", "enter")(_begin_another_line)
