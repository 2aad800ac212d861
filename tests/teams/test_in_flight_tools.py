"""Tools of members that were at work when the program ended: what was begun is not begun again, and the member goes on.

A saved conversation is what a program leaves that is killed before its next save.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.lowlevel
import pytest
from ag_ui.core import (
    RunAgentInput,
    ToolCallResultEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import Approve, ConversationSnapshot, RunFailedError, tool
from agui_client.asgi import served_run
from agui_client.teams import Member, SequentialAgent, TeamAgent
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.payers import KEYS, payers, results_of
from support.team_members import shown

pytestmark = pytest.mark.anyio


@dataclass
class Kept:
    """A conversation as it was saved, and the functions that had begun until the next save."""

    document: ConversationSnapshot
    begun: list[str]


async def saved_run(team: TeamAgent, begun: list[str]) -> list[Kept]:
    """Run a team; return all that was saved until the run ended."""
    kept: list[Kept] = []

    async def save(checkpoint: Any) -> None:
        if kept:
            kept[-1].begun = [*begun]
        kept.append(Kept(checkpoint.snapshot(), []))

    team.save_with(save)
    await team.run_agent("Go")
    # At the end of the run, the journal is gone, and a team would begin another run.
    return [each for each in kept if each.document.state or each is kept[0]]


# About ninety documents; with AGUI_CLIENT_KILLS, a run for each, otherwise for one of seven.
_STEP = 1 if "AGUI_CLIENT_KILLS" in os.environ else 7


@pytest.mark.one_loop
@pytest.mark.parametrize("at_once", [1, 32])
async def test_a_team_goes_on_from_whatever_was_saved_and_begins_no_payment_twice(at_once: int) -> None:
    begun, ended = list[str](), list[str]()

    async def at(what: str, key: str) -> None:
        (begun if what == "begins" else ended).append(key)
        await anyio.lowlevel.checkpoint()

    team = payers(at, at_once=at_once)
    all_kept = await saved_run(team, begun)
    assert set(begun) == KEYS
    assert results_of(team.messages) == {key: f"{'seen' if 'look' in key else 'paid'} {key}" for key in KEYS}
    found = Counter[str]()
    for kept in all_kept[::_STEP]:
        before = set(kept.begun)
        begun.clear()
        again = payers(at, at_once=at_once)
        again.restore(ConversationSnapshot.model_validate_json(kept.document.model_dump_json(by_alias=True)))
        has_prompt = any(each.role == "user" for each in again.messages)
        async with again.stream(None if has_prompt else "Go") as run:
            sent = Counter([event.tool_call_id async for event in run if isinstance(event, ToolCallResultEvent)])
            result = await run.result()
        results = results_of(again.messages)
        assert {*sent.values()} <= {1}
        assert [key for key in begun if key in before and "pay" in key] == []
        assert [key for key, count in Counter(begun).items() if count > 1] == []
        assert results.keys() == KEYS
        assert result.state == {}
        for key, content in results.items():
            how = content.partition(":")[0]
            found[how] += 1
            if how == "unknown":
                # It may have been saved as begun, and not begun yet.
                assert "pay" in key
                assert key not in begun
            else:
                assert content == f"{'seen' if 'look' in key else 'paid'} {key}"
                assert key in before | set(begun)
    assert "unknown" in found
    # Calls of a run that had not ended are partial words, which leave the conversation.
    assert "no result" not in found


def payer(paid: list[int], *, approval: Any = "never") -> ScriptedAgent:
    """A member that pays 1 and 2 in one round; the first payment of 2 does not end."""

    @tool(approval=approval)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        if amount == 2 and paid.count(2) == 1:
            await anyio.sleep_forever()
        return f"paid {amount}"

    calls = [tool_call("pay", {"amount": each}, tool_call_id=f"p{each}") for each in (1, 2)]

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        yield turn(text("Paid.")) if any(each.role == "tool" for each in input.messages) else turn(*calls)

    return ScriptedAgent(play, agent_id="payer", tools=[pay])


def tool_results(team: TeamAgent | SequentialAgent) -> list[str]:
    """The results of a team's conversation."""
    return [str(each.content) for each in team.messages if isinstance(each, ToolMessage)]


