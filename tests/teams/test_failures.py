"""Who failed in a team, and why: for the caller, for the function that leads, and for the other members."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from ag_ui.core import Event, RunAgentInput, RunErrorEvent, RunStartedEvent, Tool
from pydantic import BaseModel

from agui_client import (
    AbstractAgent,
    AGUIError,
    ConnectError,
    FunctionAgent,
    HttpAgent,
    ParseError,
    RunFailedError,
    RunResult,
    UsageError,
    attach,
)
from agui_client.asgi import agent_app
from agui_client.teams import (
    HandoffAgent,
    Handover,
    LoopAgent,
    Member,
    RouterAgent,
    SequentialAgent,
    SubagentResult,
    Team,
    TeamAgent,
)
from agui_client.testing import pause, text, tool_call, turn
from support.team_members import agent, says, shown, told

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def half(name: str = "half") -> AbstractAgent:
    return agent(name, turn(text("Half a sen"), RunErrorEvent(message="overloaded", code="busy")))


async def _raise(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    raise LookupError("/srv/secret.db")


def away() -> HttpAgent:
    return HttpAgent("http://127.0.0.1:9/", agent_id="away")


async def test_the_error_of_a_member_keeps_its_class_and_names_the_member_through_any_depth() -> None:
    with pytest.raises(ConnectError, match=r"^office/away: no connection to http://127.0.0.1:9/") as lost:
        await SequentialAgent(says("one", "A"), SequentialAgent(away(), agent_id="office")).run_agent("Hi")
    assert lost.value.partial is not None
    assert (lost.value.member, lost.value.partial.text) == ("office/away", "")
    with pytest.raises(RunFailedError, match=r"^office/half: overloaded \(code busy\)") as failed:
        await SequentialAgent(SequentialAgent(half(), agent_id="office")).run_agent("Hi")
    assert (failed.value.member, failed.value.code, failed.value.event.message) == ("office/half", "busy", "overloaded")
    with pytest.raises(RunFailedError) as broken:
        await SequentialAgent(FunctionAgent(_raise, agent_id="broken")).run_agent("Hi")
    assert (broken.value.member, type(broken.value.raised)) == ("broken", LookupError)


async def test_a_failure_that_the_team_goes_on_from_is_on_the_result_in_the_log_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    results: list[SubagentResult] = []

    async def lead(team: Team) -> None:
        results.extend([await team.run(name) for name in ("away", "broken")])
        await team.run("inner")

    broken = FunctionAgent(_raise, agent_id="broken")
    inner = SequentialAgent(half(), says("last", "Z"), on_error="continue", agent_id="inner")
    team = TeamAgent(lead, on_error="continue", away=away(), broken=broken, inner=inner)
    with caplog.at_level(logging.WARNING, logger="agui_client.teams"):
        result = await team.run_agent("Hi")
    assert [type(each.exception) for each in results] == [ConnectError, RunFailedError]
    failed = {each.name: each.exception for each in result.subagents if each.status == "error"}
    assert {name: type(each) for name, each in failed.items()} == {
        "away": ConnectError,
        "broken": RunFailedError,
        "half": RunFailedError,
    }
    logged = [each.exc_info[1] for each in caplog.records if each.name == "agui_client.teams" and each.exc_info]
    assert logged == list(failed.values())
    messages = [each.getMessage() for each in caplog.records if each.name == "agui_client.teams"]
    assert messages == [f"member '{name}' failed" for name in failed]
    warned = [each.message for each in result.warnings]
    assert warned[1:] == [
        "broken failed, and the team continued without it: LookupError",
        "inner: half failed, and the team continued without it: RunFailedError: overloaded (code busy)",
    ]
    assert warned[0].startswith("away failed, and the team continued without it: ConnectError: no connection to")
    assert "secret" not in result.to_json() + str(result.subagents) + str(warned)
    assert pickle.loads(pickle.dumps(result.subagents[0])) == result.subagents[0]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_partial_words_of_a_member_that_failed_are_no_answer_and_are_shown_as_what_they_are() -> None:
    team = SequentialAgent(says("one", "A"), half(), on_error="continue", strict=True)
    for asked in (team, HttpAgent("http://team/", app=agent_app(team.clone()), strict=True)):
        result = await asked.run_agent("Hi")
        failed = result.subagents[-1]
        assert (result.text, failed.text, failed.is_partial) == ("", "Half a sen", True)
    last = says("last", "Z")
    await SequentialAgent(half(), last, on_error="continue").run_agent("Hi")
    assert shown(last)[-1] == ("user", "[half, cut off by a failure]: Half a sen")


@pytest.mark.parametrize("is_served", [False, True], ids=["here", "served"])
async def test_partial_words_are_shown_as_what_they_are_after_the_next_prompt_too(is_served: bool) -> None:
    turns = (turn(text("Whole."), text("Half"), RunErrorEvent(message="broken")), turn(text("Again.")))
    last = says("last", "L", "M")
    team: AbstractAgent = SequentialAgent(agent("one", *turns), last, on_error="continue", strict=True)
    if is_served:
        team = HttpAgent("http://team/", app=agent_app(team), strict=True)
    await team.run_agent("Hi")
    await team.run_agent("Go on")
    assert shown(last) == [
        ("user", "Hi"),
        ("user", "[one, cut off by a failure]: Whole."),
        ("user", "[one, cut off by a failure]: Half"),
        ("assistant", "L"),
        ("user", "Go on"),
        ("user", "[one]: Again."),
    ]


@pytest.mark.parametrize("depth", [0, 1])
async def test_a_member_that_takes_too_long_or_raises_fails_the_run_with_its_name_and_what_had_arrived(
    depth: int,
) -> None:
    async def breaks(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise LookupError("no such table")

    path = "level-0/" * depth
    slow = Member(agent("slow", turn(text("Half."), pause(60))), timeout=0.02)
    odd = FunctionAgent(breaks, agent_id="odd")
    for member, name, cause in ((slow, "slow", TimeoutError), (odd, "odd", LookupError)):
        team = SequentialAgent(says("first", "F"), member, agent_id="level-0")
        with pytest.raises(AGUIError) as failed:
            await (SequentialAgent(team) if depth else team).run_agent("Hi")
        assert (failed.value.member, isinstance(failed.value, RunFailedError)) == (path + name, True)
        assert isinstance(failed.value.partial, RunResult)
        assert "F" in [each.text for each in failed.value.partial.subagents]
        assert isinstance(cast("RunFailedError", failed.value).raised, cause)


async def test_what_a_member_said_before_is_shown_to_others_when_it_fails_before_it_begins() -> None:
    runs: list[str] = []

    def tools(input: RunAgentInput) -> list[Tool]:
        runs.append(input.run_id)
        if len(runs) > 1:
            raise LookupError("no tools")
        return []

    one, last = agent("one", turn(text("A")), tools=tools), says("last", "L", "M")
    team = SequentialAgent(one, last, on_error="continue", strict=True)
    await team.run_agent("Hi")
    assert (await team.run_agent("Again")).subagents[0].error == "the agent failed (LookupError)"
    assert shown(last) == [("user", "Hi"), ("user", "[one]: A"), ("assistant", "L"), ("user", "Again")]


# --- what a function and the kinds of teams can do


class Order(BaseModel):
    number: int


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_member_is_asked_with_attachments_and_its_answer_is_read_as_a_type() -> None:
    clerk = says("clerk", '```json\n{"number": 5}\n```', "No idea.")
    orders: list[Order] = []

    async def lead(team: Team) -> None:
        orders.append((await team.run("clerk", ["Which order?", attach(b"%PDF-1.7")])).parse(Order))
        (await team.run("clerk", "And this?")).parse(Order)

    team = TeamAgent(lead, clerk=clerk, options={"strict": True})
    with pytest.raises(ParseError, match=r"^clerk: the answer is no Order"):
        await team.run_agent("Hi")
    assert orders == [Order(number=5)]
    assert [each.type for each in shown(clerk, 0)[0][1]] == ["text", "document"]
    assert [each.type for each in told(team.messages)[1][1]] == ["text", "document"]


def _never(_result: SubagentResult) -> bool:
    return False


async def test_a_loop_ends_when_its_function_says_so_or_after_its_rounds() -> None:
    writer, critic = says("writer", *"abc"), says("critic", "bad", "good", "bad")

    async def until(_draft: SubagentResult, verdict: SubagentResult) -> bool:
        return verdict.text == "good"

    result = await LoopAgent(writer, critic, until=until, strict=True).run_agent("Write.")
    assert (result.text, [each.text for each in result.subagents]) == ("b", ["a", "bad", "b", "good"])
    assert shown(writer) == [("user", "Write."), ("assistant", "a"), ("user", "[critic]: bad")]
    rounds = LoopAgent(says("one", *"abc"), until=_never, rounds=2)
    assert len((await rounds.run_agent("Write.")).subagents) == 2


@pytest.mark.parametrize(("of_handover", "of_member"), [("last", None), (None, "last"), ("last", "all")])
async def test_a_handover_tells_what_it_is_about_and_shows_what_it_is_to_show(of_handover: Any, of_member: Any) -> None:
    guide = agent("guide", turn(text("One moment."), tool_call("transfer_to_desk", {"number": 5})))
    desk = says("desk", "Done.", "Anything else?")
    handovers = {"desk": Handover(arguments=Order, sees=of_handover)}
    team = HandoffAgent(guide, Member(desk, sees=of_member), handovers=handovers, strict=True)
    assert (await team.run_agent("My order, please.")).text == "Done."
    offered = (guide.inputs[0].tools or [])[0]
    assert offered.parameters == Order.model_json_schema()
    assert shown(desk) == [("user", "[guide]: One moment."), ("user", '[guide]: {"number": 5}')]
    await team.run_agent("Thanks.")
    assert shown(desk)[-1] == ("user", "Thanks.")


async def test_a_handover_has_another_name_where_the_caller_has_a_tool_of_that_name() -> None:
    names = ["transfer_to_desk", "transfer_to_desk_here"]
    guide, desk = agent("guide", turn(tool_call(f"{names[1]}_here"))), says("desk", "Done.")
    given = [Tool(name=each, description="Of a team around this one.", parameters={}) for each in names]
    result = await HandoffAgent(guide, desk, strict=True).run_agent("Hi", tools=given)
    assert result.text == "Done."
    assert [each.name for each in guide.inputs[0].tools or ()] == [*names, f"{names[1]}_here"]


async def test_a_handover_beside_other_calls_happens_after_their_results() -> None:
    look = Tool(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
    guide = agent("guide", turn(tool_call("transfer_to_desk"), tool_call("look")))
    desk = says("desk", "Done.")
    team = HandoffAgent(guide, desk, tools=[look], strict=True)
    (call,) = (await team.run_agent("Hi")).pending_tool_calls
    assert desk.inputs == []
    result = await team.run_agent(tool_results={call.id: "seen"})
    assert (result.text, len(guide.inputs)) == ("Done.", 1)
    assert [content for role, content in told(team.messages) if role == "tool"] == ["Handed over to desk.", "seen"]


async def test_a_function_that_raises_an_exception_of_its_own_after_a_failure_has_the_member_asked_again() -> None:
    failing = agent("failing", turn(RunErrorEvent(message="overloaded")), turn(text("There.")))

    async def lead(team: Team) -> str:
        answer = None
        with suppress(RunFailedError):
            await team.run("spare", "Who?", on_error="raise")
            answer = await team.run("failing")
        if answer is None:
            raise LookupError("no answer")
        return answer.text

    team = TeamAgent(lead, spare=says("spare", "A", "B"), failing=failing, options={"strict": True})
    with pytest.raises(RunFailedError, match="the agent raised LookupError: no answer"):
        await team.run_agent("Hi")
    result = await team.run_agent()
    assert (result.result, [each.name for each in result.subagents]) == ("There.", ["failing"])


def test_options_that_mean_nothing_are_refused() -> None:
    one, never = says("one", "A"), cast("Any", "never")
    takes, rounds = (
        r"^handovers=\{'one': ...\} takes Handover",
        r"^LoopAgent\(rounds=...\) is a whole number from 1 up, not ",
    )
    mistakes: list[tuple[str, Callable[[], object]]] = [
        *(
            (r"retries is a whole number from 0 up, not ", partial(Member, one, retries=each))
            for each in (-1, True, never)
        ),
        ("^a team needs at least one member$", SequentialAgent),
        ("^a team needs members with different names, not ", partial(SequentialAgent, one, one)),
        ("^a team consists of agents, or Member", partial(SequentialAgent, never)),
        ("; give them one by one, without a list$", partial(SequentialAgent, cast("Any", [one]))),
        ("^on_error is 'raise' or 'continue', not 'never'", partial(SequentialAgent, one, on_error=never)),
        ("names no member of this team; there are: one$", partial(HandoffAgent, one, handovers={"two": Handover()})),
        (takes, partial(HandoffAgent, one, handovers={"one": never})),
        (takes, partial(HandoffAgent, one, handovers={"one": Handover(sees=never)})),
        ("fields of an object", partial(HandoffAgent, one, handovers={"one": Handover(arguments=int)})),
        ("^a RouterAgent needs a function that chooses, not 'never'", partial(RouterAgent, never, one=one)),
        ("^a LoopAgent needs a function that ends it", partial(LoopAgent, one, until=never)),
        *((rounds, partial(LoopAgent, one, until=bool, rounds=each)) for each in (0, True, never)),
        ("^a TeamAgent is led by an `async def`", partial(TeamAgent, never, one=one)),
    ]
    for message, make in mistakes:
        with pytest.raises(UsageError, match=message):
            SequentialAgent(cast("Member", make()))  # a team checks its members


@pytest.mark.parametrize(
    ("member", "prompt", "message"),
    [
        ("three", None, "^'three' is not a member of this team; there are: one, two$"),
        ("one", 5, "^a member is asked with text, or a list of texts, paths and content parts, not 5$"),
    ],
)
async def test_a_function_cannot_ask_what_is_no_member_or_no_prompt(member: str, prompt: Any, message: str) -> None:
    async def lead(team: Team) -> None:
        await team.run(member, prompt)

    with pytest.raises(UsageError, match=message):
        await TeamAgent(lead, one=says("one", "A"), two=says("two", "B")).run_agent("Hi")
