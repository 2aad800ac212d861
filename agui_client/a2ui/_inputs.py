"""Values that a person enters, judged by the component that they are entered into."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any

from agui_client._core.protocol.schema import is_object
from agui_client.a2ui._drawing import Drawn
from agui_client.a2ui._functions import ArgumentError, number_of, text_of
from agui_client.errors import UsageError


def checked_value(node: Drawn, value: Any) -> Any:
    """Return a value as the data has it.

    Args:
        node: The input.
        value: What was entered.

    Raises:
        UsageError: The input does not take it; the sentence says what it takes.
    """
    return _READ[node.component](node, value)


def _text(node: Drawn, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{node.id!r} is a text field and takes text, not {type(value).__name__}")
    text = text_of(value)
    if node.values.get("variant") == "number" and text:
        _number(node, text)
    return text


def _number(node: Drawn, value: Any) -> float:
    try:
        return number_of(value)
    except ArgumentError as error:
        raise UsageError(f"{node.id!r} takes a number: {error}") from error


def _flag(node: Drawn, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{node.id!r} is a check box and takes True or False, not {value!r}")
    return value


def _choice(node: Drawn, value: Any) -> list[str]:
    chosen: list[Any] = [value] if isinstance(value, str) else list(value)
    options = [each.get("value") for each in node.values.get("options", ()) if is_object(each)]
    for each in chosen:
        if each not in options:
            raise UsageError(f"{node.id!r} has no option {each!r}; it has {', '.join(map(repr, options[:20]))}")
    if len(chosen) > 1 and node.values.get("variant") != "multipleSelection":
        raise UsageError(f"{node.id!r} takes one of its options, not {len(chosen)}")
    return chosen


def _slide(node: Drawn, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"{node.id!r} takes a number, not {value!r}")
    number, low, high = _number(node, value), node.values.get("min", 0), node.values.get("max")
    if (isinstance(low, int | float) and number < low) or (isinstance(high, int | float) and number > high):
        raise UsageError(f"{node.id!r} takes a number from {text_of(low)} to {text_of(high)}, not {text_of(number)}")
    return number


def _moment(node: Drawn, value: Any) -> str:
    text = value.isoformat() if isinstance(value, date | time) else value
    if not isinstance(text, str):
        raise UsageError(f"{node.id!r} takes a date or time as ISO 8601, not {value!r}")
    try:
        if text:
            (time if ":" in text[:3] else datetime).fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{node.id!r} takes a date or time as ISO 8601, not {text!r}") from error
    for name, is_outside in (("min", str.__lt__), ("max", str.__gt__)):
        bound = node.values.get(name)
        # Texts of one length in ISO 8601 are ordered as the times are.
        if text and isinstance(bound, str) and bound and is_outside(text[: len(bound)], bound[: len(text)]):
            raise UsageError(f"{node.id!r} takes no value {'before' if name == 'min' else 'after'} {bound}")
    return text


_READ: dict[str, Callable[[Drawn, Any], Any]] = {
    "TextField": _text,
    "CheckBox": _flag,
    "ChoicePicker": _choice,
    "Slider": _slide,
    "DateTimeInput": _moment,
}
