"""JSON from elsewhere, read no deeper than Python can follow.

A few thousand brackets bring Python's own parser to the end of the stack. What happens to be collected there cannot end
as it should: a generator is not closed, and a set keeps what is gone. So the levels of a text are looked at first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

DEEPEST_READ = 250
"""The levels that are read: more than any event or document may have, and a quarter of Python's stack."""
# Brackets, and strings, of which the last one may have no end. The quantifiers give nothing back, so that a text is
# read once, whatever it is.
_MARK = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def load_json(
    text: str | bytes | bytearray,
    *,
    parse_constant: Callable[[str], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """Read JSON as `json.loads` does, of any number of levels that an event or a document may have.

    Args:
        text: The JSON.
        parse_constant: See `json.loads`.
        parse_float: See `json.loads`.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: It nests deeper than `DEEPEST_READ` levels.
    """
    if parse_constant is None and parse_float is None:
        try:
            return from_json(text)  # which counts levels itself, and reads no halves of characters
        except (TypeError, ValueError):
            pass
    # In Latin-1, bytes that are not ASCII are characters that are not ASCII.
    plain = text if isinstance(text, str) else text.decode("latin-1")
    if plain.count("[") + plain.count("{") > DEEPEST_READ:
        check_levels(plain)
    return json.loads(text, parse_constant=parse_constant, parse_float=parse_float)


def check_levels(text: str) -> None:
    """Look whether Python can follow the JSON value with which a text begins.

    Raises:
        RecursionError: It nests deeper than `DEEPEST_READ` levels.
    """
    levels = 0
    for mark in _MARK.finditer(text):
        bracket = text[mark.start()]
        if bracket in "[{":
            levels += 1
            if levels > DEEPEST_READ:
                raise RecursionError(f"it nests deeper than {DEEPEST_READ} levels")
        elif bracket != '"':
            levels -= 1
            if levels <= 0:
                return  # the value ends: what stands behind it is not looked at
