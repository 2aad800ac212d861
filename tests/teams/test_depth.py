"""Flat teams, teams in teams, served and stored ones keep the same promises: one rule for a record at any depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent, SubagentFinishedEvent, Tool

from agui_client import AbstractAgent, Approve, FunctionTool, Resolve, RunFailedError, RunResult, tool
from agui_client.teams import LoopAgent, Member, ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import ScriptedAgent, interrupt, pause, text, tool_call, turn
from support.team_members import agent, nested, pay_tool, placed, saved_documents, says

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
DEPTHS, PLACES = ("flat", "inner", "innermost"), ("here", "served", "stored")
SAMPLED = {("flat", "here"), ("flat", "served"), ("inner", "stored"), ("innermost", "here"), ("innermost", "stored")}
"""What the fast tier has of all depths and places."""
at_any_depth = pytest.mark.parametrize("depth", range(3), ids=DEPTHS)
at_any_place = pytest.mark.parametrize(
    ("depth", "place"),
    [
        pytest.param(depth, place, id=f"{name}-{place}", marks=() if (name, place) in SAMPLED else pytest.mark.soak)
        for depth, name in enumerate(DEPTHS)
        for place in PLACES
    ],
)

LOOK = Tool(name="look", description="Looks.", parameters={"type": "object"})
UNKNOWN = "unknown: the tool was called, and stopped before it answered; it may have had its effect or not"
BROKEN = RunErrorEvent(message="broken")


class Fails:
    """An agent that fails in one of its runs, after it has waited for something."""

    def __init__(self, wait: Any, *, in_run: int = 1, asks: bool = False) -> None:
        self.runs, self._wait, self._fails_in, self._asks = 0, wait, in_run, asks

    async def __call__(self, input: RunAgentInput) -> AsyncIterator[Any]:
        self.runs += 1
        if self._asks and self.runs == 1:
            yield turn(text("Sure?"), outcome=interrupt("Proceed?"))
        elif self.runs == self._fails_in:
            await self._wait()
            yield turn(text("Half."), BROKEN)
        else:
            yield turn(text("Whole."))


def payer(pay: FunctionTool[..., Any]) -> ScriptedAgent:
    """A member that pays once."""

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        is_paid = any(each.role == "tool" for each in input.messages)
        yield turn(text("Paid.")) if is_paid else turn(text("Paying."), tool_call("pay", {"amount": 5}))

    return agent("payer", play, tools=[pay])


async def run_to_the_end(team: AbstractAgent, prompt: str | None = "Hi") -> tuple[RunResult, list[str]]:
    """Run a team and answer all that it asks; go on, without a prompt, after each failure."""
    asked: list[str] = []
    options: Any = {}
    for _ in range(8):
        try:
            result = await team.run_agent(prompt, tools=[LOOK], **options)
        except RunFailedError:
            options, prompt = {}, None
            continue
        if not result.interrupts and not result.pending_tool_calls:
            return result, asked
        asked += [*(each.message or "" for each in result.interrupts), *(["look"] * len(result.pending_tool_calls))]
        answers = {each.id: Approve() if "pay" in (each.message or "") else Resolve(True) for each in result.interrupts}
        options = {"resume": answers} if answers else {}
        options |= {"tool_results": {each.id: "sun" for each in result.pending_tool_calls}}
        prompt = None
    raise AssertionError(f"it asks for ever: {asked}")


@at_any_depth
async def test_a_member_whose_end_was_saved_is_never_asked_again(depth: int) -> None:
    work: list[str] = []

    def make() -> AbstractAgent:
        def member(name: str) -> ScriptedAgent:
            async def play(input: RunAgentInput) -> AsyncIterator[Any]:
                work.append(name)
                yield turn(text(name))

            return agent(name, play)

        return SequentialAgent(nested(SequentialAgent(member("a"), member("b")), depth), member("c"))

    documents = [each for each in await saved_documents(make(), "Go") if each.state]
    seen: set[str] = set()
    for document in documents:
        done = {str(each.content) for each in document.messages if each.role == "assistant"}
        work.clear()
        team = make()
        team.restore(document)
        await team.run_agent()
        # One of them may have been at work when the program ended, its words whole.
        assert not [each for each in sorted(done)[:-1] if each in work]
        seen.add("".join(work))
    assert {"abc", "bc", "c", ""} >= seen >= {"abc", "bc", "c"}


@at_any_depth
@pytest.mark.requirement("SEC-3")
async def test_an_approval_beside_a_member_at_work_is_asked_once_and_pays_once_after_a_kill(depth: int) -> None:
    paid: list[int] = []

    def make() -> AbstractAgent:
        slow = agent("slow", *[turn(pause(0.01), text("Slow."))] * 2)
        return ParallelAgent(slow, nested(payer(pay_tool(paid)), depth))

    documents = await saved_documents(make(), "Pay")
    # What waits for the answer is another run's.
    for document in [each for each in documents if each.state and not each.pending_interrupts]:
        paid.clear()
        team = make()
        team.restore(document)
        _, asked = await run_to_the_end(team, None)
        assert (asked, paid) == (['Allow the call of pay with {"amount": 5}?'], [5])


@at_any_place
@pytest.mark.parametrize("way", ["approval", "question", "callers tool", "question and callers tool"])
async def test_a_member_that_waits_when_another_one_fails_still_waits_and_is_asked_nothing_again(
    depth: int, place: str, way: str
) -> None:
    paid: list[int] = []
    outcome = interrupt("Proceed?") if "question" in way else None

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        is_answered = bool(input.resume) or any(each.role == "tool" for each in input.messages)
        calls = [tool_call("look", {})] if "callers" in way else []
        yield turn(text("Done.")) if is_answered else turn(text("Sure?"), *calls, outcome=outcome)

    asker = payer(pay_tool(paid)) if way == "approval" else agent("asker", play)
    waits, told = list[str](), anyio.Event()
    failing = Fails(told.wait)
    async with placed(ParallelAgent(nested(asker, depth), agent("failing", failing)), place) as team:

        @team.on(SubagentFinishedEvent)
        def _note(event: SubagentFinishedEvent) -> None:
            waits.append(event.subagent_run_id)
            if len(waits) > depth:
                told.set()

        result, asked = await run_to_the_end(team)
    assert len(asked) == (2 if "and" in way else 1)
    assert (paid, len(asker.inputs), failing.runs) == ([5] if way == "approval" else [], 2, 2)
    assert result.state == {}


@pytest.mark.parametrize("place", PLACES)
async def test_a_member_still_waits_when_the_team_around_it_fails_with_another_one(place: str) -> None:
    paid, told = list[int](), anyio.Event()
    asker, failing = payer(pay_tool(paid)), Fails(told.wait)
    team = nested(ParallelAgent(asker, agent("failing", failing), agent_id="inner"), 1)
    async with placed(team, place) as placed_team:

        @placed_team.on(SubagentFinishedEvent)
        def _note(event: SubagentFinishedEvent) -> None:
            told.set()

        result, asked = await run_to_the_end(placed_team)
    assert (asked, paid, len(asker.inputs)) == (['Allow the call of pay with {"amount": 5}?'], [5], 2)
    assert result.state == {}


@at_any_place
@pytest.mark.parametrize("approval", ["never", "always"])
async def test_a_tool_at_work_when_another_member_fails_is_unknown_and_not_begun_again(
    depth: int, place: str, approval: Any
) -> None:
    paid, shown, begins = list[int](), list[Any](), anyio.Event()

    @tool(approval=approval)
    async def pay(amount: int) -> None:
        """Pays, and never answers."""
        paid.append(amount)
        begins.set()
        await anyio.sleep_forever()

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        shown[:] = [each.content for each in input.messages if each.role == "tool"]
        yield turn(text("Hm.")) if shown else turn(tool_call("pay", {"amount": 5}))

    is_asked = approval == "always"
    failing = Fails(begins.wait, in_run=2 if is_asked else 1, asks=is_asked)
    both = ParallelAgent(nested(agent("payer", play, tools=[pay]), depth), agent("failing", failing))
    async with placed(both, place) as team:
        with anyio.fail_after(10):
            _, asked = await run_to_the_end(team)
    assert (paid, shown, len(asked)) == ([5], [UNKNOWN], 2 if is_asked else 0)


@at_any_place
@pytest.mark.parametrize(
    ("seconds", "way"),
    [
        pytest.param(0.0, "no prompt", id="before the other began-no prompt"),
        pytest.param(0.0, "the same answers", id="before the other began-the same answers", marks=pytest.mark.soak),
        pytest.param(0.03, "no prompt", id="while it is at work-no prompt", marks=pytest.mark.soak),
        pytest.param(0.03, "the same answers", id="while it is at work-the same answers"),
    ],
)
async def test_answers_to_several_members_are_kept_when_one_of_them_fails(
    depth: int, place: str, way: str, seconds: float
) -> None:
    runs = Counter[str]()

    def asker(name: str) -> AbstractAgent:
        async def play(input: RunAgentInput) -> AsyncIterator[Any]:
            runs[name] += 1
            if runs[name] == 1:
                yield turn(text("Sure?"), outcome=interrupt("Proceed?"))
            elif name == "failing" and runs[name] == 2:
                yield turn(pause(seconds), text("Half."), BROKEN)
            else:
                yield turn(pause(0.05), text("Yes." if input.resume else "Nobody answered."))

        return nested(agent(name, play), depth)

    async with placed(ParallelAgent(asker("failing"), SequentialAgent(asker("other"), agent_id="x")), place) as team:
        answers: Any = {each.id: Resolve(True) for each in (await team.run_agent("Hi")).interrupts}
        with pytest.raises(RunFailedError, match="broken"):
            await team.run_agent(resume=answers)
        result = await team.run_agent(**({} if way == "no prompt" else {"resume": answers}))
    said = [each.content for each in result.messages if each.role == "assistant"]
    assert (len(answers), result.interrupts, sorted(map(str, said))) == (2, [], ["Sure?", "Sure?", "Yes.", "Yes."])


@at_any_place
async def test_a_question_that_was_answered_is_not_asked_again_while_a_callers_tool_waits(
    depth: int, place: str
) -> None:
    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        has_all = input.resume and any(each.role == "tool" for each in input.messages)
        yield turn(text("Done.")) if has_all else turn(tool_call("look", {}), outcome=interrupt("Proceed?"))

    async with placed(SequentialAgent(nested(agent("member", play), depth)), place) as team:
        first = await team.run_agent("Hi", tools=[LOOK])
        then = await team.run_agent(tools=[LOOK], resume={each.id: Resolve(True) for each in first.interrupts})
        assert (len(first.interrupts), len(then.interrupts)) == (1, 0)
        [call] = then.pending_tool_calls
        assert (await team.run_agent(tools=[LOOK], tool_results={call.id: "sun"})).text == "Done."


@at_any_place
@pytest.mark.parametrize("way", ["question", "callers tool"])
async def test_the_text_of_a_result_is_what_the_team_said_before_it_waited(depth: int, place: str, way: str) -> None:
    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        is_answered = bool(input.resume) or any(each.role == "tool" for each in input.messages)
        waits = turn(tool_call("look", {})) if way == "callers tool" else turn(outcome=interrupt("Proceed?"))
        yield turn() if is_answered else waits

    async def lead(team: Team) -> str:
        await team.say("Said.")
        return (await team.run("drafts")).text

    drafts = LoopAgent(agent("writer", turn(text("Draft."))), agent("critic", play), until=lambda *_: True)
    async with placed(nested(TeamAgent(lead, drafts=drafts, options={"agent_id": "lead"}), depth), place) as team:
        result, asked = await run_to_the_end(team)
    assert (result.text, len(asked)) == ("Said.", 1)
    assert [each.text for each in result.subagents if each.name == "drafts"] == ["Draft."]
    if depth == 0:
        assert result.result == "Draft."


@at_any_depth
@pytest.mark.parametrize("way", ["answered", "failed", "retried"])
async def test_a_member_that_goes_on_sees_what_it_saw_first_and_not_what_its_siblings_said(
    depth: int, way: str
) -> None:
    seen: list[list[Any]] = []

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        seen.append([each.content for each in input.messages if each.role == "user"])
        if len(seen) > 1:
            yield turn(text("Done."))
        elif way == "answered":
            yield turn(outcome=interrupt("Proceed?"))
        else:
            yield turn(pause(0.03), text("Half."), BROKEN)

    member = Member(nested(agent("member", play), depth), "member", retries=1 if way == "retried" else 0)
    team = SequentialAgent(says("first", "F"), ParallelAgent(member, says("other", "O"), agent_id="both"))
    await run_to_the_end(team)
    assert seen == [["Hi", "[first]: F"]] * 2


@at_any_depth
async def test_a_retry_of_a_member_begins_where_it_failed(depth: int) -> None:
    paid, resumed = list[int](), list[bool]()
    team = SequentialAgent(payer(pay_tool(paid, approval="never")), says("poet", "P"), agent_id="team")

    async def play(input: RunAgentInput) -> AsyncIterator[Any]:
        resumed.append(bool(input.resume))
        turns = [
            turn(outcome=interrupt("Proceed?")),
            turn(tool_call("pay", {"amount": 1})),
            turn(text("Half."), BROKEN),
        ]
        yield turns[len(resumed) - 1] if len(resumed) < 4 else turn(text("Whole."))

    flaky = agent("flaky", play, tools=[pay_tool(paid, approval="never")])
    inner = nested(SequentialAgent(team, flaky, agent_id="inner"), depth)
    result, _ = await run_to_the_end(SequentialAgent(Member(inner, retries=1)))
    # The answer was used by the run before the one that failed.
    assert (paid, resumed) == ([5, 1], [False, True, False, False])
    said = [each.content for each in result.messages if each.role == "assistant" and each.content]
    assert said == ["Paying.", "Paid.", "P", "Whole."]
