"""What random events are filled with: texts, JSON values, patches, metadata."""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from agui_client._core.protocol.schema import is_array, is_object

Json: TypeAlias = dict[str, Any]

SECRET = "sealed-4f1d"
"""Opens every encrypted value: it must turn up in no error and no warning."""

_TEXTS = (
    "a",
    "",
    "Hello ",
    "wörld",
    "日本語",
    "👩‍🚀",
    "e",
    "\u0301",
    '{"a":',
    "1}",
    "\n",
    "\\",
    "\u2028",
    "data: x\n\n",
)
_SCALARS = (None, True, False, 0, 1, -7, 2.5, "", "x", "wörld", "null")
_KEYS = ("a", "b", "n/m", "t~", "", "type", "0")


def text(random: Random) -> str:
    """A piece of text."""
    return random.choice(_TEXTS)


def value(random: Random, depth: int = 2) -> Any:
    """Any JSON value."""
    shape = random.randrange(4) if depth else 0
    if shape == 1:
        return [value(random, depth - 1) for _ in range(random.randrange(3))]
    if shape == 2:
        return mapping(random, depth)
    return random.choice(_SCALARS)


def mapping(random: Random, depth: int = 2) -> Json:
    """A JSON object."""
    return {random.choice(_KEYS): value(random, depth - 1) for _ in range(random.randrange(4))}


def patch(random: Random, document: Any) -> list[Json]:
    """Operations on a document; some of them do not apply."""
    return [_operation(random, _pointers(document)) for _ in range(random.randrange(3))]


def _operation(random: Random, pointers: list[str]) -> Json:
    op, path = random.choice(("add", "remove", "replace", "move", "copy", "test")), random.choice(pointers)
    if random.randrange(3) == 0:
        path += random.choice(("/a", "/-", "/0", "/zz"))
    operation: Json = {"op": op, "path": path}
    if op in ("move", "copy"):
        operation["from"] = random.choice(pointers)
    elif op != "remove":
        operation["value"] = value(random)
    if random.randrange(8) == 0:
        operation["note"] = "members of an operation that nobody defined"
    return operation


def _pointers(document: Any, path: str = "") -> list[str]:
    """Every place in a document as a JSON pointer."""
    members: list[tuple[Any, Any]] = []
    if is_object(document):
        members = list(document.items())
    elif is_array(document):
        members = list(enumerate(document))
    inner = [each for key, item in members for each in _pointers(item, f"{path}/{_escaped(key)}")]
    return [path, *inner]


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def extras(random: Random) -> Json:
    """What any event may carry besides its own fields."""
    carried: Json = {}
    if random.randrange(4) == 0:
        carried["metadata"] = mapping(random)
    if random.randrange(8) == 0:
        carried["timestamp"] = random.choice((0, 1764000000000, 5.0))
    if random.randrange(8) == 0:
        carried["rawEvent"] = value(random) or {"provider": None}
    return carried


def parts(random: Random) -> str | list[Json]:
    """The content of a tool result or a user message."""
    if random.randrange(3):
        return text(random)
    source = random.choice(
        (
            {"type": "url", "value": "https://example.com/cat.png"},
            {"type": "data", "value": "aGk=", "mimeType": "image/png"},
            {"type": "file", "value": "file-1", "provider": "acme"},
        )
    )
    some: list[Json] = [{"type": "text", "text": text(random)}, {"type": "image", "source": source}]
    return some[: random.randrange(3)]
