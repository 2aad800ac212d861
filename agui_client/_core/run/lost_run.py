"""Runs that a server keeps, and whose end did not arrive: the same call again asks for the same run.

The very next call with the same prompt, answers and tools sends the run's input once more, with all its ids, if nothing
of the conversation was changed in between; `new_run=True` begins another run. A server that keeps runs then sends the
run from its first event. So the conversation goes back to what the run was sent, whatever had arrived of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ag_ui.core import RunAgentInput

from agui_client._core.conversation.changes import MessagesReplaced, StateReplaced
from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.protocol.prompts import prompt_messages
from agui_client._core.run.options import IN_INPUT
from agui_client._core.run.turn_input import FirstRun, RequestSource, TurnInput
from agui_client.errors import IncompleteRunError, TransportError

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.call import Call
    from agui_client._core.run.options import RunOptions
    from agui_client.errors import HTTPStatusError

_SAME = (IN_INPUT | {"tools"}) - {"run_id"}
"""The keywords that say what is asked; the others, such as headers and time-outs, say how."""


@dataclass(frozen=True, slots=True)
class UnconfirmedRun:
    """A run that a server keeps, and whose end did not arrive."""

    prompts: Sequence[Message]
    """The messages of the prompt of its call."""
    options: Mapping[str, Any]
    """The keywords of its call that say what was asked."""
    input: RunAgentInput
    """The input that it was sent."""
    state: Any
    """The state that it was sent; `ABSENT` if nothing of the run arrived, so that the state is the same."""
    added_ids: Sequence[str]
    """The ids of messages that the call added, and that were taken out again as nothing of the run arrived."""
    conversation: ConversationSnapshot
    """The conversation as it was after the call."""

    def is_asked_by(self, conversation: Conversation, prompts: Sequence[Message], options: RunOptions) -> bool:
        """Return whether a call asks for the run: for the same, with nothing changed in between."""
        is_same_run = options.get("run_id") in (None, self.input.run_id) and not options.get("new_run", False)
        return (
            is_same_run
            and _asked(options) == self.options
            and [*map(_without_id, prompts)] == [*map(_without_id, self.prompts)]
            and conversation.snapshot() == self.conversation
        )


class RepeatedRequest(TurnInput):
    """A call that asks once more for a run whose end did not arrive.

    Args:
        lost: The run.
    """

    first_run = FirstRun.REPEATED

    def __init__(self, conversation: Conversation, lost: UnconfirmedRun) -> None:
        self._conversation, self.lost = conversation, lost
        self.input = lost.input.model_copy(update={"tools": None})

    def add_to_conversation(self) -> None:
        """Let the conversation become that which the run was sent."""
        change = self._conversation.apply(MessagesReplaced(self.lost.input.messages))
        if self.lost.state is not ABSENT:
            change |= self._conversation.apply(StateReplaced(self.lost.state))
        self._conversation.listeners.notify(change)

    def undo(self) -> None:
        """Take the messages out again that the first call added: the run has not begun on this side."""
        self._conversation.remove_messages(set(self.lost.added_ids))


def repeated_request(
    conversation: Conversation, prompt: Prompt | RequestSource, options: RunOptions
) -> TurnInput | None:
    """Return the request of a call that asks for the run that was lost just now; None if it asks for another one.

    Args:
        conversation: The conversation, which forgets the lost run: only the very next call may ask for it.
        options: The keywords of the call.
    """
    lost, conversation.lost_run = conversation.lost_run, None
    if not isinstance(lost, UnconfirmedRun) or isinstance(prompt, RequestSource | RunAgentInput):
        return None
    is_asked = lost.is_asked_by(conversation, prompt_messages(prompt), options)
    return RepeatedRequest(conversation, lost) if is_asked else None


def lost_run(call: Call, error: Exception | None) -> UnconfirmedRun | None:
    """Return the last run of a call if its server keeps it, and its end did not arrive; None otherwise.

    Args:
        error: The exception that the call failed with; None if it did not fail.
    """
    run, request = call.round, call.request
    is_lost = isinstance(error, TransportError | IncompleteRunError) and error.may_have_started
    is_whole = call.agent_options.get("history", "full") == "full"
    if not is_lost or not is_whole or not run.is_kept or run.outcome.is_terminal:
        return None
    match request:
        case RepeatedRequest():
            prompts = request.lost.prompts
            added = request.lost.added_ids
        case TurnInput() if type(request) is TurnInput:
            prompts = request.prompts
            added = [message.id for message in request.added]
        case _:
            return None
    has_started = run.outcome.started is not None
    # What later runs of a call add stays in the conversation, whether they start or not.
    is_taken_out = not has_started and len(call.rounds) == 1
    return UnconfirmedRun(
        prompts=prompts,
        options=_asked(call.options),
        input=run.input,
        # The run's own state may have been patched in place.
        state=json.loads(run.requests[-1].posted)["state"] if has_started else ABSENT,
        added_ids=added if is_taken_out else (),
        conversation=call.conversation.snapshot(),
    )


def is_refused_repetition(call: Call, error: HTTPStatusError) -> bool:
    """Return whether the server has refused a repeated run: it is not kept, or another one is in progress."""
    return isinstance(call.request, RepeatedRequest) and error.status_code == HTTPStatus.CONFLICT


def _asked(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _SAME & options.keys()}


def _without_id(message: Message) -> Message:
    return message.model_copy(update={"id": ""})
