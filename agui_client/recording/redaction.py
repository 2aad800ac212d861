"""Secrets are taken out of every line before it is written: a provider's encrypted values, and what the user names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from agui_client._protocol.problems import pointer
from agui_client._protocol.schema import is_array, is_object
from agui_client.errors import UsageError

Redact: TypeAlias = Callable[[str, str], str]
"""Takes a text of a line and its JSON pointer, such as "/input/state/user"; returns the text to write."""

REDACTED = "[redacted]"
_FRAME = frozenset({"kind", "session", "request", "call", "parent", "verb", "reason", "status"})
"""The members of a line that belong to the format."""
_NAMES = frozenset({"type", "role", "protocolVersion"})
"""The members whose texts the protocol or the format defines, wherever they are."""
_SECRET = re.compile("encrypted_?(value|content)", re.IGNORECASE)
"""The names of members with a provider's encrypted reasoning; the second is that of providers' own events."""


def may_hold_secrets(line: bytes) -> bool:
    """Return whether a line has to be looked at; most need not be."""
    return b"crypted" in line.lower()


def without_credentials(url: str) -> str:
    """Return an address without user, password and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def redacted(line: Any, redact: Redact | None = None) -> Any:
    """Return a line's JSON without secrets.

    Args:
        line: The JSON; it is not changed.
        redact: A function for every other text, but for those that the format or the protocol defines.

    Raises:
        UsageError: The function returned no text.
    """
    return _value(line, "", redact)


def _value(value: Any, path: str, redact: Redact | None) -> Any:
    if is_object(value):
        return _object(value, path, redact)
    if is_array(value):
        return [_value(item, f"{path}/{index}", redact) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    value = _text(value)
    if redact is None or _is_defined(path):
        return value
    text = cast("object", redact(value, path))
    if not isinstance(text, str):
        raise UsageError(f"redact= returns the text to write, not a {type(text).__name__}")
    return text


def _text(text: str) -> str:
    """Return a text without the secrets in it, if it is JSON, as results of tools often are."""
    if "crypted" not in text.lower():
        return text
    try:
        value = json.loads(text)
        sealed = _value(value, "", None)
    except ValueError:
        return text
    except RecursionError:
        return REDACTED
    return text if sealed == value else json.dumps(sealed, ensure_ascii=False)


def _is_defined(path: str) -> bool:
    before, _, name = path.rpartition("/")
    return name in _NAMES or (not before and name in _FRAME)


def _object(value: dict[str, Any], path: str, redact: Redact | None) -> dict[str, Any]:
    target = value.get("path")
    # A patch names the member that it writes.
    is_secret_patch = "op" in value and isinstance(target, str) and _SECRET.search(target) is not None
    return {
        name: _sealed(item)
        if _SECRET.fullmatch(name) or (is_secret_patch and name == "value")
        else _value(item, pointer(path, name) if redact else "", redact)
        for name, item in value.items()
    }


def _sealed(value: Any) -> Any:
    """Return a secret value with its texts replaced; its shape stays, on which the verdict on an event may depend."""
    if is_object(value):
        return {name: _sealed(item) for name, item in value.items()}
    if is_array(value):
        return [_sealed(item) for item in value]
    return REDACTED if isinstance(value, str) else value
