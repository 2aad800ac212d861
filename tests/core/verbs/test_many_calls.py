"""Streams with thousands of tool calls: what they cost grows as they do, in their run and the next one."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from ag_ui.core import RunErrorEvent

from agui_client import AGUIError
from agui_client.testing import ScriptedAgent, turn

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def _calls(number: int, *, parent: str | None, has_ends: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for each in range(number):
        call = {"toolCallId": f"c{each}", "toolCallName": "look"} | ({"parentMessageId": parent} if parent else {})
        events.append({"type": "TOOL_CALL_START", **call})
        if has_ends:
            events.append({"type": "TOOL_CALL_END", "toolCallId": f"c{each}"})
    return events


async def _seconds(number: int, *, parent: str | None, has_ends: bool) -> float:
    """The CPU seconds of a run with some tool calls, and of the next one."""
    end = () if has_ends else (RunErrorEvent(message="no"),)
    agent = ScriptedAgent(turn(*_calls(number, parent=parent, has_ends=has_ends), *end), turn())
    begun = time.process_time()
    for _ in range(2):
        with suppress(AGUIError):
            await agent.run_agent("Go")
    assert len(agent.messages) > 1
    return time.process_time() - begun


@pytest.mark.parametrize(
    ("parent", "has_ends"),
    [
        pytest.param(None, False, id="left open"),
        pytest.param(None, True, id="ended", marks=pytest.mark.soak),  # the others have what may grow
        pytest.param("m", True, id="of one message"),
    ],
)
async def test_eight_times_the_calls_cost_eight_times_as_much(parent: str | None, has_ends: bool) -> None:
    await _seconds(10, parent=parent, has_ends=has_ends)
    few = min([await _seconds(500, parent=parent, has_ends=has_ends) for _ in range(2)])
    assert await _seconds(4_000, parent=parent, has_ends=has_ends) < 16 * few
