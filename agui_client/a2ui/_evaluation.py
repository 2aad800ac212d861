"""Working out values: literals, `{"path": …}` and `{"call": …}`, within the limits of one drawing.

What an agent sends costs in proportion to its length, whatever it asks for: steps, texts and nesting are counted, and
behind a limit a value is missing and the problem is noted.
"""

from __future__ import annotations

from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._data import MISSING, get, joined
from agui_client.a2ui._expressions import TemplateError, parsed
from agui_client.a2ui._functions import FUNCTIONS, NOT_WORKED_OUT, ArgumentError, is_true, text_of
from agui_client.a2ui._words import MOST_NESTED, MOST_PROBLEMS, MOST_STEPS, MOST_TEXT


class LeftToAgent(Exception):  # noqa: N818 - no error: the answer to a check that only the agent can make
    """A value depends on a function that is not carried out here."""


class Evaluation:
    """One drawing of a surface: its data, what it has cost so far, and its problems.

    Args:
        data: The data of the surface.
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self.problems: dict[str, None] = {}
        """The problems, in order, each once."""
        self.unknown: dict[str, None] = {}
        """The components and functions that are not in the basic catalog, or not carried out."""
        self._steps = 0
        self._text = 0
        self._templates: dict[str, list[Any] | TemplateError] = {}

    def note(self, problem: str) -> None:
        """Note a problem; those beyond a hundred are not."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems[problem] = None

    def note_unknown(self, name: str) -> None:
        """Note a component or function that is unknown."""
        if len(self.unknown) < MOST_PROBLEMS:
            self.unknown[name[:100]] = None

    def step(self) -> bool:
        """Count one step; return False, and note it, if there were too many."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            self.note(f"more than {MOST_STEPS:,} values were asked for; the others are missing")
        return self._steps <= MOST_STEPS

    def value(self, dynamic: Any, base: str) -> Any:
        """Work out a value.

        Args:
            dynamic: A literal, a binding, a call, or an array of them.
            base: The path that relative paths are below.

        Returns:
            The value; `MISSING` if there is none, or it could not be worked out.
        """
        try:
            return self._value(dynamic, base, 0)
        except LeftToAgent:
            return MISSING

    def holds(self, condition: Any, base: str) -> bool | None:
        """Return whether a condition of a check holds; None if only the agent can say."""
        try:
            value = self._value(condition, base, 0)
        except LeftToAgent:
            return None
        return is_true(value)

    def _value(self, dynamic: Any, base: str, depth: int) -> Any:
        if not (is_object(dynamic) or is_array(dynamic)):
            return dynamic
        if depth > MOST_NESTED:
            self.note(f"calls are nested deeper than {MOST_NESTED} levels")
            return MISSING
        if not self.step():
            return MISSING
        return self._items(dynamic, base, depth) if is_array(dynamic) else self._object(dynamic, base, depth)

    def _object(self, dynamic: Any, base: str, depth: int) -> Any:
        if isinstance(path := dynamic.get("path"), str):
            return get(self.data, joined(base, path))
        if isinstance(name := dynamic.get("call"), str):
            return self._call(name, dynamic.get("args"), base, depth)
        return dynamic

    def _items(self, items: list[Any], base: str, depth: int) -> list[Any]:
        # Most arrays are plain data, however long: only those with calls or bindings in them are copied.
        self._steps += len(items)
        if not any(is_object(each) or is_array(each) for each in items):
            return items
        return [self._value(each, base, depth + 1) for each in items]

    def _call(self, name: str, given: Any, base: str, depth: int) -> Any:
        if name == "formatString":
            return self._format_string(given, base, depth)
        if (function := FUNCTIONS.get(name)) is None:
            self.note_unknown(f"{name}()")
            self.note(f"{name[:50]}(): {NOT_WORKED_OUT.get(name, 'there is no such function in the basic catalog')}")
            raise LeftToAgent
        args = self._arguments(given, base, depth)
        try:
            return self._counted(function(args))
        except ArgumentError as error:
            # A field that is still empty is no fault of the agent: checks see a missing value, as they should.
            if MISSING not in args.values():
                self.note(f"{name}(): {error}")
            return MISSING

    def _arguments(self, given: Any, base: str, depth: int) -> dict[str, Any]:
        arguments: dict[str, Any] = given if is_object(given) else {}
        return {name: self._value(each, base, depth + 1) for name, each in arguments.items()}

    def _format_string(self, given: Any, base: str, depth: int) -> Any:
        template = text_of(self._arguments(given, base, depth).get("value", MISSING))
        try:
            parts = self._parts(template)
        except TemplateError as error:
            self.note(f"formatString(): {error}")
            return MISSING
        written: list[str] = []
        for part in parts:
            if self._text > MOST_TEXT or not self.step():
                break
            written.append(self._counted(text_of(self._value(part, base, depth + 1))))
        return "".join(written)

    def _parts(self, template: str) -> list[Any]:
        if (parts := self._templates.get(template)) is None:
            try:
                parts = parsed(template)
            except TemplateError as error:
                parts = error
            self._templates[template] = parts
        if isinstance(parts, TemplateError):
            raise parts
        return parts

    def _counted(self, result: Any) -> Any:
        """Return a result, or as much of it as functions may still write."""
        if not isinstance(result, str):
            return result
        left = max(MOST_TEXT - self._text, 0)
        # Counted once more for the text that it becomes a part of, which bounds formatString in formatString.
        self._text += len(result)
        if len(result) > left:
            self.note(f"functions made more than {MOST_TEXT:,} characters of text; the rest is cut")
        return result[:left]
