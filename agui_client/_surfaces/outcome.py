"""What an exchange came to, as a `RunResult`: at its end, or as a partial one at any time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ag_ui.core import AssistantMessage, ToolMessage

from agui_client.result import RunResult, Timings

if TYPE_CHECKING:
    from ag_ui.core import Message, ToolCall

    from agui_client._surfaces.exchange import Exchange


def build_result(exchange: Exchange) -> RunResult:
    """Sum up an exchange.

    Args:
        exchange: The run, over or not.

    Returns:
        What has arrived and what was settled so far.
    """
    settled, reducer, run_input = exchange.pipeline.settlement, exchange.plan.reducer, exchange.plan.input
    messages = reducer.messages
    new_messages = [message for message in messages if message.id not in exchange.known_ids]
    return RunResult(
        thread_id=run_input.thread_id,
        run_id=run_input.run_id,
        text=_text(exchange, new_messages),
        result=settled.finished.result if settled.finished else None,
        outcome=settled.outcome,
        interrupts=settled.interrupts,
        pending_tool_calls=_pending_tool_calls(exchange, messages),
        new_messages=new_messages,
        messages=messages,
        state=reducer.state,
        usage=settled.usage,
        warnings=exchange.plan.warnings.records(),
        timings=_timings(exchange),
        response=exchange.post.response if exchange.post else None,
        aborted=exchange.aborted,
    )


def _text(exchange: Exchange, new_messages: Sequence[Message]) -> str:
    """What the run streamed last, or, if it streamed nothing, what came last in its snapshots."""
    settled = exchange.pipeline.settlement
    streamed = map(exchange.plan.reducer.text_of, reversed(settled.text_message_ids))
    restated = (
        message.content
        for message in reversed(new_messages)
        if isinstance(message, AssistantMessage)
        and message.subagent_run_id is None
        and message.id in settled.restated_ids
    )
    return next((text for text in chain(streamed, restated) if text), "")


def _pending_tool_calls(exchange: Exchange, messages: Sequence[Message]) -> list[ToolCall]:
    """The calls the producer named; if it named none, those this run started that have no result (TOOL-9)."""
    settled = exchange.pipeline.settlement
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    pending = settled.named_pending or [each for each in settled.tool_call_ids if each not in answered]
    calls = map(exchange.plan.reducer.tool_call, dict.fromkeys(pending))
    return [call for call in calls if call is not None]


def _timings(exchange: Exchange) -> Timings:
    settled = exchange.pipeline.settlement
    return Timings(
        connect=exchange.post.connect_seconds if exchange.post else None,
        first_event=_since(exchange, settled.first_event_at),
        first_text=_since(exchange, settled.first_text_at),
        total=_since(exchange, exchange.ended_at),
    )


def _since(exchange: Exchange, moment: float | None) -> float | None:
    return None if moment is None else moment - exchange.started_at
