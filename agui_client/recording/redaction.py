"""Secrets are taken out of every line before it is written: those that `secret_texts` knows, and what the user names.

A text that is JSON is edited in place, at any depth of JSON in JSON, and everything else of it stays as it is. Of any
other text, passwords in addresses and what follows `authorization:` or `password=` is replaced; a text that may hold a
secret in another form is replaced as a whole. To redact twice comes to the same as to redact once: a replay compares
questions that were made of redacted answers with recorded ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import TypeAlias, cast
from urllib.parse import urlsplit

from agui_client._protocol.problems import pointer
from agui_client.errors import UsageError
from agui_client.recording.secret_texts import (
    REDACTED,
    REST,
    Edit,
    edited,
    edits_in_place,
    is_secret_name,
    mentions_secret,
    names_secret,
)

Redact: TypeAlias = Callable[[str, str], str]
"""Takes a text of a line and its JSON pointer, such as "/input/state/user"; returns the text to write."""

_FRAME = frozenset({"kind", "session", "request", "call", "parent", "verb", "reason", "status"})
"""The members of a line that belong to the format."""
_TYPES = frozenset({"type", "role", "protocolVersion"})
"""The members whose texts the protocol or the format defines, wherever they are."""
_LABELS = frozenset({"path", "name", "key", "header"})
"""The members that say what the member `value` beside them is: of patches, and of lists of headers."""
_SCHEMA_WORDS = frozenset(
    (
        *("$ref", "additionalProperties", "allOf", "anyOf", "deprecated", "description", "format", "items", "maxItems"),
        *("maxLength", "minItems", "minLength", "nullable", "oneOf", "pattern", "readOnly", "title", "type"),
        "writeOnly",
    )
)
"""The members that hold no value of a secret, in the JSON schema of one."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_JSON = "the text is no JSON"
_SPACES = frozenset(" \t\r\n")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|Infinity)")
_WORD = re.compile("true|false|null|NaN")
_JSON_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)
"""The source of one character in a JSON string."""
_read_string: Callable[[str, int], tuple[str, int]] = json.JSONDecoder(strict=False).raw_decode


class _Mode(Enum):
    PLAIN = auto()
    SECRET = auto()
    """In a secret, whose texts and numbers are replaced; its shape stays, on which the verdict on an event depends."""
    SCHEMA = auto()
    """In the JSON schema of a secret."""


