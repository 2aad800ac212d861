"""Secrets, taken out of everything that is written, logged, shown or uploaded (SEC-7, SEC-9).

One table has the names whose values are secret, and the forms of secrets without a name. `hidden_json` is for JSON,
`hidden_text` for any text, `address_of` for a URL; recordings, whose lines keep their shape, use `hidden_line`. JSON is
edited in place, at any depth of JSON in JSON, and everything else of it stays as it is. Of any other text, what can be
told from the rest is replaced: passwords in addresses, the token behind `Bearer`, what follows `password=`; a text that
may hold a secret in another form is replaced as a whole. Redaction is idempotent for JSON: a replay compares requests
that were made of redacted responses with recorded ones.

To change

- the secrets that were sent, and that errors, reports and recordings are shown without: `_core/ground/sent_secrets.py`
- the names and forms of secrets, in whatever is written: `_NAME`, `_SHAPES` and their hints here, `FORMS` in
  `tests/core/ground/test_secrets.py`, and the table in docs/recording.md; `recording/_pieces.py` holds back pieces of
  texts
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import lru_cache
from string import ascii_letters, digits
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from agui_client._core.ground.json_pointers import parts_of, pointer
from agui_client._core.ground.json_reading import DEEPEST_READ
from agui_client.errors import UsageError

REDACTED = "[redacted]"
REST = "[the rest is redacted]"
"""The end of a text whose first pieces were written before it was redacted; it counts for redacted as a whole."""

_ID_TOKEN = r"id(?<![a-z0-9]id)[-_]?token"  # and not "valid_token"
_WHOLE_NAME = (
    r"(?:token|secret|bearer)(?<![\w-]token)(?<![\w-]secret)(?<![\w-]bearer)"  # and not "max_token" or "tokens"
)
_NAME = (
    r"(?:(?:encrypted[-_]?(?:value|content)|authorization|cookie|password|passphrase|passwd|pwd|client[-_]?secret"
    rf"|(?:api|private)[-_]?key|(?:access|auth|bearer|refresh)[-_]?token|{_ID_TOKEN})s?"
    rf"|{_WHOLE_NAME}|pass(?<![a-z0-9]pass))"  # "db_pass", and not "bypass"
)
"""The end of every name whose value is secret; docs/recording.md lists them."""
_OPAQUE = frozenset({"encryptedValue", "encrypted_value", "rawEvent"})
"""The members of events and messages that nobody but a provider can read, or that copy what one sent."""
_SHAPES = (
    r"(bearer\s+)[\w+/=.~-]{6,}|(basic\s+)(?-i:(?=[\w+/]*[a-z0-9][A-Z0-9]))[\w+/]{6,}={0,2}"
    r"|()(?<![a-z0-9])sk-[\w-]{16,}"
)
"""Secrets that have no name: the credentials of two schemes, and the keys of some providers."""
NAME_HINTS = ("crypted", "authoriz", "cookie", "key", "token", "secret", "pass", "pwd", "bearer")
"""Every such name, in lower case, has one of these."""
SHAPE_HINTS = ("bearer", "basic", "sk-")
"""Every secret without a name, in lower case, has one of these."""
_NAME_ENDS = tuple(
    f"{name}{end}"
    for name in (
        *("value", "content", "authorization", "cookie", "key", "token", "secret", "pass", "password", "passphrase"),
        *("passwd", "pwd", "bearer"),
    )
    for end in ("", "s")
)
_AFTER_SCHEME = frozenset(f"{ascii_letters}{digits}_+/=.~-")
_IN_KEY = frozenset(f"{ascii_letters}{digits}_-")
_SCHEMES = ("bearer", "basic")
_HEADER = re.compile("auth(?!enticate$)|session|signature|location|" + "|".join(NAME_HINTS))
"""Names of headers that may carry a secret. A challenge does not: it is for clients without credentials."""
MARKS_OF_ADDRESSES = re.compile("[?#@]")
"""The characters before or behind which an address may hold a secret: a query, a fragment, a password."""
_ENDS_OF_USER = frozenset(""" \t\n\r\f\v/?#"'<>""")
"""The characters before which the user in an address has ended."""
_KEY = re.compile("(?<![a-z0-9])sk-")
_HEAD = 8
"""The first characters of a secret that was sent, which are one even if the rest was cut off."""
_HINTS = (*NAME_HINTS, *SHAPE_HINTS, "@", REST)
_ASCII_ESCAPE = re.compile(r"\\u00[2-7]")
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["'\\/bfnrt]))""")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEEPEST = 16
"""The levels of JSON in JSON that are looked into; each doubles the backslashes."""

