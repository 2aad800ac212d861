"""Pages of MCP servers where they are not shown: the address and the text of the result."""

from __future__ import annotations

from ag_ui.core import ActivitySnapshotEvent, Event

from agui_client.mcp_apps import App
from agui_client.mcp_apps._app import app_of


def app_line(event: Event) -> str | None:
    """Return the line about a page that an event announces; None if it announces none."""
    if not isinstance(event, ActivitySnapshotEvent):
        return None
    app = app_of(event.message_id, event.activity_type, event.content)
    return None if app is None else app_text(app)


def app_text(app: App) -> str:
    """Write the address of the page of a call and the text of its result, both as they were sent."""
    return f"page {app.resource_uri}: {app.text}" if app.text else f"page {app.resource_uri}"
