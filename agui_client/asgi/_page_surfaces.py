"""The surfaces on the chat page: painted, and what a person enters and presses there read, for one request at a time.

The app keeps nothing of it: the page sends the messages that carry surfaces, and what was entered so far, which it got
with the response before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ag_ui.core import ActivityMessage, Message
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from agui_client._rendering.surface_html import carried_out, surface_html
from agui_client._rendering.surface_text import loose_lines
from agui_client.a2ui import Action, Surface, Surfaces
from agui_client.a2ui._words import TYPED_ACTIVITY_TYPE
from agui_client.errors import UsageError


class AskedSurfaces(BaseModel):
    """The body of a request for surfaces, with what a person did on one of them if anything."""

    model_config = ConfigDict(alias_generator=to_camel)

    messages: list[Message]
    typed: list[dict[str, Any]] = []
    """The values that were entered before, as the last response had them."""
    is_live: bool = False
    surface_id: str | None = None
    set: str | None = None
    press: str | None = None
    at: str = "/"
    value: Any = None


def drawn_surfaces(asked: AskedSurfaces) -> dict[str, Any]:
    """Return surfaces as they are after what a person did; an action, if a button was pressed that can be.

    Args:
        asked: The request.
    """
    surfaces = Surfaces([*asked.messages, *map(_activity, asked.typed)])
    action, complaints = None, dict[str, list[str]]()
    try:
        action = _done(asked, surfaces)
    except UsageError as error:
        complaints[str(asked.surface_id)] = [str(error)]
    # What is hidden while it is typed, the page has only until it is reloaded.
    entered = [surface_id for surface_id, each in surfaces.items() if each.entered]
    drawn = [
        {
            "id": surface_id,
            "messages": each.message_ids[-1:],
            "html": surface_html(
                each,
                is_live=asked.is_live and action is None,
                complaints=complaints.get(surface_id, ()),
                has_styles=False,
            ),
        }
        for surface_id, each in surfaces.items()
    ]
    return {
        "surfaces": drawn,
        "loose": loose_lines(surfaces),
        "typed": [surfaces.kept(surface_id, with_hidden=True) for surface_id in entered],
        "kept": [surfaces.kept(surface_id) for surface_id in entered],
        "action": None if action is None else action.user_action(),
    }


def _done(asked: AskedSurfaces, surfaces: Mapping[str, Surface]) -> Action | None:
    """Carry out what a person did; return the action of a press.

    Raises:
        UsageError: The surface does not take it.
    """
    surface = surfaces.get(asked.surface_id) if asked.surface_id is not None else None
    if surface is None:
        return None
    done = {name: value for name in ("set", "press") if (value := getattr(asked, name)) is not None}
    return carried_out(surface, {**done, "at": asked.at, "value": asked.value})


def _activity(typed: dict[str, Any]) -> ActivityMessage:
    message_id = f"{TYPED_ACTIVITY_TYPE}/{typed.get('surfaceId')}"
    return ActivityMessage(id=message_id, activity_type=TYPED_ACTIVITY_TYPE, content=typed)