_FLAGS = re.IGNORECASE | re.ASCII
_ENDS_AS_SECRET = re.compile(rf"{_NAME}\s*\Z", _FLAGS)
_USERINFO = r"""://(?!\[redacted\]@)[^\s/?#"'<>]*@"""
_QUOTES = r"""["'`*\])]"""
_MENTION = re.compile(
    rf"{_NAME}(?:[/~]|\s*(?:{_QUOTES}|[:=]))|{_USERINFO}|{re.escape(REST)}"
    r"|(?:bearer|basic)\s+[\w+/=.~-]{6}|(?<![a-z0-9])sk-[\w-]{16}",
    re.ASCII,
)
"""Whatever may make a text hold a secret, in lower case: a pattern that ignores case takes ten times as long."""
_REST_OF_LINE = r"""(?:["']{3}[\s\S]*|[^\r\n]*[-\[({\\|>+,][ \t]*\r?\n[\s\S]*|\r?\n[ \t]+[\s\S]*|\S[^\r\n]*)"""
"""The rest of a line, or of the text where the value may continue below, as with an open bracket or indented lines."""
_IN_PLACE = re.compile(
    rf"""([?&][\w.-]*{_NAME}=)[^\s&#"'<>]+"""
    rf"""|({_NAME}[ \t]*[:=][ \t]*){_REST_OF_LINE}"""
    r"""|(://)[^\s/?#"'<>]*(?=@)"""
    rf"|{_SHAPES}",
    _FLAGS,
)
"""A secret in a text that is not JSON, and that can be told from the rest."""
_LEFT = re.compile(
    rf"""{_NAME}\s*{_QUOTES}[\s"'`*\])]*[:=](?!\s*\\*["']?\[redacted\])"""
    rf"""|[\[(]\s*b?["'][^"']*{_NAME}\s*["']\s*,"""
    rf"""|["'](?:path|name|key|header)["']\s*:\s*["'][^"']*{_NAME}\s*["'/~]"""
    rf"""|{_NAME}\s*=\s*(?!\[redacted\])[^\s&]|{_NAME}[ \t]*:[ \t]*(?!\[redacted\])\S|{_USERINFO}|{_SHAPES}""",
    _FLAGS,
)
"""A secret in a text that is not JSON, which was not replaced in place."""

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
_NO_JSON = "the text is not JSON"
_SPACES = frozenset(" \t\r\n")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|Infinity)")
_WORD = re.compile("true|false|null|NaN")
_JSON_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)
"""The source of one character in a JSON string."""
_read_string: Callable[[str, int], tuple[str, int]] = json.JSONDecoder(strict=False).raw_decode


class Replacement(NamedTuple):
    """A replacement in a text."""

    start: int
    """The position of the first character that is replaced."""
    end: int
    """The position behind the last."""
    text: str
    """The replacement."""


def edited(text: str, edits: Iterable[Replacement]) -> str:
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


def is_secret_schema(schema: Any) -> bool:
    """Return whether the JSON Schema of a value says that nobody should see it."""
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    return given.get("format") == "password" or given.get("writeOnly") is True


def names_secret(label: str) -> bool:
    """Return whether a name or a JSON pointer leads to a secret."""
    return any(map(is_secret_name, parts_of(f"/{label}")))


def may_hold_secrets(text: str) -> bool:
    """Return whether a text has to be looked at; most need not be."""
    return has_hint(text.lower(), _HINTS)


def mentions_secret(text: str) -> bool:
    """Return whether a text may hold a secret, as it is or inside of JSON in it."""
    return may_hold_secrets(text) and any(map(has_mention, levels(text)))


