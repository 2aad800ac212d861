"""Docstrings of tools in Google's, NumPy's or Sphinx's style: the text for the agent, and what it says of parameters.

Only what describes a parameter, a result or an exception leaves the text. What is not understood stays in it, since a
model reads prose as well as people do; a parser of one style drops what does not fit. So does what describes a
parameter that the function does not have: it was renamed, or is a member of one that it has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from inspect import cleandoc
from textwrap import dedent

_NOUNS = ("args", "arguments", "params", "parameters")
_PARAMETERS = frozenset(f"{kind}{noun}" for kind in ("", "keyword ", "other ") for noun in _NOUNS)
_LEFT_OUT = frozenset(
    {"returns", "return", "raises", "exceptions", "yields", "yield", "receives", "warns", "example", "examples"}
)
"""The titles of sections that say nothing about how to call a function."""
_TITLE = re.compile(r"(?P<mark>\*\*|__|)(?P<title>\w[\w ]*)(?::(?P=mark)|(?P=mark):)[ \t]*")
"""A title of Google's style, also in bold."""
_RULE = re.compile(r"[-=]{3,}[ \t]*")
"""The line below a title of NumPy's style."""
_ITEM = re.compile(
    r"""[ \t]* (?P<bullet>[-*+•][ \t]+)? (?P<quote>[`*]{0,2}) \*{0,2} (?P<name>\w+) (?P=quote)
        (?:[ \t]*\([^()]*(?:\([^()]*\)[^()]*)*\))?
        (?:[ \t]*:(?:[ \t]+|$) | (?P<dash>[ \t]+[-\u2013\u2014][ \t]+)) (?P<text>.*)""",
    re.VERBOSE,
)
"""The beginning of a description: `city: …`, `city (str): …`, `- city: …`, `city - …`, also with the name in quotes."""
_FIELD = re.compile(r"[:@](?P<field>[a-z]+)(?:[ \t]+(?P<about>[^:]*))?:[ \t]*(?P<text>.*)")
"""A field of Sphinx's style, or of Epydoc's."""
_FIELDS_OF_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_FIELDS_LEFT_OUT = frozenset({"type", "rtype", "except", "exception", "raise", *_LEFT_OUT})


