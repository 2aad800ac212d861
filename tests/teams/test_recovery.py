"""Teams that failed, were left or changed go on where they were: nothing that a member has done is done again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client import AbstractAgent, AGUIError, Approve, HttpAgent, Resolve, RunFailedError, UsageError
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.teams import Member, ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, interrupt, patch, pause, state, text, tool_call, turn
from support.team_members import agent, pay_tool, payer, resumed, says, shown, told

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

BROKEN = RunErrorEvent(message="broken")


def asks(name: str = "asker") -> ScriptedAgent:
    return agent(name, turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")))


def flaky(name: str = "flaky") -> ScriptedAgent:
    """An agent that fails once, in the middle of its words."""
    return agent(name, turn(text("Half."), BROKEN), turn(text("Whole.")))


def counts(*members: ScriptedAgent) -> list[int]:
    return [len(each.inputs) for each in members]


@pytest.mark.parametrize("place", ["in the process", "served"])
@pytest.mark.parametrize("way", ["no prompt", "the same answer"])
async def test_a_resumed_run_that_failed_goes_on_with_the_member_that_failed(place: str, way: str) -> None:
    first, asker, failing = says("first", "F"), asks(), flaky()
    team: AbstractAgent = SequentialAgent(first, asker, failing, strict=True)
    if place == "served":
        team = HttpAgent("http://team/", app=agent_app(team), strict=True)
    (asked,) = (await team.run_agent("Hi")).interrupts
    answers: Any = {asked.id: Resolve(True)}
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent(resume=answers)
    result = await resumed(team, **({} if way == "no prompt" else {"resume": answers}))
    assert (result.text, result.state, counts(first, asker, failing)) == ("Whole.", {}, [1, 2, 2])
    assert shown(failing) == [
        ("user", "Hi"),
        ("user", "[first]: F"),
        ("user", "[asker]: Sure?"),
        ("user", "[asker]: Done."),
    ]
    assert told(team.messages)[-1] == ("assistant", "Whole.")
    assert "Half." not in [message.content for message in team.messages]


async def test_a_team_that_failed_before_anything_was_asked_goes_on_through_any_depth_and_once_is_once() -> None:
    drawn: list[int] = []
    first, second, failing = says("first", "F"), says("second", "S"), flaky()
    inner = SequentialAgent(second, failing, agent_id="inner")

    def draw() -> int:
        drawn.append(len(drawn))
        return len(drawn)

    async def lead(team: Team) -> str:
        number = await team.once(draw)
        await team.say("Go.")
        await team.run(first)
        return f"{number} {(await team.run(inner)).text}"

    team = TeamAgent(lead, first=first, inner=inner, options={"strict": True})
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent("Hi")
    result = await resumed(team)
    assert (result.result, drawn, result.state) == ("1 Whole.", [0], {})
    assert counts(first, second, failing) == [1, 1, 2]
    assert [content for _, content in told(team.messages)] == ["Hi", "Go.", "F", "S", "Whole."]


async def test_a_new_prompt_after_a_failure_begins_anew() -> None:
    first, failing = says("first", "F"), flaky()
    team = SequentialAgent(first, failing, strict=True)
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent("Hi")
    result = await resumed(team, prompt="Again")
    assert (result.text, result.state, counts(first, failing)) == ("Whole.", {}, [2, 2])


async def test_a_run_without_a_prompt_goes_on_unless_the_conversation_it_began_with_is_gone() -> None:
    for begins_with, first_runs in (("Hi", 2), (None, 1)):
        first, failing = says("first", "F", "F"), flaky()
        team = SequentialAgent(first, failing, strict=True)
        with pytest.raises(RunFailedError, match="broken"):
            await team.run_agent(begins_with)
        team.set_messages([])
        result = await team.run_agent()
        assert (result.text, result.state, counts(first, failing)) == ("Whole.", {}, [first_runs, 2])


async def test_a_call_that_was_approved_is_made_once_even_if_the_member_fails_after_it() -> None:
    paid: list[int] = []
    call = tool_call("pay", {"amount": 5}, tool_call_id="p1")
    payer = agent("payer", turn(call), turn(text("Half"), BROKEN), turn(text("Paid.")), tools=[pay_tool(paid)])
    team = SequentialAgent(SequentialAgent(payer, agent_id="inner"), strict=True)
    (asked,) = (await team.run_agent("Pay")).interrupts
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent(resume={asked.id: Approve()})
    result = await resumed(team, resume={asked.id: Approve()})
    assert (result.text, paid, result.state) == ("Paid.", [5], {})
    assert shown(payer) == [("user", "Pay"), ("assistant", None), ("tool", "paid")]


async def test_members_that_a_failure_cancelled_are_asked_again_and_those_that_were_done_or_wait_are_not() -> None:
    done, asker, slow = says("done", "D"), asks(), agent("slow", turn(text("S"), pause(60)), turn(text("Slow.")))
    failing = agent("failing", turn(pause(0.02), text("Half."), BROKEN), turn(text("Whole.")))
    team = ParallelAgent(done, asker, slow, failing, strict=True)
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent("Hi")
    (asked,) = (await resumed(team)).interrupts
    assert counts(done, asker, slow, failing) == [1, 1, 2, 2]
    result = await resumed(team, resume={asked.id: Resolve(True)})
    assert {each.name: each.text for each in result.subagents} == {"asker": "Done."}
    assert (counts(done, asker, slow, failing), result.state) == ([1, 2, 2, 2], {})


@pytest.mark.parametrize("way", ["caught", "caught and called again", "continued"])
async def test_calls_that_wait_when_a_team_goes_on_without_them_have_one_result_that_says_so(way: str) -> None:
    paid: list[int] = []
    member, failing = payer(paid), agent("failing", turn(pause(0.02), BROKEN))

    async def lead(team: Team) -> None:
        with suppress(RunFailedError):
            await team.gather("payer", "failing")
        if "again" in way:
            await team.run("payer")

    inner = Member(ParallelAgent(member, failing, agent_id="inner"), on_error="continue")
    team: AbstractAgent = SequentialAgent(inner, says("last", "L"), strict=True)
    if way != "continued":
        team = TeamAgent(lead, payer=member, failing=failing, options={"strict": True})
    result = await team.run_agent("Hi")
    [said] = [each.content for each in result.messages if each.role == "tool"]
    assert str(said).endswith(" before this call was answered.")
    assert (result.interrupts, result.state, paid) == ([], {}, [])


async def test_a_failure_that_the_function_caught_is_caught_again_and_the_later_one_is_asked() -> None:
    caught, failing = agent("caught", turn(BROKEN)), flaky()

    async def lead(team: Team) -> str:
        try:
            await team.run(caught)
        except RunFailedError:
            await team.say("Without.")
        return (await team.run(failing)).text

    team = TeamAgent(lead, caught=caught, failing=failing, options={"strict": True})
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent("Hi")
    result = await resumed(team)
    assert (result.result, counts(caught, failing)) == ("Whole.", [1, 2])


async def test_a_member_whose_server_is_not_reachable_is_asked_when_it_is_in_a_stored_thread() -> None:
    first, asker, last = says("first", "F"), asks(), says("last", "L")
    away = HttpAgent("http://127.0.0.1:9/", agent_id="last")
    async with Store() as store:
        threads = store.threads
        async with threads.open("t", SequentialAgent(first, asker, away, strict=True)) as team:
            (asked,) = (await team.run_agent("Hi")).interrupts
            with pytest.raises(AGUIError, match="nothing listens there"):
                await team.run_agent(resume={asked.id: Resolve(True)})
        back = HttpAgent("http://last/", app=agent_app(last), agent_id="last")
        async with threads.open("t", SequentialAgent(first, asker, back, strict=True)) as team:
            result = await team.run_agent(resume={asked.id: Resolve(True)})
    assert (result.text, result.state, counts(first, asker, last)) == ("L", {}, [1, 2, 1])


async def test_words_that_a_retry_took_back_stay_away_if_the_team_is_cut_before_that_was_read() -> None:
    second, scopes = anyio.Event(), list[anyio.CancelScope]()

    async def retried(_input: RunAgentInput) -> AsyncIterator[Any]:
        if len(failing.inputs) == 1:
            yield turn(text("Half."), BROKEN)
        else:
            yield turn(text("Who"))
            second.set()
            yield turn(pause(60))

    failing = ScriptedAgent(retried, agent_id="failing")
    inner = SequentialAgent(Member(failing, retries=1), agent_id="inner")

    async def lead(team: Team) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await team.run("inner")

    async def save(_checkpoint: object) -> None:
        # While a checkpoint is saved, the members go on, and nobody reads what they do.
        if scopes and not scopes[0].cancel_called:
            await second.wait()
            scopes[0].cancel()

    team = TeamAgent(lead, inner=inner, options={"strict": True})
    team.save_with(save)
    with anyio.fail_after(5):
        result = await team.run_agent("Hi")
    assert [content for _, content in told(result.messages)] == ["Hi", "Who"]


async def test_an_answer_under_the_id_of_words_that_a_retry_took_back_is_the_text_of_the_result() -> None:
    call = tool_call("pay", {"amount": 5}, tool_call_id="p1")
    half = turn(text("Half."), BROKEN)
    turns = turn(text("Now."), call), half, half, turn(text("Whole."))
    payer = agent("payer", *turns, tools=[pay_tool([], approval="never")])
    inner = SequentialAgent(Member(payer, retries=1), agent_id="inner")
    team = SequentialAgent(Member(inner, retries=1), strict=True)
    result = await team.run_agent("Pay")
    assert (result.text, told(result.messages)[-1]) == ("Whole.", ("assistant", "Whole."))


async def test_a_run_that_was_left_goes_on_where_it_was() -> None:
    first, slow = says("first", "F"), agent("slow", turn(text("Half."), pause(60)), turn(text("Whole.")))
    team = SequentialAgent(first, slow, strict=True)
    async with team.stream("Hi") as run:
        async for event in run:
            if getattr(event, "delta", None) == "Half.":
                break
    result = await resumed(team)
    assert (result.text, counts(first, slow)) == ("Whole.", [1, 2])
    assert told(team.messages) == [("user", "Hi"), ("assistant", "F"), ("assistant", "Whole.")]


async def test_results_are_found_by_their_prompts_and_what_is_new_is_asked() -> None:
    guide = agent("guide", turn(text("One.")), turn(text("Two.")), turn(text("New.")))
    prompts = ["one", "two"]

    async def lead(team: Team) -> list[str]:
        answers = [(await team.run(guide, prompt)).text for prompt in prompts]
        return [*answers, (await team.run("asker")).text]

    team = TeamAgent(lead, guide=guide, asker=asks())
    (asked,) = (await team.run_agent("Hi")).interrupts
    prompts[:] = ["new", "two"]
    result = await resumed(team, resume={asked.id: Resolve(True)})
    assert result.result == ["New.", "Two.", "Done."]
    assert [(each.rule, each.message) for each in result.warnings] == [
        ("INT-4", "guide is asked anew, as the team asked it something else when the run began")
    ]


async def test_an_answer_reaches_no_other_question() -> None:
    asker = agent("asker", turn(text("Sure?"), outcome=interrupt("Pay?")), turn(text("I was asked anew.")))
    prompts = ["pay"]

    async def lead(team: Team) -> str:
        return (await team.run(asker, prompts[0])).text

    team = TeamAgent(lead, asker=asker)
    (asked,) = (await team.run_agent("Hi")).interrupts
    prompts[0] = "delete everything"
    result = await resumed(team, resume={asked.id: Resolve(True)})
    assert (result.result, asker.inputs[-1].resume) == ("I was asked anew.", None)
    assert [(each.rule, each.count) for each in result.warnings] == [("INT-4", 2)]


async def test_one_member_is_asked_many_things_at_once_each_in_a_conversation_of_its_own() -> None:
    at_work, most = 0, 0

    async def answers(input: RunAgentInput) -> AsyncIterator[Any]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        item = str(input.messages[-1].content)
        yield turn(pause(0), text(item.upper(), message_id="same"), tool_call("look", tool_call_id="call_0"))
        at_work -= 1

    worker = agent("worker", answers)

    async def lead(team: Team) -> list[str]:
        return [each.text for each in await team.map("worker", ["a", "b", "c", "d", "e"], at_once=2)]

    team = TeamAgent(lead, worker=worker, options={"strict": True})
    result = await team.run_agent("Hi")
    assert (result.result, most) == (["A", "B", "C", "D", "E"], 2)
    assert len({each.thread_id for each in worker.inputs}) == 5
    assert [len(each.messages) for each in worker.inputs] == [1] * 5


@pytest.mark.parametrize("at_once", [0, True, 1.5, "2"])
async def test_a_number_of_calls_at_once_that_means_nothing_is_refused(at_once: Any) -> None:
    async def lead(team: Team) -> None:
        await team.map("worker", ["a"], at_once=at_once)

    with pytest.raises(UsageError, match=r"^team.map\(at_once=...\) is a whole number from 1 up, or None, not "):
        await TeamAgent(lead, worker=says("worker", "A")).run_agent("Hi")


async def test_many_questions_of_one_member_are_all_answered_and_a_failure_in_between_costs_one_call() -> None:
    asked_for: list[str] = []

    async def asks_or_fails(input: RunAgentInput) -> AsyncIterator[Any]:
        item = next(str(each.content) for each in input.messages if each.role == "user")
        asked_for.append(item)
        if item == "b" and asked_for.count("b") < 3:
            yield turn(text("Half"), BROKEN)
        elif item == "c" and not input.resume:
            yield turn(text("c?"), outcome=interrupt("c?"))
        else:
            yield turn(text(f"{item}!"))

    async def lead(team: Team) -> list[str | None]:
        found = await team.map("worker", ["a", "b", "c", "d"], at_once=1)
        return [each.text for each in found]

    team = TeamAgent(lead, worker=agent("worker", asks_or_fails), options={"strict": True})
    for _ in range(2):
        with pytest.raises(RunFailedError, match="broken"):
            await team.run_agent(*(["Hi"] if not asked_for else []))
    (question,) = (await resumed(team)).interrupts
    result = await resumed(team, resume={question.id: Resolve(True)})
    assert (result.result, "".join(asked_for)) == (["a!", "b!", "c!", "d!"], "abbbcdc")


async def test_calls_of_one_member_may_have_the_same_ids_and_owners_that_change_fail_no_team() -> None:
    async def numbered(input: RunAgentInput) -> AsyncIterator[Any]:
        from agui_client.testing import reasoning, tool_result

        steps = [tool_call("look", {"n": len(input.messages)}, tool_call_id="call_0")]
        yield turn(reasoning("Hm", message_id="thought"), text("T", message_id="m"), *steps, tool_result("sun"))

    worker = agent("worker", numbered)

    async def lead(team: Team) -> None:
        await team.run(worker, "one")
        await team.run(worker, "two")
        await team.run(worker, "three")

    team = TeamAgent(lead, worker=worker, options={"strict": True})
    result = await team.run_agent("Hi")
    calls = [call for message in team.messages for call in getattr(message, "tool_calls", None) or ()]
    assert [each.id for each in calls] == ["worker/call_0", "worker/call_0~2", "worker/call_0~3"]
    assert ({each.status for each in result.subagents}, len(team.pending_tool_calls)) == ({"success"}, 0)
    down = [call.id for message in worker.inputs[-1].messages for call in getattr(message, "tool_calls", None) or ()]
    assert down == ["call_0", "call_0"]


async def test_a_member_sees_what_a_parallel_team_before_it_said_and_of_a_team_with_a_speaker_the_speaker() -> None:
    both = ParallelAgent(
        says("left", "L"), SequentialAgent(says("x", "X"), says("y", "Y"), agent_id="chain"), agent_id="both"
    )
    judged = ParallelAgent(says("one", "1"), then=says("judge", "J"), agent_id="judged")
    last = says("last", "End.")
    await SequentialAgent(both, judged, last, strict=True).run_agent("Hi")
    said = [content for _, content in shown(last)]
    assert (said[0], sorted(said[1:3]), said[3:]) == ("Hi", ["[both/chain]: Y", "[both/left]: L"], ["[judged]: J"])


async def test_the_shared_state_of_members_side_by_side_is_merged() -> None:
    def writes(name: str, *steps: Any) -> ScriptedAgent:
        return agent(name, turn(pause(0), *steps))

    one = writes("one", state({"n": 0, "one": 1, "plan": ["a"], "deep": {"x": 1}}))
    two = writes(
        "two", patch({"op": "add", "path": "/two", "value": 2}, {"op": "add", "path": "/plan/-", "value": "c"})
    )
    three = writes("three", state({"n": 3, "plan": ["a"], "deep": {"y": 2}}))
    team = ParallelAgent(*(Member(each, state="shared") for each in (one, two, three)), strict=True)
    team.set_state({"n": 0, "plan": ["a"], "deep": {}})
    result = await team.run_agent("Hi")
    assert result.state == {"n": 3, "one": 1, "two": 2, "plan": ["a", "c"], "deep": {"x": 1, "y": 2}}
    assert result.warnings == []


@pytest.mark.parametrize("value", [5, [1], "text"])
async def test_a_state_that_is_no_object_survives_a_failure(value: Any) -> None:
    shared = Member(agent("writer", turn(state(value))), state="shared")
    failing = flaky()
    team = SequentialAgent(shared, failing, strict=True)
    team.set_state({"before": 1})
    with pytest.raises(RunFailedError, match="broken"):
        await team.run_agent("Hi")
    result = await resumed(team)
    assert (result.text, result.state) == ("Whole.", value)