def has_mention(text: str) -> bool:
    """Return whether a text may hold a secret as it is; one without `may_hold_secrets` need not be looked at."""
    return _MENTION.search(text.lower()) is not None


def has_hint(lowered: str, hints: Iterable[str]) -> bool:
    """Return whether a text in lower case has one of some words, or an ASCII character that is written as an escape."""
    for hint in hints:  # For every event: any() would take twice as long.
        if hint in lowered:
            return True
    return has_ascii_escape(lowered)


def has_ascii_escape(text: str) -> bool:
    """Return whether a text has an ASCII character that is written as an escape, at any depth of JSON in JSON."""
    return "\\u00" in text and _ASCII_ESCAPE.search(text) is not None


def undecided_from(text: str) -> int | None:
    """Return the position from which a text may be the beginning of a secret, as further text will say; None if none.

    A pattern would look at the rest of the text from each place where a secret may begin. So this begins at the end.
    """
    lowered = text.lower()
    found: list[int] = []
    if (at := lowered.rfind("//")) >= 0 and not _ENDS_OF_USER.intersection(lowered[at + 2 :]):
        found.append(at)
    if (stripped := lowered.rstrip()).endswith(_NAME_ENDS):
        found.append(len(stripped) - 1)
    begin = _run_at_end(lowered, _AFTER_SCHEME)
    before = lowered[:begin].rstrip()
    if len(before) < begin and before.endswith(_SCHEMES):
        found.append(len(before) - 1)
    begin = _run_at_end(lowered, _IN_KEY)
    if (at := lowered.find("sk-", begin)) >= 0 and _KEY.search(lowered, begin):
        found.append(at)
    return min(found, default=None)


def _run_at_end(text: str, characters: Collection[str]) -> int:
    """Return the position from which a text has only some characters."""
    at = len(text)
    while at and text[at - 1] in characters:
        at -= 1
    return at


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


def edits_in_place(text: str) -> list[Replacement] | None:
    """Return the edits that take the secrets out of a text that is not JSON; None if that is not possible."""
    edits = [Replacement(match.end(match.lastindex or 0), match.end(), REDACTED) for match in _IN_PLACE.finditer(text)]
    return None if any(map(_LEFT.search, levels(edited(text, edits)))) else edits


def _unescaped(match: re.Match[str]) -> str:
    code, char = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(char, char)


class _Mode(Enum):
    PLAIN = auto()
    SECRET = auto()
    """In a secret, whose texts and numbers are replaced; its shape stays, on which the verdict on an event depends."""
    SCHEMA = auto()
    """In the JSON schema of a secret."""


