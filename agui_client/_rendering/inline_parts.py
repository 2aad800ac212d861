"""The parts of a page that stand inside it: data that end no element, and the hashes that let scripts of ours run."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from pydantic_core import to_json

_ESCAPES = {character.encode(): f"\\u{ord(character):04x}".encode() for character in "<>&\u2028\u2029"}


def escaped_json(value: Any) -> bytes:
    """Return JSON that can stand inside a script element: no character in it means anything to HTML."""
    text = to_json(value, inf_nan_mode="null")
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def hash_source(code: bytes) -> str:
    """Return the source of a Content-Security-Policy that allows a script or a style sheet by its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code).digest()).decode()}'"
