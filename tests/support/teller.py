"""An agent in this process that tells a thread again, as far as a test wants it to, and a thread of two runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from agui_client import AbstractAgent, RunResult
from agui_client._core.protocol.events import WireEvent
from agui_client.testing import Step, reasoning, state, text, tool_call
from agui_client.testing._steps import ScriptContext, play
from support.thread import THANKS, WEATHER, started
from support.verbs import shown

_NOTHING = RunAgentInput(thread_id="thread-1", run_id="run-0", messages=[])


def events_of_steps(*steps: Step) -> list[WireEvent]:
    """The single events that these steps, none of which waits, come to."""
    scene = ScriptContext(_NOTHING)
    return [cast("WireEvent", event) for step in steps for event in play(step, scene)]


class Teller(AbstractAgent):
    """Tells what it is given, and then ends, or raises."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(thread_id="thread-1", **settings)
        self.told: Sequence[WireEvent] = ()
        self.error: Exception | None = None
        self.asked: list[RunAgentInput] = []

    async def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Answer a run with the same."""
        self.asked.append(input)
        async for event in self.connect(input):
            yield event

    async def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Tell it."""
        for event in self.told:
            yield event
        if self.error is not None:
            raise self.error

    async def take_up(self, *steps: Step, error: Exception | None = None) -> RunResult:
        """Let it tell this."""
        self.told, self.error = events_of_steps(*steps), error
        return await self.connect_agent()

    async def follow(self, *steps: Step, events: int) -> list[Event]:
        """Let it tell this, and leave it after so many events."""
        self.told, self.error = events_of_steps(*steps), None
        async with self.stream_connect() as run:
            return [await anext(run) for _ in range(events)]

    def held(self) -> dict[str, Any]:
        """What there is to lose."""
        document = self.snapshot()
        return {
            "messages": shown(self.messages),
            "state": self.state,
            "interrupts": [each.id for each in self.pending_interrupts],
            "calls": [each.id for each in self.pending_tool_calls],
            "incomplete": self.incomplete_ids,
            "unfinished": [each.tool_call_id for each in document.tool_calls if each.status == "cut"],
        }


async def holding(*steps: Step) -> Teller:
    """Somebody who holds a whole thread."""
    agent = Teller()
    await agent.take_up(*steps)
    return agent


RAIN = AssistantMessage(id="answer-1", content="Rain.")
SNOW = AssistantMessage(id="answer-2", content="Snow.")
ASKED = Interrupt(id="interrupt-1", reason="confirmation")


def ended(run_id: str, *interrupts: Interrupt) -> Event:
    outcome = RunFinishedInterruptOutcome(interrupts=list(interrupts)) if interrupts else None
    return RunFinishedEvent(thread_id="thread-1", run_id=run_id, outcome=outcome)


def snapshot(*messages: Message) -> Event:
    return MessagesSnapshotEvent(messages=list(messages))


FIRST: list[Step] = [
    started("run-1", WEATHER, state={}),
    text("Rain.", message_id="answer-1"),
    state({"at": 1}),
    snapshot(WEATHER, RAIN),
    ended("run-1"),
]
SECOND: list[Step] = [
    started("run-2", WEATHER, RAIN, THANKS, state={"at": 1}),
    reasoning("Hm.", message_id="think-2"),
    text("Snow.", message_id="answer-2"),
    ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={}),
    state({"at": 2}),
    snapshot(WEATHER, RAIN, THANKS, SNOW),
    ended("run-2", ASKED),
]
CALLING: list[Step] = [
    *SECOND[:2],
    tool_call("book", {"a": 1}, tool_call_id="call-2"),
    state({"at": 2}),
    ended("run-2"),
]
ONLY_STATE: list[Step] = [started("run-2", WEATHER, RAIN, THANKS, state={"at": 1}), state({"at": 2}), ended("run-2")]
ONLY_ASKING: list[Step] = [*ONLY_STATE[:-1], ended("run-2", ASKED)]
RESUMED: list[Step] = [RunStartedEvent(thread_id="thread-1", run_id="run-2"), *ONLY_ASKING[1:]]
LONGER: list[Step] = [
    started("run-2", WEATHER, RAIN, THANKS),
    text(" And wind.", message_id="answer-1"),
    tool_call("book", {"a": 1}, tool_call_id="call-2", parent_message_id="answer-1"),
    ended("run-2", ASKED),
]
BETWEEN = len(events_of_steps(*FIRST))


def half_a_call(told: str) -> list[Step]:
    start = ToolCallStartEvent(tool_call_id="call-1", tool_call_name="book", parent_message_id="answer-1")
    return [start, ToolCallArgsEvent(tool_call_id="call-1", delta=told)]


CALL_ENDS = ToolCallEndEvent(tool_call_id="call-1")