@lru_cache(maxsize=64)
def address_of(url: object) -> str:
    """Return an address without the parts that may be secret: user, password, query and fragment."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return REDACTED
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def is_secret_header(name: str) -> bool:
    """Return whether the value of a header may be secret: more is than in data, as headers are seldom for people."""
    return _HEADER.search(name.lower()) is not None


def may_show_header(name: str, value: str) -> bool:
    """Return whether a header may be shown: its name says nothing of a secret, and no address in it has one."""
    return not (is_secret_header(name) or MARKS_OF_ADDRESSES.search(value))


def hidden_json(value: Any, sent: Collection[str] = ()) -> Any:
    """Return a JSON value without secrets, and without a provider's own values.

    Args:
        sent: Credentials that are known, see `SentSecrets`.
    """
    try:
        plain = without_opaque(value)
        text = json.dumps(plain)
        return json.loads(hidden) if (hidden := hidden_line(text, sent=sent)) != text else plain
    except RecursionError:
        return REDACTED


def without_opaque(value: Any) -> Any:
    """Return a JSON value without a provider's own values: encrypted ones, and copies of what it sent."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: REDACTED if key in _OPAQUE else without_opaque(inner) for key, inner in members.items()}
    return [without_opaque(inner) for inner in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


def hidden_text(text: str, sent: Collection[str] = ()) -> str:
    """Return a text without secrets.

    Args:
        sent: Secrets that are known, see `SentSecrets`.
    """
    text = without_sent(text, sent)
    return edited(text, edits_of(text))


def without_sent(text: str, sent: Collection[str]) -> str:
    """Return a text without the secrets that were sent, which a server may quote."""
    for secret in sorted(sent, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
        if len(secret) > _HEAD and secret[:_HEAD] in text:
            text = re.sub(rf"{re.escape(secret[:_HEAD])}[^\s\"'<>]*", REDACTED, text)
    return text


def has_quote(text: str, sent: Collection[str]) -> bool:
    """Return whether a text, or the JSON of one, quotes a credential that was sent."""
    for credential in sent:  # For every event: any() would take twice as long.
        if credential in text:
            return True
    return "\\u00" in text and has_ascii_escape(text) and any(each in inner for inner in levels(text) for each in sent)


def quotes_in(text: str, sent: Collection[str]) -> list[Replacement]:
    """Return the edits that take the credentials that were sent out of a text, which may be JSON."""
    edits = [Replacement(each.start(), each.end(), REDACTED) for word in sent for each in _quotes_of(word, text)]
    return joined(edits)


def _quotes_of(word: str, text: str) -> Iterator[re.Match[str]]:
    # With the backslash of an escape that the word begins inside of: half of one is not JSON.
    return re.finditer(rf"(?:(?<!\\)(?:\\\\)*\\)?{re.escape(word)}", text) if word in text else iter(())


def joined(edits: Iterable[Replacement]) -> list[Replacement]:
    """Return edits in order, with one instead of those that overlap."""
    found: list[Replacement] = []
    for edit in sorted(edits):
        if found and edit.start < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, edit.end))
        else:
            found.append(edit)
    return found


def hidden_line(
    line: str, redact: Redact | None = None, given: Mapping[str, str] = _NOTHING, sent: Collection[str] = ()
) -> str:
    """Return the JSON of a line without secrets.

    Args:
        line: The JSON.
        redact: A function for every other text, but for those that the format or the protocol defines.
        given: Texts to write instead of values, by their pointers; secrets were looked for in them before.
        sent: Credentials that are known, see `SentSecrets`.

    Raises:
        UsageError: The function returned no text.
        ValueError: The line is not JSON.
        RecursionError: The line nests too deeply.
    """
    if redact is None and not given and not has_quote(line, sent) and not mentions_secret(line):
        return line
    return edited(line, _Reader(line, redact, given, sent).edits())


def edits_of(text: str, sent: Collection[str] = ()) -> list[Replacement]:
    """Return the edits that take the secrets out of a text.

    Args:
        sent: Credentials that are known, see `SentSecrets`.
    """
    if sent and (quotes := quotes_in(text, sent)):
        return joined([*edits_of(text), *quotes])
    if not mentions_secret(text):
        return []
    edits: list[Replacement] | None = None
    if not text.endswith(REST):
        try:
            edits = _Reader(text).edits() if begins_as_json(text) else edits_in_place(text)
        except ValueError:
            edits = edits_in_place(text)
        except RecursionError:
            pass  # too deep to be read, so it is replaced as a whole
    return [Replacement(0, len(text), REDACTED)] if edits is None else edits


def begins_as_json(text: str) -> bool:
    """Return whether a text may be JSON that can hold a secret: an object, a list or a string."""
    return text.lstrip(" \t\r\n")[:1] in ("{", "[", '"')


