"""The agent's side: the events that show a surface and change it, and the same as the result of a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ag_ui.core import ActivityDeltaEvent, ActivitySnapshotEvent, EventType

from agui_client.a2ui._words import ACTIVITY_TYPE, BASIC_CATALOG, OPERATIONS, VERSION
from agui_client.errors import UsageError

Component = Mapping[str, Any]
"""A component, such as `{"id": "root", "component": "Text", "text": "Hello"}`."""


def show_surface(
    surface_id: str,
    components: Sequence[Component],
    data: Any = None,
    *,
    catalog_id: str = BASIC_CATALOG,
    theme: Mapping[str, Any] | None = None,
    message_id: str | None = None,
) -> ActivitySnapshotEvent:
    """Return the event that shows a surface to a person: `yield show_surface("ferry", [...], {"guest": ""})`.

    A surface that was there with this id is replaced.

    Args:
        components: The components, one of them with the id `root`.
        data: The data that components are bound to, a JSON object.
        catalog_id: The catalog of the components.
        theme: Colours and names for the surface.
        message_id: The id of the activity; made of the surface's id if left out.

    Raises:
        UsageError: No component has the id `root`.
    """
    if not any(each.get("id") == "root" for each in components):
        raise UsageError(f"the surface {surface_id!r} has no component with the id 'root', so nothing would be drawn")
    create: dict[str, Any] = {"surfaceId": surface_id, "catalogId": catalog_id}
    operations = [
        _operation("createSurface", {**create, "theme": dict(theme)} if theme else create),
        _operation("updateComponents", {"surfaceId": surface_id, "components": [dict(each) for each in components]}),
    ]
    if data is not None:
        operations.append(_operation("updateDataModel", {"surfaceId": surface_id, "path": "/", "value": data}))
    return ActivitySnapshotEvent(
        type=EventType.ACTIVITY_SNAPSHOT,
        message_id=message_id or _message_id(surface_id),
        activity_type=ACTIVITY_TYPE,
        content={OPERATIONS: operations},
        replace=True,
    )


def change_surface(
    surface_id: str,
    *,
    components: Sequence[Component] = (),
    data: Any = None,
    path: str = "/",
    message_id: str | None = None,
) -> ActivityDeltaEvent:
    """Return the event that changes a surface which `show_surface` has shown, in this run or an earlier one.

    It appends to the activity, so that what a person entered elsewhere on the surface stays.

    Args:
        components: Components that are new, or replace those with their ids.
        data: The data behind the path; None leaves it as it is.
        path: The path of the data, `/` for all.
        message_id: The id of the activity, if `show_surface` was given one.

    Raises:
        UsageError: Nothing is changed.
    """
    operations: list[dict[str, Any]] = []
    if components:
        changed = [dict(each) for each in components]
        operations.append(_operation("updateComponents", {"surfaceId": surface_id, "components": changed}))
    if data is not None:
        operations.append(_operation("updateDataModel", {"surfaceId": surface_id, "path": path, "value": data}))
    if not operations:
        raise UsageError(f"change_surface({surface_id!r}) changes nothing: give components= or data=")
    # The classes of patches have no public names.
    return ActivityDeltaEvent.model_validate(
        {
            "messageId": message_id or _message_id(surface_id),
            "activityType": ACTIVITY_TYPE,
            "patch": [{"op": "add", "path": f"/{OPERATIONS}/-", "value": each} for each in operations],
        }
    )


def surface_result(*events: ActivitySnapshotEvent | ActivityDeltaEvent) -> str:
    """Return the result of a tool that shows or changes surfaces: `return surface_result(show_surface(...))`.

    For tools of frameworks whose events an agent does not make itself.

    Args:
        events: Events of `show_surface` and `change_surface`.
    """
    operations: list[Any] = []
    for event in events:
        if isinstance(event, ActivitySnapshotEvent):
            operations += event.content[OPERATIONS]
        else:
            operations += [each.value for each in event.patch if each.op == "add"]
    return json.dumps({OPERATIONS: operations}, ensure_ascii=False)


def _operation(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": VERSION, kind: body}


def _message_id(surface_id: str) -> str:
    return f"{ACTIVITY_TYPE}-{surface_id}"
