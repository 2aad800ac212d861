"""JSON Patch on values that have been handed out: what a patch touches is copied, the rest is shared (SNAP-2, SNAP-5).

`jsonpatch` does the operations; before each one the containers it is about to change are replaced by shallow copies, at
most one per container and patch. So the old value stays whole, whether the patch succeeds or fails half way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed
from jsonpointer import JsonPointer, JsonPointerException

from agui_client._pipeline.copies import copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

_Fresh: TypeAlias = dict[int, Any]
"""The copies made for one patch by their `id()`, which stays theirs while they are in here."""

# Longer numbers lie outside any array, and int() refuses some of them.
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_TWO_PATHS = ("move", "copy")
_FAILURES = (JsonPatchException, JsonPointerException, LookupError, RecursionError, TypeError, ValueError)
_REASONS: dict[type[Exception], str] = {
    JsonPatchTestFailed: "the value there is not the tested one",
    RecursionError: "the value is nested too deeply",
}
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
    fresh: _Fresh = {}
    for index, operation in enumerate(operations):
        try:
            document = _apply(document, dict(vars(operation)), fresh)
        except _FAILURES as failure:
            # Without a cause: those of the libraries spell out the whole document.
            raise _failed(index, vars(operation), failure) from None
    return document


def _apply(document: Any, fields: dict[str, Any], fresh: _Fresh) -> Any:
    op = fields["op"]
    path = fields["path"] = JsonPointer(fields["path"])
    if op in _PUTTING:
        fields["value"] = copied(fields["value"])
    if op in _TWO_PATHS:
        fields["from"] = fields["from_"]
    if op == "move":
        removed = JsonPointer(fields["from"]).parts
        document = _freshen(document, removed, fresh)
        document = _freshen(document, _shifted(path.parts, removed), fresh)
    if op != "test":
        document = _freshen(document, path.parts, fresh)
    return JsonPatch.operations[op](fields).apply(document)


def _shifted(parts: list[str], removed: list[str]) -> list[str]:
    """Where a move really goes when it passes a later sibling of the array element it takes out first.

    Whether that is an array only the document knows; in an object this freshens a neighbour that needed none.
    """
    depth = len(removed) - 1
    if not 0 <= depth < len(parts) or parts[:depth] != removed[:depth] or not _INDEX.fullmatch(parts[depth]):
        return []
    return [*parts[:depth], str(int(parts[depth]) + 1), *parts[depth + 1 :]]


def _freshen(document: Any, parts: list[str], fresh: _Fresh) -> Any:
    """Put copies in the place of the containers above the target, as far as the path leads."""
    if not parts:
        return document
    document = container = _copied(document, fresh)
    for part in parts[:-1]:
        key = _key(container, part)
        try:
            child = _copied(container[key], fresh)
        except (LookupError, TypeError):
            break  # what is wrong with the path is jsonpatch's to say
        container[key] = child
        container = child
    return document


def _key(container: object, part: str) -> str | int:
    return int(part) if isinstance(container, list) and _INDEX.fullmatch(part) else part


def _copied(value: Any, fresh: _Fresh) -> Any:
    if not _is_container(value) or id(value) in fresh:
        return value
    copy = value.copy()
    fresh[id(copy)] = copy
    return copy


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list)


def _failed(index: int, fields: dict[str, Any], failure: Exception) -> PatchFailed:
    reason = next((text for kind, text in _REASONS.items() if isinstance(failure, kind)), _NO_FIT)
    op, path = fields["op"], fields["path"]
    where = f"{fields['from_']!r} to {path!r}" if op in _TWO_PATHS else repr(path)
    return PatchFailed(f"operation {index} ({op} {where}): {reason}", index, op, path)
