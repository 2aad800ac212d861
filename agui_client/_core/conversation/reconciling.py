"""Reconciling: the records of tool calls follow the messages, after these were changed or replaced (TOOL-9, TOOL-10).

The ledger has the records and the transitions of their status; here stands which of them a change of messages asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._core.conversation.ledger import CallStatus

if TYPE_CHECKING:
    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.ledger import ToolCallRecord


def reconcile(conversation: Conversation, *, is_cut: bool = False) -> None:
    """Bring the records of calls in line with the messages, after these were changed or replaced.

    A record goes if its call is no longer among the messages, or got its result from elsewhere. Of the others, the
    status follows the result: whether there is one now, and whether it is a placeholder.

    Args:
        is_cut: Whether the application replaced the messages: then a call is the same only on the same message.
    """
    ledger = conversation.ledger
    for record in _in_question(conversation):
        call_id = record.tool_call_id
        if not _is_the_call_of(record, conversation, is_cut=is_cut):
            # An agent may leave out of its snapshot what a function here has begun.
            is_begun = record.status is CallStatus.EXECUTING and conversation.place_of_call(call_id) is None
            if not is_begun or (is_cut and not conversation.is_running):
                ledger.drop(call_id)
        elif call_id not in conversation.answered_call_ids:
            if record.status in (CallStatus.ANSWERED, CallStatus.PLACEHOLDER):
                ledger.lose(call_id)
        elif record.status is CallStatus.EXECUTING:
            if not conversation.has_placeholder(call_id):
                ledger.answer(call_id)
        elif record.status is not CallStatus.ANSWERED:
            if conversation.has_placeholder(call_id) or not record.is_whole:
                ledger.note_placeholder(call_id)
            else:
                ledger.drop(call_id)


def _in_question(conversation: Conversation) -> list[ToolCallRecord]:
    """Return the records that may have to change: without a look at most of those that a long conversation has."""
    ledger, losses = conversation.ledger, conversation.losses
    if ledger.reconciled_with == losses:
        return ledger.unsettled
    ledger.reconciled_with = losses
    is_answered = conversation.is_answered
    return [
        *ledger.unsettled,
        *(each for each in ledger.settled if not is_answered(each.tool_call_id, each.message_id)),
    ]


def _is_the_call_of(record: ToolCallRecord, conversation: Conversation, *, is_cut: bool) -> bool:
    """Return whether the latest call of an id is the one that a record is about."""
    if (place := conversation.place_of_call(record.tool_call_id)) is None:
        return False
    message, ordinal = place
    if message.id == record.message_id:
        return True
    # A snapshot may give the message another id; the same place among the calls of the id is all that is left.
    return not is_cut and ordinal == record.ordinal and conversation.message(record.message_id) is None