async def cut(team: SequentialAgent, paid: list[int], prompt: str | None = None, **options: Any) -> SequentialAgent:
    """Run a team until it has begun both payments, and one has ended; return another with what was saved then."""
    saved: list[ConversationSnapshot] = []

    async def save(checkpoint: Any) -> None:
        saved.append(checkpoint.snapshot())

    team.save_with(save)
    with anyio.move_on_after(10) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(team.run_agent, prompt, **options))
            while len(paid) < 2 or "paid 1" not in saved[-1].model_dump_json():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert not scope.cancelled_caught
    found = next(each for each in saved if "paid 1" in each.model_dump_json())
    again = SequentialAgent(payer(paid))
    again.restore(ConversationSnapshot.model_validate_json(found.model_dump_json(by_alias=True)))
    return again


async def test_a_member_that_fails_while_a_tool_is_at_work_is_told_so_and_keeps_the_result_of_the_other() -> None:
    paid: list[int] = []
    member = payer(paid)
    team = SequentialAgent(Member(member, timeout=1.0))
    with pytest.raises(RunFailedError) as late:
        await team.run_agent("Pay")
    assert (isinstance(late.value.raised, TimeoutError), late.value.member) == (True, "payer")
    assert late.value.partial is not None
    result = await team.run_agent()
    assert (sorted(paid), result.text) == ([1, 2], "Paid.")
    assert [content for role, content in shown(member) if role == "tool"] == ["paid 1", tool_results(team)[1]]
    assert tool_results(team)[1].startswith("unknown")


@pytest.mark.parametrize("prompt", [None, "And now?"])
async def test_whether_a_team_is_taken_up_or_asked_anew_its_member_learns_what_is_unknown(prompt: str | None) -> None:
    paid: list[int] = []
    again = await cut(SequentialAgent(payer(paid)), paid, "Pay")
    [member] = again.members
    assert isinstance(member.agent, ScriptedAgent)
    await again.run_agent(prompt)
    results = [content for role, content in shown(member.agent, 0) if role == "tool"]
    assert sorted(paid) == [1, 2]
    assert (results[0], results[1].partition(":")[0], len(results)) == ("paid 1", "unknown", 2)


async def test_what_a_member_has_begun_is_unknown_to_a_team_that_no_longer_has_it() -> None:
    paid: list[int] = []
    left = await cut(SequentialAgent(payer(paid)), paid, "Pay")
    team = SequentialAgent(Member(payer(paid), "another"))
    team.restore(left.snapshot())
    await team.run_agent()
    assert [each.partition(":")[0] for each in tool_results(team)] == ["paid 1", "unknown"]


async def test_a_payment_that_was_approved_and_begun_is_not_begun_again_with_the_same_approval() -> None:
    paid: list[int] = []
    team = SequentialAgent(payer(paid, approval="always"))
    asked = (await team.run_agent("Pay")).interrupts
    answers = {each.id: Approve() for each in asked}
    again = await cut(team, paid, resume=answers)
    result = await again.run_agent(resume=answers)
    assert (sorted(paid), result.text) == ([1, 2], "Paid.")
    assert [each.partition(":")[0] for each in tool_results(again)] == ["paid 1", "unknown"]


_BEGUN = {"tool_call_id": "p1", "message_id": "m", "status": "executing", "answered_by": "application"}


async def test_a_journal_with_many_teams_inside_each_other_does_not_hold_up_the_server() -> None:
    journal: dict[str, Any] = {"flow": "f"}
    for _ in range(60):
        journal = {"flow": "f", "calls": {"inner-01234567.0": {"team": journal, "pending": {"calls": [_BEGUN]}}}}
    given = RunAgentInput(
        thread_id="t",
        run_id="r",
        messages=[UserMessage(id="u", content="Pay")],
        state={"_team": {**journal, "after": "before"}},
        tools=[],
        context=[],
    )
    before = time.process_time()
    async with served_run(SequentialAgent(ScriptedAgent(turn(text("Paid.")))), given, trust_caller=True) as run:
        assert (await run.result()).text == "Paid."
    assert time.process_time() - before < 5
