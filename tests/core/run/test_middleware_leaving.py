"""Middleware when a run is left early: every generator is closed, in the consumer's task, before the block is left."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    Event,
    RunAgentInput,
)

from agui_client import AbstractAgent, HttpAgent
from agui_client.testing import Reply, ScriptedAgent, pause, serve_bytes, sse, text, turn
from agui_client.types import Middleware, Next
from support.leaks import nothing_left_behind
from support.waiting import SOON, until

pytestmark = pytest.mark.both_loops


@pytest.mark.anyio
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_generators_are_closed_innermost_last_in_the_consumers_task(count: int) -> None:
    closed: list[tuple[int, int]] = []

    def noting(number: int) -> Middleware:
        async def middleware(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            try:
                async for event in following(input):
                    yield event
            finally:
                closed.append((number, anyio.get_current_task().id))

        return middleware

    agent = ScriptedAgent(turn(text("a b"), pause(math.inf)), middleware=[noting(each) for each in range(count)])
    async with nothing_left_behind(), agent.stream("Hi") as run:
        await anext(run)
        await anext(run)
    here = anyio.get_current_task().id
    assert sorted(closed) == [(number, here) for number in range(count)]


@pytest.mark.anyio
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["left", "cancelled"])
async def test_what_middleware_holds_is_released_before_the_block_is_left(is_cancelled: bool) -> None:
    held: list[str] = []

    async def holding(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        held.append("taken")
        try:
            async for event in following(input):
                yield event
        finally:
            await anyio.lowlevel.checkpoint()
            held.append("released")

    with serve_bytes(Reply([sse(turn(text("a b")))], end="stall")) as server:
        async with nothing_left_behind():
            with anyio.CancelScope() as scope:
                async with HttpAgent(server.url, middleware=[holding]).stream("Hi") as run:
                    await anext(run)
                    assert held == ["taken"]
                    if is_cancelled:
                        scope.cancel()
            assert held == ["taken", "released"]
            await until(server.disconnected.is_set, SOON)


@pytest.mark.anyio
async def test_middleware_that_stops_asking_ends_the_stream_and_closes_the_connection() -> None:
    async def first_three(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        number = 0
        async for event in following(input):
            yield event
            number += 1
            if number == 3:
                return

    with serve_bytes(Reply([sse(turn(text("a b")))], end="stall")) as server:
        async with nothing_left_behind():
            async with HttpAgent(server.url, middleware=[first_three]).stream("Hi") as run:
                with pytest.raises(Exception, match="RUN_FINISHED") as caught:
                    await run.result()
                assert getattr(caught.value, "rule", None) == "TRUNC-1"
            await until(server.disconnected.is_set, SOON)


@pytest.mark.anyio
@pytest.mark.parametrize(("last", "aborted"), [("TEXT_MESSAGE_END", True), ("RUN_FINISHED", False)])
async def test_middleware_cannot_keep_a_run_from_being_ended(last: str, aborted: bool) -> None:
    """A run that has its terminal event stays what that event said (LIFE-7)."""

    async def stubborn(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async for event in following(input):
            yield event
            if event.type.value == last:
                await anyio.sleep_forever()

    agent = ScriptedAgent(turn(text("a")), middleware=[stubborn])
    async with nothing_left_behind(), agent.stream("Hi") as run:

        async def abort() -> None:
            await anyio.wait_all_tasks_blocked()
            agent.abort_run()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort)
            result = await run.result()
            assert (result.aborted, result.outcome is None) == (aborted, aborted)


def test_each_run_has_its_own_chain() -> None:
    opened: list[int] = []

    def counting(agent: Callable[[], AbstractAgent]) -> Middleware:
        async def middleware(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            opened.append(len(agent().messages))
            async for event in following(input):
                yield event

        return middleware

    agent = ScriptedAgent(turn(text("a")))
    agent.use(counting(lambda: agent))
    agent.run_agent_sync("one")
    agent.run_agent_sync("two")
    assert opened == [1, 3]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_fails_in_a_task_group_of_middleware_that_is_left_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def failing(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
        async with anyio.create_task_group():
            try:
                async for event in following(input):
                    yield event
            finally:
                raise LookupError("while it was left")

    async with ScriptedAgent(turn(text("a b")), middleware=[failing]).stream("Hi", run_id="run-1") as run:
        await anext(run)
    (logged,) = [each for each in caplog.records if each.getMessage().startswith("while run run-1 was left")]
    assert "LookupError: while it was left" in str(logged.exc_text)
