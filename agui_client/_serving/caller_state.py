"""The state that a stored thread makes of its own and of the one that a caller sent.

To change

- how the state of a caller is merged with that of a stored thread: this module; the hash by which its base is found in
  `_core/conversation/state_base.py`, which `settle` (`_core/run/ending.py`) notes and `HttpAgent._post` sends;
  `_Rounds` in `_core/verbs/caller_run.py` tells the caller
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agui_client._core.conversation.state_base import state_hash
from agui_client._core.conversation.state_merging import ABSENT, merge, our_side
from agui_client._core.run.subagents import without_journal

if TYPE_CHECKING:
    from agui_client._core.conversation.conversation import Conversation

_MOST_CHARACTERS = 1_000_000
"""The characters of earlier states that are hashed for one request, which takes some milliseconds."""


def merged_state(conversation: Conversation, sent: Any, base: str | None) -> Any:
    """Return the state of a stored thread with what a caller changed in it.

    Where the base is known, all that the caller changed since is in it, also where the stored state changed as well.
    Without it, nobody knows which of two values is the newer one, and the stored one stands; what only the caller has
    is added.

    Args:
        conversation: The stored conversation.
        sent: The caller's state.
        base: The hash of the state that the caller's began with; None if the caller does not say.
    """
    stored = conversation.state
    # The caller never had the journal of a team.
    known = () if base is None else _states(conversation)
    found = next((each for each in known if state_hash(without_journal(each)) == base), ABSENT)
    if found is not ABSENT:
        return merge(found, sent, stored, our_side).merged
    if not conversation.messages or stored in (None, {}):
        return sent
    return merge({}, sent, stored).merged


def _states(conversation: Conversation) -> Iterator[Any]:
    """Yield the present state and those that earlier runs left, the latest first, as far as they may be hashed."""
    yield conversation.state
    left = _MOST_CHARACTERS
    for state in () if conversation.past is None else reversed(tuple(conversation.past.states)):
        left -= len(json.dumps(state))
        if left < 0:
            return
        yield state
