"""Lines that a command writes: text without the characters that a terminal would obey (SEC-8), and log records.

Every command imports this module, so that it imports little.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from unicodedata import category

from agui_client._rendering.escaping import exact, sentence

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_LONGEST_LINE = 400


class _PrintableTable(dict[int, str | None]):
    """A translation table that finds the printable form of a character at its first use."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        shown: str | None = " " if category(character).startswith("Z") else None
        if character in "\n\t" or sentence(character) == character or category(character) in _UNKNOWN:
            shown = character
        self[code] = shown
        return shown


_UNKNOWN = ("Cn", "Co")
"""Categories of characters that are newer than this Python, or private: at worst a terminal has no glyph."""
_PRINTABLE = _PrintableTable()


def printable(text: str) -> str:
    """Remove characters that control, hide or reorder text on a screen; see `_rendering/escaping.py`. Tabs stay."""
    return text if text.isprintable() else text.translate(_PRINTABLE)


def one_line(text: str) -> str:
    """Return the text as one printable line, cut if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def escaped_json(text: str, out: TextIO) -> str:
    """Return JSON for a stream: for a terminal, control and hidden characters are escaped, as JSON allows."""
    return exact(text) if out.isatty() else text


class WarningLines(logging.Handler):
    """Writes the package's log records as lines, in place of Python's last-resort handler.

    Args:
        write: Takes one line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; of an exception of a tool the one with the text, if that is shown."""
        is_detail = record.levelno == logging.DEBUG and record.exc_info is not None
        if getattr(record, "has_details", False) or (record.levelno < logging.WARNING and not is_detail):
            return
        # One line instead of a traceback: its author debugs a tool elsewhere.
        raised = record.exc_info[1] if record.exc_info else None
        why = "" if raised is None else f": {type(raised).__name__}: {raised}"
        try:
            level = "error" if is_detail else record.levelname.lower()
            self._write(f"{level}: {record.getMessage()}{why}")
        except Exception:  # as of all handlers: what cannot be logged must not end a run
            self.handleError(record)

    def install(self, *, shows_texts: bool = False) -> None:
        """Make this the only handler of the package's logger.

        Args:
            shows_texts: Whether texts of exceptions of tools are shown, as to a person who tries own tools.
        """
        logger = logging.getLogger("agui_client")
        logger.handlers = [self]
        if shows_texts:
            logging.getLogger("agui_client.tools").setLevel(logging.DEBUG)
        logger.propagate = False
