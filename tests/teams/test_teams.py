"""Teams: agents that run inside the run of another, told upward as subagents, their questions and answers passed on."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    Interrupt,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    ToolMessage,
)

from agui_client import (
    AbstractAgent,
    AGUIError,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    FunctionAgent,
    HttpAgent,
    Resolve,
    RunFailedError,
    UsageError,
    tool,
)
from agui_client.asgi import agent_app
from agui_client.teams import (
    HandoffAgent,
    Member,
    ParallelAgent,
    RouterAgent,
    SequentialAgent,
    SubagentRun,
    Team,
    TeamAgent,
    TeamLimitError,
    TeamLimits,
)
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Step,
    Turn,
    interrupt,
    patch,
    pause,
    reasoning,
    state,
    step,
    text,
    tool_call,
    tool_result,
    turn,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ag_ui.core import Event, Message

pytestmark = pytest.mark.anyio
FIVE = [TokenUsage(model="m", input_tokens=2, output_tokens=3, total_tokens=5)]


def agent(name: str, *turns: Turn, **options: Any) -> ScriptedAgent:
    """A scripted agent with a name."""
    return ScriptedAgent(*turns, agent_id=name, **options)


def says(name: str, *texts: str) -> ScriptedAgent:
    """An agent that says one text in each run."""
    return agent(name, *(turn(text(each), usage=FIVE) for each in texts))


def shown(agent: ScriptedAgent, run: int = -1) -> list[tuple[str, Any]]:
    """The roles and contents that an agent got."""
    return [(message.role, message.content) for message in agent.inputs[run].messages]


def told(messages: list[Message]) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in messages]


async def events_of(team: AbstractAgent, prompt: str = "Hi", *, into: list[Event] | None = None) -> list[Event]:
    """The events of a run, also of one that fails."""
    events: list[Event] = [] if into is None else into
    async with team.stream(prompt) as run:
        async for event in run:
            events.append(event)  # noqa: PERF401 - what came before a failure counts
    return events


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


async def test_a_member_without_memory_begins_each_call_in_a_thread_of_its_own() -> None:
    writer = says("writer", "The story.")
    team = SequentialAgent(Member(writer, memory="call"))
    await team.run_agent("Write")
    await team.run_agent("Again")
    assert len({each.thread_id for each in writer.inputs}) == 2
    assert shown(writer) == [("user", "Write"), ("user", "[writer]: The story."), ("user", "Again")]


async def test_a_member_sees_what_it_is_to_see() -> None:
    last, chosen = says("last", "L"), says("chosen", "C")
    team = SequentialAgent(
        says("first", "F"), Member(last, sees="last"), Member(chosen, sees=lambda messages: messages[:1])
    )
    await team.run_agent("Hi")
    assert (shown(last), shown(chosen)) == ([("user", "[first]: F")], [("user", "Hi")])


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
    async def generalist(input: RunAgentInput) -> AsyncIterator[Step]:
        names = [tool.name for tool in input.tools or ()]
        yield turn(text("Wait."), tool_call(names[0]))

    coder = agent("coder", turn(text("Code.")), turn(text("More.")), turn(tool_call("transfer_to_generalist")))
    first = agent("generalist", generalist, turn(text("Me again.")))
    team = HandoffAgent(first, coder, strict=True)
    assert (await team.run_agent("Hi")).text == "Code."
    assert (await team.run_agent("More")).text == "More."
    result = await team.run_agent("Back")
    assert (result.text, result.pending_tool_calls) == ("Me again.", [])
    assert [message.content for message in team.messages if isinstance(message, ToolMessage)] == [
        "Handed over to coder.",
        "Handed over to generalist.",
    ]
    assert shown(first)[1:3] == [("assistant", "Wait."), ("assistant", None)]


async def test_members_that_hand_over_for_ever_come_to_a_limit() -> None:
    one, other = (agent(a, turn(tool_call(f"transfer_to_{b}"))) for a, b in (("one", "other"), ("other", "one")))
    with pytest.raises(TeamLimitError, match="handed over more than 3 times"):
        await HandoffAgent(one, other, limits=TeamLimits(handovers=3)).run_agent("Hi")


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


# --- questions and tools


async def resumed(team: AbstractAgent, **options: Any) -> Any:
    """Go on in what could be another process: all that is left of the run is its saved conversation."""
    saved = team.snapshot().model_dump_json()
    twin = team.clone(thread_id="another")
    twin.restore(ConversationSnapshot.model_validate_json(saved))
    result = await twin.run_agent(**options)
    team.restore(twin.snapshot())
    return result


@pytest.mark.requirement("INT-1", "INT-2", "INT-4", "SUB-10")
async def test_only_members_that_wait_run_again_when_their_questions_are_answered() -> None:
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))
    other = agent("other", turn(text("O"), outcome=interrupt("Which?")), turn(text("That.")))
    first, quick, judge = says("first", "F"), says("quick", "Q"), says("judge", "J")
    inner = SequentialAgent(first, asker, agent_id="inner")
    team = ParallelAgent(inner, quick, other, then=judge, strict=True)
    events = await events_of(team)
    suspended = [
        event.subagent_run_id
        for event in events
        if isinstance(event, SubagentFinishedEvent) and isinstance(event.outcome, SubagentFinishedSuspendedOutcome)
    ]
    names = [each.partition("-")[0].rpartition("/")[2] for each in suspended]
    assert sorted(names) == ["asker", "inner", "other"]
    assert sorted(each.message or "" for each in team.pending_interrupts) == ["Proceed?", "Which?"]
    assert {each.subagent_run_id for each in team.pending_interrupts} < set(suspended)
    result = await resumed(team, resume={each.id: Resolve(True) for each in team.pending_interrupts})
    assert (result.text, result.interrupts, result.state) == ("J", [], {})
    assert [len(each.inputs) for each in (first, asker, quick, other, judge)] == [1, 2, 1, 2, 1]
    assert [(each.interrupt_id, each.payload) for each in asker.inputs[-1].resume or ()] == [("interrupt-1", True)]
    assert shown(asker)[-1] == ("assistant", "Sure?")
    answers = {("user", f"[{name}]: {said}") for name, said in (("quick", "Q"), ("other", "That."), ("inner", "Done."))}
    assert answers < set(shown(judge))


async def test_a_function_that_leads_is_called_again_and_nothing_in_it_happens_twice() -> None:
    airline = agent("a", turn(text("SK 1"), outcome=interrupt("Book?")), turn(text("Booked.")))
    hotel = says("b", "Grand")
    drawn: list[int] = []

    async def lead(team: Team) -> None:
        await team.once(lambda: drawn.append(1))
        await team.say("One moment.")
        flight, room = await team.gather((airline, "fly"), (hotel, "sleep"))
        await team.say(f"{flight.text} {room.text}")

    team = TeamAgent(lead, airline=airline, hotel=hotel, options={"strict": True})
    await team.run_agent("Hi")
    result = await resumed(team, resume={each.id: Resolve() for each in team.pending_interrupts})
    assert (result.text, len(drawn), len(hotel.inputs), result.state) == ("Booked. Grand", 1, 1, {})
    assert [each.content for each in team.messages if each.id.startswith("said-")] == ["One moment.", "Booked. Grand"]


@pytest.mark.requirement("TOOL-8", "TOOL-9")
async def test_a_callers_tool_reaches_members_that_may_use_it_through_any_depth() -> None:
    coder = agent("coder", turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")))
    other = says("other", "O")
    inner = SequentialAgent(coder, agent_id="inner")
    team = ParallelAgent(inner, Member(other, tools=()), then=says("judge", "J"))
    looks = Tool(name="look", description="Looks.", parameters={"type": "object"})
    result = await team.run_agent("Hi", tools=[looks])
    assert [call.function.arguments for call in result.pending_tool_calls] == ['{"where": "Oslo"}']
    assert ([each.name for each in coder.inputs[0].tools or ()], other.inputs[0].tools) == (["look"], [])
    answers = {call.id: "sun" for call in result.pending_tool_calls}
    result = await resumed(team, tools=[looks], tool_results=answers)
    assert (result.text, len(other.inputs), shown(coder)[-1]) == ("J", 1, ("tool", "sun"))


async def test_a_tool_of_the_team_is_executed_for_a_member() -> None:
    @tool
    def look(where: str) -> str:
        """Looks."""
        return f"sun in {where}"

    coder = agent("coder", turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")))
    team = SequentialAgent(coder, tools=[look], strict=True)
    result = await team.run_agent("Hi")
    assert (result.text, shown(coder)[-1]) == ("Sunny.", ("tool", "sun in Oslo"))


paid: list[int] = []


@tool(approval="always")
def pay(amount: int) -> str:
    """Pays."""
    paid.append(amount)
    return "paid"


def payer() -> ScriptedAgent:
    return agent("payer", turn(text("Paying."), tool_call("pay", {"amount": 5})), turn(text("Paid.")), tools=[pay])


def deep(inner: AbstractAgent) -> AbstractAgent:
    """A team in a team in a team."""
    middle = ParallelAgent(says("left", "L"), SequentialAgent(inner, agent_id="one"), agent_id="two")
    return SequentialAgent(middle, says("last", "End."), strict=True)


@pytest.mark.requirement("SEC-3")
async def test_an_approval_three_agents_deep_is_asked_where_it_can_be_answered_and_the_call_is_made_once() -> None:
    paid.clear()
    member = payer()
    team = deep(member)
    result = await team.run_agent("Pay")
    (asked,) = result.interrupts
    assert (asked.message, result.pending_tool_calls, paid) == ("Allow the call of pay?", [], [])
    assert asked.tool_call_id is not None
    result = await resumed(team, resume={asked.id: Approve()})
    assert (result.text, paid, shown(member)[-1]) == ("End.", [5], ("tool", "paid"))


async def test_the_innermost_approver_is_asked() -> None:
    paid.clear()
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(f"{request.agent}: {request.name}")
        return True

    middle = SequentialAgent(Member(payer(), "clerk"), agent_id="one", approve=approve)
    team = SequentialAgent(middle, says("last", "End."), approve=lambda _request: False)
    assert ((await team.run_agent("Pay")).text, asked, paid) == ("End.", ["clerk: pay"], [5])


async def test_a_served_team_is_an_ordinary_server_that_keeps_nothing() -> None:
    paid.clear()
    http = HttpAgent("http://team/", app=agent_app(deep(payer())), strict=True)
    (asked,) = (await http.run_agent("Pay")).interrupts
    later = HttpAgent("http://team/", app=agent_app(deep(_ready_to_pay())), strict=True)
    later.restore(http.snapshot())
    result = await later.run_agent(resume={asked.id: Approve()})
    assert (result.text, paid, result.state) == ("End.", [5], {})


def _ready_to_pay() -> ScriptedAgent:
    """The same agent in another process: its script begins where the first one's ended."""
    return agent("payer", turn(text("Paid.")), tools=[pay])


