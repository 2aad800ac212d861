"""The data of A2UI's specification, which is looked for beside the project, and surfaces made of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ag_ui.core import ActivityMessage

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.a2ui import Drawn, Surface, Surfaces

ROOT = Path(os.environ.get("AGUI_A2UI_DIR") or Path(__file__).parents[3] / "shared" / "spec" / "a2ui")
"""The folder of the specification's data."""
MISSING = (
    "the data of A2UI's specification is looked for beside the project (../shared/spec/a2ui) or where AGUI_A2UI_DIR "
    "points, and neither is there"
)
VERSIONS = ("v0_9", "v0_9_1")


def examples(version: str) -> list[Path]:
    """Return the examples of the basic catalog; none if the data is not there."""
    return sorted((ROOT / version / "catalogs" / "basic" / "examples").glob("*.json"))


def cases(version: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the cases of the specification: a name, the schema, and the case with `data` and `valid`."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for path in sorted((ROOT / version / "test" / "cases").glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        found += [(f"{path.stem}: {each['description']}", document["schema"], each) for each in document["tests"]]
    return found


def operations_of(example: Path) -> list[dict[str, Any]]:
    """Return the operations of an example."""
    document = json.loads(example.read_text(encoding="utf-8"))
    return document if is_array(document) else document["messages"]


def shown(*operations: dict[str, Any], message_id: str = "m") -> ActivityMessage:
    """Return an activity that shows what operations say, each without its version."""
    versioned = [{"version": "v0.9", **each} for each in operations]
    return ActivityMessage(id=message_id, activity_type="a2ui-surface", content={"a2ui_operations": versioned})


def surface_of(components: list[dict[str, Any]], data: Any = None, surface_id: str = "s") -> Surface:
    """Return a surface of components and data."""
    operations: list[dict[str, Any]] = [
        {"createSurface": {"surfaceId": surface_id, "catalogId": "basic"}},
        {"updateComponents": {"surfaceId": surface_id, "components": components}},
    ]
    if data is not None:
        operations.append({"updateDataModel": {"surfaceId": surface_id, "value": data}})
    return Surfaces([shown(*operations)])[surface_id]


def value_of(dynamic: Any, data: Any = None) -> Any:
    """Return what a text shows that is a binding or a call; None if it has no value."""
    surface = surface_of([{"id": "root", "component": "Text", "text": dynamic}], data)
    return surface.tree.values.get("text")


def plain(drawn: Any) -> Any:
    """Return a drawn tree as JSON, as the official renderer writes its own."""
    if isinstance(drawn, Drawn):
        return {"id": drawn.id, "type": drawn.component, **{name: plain(each) for name, each in drawn.values.items()}}
    if is_array(drawn):
        return [plain(each) for each in drawn]
    return {name: plain(each) for name, each in drawn.items()} if is_object(drawn) else drawn
