"""The representations and small methods of runs, calls, agents and conversations, as users see them."""

from __future__ import annotations

import pytest
from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent

from agui_client import ApprovalRequest, RunObserver, ToolContext, tool
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from agui_client.types import RunScope


def test_the_result_of_a_run_that_was_stopped_says_so() -> None:
    agent = ScriptedAgent(turn(text("One two")))
    with agent.stream_sync("Hi") as run:
        next(run)
        assert "in progress" in repr(run)
        agent.abort_run()
        assert "RunResult(aborted=True, text=" in repr(run.result())
        assert "over" in repr(run)


@pytest.mark.anyio
async def test_a_streamed_call_says_whether_it_is_complete() -> None:
    started = ToolCallStartEvent(tool_call_id="c1", tool_call_name="plan")
    args = ToolCallArgsEvent(tool_call_id="c1", delta='{"a": 1}')
    async with ScriptedAgent(turn(started, args, ToolCallEndEvent(tool_call_id="c1"))).stream("Hi") as run:
        shown = [repr(call) async for call in run.tool_call_stream]
    assert shown == [
        "<StreamedToolCall plan 'c1': arriving, 0 characters>",
        "<StreamedToolCall plan 'c1': arriving, 8 characters>",
        "<StreamedToolCall plan 'c1': complete, 8 characters>",
    ]


def test_a_request_for_approval_does_not_show_the_conversation_and_the_state() -> None:
    requests: list[ApprovalRequest] = []

    @tool(approval="always")
    def pay() -> None:
        """Pay."""

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return False

    agent = ScriptedAgent(
        turn(tool_call("pay", tool_call_id="c1")), turn(), tools=[pay], approve=approve, initial_state={"pin": 4711}
    )
    agent.run_agent_sync("My secret")
    [request] = requests
    assert request.state == {"pin": 4711}
    assert "secret" in str(request.messages)
    assert "pay" in repr(request)
    assert not any(each in repr(request) for each in ("4711", "secret", "state", "messages"))


def test_the_scope_of_a_later_run_does_not_show_the_first_one() -> None:
    scopes: list[RunScope] = []

    class Watching(RunObserver):
        def on_start(self, run: RunScope) -> None:
            scopes.append(run)

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = ScriptedAgent(turn(tool_call("look")), turn(text("Done.")), tools=[look])
    agent.add_observer(Watching())
    agent.run_agent_sync("Hi")
    first, second = scopes
    assert (first.first, second.first) == (None, first)
    assert repr(second).count("Run(") == 1


def test_the_context_of_a_tool_shows_the_call_and_not_the_machinery() -> None:
    context = ToolContext(
        tool_call_id="c1", name="look", thread_id="t", run_id="r", state={"pin": 4711}, on_report=print, on_leave=print
    )
    shown = "ToolContext(tool_call_id='c1', name='look', arguments={}, thread_id='t', run_id='r')"
    assert repr(context) == shown