class _Reader:
    """Reads JSON without making values of it, among which may be huge numbers and double names, and notes edits.

    Args:
        text: The JSON.
        redact: See `hidden_line`.
        given: See `hidden_line`.
        sent: See `hidden_line`.
    """

    def __init__(
        self,
        text: str,
        redact: Redact | None = None,
        given: Mapping[str, str] = _NOTHING,
        sent: Collection[str] = (),
    ) -> None:
        self._text, self._redact, self._given, self._sent = text, redact, given, sent
        self._needs_paths = redact is not None or bool(given)
        self._levels = 0
        self._edits: list[Replacement] = []
        # The values that turned out to be secret after they were read.
        self._secret: list[tuple[int, int, str]] = []

    def edits(self) -> list[Replacement]:
        """Read the values, one behind the other, and return the edits that take the secrets out of them.

        Raises:
            UsageError: The function of the user returned no text.
            ValueError: The text is not JSON.
            RecursionError: It nests too deeply.
        """
        at = self._next(0)
        while at < len(self._text):
            at = self._next(self._value(at, "", _Mode.PLAIN)[0])
        if self._secret:
            self._read_secret()
        return sorted(self._edits)

    def _read_secret(self) -> None:
        """Read the values again that are secret, the outermost ones: each part of the text once more at most."""
        outermost: list[tuple[int, int, str]] = []
        for value in sorted(self._secret, key=lambda each: (each[0], -each[1])):
            if not outermost or value[0] >= outermost[-1][1]:
                outermost.append(value)
        starts = [start for start, _, _ in outermost]

        def is_outside(edit: Replacement) -> bool:
            """Return whether an edit is in none of them."""
            before = bisect_right(starts, edit.start)
            return not before or edit.start >= outermost[before - 1][1]

        self._edits = list(filter(is_outside, self._edits))
        for start, _, path in outermost:
            self._value(start, path, _Mode.SECRET)

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
                self._edits.append(Replacement(at, match.end(), "0"))
            return match.end(), None
        if match := _WORD.match(self._text, at):
            return match.end(), None
        raise ValueError(_NO_JSON)

    def _string(self, at: int, path: str, mode: _Mode) -> tuple[int, str]:
        text, end = _read_string(self._text, at)
        if mode is _Mode.SECRET:
            if text not in ("", REDACTED):
                self._edits.append(Replacement(at + 1, end - 1, REDACTED))
            return end, text
        edits = edits_of(text, self._sent)
        if not edits and self._redact is None:
            return end, text
        shown = edited(text, edits)
        if (chosen := self._chosen(shown, path)) != shown:
            self._edits.append(Replacement(at, end, _quoted(chosen)))
        elif edits:
            characters = _JSON_CHARACTER.finditer(self._text[at + 1 : end - 1])
            starts = [*(at + 1 + match.start() for match in characters), end - 1]
            self._edits += (Replacement(starts[edit.start], starts[edit.end], edit.text) for edit in edits)
        return end, text

    def _replace(self, at: int, path: str) -> int:
        """Read a value, instead of which another text is written."""
        end, _ = _Reader(self._text)._value(at, path, _Mode.SECRET)
        new = _quoted(self._chosen(self._given[path], path))
        if new != self._text[at:end]:
            self._edits.append(Replacement(at, end, new))
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
            at, is_over = self._next_item(end, "]")
        # A pair in a list of pairs; two names in a list, as in `required` of a schema, are none.
        if mode is not _Mode.SECRET and is_item and len(items) == 2 and is_secret_name(first or ""):
            self._secret.append(items[1])
        self._levels -= 1
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
            at, is_over = self._next_item(end, "}")
        if mode is not _Mode.SECRET and any(map(names_secret, labels)):
            self._secret += values
        self._levels -= 1
        return at

    def _mode(self, outer: _Mode, name: str, *, is_schema: bool) -> _Mode:
        """Return what a member is part of."""
        if outer is _Mode.PLAIN and is_secret_name(name):
            return _Mode.SCHEMA if is_schema else _Mode.SECRET
        return _Mode.SECRET if outer is _Mode.SCHEMA and name not in _SCHEMA_WORDS else outer

    def _begin(self, at: int, end: str) -> tuple[int, bool]:
        """Return the position inside a bracket, and whether it ends there."""
        self._levels += 1
        if self._levels > DEEPEST_READ:
            raise RecursionError("it has too many levels")
        at = self._next(at + 1)
        return (at + 1, True) if self._text[at : at + 1] == end else (at, False)

    def _next_item(self, at: int, end: str) -> tuple[int, bool]:
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
        begin = at
        name, at = _read_string(self._text, begin)
        if self._sent and (quotes := quotes_in(name, self._sent)):
            self._edits.append(Replacement(begin, at, _quoted(edited(name, quotes))))
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
