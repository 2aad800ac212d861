"""What ends programs, raised by a tool, an approver or an answerer: it comes out of the verb, and nothing hangs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import pytest

from agui_client import IncompleteRunError, tool
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.waiting import LIMIT, in_thread

pytestmark = pytest.mark.both_loops

DONE = turn(text("Done."))
CALL = turn(tool_call("work", tool_call_id="c1"), tool_call("wait", tool_call_id="c2"))
ENDS = pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])


@tool
async def wait() -> None:
    """Waits for ever."""
    await anyio.sleep_forever()


def with_tool(leave: Callable[..., Any]) -> ScriptedAgent:
    @tool
    def work() -> None:
        leave()

    return ScriptedAgent(CALL, DONE, tools=[work, wait])


def with_async_tool(leave: Callable[..., Any]) -> ScriptedAgent:
    @tool
    async def work() -> None:
        leave()

    return ScriptedAgent(CALL, DONE, tools=[work, wait])


def with_approver(leave: Callable[..., Any]) -> ScriptedAgent:
    @tool(approval="always")
    def work() -> None: ...

    return ScriptedAgent(CALL, DONE, tools=[work, wait], approve=leave)


def with_rule(leave: Callable[..., Any]) -> ScriptedAgent:
    @tool(approval=leave)
    def work() -> None: ...

    return ScriptedAgent(CALL, DONE, tools=[work, wait])


def with_answerer(leave: Callable[..., Any]) -> ScriptedAgent:
    return ScriptedAgent(turn(outcome=interrupt("Go?")), DONE, answer=leave)


every_place = pytest.mark.parametrize(
    "place",
    [with_tool, with_async_tool, with_approver, with_rule, with_answerer],
    ids=lambda place: place.__name__.removeprefix("with_"),
)


def caught(call: Callable[[], Any], end: type[BaseException]) -> BaseException:
    with pytest.raises(end) as raised:
        call()
    return raised.value


@every_place
@ENDS
def test_it_comes_out_of_a_sync_verb(place: Callable[..., ScriptedAgent], end: type[BaseException]) -> None:
    def leave(*args: object) -> NoReturn:
        raise end

    agent = place(leave)
    in_thread(lambda: caught(lambda: agent.run_agent_sync("Hi"), end))
    assert not agent.is_running


@every_place
@ENDS
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_comes_out_of_an_async_verb(
    place: Callable[..., ScriptedAgent], end: type[BaseException], backend: str
) -> None:
    def leave(*args: object) -> NoReturn:
        raise end

    agent = place(leave)

    async def main() -> None:
        with anyio.fail_after(LIMIT):
            await agent.run_agent("Hi")

    caught(lambda: anyio.run(main, backend=backend), end)
    assert not agent.is_running


@every_place
def test_an_observer_is_told(place: Callable[..., ScriptedAgent]) -> None:
    def leave(*args: object) -> NoReturn:
        sys.exit("enough")

    agent = place(leave)
    error = in_thread(lambda: caught(lambda: agent.observe("Hi").run(), IncompleteRunError))
    assert isinstance(error.__cause__, SystemExit)
    assert not agent.is_running
