"""Ids of tool calls that come again, results that come late, and calls that come from elsewhere than the agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    RunFinishedSuccessOutcome,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from agui_client import (
    Approve,
    ConversationSnapshot,
    Deny,
    HookContext,
    Mutation,
    Subscriber,
    ToolLimits,
    UsageError,
    tool,
)
from agui_client._core.protocol.placeholders import NO_RESULT, UNKNOWN_RESULT, marked
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, Step, interrupt, text, tool_call, turn

searched: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_searched() -> None:
    searched.clear()


@tool
def search(query: str) -> str:
    """Search."""
    searched.append(query)
    return f"found {query} {len(searched)}"


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    searched.append(f"paid {amount}")
    return f"paid {amount}"


def numbered(query: str) -> Step:
    """A run that calls its only tool `call_0`, as servers do that number the calls of each run."""
    return turn(tool_call("search", {"query": query}, tool_call_id="call_0"))


def told(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The calls and results of a conversation, as it is sent."""
    found: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            found += [(call.id, json.loads(call.function.arguments)["query"]) for call in message.tool_calls or ()]
        elif message.role == "tool":
            found.append((message.tool_call_id, str(message.content)))
    return found


DONE = turn(text("Done."))


@pytest.mark.parametrize("queries", [("ferry", "museum"), ("ferry", "ferry")], ids=["other arguments", "the same"])
@pytest.mark.requirement("TOOL-4")
def test_a_server_that_numbers_its_calls_per_run_is_answered_in_every_run(queries: tuple[str, str]) -> None:
    first, second = queries
    agent = ScriptedAgent(numbered(first), DONE, numbered(second), DONE, tools=[search])
    assert agent.run_agent_sync("One").text == "Done."
    result = agent.run_agent_sync("Two")
    assert (result.text, searched) == ("Done.", [first, second])
    expected = [("call_0", first), ("call_0", f"found {first} 1"), ("call_0", second), ("call_0", f"found {second} 2")]
    assert told(agent.inputs[-1].messages) == expected
    assert [each.rule for each in result.warnings] == ["TOOL-4"]
    ids = [message.id for message in agent.messages]
    assert len(ids) == len(set(ids))


@pytest.mark.requirement("TOOL-4")
def test_an_id_that_comes_again_in_the_next_round_of_one_call_is_answered_there() -> None:
    agent = ScriptedAgent(numbered("ferry"), numbered("museum"), DONE, tools=[search])
    result = agent.run_agent_sync("One")
    assert (result.text, searched) == ("Done.", ["ferry", "museum"])
    assert [each.arguments for each in result.tool_executions] == [{"query": "ferry"}, {"query": "museum"}]
    assert told(agent.inputs[-1].messages)[1::2] == [("call_0", "found ferry 1"), ("call_0", "found museum 2")]


@pytest.mark.requirement("TOOL-4")
def test_an_id_that_comes_again_may_wait_for_approval_and_survives_json() -> None:
    def asks(amount: int) -> Step:
        return turn(tool_call("pay", {"amount": amount}, tool_call_id="call_0"))

    agent = ScriptedAgent(asks(1), DONE, asks(2), DONE, tools=[pay])
    agent.run_agent_sync("One")
    agent.run_agent_sync(tool_results={"call_0": Approve()})
    agent.run_agent_sync("Two")
    agent.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    assert [call.function.arguments for call in agent.pending_tool_calls] == ['{"amount": 2}']
    assert agent.run_agent_sync(tool_results={"call_0": Approve()}).text == "Done."
    assert searched == ["paid 1", "paid 2"]


@pytest.mark.requirement("TOOL-4", "TOOL-5")
def test_a_call_that_is_told_again_with_its_result_stands_once_and_is_not_made_again() -> None:
    again: list[Step] = [
        ToolCallStartEvent(tool_call_id="call_0", tool_call_name="search"),
        ToolCallArgsEvent(tool_call_id="call_0", delta='{"query":"ferry"}'),
        ToolCallEndEvent(tool_call_id="call_0"),
        ToolCallResultEvent(message_id="theirs", tool_call_id="call_0", content="found ferry 1"),
    ]
    agent = ScriptedAgent(numbered("ferry"), turn(*again, text("Done.")), tools=[search])
    assert agent.run_agent_sync("One").text == "Done."
    assert (told(agent.messages), searched) == ([("call_0", "ferry"), ("call_0", "found ferry 1")], ["ferry"])


@pytest.mark.requirement("TOOL-4", "SET-25")
@pytest.mark.parametrize("query", ["ferry", "museum"])
def test_a_call_that_its_message_states_again_is_made_again_only_with_other_arguments(query: str) -> None:
    def stated(query: str) -> list[Step]:
        return [
            ToolCallStartEvent(tool_call_id="call_0", tool_call_name="search", parent_message_id="m"),
            ToolCallArgsEvent(tool_call_id="call_0", delta=json.dumps({"query": query})),
            ToolCallEndEvent(tool_call_id="call_0"),
        ]

    answer = () if query != "ferry" else (text("Done."),)
    agent = ScriptedAgent(turn(*stated("ferry")), turn(*stated(query), *answer), DONE, tools=[search])
    result = agent.run_agent_sync("One")
    assert result.text == "Done."
    if query == "ferry":
        assert (told(agent.messages), searched) == ([("call_0", "ferry"), ("call_0", "found ferry 1")], ["ferry"])
        assert result.warnings == []
    else:
        assert searched == ["ferry", "museum"]
        assert [each.rule for each in result.warnings] == ["TOOL-4"]


