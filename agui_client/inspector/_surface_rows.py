"""The surfaces of a recording, as the page shows them at a moment: painted, inert, each when a row has changed it.

A surface may draw much more than came: behind `_MOST_PAINTED` characters for a request, what still changes is painted
when the request ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client._rendering.surface_html import surface_html
from agui_client._rendering.surface_text import loose_lines
from agui_client.a2ui import Surfaces
from agui_client.a2ui._words import ACTIVITY_TYPE, EXHAUSTED, OPERATIONS, RENDER_TOOL

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client.inspector._response_changes import ResponseChanges

Painted: TypeAlias = list[list[Any]]
"""Surfaces by their ids, each with its HTML; None for one that is not there any more."""

_MOST_PAINTED = 2_000_000
_LOOSE = ""
"""In place of an id: what belongs to no surface, as sentences."""


class SurfaceRows:
    """Paints the surfaces of the response to one request.

    Args:
        messages: The messages that the request begins with.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._surfaces = Surfaces(messages)
        self._painted: dict[str, object] = {}
        self._left = _MOST_PAINTED
        self.beginning: Painted = self._repainted()
        """The surfaces of the messages that the request begins with."""

    def changed(self, event: dict[str, Any], changes: ResponseChanges) -> Painted:
        """Return the surfaces that an event has changed, as they are now.

        Args:
            event: The event's JSON.
            changes: The response, with the event in it.
        """
        if not _carries(event, changes):
            return []
        self._surfaces.update(changes.messages)
        return self._repainted() if self._left > 0 else []

    def at_end(self) -> Painted:
        """Return the surfaces that were not painted when they changed."""
        return self._repainted()

    def _repainted(self) -> Painted:
        now: dict[str, object] = {
            surface_id: (each.revision, each.status) for surface_id, each in self._surfaces.items()
        }
        if loose := loose_lines(self._surfaces):
            now[_LOOSE] = loose
        before, self._painted = self._painted, now
        repainted: Painted = [[surface_id, None] for surface_id in before if surface_id not in now]
        for surface_id, state in now.items():
            if before.get(surface_id) != state:
                repainted.append([surface_id, loose if surface_id == _LOOSE else self._html(surface_id)])
        return repainted

    def _html(self, surface_id: str) -> str:
        # The page's policy allows no styles in elements.
        html = surface_html(self._surfaces[surface_id], has_styles=False)
        self._left -= len(html)
        return html


def _carries(event: dict[str, Any], changes: ResponseChanges) -> bool:
    """Return whether an event may change a surface, without a look at the messages before it."""
    match event.get("type"):
        case "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA":
            return event.get("activityType") == ACTIVITY_TYPE
        case "TOOL_CALL_RESULT":
            content = str(event.get("content"))
            return OPERATIONS in content or EXHAUSTED in content
        case "TOOL_CALL_END":
            call = changes.call(str(event.get("toolCallId")))
            return call is not None and call.function.name == RENDER_TOOL
        case kind:
            # The arguments of a call in chunks may end without an event of their own.
            return kind in ("MESSAGES_SNAPSHOT", "RUN_FINISHED", "RUN_ERROR")
