"""The iterator that an agent function returns is closed when its run is left, whether or not anybody refers to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput, RunStartedEvent, TextMessageStartEvent

from agui_client import FunctionAgent, RunObserver

pytestmark = pytest.mark.both_loops


class Events(AsyncIterator[Event]):
    """Begins a run and a message, and goes on for ever."""

    def __init__(self, asked: RunAgentInput) -> None:
        self.is_closed = False
        self._first: list[Event] = [RunStartedEvent(thread_id=asked.thread_id, run_id=asked.run_id)]
        self._count = 0

    async def __anext__(self) -> Event:
        if self._first:
            return self._first.pop()
        self._count += 1
        return TextMessageStartEvent(message_id=f"m{self._count}", role="assistant")

    async def aclose(self) -> None:
        self.is_closed = True


class Watching(RunObserver):
    """Watches the wire."""

    def on_wire_event(self, run: Any, number: int, event: Any) -> None:
        """Take in an event."""


@pytest.mark.anyio
@pytest.mark.parametrize("observer", [RunObserver(), Watching()])
async def test_an_iterator_is_closed_when_its_run_is_left(observer: RunObserver) -> None:
    made: list[Events] = []

    def reply(asked: RunAgentInput) -> Events:
        made.append(Events(asked))
        return made[-1]

    agent = FunctionAgent(reply)
    agent.add_observer(observer)
    async with agent.stream("Hi") as run:
        await anext(run)
        await anext(run)
    assert [each.is_closed for each in made] == [True]
