"""Settling a conversation: what a run that is over has left to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._pipeline.replies import Replies
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Message, ToolCall, ToolMessage

    from agui_client._pipeline.replay import Replay
    from agui_client._surfaces.exchange import Exchange
    from agui_client.conversation import Conversation


def settle(conversation: Conversation, said: Sequence[Message], exchange: Exchange) -> None:
    """Take over interrupts, tool calls and what is incomplete; a run that never began leaves what was pending before.

    Args:
        conversation: The conversation.
        said: What was said to the run.
        exchange: The run.
    """
    if exchange.replay is not None:
        _judge(conversation, exchange, exchange.replay)
    if exchange.pipeline.settlement.started is not None:
        _take_over(conversation, exchange)
    elif exchange.course.has_started:
        # A later round could not be asked: what it was to be told goes out with the next run.
        conversation.keep(Replies(entries=exchange.plan.input.resume or (), goes_on=False))
    elif isinstance(exchange.error, UsageError):
        # Nothing was sent: a prompt that cannot be sent must not stand in the way of the next one.
        conversation.take_back(said)
        conversation.note_unstarted(_carried_out(exchange))
    else:
        conversation.note_unstarted([*said, *_carried_out(exchange)])


def leave(
    conversation: Conversation,
    said: Sequence[Message],
    exchange: Exchange,
    tool_calls: Sequence[ToolCall] | None,
    incomplete_ids: Sequence[str],
) -> None:
    """Take over what was seen of a run that was left.

    Args:
        conversation: The conversation.
        said: What was said to the run.
        exchange: The run.
        tool_calls: The calls without a result that were seen; None if nothing was.
        incomplete_ids: The messages and calls that were seen to begin, and not to end.
    """
    if tool_calls is None:
        conversation.note_unstarted([*said, *_carried_out(exchange)])
    else:
        conversation.note_started()
        conversation.mark(incomplete_ids)
        conversation.mark_calls(call.id for call in tool_calls)
        conversation.settle((), tool_calls)


def _carried_out(exchange: Exchange) -> list[ToolMessage]:
    """The results of calls that were approved with what was asked."""
    executions = exchange.course.executions.values()
    return [execution.message for execution in executions if execution.message is not None]


def _judge(conversation: Conversation, exchange: Exchange, replay: Replay) -> None:
    """Whether a replay came as far as what was held; if not, what was held stands."""
    unheard = {message.id for message in conversation.unstarted}
    is_whole = exchange.came_to_end and exchange.has_terminal
    if _is_behind(exchange, replay, unheard, is_whole) or _are_untold(conversation, exchange, replay, is_whole):
        exchange.notify(replay.fall_behind())
    else:
        exchange.notify(replay.catch_up(is_whole=is_whole, unheard=unheard))


def _is_behind(exchange: Exchange, replay: Replay, unheard: set[str], is_whole: bool) -> bool:
    if is_whole:
        return replay.progress.stopped_short(unheard)
    return replay.progress.lacks(unheard) if exchange.has_terminal else not replay.progress.is_past


def _are_untold(conversation: Conversation, exchange: Exchange, replay: Replay, is_whole: bool) -> bool:
    """Whether interrupts wait of which a replay told nothing, and nothing of what came of them."""
    waiting = {interrupt.id for interrupt in conversation.pending_interrupts}
    if not waiting or not waiting.isdisjoint(replay.interrupt_ids):
        return False
    return not is_whole or not (replay.progress.is_past or exchange.pipeline.settlement.error is not None)


def _take_over(conversation: Conversation, exchange: Exchange) -> None:
    result, settled = exchange.result(), exchange.pipeline.settlement
    # What a replay told in part is what it was before, and so is what is known of it.
    kept = set[str]() if exchange.replay is None else exchange.replay.restored
    ended = settled.completed_ids - kept
    before = [item_id for item_id in exchange.pipeline.verify.left_open_before if item_id not in ended | kept]
    conversation.mark([*before, *result.incomplete_ids], ended)
    unfinished = [each for each in settled.unfinished_call_ids if each not in kept]
    conversation.mark_calls(unfinished, settled.tool_call_ids.keys() - kept)
    if not exchange.plan.is_replay:
        conversation.note_started()
    if not exchange.is_behind:
        conversation.settle(result.interrupts, result.pending_tool_calls)
