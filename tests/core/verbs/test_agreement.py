"""At every event, all places that show messages and state show the same: nothing runs ahead, and nothing lags."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from reactivex import Observable, operators

from agui_client import HttpAgent, RunObserver, Subscriber, tool
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    events_of,
    patch,
    reasoning,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    turn,
)
from support.verbs import shown
from support.waiting import in_thread
from support.watching import observed, observed_here

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client import AbstractAgent, AgentRun, HookContext, SyncAgentRun
    from agui_client.types import RunScope

View: TypeAlias = tuple[str, list[dict[str, object]], Any]
"""The type of an event, and the messages and the state at that moment."""
Reader: TypeAlias = Callable[["AbstractAgent"], list[list[View]]]
"""Runs an agent to its end; returns the views of each place that the verb has."""

SCRIPT = [
    turn(
        reasoning("They ask twice."),
        text("Let me look. ", message_id="answer-1"),
        state({"seen": []}),
        tool_call("look", {"at": "map"}, tool_call_id="call-1", parent_message_id="answer-1"),
        patch({"op": "add", "path": "/seen/-", "value": "map"}),
        tool_call("look", {"at": "sky"}, tool_call_id="call-2", parent_message_id="answer-1"),
    ),
    turn(
        text("Clear skies ahead.", message_id="answer-2"),
        patch({"op": "add", "path": "/seen/-", "value": "sky"}, {"op": "replace", "path": "/seen/0", "value": "Map"}),
    ),
]


@tool
async def look(at: str) -> str:
    """Looks."""
    return f"seen {at}"


def view(event: Event, messages: list[Any], held: Any) -> View:
    return event.type.value, shown(messages), held


class Seeing(RunObserver):
    """Notes what the agent has at every event."""

    def __init__(self) -> None:
        self.agent: AbstractAgent
        self.views: list[View] = []

    def on_event(self, run: RunScope, event: Event, change: object) -> None:
        """Note it."""
        self.views.append(view(event, self.agent.messages, self.agent.state))


def at_each_event(agent: AbstractAgent, run: AgentRun | SyncAgentRun, event: Event) -> list[View]:
    partial = run.partial
    return [
        view(event, run.messages, run.state),
        view(event, partial.messages, partial.state),
        view(event, agent.messages, agent.state),
    ]


def streamed(backend: str) -> Reader:
    async def main(agent: AbstractAgent) -> list[list[View]]:
        async with agent.stream("Look twice.") as run:
            return [at_each_event(agent, run, event) async for event in run]

    return lambda agent: columns(anyio.run(main, agent, backend=backend))


def snapshots(agent: AbstractAgent) -> list[list[View]]:
    async def main() -> list[list[View]]:
        async with agent.stream("Look twice.") as run:
            return [
                [view(each.event, each.messages, each.state), *at_each_event(agent, run, each.event)]
                async for each in run.snapshots
            ]

    return columns(anyio.run(main))


def streamed_sync(agent: AbstractAgent) -> list[list[View]]:
    def main() -> list[list[View]]:
        with agent.stream_sync("Look twice.") as run:
            return [at_each_event(agent, run, event) for event in run]

    return columns(in_thread(main))


def observed_in_thread(agent: AbstractAgent) -> list[list[View]]:
    return columns(observed(observing(agent)).values)


def observed_in_loop(agent: AbstractAgent) -> list[list[View]]:
    async def main() -> list[list[View]]:
        return (await observed_here(observing(agent))).values

    return columns(anyio.run(main))


def observing(agent: AbstractAgent) -> Observable[list[View]]:
    def at_event(event: Event) -> list[View]:
        return [view(event, agent.messages, agent.state)]

    return agent.observe("Look twice.").pipe(operators.map(at_event))


def columns(rows: list[list[View]]) -> list[list[View]]:
    return [list(column) for column in zip(*rows, strict=True)]


READERS: dict[str, Reader] = {
    "stream-asyncio": streamed("asyncio"),
    "stream-trio": streamed("trio"),
    "snapshots": snapshots,
    "stream_sync": streamed_sync,
    "observe-thread": observed_in_thread,
    "observe-loop": observed_in_loop,
}


@contextmanager
def in_process(**options: Any) -> Generator[AbstractAgent]:
    yield ScriptedAgent(*SCRIPT, **options)


@contextmanager
def at_once(**options: Any) -> Generator[AbstractAgent]:
    """All events of a run in one read: whatever reads ahead has the whole run before the caller has one event."""
    with serve_bytes(*map(sse, SCRIPT)) as server:
        yield HttpAgent(server.url, **options)


@contextmanager
def event_by_event(**options: Any) -> Generator[AbstractAgent]:
    with serve_bytes(*(Reply(events_of(sse(each))) for each in SCRIPT)) as server:
        yield HttpAgent(server.url, **options)


class Listening(Subscriber):
    """Has the hooks of every event called, which takes the longest way through the engine."""

    async def on_event(self, event: Event, context: HookContext) -> None:
        """Give way to whatever reads ahead."""
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("watched_by", ["nobody", "observer", "subscriber"])
@pytest.mark.parametrize("place", [in_process, at_once, event_by_event], ids=lambda place: place.__name__)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_messages_and_state_are_the_same_wherever_one_looks(reader: Reader, place: Any, watched_by: str) -> None:
    seeing = Seeing()
    with place(tools=[look], thread_id="thread-1") as agent:
        seeing.agent = agent
        # Without anybody who watches, events take a shorter way through the engine.
        if watched_by != "nobody":
            agent.add_observer(seeing)
        if watched_by == "subscriber":
            agent.subscribe(Listening())
        first, *others = reader(agent)
    assert [kind for kind, _, _ in first].count("TOOL_CALL_RESULT") == 2
    assert first[-1][2] == {"seen": ["Map", "sky"]}
    assert [message["role"] for message in first[-1][1]] == [
        "user",
        "reasoning",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    for other in [*others, *([] if watched_by == "nobody" else [seeing.views])]:
        assert other == first


@pytest.mark.parametrize("place", [in_process, at_once, event_by_event], ids=lambda place: place.__name__)
def test_each_event_brings_its_own_change_and_no_other(place: Any) -> None:
    with place(tools=[look]) as agent:
        first, *_ = READERS["stream-asyncio"](agent)
    texts = [
        next((message["content"] for message in messages if message["id"] == "answer-2"), None)
        for _, messages, _ in first
    ]
    assert [text for text in texts if text] == ["Clear ", *["Clear skies "], *["Clear skies ahead."] * 4]
    states: list[Any] = [{}, *(held for _, _, held in first)]
    changes = [kind for (kind, _, held), before in zip(first, states, strict=False) if held != before]
    assert changes == ["STATE_SNAPSHOT", "STATE_DELTA", "STATE_DELTA"]
