"""Actions: what a person did on a surface, on its way to the agent (`Action`), and read there (`action_in`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.schema import is_object
from agui_client.a2ui._words import ACTION_PROPERTY
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Action:
    """An act of a person on a surface: `await agent.run_agent(**action.run_options())`.

    To an agent it is a caller's input: every member may be forged, `context` included.
    """

    name: str
    """The name that the agent gave it, such as "book"."""
    surface_id: str
    """The surface."""
    component_id: str
    """The component that was pressed."""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values that the agent asked for, worked out."""
    timestamp: str = field(default_factory=_now)
    """The time, as ISO 8601."""

    def user_action(self) -> dict[str, Any]:
        """Return the action as it is sent."""
        return {
            "name": self.name,
            "surfaceId": self.surface_id,
            "sourceComponentId": self.component_id,
            "context": dict(self.context),
            "timestamp": self.timestamp,
        }

    def run_options(self, forwarded_props: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the keywords of the run that tells the agent.

        Args:
            forwarded_props: Other properties to be sent beside the action.

        Returns:
            Keywords for `run_agent`, `stream` and the other verbs.
        """
        return {"forwarded_props": {**(forwarded_props or {}), ACTION_PROPERTY: {"userAction": self.user_action()}}}


def action_in(input: RunAgentInput) -> Action | None:
    """Return what the person did on a surface, as an agent gets it; None if this run is about something else.

    The sender of the run wrote it: check the context like any other input.

    Args:
        input: The input of the run.

    Raises:
        UsageError: There is an action, but it has no name or surface.
    """
    props = input.forwarded_props
    sent = props.get(ACTION_PROPERTY) if is_object(props) else None
    given = sent.get("userAction") if is_object(sent) else None
    if not is_object(given):
        return None
    texts = [given.get(name, "") for name in ("name", "surfaceId", "sourceComponentId", "timestamp")]
    if not all(isinstance(each, str) for each in texts) or not texts[0] or not texts[1]:
        raise UsageError(
            "forwardedProps.a2uiAction.userAction needs the texts name and surfaceId; the caller sent others"
        )
    context = given.get("context")
    return Action(texts[0], texts[1], texts[2], dict(context) if is_object(context) else {}, texts[3])
