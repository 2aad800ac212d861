"""The data of a surface: JSON values behind paths, as A2UI writes them.

A path is a JSON Pointer that is lenient about slashes at its ends. A value that is written is copied first, so that the
message that it came in never changes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._words import MOST_GAP, MOST_NESTED

_LONGEST_PATH = 5_000
"""The length of a path that is followed, in characters."""


class DataError(ValueError):
    """A path that leads nowhere, or a value that is not data; the text says which."""


class _Missing:
    """The type of `MISSING`."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The mark of a place without a value; None is JSON's null."""


def segments(path: str) -> list[str]:
    """Return the names and indexes of a path, decoded."""
    return [each.replace("~1", "/").replace("~0", "~") for each in path.split("/") if each]


def joined(base: str, path: str) -> str:
    """Return an absolute path: `path` itself, or `path` below `base`, both of which may be `/` for all data."""
    if path.startswith("/"):
        return path
    if path in {"", "."}:
        return base
    return f"{base.rstrip('/')}/{path.removeprefix('./')}"


def get(data: Any, path: str) -> Any:
    """Return the value behind a path; `MISSING` if there is none."""
    if len(path) > _LONGEST_PATH:
        return MISSING
    for name in segments(path):
        if is_object(data):
            data = data.get(name, MISSING)
        elif is_array(data):
            index = _index(name)
            data = data[index] if index is not None and index < len(data) else MISSING
        else:
            return MISSING
    return data


def put(data: Any, path: str, value: Any) -> Any:
    """Write a value behind a path, making objects and arrays on the way; `MISSING` removes what is there.

    Returns:
        The data, which is another object if all of it was replaced.

    Raises:
        DataError: The path goes through a value that is neither an object nor an array, or far beyond an array's end.
    """
    names = segments(path)
    if not names:
        return {} if value is MISSING else value
    if data is None or data is MISSING:
        data = {}
    place: Any = data
    for name, following in pairwise(names):
        inner: Any = get_item(place, name, path)
        if inner is None or inner is MISSING:
            inner = {} if _index(following) is None else []
            _put_item(place, name, inner, path)
        place = inner
    _put_item(place, names[-1], value, path)
    return data


def get_item(place: Any, name: str, path: str) -> Any:
    """Return a member of an object or an array; `MISSING` if it has none.

    Raises:
        DataError: It is neither.
    """
    if is_object(place):
        return place.get(name, MISSING)
    index = _checked_index(place, name, path)
    return place[index] if index < len(place) else MISSING


def _put_item(place: Any, name: str, value: Any, path: str) -> None:
    if is_object(place):
        if value is MISSING:
            place.pop(name, None)
        else:
            place[name] = value
        return
    index = _checked_index(place, name, path)
    if value is MISSING:
        # The other items keep their places, as components may be bound to them.
        if index < len(place):
            place[index] = None
        return
    place.extend([None] * (index + 1 - len(place)))
    place[index] = value


def _checked_index(place: Any, name: str, path: str) -> int:
    if not is_array(place):
        raise DataError(f"the path {path[:200]!r} goes through a value that is neither an object nor an array")
    index = _index(name)
    if index is None:
        raise DataError(f"{name[:50]!r} in the path {path[:200]!r} is not the index of an array")
    if index > len(place) + MOST_GAP:
        raise DataError(f"the index {name[:50]} in the path {path[:200]!r} is far beyond the end of its array")
    return index


def _index(name: str) -> int | None:
    if name.isascii() and name.isdigit() and len(name) < 10 and (name == "0" or name[0] != "0"):
        return int(name)
    return None


def copied(value: Any, depth: int = 0) -> Any:
    """Return a copy of a JSON value.

    Raises:
        DataError: It is nested too deeply.
    """
    if depth > MOST_NESTED:
        raise DataError(f"a value is nested deeper than {MOST_NESTED} levels")
    if is_object(value):
        return {name: copied(each, depth + 1) for name, each in value.items()}
    if is_array(value):
        return [copied(each, depth + 1) for each in value]
    return value
