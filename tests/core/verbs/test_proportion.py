"""What a response costs is in proportion to what came: for each kind of event, also at its end, and for who looks."""

from __future__ import annotations

import asyncio
import copy
import pickle
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from agui_client import AGUIError, RunResult
from agui_client._core.protocol.schema import EVENT_MODELS
from support.bodies import memory_agent
from support.proportion import GROWING, Growing, Ids, body, equal, lines_of, other, stream

WAYS = {"whole": (False, False), "cut": (True, False), "looked at": (False, True)}
"""Whether the stream is cut, and whether messages and state are looked at after each event."""
COMBINATIONS = pytest.mark.parametrize("way", WAYS)
IDS = pytest.mark.parametrize("ids", [other, equal])
STREAMS = pytest.mark.parametrize("growing", GROWING.values(), ids=GROWING)


def ask(growing: Growing, n: int, ids: Ids, way: str) -> Callable[[], None]:
    """Return a function that receives a stream of some size, and looks at the result."""
    is_cut, is_looked_at = WAYS[way]
    received = body(stream(growing, n, ids, is_cut=is_cut))

    async def run() -> None:
        agent = memory_agent(received)
        with suppress(AGUIError):
            if not is_looked_at:
                repr(await agent.run_agent("Hi"))
                return
            async with agent.stream("Hi") as stream:
                async for _ in stream:
                    assert agent.messages
                    assert agent.state is not None

    return lambda: asyncio.run(run())


def test_each_type_of_event_is_in_a_stream_that_grows() -> None:
    types = {each["type"] for growing in GROWING.values() for each in stream(growing, 2, other)}
    assert types >= EVENT_MODELS.keys()


@COMBINATIONS
@IDS
@STREAMS
@pytest.mark.requirement("SET-15")
def test_four_times_as_much_takes_four_times_the_work(growing: Growing, ids: Ids, way: str) -> None:
    ask(growing, 3, ids, way)()
    none, little, much = (lines_of(ask(growing, n, ids, way)) for n in (1, 25, 97))
    assert much - little <= 1.15 * 3 * (little - none) + 500


@pytest.mark.requirement("SET-15")
@pytest.mark.parametrize("name", GROWING)
def test_four_times_as_many_looks_at_what_a_run_has_brought_take_four_times_the_work(name: str) -> None:
    def look(n: int) -> Callable[[], None]:
        received = body(stream(GROWING[name], n, other))

        async def run() -> None:
            async with memory_agent(received).stream("Hi") as stream:
                with suppress(AGUIError):
                    async for _ in stream:
                        assert stream.partial.messages
                        assert not stream.surfaces

        return lambda: asyncio.run(run())

    look(3)()
    none, little, much = (lines_of(look(n)) for n in (1, 25, 97))
    assert much - little <= 1.15 * 3 * (little - none) + 500


@pytest.mark.parametrize("name", GROWING)
def test_what_a_run_has_brought_at_one_look_is_the_same_whenever_it_is_read(name: str) -> None:
    def summed_up(partial: RunResult[Any]) -> Any:
        return copy.deepcopy((partial.usage, partial.subagents, partial.pending_tool_calls, partial.messages))

    async def run() -> None:
        at_once, kept = list[Any](), list[RunResult[Any]]()
        async with memory_agent(body(stream(GROWING[name], 4, other))).stream("Hi") as stream_:
            with suppress(AGUIError):
                async for _ in stream_:
                    at_once.append(summed_up(stream_.partial))
                    kept.append(stream_.partial)
        assert [summed_up(each) for each in kept] == at_once
        # Neither does it matter by what: a field, a copy, or the representation of a record.
        assert [pickle.loads(pickle.dumps(each)) for each in kept] == kept

    asyncio.run(run())


@COMBINATIONS
@IDS
@STREAMS
@pytest.mark.soak
@pytest.mark.requirement("SET-15")
def test_four_times_as_much_takes_four_times_as_long(growing: Growing, ids: Ids, way: str) -> None:
    def seconds(n: int) -> float:
        work = ask(growing, n, ids, way)
        started = time.thread_time()
        work()
        return time.thread_time() - started

    little = seconds(1_500)
    # Caches of the processor and copies of lists of references, which are shorter by far than their messages.
    assert seconds(6_000) <= 8 * little + 0.1


@pytest.mark.requirement("SET-15")
@pytest.mark.parametrize("name", GROWING)
def test_the_memory_that_a_response_takes_is_in_proportion(name: str) -> None:
    def peak(n: int) -> int:
        work = ask(GROWING[name], n, equal, "whole")
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    ask(GROWING[name], 3, equal, "whole")()
    little, much = peak(30), peak(120)
    assert much <= 4.5 * little