# --- failures and limits


async def test_a_member_that_fails_ends_the_run_and_the_others() -> None:
    failing = agent("failing", turn(text("Hm"), RunErrorEvent(message="overloaded", code="busy", usage=FIVE)))
    team = ParallelAgent(failing, agent("other", turn(text("O"), pause(60))), then=says("judge", "J"), strict=True)
    events: list[Event] = []
    with pytest.raises(RunFailedError, match="overloaded") as raised:
        await events_of(team, into=events)
    failed = [(event.message, event.code) for event in events if isinstance(event, SubagentErrorEvent)]
    assert failed == [("overloaded", "busy"), ("other was cancelled", "cancelled")]
    assert (raised.value.code, raised.value.event.usage) == ("busy", FIVE)


async def test_a_team_goes_on_without_a_member_that_failed_in_the_middle() -> None:
    unfinished: list[Turn] = [
        [RunStartedEvent(thread_id="t", run_id="r"), text("Half"), TextMessageStartEvent(message_id="open"), {}]
    ]
    failing = agent("failing", *unfinished)
    team = ParallelAgent(failing, says("other", "O"), then=says("judge", "J"), on_error="continue", strict=True)
    result = await team.run_agent("Hi")
    assert (result.text, result.incomplete_ids) == ("J", [])


