"""A program that ends in the middle of a call: what people have said is saved, and the call goes on in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Interrupt,
    RunFinishedInterruptOutcome,
    ToolCall,
    UserMessage,
)

from agui_client import (
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    Resolve,
    RunObserver,
    ToolExecution,
    ToolLimits,
    tool,
)
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.conversation.pending import decision_about
from agui_client._core.run.continuing import Continuation
from agui_client._core.verbs.caller_run import caller_end
from agui_client.testing import ScriptedAgent, Turn, text, tool_call, turn
from agui_client.types import Checkpoint, RunScope, ToolDecision
from support.cut_calls import (
    ROUNDS,
    TEAMS,
    KilledError,
    World,
    decided_in,
    own_id,
    pending_in,
    results_in,
)

pytestmark = pytest.mark.anyio


def _asking() -> RunFinishedInterruptOutcome:
    return RunFinishedInterruptOutcome(type="interrupt", interrupts=[Interrupt(id="i", reason="confirmation")])


_PAYMENTS = [turn(*(tool_call("pay", {"to": each}) for each in ("ada", "dear", "old", "bob"))), turn(text("Done."))]
_STORIES: dict[str, Sequence[Turn]] = {
    "a tool": [turn(tool_call("look", {"at": "x"})), turn(text("Done."))],
    "payments": _PAYMENTS,
    "a question": [turn(tool_call("trip", {})), turn(text("Done."))],
    "an interrupt": [turn(outcome=_asking()), turn(text("Done."))],
    "two rounds": [turn(tool_call("look", {"at": "x"})), turn(tool_call("pay", {"to": "ada"})), turn(text("Done."))],
}


@pytest.mark.parametrize("name", _STORIES)
@pytest.mark.parametrize("goes_on", ["run_agent", "continued"])
@pytest.mark.requirement("SEC-3", "TOOL-10", "INT-7")
async def test_behind_each_save_a_call_goes_on_and_asks_nobody_what_was_said_before(name: str, goes_on: str) -> None:
    turns, whole = _STORIES[name], World()
    await whole.agent(*turns).run_agent("Hi")
    expected, made, total = whole.saved[-1][2], whole.called, len(whole.saved)
    for place in range(1, total):
        world = World()
        world.kill_at = place
        first = world.agent(*turns)
        with pytest.raises((KilledError, BaseExceptionGroup)):
            await first.run_agent("Hi")
        is_sent, asked, document = world.saved[-1]
        world.kill_at = None
        begun = [each.status for each in document.tool_calls].count(CallStatus.EXECUTING)
        # The run that was about to be sent, or was sent, is sent again.
        second = world.agent(*turns[len(world.sent) - is_sent :])
        second.restore(document)
        asked_before = Counter(world.asked)
        if goes_on == "run_agent":
            await second.run_agent()
        else:
            async with second.stream(Continuation(document=document, is_between_runs=not is_sent)) as run:  # type: ignore[arg-type]
                _ = [event async for event in run]
        where = f"{name}, behind save {place}"
        assert not [key for key, count in world.called.items() if count > made[key]], where
        assert not [key for key, count in world.asked.items() if key in asked and count > asked_before[key]], where
        after, unknown = results_in(second.snapshot()), begun
        assert len([each for each in after if each.startswith("unknown")]) == unknown, where
        if not begun:
            assert (after, second.messages[-1].content) == (results_in(expected), "Done."), where


def _answers_nothing(_: Interrupt) -> None:
    """Leave each question to the caller."""


@pytest.mark.parametrize("place", ["team", "team in a team", "side by side"])
async def test_what_is_decided_about_calls_of_a_member_is_in_its_teams_journal_while_they_wait(place: str) -> None:
    world = World()
    await TEAMS[place](world, ROUNDS["payments"]).save_with(world.save).run_agent("Hi")
    waiting = [({*map(own_id, decided_in(each.state))}, results_in(each)) for _, _, each in world.saved]
    # Calls are executed side by side, and trio begins tasks in any order: any of the three may be the last one.
    *_, last = (each for each in world.called if each not in ("x", "b"))
    last_id = {"ada": "a-0-0", "new": "a-0-2", "bob": "a-0-3"}[last]
    # Its approval, and the denial, which is a result, while the other payments are made.
    assert any(last_id in decided and "too dear" in results for decided, results in waiting)
    assert len([decided for decided, _ in waiting if last_id in decided]) > 1


@pytest.mark.parametrize("place", ["team", "team in a team", "side by side"])
@pytest.mark.requirement("INT-7")
async def test_the_answer_to_a_members_question_is_in_its_teams_journal_before_the_next_one_is_asked(
    place: str,
) -> None:
    world = World()
    await TEAMS[place](world, ROUNDS["an interrupt"]).save_with(world.save).run_agent("Hi")
    kept = [
        [each for pending in pending_in(document.state) for each in pending.get("answers", ())]
        for _, _, document in world.saved
    ]
    answered = [[each["interruptId"] for each in answers] for answers in kept]
    assert [each for each, _ in groupby(answered)] == [[], ["i"], ["i", "j"], []]


async def test_an_approval_is_saved_while_its_call_waits_for_its_turn() -> None:
    world, gate, begun, asked = World(), anyio.Event(), anyio.Event(), list[str]()

    @tool(approval="always")
    async def pay(to: str) -> str:
        begun.set()
        await gate.wait()
        return f"paid {to}"

    async def approve(request: ApprovalRequest) -> Approve | Deny:
        asked.append(request.arguments["to"])
        if request.arguments["to"] == "bob":
            # Behind the last save of the others: only its own can have this decision.
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
        return Deny("too dear") if request.arguments["to"] == "cy" else Approve()

    calls = [tool_call("pay", {"to": each}) for each in ("ada", "bob", "cy")]
    limits = ToolLimits(at_once=1)
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[pay], approve=approve, tool_limits=limits)
    agent.save_with(world.save)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run_agent, "Hi")
        with anyio.fail_after(5):
            while not (  # noqa: ASYNC110 - a save tells nobody
                world.saved and all(each.decision for each in world.saved[-1][2].tool_calls) and len(asked) == 3
            ):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    document = next(each for _, _, each in reversed(world.saved) if all(call.decision for call in each.tool_calls))
    kept = [each.decision and (each.decision.verdict, each.decision.reason) for each in document.tool_calls]
    assert sorted(map(str, kept)) == ["('approved', None)", "('approved', None)", "('denied', 'too dear')"]
    asked.clear()
    gate.set()
    other = ScriptedAgent(turn(text("Done.")), tools=[pay], approve=approve)
    other.restore(document)
    await other.run_agent()
    assert asked == []
    assert {each.partition(":")[0] for each in results_in(other.snapshot())} >= {"paid bob", "too dear"}


async def test_an_answer_that_came_with_an_approval_is_saved_before_the_function_is_called() -> None:
    world, seen = World(), list[ConversationSnapshot]()

    @tool(approval="always")
    async def pay() -> str:
        seen.append(world.saved[-1][2])
        return "paid"

    agent = ScriptedAgent(turn(tool_call("pay", {}), outcome=_asking()), turn(text("Done.")), tools=[pay])
    agent.save_with(world.save)
    left = await agent.run_agent("Hi")
    approved = {each.id: Approve() for each in left.pending_tool_calls}
    await agent.run_agent(resume={"i": Resolve("yes")}, tool_results=approved)
    other = ScriptedAgent(turn(text("Done.")), tools=[pay])
    other.restore(seen[0])
    async with other.stream(Continuation(document=seen[0], is_between_runs=True)) as run:  # type: ignore[arg-type]
        _ = [event async for event in run]
    assert [[(each.interrupt_id, each.payload) for each in given.resume or ()] for given in other.inputs] == [
        [("i", "yes")]
    ]


async def test_an_approval_whose_call_was_left_before_its_function_was_called_is_taken_along() -> None:
    world = World()
    agent = world.agent(turn(tool_call("pay", {"to": "ada"})), turn(text("Done.")))
    agent_without_people = ScriptedAgent(turn(tool_call("pay", {"to": "ada"})), tools=agent.tools)
    left = await agent_without_people.run_agent("Hi")
    async with agent_without_people.stream(tool_results={left.pending_tool_calls[0].id: Approve()}):
        decided = [each.decision for each in agent_without_people.checkpoint().snapshot().tool_calls]
    assert decided[0] is not None
    assert [each.decision for each in agent_without_people.snapshot().tool_calls] == [None]
    await agent_without_people.run_agent()
    assert (world.called, len(agent_without_people.pending_tool_calls)) == (Counter(), 1)


@pytest.mark.parametrize("is_stopped", [True, False], ids=["a stop", "a wait that is cancelled"])
async def test_only_a_stop_takes_back_what_was_decided_about_calls_that_were_not_begun(*, is_stopped: bool) -> None:
    asked, begun = list[str](), list[str]()

    @tool(approval="always")
    async def pay(to: str) -> str:
        begun.append(to)
        await anyio.sleep_forever()
        return ""

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.arguments["to"])
        return True

    calls = [tool_call("pay", {"to": each}) for each in ("ada", "bob")]
    agent = ScriptedAgent(turn(*calls), tools=[pay], approve=approve, tool_limits=ToolLimits(at_once=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run_agent, "Hi")
        with anyio.fail_after(5):
            while not (begun and len(asked) == 2):  # noqa: ASYNC110 - they are noted in threads, too
                await anyio.sleep(0.01)
        if is_stopped:
            agent.abort_run()
        else:
            tasks.cancel_scope.cancel()
    assert [each.decision is not None for each in agent.snapshot().tool_calls] == [True, not is_stopped]


async def test_an_answer_to_the_question_of_a_tool_is_saved_before_its_function_is_called_again() -> None:
    world = World()
    asking = world.agent(turn(tool_call("trip", {})), turn(text("Done.")), answer=_answers_nothing).save_with(None)
    await asking.run_agent("Hi")
    other = world.agent(turn(text("Done.")))
    other.restore(asking.snapshot())
    assert (await other.run_agent()).text == "Done."
    records = [each for _, _, document in world.saved for each in document.tool_calls]
    given = [each.status for each in records if each.question is not None and each.question.given is not None]
    assert (given[:1], results_in(other.snapshot())) == ([CallStatus.ASKED], ["to Rome"])


async def test_a_question_that_nobody_answers_after_a_cut_waits_for_the_caller_as_it_does_without_one() -> None:
    world = World()
    world.kill_at = 2
    with pytest.raises((KilledError, BaseExceptionGroup)):
        await world.agent(turn(outcome=_asking())).run_agent("Hi")
    world.kill_at = None
    document = world.saved[-1][2]
    other = world.agent(turn(text("Done.")), answer=_answers_nothing)
    other.restore(document)
    place: Any = Continuation(document=document, is_between_runs=True)
    async with other.stream(place) as run:
        assert [event async for event in run] == []
        assert [each.id for each in (await run.result()).interrupts] == ["i"]
        assert caller_end(run, None).outcome == _asking()
    assert (other.inputs, [each.id for each in other.pending_interrupts]) == ([], ["i"])


async def test_what_was_done_in_a_call_that_is_stopped_is_saved_as_a_place_before_the_end_of_the_call() -> None:
    saved: list[tuple[bool, list[str]]] = []

    class Stopping(RunObserver):
        def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
            if execution.status == "succeeded":
                agent.abort_run()

    async def save(checkpoint: Checkpoint) -> None:
        saved.append((checkpoint.call_id is not None, results_in(checkpoint.snapshot())))

    agent = World().agent(turn(tool_call("look", {"at": "x"}))).save_with(save)
    agent.add_observer(Stopping())
    assert (await agent.run_agent("Hi")).aborted
    assert saved[-2:] == [(True, ["saw x"]), (False, ["saw x"])]


def _decided(name: str = "pay") -> tuple[Conversation, ToolCallRecord]:
    """A conversation with a call that was approved and not begun."""
    call = ToolCall(id="c", function=FunctionCall(name=name, arguments='{"to": "ada"}'))
    conversation = Conversation("t", [UserMessage(id="u", content="Hi"), AssistantMessage(id="m", tool_calls=[call])])
    made: dict[str, Any] = {"answered_by": AnsweredBy.APPLICATION, "shown": call, "status": CallStatus.WAITING}
    decision = ToolDecision("approved", "person")
    conversation.ledger = Ledger([ToolCallRecord(tool_call_id="c", message_id="m", decision=decision, **made)])
    return conversation, next(iter(conversation.ledger))


@pytest.mark.requirement("SEC-3")
async def test_a_decision_counts_for_the_call_that_was_shown_and_for_no_other() -> None:
    conversation, record = _decided()
    assert decision_about(conversation, "c") == record.decision
    changed = ToolCall(id="c", function=FunctionCall(name="pay", arguments='{"to": "eve"}'))
    document = conversation.snapshot()
    document.messages[1] = AssistantMessage(id="m", tool_calls=[changed])
    world = World()
    agent = world.agent(turn(text("Done.")))
    agent.restore(document)
    await agent.run_agent()
    assert (world.asked, world.called) == (Counter({"eve": 1}), Counter({"eve": 1}))


@pytest.mark.requirement("SEC-3")
def test_a_decision_goes_when_the_conversation_goes_on_without_the_call() -> None:
    conversation, _ = _decided()
    conversation.ledger.note_placeholder("c")
    conversation.ledger.lose("c")
    (record,) = conversation.ledger
    assert (record.status, record.decision, record.is_decided) == (CallStatus.CUT, None, False)


@pytest.mark.parametrize("name", _STORIES)
async def test_each_save_of_a_call_that_goes_on_is_a_place_where_another_process_takes_it_up(name: str) -> None:
    world, places = World(), list[tuple[bool, bool]]()

    async def save(checkpoint: Checkpoint) -> None:
        places.append((checkpoint.call_id is not None, checkpoint.is_at_end))

    await world.agent(*_STORIES[name]).save_with(save).run_agent("Hi")
    assert places == [*[(True, False)] * (len(places) - 1), (False, True)]


_SAVES: dict[str, tuple[int, Sequence[Turn]]] = {
    "plain": (2, [turn(text("Done."))]),
    "a tool": (4, _STORIES["a tool"]),
    "an approval": (5, [turn(tool_call("pay", {"to": "ada"})), turn(text("Done."))]),
    "an interrupt": (5, _STORIES["an interrupt"]),
    "two rounds": (7, _STORIES["two rounds"]),
}


@pytest.mark.parametrize(("most", "turns"), _SAVES.values(), ids=list(_SAVES))
async def test_a_call_is_saved_as_often_as_something_must_not_be_lost(most: int, turns: Sequence[Turn]) -> None:
    world = World()
    await world.agent(*turns).run_agent("Hi")
    assert len(world.saved) == most


async def test_nothing_is_saved_twice() -> None:
    for turns in _STORIES.values():
        world = World()
        await world.agent(*turns).run_agent("Hi")
        documents = [(is_sent, document) for is_sent, _, document in world.saved]
        assert not [each for each, after in pairwise(documents) if each == after]
