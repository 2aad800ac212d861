"""The events that make up most of a stream have a way of their own, with the same bytes and the same checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    Event,
    ReasoningMessageContentEvent,
    RunAgentInput,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
)
from ag_ui.encoder import EventEncoder

from agui_client import FunctionAgent, InvalidEventError
from agui_client.asgi.sse_body import frame_of

_OTHERS: list[dict[str, Any]] = [
    {},
    {"timestamp": 3, "raw_event": {"a": None, "b": float("nan")}, "metadata": {"x": None}},
    {"subagent_run_id": "s", "odd": {"kept_as": 1}},
]


@pytest.mark.parametrize("others", _OTHERS)
@pytest.mark.parametrize("delta", ["word", 'Ærøskøbing \u2028 🚢\x00"\\'])
def test_a_delta_has_the_bytes_of_the_official_encoder(delta: str, others: dict[str, Any]) -> None:
    for event in (
        TextMessageContentEvent(message_id="ü", delta=delta, **others),
        ReasoningMessageContentEvent(message_id="ü", delta=delta, **others),
        ToolCallArgsEvent(tool_call_id="ü", delta=delta, **others),
        TextMessageContentEvent.model_construct(message_id="ü", delta=delta, **others),
    ):
        assert frame_of(event) == EventEncoder().encode(event).encode()


def _assigned(**values: Any) -> TextMessageContentEvent:
    event = TextMessageContentEvent(message_id="m", delta="x")
    for name, value in values.items():
        setattr(event, name, value)
    return event


@pytest.mark.parametrize(
    "event",
    [
        _assigned(delta=4),
        _assigned(message_id=None),
        _assigned(timestamp="now"),
        _assigned(delta="half a pair: \ud83d"),
        TextMessageContentEvent.model_construct(message_id="m", delta=b"x"),
        TextMessageContentEvent.model_construct(message_id="m"),
    ],
)
@pytest.mark.anyio
async def test_a_delta_that_an_agent_of_this_process_has_spoiled_is_refused(event: TextMessageContentEvent) -> None:
    async def run(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id="m")
        yield event

    with pytest.raises(InvalidEventError):
        await FunctionAgent(run).run_agent("hello")
