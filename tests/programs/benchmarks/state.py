"""State deltas on a large state, and differences of two, held against jsonpatch on its own."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ag_ui.core import StateDeltaEvent
from jsonpatch import JsonPatch, make_patch

from agui_client import Change, Reducer
from agui_client._core.protocol.json_difference import difference
from programs.benchmarks.measure import Row, best_times, per_event

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELTAS = 1_000
_COPIES = 10  # A megabyte is copied for each: a thousand take half a minute.
_MEGABYTE = 1_000_000
_NUMBERS = 4_000


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


def differences(repeat: int) -> list[Row]:
    """The patch between a state and the next snapshot of it, which shares nothing with it."""
    large, numbers = _state(), [*range(_NUMBERS)]
    small = {"projects": {name: large["projects"][name] for name in ("project-0", "project-1", "project-2")}}
    works = [
        ("one number changed, 1 MB state", large, _counted(large, 1), 0.6),
        (f"one number changed, {len(json.dumps(small)) // 1000} kB state", small, _counted(small, 1), 0.6),
        (f"a list of {_NUMBERS} halved", {**small, "n": numbers}, {**small, "n": numbers[::2]}, 0.05),
    ]
    rows: list[Row] = []
    for work, before, after, goal in works:
        ours, theirs = best_times(repeat, partial(difference, before, after), partial(make_patch, before, after))
        rows.append(Row(work, ours / theirs, goal, "jsonpatch of the whole", per_event(ours, theirs, 1)))
    snapshots = [small, *(_counted(small, number) for number in range(1, 41))]
    stored = sum(len(json.dumps(difference(*pair))) for pair in pairwise(snapshots))
    size = len(json.dumps(small))
    rows.append(Row("40 snapshots, one number changed", stored / size, 0.1, "the state", f"({stored} / {size} bytes)"))
    return rows


def _counted(state: dict[str, Any], number: int) -> dict[str, Any]:
    """A snapshot of a state in which one number is another."""
    snapshot: dict[str, Any] = json.loads(json.dumps(state))
    snapshot["projects"]["project-1"]["phases"][7]["tasks"][3]["progress"] = number
    return snapshot


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
