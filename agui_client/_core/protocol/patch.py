"""JSON Patch, RFC 6902, on a value that is shown between patches (SNAP-2, SNAP-5).

Containers that were not handed out are changed in place, so that a patch costs what it touches; others are copied
first, and only those on the way to a target. A patch that fails is undone, member by member. That is why jsonpatch,
which finds differences (`json_difference`), does not apply them: it copies the whole value for each patch (23 ms for a
megabyte), or else changes the states that callers hold. Tests compare this module with jsonpatch.

Patches can nest values level by level, deeper than any event: pydantic reads 200 levels and writes 255, and the values
of an event come to lie deeper in a message or a document. A few bytes can ask for much: every `copy` of a value into
itself doubles it, and an insert at the head of a long array shifts all of it. So a patch fails as well if a value gets
too deep, or if the patches of its run have done too much (`PatchBudget`): of all documents together, as a new snapshot
costs a server nothing, and with what is undone, as a patch that fails works as much as one that applies.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, cast

from pydantic import BaseModel

from agui_client._core.ground.json_pointers import parts_of
from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.problems import LONGEST_PATH, shortened
from agui_client._core.protocol.schema import is_array, is_object

DEEPEST_TEXT = 200
"""The levels of a whole document, such as an event or a run input: as many as its reader can be expected to read."""
DEEPEST_VALUE = 195
"""The levels of a patched value, or of one that moves from an event into a message: up to five come to lie above it."""
LARGEST = 10_000_000
"""The weight that the patches of a run may go through: about what one event may carry as text."""
LITTLE = 1_000
"""The weight that each operation may always go through."""
_CONTAINER = 180
"""The weight of an array or object that is copied, beside that of its members: about the bytes that it takes."""
_SHIFTED = 20
"""The elements of an array that are shifted in the time that a weight of one takes."""
# Longer numbers lie outside any array, and int() refuses some of them.
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_MOST_COPIES = 10_000


class PatchFailed(Exception):  # noqa: N818 - a well-formed patch that does not apply is an outcome, not an error (SNAP-5)
    """A well-formed patch did not apply; the document is unchanged."""


class _MisfitError(ValueError):
    """An operation does not apply for the reason that the text gives."""


class PatchBudget:
    """The work that patches may still do: copies, the look at what moves down, and the shifts of long arrays."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: int = LARGEST
        """The weight that patches may go through; each operation that arrives adds a little."""

    def add_operation(self) -> None:
        """Add what an operation may always go through."""
        self.left = min(self.left + LITTLE, LARGEST)

    def spend(self, weight: int, problem: str) -> None:
        """Take off the weight of work that is to be done.

        Args:
            problem: The reason why the patch fails if there is not as much.
        """
        self.left -= weight
        if self.left < 0:
            self.left = 0
            raise _MisfitError(problem)


