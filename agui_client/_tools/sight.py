"""What somebody who decides gets to see: exactly what is there, and nothing that pretends to be else (SEC-8).

An agent wrote it. What a screen would obey, hide or turn round is written out as JSON writes it, a backslash with `u`
and four digits, so that it is seen and means the same.
"""

from __future__ import annotations

import json
from typing import Any

_KEPT = frozenset("\n\u00a0\u00ad\u200c\u200d\u202f")
"""Invisible, but part of how languages are written, and harmless in a sentence."""


def sentence(text: str) -> str:
    """Prose of an agent's, as it may be shown."""
    return "".join(each if each.isprintable() or each in _KEPT else _written_out(each) for each in text)


def exact(text: str) -> str:
    """Text of an agent's that means more than prose, as it may be shown."""
    return "".join(each if each.isprintable() or each == "\n" else _written_out(each) for each in text)


def json_text(value: Any, indent: int | None = 2) -> str:
    """A JSON value, as it may be shown; read again, it is the same value."""
    return exact(json.dumps(value, ensure_ascii=False, indent=indent))


def _written_out(character: str) -> str:
    return json.dumps(character)[1:-1]
