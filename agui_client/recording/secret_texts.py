"""Secrets in texts: the names whose values are secret, and the forms in which a text that is no JSON may hold one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

REDACTED = "[redacted]"
REST = "[the rest is redacted]"
"""The end of a text whose first pieces were written before it was redacted; it counts for redacted as a whole."""

_ID_TOKEN = r"id(?<![a-z0-9]id)[-_]?token"  # and not "valid_token"
_WHOLE_NAME = r"token(?<![\w-]token)|secret(?<![\w-]secret)"  # and not "max_token", "nextPageToken" or "tokens"
_NAME = (
    r"(?:(?:encrypted[-_]?(?:value|content)|authorization|cookie|password|client[-_]?secret|(?:api|private)[-_]?key"
    rf"|(?:access|auth|refresh)[-_]?token|{_ID_TOKEN})s?|{_WHOLE_NAME})"
)
"""The end of every name whose value is secret; docs/recording.md lists them."""
NAME_HINTS = ("crypted", "authoriz", "cookie", "key", "token", "secret", "password")
"""Every such name, in lower case, has one of these."""
NAME_ENDS = r"(?:value|content|authorization|cookie|key|token|secret|password)s?"
"""Every such name ends as this says, so that a text which ends so may go on with a secret."""
_HINTS = (*NAME_HINTS, "@", REST)
_HINT_BYTES = tuple(hint.encode() for hint in _HINTS)
_ASCII_ESCAPE = re.compile(r"\\u00[2-7]")
_ASCII_ESCAPE_BYTES = re.compile(_ASCII_ESCAPE.pattern.encode())
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["'\\/bfnrt]))""")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEEPEST = 16
"""The levels of JSON in JSON that are looked into; each doubles the backslashes."""

_FLAGS = re.IGNORECASE | re.ASCII
_ENDS_AS_SECRET = re.compile(rf"{_NAME}\s*\Z", _FLAGS)
_USERINFO = r"""://(?!\[redacted\]@)[^\s/?#"'<>]*@"""
_QUOTES = r"""["'`*\])]"""
_MENTION = re.compile(rf"{_NAME}(?:[/~]|\s*(?:{_QUOTES}|[:=]))|{_USERINFO}|{re.escape(REST)}", re.ASCII)
"""Whatever may make a text hold a secret, in lower case: a pattern that ignores case takes ten times as long."""
_REST_OF_LINE = r"""(?:["']{3}[\s\S]*|[^\r\n]*[-\[({\\|>+,][ \t]*\r?\n[\s\S]*|\r?\n[ \t]+[\s\S]*|\S[^\r\n]*)"""
"""The rest of a line, or of the text where the value may go on below, as with an open bracket or indented lines."""
_IN_PLACE = re.compile(
    rf"""([?&][\w.-]*{_NAME}=)[^\s&#"'<>]+"""
    rf"""|({_NAME}[ \t]*[:=][ \t]*){_REST_OF_LINE}"""
    r"""|(://)[^\s/?#"'<>]*(?=@)""",
    _FLAGS,
)
"""A secret in a text that is no JSON, and that can be told from the rest."""
_LEFT = re.compile(
    rf"""{_NAME}\s*{_QUOTES}[\s"'`*\])]*[:=]"""
    rf"""|[\[(]\s*b?["'][^"']*{_NAME}\s*["']\s*,"""
    rf"""|["'](?:path|name|key|header)["']\s*:\s*["'][^"']*{_NAME}\s*["'/~]"""
    rf"""|{_NAME}\s*=\s*(?!\[redacted\])[^\s&]|{_NAME}[ \t]*:[ \t]*(?!\[redacted\])\S|{_USERINFO}""",
    _FLAGS,
)
"""A secret in a text that is no JSON, which was not replaced in place."""


class Edit(NamedTuple):
    """A replacement in a text."""

    start: int
    """The position of the first character that is replaced."""
    end: int
    """The position behind the last."""
    text: str
    """The replacement."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits made, which are in order."""
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += (text[at : edit.start], edit.text)
        at = edit.end
    return "".join([*parts, text[at:]]) if parts else text


def is_secret_name(name: str) -> bool:
    """Return whether the value of a member is secret."""
    return _ENDS_AS_SECRET.search(name) is not None


def names_secret(label: str) -> bool:
    """Return whether a name or a JSON pointer leads to a secret."""
    return any(map(is_secret_name, label.replace("~1", "/").replace("~0", "~").split("/")))


def may_hold_secrets(line: bytes) -> bool:
    """Return whether a line has to be looked at; most need not be."""
    lowered = line.lower()
    for hint in _HINT_BYTES:
        if hint in lowered:
            return True
    # A name may be written as escapes.
    return b"\\u00" in lowered and _ASCII_ESCAPE_BYTES.search(lowered) is not None


def mentions_secret(text: str) -> bool:
    """Return whether a text may hold a secret, as it is or inside of JSON in it."""
    return has_hint(text.lower(), _HINTS) and any(_MENTION.search(level.lower()) for level in levels(text))


def has_hint(lowered: str, hints: Iterable[str]) -> bool:
    """Return whether a text in lower case has one of some words, or an ASCII character that is written as an escape."""
    for hint in hints:  # For every event: any() would take twice as long.
        if hint in lowered:
            return True
    return has_ascii_escape(lowered)


def has_ascii_escape(text: str) -> bool:
    """Return whether a text has an ASCII character that is written as an escape, at any depth of JSON in JSON."""
    return "\\u00" in text and _ASCII_ESCAPE.search(text) is not None


def levels(text: str) -> Iterator[str]:
    """Yield a text as it is, as it is inside a JSON string, inside a JSON string in one, and so on."""
    yield text
    for _ in range(_DEEPEST):
        if "\\" not in text or (inner := _ESCAPE.sub(_unescaped, text)) == text:
            return
        text = inner
        yield text
    if _ESCAPE.search(text):
        yield "password: x"  # What is deeper still counts for a secret.


def edits_in_place(text: str) -> list[Edit] | None:
    """Return the edits that take the secrets out of a text that is no JSON; None if that is not possible."""
    edits = [Edit(match.end(match.lastindex or 0), match.end(), REDACTED) for match in _IN_PLACE.finditer(text)]
    return None if any(map(_LEFT.search, levels(edited(text, edits)))) else edits


def _unescaped(match: re.Match[str]) -> str:
    code, char = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(char, char)
