"""A tool or a person that takes for ever, in a task or in a thread, and what saw it begin and end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import pytest

from agui_client import Approve, FunctionTool, RunObserver, ToolExecution, tool
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from agui_client.types import RunOptions, RunScope
from support.tool_rounds import results_in
from support.waiting import LIMIT

if TYPE_CHECKING:
    from ag_ui.core import Interrupt

    from agui_client import ApprovalRequest, RunResult
    from agui_client._core.tools.context import ToolStatus

CALLS = turn(tool_call("look", tool_call_id="c1"), tool_call("hold", tool_call_id="c2"))
DONE = turn(text("Done.", message_id="done"))


@dataclass
class Holding:
    """Holds on until it is cancelled, or until it is let go."""

    calls: int = 0
    """How often it was called."""
    begun: threading.Event = field(default_factory=threading.Event)
    """Set when it holds, and the other call of the run has its result."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when it holds no more."""
    may_end: threading.Event = field(default_factory=threading.Event)
    """Lets what holds in a thread go."""
    options: RunOptions = field(default_factory=RunOptions)
    """What to run the agent with."""
    status: ToolStatus = "running"
    """How far the execution that holds comes."""
    has_sibling: bool = True
    """Whether another call of the run has a result."""
    in_thread: bool = False
    """Whether it holds in a thread, where nothing can stop it."""

    async def hold(self, *asked: object) -> Any:
        """Hold in a task."""
        self._begin()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.set()

    def hold_in_thread(self, *asked: object) -> Any:
        """Hold in a thread."""
        self._begin()
        self.may_end.wait(LIMIT)
        self.ended.set()

    def _begin(self) -> None:
        self.calls += 1
        if not self.has_sibling:
            self.begun.set()

    def watch(self, agent: ScriptedAgent) -> ScriptedAgent:
        """Take note of when everything is as far as it comes."""
        return agent.add_observer(_Watch(self))


class _Watch(RunObserver):
    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._statuses: dict[str, str] = {}

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        self._statuses[execution.tool_call_id] = execution.status
        if self._statuses == {"c1": "succeeded", "c2": self._holding.status}:
            self._holding.begun.set()


@tool
def look() -> str:
    """Looks."""
    return "seen"


def async_tool(holding: Holding) -> ScriptedAgent:
    @tool
    async def hold() -> Any:
        await holding.hold()

    return holding.watch(ScriptedAgent(CALLS, DONE, tools=[look, hold]))


def sync_tool(holding: Holding) -> ScriptedAgent:
    holding.in_thread = True

    @tool
    def hold() -> None:
        holding.hold_in_thread()

    return holding.watch(ScriptedAgent(CALLS, DONE, tools=[look, hold]))


def _approved() -> FunctionTool[..., Any]:
    @tool(approval="always")
    def hold() -> str:
        raise AssertionError("nobody approved it")

    return hold


def async_approver(holding: Holding) -> ScriptedAgent:
    holding.status = "waiting"

    async def approve(request: ApprovalRequest) -> bool:
        await holding.hold()
        return True

    return holding.watch(ScriptedAgent(CALLS, DONE, tools=[look, _approved()], approve=approve))


def sync_approver(holding: Holding) -> ScriptedAgent:
    holding.in_thread = True
    holding.status = "waiting"

    def approve(request: ApprovalRequest) -> bool:
        holding.hold_in_thread()
        return True

    return holding.watch(ScriptedAgent(CALLS, DONE, tools=[look, _approved()], approve=approve))


def async_answerer(holding: Holding) -> ScriptedAgent:
    holding.has_sibling = False

    async def answer(asked: Interrupt) -> Approve:
        await holding.hold()
        return Approve()

    return ScriptedAgent(turn(outcome=interrupt("Sure?")), DONE, answer=answer)


def sync_answerer(holding: Holding) -> ScriptedAgent:
    holding.has_sibling, holding.in_thread = False, True

    def answer(asked: Interrupt) -> Approve:
        holding.hold_in_thread()
        return Approve()

    return ScriptedAgent(turn(outcome=interrupt("Sure?")), DONE, answer=answer)


def approved_before(holding: Holding) -> ScriptedAgent:
    @tool(approval="always")
    async def hold() -> None:
        await holding.hold()

    approved_look = tool(look.function, approval="always")
    agent = ScriptedAgent(CALLS, DONE, tools=[approved_look, hold])
    agent.run_agent_sync("Before")
    holding.options["tool_results"] = {"c1": Approve(), "c2": Approve()}
    return holding.watch(agent)


Holder: TypeAlias = Callable[[Holding], ScriptedAgent]
"""Makes an agent that holds."""

HOLDERS: dict[str, Holder] = {
    "async tool": async_tool,
    "sync tool": sync_tool,
    "async approver": async_approver,
    "sync approver": sync_approver,
    "async answerer": async_answerer,
    "sync answerer": sync_answerer,
    "approved before": approved_before,
}
"""By where they hold."""

every_holder = pytest.mark.parametrize("holder", HOLDERS.values(), ids=list(HOLDERS))
"""Run a test once with each."""


def assert_aborted(result: RunResult) -> None:
    """The call was stopped from here."""
    assert (result.aborted, result.outcome) == (True, None)


def assert_only_what_was_done_is_kept(agent: ScriptedAgent, holding: Holding) -> None:
    """Nothing ran twice, nothing was sent, and the result that was there is in the conversation."""
    assert (holding.calls, agent.is_running) == (1, False)
    assert results_in(agent.messages) == ([("c1", "seen", None)] if holding.has_sibling else [])
    assert len(agent.inputs) == 1