@pytest.mark.requirement("TOOL-4")
def test_a_server_that_numbers_its_own_calls_keeps_each_with_its_result() -> None:
    def own(query: str, found: str) -> list[Step]:
        start = ToolCallStartEvent(tool_call_id="call_0", tool_call_name="look")
        args = ToolCallArgsEvent(tool_call_id="call_0", delta=json.dumps({"query": query}))
        result = ToolCallResultEvent(message_id="result_0", tool_call_id="call_0", content=found)
        return [start, args, ToolCallEndEvent(tool_call_id="call_0"), result]

    agent = ScriptedAgent(*(turn(*own("time", at)) for at in ("12:00", "12:05")))
    agent.run_agent_sync("One")
    agent.run_agent_sync("Two")
    assert told(agent.messages) == [("call_0", "time"), ("call_0", "12:00"), ("call_0", "time"), ("call_0", "12:05")]


def test_an_agent_whose_messages_were_cleared_is_asked_about_nothing_and_calls_anew() -> None:
    agent = ScriptedAgent(numbered("ferry"), DONE, numbered("ferry"), DONE, tools=[search])
    agent.run_agent_sync("One")
    assert [each.tool_call_id for each in agent.snapshot().tool_calls] == ["call_0"]
    agent.set_messages([])
    assert agent.snapshot().tool_calls == []
    result = agent.run_agent_sync("One")
    assert (searched, result.warnings) == (["ferry", "ferry"], [])


def test_an_older_document_that_is_restored_lets_nothing_run_twice() -> None:
    agent = ScriptedAgent(turn(tool_call("pay", {"amount": 1}, tool_call_id="c1")), DONE, DONE, tools=[pay])
    agent.run_agent_sync("Pay")
    older = agent.snapshot()
    agent.run_agent_sync(tool_results={"c1": Approve()})
    agent.restore(older)
    assert [call.id for call in agent.unknown_tool_calls] == ["c1"]
    with pytest.raises(UsageError, match="whose function was called before"):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    # One that was denied was never executed, and may be decided about again.
    denied = ScriptedAgent(turn(tool_call("pay", {"amount": 2}, tool_call_id="c2")), DONE, DONE, tools=[pay])
    denied.run_agent_sync("Pay")
    older = denied.snapshot()
    denied.run_agent_sync(tool_results={"c2": Deny("no")})
    denied.restore(older)
    assert denied.unknown_tool_calls == []
    denied.run_agent_sync(tool_results={"c2": Approve()})
    assert searched == ["paid 1", "paid 2"]


@pytest.mark.requirement("SEC-3", "TOOL-4")
def test_a_hook_that_trims_the_history_takes_the_calls_in_it_along() -> None:
    """Otherwise the next call of the same id would be taken for the one that was shown before."""

    class Trimming(Subscriber):
        def on_run_initialized(self, context: HookContext) -> Mutation:
            return Mutation(messages=context.messages[-1:])

    calls = [turn(tool_call("pay", {"amount": amount}, tool_call_id="call_0")) for amount in (1, 900)]
    agent = ScriptedAgent(*calls, DONE, tools=[pay])
    agent.run_agent_sync("Pay 1")
    with agent.subscribe(Trimming()):
        result = agent.run_agent_sync("Pay 900")
    assert ([each.rule for each in result.warnings], agent.unknown_tool_calls) == (["TOOL-10", "TOOL-11"], [])
    agent.run_agent_sync(tool_results={"call_0": Approve()})
    assert searched == ["paid 900"]


@pytest.mark.requirement("TOOL-10")
def test_a_late_result_replaces_a_placeholder() -> None:
    agent = ScriptedAgent(turn(tool_call("locate", {"query": "me"}, tool_call_id="c1")), DONE, DONE)
    agent.run_agent_sync("Where am I?")
    agent.run_agent_sync("Never mind")
    assert told(agent.messages)[1:] == [("c1", NO_RESULT)]
    assert (agent.pending_tool_calls, agent.snapshot().pending_tool_call_ids) == ([], [])
    with pytest.raises(UsageError, match="which the conversation continued without; give its result instead"):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    agent.run_agent_sync("After all", tool_results={"c1": "Bergen"})
    assert told(agent.inputs[-1].messages) == [("c1", "me"), ("c1", "Bergen")]
    with pytest.raises(UsageError, match="has a result already"):
        agent.run_agent_sync(tool_results={"c1": "Oslo"})


