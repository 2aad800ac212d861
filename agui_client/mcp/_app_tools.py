"""Facts of a server's tool about its page: who may call it, and where the page is (MCP Apps, SEP-1865)."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp.client.extension import ClientExtension, advertise

from agui_client._core.protocol.schema import is_array, is_object
from agui_client.mcp_apps._words import CAPABILITY, PAGE_SCHEME, PAGE_TYPE

_BOTH = ("model", "app")
_OLDER_URI = "ui/resourceUri"
"""The member of `_meta` in which servers named a page before the standard."""


def page_capability() -> ClientExtension:
    """Return the capability of a client that shows pages."""
    return advertise(CAPABILITY, {"mimeTypes": [PAGE_TYPE]})


def ui_of(tool: mcp_types.Tool) -> dict[str, Any]:
    """Return what a server says of the page that shows a tool; empty if it says nothing."""
    about: object = (tool.meta or {}).get("ui")
    return about if is_object(about) else {}


def page_of(tool: mcp_types.Tool) -> str | None:
    """Return the address of a tool's page; None if it has none, or one that is no `ui://` address."""
    uri = ui_of(tool).get("resourceUri", (tool.meta or {}).get(_OLDER_URI))
    return uri if isinstance(uri, str) and uri.startswith(PAGE_SCHEME) else None


def is_for_model(tool: mcp_types.Tool) -> bool:
    """Return whether a server wants a tool to be shown to the model, and not to its own app alone."""
    return "model" in _visibility(tool)


def is_for_app(tool: mcp_types.Tool) -> bool:
    """Return whether a server lets its own pages call a tool."""
    return "app" in _visibility(tool)


def _visibility(tool: mcp_types.Tool) -> set[str]:
    """Return the sides that a tool is for.

    A server that says nothing means both; one that says something which is not understood has named nobody.
    """
    visibility: object = ui_of(tool).get("visibility")
    named = visibility if is_array(visibility) else _BOTH if visibility is None else [visibility]
    return {each.strip().lower() for each in named if isinstance(each, str)}