class Document:
    """A JSON value that patches change.

    Args:
        value: Any JSON value.
        is_private: Whether it and everything inside it belongs to this document, and may be changed in place.
        budget: The work that patches may do, which other documents share; None for this document alone.
    """

    def __init__(self, value: Any, *, is_private: bool = False, budget: PatchBudget | None = None) -> None:
        self._value = value
        self._is_private = is_private
        # Containers made since the last look by their `id()`, which stays theirs while they are in here.
        self._copies: dict[int, Any] = {}
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._budget = budget or PatchBudget()

    def look(self) -> Any:
        """Return the value as it is now. Read-only: later values share what did not change."""
        self._is_private = False
        self._copies.clear()
        return self._value

    def patch(self, operations: Sequence[BaseModel], *, is_object_required: bool = False) -> None:
        """Apply the operations of a STATE_DELTA or ACTIVITY_DELTA in order, all or nothing.

        Args:
            operations: The operation models of the event; neither they nor their values are changed or kept.
            is_object_required: Whether the result has to be an object.

        Raises:
            PatchFailed: An operation does not apply. Its message names the operation, never a value.
        """
        self._undo.clear()
        if len(self._copies) > _MOST_COPIES:
            self._copies.clear()
        index = 0
        try:
            for index in range(len(operations)):
                self._apply(vars(operations[index]))
            if is_object_required and not is_object(self._value):
                raise _MisfitError("the result would not be an object")
        except (LookupError, RecursionError, ValueError) as failure:
            for undo, arguments in reversed(self._undo):
                undo(*arguments)
            # Without a cause: tracebacks of libraries and of ours may show values.
            raise _failed(index, vars(operations[index]), failure) from None

    def _apply(self, fields: dict[str, Any]) -> None:
        """Carry out one operation."""
        self._budget.add_operation()
        path = parts_of(fields["path"])
        match fields["op"]:
            case "add":
                self._add(path, self._brought(path, fields["value"]))
            case "replace":
                self._replace(path, self._brought(path, fields["value"]))
            case "remove":
                self._remove(path)
            case "copy":
                value = self._found(parts_of(fields["from_"]))
                self._measured(value, _CONTAINER)
                self._add(path, self._brought(path, value))
            case "move":
                self._move(parts_of(fields["from_"]), path)
            case _:
                if not is_same_json(self._found(path), fields["value"]):
                    raise _MisfitError("the value there is not the tested one")

    def _brought(self, path: list[str], value: Any) -> Any:
        """Return a copy of a value that a patch brings to a place."""
        if not isinstance(value, dict | list):
            return value
        own = copied(value, DEEPEST_VALUE - len(path))
        if not self._is_private:
            self._copies[id(own)] = own
        return own

    def _add(self, path: list[str], value: Any) -> None:
        """Insert an element into an array, set a member of an object, or replace the whole document."""
        if not path:
            self._replace(path, value)
            return
        container = self._writable(path)
        key: Any = len(container) if path[-1] == "-" and is_array(container) else _key(container, path[-1])
        if is_object(container):
            if key in container:
                self._replace(path, value)
                return
            container[key] = value
        elif key > len(container):
            raise LookupError
        else:
            self._shift(len(container) - key)
            container.insert(key, value)
        self._undo.append((container.pop, (key,)))

    def _replace(self, path: list[str], value: Any) -> None:
        if path:
            container = self._writable(path)
            key = _key(container, path[-1])
            old = container[key]
            container[key] = value
            self._undo.append((container.__setitem__, (key, old)))
        else:
            old, self._value = self._value, value
            self._undo.append((setattr, (self, "_value", old)))

    def _remove(self, path: list[str]) -> Any:
        if not path:
            raise LookupError
        container = self._writable(path)
        key = _key(container, path[-1])
        if is_array(container):
            self._shift(len(container) - key)
        value = container.pop(key)
        put_back = container.__setitem__ if is_object(container) else container.insert
        self._undo.append((put_back, (key, value)))
        return value

    def _move(self, source: list[str], path: list[str]) -> None:
        value = self._found(source)
        if source == path:
            return
        if source == path[: len(source)]:
            raise LookupError
        can_nest = isinstance(value, dict | list)
        if can_nest and len(path) > len(source) and len(path) + self._measured(value) > DEEPEST_VALUE:
            raise RecursionError
        self._add(path, self._remove(source))

    def _shift(self, elements: int) -> None:
        """Count the elements of an array that change their places, and may change them again if the patch is undone."""
        self._budget.spend(elements // _SHIFTED, "the inserts and removals shift too much")

    def _measured(self, value: Any, container: int = 0) -> int:
        """Return the levels of a value, and count its weight.

        Args:
            container: The weight of each array and object in it.
        """
        levels, weight = extent(value, self._budget.left, container)
        self._budget.spend(weight, "the copies and moves go through too much")
        return levels

    def _found(self, path: list[str]) -> Any:
        """Return the value at a place."""
        value = self._value
        for part in path:
            value = value[_key(value, part)]
        return value

    def _writable(self, path: list[str]) -> Any:
        """Return the container of a target, with copies in place of all containers above it that were seen."""
        self._value = container = self._own(self._value)
        for part in path[:-1]:
            key = _key(container, part)
            child = container[key]
            own = self._own(child)
            if own is not child:
                container[key] = own
            container = own
        return container

    def _own(self, value: Any) -> Any:
        if self._is_private or id(value) in self._copies or not (is_object(value) or is_array(value)):
            return value
        copy = value.copy()
        self._copies[id(copy)] = copy
        return copy


def _key(container: object, part: str) -> Any:
    """Return the key or index that a part of a pointer means in a container."""
    if is_object(container):
        return part
    if is_array(container) and _INDEX.fullmatch(part):
        return int(part)
    raise LookupError


def is_same_json(left: object, right: object) -> bool:
    """Compare two values as JSON, to which true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(is_same_json(value, right[name]) for name, value in left.items())
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(is_same_json, left, right))
    return left == right


def _failed(index: int, fields: dict[str, Any], failure: Exception) -> PatchFailed:
    reason = "the path fits nothing in the current value"
    if isinstance(failure, RecursionError | _MisfitError):
        reason = str(failure) if isinstance(failure, _MisfitError) else "the value is nested too deeply"
    places = (fields.get("from_"), fields["path"])
    where = " to ".join(shortened(each, LONGEST_PATH) for each in places if each is not None)
    return PatchFailed(f"operation {index} ({fields['op']} {where}): {reason}")


def copied(value: Any, levels: int = sys.maxsize) -> Any:
    """Copy a JSON value and all containers in it, so that changes of the one do not reach the other.

    Args:
        value: Any value; one that is not a list or dict is returned as it is.
        levels: The number of levels of containers that it may have.

    Raises:
        RecursionError: It has more levels, or more than Python can follow.
    """
    if not (is_object(value) or is_array(value)):
        return value
    if levels <= 0:
        raise RecursionError("the value has too many levels")
    if is_object(value):
        return {key: copied(item, levels - 1) for key, item in value.items()}
    return [copied(item, levels - 1) for item in value]


def parse_json(text: str | bytes) -> Any:
    """Parse JSON to the depth of an event: how deep Python itself reads differs from one version to the next.

    Raises:
        ValueError: The text is not JSON, or nests deeper than `DEEPEST_TEXT` levels.
    """
    with suppress(RecursionError):
        value = load_json(text)
        if not nests_deeper(value, DEEPEST_TEXT):
            return value
    raise ValueError(f"it nests deeper than {DEEPEST_TEXT} levels")


def nests_deeper(value: Any, levels: int) -> bool:
    """Return whether a value has more levels of arrays and objects than these, empty ones at the end not counted."""
    # Without a call for each value: a run's input and many an event are looked through.
    if not value or not isinstance(value, dict | list):
        return False
    if levels <= 0:
        return True
    inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    for each in inner:  # noqa: SIM110 - a generator costs as much as all else here
        if each and isinstance(each, dict | list) and nests_deeper(each, levels - 1):
            return True
    return False


def extent(value: object, most: int, container: int = 0) -> tuple[int, int]:
    """Measure a JSON value.

    Args:
        value: Any JSON value.
        most: The weight at which measuring may stop.
        container: The weight of each array and object, beside the ten of every value.

    Returns:
        The levels of arrays and objects in it, empty ones at the end not counted, and its weight: ten for itself and
        each value in it, and one for each character of its texts and names. If the weight is more than `most`, there
        may be more of both.
    """
    levels, weight, row = 0, 10, [value]
    while row and weight <= most:
        weight += sum(len(each) for each in row if isinstance(each, str))
        if container:
            weight += container * sum(isinstance(each, dict | list) for each in row)
        containers: list[Any] = [each for each in row if each and isinstance(each, dict | list)]
        levels += bool(containers)
        weight += 10 * sum(map(len, containers))
        # Before their members are gone through, which may be a million.
        if weight > most:
            break
        weight += sum(len(str(name)) for each in containers if is_object(each) for name in each)
        row = list(chain.from_iterable(each.values() if is_object(each) else each for each in containers))
    return levels, weight
