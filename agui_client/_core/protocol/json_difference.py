"""Differences: the JSON Patch (RFC 6902) that leads from one JSON value to another.

Everything that stores or shows what changed between two values calls `difference`. jsonpatch finds the operations, and
cannot be interrupted: it takes 70 ms for a megabyte in which nothing changed, seconds for some pairs of long arrays. So
it gets only what differs, if an estimate says that it can be compared: an object without its equal members, an array
that changed in few places as an object of these places, and any other array without the elements that both begin or
end with. jsonpatch writes the same paths for an object of places; the indexes of a shortened array are corrected.

To change

- how two JSON values are compared: `difference` here, the only module that imports jsonpatch: whatever stores or shows
  a change calls it. `_core/protocol/patch.py` applies patches
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.protocol.patch import extent, is_same_json
from agui_client._core.protocol.schema import is_array, is_object

Operation: TypeAlias = dict[str, Any]
"""An operation of a JSON Patch, as JSON."""
_Rest: TypeAlias = "tuple[Any, Any] | None"
"""The parts of two values that jsonpatch has to compare; None if the values are equal."""
_MOST_EFFORT = 3_000_000
"""The effort that a comparison may take, in tenths of a microsecond, roughly: some tenths of a second."""
_EFFORT_OF_OPERATION = 500
"""The effort of making one operation, besides that of its value, in the same unit."""
_BYTES_OF_OPERATION = 35
"""The length of an operation without its path and its value."""
_PATHS = frozenset({"from", "path"})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_ABSENT = object()


def difference(before: Any, after: Any, *, is_detailed: bool = False) -> list[Operation] | None:
    """Return the JSON Patch that leads from one JSON value to another.

    Two values are compared as JSON, as `is_same_json` does: 1 is not true, and 1 is 1.0. The order of the members of
    objects does not count. For a megabyte it takes about 20 ms if little has changed, and some tenths of a second at
    most: call it in a thread where an event loop would have to wait.

    Args:
        before: The value that the patch applies to.
        after: The value that it leads to. Neither is changed; the patch may share parts with this one.
        is_detailed: Whether each change is to have an operation of its own, to be shown. Otherwise the patch is to be
            short: a part of the value that its operations would be longer than is replaced as a whole.

    Returns:
        The operations in order, none for equal values. None if the patch would not be shorter than `after`, which only
        counts without `is_detailed`, or if too much is different to be compared: then `after` has to stand for itself.
    """
    comparison = _Comparison(is_detailed=is_detailed)
    rest = comparison.rest(before, after, "")
    if rest is None:
        return []
    if comparison.effort > _MOST_EFFORT:
        return None
    # Most programs never compare two states, and jsonpatch is loaded when one does.
    from jsonpatch import make_patch

    operations = [comparison.placed(each) for each in make_patch(*rest).patch]
    return operations if is_detailed or _is_shorter(operations, after) else None


def _is_shorter(operations: list[Operation], value: Any) -> bool:
    """Return whether operations take fewer bytes than a value, as JSON."""
    size = len(_written(operations))
    # Nothing takes less than a fifth of its weight, so a short patch needs no look at a long value.
    return extent(value, 5 * size)[1] > 5 * size or size < len(_written(value))


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Comparison:
    """Leaves out what is equal in two values, and estimates what the rest will cost."""

    def __init__(self, *, is_detailed: bool) -> None:
        self.effort = 0
        """The effort of comparing the rest, in the unit of `_MOST_EFFORT`."""
        self._is_detailed = is_detailed
        # The estimated length of the operations, as JSON.
        self._bytes = 0
        # The places of arrays that are compared without their first elements, and the number of these.
        self._shifts: dict[str, int] = {}

    def rest(self, before: Any, after: Any, path: str) -> _Rest:
        """Return what differs in two values that stand at the same place."""
        if before is after:
            return None
        effort, size = self.effort, self._bytes
        if is_object(before) and is_object(after):
            found = self._members(before, after, path)
        elif is_array(before) and is_array(after):
            found = self._elements(before, after, path)
        elif is_same_json(before, after):
            return None
        else:
            return self._replaced(before, after, path)
        if found is not None and not self._is_detailed:
            spent = self._bytes - size
            weight = extent(after, spent)[1]
            if weight + _BYTES_OF_OPERATION + len(path) < spent:
                # None, which no object or array equals, is replaced by one operation, and costs nothing to compare.
                self.effort, self._bytes = effort, size
                return self._replaced(None, after, path)
        return found

    def placed(self, operation: Operation) -> Operation:
        """Return an operation for the whole values, of one for their rest."""
        if not any(self._shifts.values()):
            return operation
        return {name: self._shifted(each) if name in _PATHS else each for name, each in operation.items()}

    def _shifted(self, path: str) -> str:
        place, *parts = path.split("/")
        for number, part in enumerate(parts):
            # What is inside of an element was compared as a whole.
            if (shift := self._shifts.get(place)) is not None:
                parts[number] = str(int(part) + shift)
                break
            place = f"{place}/{part}"
        return "/".join(["", *parts])

    def _replaced(self, before: Any, after: Any, path: str) -> _Rest:
        """Have one operation replace a value by another; None stands for an old value that need not be looked at."""
        weight = extent(after, _MOST_EFFORT)[1]
        self._note(path, weight)
        self.effort += weight + extent(before, _MOST_EFFORT)[1]
        return before, after

    def _note(self, path: str, weight: int, count: int = 1) -> None:
        self.effort += count * _EFFORT_OF_OPERATION
        self._bytes += count * (_BYTES_OF_OPERATION + len(path)) + weight

    def _members(self, before: dict[str, Any], after: dict[str, Any], path: str) -> _Rest:
        old_rest: dict[str, Any] = {}
        new_rest: dict[str, Any] = {}
        for name, old in before.items():
            new = after.get(name, _ABSENT)
            # Nearly all values are equal scalars: those are passed over without a call.
            if new is old or (type(new) is type(old) and type(old) in _SCALARS and new == old):
                continue
            if new is _ABSENT:
                old_rest[name] = old
                self._note(pointer(path, name), extent(old, _MOST_EFFORT)[1], 0)
            elif (rest := self.rest(old, new, pointer(path, name))) is not None:
                old_rest[name], new_rest[name] = rest
        if len(old_rest) - len(new_rest) != len(before) - len(after):
            for name, new in after.items():
                if name not in before:
                    new_rest[name] = new
                    self._replaced(None, new, pointer(path, name))
        return (old_rest, new_rest) if old_rest or new_rest else None

    def _elements(self, before: list[Any], after: list[Any], path: str) -> _Rest:
        if len(before) != len(after):
            start, end = _ends_alike(before, after)
            return self._aligned(before, after, start, end, path) or self._replaced(None, after, path)
        effort, size = self.effort, self._bytes
        found = {
            at: rest
            for at, (old, new) in enumerate(zip(before, after, strict=True))
            if new is not old
            and not (type(new) is type(old) and type(old) in _SCALARS and new == old)
            and (rest := self.rest(old, new, f"{path}/{at}")) is not None
        }
        if not found:
            return None
        start, stop = min(found), max(found) + 1
        # Where most elements differ, they may be the same ones at other places.
        if len(found) > 1 and 2 * len(found) > stop - start:
            by_place = self.effort, self._bytes
            self.effort, self._bytes = effort, size
            if (rest := self._aligned(before, after, start, len(before) - stop, path)) is not None:
                return rest
            self.effort, self._bytes = by_place
        old_rest, new_rest = ({str(at): rest[side] for at, rest in found.items()} for side in (0, 1))
        return old_rest, new_rest

    def _aligned(self, before: list[Any], after: list[Any], start: int, end: int, path: str) -> _Rest:
        """Have jsonpatch find out which elements of an array moved, were inserted and were removed.

        Args:
            before: The array.
            after: The other one.
            start: The number of elements that both begin with.
            end: The number of elements that both end with.
            path: The place of both.

        Returns:
            The elements in between; None if they are too many.
        """
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        known = {each for each in old if not isinstance(each, dict | list)}
        new_scalars = sum(not isinstance(each, dict | list) and each not in known for each in new)
        # The fewest operations that can lead from one to the other, as each brings or takes one element.
        count = max(new_scalars, abs(len(old) - len(new)))
        inner = [_weight_and_effort(each) for each in (*old, *new)]
        effort = sum(map(sum, inner)) + len(old) * len(new)
        if self.effort + effort + count * _EFFORT_OF_OPERATION > _MOST_EFFORT:
            return None
        self._note(path, 0, count)
        self.effort += effort
        self._shifts[path] = start
        return old, new


def _ends_alike(before: list[Any], after: list[Any]) -> tuple[int, int]:
    """Return the number of equal elements that two arrays begin with, and end with; no element counts twice."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if not _is_same(before[at], after[at])), shorter)
    rest = shorter - start
    return start, next((at for at in range(rest) if not _is_same(before[-1 - at], after[-1 - at])), rest)


def _is_same(old: Any, new: Any) -> bool:
    return old is new or is_same_json(old, new)


def _weight_and_effort(value: Any) -> tuple[int, int]:
    """Return the weight of a value, as `extent` counts it, and the effort of comparing the arrays in it."""
    if is_object(value):
        inner = [_weight_and_effort(each) for each in value.values()]
        return 10 + sum(map(len, value)) + sum(weight for weight, _ in inner), sum(effort for _, effort in inner)
    if is_array(value):
        inner = [_weight_and_effort(each) for each in value]
        weight = 10 + sum(weight for weight, _ in inner)
        # jsonpatch writes elements once for each array around them, and compares those of two arrays in pairs.
        return weight, weight + len(value) ** 2 + sum(effort for _, effort in inner)
    return 10 + (len(value) if isinstance(value, str) else 0), 0
