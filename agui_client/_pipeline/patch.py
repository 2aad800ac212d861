"""JSON Patch on values that have been handed out: what a patch touches is copied, the rest is shared (SNAP-2, SNAP-5).

`jsonpatch` does the operations; before each one the containers it is about to change are replaced by shallow copies, at
most one per container and patch. So the old value stays whole, whether the patch succeeds or fails half way.

A few bytes can ask for much: every `copy` of a value into itself doubles it, and deltas can add level after level. So
a patch fails as well if its result is deeper or larger than any event could have carried (extent).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from agui_client._pipeline.copies import copied
from agui_client._pipeline.extent import DEEPEST_VALUE, LARGEST, LITTLE, nests_deeper, weight
from agui_client._pipeline.refusal import LONGEST_PATH, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

# Longer numbers lie outside any array, and int() refuses some of them.
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_PUTTING = ("add", "replace")
_NO_FIT = "the path fits nothing in the current value"


class PatchFailed(Exception):  # noqa: N818 - a well-formed patch that does not apply is an outcome, not an error (SNAP-5)
    """A well-formed patch did not apply; the document it was for is unchanged."""

    def __init__(self, message: str, index: int, op: str, path: str) -> None:
        super().__init__(message)
        self.index = index
        """Position of the operation in its patch, from 0."""
        self.op = op
        """What it was to do, such as "replace"."""
        self.path = path
        """Where, as a JSON pointer into the document."""


class _SizeError(ValueError):
    """Copies would make the document larger than any event may be."""


_FAILURES = (JsonPatchException, JsonPointerException, LookupError, RecursionError, TypeError, ValueError)
_REASONS: dict[type[Exception], str] = {
    JsonPatchTestFailed: "the value there is not the tested one",
    RecursionError: "the value is nested too deeply",
    _SizeError: "the copies make the value too large",
}


def apply_patch(document: Any, operations: Sequence[BaseModel]) -> Any:
    """Apply the operations of a STATE_DELTA or ACTIVITY_DELTA in order, all or nothing (RFC 6902).

    Args:
        document: Any JSON value; neither it nor anything inside it is changed.
        operations: The operation models of the event; their values are not changed either.

    Returns:
        The patched value. Containers that no operation touched are the ones of `document`.

    Raises:
        PatchFailed: An operation does not apply. Its message names the operation, never a value.
    """
    patch = _Patch(document)
    for index, operation in enumerate(operations):
        try:
            patch.apply(index, vars(operation))
        except _FAILURES as failure:
            # Without a cause: those of the libraries spell out the whole document.
            raise _failed(index, vars(operation), failure) from None
    if patch.doubted is not None and nests_deeper(patch.document, DEEPEST_VALUE):
        raise _failed(patch.doubted, vars(operations[patch.doubted]), RecursionError())
    return patch.document


class _Patch:
    """One patch on its way: the document so far, and what was done to get there."""

    __slots__ = ("_fresh", "_room", "document", "doubted")

    def __init__(self, document: Any) -> None:
        self.document = document
        """The document as the operations so far leave it."""
        self.doubted: int | None = None
        """The first operation that may have made it too deep, which only a look at the whole of it can tell."""
        self._fresh: dict[int, Any] = {}
        """The copies made for this patch by their `id()`, which stays theirs while they are in here."""
        self._room: int | None = None
        """What copies may still add to the weight of the document; None until it has been weighed."""

    def apply(self, index: int, fields: dict[str, Any]) -> None:
        """Carry out one operation."""
        op, path = fields["op"], JsonPointer(fields["path"])
        if op in _PUTTING:
            self._put(op, path, fields["value"])
        elif op == "copy":
            self._put("add", path, self._found(JsonPointer(fields["from_"])))
        elif op == "move":
            self._move(index, JsonPointer(fields["from_"]), path)
        else:
            if op == "remove":
                self._freshen(path.parts)
            self._carry_out({**fields, "path": path})

    def _put(self, op: str, path: JsonPointer, value: Any) -> None:
        """Add a value, or let it replace another."""
        self._freshen(path.parts)
        if not _is_container(value):
            self._carry_out({"op": op, "path": path, "value": value})
            return
        own = copied(value, DEEPEST_VALUE - len(path.parts))
        # `jsonpatch` would copy it once more: it says whether and where a value fits by putting a null there.
        self._carry_out({"op": op, "path": path, "value": None})
        container, part = path.to_last(self.document)
        if part is None:
            self.document = own
        else:
            container[-1 if part == "-" and isinstance(container, list) else part] = own

    def _found(self, source: JsonPointer) -> Any:
        """What is to be copied from there, if there is room for it."""
        value = _value_at(self.document, source)
        if weight(value, LITTLE) <= LITTLE:
            return value
        if self._room is None:
            self._room = LARGEST - weight(self.document, LARGEST)
        self._room -= weight(value, self._room)
        if self._room < 0:
            raise _SizeError
        return value

    def _move(self, index: int, source: JsonPointer, path: JsonPointer) -> None:
        levels = DEEPEST_VALUE - len(path.parts)
        if len(path.parts) > len(source.parts) and self.doubted is None and not self._is_light(source, levels):
            self.doubted = index
        self._freshen(source.parts)
        self._freshen(_shifted(path.parts, source.parts))
        self._freshen(path.parts)
        self._carry_out({"op": "move", "from": source, "path": path})

    def _is_light(self, source: JsonPointer, levels: int) -> bool:
        """Whether what lies there is of no more than these levels, without a walk through much of the document."""
        value = _value_at(self.document, source)
        return weight(value, LITTLE) <= LITTLE and not nests_deeper(value, levels)

    def _carry_out(self, operation: dict[str, Any]) -> None:
        self.document = JsonPatch.operations[operation["op"]](operation).apply(self.document)

    def _freshen(self, parts: list[str]) -> None:
        """Put copies in the place of the containers above the target, as far as the path leads."""
        if not parts:
            return
        self.document = container = self._own(self.document)
        for part in parts[:-1]:
            key = _key(container, part)
            try:
                child = self._own(container[key])
            except (LookupError, TypeError):
                break  # what is wrong with the path is jsonpatch's to say
            container[key] = child
            container = child

    def _own(self, value: Any) -> Any:
        if not _is_container(value) or id(value) in self._fresh:
            return value
        copy = value.copy()
        self._fresh[id(copy)] = copy
        return copy


def _value_at(document: Any, pointer: JsonPointer) -> Any:
    container, part = pointer.to_last(document)
    return container if part is None else container[part]


def _shifted(parts: list[str], removed: list[str]) -> list[str]:
    """Where a move really goes when it passes a later sibling of the array element it takes out first.

    Whether that is an array only the document knows; in an object this freshens a neighbour that needed none.
    """
    depth = len(removed) - 1
    if not 0 <= depth < len(parts) or parts[:depth] != removed[:depth] or not _INDEX.fullmatch(parts[depth]):
        return []
    return [*parts[:depth], str(int(parts[depth]) + 1), *parts[depth + 1 :]]


def _key(container: object, part: str) -> str | int:
    return int(part) if isinstance(container, list) and _INDEX.fullmatch(part) else part


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list)


def _failed(index: int, fields: dict[str, Any], failure: Exception) -> PatchFailed:
    reason = next((text for kind, text in _REASONS.items() if isinstance(failure, kind)), _NO_FIT)
    op, path = fields["op"], fields["path"]
    where = " to ".join(shortened(each, LONGEST_PATH) for each in (fields.get("from_"), path) if each is not None)
    return PatchFailed(f"operation {index} ({op} {where}): {reason}", index, op, path)
