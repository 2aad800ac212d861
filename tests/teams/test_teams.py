"""Teams: agents that run inside the run of another, told upward as subagents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    FunctionCall,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
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
from pydantic import BaseModel

from agui_client import FunctionAgent, HttpAgent, ParseError, Resolve, UsageError, attach, tool
from agui_client.teams import (
    HandoffAgent,
    Member,
    ParallelAgent,
    RouterAgent,
    SequentialAgent,
    SubagentRun,
    Team,
    TeamAgent,
    TeamLimits,
)
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Step,
    interrupt,
    patch,
    reasoning,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from support.team_members import FIVE, agent, events_of, nested, placed, says, shown, told

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


async def test_the_ids_of_members_are_made_as_stored_threads_have_them() -> None:
    steps = (text("A", message_id="m"), tool_call("look", tool_call_id="c"), tool_result("sun", message_id="r~1"))
    guide = agent("Reise-Führer 2", turn(*steps), turn(tool_call("look", tool_call_id="c~2")))
    verbose = says("x" * 41, "L", "L")
    team = SequentialAgent(guide, verbose, thread_id="t", strict=True)
    async with team.stream("Hi", run_id="r") as run:
        begun = [event.subagent_run_id async for event in run if isinstance(event, SubagentStartedEvent)]
    key, long_key = "Reise-F_hrer_2-567a41", f"{'x' * 40}-316459"
    assert begun == [f"{key}-454349e4.0", f"{long_key}-454349e4.0"]
    assert [each.id for each in team.messages[1:]] == [f"{key}/m", f"{key}/c", f"{key}/r~1~0", f"{long_key}/message-1"]
    await team.run_agent("Again", tools=[Tool(name="look", description="Looks.", parameters={})])
    assert [each.thread_id for each in (*guide.inputs, *verbose.inputs)] == [f"t/{key}", f"t/{key}", f"t/{long_key}"]
    down = [each for each in guide.inputs[-1].messages if each.role in ("assistant", "tool")]
    assert [each.id for each in down] == ["m", "c", "r~1"]
    assert [getattr(each, "tool_call_id", None) for each in down] == [None, None, "c"]
    assert [each.id for each in team.pending_tool_calls] == [f"{key}/c~2~0"]


def test_members_without_names_are_named_by_their_classes_and_places() -> None:
    one = says("one", "A")
    team = SequentialAgent(SequentialAgent(one), one, HttpAgent("http://127.0.0.1:9/"), Member(one, "two"))
    assert [each.name for each in team.members] == ["SequentialAgent-1", "one", "HttpAgent-3", "two"]
    assert [each.name for each in TeamAgent(_lead, x=one, y=Member(one, "z")).members] == ["x", "y"]


async def _lead(team: Team) -> None:
    """Call nobody."""


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


async def test_members_with_much_to_say_take_turns_and_none_waits_for_one_whose_server_is_slow() -> None:
    is_over = anyio.Event()

    async def much(input: RunAgentInput) -> AsyncIterator[str]:
        for _ in range(300):
            yield "."
        is_over.set()

    async def slow(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id="m")
        await is_over.wait()
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    # Many enough that those wait for their turn who have nothing to add when they get it.
    members = [*(Member(FunctionAgent(slow), f"slow-{at}") for at in range(140)), Member(FunctionAgent(much), "much")]
    with anyio.fail_after(60):
        result = await ParallelAgent(*members, limits=TeamLimits(calls=141)).run_agent("Hi")
    assert [len(each.text) for each in result.subagents] == [0] * 140 + [300]


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

    seen: list[Any] = []

    async def plan_trip(team: Team) -> dict[str, int]:
        flights, hotels = await team.gather((airline, "flights to Oslo"), (booking, "a hotel in Oslo"))
        await team.say("")
        await team.say(f"{flights.text}, {hotels.text}")
        seen.append((team.state, told(team.messages), team.usage))
        return {"found": 2}

    team = TeamAgent(plan_trip, airline=airline, booking=booking, options={"strict": True})
    team.set_state({"city": "Oslo"})
    result = await team.run_agent("Oslo")
    assert (result.text, result.result) == ("SK 1, Grand Hotel", {"found": 2})
    state, messages, usage = seen[0]
    assert (state, sorted(messages[1:5])[2:], messages[5:], usage) == (
        {"city": "Oslo"},
        [("user", "a hotel in Oslo"), ("user", "flights to Oslo")],
        [("assistant", ""), ("assistant", "SK 1, Grand Hotel")],
        FIVE * 2,
    )
    assert (shown(airline), shown(booking)) == ([("user", "flights to Oslo")], [("user", "a hotel in Oslo")])
    await team.run_agent("Again")
    assert shown(airline) == [("user", "flights to Oslo"), ("assistant", "SK 1"), ("user", "flights to Oslo")]


async def test_the_state_of_a_member_stays_under_its_name() -> None:
    one = agent(
        "one",
        turn(patch({"op": "add", "path": "/n", "value": 1})),
        turn(
            patch({"op": "test", "path": "/n", "value": 1}, {"op": "replace", "path": "/n", "value": 2}),
            patch({"op": "copy", "path": "/was", "from": "/n"}),
        ),
    )
    shared = agent("two", turn(patch({"op": "add", "path": "/seen", "value": True})))
    gone = agent("three", turn(state({"x": 1})))
    team = SequentialAgent(one, Member(shared, state="shared"), Member(gone, state="dropped"), strict=True)
    await team.run_agent("Hi")
    result = await team.run_agent("Again")
    assert (result.state, result.warnings) == ({"one": {"n": 2, "was": 2}, "seen": True}, [])
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


@pytest.mark.requirement("STREAM-1", "STATE-8")
@pytest.mark.parametrize("restated", ["One. Two.", "Rewritten."])
async def test_a_snapshot_of_a_member_may_restate_a_message_that_the_member_has_open(restated: str) -> None:
    async def restates(input: RunAgentInput) -> AsyncIterator[Step]:
        yield turn(
            TextMessageStartEvent(message_id="m1"),
            TextMessageContentEvent(message_id="m1", delta="One."),
            MessagesSnapshotEvent(messages=[*input.messages, AssistantMessage(id="m1", content=restated)]),
            TextMessageContentEvent(message_id="m1", delta=" Three."),
            TextMessageEndEvent(message_id="m1"),
        )

    team = SequentialAgent(agent("one", restates), says("last", "L"), strict=True)
    result = await team.run_agent("Hi")
    said = [("assistant", f"{restated} Three."), ("assistant", "L")]
    assert (told(team.messages), result.warnings) == ([("user", "Hi"), *said], [])


@pytest.mark.requirement("STREAM-1", "STATE-8")
async def test_a_snapshot_of_a_member_may_restate_a_tool_call_that_the_member_has_open() -> None:
    async def restates(input: RunAgentInput) -> AsyncIterator[Step]:
        call = ToolCall(id="c1", function=FunctionCall(name="look", arguments='{"n": '))
        yield turn(
            ToolCallStartEvent(tool_call_id="c1", tool_call_name="look", parent_message_id="m1"),
            MessagesSnapshotEvent(messages=[*input.messages, AssistantMessage(id="m1", tool_calls=[call])]),
            ToolCallArgsEvent(tool_call_id="c1", delta="1}"),
            ToolCallEndEvent(tool_call_id="c1"),
            tool_result("sun", tool_call_id="c1"),
        )

    team = SequentialAgent(agent("one", restates), says("last", "L"), strict=True)
    await team.run_agent("Hi")
    calls = [call for each in team.messages if each.role == "assistant" for call in each.tool_calls or ()]
    assert [(each.id, each.function.arguments) for each in calls] == [("one/c1", '{"n": 1}')]


@pytest.mark.requirement("SUB-3", "SET-22")
@pytest.mark.parametrize("speaks", [True, False], ids=["it speaks for the team", "another one speaks"])
async def test_an_encrypted_value_has_the_owner_of_the_call_or_message_that_it_is_about(*, speaks: bool) -> None:
    one = agent(
        "one",
        turn(
            text("Hm.", message_id="m1"),
            tool_call("look", {}, tool_call_id="c1", parent_message_id="m1"),
            tool_result("sun", tool_call_id="c1"),
            ReasoningEncryptedValueEvent(subtype="message", entity_id="m1", encrypted_value="x"),
            ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="c1", encrypted_value="y"),
            reasoning("So.", message_id="r1", encrypted_value="z"),
        ),
    )
    events = await events_of(SequentialAgent(one, *([] if speaks else [says("last", "L")]), strict=True))
    invocation = next(each.subagent_run_id for each in events if isinstance(each, SubagentStartedEvent))
    owners = {each.entity_id: each.subagent_run_id for each in events if isinstance(each, ReasoningEncryptedValueEvent)}
    own = None if speaks else invocation
    assert owners == {"one/m1": own, "one/c1": own, "one/r1": invocation}


async def test_messages_that_the_server_of_a_member_repeats_under_its_own_ids_are_not_the_members() -> None:
    async def restates(input: RunAgentInput) -> AsyncIterator[Step]:
        said = AssistantMessage(id="m", content="Yes.")
        yield turn(MessagesSnapshotEvent(messages=[UserMessage(id="of the server", content="Hi"), said]))

    team = SequentialAgent(agent("one", restates), says("last", "L"), strict=True)
    await team.run_agent("Hi")
    assert told(team.messages) == [("user", "Hi"), ("assistant", "Yes."), ("assistant", "L")]


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


async def test_a_question_of_a_subagent_of_ones_own_agent_is_answered_in_the_invocation_that_asked() -> None:
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))
    asked: list[SubagentRun] = []

    async def own(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        asked.append(SubagentRun(asker, input, number=3))
        async for event in asked[-1]:
            yield event
        outcome = RunFinishedInterruptOutcome(interrupts=asked[-1].interrupts) if asked[-1].is_waiting else None
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, outcome=outcome)

    outer = FunctionAgent(own, strict=True)
    (question,) = (await outer.run_agent("Hi")).interrupts
    foreign = ResumeEntry(interrupt_id="other-00000000.0/interrupt-1", status="resolved")
    answered = ResumeEntry(interrupt_id=question.id, status="resolved", payload="yes")
    fields: Any = {"thread_id": outer.thread_id, "messages": outer.messages, "resume": [foreign, answered]}
    given = RunAgentInput(run_id="r", state={}, tools=[], context=[], **fields)
    _ = [event async for event in outer.run(given)]
    assert [(each.result.status, each.result.text) for each in asked] == [("suspended", "Sure?"), ("success", "Done.")]
    invocation = question.id.partition("/")[0]
    assert [each.subagent_run_id for each in asked] == [invocation, invocation]
    assert asker.inputs[-1].resume == [ResumeEntry(interrupt_id="interrupt-1", status="resolved", payload="yes")]


async def test_an_agent_of_ones_own_passes_on_the_snapshots_of_a_team_that_it_runs() -> None:
    async def rewrites(input: RunAgentInput) -> AsyncIterator[Step]:
        rewritten = AssistantMessage(id="m", content="Rewritten.")
        yield turn(text("One.", message_id="m"), MessagesSnapshotEvent(messages=[*input.messages, rewritten]))

    inner = SequentialAgent(agent("writer", rewrites), agent_id="inner")

    async def own(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        async for event in SubagentRun(inner, input, prompt=[TextPart(text="Write."), attach(b"%PDF-1.7")]):
            yield event
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    outer = FunctionAgent(own, strict=True)
    result = await outer.run_agent("Hi")
    assert [each.role for each in outer.messages] == ["user", "user", "assistant"]
    assert (outer.messages[-1].content, result.state) == ("Rewritten.", {})


async def test_subagents_of_a_member_that_is_called_again_get_ids_of_their_own() -> None:
    async def numbered(input: RunAgentInput) -> AsyncIterator[Step]:
        helper: Any = {"subagent_run_id": "helper"}
        yield turn(
            SubagentStartedEvent(name="helper", **helper),
            TextMessageStartEvent(message_id="m", **helper),
            TextMessageContentEvent(message_id="m", delta="Yes.", **helper),
            TextMessageEndEvent(message_id="m", **helper),
            SubagentStartedEvent(name="its own", subagent_run_id="inner", parent_subagent_run_id="helper"),
            SubagentFinishedEvent(subagent_run_id="inner"),
            SubagentFinishedEvent(**helper),
        )

    worker = agent("worker", numbered)

    async def lead(team: Team) -> None:
        await team.run(worker, "one")
        await team.run(worker, "two")

    result = await TeamAgent(lead, worker=worker, options={"strict": True}).run_agent("Hi")
    records = {each.subagent_run_id: (each.name, each.parent_subagent_run_id) for each in result.subagents}
    one, two = (each for each in records if each.startswith("worker-"))
    assert records == {
        one: ("worker", None),
        "worker/helper": ("helper", one),
        "worker/inner": ("its own", "worker/helper"),
        two: ("worker", None),
        "worker/helper~1": ("helper", two),
        "worker/inner~1": ("its own", "worker/helper~1"),
    }


async def test_an_activity_of_a_member_goes_on_in_a_later_run_with_its_owner() -> None:
    shown_first = ActivitySnapshotEvent(message_id="plan", activity_type="plan", content={"n": 1})
    grows = ActivityDeltaEvent.model_validate(
        {"messageId": "plan", "activityType": "plan", "patch": [{"op": "replace", "path": "/n", "value": 2}]}
    )
    helper: Any = {"subagent_run_id": "helper"}
    of_helper = grows.model_copy(update=helper)
    by_helper = turn(SubagentStartedEvent(name="helper", **helper), of_helper, SubagentFinishedEvent(**helper))
    team = SequentialAgent(agent("one", turn(shown_first), turn(grows), by_helper), strict=True)
    owners: list[str | None] = []
    for _ in range(3):
        events = await events_of(team)
        found = [each for each in events if isinstance(each, ActivityDeltaEvent | ActivitySnapshotEvent)]
        owners += [each.subagent_run_id.partition("-")[0] for each in found if each.subagent_run_id]
        assert {each.message_id for each in found} == {"one/plan"}
    assert owners == ["one", "one", "one/helper"]


async def test_a_member_is_offered_the_tools_of_the_caller_that_it_has_not_itself() -> None:
    @tool
    def look() -> str:
        """Looks around."""
        return "sun"

    @tool
    def find() -> str:
        """Finds."""
        return "found"

    def choose_tools(_input: RunAgentInput) -> list[Any]:
        return [find]

    given = [Tool(name=each, description="Of the caller.", parameters={}) for each in ("look", "book", "pay")]
    own = agent("own", turn(), tools=[look])
    chooses = agent("chooses", turn(), tools=choose_tools)
    some = agent("some", turn())
    await SequentialAgent(own, chooses, Member(some, tools=["pay", "book"])).run_agent("Hi", tools=given)
    assert [[each.name for each in member.inputs[0].tools or ()] for member in (own, chooses, some)] == [
        ["look", "book", "pay"],
        ["find", "look", "book", "pay"],
        ["book", "pay"],
    ]


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


async def test_words_of_members_of_one_name_are_told_apart_by_their_levels() -> None:
    def numbered(word: str) -> ScriptedAgent:
        return agent("one", turn(text(word, message_id="m1")))

    last = says("last", "L")
    inner = SequentialAgent(numbered("Inner."), last, agent_id="inner")
    middle = SequentialAgent(numbered("Middle."), inner, agent_id="middle")
    await SequentialAgent(numbered("Outer."), middle, strict=True).run_agent("Hi")
    assert shown(last) == [("user", "Hi"), *(("user", f"[one]: {each}.") for each in ("Outer", "Middle", "Inner"))]
    assert len({each.id for each in last.inputs[0].messages}) == 4


async def test_members_are_shown_the_words_of_the_team_as_its_own_and_those_of_inner_members_by_their_names() -> None:
    panel = ParallelAgent(Member(says("x", "Yes."), "my helper"), agent_id="the panel")
    last = says("last", "L")

    async def lead(team: Team) -> None:
        await team.say("Welcome.")
        await team.run("panel")
        await team.run("last")

    await TeamAgent(lead, panel=panel, last=last).run_agent("Hi")
    assert shown(last) == [("user", "Hi"), ("user", "[team]: Welcome."), ("user", "[panel/my helper]: Yes.")]


class Verdict(BaseModel):
    good: bool


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("place", ["here", "stored"])
async def test_a_member_is_sent_the_schema_of_its_answer_and_asked_again_once(depth: int, place: str) -> None:
    critic, read = says("critic", "Quite good.", 'So: {"good": true}'), list[Any]()

    async def lead(team: Team) -> None:
        read.append((await team.run("critic", "Is it good?")).parsed)
        await team.run("asker")

    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))
    inner = TeamAgent(lead, critic=Member(critic, answer=Verdict), asker=asker, options={"agent_id": "inner"})
    async with placed(nested(inner, depth), place) as team:
        (asked,) = (await team.run_agent("Hi")).interrupts
        result = await team.run_agent(resume={asked.id: Resolve(True)})
    # The second time it comes from the journal.
    assert read == [Verdict(good=True)] * 2
    (schema,) = critic.inputs[1].context or []
    assert (len(critic.inputs), json.loads(schema.value)) == (2, Verdict.model_json_schema())
    first, answer, second = shown(critic)
    assert (first, answer) == (("user", "Is it good?"), ("assistant", "Quite good."))
    assert second[1].startswith("That does not fit: the answer is no Verdict")
    assert "Quite good." in second[1]
    spoken = next(each for each in result.subagents if each.name == "asker")
    assert (spoken.text, critic.inputs[0].context) == ("Done.", [schema])


async def test_a_member_whose_second_answer_does_not_fit_either_has_failed() -> None:
    vague = says("vague", "Good.", "Very good.", "Good.")
    team = SequentialAgent(Member(vague, answer=Verdict), strict=True)
    with pytest.raises(ParseError, match="Very good") as caught:
        await team.run_agent("Hi")
    assert (caught.value.member, len(vague.inputs)) == ("vague", 2)
    critic = Member(says("critic", "Good.", "Very good."), answer=Verdict)
    read: list[Any] = []

    async def lead(team: Team) -> None:
        read.append(await team.run("critic", on_error="continue"))

    await TeamAgent(lead, critic=critic, options={"strict": True}).run_agent("Hi")
    assert [(each.status, each.parsed) for each in read] == [("error", None)]


async def test_an_answer_in_the_arguments_of_an_output_tool_is_the_result_of_the_member() -> None:
    output = tool_call("final_result", {"good": False}, tool_call_id="o1")
    read: list[Any] = []

    async def lead(team: Team) -> None:
        result = await team.run("critic")
        read.append((result.parsed, result.result))

    critic = Member(agent("critic", turn(output, tool_result("ok", tool_call_id="o1"))), answer=Verdict)
    await TeamAgent(lead, critic=critic, options={"strict": True}).run_agent("Hi")
    assert read == [(Verdict(good=False), {"good": False})]
    with pytest.raises(UsageError, match="give it to the member that speaks"):
        SequentialAgent(Member(SequentialAgent(says("a", "A"), agent_id="inner"), answer=Verdict))


async def test_a_member_that_hands_over_need_not_answer() -> None:
    guide = agent("guide", turn(text("I ask the desk."), tool_call("transfer_to_desk")))
    team = HandoffAgent(Member(guide, answer=Verdict), says("desk", "Welcome."), strict=True)
    assert ((await team.run_agent("Hi")).text, len(guide.inputs)) == ("Welcome.", 1)
