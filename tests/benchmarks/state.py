"""State deltas on a large state, held against jsonpatch on its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ag_ui.core import StateDeltaEvent
from jsonpatch import JsonPatch

from agui_client import Change, Reducer
from benchmarks.measure import Row, best_times, per_event

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELTAS = 1_000
_COPIES = 10  # A megabyte is copied for each: a thousand take half a minute.
_MEGABYTE = 1_000_000


def large_state(repeat: int) -> list[Row]:
    """One operation at a time, four levels down in a megabyte."""
    operations = [_operation(index) for index in range(_DELTAS)]
    events = [StateDeltaEvent.model_validate({"delta": [operation]}) for operation in operations]
    reducer, document, copied = Reducer(state=_state()), _state(), _state()
    ours, in_place, copying = best_times(
        repeat,
        lambda: _reduce(reducer, events),
        lambda: _patch(document, operations),
        lambda: _patch_copies(copied, operations[:_COPIES]),
    )
    copying *= _DELTAS / _COPIES
    work = "1 000 one-operation deltas, 1 MB state"
    return [
        Row(work, ours / in_place, 5, "jsonpatch in place", per_event(ours, in_place, _DELTAS)),
        Row(work, ours / copying, 1 / 20, "jsonpatch copying", per_event(ours, copying, _DELTAS)),
    ]


def _reduce(reducer: Reducer, events: Sequence[StateDeltaEvent]) -> None:
    for event in events:
        if reducer.feed(event) is not Change.STATE:
            raise AssertionError(f"the delta was skipped: {reducer.warnings}")


def _patch(document: Any, operations: Sequence[dict[str, Any]]) -> None:
    for operation in operations:
        JsonPatch([operation]).apply(document, in_place=True)


def _patch_copies(document: Any, operations: Sequence[dict[str, Any]]) -> None:
    for operation in operations:
        document = JsonPatch([operation]).apply(document)


def _operation(index: int) -> dict[str, Any]:
    task = f"/projects/project-{index % 25}/phases/{index % 20}/tasks/{index % 10}"
    match index % 3:
        case 0:
            return {"op": "replace", "path": f"{task}/progress", "value": index}
        case 1:
            return {"op": "replace", "path": f"{task}/title", "value": f"Renamed in step {index}"}
        case _:
            return {"op": "add", "path": f"{task}/tags/-", "value": f"step-{index}"}


def _state() -> dict[str, Any]:
    state = {"projects": {f"project-{number}": _project(number) for number in range(25)}, "selected": None}
    size = len(json.dumps(state))
    if not _MEGABYTE <= size <= 1.2 * _MEGABYTE:
        raise AssertionError(f"the state is to be a megabyte, not {size} bytes")
    return state


def _project(number: int) -> dict[str, Any]:
    phases = [{"name": f"Phase {phase}", "tasks": [_task(task) for task in range(10)]} for phase in range(20)]
    return {"title": f"Project {number}", "archived": False, "phases": phases}


def _task(number: int) -> dict[str, Any]:
    return {
        "title": f"Task {number}: find out what is left to do, and by when it has to be done",
        "assignee": {"name": "Ada", "email": "ada@example.test"},
        "progress": 0,
        "due": None,
        "tags": ["draft", "review", "release"],
    }
