"""Texts in the cells of CSV files: those that a spreadsheet would run as formulas are written behind an apostrophe."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The characters are those that OWASP's page on CSV injection and its ASVS name, the full-width ones among them.
_IS_RUN = re.compile("'*[=+\\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a text that gets an apostrophe; one that has some already gets another, which is taken off again."""
_IS_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OF_EVERY_TABLE = frozenset({"key", "text", "error", "error_code", "attempts", "seconds", "first_text"})


def quoted(text: str) -> str:
    """Return a text as a cell that no spreadsheet runs; numbers stay as they are."""
    return "'" + text if _IS_RUN.match(text) and not _IS_NUMBER.fullmatch(text) else text


def unquoted(cell: str) -> str:
    """Return the text that `quoted` made a cell of."""
    return cell[1:] if cell.startswith("'") and _IS_RUN.match(cell) else cell


def is_table(columns: Iterable[str]) -> bool:
    """Return whether columns are those of a table of results; in other files an apostrophe is part of the text."""
    return _OF_EVERY_TABLE.issubset(columns)