async def test_a_member_that_takes_too_long_is_given_up() -> None:
    slow = agent("slow", turn(step("thinking", pause(60))))
    team = SequentialAgent(Member(slow, timeout=0.05, on_error="continue"), says("other", "O"), strict=True)
    events = await events_of(team)
    failed = [(event.message, event.code) for event in events if isinstance(event, SubagentErrorEvent)]
    assert failed == [("slow took longer than 0.05 seconds", "timeout")]


async def test_an_exception_of_a_member_is_the_teams_and_its_text_goes_to_nobody_else() -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise LookupError("/srv/secret.db")

    team = SequentialAgent(FunctionAgent(broken))
    events: list[Event] = []
    with pytest.raises(LookupError, match="secret"):
        await events_of(team, into=events)
    assert "secret" not in json.dumps([event.model_dump(mode="json") for event in events])


async def test_teams_inside_each_other_come_to_a_limit() -> None:
    team: AbstractAgent = says("innermost", "I")
    for depth in range(4):
        team = SequentialAgent(team, agent_id=f"team-{depth}", limits=TeamLimits(depth=3))
    with pytest.raises(TeamLimitError, match="more than 3 agents"):
        await team.run_agent("Hi")


async def test_leaving_a_run_closes_every_member() -> None:
    closed: list[str] = []

    def hanging(name: str) -> AbstractAgent:
        async def hang(input: RunAgentInput) -> AsyncIterator[Any]:
            try:
                yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
                await anyio.sleep_forever()
            finally:
                closed.append(name)

        return FunctionAgent(hang, agent_id=name)

    team = ParallelAgent(hanging("one"), SequentialAgent(hanging("two"), agent_id="inner"))
    async with team.stream("Hi") as run:
        count = 0
        async for event in run:
            count += isinstance(event, SubagentStartedEvent)
            if count == 3:
                break
        await anyio.lowlevel.checkpoint()
    assert sorted(closed) == ["one", "two"]


