"""Threads that somebody took part in, told again in part or whole: nothing that is held is lost, shortened or moved."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import anyio
import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)
from hypothesis import example, given
from hypothesis import strategies as st

from agui_client import AbstractAgent, AGUIError, ConnectError, Reducer
from support.given_up import without_given_up

THREAD = "thread-1"
Way = Literal["ends", "breaks", "is left"]
Make = Callable[[str, list[str], Reducer], list[Event]]
"""Makes the events of one step from an id, pieces of text, and what the server holds."""


def _text(message_id: str, pieces: list[str], _held: Reducer) -> list[Event]:
    told = [TextMessageContentEvent(message_id=message_id, delta=piece) for piece in pieces]
    return [TextMessageStartEvent(message_id=message_id), *told, TextMessageEndEvent(message_id=message_id)]


def _more_text(_message_id: str, pieces: list[str], held: Reducer) -> list[Event]:
    answers = [each.id for each in held.messages if isinstance(each, AssistantMessage)]
    return _text(answers[len(pieces) % len(answers)], pieces, held) if answers else []


def _reasoning(message_id: str, pieces: list[str], _held: Reducer) -> list[Event]:
    told = [ReasoningMessageContentEvent(message_id=message_id, delta=piece) for piece in pieces]
    start = ReasoningMessageStartEvent(message_id=message_id, role="reasoning")
    return [start, *told, ReasoningMessageEndEvent(message_id=message_id)]


def _call(message_id: str, pieces: list[str], held: Reducer) -> list[Event]:
    parent, call_id = f"{message_id}-p", f"{message_id}-c"
    has_text = len(pieces) > 2
    told = [ToolCallArgsEvent(tool_call_id=call_id, delta=piece) for piece in pieces]
    start = ToolCallStartEvent(
        tool_call_id=call_id, tool_call_name="look", parent_message_id=parent if has_text else None
    )
    return [*(_text(parent, ["So"], held) if has_text else ()), start, *told, ToolCallEndEvent(tool_call_id=call_id)]


def _call_with_result(message_id: str, pieces: list[str], held: Reducer) -> list[Event]:
    result = ToolCallResultEvent(tool_call_id=f"{message_id}-c", message_id=f"{message_id}-r", content="-3")
    return [*_call(message_id, pieces, held), result]


def _state(message_id: str, _pieces: list[str], _held: Reducer) -> list[Event]:
    return [StateSnapshotEvent(snapshot={"step": message_id})]


def _change(message_id: str, pieces: list[str], _held: Reducer) -> list[Event]:
    return [StateDeltaEvent.model_validate({"delta": [_added(f"/{len(pieces)}", message_id)]})]


def _added(path: str, value: str) -> dict[str, str]:
    return {"op": "add", "path": path, "value": value}


def _activity(message_id: str, pieces: list[str], _held: Reducer) -> list[Event]:
    name = "map" if len(pieces) % 2 else message_id
    patch = [_added("/pins/-", message_id)]
    return [
        ActivitySnapshotEvent(message_id=name, activity_type="MAP", content={"pins": []}, replace=len(pieces) > 2),
        ActivityDeltaEvent.model_validate({"message_id": name, "activity_type": "MAP", "patch": patch}),
    ]


def _snapshot(_message_id: str, _pieces: list[str], held: Reducer) -> list[Event]:
    return [MessagesSnapshotEvent(messages=[each for each in held.messages if not isinstance(each, ActivityMessage)])]


MAKERS: list[Make] = [
    _text, _more_text, _reasoning, _call, _call_with_result, _state, _change, _activity, _snapshot,
]  # fmt: skip
steps = st.tuples(st.sampled_from(MAKERS), st.lists(st.sampled_from(["ab", "ba", "a", "c "]), max_size=4))
runs = st.lists(st.lists(steps, max_size=5), min_size=1, max_size=3)


def _end(run_id: str, how: str) -> Event:
    if how == "fails":
        return RunErrorEvent(message="overloaded")
    interrupts = [Interrupt(id=f"{run_id}-asks", reason="approval")]
    asks = RunFinishedInterruptOutcome(interrupts=interrupts) if how == "asks" else None
    return RunFinishedEvent(thread_id=THREAD, run_id=run_id, outcome=asks)


class Server(AbstractAgent):
    """Lets a client take part in a thread that it remembers, and tells it again as it is told to."""

    def __init__(self) -> None:
        super().__init__(thread_id=THREAD)
        self.live: Callable[[RunAgentInput], list[Event]] = lambda _: []
        self.told: list[Event] = []
        self.way: Way = "ends"
        self.asked: list[RunAgentInput] = []

    async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        """The events of a live run."""
        self.asked.append(input)
        for event in self.live(input):
            yield event

    async def connect(self, input: RunAgentInput) -> AsyncIterator[Event]:
        """The events of the thread."""
        for event in self.told:
            yield event
        if self.way == "breaks":
            raise ConnectError("reset by peer")

    async def tell(self, events: list[Event], way: Way = "ends") -> None:
        """Let it be told this much of the thread."""
        self.told, self.way = events, way
        try:
            async with self.stream_connect() as run:
                for _ in events:
                    await anext(run)
                if way != "is left":
                    await run.result()
        except AGUIError as error:
            assert way != "is left" or not events, error  # noqa: PT017

    def held(self) -> tuple[object, ...]:
        """All there is to lose."""
        waiting = [each.id for each in self.pending_interrupts], [each.id for each in self.pending_tool_calls]
        cut = [each.tool_call_id for each in self.snapshot().tool_calls if each.status == "cut"]
        return self.messages, self.state, *waiting, sorted(self.incomplete_ids), cut


@dataclass
class Past:
    """A thread: what the server tells of it, and who took part in it."""

    events: list[Event]
    client: Server
    is_held_whole: bool


async def lived(woven: list[list[tuple[Make, list[str]]]], ending: str, live_part: float) -> Past:
    """Let a client take part in these runs, in the last one only so far."""
    client, told = Server(), list[Event]()
    is_whole = True
    for number, woven_run in enumerate(woven):
        run_id, is_last = f"run-{number}", number == len(woven) - 1
        prompt = UserMessage(id=f"user-{number}", content="And?")
        part, run_events = (live_part if is_last else 1), list[Event]()
        is_whole = part == 1
        client.live = partial(_live, woven_run, run_id, ending if is_last else "finishes", part, run_events)
        try:
            await client.run_agent(prompt, run_id=run_id)
        except AGUIError:
            assert is_last
        # With the answers to calls that nobody answered.
        told += [RunStartedEvent(thread_id=THREAD, run_id=run_id, input=client.asked[-1]), *run_events[1:]]
    return Past(told, client, is_whole)


def _live(
    woven: list[tuple[Make, list[str]]], run_id: str, ending: str, part: float, whole: list[Event], asked: RunAgentInput
) -> list[Event]:
    """Make the events of a run out of what was sent; return the part that arrives."""
    body = _made(woven, run_id, Reducer(asked.messages, asked.state))
    whole += [RunStartedEvent(thread_id=THREAD, run_id=run_id), *body, _end(run_id, ending)]
    return whole[: round(len(whole) * part)]


def _made(woven: Iterable[tuple[Make, list[str]]], run_id: str, held: Reducer) -> Iterable[Event]:
    for number, (make, pieces) in enumerate(woven):
        for event in make(f"{run_id}-{number}", pieces, held):
            held.feed(event)
            yield event


@pytest.mark.requirement("LIFE-13", "TRUNC-1", "STATE-6", "INT-3", "INPUT-1")
@given(
    woven=runs,
    ending=st.sampled_from(["finishes", "asks", "fails"]),
    live_part=st.sampled_from([1, 1, 1, 0.5, 0.2]),
    cuts=st.lists(st.tuples(st.floats(0, 0.99), st.sampled_from(["ends", "breaks", "is left"])), max_size=3),
)
@example(
    woven=[[(_text, []), (_text, []), (_call, []), (_text, [])], [(_text, ["ab"])], []],
    ending="finishes",
    live_part=1,
    cuts=[(0.9375, "ends")],
)
def test_what_is_held_stays_wherever_a_replay_is_cut(
    woven: list[list[tuple[Make, list[str]]]], ending: str, live_part: float, cuts: list[tuple[float, Way]]
) -> None:
    async def tell() -> None:
        past = await lived(woven, ending, live_part)
        client, events = past.client, past.events
        for cut, way in cuts:
            before, told = client.held(), events[: int(len(events) * cut)]
            await client.tell(told, way)
            if past.is_held_whole and told and isinstance(told[-1], RunFinishedEvent | RunErrorEvent):
                # Nobody can tell the end of an older run from the end of the thread where no message follows it.
                assert client.messages == before[0]
            elif past.is_held_whole:
                assert client.held() == before
            else:
                _assert_longer(cast("list[Message]", before[0]), client.messages)
        await _assert_sent(client)

    anyio.run(tell)


@pytest.mark.requirement("LIFE-13", "STATE-5", "STATE-6")
@given(
    woven=runs,
    ending=st.sampled_from(["finishes", "asks", "fails"]),
    live_part=st.sampled_from([1, 1, 0.5, 0.2]),
    cuts=st.lists(st.floats(0, 1), max_size=2),
)
def test_a_whole_replay_leaves_what_a_client_has_that_held_nothing(
    woven: list[list[tuple[Make, list[str]]]], ending: str, live_part: float, cuts: list[float]
) -> None:
    async def tell() -> None:
        past = await lived(woven, ending, live_part)
        fresh = Server()
        await fresh.tell(past.events)
        for cut in [*cuts, 1]:
            await past.client.tell(past.events[: int(len(past.events) * cut)])
        assert past.client.held()[:-1] == fresh.held()[:-1]
        await _assert_sent(past.client)

    anyio.run(tell)


def _assert_longer(before: list[Message], after: list[Message]) -> None:
    texts: dict[str, Any] = {message.id: message.content for message in after}
    for message in before:
        if isinstance(message.content, str):
            assert texts[message.id].startswith(message.content)
        assert message.id in texts


async def _assert_sent(client: Server) -> None:
    """What is held is what the next run is asked with."""
    held = [each for each in client.messages if not isinstance(each, ActivityMessage)]
    state = client.state
    client.abandon_interrupts()
    client.live = lambda _: [RunStartedEvent(thread_id=THREAD, run_id="run-9"), _end("run-9", "finishes")]
    await client.run_agent(UserMessage(id="last", content="Go on"), run_id="run-9")
    assert without_given_up(client.asked[-1].messages[:-1]) == without_given_up(held)
    assert (client.asked[-1].state or {}) == state
