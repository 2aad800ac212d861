"""Changes of the state in words, for people who do not read JSON Pointers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ag_ui.core import Event, StateDeltaEvent

from agui_client._cli.lines import one_line
from agui_client._json_pointers import parts_of
from agui_client._protocol.json_difference import Operation, difference

_LONGEST_VALUE = 40
_SHOWN = 2
"""The number of changes by one event that are described; the others are counted."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z_\-\s]+")
_UNKNOWN = object()


def describe_change(event: Event, before: Any, after: Any) -> str:
    """Describe what an event changes in the state.

    Args:
        event: The event.
        before: The state before it.
        after: The state after it.

    Returns:
        A phrase such as "changed trip weather from nothing to “sunny”".
    """
    operations = _operations(event, before, after)
    if operations is None:
        return "set the whole state"
    changes: list[str] = []
    for operation in operations:
        # An earlier operation may have changed what a later one finds.
        if change := _change(operation, _UNKNOWN if changes else before):
            changes.append(change)
    if len(changes) > _SHOWN:
        changes[_SHOWN:] = [f"{len(changes) - _SHOWN} more"]
    return one_line(", ".join(changes)) or "nothing changed"


def _operations(event: Event, before: Any, after: Any) -> list[Operation] | None:
    """Return the operations of a change; None if there was no state, or if nearly everything is new."""
    if isinstance(event, StateDeltaEvent):
        return [each.model_dump(mode="json", by_alias=True) for each in event.delta]
    return difference(before, after, is_detailed=True) if before else None


def _change(operation: Operation, before: Any) -> str:
    path = parts_of(operation["path"])
    match operation["op"]:
        case "add" if path and (path[-1] == "-" or path[-1].isdecimal()):
            return f"added {_value(operation['value'])} to {_place(path[:-1])}"
        case "add" | "replace" if not path:
            return "replaced the state"
        case "add" if _at(before, path) is _UNKNOWN:
            return f"set {_place(path)} to {_value(operation['value'])}"
        case "add" | "replace":
            return f"changed {_place(path)}{_from(_at(before, path))} to {_value(operation['value'])}"
        case "remove":
            return f"removed {_place(path)}"
        case "move":
            return f"moved {_place(parts_of(operation['from']))} to {_place(path)}"
        case "copy":
            return f"copied {_place(parts_of(operation['from']))} to {_place(path)}"
        case _:
            return ""  # "test" changes nothing


def _place(path: Sequence[str]) -> str:
    """Name a place: "/trip/dayPlan/2/name" is "name of item 3 of trip day plan"."""
    places: list[str] = []
    names: list[str] = []
    for part in path:
        if part.isdecimal():
            places += [" ".join(names)] if names else []
            places.append(f"item {int(part) + 1}")
            names = []
        else:
            names.append(_words(part))
    places += [" ".join(names)] if names else []
    return " of ".join(reversed(places)) or "the state"


def _words(name: str) -> str:
    words: list[str] = _WORD.findall(name)
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words) or repr(name)


def _at(state: Any, path: Sequence[str]) -> Any:
    found = state
    for part in path:
        try:
            found = found[int(part) if isinstance(found, list) else part]
        except (KeyError, IndexError, ValueError, TypeError):
            return _UNKNOWN
    return found


def _from(value: Any) -> str:
    return "" if value is _UNKNOWN else f" from {_value(value)}"


def _value(value: Any) -> str:
    """Write a value in a few characters."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"“{_short(value)}”"
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
