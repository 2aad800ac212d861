"""The async surface: one pull, one event; three lenses; one task; what was handed out never changes."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    Event,
    RunAgentInput,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    UserMessage,
)

from agui_client import AgentRun, FunctionAgent, HttpAgent, RunFailedError, RunInProgressError, UsageError
from agui_client.testing import (
    Gate,
    Reply,
    ScriptedAgent,
    Step,
    patch,
    reasoning,
    serve_bytes,
    sse,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from support import scenario
from support.verbs import shown
from support.waiting import LIMIT, until

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

COUNTING = turn(state({"n": 0}), text("a b"), patch({"op": "replace", "path": "/n", "value": 1}), text("c"))


# --- lenses


async def test_messages_and_state_include_the_event_that_was_just_given() -> None:
    agent = ScriptedAgent(COUNTING)
    seen: list[tuple[list[Any], Any]] = []
    async with agent.stream("Hi") as run:
        async for _ in run:
            assert run.messages == agent.messages
            assert run.state is agent.state
            seen.append(([message.content for message in run.messages], run.state))
    assert seen == [
        (["Hi"], {}),
        (["Hi"], {"n": 0}),
        (["Hi", ""], {"n": 0}),
        (["Hi", "a "], {"n": 0}),
        (["Hi", "a b"], {"n": 0}),
        (["Hi", "a b"], {"n": 0}),
        (["Hi", "a b"], {"n": 1}),
        (["Hi", "a b", ""], {"n": 1}),
        (["Hi", "a b", "c"], {"n": 1}),
        (["Hi", "a b", "c"], {"n": 1}),
        (["Hi", "a b", "c"], {"n": 1}),
    ]


async def test_the_text_stream_is_the_assistants_own_text() -> None:
    agent = ScriptedAgent(
        turn(
            reasoning("Hm."),
            text("Hello "),
            text("as the user", role="user"),
            TextMessageStartEvent(message_id="s", role="assistant", subagent_run_id="sub-1"),
            TextMessageContentEvent(message_id="s", delta="from a subagent"),
            {"type": "TEXT_MESSAGE_END", "messageId": "s"},
            tool_call("look"),
            text("", message_id="empty"),
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "c", "delta": "there"},
        )
    )
    async with agent.stream("Hi") as run:
        assert [piece async for piece in run.text_stream] == ["Hello ", "\n\nthere"]
        assert (await run.result()).text == "there"


async def test_a_text_that_goes_on_in_a_later_run_is_streamed_too() -> None:
    agent = ScriptedAgent(turn(text("One", message_id="m")), turn(text(" two", message_id="m")))
    await agent.run_agent("Hi")
    async with agent.stream() as run:
        assert [piece async for piece in run.text_stream] == [" two"]
        assert (await run.result()).text == "One two"


async def test_snapshots_give_the_event_with_what_it_made() -> None:
    async with ScriptedAgent(COUNTING).stream("Hi") as run:
        found = [(type(one.event), [m.content for m in one.messages], one.state) async for one in run.snapshots]
    assert found[1] == (StateSnapshotEvent, ["Hi"], {"n": 0})
    assert found[4] == (TextMessageContentEvent, ["Hi", "a b"], {"n": 0})
    assert found[6] == (StateDeltaEvent, ["Hi", "a b"], {"n": 1})
    assert len(found) == 11


async def test_the_lenses_take_turns_on_one_stream() -> None:
    async with ScriptedAgent(COUNTING).stream("Hi") as run:
        assert (await anext(run)).type == "RUN_STARTED"
        assert await anext(run.text_stream) == "a "
        assert (await anext(run.snapshots)).messages[-1].content == "a b"
        assert (await run.result()).text == "c"


async def test_a_result_needs_no_iterating_and_can_be_asked_for_twice() -> None:
    async with ScriptedAgent(COUNTING).stream("Hi") as run:
        result = await run.result()
        assert await run.result() is result
        assert [event async for event in run] == []
        assert [piece async for piece in run.text_stream] == []
    assert await run.result() is result


async def test_partial_is_what_has_arrived() -> None:
    async with ScriptedAgent(turn(text("One two"), result=7)).stream(scenario.PROMPT) as run:
        for _ in range(3):
            await anext(run)
        assert (run.partial.text, run.partial.result, run.partial.outcome) == ("One ", None, None)
        assert shown(run.partial.new_messages) == [{"id": "message-1", "role": "assistant", "content": "One "}]
        result = await run.result()
        assert run.partial is result


async def test_an_error_is_raised_at_the_end_and_again_by_result() -> None:
    agent = ScriptedAgent([turn(text("Hm")), {"type": "RUN_ERROR", "message": "overloaded"}])
    async with agent.stream("Hi") as run:
        with pytest.raises(RunFailedError) as first:
            await run.result()
        with pytest.raises(RunFailedError) as second:
            await run.result()
        assert second.value is first.value
        assert [event async for event in run] == []


async def test_a_run_keeps_its_last_look_when_the_conversation_goes_on() -> None:
    agent = ScriptedAgent(COUNTING)
    async with agent.stream("Hi") as run:
        await run.result()
    agent.add_message(UserMessage(id="later", content="later"))
    agent.set_state(None)
    assert [message.content for message in run.messages] == ["Hi", "a b", "c"]
    assert run.state == {"n": 1}


# --- the block


async def test_a_run_is_used_inside_its_block() -> None:
    run = ScriptedAgent(COUNTING).stream("Hi")
    with pytest.raises(UsageError, match="inside its block"):
        await anext(run)
    for look in (lambda: run.messages, lambda: run.partial, lambda: run.snapshots, lambda: run.run_id, run.cancel):
        with pytest.raises(UsageError, match="inside its block"):
            look()
    async with run:
        await anext(run)
    with pytest.raises(UsageError, match="inside its block"):
        await anext(run)


async def test_a_block_can_be_entered_once() -> None:
    run = ScriptedAgent(COUNTING).stream("Hi")
    async with run:
        with pytest.raises(UsageError, match="entered once"):
            await run.__aenter__()
        await run.result()
    with pytest.raises(UsageError, match="entered once"):
        await run.__aenter__()


async def test_nothing_is_asked_before_the_block_is_entered() -> None:
    agent = ScriptedAgent(COUNTING)
    runs = [agent.stream("one"), agent.stream("two")]
    assert (agent.messages, agent.is_running, agent.inputs) == ([], False, [])
    async with runs[1] as run:
        await run.result()
    assert agent.inputs[0].messages[0].content == "two"


# --- one task, one run


async def test_a_second_task_cannot_iterate_the_same_run() -> None:
    gate = Gate()
    async with ScriptedAgent(turn(text("a"), gate)).stream("Hi") as run:
        for _ in range(4):
            await anext(run)

        async def wait_for_the_end() -> None:
            assert [event.type.value async for event in run] == ["RUN_FINISHED"]

        async def intrude() -> None:
            await anyio.lowlevel.checkpoint()
            with pytest.raises(UsageError, match="two tasks"):
                await anext(run)
            gate.open()

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_for_the_end)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(intrude)
        assert (await run.result()).text == "a"


async def test_a_second_run_is_refused_and_changes_nothing() -> None:
    agent = ScriptedAgent(COUNTING)
    async with agent.stream("Hi") as run:
        await anext(run)
        with pytest.raises(RunInProgressError, match="clone"):
            await agent.run_agent("Me too")
        with pytest.raises(RunInProgressError):
            agent.run_agent_sync("Me too")
        assert [message.content for message in agent.messages] == ["Hi"]
        was_running = agent.is_running
        await run.result()
    assert (was_running, agent.is_running) == (True, False)
    assert (await agent.run_agent("Now")).outcome is not None


async def test_clones_run_side_by_side() -> None:
    texts: dict[str, str] = {}
    with serve_bytes(lambda request: Reply([sse(turn(text(request.json()["messages"][-1]["content"])))])) as server:
        agent = HttpAgent(server.url)

        async def ask(question: str) -> None:
            texts[question] = (await agent.clone().run_agent(question)).text

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, f"question {number}")
    assert texts == {f"question {number}": f"question {number}" for number in range(8)}
    assert agent.messages == []


async def test_the_consumer_sets_the_pace() -> None:
    asked_for: list[int] = []

    async def numbers(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        for number in range(100):
            asked_for.append(number)
            yield CustomEvent(name="number", value=number)

    async with FunctionAgent(numbers).stream() as run:
        for wanted in range(5):
            await anext(run)
            await anyio.wait_all_tasks_blocked()
            assert len(asked_for) == wanted


# --- what was handed out


async def handed_out_during(run: AgentRun) -> list[tuple[Any, Any]]:
    """After every event, everything one can get hold of, beside a copy of how it was."""
    kept: list[tuple[Any, Any]] = []
    async for snapshot in run.snapshots:
        held = [snapshot.event, snapshot.messages, snapshot.state, run.messages, run.state, run.partial.messages]
        kept.append((held, copy.deepcopy(held)))
    return kept


async def test_what_was_handed_out_never_changes() -> None:
    agent = ScriptedAgent(scenario.TURN, turn(text("More.", message_id="answer-2"), state(None)))
    async with agent.stream(scenario.PROMPT) as run:
        kept = await handed_out_during(run)
    async with agent.stream("Go on") as run:
        kept += await handed_out_during(run)
    assert len(kept) > 40
    for held, then in kept:
        assert held == then


async def test_the_messages_of_a_result_can_be_changed_without_harm() -> None:
    agent = ScriptedAgent(COUNTING)
    (await agent.run_agent("Hi")).messages.clear()
    assert [message.content for message in agent.messages] == ["Hi", "a b", "c"]


@pytest.mark.parametrize(
    "step",
    [
        text("xxx", chunk=1),
        tool_call("t", "xxx", chunk=1),
        reasoning("xxx", chunk=1),
    ],
    ids=["text", "arguments", "reasoning"],
)
async def test_each_delta_makes_a_new_message_and_leaves_the_old_one(step: Step) -> None:
    async with ScriptedAgent(turn(step)).stream() as run:
        seen = [one.messages[-1] async for one in run.snapshots if one.messages]
    assert len({message.model_dump_json() for message in seen}) == 4


async def test_a_state_delta_shares_what_it_does_not_touch() -> None:
    agent = ScriptedAgent(
        turn(state({"a": {"deep": [1]}, "b": {"n": 0}}), patch({"op": "replace", "path": "/b/n", "value": 1}))
    )
    async with agent.stream() as run:
        states = [one.state async for one in run.snapshots]
    assert states[1] == {"a": {"deep": [1]}, "b": {"n": 0}}
    assert states[2] == {"a": {"deep": [1]}, "b": {"n": 1}}
    assert states[2]["a"] is states[1]["a"]


async def test_the_state_that_is_sent_is_the_callers_no_more() -> None:
    mine: dict[str, Any] = {"list": []}
    agent = ScriptedAgent(turn(patch({"op": "add", "path": "/list/-", "value": 1})), initial_state=mine)
    await agent.run_agent()
    mine["list"].append("later")
    assert agent.state == {"list": [1]}
    agent.set_state(mine)
    mine["list"].append("even later")
    assert agent.state == {"list": ["later"]}


# --- edits in the middle


async def test_edits_in_the_middle_of_a_run_stay() -> None:
    agent = ScriptedAgent(turn(state({"n": 1}), text("a"), patch({"op": "add", "path": "/m", "value": 2})))
    async with agent.stream("Hi") as run:
        async for event in run:
            if isinstance(event, StateSnapshotEvent):
                agent.set_state({"n": 1, "mine": True})
                agent.add_message(UserMessage(id="mine", content="and"))
        result = await run.result()
    assert result.state == agent.state == {"n": 1, "mine": True, "m": 2}
    assert [message.content for message in result.messages] == ["Hi", "and", "a"]


@pytest.mark.requirement("TOOL-1", "TOOL-2")
async def test_arguments_can_be_watched_while_they_arrive() -> None:
    chunks = [ToolCallChunkEvent(tool_call_id="c", tool_call_name="t", delta='{"a":'), ToolCallChunkEvent(delta="1}")]
    seen: list[tuple[str, str]] = []
    async with ScriptedAgent(turn(*chunks, tool_result("ok", tool_call_id="c"))).stream() as run:
        async for event in run:
            if isinstance(event, ToolCallArgsEvent | ToolCallEndEvent):
                message = run.messages[-1]
                assert isinstance(message, AssistantMessage)
                [call] = message.tool_calls or []
                seen.append((event.type.value, call.function.arguments))
    assert seen == [("TOOL_CALL_ARGS", '{"a":'), ("TOOL_CALL_ARGS", '{"a":1}'), ("TOOL_CALL_END", '{"a":1}')]


async def test_is_running_says_whether_a_run_is_going_on() -> None:
    gate = Gate()
    agent = FunctionAgent(ScriptedAgent(turn(gate)).run)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run_agent)
        await until(lambda: agent.is_running)
        gate.open()
    assert not agent.is_running


async def test_the_iterator_of_a_run_can_be_iterated_itself() -> None:
    async with ScriptedAgent(turn()).stream() as run:
        events = [event async for event in aiter(aiter(run))]
    assert len(events) == 2


def test_a_run_shows_whether_its_block_was_entered() -> None:
    assert repr(ScriptedAgent(turn()).stream()) == "<AgentRun: not entered>"
