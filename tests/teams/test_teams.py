"""Teams: agents that run inside the run of another, told upward as subagents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import FunctionAgent
from agui_client.teams import (
    HandoffAgent,
    Member,
    ParallelAgent,
    RouterAgent,
    SequentialAgent,
    SubagentRun,
    Team,
    TeamAgent,
)
from agui_client.testing import Gate, Step, interrupt, patch, reasoning, state, text, tool_call, tool_result, turn
from support.team_members import FIVE, agent, events_of, says, shown, told

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("SUB-6", "SUB-7", "LIFE-5", "USAGE-3")
async def test_members_of_a_sequence_follow_each_other_and_the_last_one_speaks_for_the_team() -> None:
    writer = says("writer", "The story.")
    team = SequentialAgent(says("researcher", "Facts."), writer, strict=True)
    events = await events_of(team, "Write")
    names = [event.name for event in events if isinstance(event, SubagentStartedEvent)]
    spoken = [event.subagent_run_id is None for event in events if isinstance(event, TextMessageStartEvent)]
    assert (names, spoken) == (["researcher", "writer"], [False, True])
    assert shown(writer) == [("user", "Write"), ("user", "[researcher]: Facts.")]
    result = await team.run_agent("Again")
    assert (result.text, result.usage) == (
        "The story.",
        [TokenUsage(model="m", input_tokens=4, output_tokens=6, total_tokens=10)],
    )
    assert told(team.messages)[:3] == [("user", "Write"), ("assistant", "Facts."), ("assistant", "The story.")]


async def test_a_member_goes_on_with_its_own_words_under_the_ids_that_it_gave_them() -> None:
    writer = agent("writer", turn(text("One.", message_id="mine"), tool_call("look"), tool_result("sun")), turn())
    team = SequentialAgent(says("researcher", "Facts."), writer, strict=True)
    await team.run_agent("Write")
    await team.run_agent("Again")
    assert {each.thread_id for each in writer.inputs} == {f"{team.thread_id}/writer"}
    assert [message.id for message in writer.inputs[-1].messages if message.role in ("assistant", "tool")] == [
        "mine",
        "call-1",
        "result-1",
    ]
    assert shown(writer)[1] == ("user", "[researcher]: Facts.")


async def test_a_message_of_the_caller_that_has_the_id_of_one_that_the_member_made_is_shown_under_another() -> None:
    writer = agent("writer", turn(text("One.", message_id="m"), text("Two.", message_id="m~")), turn())
    team = SequentialAgent(writer, strict=True)
    await team.run_agent(UserMessage(id="m", content="Write", name="ann"))
    await team.run_agent(UserMessage(id="x", content="Again"))
    assert writer.inputs[-1].messages == [
        UserMessage(id="m~~", content="Write", name="ann"),
        AssistantMessage(id="m", content="One."),
        AssistantMessage(id="m~", content="Two."),
        UserMessage(id="x", content="Again"),
    ]


async def test_a_member_without_memory_begins_each_call_in_a_thread_of_its_own() -> None:
    writer = says("writer", "The story.")
    team = SequentialAgent(Member(writer, memory="call"))
    await team.run_agent("Write")
    await team.run_agent("Again")
    assert len({each.thread_id for each in writer.inputs}) == 2
    assert shown(writer) == [("user", "Write"), ("user", "[writer]: The story."), ("user", "Again")]


async def test_a_member_sees_what_it_is_to_see() -> None:
    note = UserMessage(id="note", content="A note.")
    last, chosen = says("last", "L"), says("chosen", "C")
    team = SequentialAgent(
        says("first", "F"), Member(last, sees="last"), Member(chosen, sees=lambda messages: [note, messages[0]])
    )
    await team.run_agent("Hi")
    assert (shown(last), shown(chosen)) == ([("user", "[first]: F")], [("user", "Hi"), ("user", "A note.")])


async def test_members_side_by_side_are_interleaved_as_it_happens_and_another_sees_what_they_said() -> None:
    gate, judge = Gate(), says("judge", "Both.")
    slow = agent("slow", turn(text("S1"), gate, text("S2")))
    quick = agent("quick", turn(text("Q")))
    team = ParallelAgent(slow, quick, then=judge, strict=True)
    heard: list[str] = []
    async with team.stream("Hi") as run:
        async for event in run:
            if isinstance(event, TextMessageContentEvent):
                heard.append(event.delta)
            if isinstance(event, SubagentFinishedEvent) and event.subagent_run_id.startswith("quick"):
                gate.open()
    assert sorted(heard[:2]) == ["Q", "S1"]
    assert heard[2:] == ["S2", "Both."]
    assert sorted(shown(judge)[1:]) == [("user", "[quick]: Q"), ("user", "[slow]: S1"), ("user", "[slow]: S2")]


async def test_a_router_asks_the_member_that_a_function_chooses() -> None:
    async def choose(input: RunAgentInput) -> str:
        return "coder" if "code" in str(input.messages[-1].content) else "generalist"

    team = RouterAgent(choose, coder=says("a", "def f()"), generalist=says("b", "Hello."))
    assert (await team.run_agent("Some code")).text == "def f()"
    assert (await team.run_agent("Hi")).text == "Hello."


async def test_a_member_hands_over_and_the_next_run_goes_on_with_the_member_that_spoke_last() -> None:
    more = (turn(text("More.")), turn(tool_call("transfer_to_generalist")))
    coder = agent("coder", turn(text("Code.")), *more, description="Writes code.")
    first = agent("generalist", turn(text("Wait."), tool_call("transfer_to_coder")), turn(text("Me again.")))
    first.description = ""
    team = HandoffAgent(first, coder, strict=True)
    assert (await team.run_agent("Hi")).text == "Code."
    purposes = {"coder": "Writes code.", "generalist": "Talks about what generalist knows."}
    assert [each.inputs[0].tools for each in (first, coder)] == [
        [
            Tool(
                name=f"transfer_to_{other}",
                description=f"Hands the conversation over to {other}. {purpose}",
                parameters={"type": "object", "properties": {}},
            )
        ]
        for other, purpose in purposes.items()
    ]
    assert (await team.run_agent("More")).text == "More."
    result = await team.run_agent("Back")
    assert (result.text, result.pending_tool_calls) == ("Me again.", [])
    assert [message.content for message in team.messages if isinstance(message, ToolMessage)] == [
        "Handed over to coder.",
        "Handed over to generalist.",
    ]
    assert shown(first)[1:3] == [("assistant", "Wait."), ("assistant", None)]


async def test_a_function_leads_members_with_prompts_of_its_own() -> None:
    airline, booking = says("a", "SK 1", "SK 2"), says("b", "Grand Hotel")

    async def plan_trip(team: Team) -> dict[str, int]:
        flights, hotels = await team.gather((airline, "flights to Oslo"), (booking, "a hotel in Oslo"))
        await team.say(f"{flights.text}, {hotels.text}")
        return {"found": 2}

    team = TeamAgent(plan_trip, airline=airline, booking=booking)
    result = await team.run_agent("Oslo")
    assert (result.text, result.result) == ("SK 1, Grand Hotel", {"found": 2})
    assert (shown(airline), shown(booking)) == ([("user", "flights to Oslo")], [("user", "a hotel in Oslo")])
    await team.run_agent("Again")
    assert shown(airline) == [("user", "flights to Oslo"), ("assistant", "SK 1"), ("user", "flights to Oslo")]


async def test_the_state_of_a_member_stays_under_its_name() -> None:
    one = agent(
        "one",
        turn(patch({"op": "add", "path": "/n", "value": 1})),
        turn(patch({"op": "test", "path": "/n", "value": 1}, {"op": "replace", "path": "/n", "value": 2})),
    )
    shared = agent("two", turn(patch({"op": "add", "path": "/seen", "value": True})))
    gone = agent("three", turn(state({"x": 1})))
    team = SequentialAgent(one, Member(shared, state="shared"), Member(gone, state="dropped"), strict=True)
    await team.run_agent("Hi")
    result = await team.run_agent("Again")
    assert (result.state, result.warnings) == ({"one": {"n": 2}, "seen": True}, [])
    assert [each.state for each in one.inputs] == [{}, {"n": 1}]


async def test_a_snapshot_of_a_member_becomes_the_events_that_lead_to_it_or_one_of_the_whole_team() -> None:
    async def restates(input: RunAgentInput) -> AsyncIterator[Step]:
        longer = AssistantMessage(id="m1", content="One. Two.")
        yield turn(
            text("One.", message_id="m1"),
            MessagesSnapshotEvent(messages=[*input.messages, longer]),
            MessagesSnapshotEvent(messages=[*input.messages, AssistantMessage(id="m2", content="Rewritten.")]),
        )

    member = agent("one", restates, turn())
    team = SequentialAgent(says("first", "F"), Member(member), says("last", "L"), strict=True)
    events = await events_of(team)
    assert sum(isinstance(event, MessagesSnapshotEvent) for event in events) == 1
    assert told(team.messages) == [("user", "Hi"), ("assistant", "F"), ("assistant", "Rewritten."), ("assistant", "L")]
    await team.run_agent("Again")
    assert ("assistant", "Rewritten.") in shown(member)


async def test_calls_and_encrypted_values_in_the_snapshot_of_a_member_are_events_of_the_member() -> None:
    call = ToolCall(id="c1", function=FunctionCall(name="look", arguments="{}"), encrypted_value="of the call")
    looked = AssistantMessage(id="m1", tool_calls=[call], encrypted_value="of the message")

    async def restates(input: RunAgentInput) -> AsyncIterator[Step]:
        result = ToolMessage(id="m2", tool_call_id="c1", content="sun")
        yield turn(MessagesSnapshotEvent(messages=[*input.messages, looked, result]))

    team = SequentialAgent(agent("one", restates), says("last", "L"), strict=True)
    _, _journal, started, *events = await events_of(team)
    assert isinstance(started, SubagentStartedEvent)
    owner: dict[str, Any] = {"subagent_run_id": started.subagent_run_id}
    assert [each for each in events if not isinstance(each, StateDeltaEvent)][:7] == [
        ToolCallStartEvent(tool_call_id="one/c1", tool_call_name="look", parent_message_id="one/m1", **owner),
        ToolCallArgsEvent(tool_call_id="one/c1", delta="{}", **owner),
        ToolCallEndEvent(tool_call_id="one/c1", **owner),
        ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="one/c1", encrypted_value="of the call", **owner),
        ReasoningEncryptedValueEvent(subtype="message", entity_id="one/m1", encrypted_value="of the message", **owner),
        ToolCallResultEvent(message_id="one/m2", tool_call_id="one/c1", content="sun", **owner),
        SubagentFinishedEvent(**owner),
    ]
    call = call.model_copy(update={"id": "one/c1"})
    assert team.messages[1] == looked.model_copy(update={"id": "one/m1", "tool_calls": [call], **owner})


async def test_an_agent_of_ones_own_tells_its_subagents_upward() -> None:
    helper = agent("helper", turn(reasoning("Hm"), text("Yes."), usage=FIVE))

    async def own(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        asked = SubagentRun(helper, input, prompt="Is it?")
        async for event in asked:
            yield event
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, result=asked.result.text)

    outer = FunctionAgent(own, strict=True)
    assert (await outer.run_agent("Hi")).result == "Yes."
    assert [(each.role, each.content) for each in outer.messages] == [
        ("user", "Hi"),
        ("user", "Is it?"),
        ("reasoning", "Hm"),
        ("assistant", "Yes."),
    ]
    assert {each.subagent_run_id for each in outer.messages[1:]} == {outer.messages[1].subagent_run_id}


async def test_the_result_says_what_came_of_each_member() -> None:
    inner = SequentialAgent(says("first", "F"), says("second", "S"), agent_id="inner")
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")))
    failing = agent("failing", turn(RunErrorEvent(message="broken")))
    team = ParallelAgent(inner, asker, failing, on_error="continue", strict=True)
    result = await team.run_agent("Hi")
    by_name = {each.name: each for each in result.subagents}
    assert {name: (each.status, each.text, each.error) for name, each in by_name.items()} == {
        "inner": ("success", "S", None),
        "first": ("success", "F", None),
        "second": ("success", "S", None),
        "asker": ("suspended", "Sure?", None),
        "failing": ("error", "", "broken"),
    }
    assert by_name["first"].usage == FIVE
    assert by_name["first"].parent_subagent_run_id == by_name["inner"].subagent_run_id
    assert all(each.seconds is not None for each in result.subagents)


async def test_the_text_of_members_has_a_stream_of_its_own() -> None:
    team = SequentialAgent(says("first", "F"), says("second", "S"))
    async with team.stream("Hi") as run:
        assert [piece async for piece in run.subagent_streams] == [("first", "F")]
    async with team.stream("Hi") as run:
        assert [piece async for piece in run.text_stream] == ["S"]


def test_a_team_runs_without_await_too() -> None:
    team = SequentialAgent(says("first", "F"), says("second", "S"))
    with team.stream_sync("Hi") as run:
        assert list(run.subagent_streams) == [("first", "F")]
    assert team.run_agent_sync("Again").text == "S"
