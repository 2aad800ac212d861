"""The changes of a conversation that come from outside its reducer, for `Conversation.apply`.

To change

- a change of messages, results or state that is not an event: a class here, which `Conversation.apply` carries out with
  all that depends on it: verbs, hooks, results of tools, edits of the state and the end of a replay make such changes.
  `Conversation.begin_run` gives the reducer to the pipeline of a run, and to nobody else
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ag_ui.core import ActivityMessage, Message, ToolMessage


@dataclass(frozen=True, slots=True)
class MessagesReplaced:
    """All messages are replaced."""

    messages: Iterable[Message]
    """The messages from now on."""
    is_replay: bool = False
    """Whether a server has sent the thread again, rather than that the application has changed it."""


@dataclass(frozen=True, slots=True)
class MessagesAdded:
    """Messages stand behind all others."""

    messages: Sequence[Message]
    """The new messages."""


@dataclass(frozen=True, slots=True)
class ResultsAdded:
    """Tool calls get results, behind the calls or in the place of placeholders."""

    results: Sequence[ToolMessage]
    """The results."""
    are_own: bool
    """Whether the calls were executed here, and no run has received the results yet."""


@dataclass(frozen=True, slots=True)
class StateReplaced:
    """The state is replaced."""

    state: Any
    """The state from now on, any JSON value, which is neither copied nor changed."""
    keeps_edits: bool = False
    """Whether edits that the agent does not have yet are shown over it."""


@dataclass(frozen=True, slots=True)
class ActivityStored:
    """An activity of this client's own stands in the place of the one with its id, or behind all messages.

    Activities are never sent, and no snapshot of a server drops one whose type begins with `OWN_ACTIVITIES`: a feature
    can keep in it what is saved with the conversation.
    """

    activity: ActivityMessage
    """The activity."""


ConversationChange: TypeAlias = MessagesReplaced | MessagesAdded | ResultsAdded | StateReplaced | ActivityStored
