"""Operations as agents send them, read from JSON: which version, which operation, which surface.

Whatever is in a message is read as far as it makes sense, and a problem is noted of the rest: an agent's mistake in one
component does not hide the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui._words import BASIC_CATALOG, KINDS, MOST_OPERATIONS, OLD_WORDS, VERSION, VERSIONS


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one surface."""

    kind: str
    """Such as "updateComponents"; empty for what is not an operation."""
    surface_id: str
    """The surface; empty if the operation names none."""
    body: Mapping[str, Any]
    """The members of the operation."""
    problem: str = ""
    """Why it is not carried out; empty if it is."""


def limited(given: object) -> list[Any]:
    """Return the operations of a message: the first thousand, however the others come, at once or one by one.

    Args:
        given: What stands at `a2ui_operations`.
    """
    if not is_array(given):
        return [_refused("a2ui_operations is not an array")]
    if len(given) > MOST_OPERATIONS:
        problem = f"a message has more than {MOST_OPERATIONS:,} operations; only the first are carried out"
        return [*given[:MOST_OPERATIONS], _refused(problem)]
    return given


def operations_in(given: Iterable[object]) -> Iterator[Operation]:
    """Read operations.

    Args:
        given: Operations of a message, as `limited` returns them.
    """
    return (each if isinstance(each, Operation) else _operation(each) for each in given)


def _operation(given: object) -> Operation:
    if not is_object(given):
        return _refused("an operation is not an object")
    if old := sorted(OLD_WORDS & given.keys()):
        return _refused(f"{old[0]} is of A2UI v0.8, which is not drawn here: the agent has to send v0.9")
    version = given.get("version", VERSION)
    if version not in VERSIONS:
        return _refused(f"A2UI {str(version)[:20]} is not drawn here: the agent has to send v0.9")
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        return _refused(f"an operation has to have exactly one of {', '.join(KINDS)}; this one has {len(kinds)}")
    body: Any = given[kinds[0]]
    if not is_object(body) or not isinstance(surface_id := body.get("surfaceId"), str) or not surface_id:
        return _refused(f"{kinds[0]} has no surfaceId")
    return Operation(kinds[0], surface_id, body)


def _refused(problem: str) -> Operation:
    return Operation("", "", {}, problem)


def of_render_call(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations that a call of `render_a2ui` means.

    Args:
        arguments: The arguments of the call.
    """
    surface_id = arguments.get("surfaceId")
    made: list[dict[str, Any]] = []
    if arguments.get("intent") != "update":
        made.append({"createSurface": {"surfaceId": surface_id, "catalogId": BASIC_CATALOG}})
    if (components := arguments.get("components")) is not None:
        made.append({"updateComponents": {"surfaceId": surface_id, "components": components}})
    if (data := arguments.get("data")) is not None:
        made.append({"updateDataModel": {"surfaceId": surface_id, "path": "/", "value": data}})
    return [{"version": VERSION, **each} for each in made]