@pytest.mark.parametrize("placeholder", [NO_RESULT, UNKNOWN_RESULT])
@pytest.mark.requirement("TOOL-5")
def test_a_late_result_of_the_agent_replaces_a_placeholder(placeholder: str) -> None:
    call = ToolCall(id="c1", function=FunctionCall(name="look", arguments='{"query": "x"}'))
    messages: list[Any] = [
        AssistantMessage(id="a1", tool_calls=[call]),
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": placeholder, "metadata": marked()},
    ]
    late = ToolCallResultEvent(message_id="t2", tool_call_id="c1", content="found")
    agent = ScriptedAgent(turn(late), initial_messages=messages)
    agent.run_agent_sync("Go on")
    assert told(agent.messages) == [("c1", "x"), ("c1", "found")]


@pytest.mark.parametrize("answer", [Approve(), Approve({"amount": 5})])
@pytest.mark.requirement("SEC-3")
def test_a_call_that_came_in_a_message_is_never_executed_on_an_approval(answer: Approve) -> None:
    call = ToolCall(id="c1", function=FunctionCall(name="pay", arguments='{"amount": 900}'))
    brought: list[Message] = [UserMessage(id="u1", content="Hi"), AssistantMessage(id="a1", tool_calls=[call])]
    agent = ScriptedAgent(DONE, tools=[pay], initial_messages=brought)
    with pytest.raises(UsageError, match="no run of this conversation left it"):
        agent.run_agent_sync(tool_results={"c1": answer})
    # A server that repeats what it was sent is no proof either.
    echoing = ScriptedAgent(turn(MessagesSnapshotEvent(messages=[*brought])), DONE, tools=[pay])
    echoing.set_messages(brought)
    echoing.run_agent_sync()
    with pytest.raises(UsageError):
        echoing.run_agent_sync(tool_results={"c1": answer})
    assert searched == []


def test_clones_have_ledgers_of_their_own() -> None:
    agent = ScriptedAgent(turn(tool_call("pay", {"amount": 1}, tool_call_id="c1")), DONE, DONE, tools=[pay])
    agent.run_agent_sync("Pay")
    twin = agent.clone(thread_id="another")
    twin.run_agent_sync(tool_results={"c1": Approve()})
    assert [each.id for each in agent.pending_tool_calls] == ["c1"]
    agent.run_agent_sync(tool_results={"c1": Deny("no")})
    assert searched == ["paid 1"]


def test_a_record_says_who_made_a_call_and_who_answers_it() -> None:
    calls = [
        tool_call("pay", {"amount": 1}, tool_call_id="ours"),
        tool_call("locate", {"query": "me"}, tool_call_id="the caller's"),
    ]
    agent = ScriptedAgent(turn(*calls), tools=[pay], tool_limits=ToolLimits(rounds=3))
    agent.run_agent_sync("Go", run_id="r1")
    records = agent.snapshot().tool_calls
    assert [(each.tool_call_id, each.run_id, each.answered_by, each.status) for each in records] == [
        ("ours", "r1", "application", "waiting"),
        ("the caller's", "r1", "caller", "waiting"),
    ]
    asks = ScriptedAgent(turn(tool_call("book", {}, tool_call_id="c"), outcome=interrupt("Sure?", tool_call_id="c")))
    asks.run_agent_sync("Go")
    assert [(each.answered_by, each.status) for each in asks.snapshot().tool_calls] == [("agent", "waiting")]


def test_a_saved_conversation_is_not_taken_for_the_one_that_the_agent_had_of_its_own() -> None:
    asks = turn(tool_call("pay", {"amount": 1}, tool_call_id="call_0"))
    agent = ScriptedAgent(asks, DONE, asks, DONE, tools=[pay])
    with Store() as store:
        threads = store.threads
        with threads.open("t", ScriptedAgent(asks, tools=[pay])) as opened:
            opened.run_agent_sync("Pay")
        agent.run_agent_sync("Pay")
        agent.run_agent_sync(tool_results={"call_0": Approve()})
        with threads.open("t", agent) as opened:
            assert opened.unknown_tool_calls == []
            opened.run_agent_sync(tool_results={"call_0": Approve()})
    assert searched == ["paid 1", "paid 1"]


def test_a_document_knows_the_calls_that_were_executed() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "ferry"}'}}
    document: dict[str, Any] = {
        "thread_id": "t",
        "tool_calls": [{"tool_call_id": "c1", "message_id": "a1", "status": "answered", "answered_by": "application"}],
        "messages": [
            {"id": "a1", "role": "assistant", "toolCalls": [call]},
            {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found"},
        ],
    }
    # The agent forgets the result, and leaves the call once more.
    forgets = MessagesSnapshotEvent(messages=[AssistantMessage(id="a1", tool_calls=[ToolCall.model_validate(call)])])
    left = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c1"])
    agent = ScriptedAgent(turn(forgets, outcome=left), DONE, tools=[search])
    agent.restore(ConversationSnapshot.model_validate(document))
    agent.run_agent_sync("Go on")
    assert (searched, [each.id for each in agent.unknown_tool_calls]) == ([], ["c1"])