def read_docstring(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Read a docstring.

    Args:
        text: The docstring, without the indentation of its code.
        names: The names of the function's parameters.

    Returns:
        The text without what describes parameters, results and exceptions; and the descriptions of parameters, by name.
    """
    reader = _Reader(names)
    lines, at = text.splitlines(), 0
    while at < len(lines):
        at = reader.read(lines, at)
    prose = "\n".join(reader.prose).strip()
    return re.sub(r"\n{3,}", "\n\n", prose) if reader.has_left_out else text, reader.found


class _Reader:
    """Reads a docstring section by section.

    Args:
        names: The names of the function's parameters.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.prose: list[str] = []
        self.found: dict[str, str] = {}
        self.has_left_out = False

    def read(self, lines: Sequence[str], at: int) -> int:
        """Read the section or the line that begins somewhere; return the place behind it."""
        line = lines[at]
        if (field := _FIELD.fullmatch(line)) is not None:
            end = _end_of_indented(lines, at + 1)
            self._read_field(field, lines[at:end])
            return end
        if _is_ruled(lines, at):
            end = next((place for place in range(at + 2, len(lines)) if _is_ruled(lines, place)), len(lines))
            self._read_section(line.strip().rstrip(":"), lines[at:end], 2, self._numpy_items(lines[at + 2 : end]))
            return end
        if (title := _TITLE.fullmatch(line)) is not None:
            end = self._end_of_google(lines, at + 1, title["title"])
            self._read_section(title["title"], lines[at:end], 1, self._google_items(lines[at + 1 : end]))
            return end
        self.prose.append(line)
        return at + 1

    def _read_field(self, field: re.Match[str], lines: Sequence[str]) -> None:
        kind, name = field["field"], (field["about"] or "").rpartition(" ")[2].lstrip("*")
        is_of_parameter = kind in _FIELDS_OF_PARAMETERS or kind == "type"
        if name not in self._names if is_of_parameter else kind not in _FIELDS_LEFT_OUT:
            self.prose += lines
            return
        if kind in _FIELDS_OF_PARAMETERS:
            self._describe(name, [field["text"], *lines[1:]])
        self._leave_out()

    def _read_section(
        self, title: str, lines: Sequence[str], head: int, items: Iterator[tuple[str | None, Sequence[str]]]
    ) -> None:
        """Read a section.

        Args:
            lines: All of its lines.
            head: The number of lines of its head.
            items: Its items: the name of a parameter of the function, and the lines about it; None for lines about
                anything else.
        """
        title, found = title.strip().lower(), list[tuple[str | None, Sequence[str]]]()
        if title in _PARAMETERS:
            found = list(items)
        if title in _LEFT_OUT and any(map(str.strip, lines[head:])):
            self._leave_out()
        elif any(name is not None for name, _ in found):
            self._leave_out()
            for name, about in found:
                if name is None:
                    self.prose += [dedent("\n".join(about)).strip(), ""]
                else:
                    self._describe(name, about)
        else:
            self.prose += lines

    def _leave_out(self) -> None:
        self.has_left_out = True
        self.prose.append("")

    def _describe(self, name: str, lines: Sequence[str]) -> None:
        description, known = cleandoc("\n".join(lines)), self.found.get(name, "")
        if description not in known:
            self.found[name] = f"{known}\n{description}".lstrip()

    def _end_of_google(self, lines: Sequence[str], at: int, title: str) -> int:
        end = _end_of_indented(lines, at)
        if title.strip().lower() in _PARAMETERS:
            # Some write them without indentation, as a list of Markdown or not.
            while end < len(lines) and self._item(lines[end]) is not None:
                end = _end_of_indented(lines, end + 1)
        return end

    def _item(self, line: str) -> re.Match[str] | None:
        """Return the beginning of a description; None for a line that is none.

        What looks like the plain form for a parameter that is not there is one, too; a list or a sentence is not.
        """
        item = _ITEM.fullmatch(line)
        if item is None or item["name"] in self._names:
            return item
        is_plain = not (item["bullet"] or item["quote"] or item["dash"])
        return item if is_plain and line[:1].isspace() and item["name"][0].islower() else None

    def _google_items(self, lines: Sequence[str]) -> Iterator[tuple[str | None, Sequence[str]]]:
        depth = min((_depth(line) for line in lines if line.strip()), default=0)
        name, about = None, list[str]()
        for line in lines:
            is_head = line.strip() and _depth(line) == depth
            item = self._item(line) if is_head else None
            if item is not None and item["name"] in self._names:
                yield name, about
                name, about = item["name"], [item["text"]]
                continue
            # A line right below a description is its second one; below a blank line it is about something else.
            if is_head and name is not None and (item is not None or not about[-1].strip()):
                yield name, about
                name, about = None, []
            about.append(line)
        yield name, about

    def _numpy_items(self, lines: Sequence[str]) -> Iterator[tuple[str | None, Sequence[str]]]:
        """Yield the names that stand alone or before their types, with the indented lines below them."""
        at = 0
        while at < len(lines):
            end = _end_of_indented(lines, at + 1)
            head = lines[at].partition(":")[0].split(",")
            names = [each.strip().strip("`").lstrip("*") for each in head]
            about = lines[at + 1 : end]
            known = [each for each in names if each in self._names] if any(map(str.strip, about)) else []
            yield from ((name, ["", *about]) for name in known)
            if len(known) < len(names):
                yield None, lines[at:end]
            at = end


def _is_ruled(lines: Sequence[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(lines[at].strip()) and _RULE.fullmatch(lines[at + 1]) is not None


def _end_of_indented(lines: Sequence[str], at: int) -> int:
    """Return the place of the first line that is neither indented nor blank."""
    places = range(at, len(lines))
    return next((place for place in places if lines[place].strip() and not _depth(lines[place])), len(lines))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
