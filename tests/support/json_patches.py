"""Random JSON values and patches: our applier held to jsonpatch's answers, and `difference` to what its patch makes."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

import jsonpatch
from ag_ui.core import StateDeltaEvent

from agui_client._core.protocol.json_difference import difference
from agui_client._core.protocol.patch import Document, PatchFailed, is_same_json
from agui_client._core.protocol.schema import is_array, is_object

Operation = dict[str, Any]
FAILURES = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)
_NAMES = ["a", "b", "", "0", "1", "-", "a/b", "~", "~1", "é", "\u0663", "\U0001f600"]
_SCALARS = [None, True, False, 0, 1, 2, 0.0, 1.0, 1.5, "", "a", "0", "text " * 10]
# Of the indexes that Python reads, JSON Pointer has only the first three.
_TOKENS = [
    "0",
    "1",
    "2",
    "3",
    "-",
    "",
    "a",
    "b",
    "01",
    "-1",
    "+1",
    "1_0",
    " 1",
    "1.0",
    "\u0663",
    "~0",
    "a~1b",
    "~01",
    "é",
]


def value(random: Random, depth: int = 4) -> Any:
    """A random value."""
    kind = random.random()
    if depth <= 0 or kind < 0.4:
        return random.choice(_SCALARS)
    if kind < 0.7:
        return [value(random, depth - 1) for _ in range(random.randrange(6))]
    return {name: value(random, depth - 1) for name in random.sample(_NAMES, random.randrange(5))}


def edited(random: Random, before: Any, depth: int = 4) -> Any:
    """A copy of a value with some random edits in it: nothing of it is shared."""
    chance = random.random()
    if chance < 0.1:
        return value(random, depth)
    if is_object(before):
        after = {name: edited(random, each, depth - 1) for name, each in before.items() if random.random() > 0.1}
        if chance < 0.3:
            after[random.choice(_NAMES)] = value(random, 2)
        return after
    if is_array(before):
        elements = [edited(random, each, depth - 1) for each in before if random.random() > 0.1]
        if chance < 0.4:
            elements.insert(random.randint(0, len(elements)), value(random, 2))
        if chance > 0.9:
            random.shuffle(elements)
        return elements
    return before


def patch(random: Random, document: Any) -> list[Operation]:
    """A random patch, of which most places exist in the document."""
    places = _places(document)

    def place() -> str:
        tail = f"/{random.choice(_TOKENS)}" if random.random() < 0.4 else ""
        return random.choice(places) + tail

    operations: list[Operation] = []
    for _ in range(random.randint(1, 4)):
        kind = random.choice(["add", "replace", "test", "remove", "move", "copy"])
        operation: Operation = {"op": kind, "path": place()}
        if kind in ("move", "copy"):
            operation["from"] = place()
        elif kind != "remove":
            operation["value"] = value(random, 2)
        if kind == "test" and random.random() < 0.7:
            operation["path"] = random.choice(places)
            operation["value"] = jsonpatch.JsonPointer(operation["path"]).resolve(document)
        operations.append(operation)
    return operations


def _places(document: Any, path: str = "") -> list[str]:
    """The pointers to all values of a document."""
    members: Any = document.items() if is_object(document) else enumerate(document) if is_array(document) else ()
    escaped = ((str(name).replace("~", "~0").replace("/", "~1"), each) for name, each in members)
    return [path, *(place for name, each in escaped for place in _places(each, f"{path}/{name}"))]


def applied(document: Any, operations: list[Operation]) -> Any:
    """What our applier makes of a document, which stays as it is; the exception if the patch fails."""
    changed = Document(document)
    try:
        changed.patch(StateDeltaEvent.model_validate({"delta": operations}).delta)
    except PatchFailed as failure:
        return failure
    return changed.look()


def applied_by_jsonpatch(document: Any, operations: list[Operation]) -> Any:
    """What jsonpatch makes of a copy of a document; the exception if the patch fails."""
    try:
        return jsonpatch.JsonPatch(deepcopy(operations)).apply(deepcopy(document))
    except FAILURES as failure:
        return failure


def patch_findings(random: Random) -> list[str]:
    """How our applier and jsonpatch differ on a random patch of a random document."""
    document = value(random)
    operations = patch(random, document)
    ours, theirs = applied(document, operations), applied_by_jsonpatch(document, operations)
    both_fail = isinstance(ours, PatchFailed) and isinstance(theirs, FAILURES)
    return [] if both_fail or repr(ours) == repr(theirs) else [f"{document!r} {operations!r}: {ours!r}, not {theirs!r}"]


def difference_findings(random: Random) -> list[str]:
    """What is wrong with the difference of two random values."""
    before = value(random)
    after = edited(random, before) if random.random() < 0.8 else value(random)
    found: list[str] = []
    for is_detailed in (False, True):
        operations = difference(before, after, is_detailed=is_detailed)
        if operations is None:
            if is_detailed:
                found.append(f"{before!r} to {after!r}: nothing was found")
            continue
        if not is_detailed and operations and _size(operations) >= _size(after):
            found.append(f"{after!r}: {operations!r} is longer")
        made = applied(before, operations)
        if not is_same_json(made, after) or (not operations) is not is_same_json(before, after):
            found.append(f"{before!r} to {after!r}: {operations!r} makes {made!r}")
    return found


def _size(json_value: Any) -> int:
    return len(json.dumps(json_value, ensure_ascii=False, separators=(",", ":")))