def without_credentials(url: str) -> str:
    """Return an address without user, password and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def redacted_line(line: str, redact: Redact | None = None, given: Mapping[str, str] = _NOTHING) -> str:
    """Return the JSON of a line without secrets.

    Args:
        line: The JSON.
        redact: A function for every other text, but for those that the format or the protocol defines.
        given: Texts to write instead of values, by their pointers; secrets were looked for in them before.

    Raises:
        UsageError: The function returned no text.
        ValueError: The line is no JSON.
        RecursionError: The line nests too deeply.
    """
    if redact is None and not given and not mentions_secret(line):
        return line
    return edited(line, _Reader(line, redact, given).edits())


def redacted_text(text: str) -> str:
    """Return a text without the secrets in it."""
    return edited(text, edits_of(text))


def edits_of(text: str) -> list[Edit]:
    """Return the edits that take the secrets out of a text."""
    if not mentions_secret(text):
        return []
    edits: list[Edit] | None = None
    if not text.endswith(REST):
        try:
            edits = _Reader(text).edits() if begins_as_json(text) else edits_in_place(text)
        except ValueError:
            edits = edits_in_place(text)
        except RecursionError:
            pass  # too deep to be read, so it is replaced as a whole
    return [Edit(0, len(text), REDACTED)] if edits is None else edits


def begins_as_json(text: str) -> bool:
    """Return whether a text may be JSON that can hold a secret: an object, a list or a string."""
    return text.lstrip(" \t\r\n")[:1] in ("{", "[", '"')


class _Reader:
    """Reads JSON without making values of it, among which may be huge numbers and double names, and notes edits.

    Args:
        text: The JSON.
        redact: See `redacted_line`.
        given: See `redacted_line`.
    """

    def __init__(self, text: str, redact: Redact | None = None, given: Mapping[str, str] = _NOTHING) -> None:
        self._text, self._redact, self._given = text, redact, given
        self._needs_paths = redact is not None or bool(given)
        self._edits: list[Edit] = []

    def edits(self) -> list[Edit]:
        """Read the values, one behind the other, and return the edits that take the secrets out of them.

        Raises:
            UsageError: The function of the user returned no text.
            ValueError: The text is no JSON.
            RecursionError: It nests too deeply.
        """
        at = self._next(0)
        while at < len(self._text):
            at = self._next(self._value(at, "", _Mode.PLAIN)[0])
        return sorted(self._edits)

    def _next(self, at: int) -> int:
        """Return the position behind white space."""
        if self._text[at : at + 1] not in _SPACES:
            return at
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _value(self, at: int, path: str, mode: _Mode, *, name: str | None = "") -> tuple[int, str | None]:
        """Read a value.

        Args:
            at: The position at which it begins.
            path: The pointer of the value.
            mode: What the value is part of.
            name: The name of the member that it is; None for an item of a list.

        Returns:
            The position behind it, and the text that it is, if it is one.
        """
        if self._given and path in self._given:
            return self._replace(at, path), None
        char = self._text[at : at + 1]
        if char == '"':
            return self._string(at, path, mode)
        if char == "{":
            return self._object(at, path, mode, are_properties=name == "properties"), None
        if char == "[":
            return self._list(at, path, mode, is_item=name is None), None
        if match := _NUMBER.match(self._text, at):
            if mode is _Mode.SECRET and match.group() != "0":
                self._edits.append(Edit(at, match.end(), "0"))
            return match.end(), None
        if match := _WORD.match(self._text, at):
            return match.end(), None
        raise ValueError(_NO_JSON)

    def _string(self, at: int, path: str, mode: _Mode) -> tuple[int, str]:
        text, end = _read_string(self._text, at)
        if mode is _Mode.SECRET:
            if text not in ("", REDACTED):
                self._edits.append(Edit(at + 1, end - 1, REDACTED))
            return end, text
        edits = edits_of(text)
        if not edits and self._redact is None:
            return end, text
        shown = edited(text, edits)
        if (chosen := self._chosen(shown, path)) != shown:
            self._edits.append(Edit(at, end, _quoted(chosen)))
        elif edits:
            characters = _JSON_CHARACTER.finditer(self._text[at + 1 : end - 1])
            starts = [*(at + 1 + match.start() for match in characters), end - 1]
            self._edits += (Edit(starts[edit.start], starts[edit.end], edit.text) for edit in edits)
        return end, text

    def _replace(self, at: int, path: str) -> int:
        """Read a value, instead of which another text is written."""
        end, _ = _Reader(self._text)._value(at, path, _Mode.SECRET)
        new = _quoted(self._chosen(self._given[path], path))
        if new != self._text[at:end]:
            self._edits.append(Edit(at, end, new))
        return end

    def _chosen(self, text: str, path: str) -> str:
        """Return what the function of the user makes of a text."""
        before, _, name = path.rpartition("/")
        if self._redact is None or name in _TYPES or (not before and name in _FRAME):
            return text
        chosen = cast("object", self._redact(text, path))
        if not isinstance(chosen, str):
            raise UsageError(f"redact= returns the text to write, not a {type(chosen).__name__}")
        return chosen

    def _list(self, at: int, path: str, mode: _Mode, *, is_item: bool) -> int:
        items: list[tuple[int, int, str]] = []
        first: str | None = None
        at, is_over = self._begin(at, "]")
        while not is_over:
            where = f"{path}/{len(items)}"
            end, text = self._value(at, where, mode, name=None)
            first = first if items else text
            items.append((at, end, where))
            at, is_over = self._go_on(end, "]")
        # A pair in a list of pairs; two names in a list, as in `required` of a schema, are none.
        if mode is not _Mode.SECRET and is_item and len(items) == 2 and is_secret_name(first or ""):
            self._redact_again(*items[1])
        return at

    def _object(self, at: int, path: str, mode: _Mode, *, are_properties: bool) -> int:
        values: list[tuple[int, int, str]] = []
        labels: list[str] = []
        at, is_over = self._begin(at, "}")
        while not is_over:
            name, at = self._name(at)
            is_schema = are_properties and self._text[at : at + 1] == "{"
            where = pointer(path, name) if self._needs_paths else ""
            inner = self._mode(mode, name, is_schema=is_schema)
            end, text = self._value(at, where, inner, name=name)
            if name == "value":
                values.append((at, end, where))
            elif text is not None and name in _LABELS:
                labels.append(text)
            at, is_over = self._go_on(end, "}")
        if mode is not _Mode.SECRET and any(map(names_secret, labels)):
            for value in values:
                self._redact_again(*value)
        return at

    def _mode(self, outer: _Mode, name: str, *, is_schema: bool) -> _Mode:
        """Return what a member is part of."""
        if outer is _Mode.PLAIN and is_secret_name(name):
            return _Mode.SCHEMA if is_schema else _Mode.SECRET
        return _Mode.SECRET if outer is _Mode.SCHEMA and name not in _SCHEMA_WORDS else outer

    def _redact_again(self, start: int, end: int, path: str) -> None:
        """Read a value again, as one that is secret."""
        self._edits = [edit for edit in self._edits if not start <= edit.start < end]
        self._value(start, path, _Mode.SECRET)

    def _begin(self, at: int, end: str) -> tuple[int, bool]:
        """Return the position inside a bracket, and whether it ends there."""
        at = self._next(at + 1)
        return (at + 1, True) if self._text[at : at + 1] == end else (at, False)

    def _go_on(self, at: int, end: str) -> tuple[int, bool]:
        """Return the position behind a comma or the end of a bracket, and whether it is the end."""
        at = self._next(at)
        char = self._text[at : at + 1]
        if char == end:
            return at + 1, True
        if char != ",":
            raise ValueError(_NO_JSON)
        return self._next(at + 1), False

    def _name(self, at: int) -> tuple[str, int]:
        """Read the name of a member; return it with the position of the member's value."""
        if self._text[at : at + 1] != '"':
            raise ValueError(_NO_JSON)
        name, at = _read_string(self._text, at)
        at = self._next(at)
        if self._text[at : at + 1] != ":":
            raise ValueError(_NO_JSON)
        return name, self._next(at + 1)


def _quoted(text: str) -> str:
    """Return a text as JSON that can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)