# --- state and snapshots


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


# --- looking


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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_a_member_that_cancels_itself_fails_the_team_and_cancels_nobody_else(kind: Any) -> None:
    async def cancelled(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise asyncio.CancelledError

    with pytest.raises(AGUIError, match="cancelled itself"):
        await kind(FunctionAgent(cancelled, agent_id="one"), says("two", "Fine.")).run_agent("Hi")


@pytest.mark.parametrize("forged", ["junk", "one-{flow}/nope", "two-{flow}/interrupt-1"])
async def test_an_answer_to_what_no_member_asks_is_refused_and_runs_nobody(forged: str) -> None:
    one = agent("one", turn(outcome=interrupt("Proceed?")), turn(text("Never.")))
    team = SequentialAgent(one, says("two", "Never."))
    (asked,) = (await team.run_agent("Hi")).interrupts
    flow = asked.id.partition("/")[0].removeprefix("one-")
    entry = ResumeEntry(interrupt_id=forged.format(flow=flow), status="resolved", payload=True)
    given = RunAgentInput(
        thread_id="t", run_id="r", messages=team.messages, state=team.state, tools=[], context=[], resume=[entry]
    )
    with pytest.raises(UsageError, match="which no member of this team asks"):
        _ = [event async for event in team.run(given)]
    assert len(one.inputs) == 1
    with pytest.raises(UsageError, match="no name for a member"):
        SequentialAgent(Member(one, "_team"))


# --- an agent as a tool


async def test_an_agent_asks_another_one_by_a_tool() -> None:
    coder = says("coder", "def f()")
    asker = agent("asker", turn(tool_call("ask_coder", {"prompt": "A function?"})), turn(text("There.")))
    asker.tools = [coder.as_tool("ask_coder", "Answers programming questions.")]
    result = await SequentialAgent(asker, strict=True).run_agent("Hi")
    assert (result.text, shown(coder), shown(asker)[-1]) == ("There.", [("user", "A function?")], ("tool", "def f()"))


async def test_approvals_of_an_agent_that_is_a_tool_go_to_who_answers_for_the_other_agent() -> None:
    paid.clear()
    asked: list[str | None] = []

    def answer(question: Interrupt) -> Resolve | Approve:
        asked.append(question.message)
        return Approve() if question.tool_call_id else Resolve(True)

    helper = agent(
        "helper",
        turn(tool_call("pay", {"amount": 5})),
        turn(text("Sure?"), outcome=interrupt("Proceed?")),
        turn(text("Paid.")),
        tools=[pay],
    )
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Pay"})), turn(text("There.")), answer=answer)
    asker.tools = [helper.as_tool("ask", "Pays.")]
    assert (await asker.run_agent("Hi")).text == "There."
    assert (asked, paid) == (['Allow the call of pay with {"amount": 5}?', "Proceed?"], [5])
    assert shown(asker)[-1] == ("tool", "Paid.")


def a_helper_that_asks_twice(*, later: bool = False) -> ScriptedAgent:
    """An agent that wants to pay, then asks; `later` is the same one in another process."""
    first = turn(text("Look:"), tool_call("pay", {"amount": 5}, tool_call_id="p1"))
    rest = (turn(tool_call("pay", {"amount": 5}, tool_call_id="p2"), text("Sure?")), turn(text("Paid twice.")))
    return agent("helper", *(rest if later else (first, *rest)), tools=[pay])


@pytest.mark.requirement("SEC-3")
async def test_what_an_agent_that_is_a_tool_asks_waits_for_a_later_process_and_goes_on_where_it_was() -> None:
    paid.clear()
    helper = a_helper_that_asks_twice()
    ask = tool_call("ask", {"prompt": "Pay"}, tool_call_id="a1")
    asker = agent("asker", turn(ask, tool_call("note", {}, tool_call_id="n1")))
    noted: list[str] = []

    @tool
    def note() -> str:
        noted.append("noted")
        return "noted"

    asker.tools = [helper.as_tool("ask", "Pays."), note]
    result = await asker.run_agent("Hi")
    (asked,) = result.interrupts
    assert (asked.message, asked.tool_call_id) == ('Allow the call of pay with {"amount": 5}?', "a1")
    assert (paid, noted, shown(helper)) == ([], ["noted"], [("user", "Pay")])
    later = agent("asker", turn(text("There.")))
    helper = a_helper_that_asks_twice(later=True)
    later.tools = [helper.as_tool("ask", "Pays."), note]
    later.restore(ConversationSnapshot.model_validate_json(asker.snapshot().model_dump_json()))
    # One approval is for one call: the same call once more is asked about again.
    (again,) = (await later.run_agent(resume={asked.id: Approve()})).interrupts
    assert (again.message, paid, later.inputs) == (asked.message, [5], [])
    assert shown(helper)[-1] == ("tool", "paid")
    result = await later.run_agent(resume={again.id: Approve()})
    assert (result.text, paid, noted, result.interrupts) == ("There.", [5, 5], ["noted"], [])
    assert ("tool", "Paid twice.") in shown(later)
    assert (len(helper.inputs), len(later.inputs)) == (2, 1)


async def test_a_denial_reaches_an_agent_that_is_a_tool_of_a_served_agent_and_of_a_member() -> None:
    paid.clear()
    asker = agent("asker", turn(tool_call("ask", {"prompt": "Pay"})), turn(text("There.")))
    helper = agent("helper", turn(tool_call("pay", {"amount": 5})), turn(outcome=interrupt("Sad?")), turn(text("No.")))
    helper.tools = [pay]
    asker.tools = [helper.as_tool("ask", "Pays.")]
    http = HttpAgent("http://team/", app=agent_app(SequentialAgent(asker, strict=True)), strict=True)
    (asked,) = (await http.run_agent("Hi")).interrupts
    (again,) = (await resumed(http, resume={asked.id: Deny("No money.")})).interrupts
    assert (again.message, shown(helper)[-1][0], paid) == ("Sad?", "tool", [])
    result = await resumed(http, resume={again.id: Resolve(payload=True)})
    assert (result.text, shown(asker)[-1], len(helper.inputs)) == ("There.", ("tool", "No."), 3)
