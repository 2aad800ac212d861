"""Tools that were stopped in the middle, by a time-out or with their program: unknown, until a late result comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    ToolCall,
    ToolCallResultEvent,
    ToolMessage,
)
from anyio import to_thread

from agui_client import Approve, ConversationSnapshot, HttpAgent, UsageError, tool
from agui_client._core.conversation.answer_checks import check_results
from agui_client._core.conversation.changes import ResultsAdded
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.conversation.pending import pending_tool_calls, unknown_tool_calls, waiting_calls
from agui_client._core.run.next_step import Able, Role, role_of
from agui_client._core.tools.questions import ToolQuestion
from agui_client.testing import ScriptedAgent, Step, Turn, serve_bytes, sse, text, tool_call, turn
from support.teller import Teller, ended, snapshot
from support.thread import started

_ASKS = turn(tool_call("pay", {"amount": 900}, tool_call_id="c1"))
_DONE = turn(text("Done."))
_KILLED = "unknown: the tool was called, and stopped before it answered; it may have had its effect or not"
_TIMED_OUT = "The tool took longer than 0.01 seconds and was given up; its effect is unknown."
_MARK = {"agui-client": {"placeholder": True}}

Stopped: TypeAlias = Callable[..., ScriptedAgent]


def restates(metadata: dict[str, Any] | None) -> Turn:
    """A run of a server that states the thread again, with other metadata of the results."""

    async def steps(input: RunAgentInput) -> AsyncIterator[Step]:
        changed = {"metadata": metadata}
        yield turn(
            MessagesSnapshotEvent(
                messages=[each.model_copy(update=changed) if each.role == "tool" else each for each in input.messages]
            )
        )

    return steps


def timed_out(paid: list[int], then: Turn = _DONE) -> ScriptedAgent:
    """An agent whose tool took too long, and that was told so."""

    @tool(timeout=0.01)
    async def pay(amount: int) -> None:
        paid.append(amount)
        await anyio.sleep_forever()

    agent = ScriptedAgent(_ASKS, _DONE, then, _DONE, tools=[pay])
    agent.run_agent_sync("Pay")
    return agent


def killed(paid: list[int], then: Turn = _DONE) -> ScriptedAgent:
    """An agent whose program ended in the middle of the tool, and that was told so."""
    documents: list[ConversationSnapshot] = []

    @tool
    def pay(amount: int) -> None:
        paid.append(amount)
        documents.append(first.snapshot())

    first = ScriptedAgent(_ASKS, _DONE, tools=[pay])
    first.run_agent_sync("Pay")
    agent = ScriptedAgent(_DONE, then, _DONE, tools=[pay])
    agent.restore(documents[0])
    assert [each.id for each in agent.unknown_tool_calls] == ["c1"]
    agent.run_agent_sync("Go on")
    return agent


every_stop = pytest.mark.parametrize("stopped", [timed_out, killed], ids=lambda each: each.__name__)


def results(messages: list[Message]) -> list[tuple[object, object, object]]:
    """The content, error and metadata of each result."""
    return [(each.content, each.error, each.metadata) for each in messages if isinstance(each, ToolMessage)]


@every_stop
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_a_late_result_of_a_tool_that_was_stopped_is_taken_once(stopped: Stopped) -> None:
    paid: list[int] = []
    agent = stopped(paid)
    told = _TIMED_OUT if stopped is timed_out else _KILLED
    assert results(agent.messages) == [(told, told, _MARK)]
    assert ([each.id for each in agent.unknown_tool_calls], agent.pending_tool_calls) == (["c1"], [])
    with pytest.raises(UsageError, match="whose function was called before; give its result instead"):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    agent.run_agent_sync(tool_results={"c1": "paid, receipt 7"})
    assert results(agent.inputs[-1].messages) == [("paid, receipt 7", None, None)]
    assert (agent.unknown_tool_calls, paid) == ([], [900])
    with pytest.raises(UsageError, match="has a result already"):
        agent.run_agent_sync(tool_results={"c1": "paid, receipt 8"})


@every_stop
@pytest.mark.requirement("TOOL-10")
def test_what_is_unknown_is_so_after_the_conversation_was_saved_and_restored(stopped: Stopped) -> None:
    paid: list[int] = []
    before = stopped(paid)
    agent = ScriptedAgent(_DONE, _DONE, tools=before.tools)
    document = ConversationSnapshot.model_validate_json(before.snapshot().model_dump_json())
    assert document.pending_tool_call_ids == []
    agent.restore(document)
    agent.run_agent_sync("And then?")
    assert [each.id for each in agent.unknown_tool_calls] == ["c1"]
    agent.run_agent_sync("It was paid.", tool_results={"c1": "paid"})
    assert (results(agent.messages), agent.unknown_tool_calls, paid) == ([("paid", None, None)], [], [900])


@every_stop
@pytest.mark.requirement("STATE-5", "TOOL-10")
def test_a_server_that_restates_the_thread_without_metadata_leaves_a_late_result_possible(stopped: Stopped) -> None:
    agent = stopped([], restates(None))
    agent.run_agent_sync()
    assert [each.id for each in agent.unknown_tool_calls] == ["c1"]
    agent.run_agent_sync(tool_results={"c1": "paid"})
    assert results(agent.messages) == [("paid", None, None)]


@pytest.mark.requirement("SEC-3")
def test_a_server_that_marks_a_result_of_ours_as_a_placeholder_makes_it_none() -> None:
    @tool
    def pay(amount: int) -> str:
        return f"paid {amount}"

    agent = ScriptedAgent(_ASKS, _DONE, restates(_MARK), _DONE, tools=[pay])
    agent.run_agent_sync("Pay")
    agent.run_agent_sync("Go on")
    assert agent.unknown_tool_calls == []
    for answer in ("another", Approve()):
        with pytest.raises(UsageError, match="has a result already"):
            agent.run_agent_sync(tool_results={"c1": answer})


_SERVERS_RESULT = ToolMessage(id="r1", tool_call_id="s1", content="found", metadata=_MARK)
_SERVERS_CALL = AssistantMessage(
    id="a1", tool_calls=[ToolCall(id="s1", function=FunctionCall(name="look", arguments="{}"))]
)
_MARKING: dict[str, list[Step]] = {
    "an event": [
        turn(
            tool_call("look", {}, tool_call_id="s1"),
            ToolCallResultEvent(message_id="r1", tool_call_id="s1", content="found", metadata=_MARK),
        )
    ],
    "a snapshot": [turn(snapshot(_SERVERS_CALL, _SERVERS_RESULT))],
    "an echo": [started("run-1", _SERVERS_CALL, _SERVERS_RESULT), text("Hi."), ended("run-1")],
}


@pytest.mark.parametrize("way", _MARKING)
@pytest.mark.requirement("SEC-3", "TOOL-5")
def test_the_mark_of_a_server_is_in_its_events_and_not_stored(way: str) -> None:
    with serve_bytes(sse(*_MARKING[way])) as server:
        agent = HttpAgent(server.url, thread_id="thread-1")
        with agent.stream_sync("Look", run_id="run-1") as run:
            events = [event for event in run if isinstance(event, ToolCallResultEvent)]
        assert [each.metadata for each in events] == [_MARK] * (way == "an event")
        assert results(agent.messages) == [("found", None, None)]
        with pytest.raises(UsageError, match="has a result already"):
            agent.run_agent_sync(tool_results={"s1": "another"})


def test_a_mark_in_messages_of_the_application_is_no_proof_either() -> None:
    agent = ScriptedAgent(_DONE, initial_messages=[_SERVERS_CALL, _SERVERS_RESULT])
    with pytest.raises(UsageError, match="has a result already"):
        agent.run_agent_sync(tool_results={"s1": "another"})


@every_stop
@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.parametrize("known", [{}, {"content": "ok", "error": None}], ids=["as it was", "with the result"])
@pytest.mark.requirement("LIFE-13", "TOOL-10")
async def test_a_replay_without_the_mark_leaves_a_late_result_possible_unless_it_has_that(
    stopped: Stopped, known: dict[str, Any]
) -> None:
    document = (await to_thread.run_sync(stopped, list[int]())).snapshot()
    changed = {"metadata": None, **known}
    told = [each.model_copy(update=changed) if each.role == "tool" else each for each in document.messages]
    agent = Teller()
    agent.restore(document.model_copy(update={"thread_id": "thread-1"}))
    await agent.take_up(started("run-1"), snapshot(*told), ended("run-1"))
    (before, *_), (after, *_) = results(document.messages)[0], results(agent.messages)[0]
    assert ([each.id for each in agent.unknown_tool_calls], after) == (([], "ok") if known else (["c1"], before))


# --- the statuses that may follow each other

_QUESTION = ToolQuestion(interrupt=Interrupt(id="i", reason="input", tool_call_id="c"), arguments={})
_MOVES: dict[str, tuple[CallStatus, Callable[[Ledger], None]]] = {
    "execute": (CallStatus.EXECUTING, lambda ledger: ledger.execute("c")),
    "ask": (CallStatus.ASKED, lambda ledger: ledger.ask("c", _QUESTION)),
    "answer": (CallStatus.ANSWERED, lambda ledger: ledger.answer("c")),
    "placeholder": (CallStatus.PLACEHOLDER, lambda ledger: ledger.note_placeholder("c")),
    "wait": (CallStatus.WAITING, lambda ledger: ledger.record(record(CallStatus.WAITING))),
    "cut": (CallStatus.CUT, lambda ledger: ledger.record(record(CallStatus.CUT))),
}
_ALLOWED = {
    CallStatus.WAITING: "execute answer placeholder wait cut",
    CallStatus.CUT: "execute answer placeholder wait cut",
    CallStatus.PLACEHOLDER: "execute answer placeholder cut",
    # A run that leaves the call once more changes nothing about what its tool does.
    CallStatus.ASKED: "execute ask answer placeholder wait cut",
    CallStatus.EXECUTING: "execute ask answer wait cut",
    CallStatus.ANSWERED: "execute answer",
}


def record(status: CallStatus) -> ToolCallRecord:
    """The record of a call with a status."""
    return ToolCallRecord(tool_call_id="c", message_id="m", status=status, answered_by=AnsweredBy.APPLICATION)


def test_there_is_a_way_to_each_status() -> None:
    assert {to for to, _ in _MOVES.values()} == set(CallStatus)


@pytest.mark.parametrize("status", CallStatus)
@pytest.mark.parametrize("name", _MOVES)
@pytest.mark.requirement("SEC-3")
def test_a_call_goes_from_status_to_status_as_the_table_says_or_not_at_all(status: CallStatus, name: str) -> None:
    to, move = _MOVES[name]
    ledger = Ledger([record(status)])
    if name not in _ALLOWED[status].split():
        with pytest.raises(RuntimeError, match=f"tool call 'c' cannot be {to} now: it is {status}; please report this"):
            move(ledger)
        to = status
    else:
        move(ledger)
        is_kept = name in ("wait", "cut") and status in (CallStatus.ASKED, CallStatus.EXECUTING)
        to = status if is_kept else to
    assert ledger.has("c", to)


# --- what each status means

_MEANS = {
    CallStatus.PLACEHOLDER: (True, True, False, True, "the run that made it did not finish"),
    CallStatus.CUT: (True, False, False, True, "the run that made it did not finish"),
    CallStatus.WAITING: (True, True, False, False, ""),
    CallStatus.ASKED: (True, True, False, False, ""),
    CallStatus.EXECUTING: (True, True, True, True, "its function was called before"),
    # No run has received its result, so another one may take its place.
    CallStatus.ANSWERED: (True, True, False, True, "its function was called before"),
}
"""Whether a call is pending, waits, and is unknown; whether it takes a late result; why its function is not called."""


@pytest.mark.parametrize("status", CallStatus)
@pytest.mark.requirement("TOOL-10")
def test_a_status_says_what_may_become_of_a_call_without_a_result(status: CallStatus) -> None:
    call = ToolCall(id="c", function=FunctionCall(name="pay", arguments="{}"))
    conversation = Conversation("t", [AssistantMessage(id="m", tool_calls=[call])])
    conversation.ledger = Ledger([record(status).become(shown=call)])
    is_pending = pending_tool_calls(conversation) == [call]
    is_waiting = waiting_calls(conversation) == {"c": call}
    is_unknown = unknown_tool_calls(conversation) == [call]
    part, why = role_of(record(status).become(shown=call), Able({}), is_offered=True)
    conversation.apply(ResultsAdded([ToolMessage(id="r", tool_call_id="c", content="unknown", metadata=_MARK)], False))
    try:
        takes_late = check_results(conversation, {"c": "late"}) == []
    except UsageError:
        takes_late = False
    assert (is_pending, is_waiting, is_unknown, takes_late, why) == _MEANS[status]
    assert (part is Role.OURS) is (status is CallStatus.WAITING)
