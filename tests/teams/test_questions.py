"""Questions of members are those of their team, through any depth, and the answers reach whoever asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from ag_ui.core import (
    Event,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    Tool,
    ToolCallEndEvent,
    UserMessage,
)

from agui_client import (
    AbstractAgent,
    ApprovalRequest,
    Approve,
    Cancel,
    Deny,
    FunctionAgent,
    HttpAgent,
    InterruptsNotCoveredError,
    Resolve,
    RunFailedError,
    UsageError,
    tool,
)
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.teams import Member, ParallelAgent, RouterAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import Gate, ScriptedAgent, interrupt, pause, state, text, tool_call, turn
from support.team_members import FIVE, agent, events_of, pay_tool, payer, resumed, says, shown

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@pytest.mark.requirement("INT-1", "INT-2", "INT-4", "SUB-10")
async def test_only_members_that_wait_run_again_when_their_questions_are_answered() -> None:
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))
    other = agent("other", turn(text("O"), outcome=interrupt("Which?")), turn(text("That.")))
    first, quick, judge = says("first", "F"), says("quick", "Q"), says("judge", "J")
    inner = SequentialAgent(first, asker, agent_id="inner")
    team = ParallelAgent(inner, quick, other, then=judge, strict=True)
    events = await events_of(team)
    suspended = {
        event.subagent_run_id.partition("-")[0]: event.outcome.interrupt_ids
        for event in events
        if isinstance(event, SubagentFinishedEvent) and isinstance(event.outcome, SubagentFinishedSuspendedOutcome)
    }
    asked = {each.message: each for each in team.pending_interrupts}
    assert suspended == {
        "other": [asked["Which?"].id],
        "inner": [asked["Proceed?"].id],
        "inner/asker": [asked["Proceed?"].id],
    }
    assert [(asked[each].subagent_run_id or "").partition("-")[0] for each in ("Which?", "Proceed?")] == [
        "other",
        "inner/asker",
    ]
    result = await resumed(team, resume={each.id: Resolve(True) for each in team.pending_interrupts})
    assert (result.text, result.interrupts, result.state) == ("J", [], {})
    assert [len(each.inputs) for each in (first, asker, quick, other, judge)] == [1, 2, 1, 2, 1]
    assert [(each.interrupt_id, each.payload) for each in asker.inputs[-1].resume or ()] == [("interrupt-1", True)]
    assert shown(asker)[-1] == ("assistant", "Sure?")
    answers = {("user", f"[{name}]: {said}") for name, said in (("quick", "Q"), ("other", "That."), ("inner", "Done."))}
    assert answers < set(shown(judge))


async def test_the_state_of_a_team_that_waits_has_what_a_process_of_another_version_goes_on_with() -> None:
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Proceed?")))
    failing = agent("failing", turn(text("Half."), RunErrorEvent(message="overloaded", code="busy")))

    async def lead(team: Team) -> None:
        await team.once(lambda: {"drawn": 5})
        await team.say("Go.")
        await team.gather(("first", "one"), ("first", "two"))
        with suppress(RunFailedError):
            await team.run("failing")
        await team.run("inner")

    inner = SequentialAgent(asker, agent_id="inner")
    team = TeamAgent(lead, first=says("first", "F"), failing=failing, inner=inner, options={"strict": True})
    async with team.stream(UserMessage(id="u", content="Hi"), run_id="r") as run:
        _ = [event async for event in run]
    usage = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in FIVE]
    flow, inner_flow = "454349e4", team.pending_interrupts[0].id.partition("/asker-")[2].partition(".")[0]
    result = {"status": "success", "text": "F", "usage": usage}
    of_first = {
        f"first-{flow}.{number}": {
            "prompt": prompt,
            "is_apart": True,
            "result": {"name": "first", "subagent_run_id": f"first-{flow}.{number}", **result},
            "last": f"first-{flow}.{number}/message-1",
            "calls": 1,
            "tokens": 5,
            "over": number + 1,
        }
        for number, prompt in enumerate(("7692c3ad3540bb80", "3fc4ccfe745870e2"))
    }
    asked = {
        "subagentRunId": f"inner/asker-{inner_flow}.0",
        "id": f"inner-{flow}.0/asker-{inner_flow}.0/interrupt-1",
        "reason": "confirmation",
        "message": "Proceed?",
    }
    below = {"id": f"asker-{inner_flow}.0/interrupt-1", "subagentRunId": f"asker-{inner_flow}.0"}
    failed = {"name": "failing", "subagent_run_id": f"failing-{flow}.0", "status": "error"}
    assert _without_seconds(team.state) == {
        "_team": {
            "flow": flow,
            "after": "u",
            "said": 1,
            "notes": [{"drawn": 5}],
            "calls": {
                **of_first,
                f"failing-{flow}.0": {
                    "result": {**failed, "text": "Half.", "error": "overloaded"},
                    "failure": {"message": "overloaded", "code": "busy"},
                    "calls": 1,
                    "over": 3,
                    "begin": "",
                    "seen": 2,
                },
                f"inner-{flow}.0": {
                    "interrupts": [asked],
                    "last": "inner/asker/message-1",
                    "text": "inner/asker/message-1",
                    "begin": "",
                    "seen": 3,
                    "calls": 2,
                    "team": {
                        "flow": inner_flow,
                        "after": "failing:message-1",
                        "notes": [],
                        "calls": {
                            f"asker-{inner_flow}.0": {
                                "interrupts": [{**asked, **below}],
                                "last": "asker/message-1",
                                "text": "asker/message-1",
                                "begin": "",
                                "seen": 0,
                                "calls": 1,
                            }
                        },
                    },
                },
            },
        }
    }


def _without_seconds(value: Any) -> Any:
    """Return JSON without the times that something took."""
    if is_array(value):
        return list(map(_without_seconds, value))
    if not is_object(value):
        return value
    return {name: _without_seconds(each) for name, each in value.items() if name != "seconds"}


async def test_a_member_goes_on_with_the_answer_that_there_is_and_the_others_wait_on() -> None:
    one, other = asks("one"), asks("other")
    team = ParallelAgent(one, other)
    asked = {each.id.partition("-")[0]: each for each in (await team.run_agent("Hi")).interrupts}
    entry = ResumeEntry(interrupt_id=asked["other"].id, status="resolved", payload=True)
    fields: Any = {"messages": team.messages, "state": team.state, "resume": [entry]}
    given = RunAgentInput(thread_id=team.thread_id, run_id="r", tools=[], context=[], **fields)
    *_, last = [event async for event in team.run(given)]
    assert isinstance(last, RunFinishedEvent)
    assert last.outcome == RunFinishedInterruptOutcome(interrupts=[asked["one"]])
    assert (len(one.inputs), len(other.inputs)) == (1, 2)


async def test_answers_without_the_state_that_the_team_left_and_a_state_of_something_else_are_refused() -> None:
    team = SequentialAgent(asks("one"))
    (asked,) = (await team.run_agent("Hi")).interrupts
    entry = ResumeEntry(interrupt_id=asked.id, status="resolved", payload=True)
    given = RunAgentInput(
        thread_id="t", run_id="r", messages=team.messages, state={}, tools=[], context=[], resume=[entry]
    )
    with pytest.raises(UsageError, match=r"^the state has nothing of the run that asked: restore the conversation"):
        _ = [event async for event in team.run(given)]
    with pytest.raises(
        UsageError, match=r"^the member '_team' of the state is kept for teams, and this is not a team's$"
    ):
        _ = [event async for event in team.run(given.model_copy(update={"state": {"_team": {"flow": 5}}}))]


@pytest.mark.parametrize(
    "notes",
    ["text", {"x": 1}, {"flow": "f", "calls": {f"m-01234567.{'9' * 5000}": {"team": {"flow": "f"}}}}],
    ids=["text", "object", "too many digits"],
)
@pytest.mark.parametrize("prompt", [None, "Something else."])
async def test_a_server_with_something_else_under_the_name_of_the_journal_is_a_member_as_any(
    notes: Any, prompt: str | None
) -> None:
    team = SequentialAgent(
        agent("odd", turn(state({"_team": notes}), RunErrorEvent(message="Away.")), turn(text("That.")))
    )
    with pytest.raises(RunFailedError):
        await team.run_agent("Go.")
    assert (await team.run_agent(prompt)).text == "That."


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


async def test_a_question_and_a_callers_tool_of_one_member_are_answered_together() -> None:
    call = tool_call("look", {}, tool_call_id="c1")
    member = agent("member", turn(call, outcome=interrupt("Proceed?")), turn(text("Sunny.")))
    looks = Tool(name="look", description="Looks.", parameters={"type": "object"})
    team = SequentialAgent(SequentialAgent(member, agent_id="inner"), strict=True)
    asked = await team.run_agent("Hi", tools=[looks])
    results = {each.id: "sun" for each in asked.pending_tool_calls}
    answers = {each.id: Resolve() for each in asked.interrupts}
    result = await resumed(team, tools=[looks], resume=answers, tool_results=results)
    assert (result.text, shown(member)[-1], result.interrupts) == ("Sunny.", ("tool", "sun"), [])


async def test_a_tool_of_the_team_is_executed_for_a_member() -> None:
    @tool
    def look(where: str) -> str:
        """Looks."""
        return f"sun in {where}"

    coder = agent("coder", turn(tool_call("look", {"where": "Oslo"})), turn(text("Sunny.")))
    team = SequentialAgent(coder, tools=[look], strict=True)
    result = await team.run_agent("Hi")
    assert (result.text, shown(coder)[-1]) == ("Sunny.", ("tool", "sun in Oslo"))


def deep(inner: AbstractAgent) -> AbstractAgent:
    """A team in a team in a team."""
    middle = ParallelAgent(says("left", "L"), SequentialAgent(inner, agent_id="one"), agent_id="two")
    return SequentialAgent(middle, says("last", "End."), strict=True)


@pytest.mark.requirement("SEC-3")
async def test_an_approval_three_agents_deep_is_asked_where_it_can_be_answered_and_the_call_is_made_once() -> None:
    paid: list[int] = []
    member = payer(paid)
    team = deep(member)
    result = await team.run_agent("Pay")
    (asked,) = result.interrupts
    assert (asked.message, result.pending_tool_calls, paid) == ('Allow the call of pay with {"amount": 5}?', [], [])
    assert asked.tool_call_id is not None
    result = await resumed(team, resume={asked.id: Approve()})
    assert (result.text, paid, shown(member)[-1]) == ("End.", [5], ("tool", "paid"))


async def test_the_innermost_approver_is_asked() -> None:
    paid: list[int] = []
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(f"{request.agent}: {request.name}")
        return True

    middle = SequentialAgent(Member(payer(paid), "clerk"), agent_id="one", approve=approve)
    team = SequentialAgent(middle, says("last", "End."), approve=lambda _request: False)
    assert ((await team.run_agent("Pay")).text, asked, paid) == ("End.", ["clerk: pay"], [5])


async def test_a_served_team_is_an_ordinary_server_to_another_client_of_the_thread() -> None:
    paid: list[int] = []
    app = agent_app(deep(payer(paid)))
    http = HttpAgent("http://team/", app=app, strict=True)
    (asked,) = (await http.run_agent("Pay")).interrupts
    later = HttpAgent("http://team/", app=app, strict=True)
    later.restore(http.snapshot())
    result = await later.run_agent(resume={asked.id: Approve()})
    assert (result.text, paid, result.state) == ("End.", [5], {})


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
    with pytest.raises(UsageError, match="not a name for a member"):
        SequentialAgent(Member(one, "_team"))


def asks(name: str) -> ScriptedAgent:
    """An agent that asks, and is done with the answer."""
    return agent(name, turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))


async def test_a_failure_that_was_caught_is_raised_again_when_a_team_goes_on_and_nobody_runs_twice() -> None:
    failing = agent("failing", turn(text("Hm"), RunErrorEvent(message="overloaded", code="busy")))
    slow, early, asker = agent("slow", turn(text("S"), pause(60))), asks("early"), asks("asker")
    caught: list[str | None] = []

    async def lead(team: Team) -> None:
        try:
            await team.gather(early, slow, failing)
        except RunFailedError as error:
            caught.append(error.code)
        await team.run(asker, speaks=True)

    team = TeamAgent(lead, failing=failing, slow=slow, early=early, asker=asker, options={"strict": True})
    (asked,) = (await team.run_agent("Hi")).interrupts
    result = await resumed(team, resume={asked.id: Resolve()})
    assert (result.text, caught) == ("Done.", ["busy", "busy"])
    assert [len(each.inputs) for each in (failing, slow, early, asker)] == [1, 1, 1, 2]


async def test_a_member_of_a_team_that_waits_does_not_leave_the_text_of_its_exception_in_the_state() -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise LookupError("/srv/secret.db")

    async def lead(team: Team) -> str | None:
        failed = await team.run("broken", on_error="continue")
        await team.run("asker")
        return failed.error

    team = TeamAgent(lead, broken=FunctionAgent(broken), asker=asks("asker"))
    http = HttpAgent("http://team/", app=agent_app(team), strict=True)
    (asked,) = (await http.run_agent("Hi")).interrupts
    assert "secret" not in http.snapshot().model_dump_json()
    result = await http.run_agent(resume={asked.id: Resolve()})
    assert result.result == "the agent failed (LookupError)"


async def test_a_function_may_run_members_side_by_side_in_its_own_way() -> None:
    async def gather(team: Team) -> list[str]:
        return [each.text for each in await asyncio.gather(team.run("asker"), team.run("slow"))]

    async def group(team: Team) -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(team.run(name)) for name in ("asker", "slow")]
        return [(await each).text for each in made]

    # One that asks would end the task group, too, at times before the other one has failed.
    waiting, broken = agent("waiting", turn(Gate())), agent("broken", turn(RunErrorEvent(message="overloaded")))
    with pytest.raises(RunFailedError) as failed:
        await TeamAgent(group, asker=waiting, slow=broken, options={"strict": True}).run_agent("Hi")
    raised: Any = failed.value.raised
    assert [str(each) for each in raised.exceptions] == ["slow: overloaded"]
    for lead, slow_runs in ((gather, 1), (group, 2)):
        slow = agent("slow", turn(pause(0.01), text("S")))
        team = TeamAgent(lead, asker=asks("asker"), slow=slow, options={"strict": True})
        (asked,) = (await team.run_agent("Hi")).interrupts
        result = await resumed(team, resume={asked.id: Resolve()})
        # A task group cancels the others of those that end it, so these begin again.
        assert (result.result, len(slow.inputs)) == (["Done.", "S"], slow_runs)


async def test_members_that_wait_are_not_asked_for_when_another_one_of_the_same_gather_has_failed() -> None:
    asker, failing = asks("asker"), agent("failing", turn(pause(0), RunErrorEvent(message="overloaded")))

    async def lead(team: Team) -> str:
        try:
            await team.gather(asker, failing)
        except RunFailedError:
            return "without"
        return "with"

    result = await TeamAgent(lead, asker=asker, failing=failing, options={"strict": True}).run_agent("Hi")
    assert (result.result, result.interrupts, result.state) == ("without", [], {})


@pytest.mark.parametrize("way", ["callers tool", "approval", "not at its end"])
async def test_calls_of_members_are_answered_when_another_one_of_the_same_gather_has_failed(way: str) -> None:
    paid: list[int] = []
    looks = Tool(name="pay", description="Pays.", parameters={"type": "object"})
    more = [Gate()] if way == "not at its end" else []
    tools = [pay_tool(paid)] if way == "approval" else ()
    caller = agent("caller", turn(tool_call("pay", {"amount": 5}), *more), tools=tools)
    waits = Gate()
    failing = agent("failing", turn(waits, RunErrorEvent(message="overloaded")))

    async def lead(team: Team) -> None:
        with suppress(RunFailedError):
            await team.gather(caller, failing)

    team = TeamAgent(lead, caller=caller, failing=failing, options={"strict": True})

    @team.on(ToolCallEndEvent if more else SubagentFinishedEvent)
    def fail(event: ToolCallEndEvent | SubagentFinishedEvent) -> None:
        waits.open()

    result = await team.run_agent("Hi", tools=[looks])
    assert (result.interrupts, result.pending_tool_calls, paid) == ([], [], [])
    assert "caller was cancelled before this call was answered." in [message.content for message in team.messages]


async def test_a_team_that_is_saved_takes_the_notes_about_its_members_from_no_caller() -> None:
    secret, open_to_all = says("secret", "S"), asks("open_to_all")
    team = RouterAgent(lambda _: "open_to_all", secret=secret, open_to_all=open_to_all)
    async with Store() as store:
        threads = store.threads
        app = agent_app(lambda _request, input: threads.open(input.thread_id, team))
        http = HttpAgent("http://team/", app=app, strict=True)
        (asked,) = (await http.run_agent("Hi")).interrupts
        assert http.state == {}
        async with threads.open(http.thread_id, team) as opened:
            journal = opened.state["_team"]
        http.set_state({"_team": {**journal, "notes": ["secret"]}, "mood": "good"})
        result = await http.run_agent(resume={asked.id: Resolve()})
        assert (result.text, secret.inputs, result.state["mood"]) == ("Done.", [], "good")


_ACTION: dict[str, Any] = {"name": "pay", "args": {"amount": 5}, "description": "Pay 5?"}
_REVIEW: dict[str, Any] = {"action_requests": [_ACTION], "review_configs": []}
_EDITED: dict[str, Any] = {"name": "pay", "args": {"amount": 4}}


@pytest.mark.requirement("INT-4", "INT-7")
@pytest.mark.parametrize(
    ("raw", "answer", "heard"),
    [
        (_REVIEW, Resolve({"approved": True}), {"decisions": [{"type": "approve"}]}),
        (_REVIEW, Resolve({"approved": "yes"}), None),
        (_REVIEW, Resolve({"approved": False, "reason": "no"}), {"decisions": [{"type": "reject", "message": "no"}]}),
        (
            _REVIEW,
            Resolve({"approved": True, "editedArgs": {"amount": 4}}),
            {"decisions": [{"type": "edit", "edited_action": _EDITED}]},
        ),
        (_REVIEW, Resolve({"decisions": [{"type": "approve"}]}), {"decisions": [{"type": "approve"}]}),
        (_REVIEW, Approve(), {"decisions": [{"type": "approve"}]}),
        (_REVIEW, Cancel(), {"decisions": [{"type": "reject"}]}),
        ({"type": "tool_approval", **_ACTION}, Resolve({"approved": True}), {"type": "approve"}),
        ({"type": "tool_approval", **_ACTION}, Deny("no"), {"type": "reject", "message": "no"}),
    ],
    ids=repr,
)
async def test_a_review_of_langchain_in_a_served_team_has_a_schema_and_is_answered_in_plain_words(
    raw: dict[str, Any], answer: Resolve | Approve | Deny | Cancel, heard: Any
) -> None:
    asked = Interrupt(id="i1", reason="langgraph:interrupt", metadata={"langgraph": {"raw": raw}})
    graph = agent("graph", turn(outcome=RunFinishedInterruptOutcome(interrupts=[asked])), turn(text("Done.")))
    team = SequentialAgent(SequentialAgent(graph, agent_id="inner"))
    caller = HttpAgent("http://team/", app=agent_app(team), strict=True)
    [question] = (await caller.run_agent("Hi")).interrupts
    schema = question.response_schema or {}
    assert (question.message, list(schema["properties"])) == ("Pay 5?", ["approved", "editedArgs", "reason"])
    if heard is None:
        with pytest.raises(InterruptsNotCoveredError, match=r"does not fit its responseSchema at \$\.approved"):
            await caller.run_agent(resume={question.id: answer})
        return
    assert (await caller.run_agent(resume={question.id: answer})).text == "Done."
    assert [each.payload for each in graph.inputs[-1].resume or ()] == [heard]
