"""Settling a conversation: what a run that is over has left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Message

    from agui_client._surfaces.exchange import Exchange
    from agui_client.conversation import Conversation


def settle(conversation: Conversation, said: Sequence[Message], exchange: Exchange) -> None:
    """Take over interrupts, tool calls and what is incomplete; a run that never began leaves what was pending before.

    Args:
        conversation: The conversation.
        said: What was said to the run.
        exchange: The run.
    """
    if exchange.pipeline.settlement.started is not None:
        _take_over(conversation, exchange)
    elif exchange.course.has_started:
        # A later round could not be asked: what it was to be asked is part of the conversation already.
        return
    elif isinstance(exchange.error, UsageError):
        # Nothing was sent: a prompt that cannot be sent must not stand in the way of the next one.
        conversation.take_back(said)
    else:
        conversation.note_unstarted(said)


def _take_over(conversation: Conversation, exchange: Exchange) -> None:
    result, completed_ids = exchange.result(), exchange.pipeline.settlement.completed_ids
    before = [item_id for item_id in exchange.pipeline.verify.left_open_before if item_id not in completed_ids]
    conversation.mark([*before, *result.incomplete_ids], completed_ids)
    if not exchange.plan.is_replay:
        conversation.note_started()
    if not exchange.is_behind:
        conversation.settle(result.interrupts, result.pending_tool_calls)
