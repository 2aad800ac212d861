"""Escaping of text that an agent wrote, before it is shown to a person who decides by it (SEC-8).

Characters that a screen would obey, hide or reverse are written as JSON writes them, a backslash with `u` and four
digits, so that they are visible and mean the same.
"""

from __future__ import annotations

import json
from typing import Any

from agui_client._core.ground.plain_text import cut_short

_KEPT = frozenset("\n\u00a0\u00ad\u200c\u200d\u202f")
"""Characters that are invisible, but part of how languages are written, and harmless in a sentence."""


def sentence(text: str) -> str:
    """Escape prose that an agent wrote."""
    return "".join(each if each.isprintable() or each in _KEPT else _escaped(each) for each in text)


def exact(text: str) -> str:
    """Escape text that an agent wrote and that means more than prose, such as a name or a command."""
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)


def json_text(value: Any, indent: int | None = 2) -> str:
    """Write a JSON value as escaped text; reading the text gives the same value."""
    return exact(json.dumps(value, ensure_ascii=False, indent=indent))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def exact_line(text: str, longest: int) -> str:
    """Return a text as `exact` does, but on one line, and cut."""
    return cut_short(exact(text[: 4 * longest]).replace("\n", "\\n"), longest)
