"""Between the events of one read the event loop has its turn: other tasks go on, time-outs and aborts are seen."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)

from agui_client import AbstractAgent, FunctionAgent, Timeouts
from agui_client.errors import RunTimeoutError
from agui_client.testing import events_of, sse, text, turn
from agui_client.types import Middleware, Next
from support.bodies import memory_agent

DELTAS = 6_000
"""More than are processed in the time after which other tasks have their turn, which is a tenth of what it is."""
PIECES = events_of(sse(turn(text("a", message_id="message-1"))))
BURST = b"".join([*PIECES[:2], PIECES[2] * DELTAS, *PIECES[3:]])
"""A long text that arrives in one read."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agui_client._core.run.engine._TURN_SECONDS", 0.003)


async def passing_on(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
    async for event in following(input):
        yield event


async def telling(input: RunAgentInput) -> AsyncIterator[Event]:
    """A long text from this process, without a wait in between."""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield TextMessageStartEvent(message_id="message-1")
    for _ in range(DELTAS):
        yield TextMessageContentEvent(message_id="message-1", delta="a")
    yield TextMessageEndEvent(message_id="message-1")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


AGENTS: dict[str, Callable[[], AbstractAgent]] = {
    "over HTTP": lambda: memory_agent(BURST),
    "over HTTP with middleware": lambda: memory_agent(BURST).use(passing_on),
    "in this process": lambda: FunctionAgent(telling),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", AGENTS)
async def test_other_tasks_go_on_while_the_events_of_one_read_are_processed(name: str) -> None:
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    seen: list[int] = []
    async with anyio.create_task_group() as others:
        others.start_soon(go_on)
        async with AGENTS[name]().stream("Hi") as run:
            seen += [turns async for event in run if isinstance(event, TextMessageContentEvent)]
        others.cancel_scope.cancel()
    assert len(seen) == DELTAS
    assert len(set(seen)) > 2


@pytest.mark.anyio
@pytest.mark.parametrize("name", AGENTS)
async def test_another_task_aborts_a_run_in_the_middle_of_a_read(name: str) -> None:
    agent = AGENTS[name]()
    begun = anyio.Event()

    async def abort() -> None:
        await begun.wait()
        agent.abort_run()

    async with anyio.create_task_group() as others:
        others.start_soon(abort)
        async with agent.stream("Hi") as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    begun.set()
            result = await run.result()
            assert result.aborted
            assert 0 < len(result.text) < DELTAS


@pytest.mark.anyio
@pytest.mark.parametrize("middleware", [[], [passing_on]], ids=["none", "middleware"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_run_takes_too_long_in_the_middle_of_a_read(
    middleware: list[Middleware], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = memory_agent(BURST, timeout=Timeouts(total=60.0)).use(*middleware)
    count, loop = 0, asyncio.get_running_loop()
    now = loop.time

    async def iterate() -> None:
        nonlocal count
        async with agent.stream("Hi") as run:
            async for event in run:
                count += isinstance(event, TextMessageContentEvent)

    with monkeypatch.context() as clock:
        clock.setattr(loop, "time", lambda: now() + (61.0 if count else 0.0))  # the first event takes a minute
        with pytest.raises(RunTimeoutError):
            await iterate()
    assert 0 < count < DELTAS


class CountingSelector(selectors.DefaultSelector):
    """Counts the turns of an event loop."""

    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        return super().select(timeout)


def turns_with(silence: float) -> int:
    """The turns that the event loop makes in a run whose server is silent before each of three events."""

    async def be_silent() -> None:
        await asyncio.sleep(silence)

    async def iterate() -> None:
        pieces = [*PIECES[:2], *(piece for each in PIECES[2:5] for piece in (be_silent, each)), *PIECES[5:]]
        async with memory_agent(*pieces).stream("Hi") as run:
            async for _ in run:
                pass

    selector = CountingSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(iterate())
    return selector.turns


def test_an_event_that_was_waited_for_costs_no_turn_of_its_own() -> None:
    # A timer takes one turn more than giving way once.
    assert turns_with(0.04) <= turns_with(0) + 3


@pytest.mark.anyio
@pytest.mark.parametrize("is_deep", [False, True], ids=["many messages", "a state that nests deeply"])
async def test_other_tasks_go_on_while_a_large_input_is_prepared_for_an_agent_that_gets_a_copy(is_deep: bool) -> None:
    turns, seen = [0], list[tuple[RunAgentInput, int]]()
    state: list[Any] = []
    for _ in range(180):
        state = [state]
    given = [UserMessage(id=str(number), content="Hi") for number in range(2500)]

    async def noting(input: RunAgentInput) -> AsyncIterator[Event]:
        seen.append((input, turns[0]))
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    async def count() -> None:
        while True:
            turns[0] += 1
            await anyio.lowlevel.checkpoint()

    agent = FunctionAgent(noting, initial_messages=given, initial_state=[state] * 10 if is_deep else {})
    await agent.run_agent(run_id="1")
    async with anyio.create_task_group() as tasks, agent.stream(run_id="2") as run:
        tasks.start_soon(count)
        async for _ in run:
            pass
        tasks.cancel_scope.cancel()
    (_, first_turns), (input, turns_before_the_run) = seen
    assert (input.messages, input.state) == (given, agent.state)
    assert all(one is not other for one, other in zip(input.messages, agent.messages, strict=True))
    # The thread that prepares the input is all that is waited for.
    assert first_turns == 0 < turns_before_the_run
