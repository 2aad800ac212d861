"""The surfaces of a conversation that lives, one object for as long as it does: `surfaces_of`.

What a person entered is kept in the conversation as an activity of this client's own, one for each surface. Activities
are never sent, and are saved with the other messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from ag_ui.core import ActivityMessage, Message

from agui_client.a2ui._surfaces import Surfaces
from agui_client.a2ui._words import TYPED_ACTIVITY_TYPE


class Thread(Protocol):
    """A conversation, as far as surfaces need it."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far."""
        ...

    def store_activity(self, activity: ActivityMessage) -> None:
        """Store an activity of this client's own, in the place of the one with its id."""


_live: WeakKeyDictionary[Thread, Surfaces] = WeakKeyDictionary()


def surfaces_of(thread: Thread) -> Surfaces:
    """Return the surfaces of a conversation as they are now; the same object at each call.

    Args:
        thread: The conversation.
    """
    if (surfaces := _live.get(thread)) is None:
        # Weakly, or the surfaces would keep the conversation that they belong to in the dictionary.
        reference = ref(thread)
        source, keep = partial(_messages, reference), partial(_keep, reference)
        surfaces = _live[thread] = Surfaces(thread.messages, source=source, keep=keep)
    return surfaces


def _messages(reference: ref[Thread]) -> Sequence[Message] | None:
    return None if (thread := reference()) is None else thread.messages


def _keep(reference: ref[Thread], surface_id: str, content: Mapping[str, Any]) -> None:
    if (thread := reference()) is not None:
        message_id = f"{TYPED_ACTIVITY_TYPE}/{surface_id}"
        activity = ActivityMessage(id=message_id, activity_type=TYPED_ACTIVITY_TYPE, content=dict(content))
        thread.store_activity(activity)
