"""Members that fail, hang or go on for ever, and runs that are left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Timer
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import AbstractAgent, AGUIError, FunctionAgent, RunFailedError, UsageError
from agui_client._core.transport.source import Source
from agui_client.teams import (
    HandoffAgent,
    Member,
    ParallelAgent,
    SequentialAgent,
    Team,
    TeamAgent,
    TeamLimitError,
    TeamLimits,
)
from agui_client.testing import Gate, Turn, pause, step, text, tool_call, turn
from support.team_members import FIVE, agent, events_of, says, shown, told

pytestmark = pytest.mark.anyio


async def test_members_that_hand_over_for_ever_come_to_a_limit() -> None:
    one, other = (agent(a, turn(tool_call(f"transfer_to_{b}"))) for a, b in (("one", "other"), ("other", "one")))
    with pytest.raises(TeamLimitError, match="handed over more than 3 times"):
        await HandoffAgent(one, other, limits=TeamLimits(handovers=3)).run_agent("Hi")


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
    with pytest.raises(RunFailedError, match="secret"):
        await events_of(team, into=events)
    assert "secret" not in json.dumps([event.model_dump(mode="json") for event in events])


async def test_teams_inside_each_other_come_to_a_limit() -> None:
    team: AbstractAgent = says("innermost", "I")
    for depth in range(3):
        team = SequentialAgent(team, agent_id=f"team-{depth}", limits=TeamLimits(depth=3))
    assert (await team.run_agent("Hi")).text == "I"
    with pytest.raises(TeamLimitError, match="more than 3 agents"):
        await SequentialAgent(team, agent_id="outermost").run_agent("Hi")


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["broken off", "cancelled"])
async def test_leaving_a_run_closes_every_member(is_cancelled: bool) -> None:
    closed: list[str] = []

    def hanging(name: str) -> AbstractAgent:
        async def hang(input: RunAgentInput) -> AsyncIterator[Any]:
            try:
                yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                closed.append(name)

        return FunctionAgent(hang, agent_id=name)

    team = ParallelAgent(hanging("one"), SequentialAgent(hanging("two"), agent_id="inner"))
    with anyio.CancelScope() as scope:
        async with team.stream("Hi") as run:
            count = 0
            async for event in run:
                count += isinstance(event, SubagentStartedEvent)
                if count < 3:
                    continue
                if not is_cancelled:
                    break
                scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert (sorted(closed), scope.cancelled_caught) == (["one", "two"], is_cancelled)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_a_member_that_cancels_itself_fails_the_team_and_cancels_nobody_else(kind: Any) -> None:
    async def cancelled(input: RunAgentInput) -> AsyncIterator[Event]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise asyncio.CancelledError

    with pytest.raises(AGUIError, match=r"one: the agent raised RuntimeError: .* had been cancelled"):
        await kind(FunctionAgent(cancelled, agent_id="one"), says("two", "Fine.")).run_agent("Hi")


async def test_a_member_that_is_called_again_after_its_failure_goes_on_with_its_own_words() -> None:
    member = agent("member", turn(text("Half."), RunErrorEvent(message="overloaded")), turn(text("Whole.")))

    async def lead(team: Team) -> None:
        with suppress(RunFailedError):
            await team.run(member)
        await team.run(member, speaks=True)

    team = TeamAgent(lead, member=member, options={"strict": True})
    assert (await team.run_agent("Hi")).text == "Whole."
    assert told(team.messages)[1:] == [("assistant", "Half."), ("assistant", "Whole.")]
    assert shown(member) == [("user", "Hi"), ("assistant", "Half.")]


async def test_a_call_that_a_member_left_open_is_answered_in_what_it_is_shown_when_it_is_called_again() -> None:
    member = agent("member", turn(tool_call("look", {}), RunErrorEvent(message="overloaded")), turn(text("Whole.")))

    async def lead(team: Team) -> None:
        await team.run(member, on_error="continue")
        await team.run(member, speaks=True)

    await TeamAgent(lead, member=member, options={"strict": True}).run_agent("Hi")
    assert shown(member)[-1] == ("tool", "member failed before this call was answered.")


async def test_tokens_of_a_team_that_did_not_come_to_its_end_are_counted() -> None:
    inner = SequentialAgent(says("one", "A"), says("two", "B"), agent_id="inner", limits=TeamLimits(calls=1))
    team = SequentialAgent(inner, says("three", "C"), on_error="continue", strict=True)
    result = await team.run_agent("Hi")
    assert {each.name: each.usage for each in result.subagents} == {"inner": FIVE, "one": FIVE, "three": FIVE}
    assert [each.total_tokens for each in result.usage] == [10]


async def test_a_member_whose_events_nobody_reads_waits_and_none_of_them_is_lost() -> None:
    sent, number = 0, 500

    async def talk(input: RunAgentInput) -> AsyncIterator[Event]:
        nonlocal sent
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id="m")
        for _ in range(number):
            sent += 1
            yield TextMessageContentEvent(message_id="m", delta="x")
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    async with SequentialAgent(FunctionAgent(talk), strict=True).stream("Hi") as run:
        async for event in run:
            if isinstance(event, TextMessageStartEvent):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert 100 < sent < 400
        assert (await run.result()).text == "x" * number


async def test_a_function_whose_events_nobody_reads_waits_and_none_of_them_is_lost() -> None:
    sent, number = 0, 500

    async def lead(team: Team) -> None:
        nonlocal sent
        for _ in range(number):
            sent += 1
            await team.emit(CustomEvent(name="note", value=sent))

    async with TeamAgent(lead, one=says("one", "A"), options={"strict": True}).stream("Hi") as run:
        await anext(aiter(run))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert 100 < sent < 400
        values = [event.value async for event in run if isinstance(event, CustomEvent)]
    assert values == list(range(1, number + 1))


async def test_a_team_whose_run_is_aborted_ends_at_once() -> None:
    slow = agent("slow", turn(text("Half."), pause(60)))
    team = SequentialAgent(SequentialAgent(slow, agent_id="inner"), strict=True)
    with anyio.fail_after(10):
        async with team.stream("Hi") as run:
            async for event in run:
                if getattr(event, "delta", None) == "Half.":
                    Timer(0.0, team.abort_run).start()
            result = await run.result()
            assert (result.aborted, [(each.name, each.status) for each in result.subagents]) == (
                True,
                [("inner", "abandoned"), ("slow", "abandoned")],
            )


@pytest.mark.parametrize("has_begun", [True, False], ids=["after its first event", "before it began"])
async def test_a_run_that_was_closed_gives_no_further_event(*, has_begun: bool) -> None:
    one = says("one", "A")
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], state={}, tools=[], context=[])
    events = SequentialAgent(one).run(given)
    assert isinstance(events, Source)
    if has_begun:
        assert isinstance(await anext(events), RunStartedEvent)
    await events.aclose()
    assert [event async for event in events] == []
    assert (await events.read(), len(one.inputs)) == (None, int(has_begun))


async def test_no_further_member_is_called_when_the_tokens_are_used() -> None:
    third = says("third", "Never.")
    with pytest.raises(TeamLimitError, match="used 10 tokens"):
        await SequentialAgent(says("one", "A"), says("two", "B"), third, limits=TeamLimits(tokens=7)).run_agent("Hi")
    assert third.inputs == []


async def test_no_more_members_are_at_work_at_once_than_they_may() -> None:
    at_work: set[str] = set()
    most = 0

    async def work(input: RunAgentInput) -> AsyncIterator[Event]:
        nonlocal most
        at_work.add(input.thread_id)
        most = max(most, len(at_work))
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        await anyio.lowlevel.checkpoint()
        at_work.remove(input.thread_id)
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    members = [FunctionAgent(work, agent_id=f"m{number}") for number in range(8)]
    result = await ParallelAgent(*members, limits=TeamLimits(at_once=3), strict=True).run_agent("Hi")
    assert (most, {each.status for each in result.subagents}) == (3, {"success"})


async def test_a_run_that_takes_too_long_is_given_up_even_if_its_function_goes_on_after_failures() -> None:
    slow = agent("slow", turn(pause(60)))

    async def lead(team: Team) -> None:
        while True:
            with suppress(AGUIError):
                await team.run(slow)

    with pytest.raises(TeamLimitError, match=r"longer than 0\.05 seconds"):
        await TeamAgent(lead, slow=slow, limits=TeamLimits(seconds=0.05)).run_agent("Hi")
    assert len(slow.inputs) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_calls_that_a_function_left_behind_are_waited_for_and_end_with_the_run() -> None:
    gate, closed = Gate(), anyio.Event()

    async def hang(input: RunAgentInput) -> AsyncIterator[Any]:
        try:
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            await anyio.sleep_forever()
        finally:
            closed.set()

    tasks: list[asyncio.Task[Any]] = []

    async def lead(team: Team) -> None:
        tasks.append(asyncio.create_task(team.run("slow")))
        while not slow.inputs:
            await anyio.lowlevel.checkpoint()
        gate.open()
        left.append(team)

    async def lead_on(team: Team) -> None:
        tasks.append(asyncio.create_task(team.run("hanging")))
        await anyio.sleep_forever()

    left: list[Team] = []
    slow = agent("slow", turn(gate, text("S")))
    result = await TeamAgent(lead, slow=slow, options={"strict": True}).run_agent("Hi")
    assert [(each.name, each.status, each.text) for each in result.subagents] == [("slow", "success", "S")]
    with pytest.raises(UsageError, match="run of its team was over"):
        await left[0].run("slow")
    async with TeamAgent(lead_on, hanging=FunctionAgent(hang)).stream("Hi") as run:
        async for event in run:
            if isinstance(event, SubagentStartedEvent):
                break
    with anyio.fail_after(10):
        await closed.wait()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    "options",
    [
        {"name": 5},
        {"name": "\ud800"},
        {"sees": "most"},
        {"memory": "day"},
        {"state": "kept"},
        {"tools": "look"},
        {"tools": b"look"},
        {"on_error": "ignore"},
        {"timeout": 0},
        {"timeout": float("nan")},
    ],
    ids=str,
)
def test_a_member_cannot_have_values_that_mean_nothing(options: Any) -> None:
    with pytest.raises(UsageError, match=r"Member|name of a member"):
        SequentialAgent(Member(says("one", "A"), **options))


@pytest.mark.parametrize(
    "given",
    [
        {"calls": 0},
        {"calls": None},
        {"at_once": 0},
        {"tokens": "5"},
        {"tokens": 0},
        {"depth": True},
        {"depth": 0},
        {"handovers": -1},
        {"handovers": None},
        {"seconds": -1},
        {"seconds": "5"},
    ],
    ids=str,
)
def test_limits_that_mean_nothing_are_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=f"TeamLimits\\({next(iter(given))}=...\\) is a"):
        SequentialAgent(says("one", "A"), limits=TeamLimits(**given))
    with pytest.raises(UsageError, match=r"limits= takes TeamLimits"):
        SequentialAgent(says("one", "A"), limits=given)


def test_the_smallest_limits_are_taken() -> None:
    least = TeamLimits(calls=1, handovers=0, depth=1, at_once=1, tokens=1, seconds=0.001)
    assert SequentialAgent(says("one", "A"), limits=least).members[0].name == "one"


async def test_tokens_of_a_member_are_counted_once_when_the_teams_around_it_are_stopped() -> None:
    is_told = anyio.Event()

    async def fail(input: RunAgentInput) -> AsyncIterator[Any]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        await is_told.wait()
        raise ValueError("broken")

    inner = ParallelAgent(says("quick", "A"), agent("slow", turn(text("B"), pause(60))), agent_id="inner")
    middle = SequentialAgent(inner, agent_id="middle")
    outer = ParallelAgent(middle, FunctionAgent(fail, agent_id="failing"), agent_id="outer")
    async with ParallelAgent(outer, on_error="continue", strict=True).stream("Hi") as run:
        async for event in run:
            if isinstance(event, SubagentFinishedEvent):
                is_told.set()
        result = await run.result()
    used = {each.name: each.usage for each in result.subagents if each.usage}
    assert (used["quick"], used["middle"], used["outer"], result.usage) == (FIVE, FIVE, FIVE, FIVE)
