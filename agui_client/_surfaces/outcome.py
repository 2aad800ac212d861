"""What an exchange came to, as a `RunResult`: at its end, or as a partial one at any time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ag_ui.core import AssistantMessage, ToolMessage

from agui_client.result import RunResult, Timings

if TYPE_CHECKING:
    from ag_ui.core import Message, ToolCall

    from agui_client._surfaces.course import Course
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
    course = exchange.course
    new_messages = [message for message in messages if message.id not in course.known_ids]
    return RunResult(
        thread_id=run_input.thread_id,
        run_id=_run_id(exchange),
        text=_text(exchange, messages if exchange.plan.is_replay else new_messages),
        result=settled.finished.result if settled.finished else None,
        outcome=settled.outcome,
        interrupts=[each for each in settled.interrupts if each.id not in course.kept_answers],
        pending_tool_calls=_pending_tool_calls(exchange, messages),
        new_messages=new_messages,
        messages=messages,
        state=reducer.state,
        usage=course.usage,
        warnings=exchange.plan.warnings.records(),
        timings=_timings(exchange),
        response=course.posts[-1].response if course.posts else None,
        attempts=course.attempts,
        tool_executions=list(course.executions.values()),
        incomplete_ids=exchange.incomplete_ids,
        aborted=exchange.aborted,
    )


def _run_id(exchange: Exchange) -> str:
    """The run that was asked for; of a thread that is told again, the last one that was told of."""
    started = exchange.pipeline.settlement.started
    return started.run_id if started is not None and exchange.plan.is_replay else exchange.plan.input.run_id


def _text(exchange: Exchange, candidates: Sequence[Message]) -> str:
    """What the run streamed last, or, if it streamed nothing, what came last in its snapshots."""
    settled = exchange.pipeline.settlement
    streamed = map(exchange.plan.reducer.text_of, reversed(settled.text_message_ids))
    restated = (
        message.content
        for message in reversed(candidates)
        if isinstance(message, AssistantMessage)
        and message.subagent_run_id is None
        and message.id in settled.restated_ids
    )
    return next((text for text in chain(streamed, restated) if text), "")


def _pending_tool_calls(exchange: Exchange, messages: Sequence[Message]) -> list[ToolCall]:
    """The calls the producer named, or if it named none, those this run started; those without a result (TOOL-9)."""
    settled = exchange.pipeline.settlement
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    asked = dict.fromkeys(settled.named_pending or settled.tool_call_ids)
    calls = [exchange.plan.reducer.tool_call(each) for each in asked if each not in answered]
    return [call for call in calls if call is not None]


def _timings(exchange: Exchange) -> Timings:
    course = exchange.course
    return Timings(
        connect=course.connect_seconds,
        first_event=_since(course, course.first_event_at),
        first_text=_since(course, course.first_text_at),
        total=_since(course, exchange.ended_at),
    )


def _since(course: Course, moment: float | None) -> float | None:
    return None if moment is None else moment - course.started_at
