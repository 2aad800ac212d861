"""The changes that lead from one JSON value to another, as operations that a page of the inspector applies.

An operation is a list: the path, as keys and indexes; one of the letters below; and its operands. Parts that two values
share as objects are skipped, so that the cost is that of what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from agui_client._protocol.patch import is_same_json
from agui_client._protocol.schema import is_array, is_object

Operation: TypeAlias = list[Any]
"""[path, "=", value] stores a value, [path, "-"] removes a member, [path, "+", text] appends to a text, and [path, "/",
start, count, values] replaces a part of a list."""


def changes(before: Any, after: Any, path: Sequence[str | int]) -> Iterator[Operation]:
    """Yield the operations that make a value of another.

    Args:
        before: A JSON value.
        after: The value to come to.
        path: The place of both.
    """
    if before is after:
        return
    if is_object(before) and is_object(after):
        yield from _members(before, after, path)
    elif is_array(before) and is_array(after):
        yield from _items(before, after, path)
    elif isinstance(before, str) and isinstance(after, str) and before and after.startswith(before):
        if len(after) > len(before):
            yield [list(path), "+", after[len(before) :]]
    elif not is_same_json(before, after):
        yield [list(path), "=", after]


def _members(before: dict[str, Any], after: dict[str, Any], path: Sequence[str | int]) -> Iterator[Operation]:
    for name in before.keys() - after.keys():
        yield [[*path, name], "-"]
    for name, value in after.items():
        if name in before:
            yield from changes(before[name], value, [*path, name])
        else:
            yield [[*path, name], "=", value]


def _items(before: list[Any], after: list[Any], path: Sequence[str | int]) -> Iterator[Operation]:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if not _is_same(before[at], after[at])), shorter)
    end = next((at for at in range(shorter - start) if not _is_same(before[-1 - at], after[-1 - at])), shorter - start)
    if len(before) != len(after):
        yield [list(path), "/", start, len(before) - end - start, after[start : len(after) - end]]
        return
    for at in range(start, len(after) - end):
        yield from changes(before[at], after[at], [*path, at])


def _is_same(before: Any, after: Any) -> bool:
    return before is after or is_same_json(before, after)
