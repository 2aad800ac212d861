"""The way back to an earlier message of a conversation, without what later messages left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_a
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Message

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.snapshot import ConversationSnapshot


def beginning_of(conversation: Conversation, count: int) -> ConversationSnapshot:
    """Return the conversation up to a message, with the present state, and without what later messages left open.

    Args:
        count: The number of messages that stay.
    """
    messages = conversation.messages[:count]
    calls = {call.id for each in messages if each.role == "assistant" for call in each.tool_calls or ()}
    ids = {each.id for each in messages}
    return conversation.snapshot().model_copy(
        update={
            "pending_interrupts": [],
            "answered_interrupts": [],
            "asking_run_id": None,
            "kept_answers": [],
            "messages": messages,
            "abandoned": False,
            "incomplete_ids": [each for each in conversation.incomplete_ids if each in ids],
            "unreceived_ids": None,
            "tool_calls": [
                each for each in conversation.ledger if each.tool_call_id in calls and each.message_id in ids
            ],
        }
    )


def rewind(conversation: Conversation, message_id: str | None, before: str | None) -> list[Message]:
    """Take the conversation back: see `AbstractAgent.rewind`."""
    if (message_id is None) is (before is None):
        raise UsageError(
            "rewind() takes the id of the last message that stays, or before= with that of the first to go"
        )
    messages, wanted = conversation.messages, before if message_id is None else message_id
    if not is_a(wanted, str):
        kind = type(wanted).__name__
        raise UsageError(f"rewind() takes the id of a message, as in rewind(message.id), not a {kind}")
    place = next((at for at, each in enumerate(messages) if each.id == wanted), None)
    if place is None:
        raise UsageError(f"the conversation has no message {quoted(str(wanted))}; agent.messages lists their ids")
    count = place + (before is None)
    while before is None and count < len(messages) and messages[count].role == "tool":
        count += 1
    if before is not None and messages[place].role == "tool":
        raise UsageError("rewind() cuts no call off from its result: give the message of the call")
    conversation.restore(beginning_of(conversation, count))
    return messages[count:]
