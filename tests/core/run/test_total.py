"""`Timeouts(total=)` is the whole call: its runs, its tools, and people who are asked."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Self

import anyio
import pytest
from ag_ui.core import RunAgentInput, Tool

from agui_client import FunctionToolset, HttpAgent, RunTimeoutError, Timeouts, tool
from agui_client.testing import ScriptedAgent, Server, Step, pause, serve, text, tool_call, turn
from support.verbs import KINDS, Verb, by_verb, every_kind_of_verb

TOTALS = (0.2, 2.0, 60.0)
"""Seconds for a call; a slow machine needs more of them to come as far as a test wants to see."""
AFTER = 3.0
"""Seconds after which a call would end that waits for its tool, which takes much longer."""


class Slow:
    """Tools that take a while, or for ever."""

    def __init__(self) -> None:
        self.began = self.cancelled = 0
        self.over = threading.Event()

    async def work(self, seconds: float) -> str:
        """Work for some seconds."""
        self.began += 1
        try:
            await anyio.sleep(seconds)
        except BaseException:
            self.cancelled += 1
            raise
        return "done"

    def block(self, seconds: float) -> str:
        """Block a thread for some seconds, or until the test is over."""
        self.began += 1
        self.over.wait(seconds)
        return "done"


async def _rounds(input: RunAgentInput) -> AsyncIterator[Step]:
    """Calls the tool named in the prompt, twice quickly and then for long; or talks for ever."""
    prompt = next(str(message.content) for message in input.messages if message.role == "user")
    done = sum(message.role == "tool" for message in input.messages)
    if prompt == "talk":
        # The second run has less than half of the time left.
        props: Any = input.forwarded_props
        seconds = 0.7 * props["total"]
        yield turn(text("Well"), pause(math.inf)) if done else turn(tool_call("work", {"seconds": seconds}))
    else:
        yield turn(tool_call(prompt, {"seconds": 0.01 if done < 2 else 70}, tool_call_id=f"call-{done}"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(ScriptedAgent(_rounds)) as running:
        yield running


@by_verb("prompt", {name: name for name in ("work", "block", "talk")}, {"work"}, KINDS, thorough=["run_agent-asyncio"])
def test_a_call_of_several_rounds_ends_in_time(prompt: str, verb: Verb, server: Server) -> None:
    seen, took = (0, 0), 0.0
    for total in TOTALS:
        slow = Slow()
        agent = HttpAgent(server.url, tools=[tool(slow.work), tool(slow.block)], timeout=Timeouts(total=total))
        began = time.monotonic()
        error = verb(agent, prompt, forwarded_props={"total": total}).error
        took = time.monotonic() - began
        assert type(error) is RunTimeoutError
        assert total - 0.1 < took < total + AFTER
        assert "raise Timeouts.total" in str(error)
        assert not agent.is_running
        slow.over.set()
        seen = slow.began, slow.cancelled
        if seen == {"work": (3, 1), "block": (3, 0), "talk": (1, 0)}[prompt] and took < 1.5 * total:
            return
    pytest.fail(f"the tools that began, those that were cancelled, and the seconds: {seen}, {took}")


@every_kind_of_verb
def test_a_person_who_thinks_for_long_is_not_waited_for(verb: Verb, server: Server) -> None:
    async def approve(_: object) -> bool:
        await anyio.sleep_forever()
        return True

    for total in TOTALS:
        agent = HttpAgent(server.url, tools=[tool(Slow().work, approval="always")], approve=approve)
        error = verb(agent, "work", timeout=Timeouts(total=total)).error
        assert type(error) is RunTimeoutError
        if [call.function.name for call in agent.pending_tool_calls] == ["work"]:
            return
    pytest.fail("the time was over before the call")


class SlowToolset(FunctionToolset):
    """A toolset that holds a task group while it is open, and takes for ever in one place."""

    def __init__(self, slow: str) -> None:
        super().__init__([tool(Slow().work)])
        self.slow, self.listings, self.is_open = slow, 0, False

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            if self.slow == "opening":
                await anyio.sleep_forever()
        except BaseException:
            await self._tasks.__aexit__(*sys.exc_info())
            raise
        self.is_open = True
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.is_open = False
        await self._tasks.__aexit__(*exc_info)

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        self.listings += 1
        if self.slow == f"listing {self.listings}":
            await anyio.sleep_forever()
        return await super().tools(ctx)


@by_verb(
    "slow", {name: name for name in ("opening", "listing 1", "listing 2")}, {"opening"}, KINDS, thorough=["stream-trio"]
)
def test_a_toolset_that_takes_for_ever_is_given_up_in_time(slow: str, verb: Verb) -> None:
    turns = (turn(tool_call("work", {"seconds": 0})), turn(text("Done")))
    for total in TOTALS:
        toolset = SlowToolset(slow)
        with serve(ScriptedAgent(*turns * 2)) as server:
            caller = HttpAgent(server.url, tools=toolset)
            began = time.monotonic()
            error = verb(caller, "Hi", timeout=Timeouts(total=total)).error
            assert type(error) is RunTimeoutError
            assert total - 0.1 < time.monotonic() - began < total + AFTER
            assert "raise Timeouts.total" in str(error)
            assert not toolset.is_open
            assert not caller.is_running
            if "toolset" in str(error):
                assert (len(caller.messages) > 1) == (slow == "listing 2")
                toolset.slow = ""
                assert verb(caller.clone(), "Hi", timeout=Timeouts(total=30)).error is None
                return
    pytest.fail(f"the time was over before {slow}")


def test_a_caller_that_takes_all_the_time_of_a_call_has_no_tool_called_after_it() -> None:
    called: list[int] = []

    @tool
    def pay(n: int) -> str:
        """Pay."""
        called.append(n)
        return "paid"

    with serve(ScriptedAgent(turn(text("a b"), tool_call("pay", {"n": 1})), turn())) as server:
        agent = HttpAgent(server.url, tools=[pay], timeout=Timeouts(total=0.1))
        with pytest.raises(RunTimeoutError):
            _read_slowly(agent)
    assert called == []


def _read_slowly(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for _ in run:
            time.sleep(0.04)
