"""The templates of `formatString`: text with `${…}` in it, which becomes a list of texts and dynamic values.

One pass over the template, so that the work is in proportion to its length; nesting is bounded.
"""

from __future__ import annotations

import re
from typing import Any

from agui_client.a2ui._words import MOST_NESTED, MOST_TEMPLATE

_SPACE = re.compile(r"\s*")
_TEXT = re.compile(r"(?:\\(?!\$\{)|\$(?!\{)|[^\\$])+")
_NUMBER = re.compile(r"\d[\d.]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9/._-]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_]*")
_KEYWORD = re.compile(r"(true|false|null)(?![A-Za-z0-9_])")
_KEYWORDS: dict[str, Any] = {"true": True, "false": False, "null": ""}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class TemplateError(ValueError):
    """A template that is not one; the text says why."""


def parsed(template: str) -> list[Any]:
    r"""Return the parts of a template: texts, numbers and booleans, `{"path": …}` and `{"call": …, "args": …}`.

    Args:
        template: The template; `\${` is a literal `${`.

    Raises:
        TemplateError: It is too long, nested too deeply, or not closed.
    """
    if len(template) > MOST_TEMPLATE:
        raise TemplateError(f"a template is longer than {MOST_TEMPLATE:,} characters")
    reader, parts = _Reader(template), list[Any]()
    while reader.at < len(template):
        if reader.takes("${"):
            parts.append(reader.expression_to_brace(0))
        elif reader.takes("\\${"):
            parts.append("${")
        else:
            parts.append(reader.match(_TEXT))
    return parts


class _Reader:
    """Reads one template from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def takes(self, expected: str) -> bool:
        """Step over a text if it is next."""
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def match(self, pattern: re.Pattern[str]) -> str:
        """Step over what a pattern matches, and return it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def expect(self, expected: str) -> None:
        """Step over a text that must be next."""
        if not self.takes(expected):
            raise TemplateError(f"a template lacks {expected!r} at character {self.at}")

    def expression_to_brace(self, depth: int) -> Any:
        """Read an expression and the brace that closes it."""
        value = self.expression(depth)
        self.match(_SPACE)
        self.expect("}")
        return value

    def expression(self, depth: int) -> Any:
        """Read one expression."""
        if depth > MOST_NESTED:
            raise TemplateError(f"a template is nested deeper than {MOST_NESTED} levels")
        self.match(_SPACE)
        if self.takes("${"):
            return self.expression_to_brace(depth + 1)
        if (quote := self.text[self.at : self.at + 1]) in {"'", '"'}:
            return self.string(quote)
        if digits := self.match(_NUMBER):
            return _number(digits)
        if keyword := self.match(_KEYWORD):
            return _KEYWORDS[keyword]
        name = self.match(_NAME)
        self.match(_SPACE)
        if self.takes("("):
            return {"call": name, "args": self.arguments(depth)}
        return {"path": name} if name else ""

    def arguments(self, depth: int) -> dict[str, Any]:
        """Read the named arguments of a call, up to its closing bracket."""
        given: dict[str, Any] = {}
        self.match(_SPACE)
        while not self.takes(")"):
            name = self.match(_ARGUMENT)
            self.match(_SPACE)
            self.expect(":")
            given[name] = self.expression(depth + 1)
            self.match(_SPACE)
            self.takes(",")
            self.match(_SPACE)
        return given

    def string(self, quote: str) -> str:
        """Read a quoted text; one that is not closed ends with the template."""
        self.at += 1
        read: list[str] = []
        while self.at < len(self.text) and (character := self.text[self.at]) != quote:
            if character == "\\":
                self.at += 1
                character = self.text[self.at : self.at + 1]
                character = _ESCAPES.get(character, character)
            read.append(character)
            self.at += 1
        self.at += 1
        return "".join(read)


def _number(digits: str) -> float | int:
    whole, point, rest = digits.partition(".")
    if "." in rest or len(digits) > MOST_NESTED:
        raise TemplateError(f"{digits[:50]!r} in a template is not a number")
    return float(digits) if point and rest else int(whole)
