"""A program that ends in the middle of a call: what people have said is saved, and the call goes on in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
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
    ToolContext,
    ToolLimits,
    tool,
)
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.run.continuing import Continuation
from agui_client.testing import ScriptedAgent, Turn, text, tool_call, turn
from agui_client.types import Checkpoint, ToolDecision

pytestmark = pytest.mark.anyio


class _KilledError(BaseException):
    """The end of the process."""


class _World:
    """What happens outside of the program, and outlives it."""

    def __init__(self) -> None:
        self.called, self.asked = Counter[str](), Counter[str]()
        self.saved: list[tuple[bool, set[str], ConversationSnapshot]] = []
        self.sent = dict[str, None]()
        self.kill_at: int | None = None

    def live(self) -> None:
        """End the task, if its process has ended."""
        if self.kill_at is not None and len(self.saved) >= self.kill_at:
            raise _KilledError

    def agent(self, *turns: Turn) -> ScriptedAgent:
        """A process with the tools and the people."""

        @tool(approval="always")
        async def pay(to: str) -> str:
            self.live()
            self.called[to] += 1
            return f"paid {to}"

        @tool
        async def look(at: str) -> str:
            self.live()
            self.called[at] += 1
            return f"saw {at}"

        @tool
        async def trip(context: ToolContext) -> str:
            context.leave("so far")
            return f"to {await context.ask('Where to?')}"

        async def approve(request: ApprovalRequest) -> Approve | Deny:
            self.live()
            self.asked[request.arguments["to"]] += 1
            special: dict[str, Approve | Deny] = {"dear": Deny("too dear"), "old": Approve({"to": "new"})}
            return special.get(request.arguments["to"], Approve())

        async def answer(interrupt: Interrupt) -> Resolve:
            self.live()
            self.asked[interrupt.message or interrupt.id] += 1
            return Resolve("Rome")

        people: dict[str, Any] = {"approve": approve, "answer": answer}
        limits = ToolLimits(at_once=1)
        return ScriptedAgent(*turns, tools=[pay, look, trip], tool_limits=limits, **people).save_with(self.save)

    async def save(self, checkpoint: Checkpoint) -> None:
        """Save, and end the process behind one of the saves."""
        self.live()
        if checkpoint.run_id is not None:
            self.sent[checkpoint.run_id] = None
        self.saved.append((checkpoint.run_id is not None, {*self.asked}, checkpoint.snapshot()))
        if len(self.saved) == self.kill_at:
            raise _KilledError


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


def _results(document: ConversationSnapshot) -> list[str]:
    return [str(each.content) for each in document.messages if each.role == "tool"]


@pytest.mark.parametrize("name", _STORIES)
@pytest.mark.parametrize("goes_on", ["run_agent", "continued"])
@pytest.mark.requirement("SEC-3", "TOOL-10", "INT-7")
async def test_behind_each_save_a_call_goes_on_and_asks_nobody_what_was_said_before(name: str, goes_on: str) -> None:
    turns, whole = _STORIES[name], _World()
    await whole.agent(*turns).run_agent("Hi")
    expected, made, total = whole.saved[-1][2], whole.called, len(whole.saved)
    for place in range(1, total):
        world = _World()
        world.kill_at = place
        first = world.agent(*turns)
        with pytest.raises((_KilledError, BaseExceptionGroup)):
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
        after, unknown = _results(second.snapshot()), begun
        assert len([each for each in after if each.startswith("unknown")]) == unknown, where
        if not begun:
            assert (after, second.messages[-1].content) == (_results(expected), "Done."), where


async def test_an_approval_is_saved_while_its_call_waits_for_its_turn() -> None:
    world, gate, begun, asked = _World(), anyio.Event(), anyio.Event(), list[str]()

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
        document = world.saved[-1][2]
        tasks.cancel_scope.cancel()
    kept = [each.decision and (each.decision.verdict, each.decision.reason) for each in document.tool_calls]
    assert sorted(map(str, kept)) == ["('approved', None)", "('approved', None)", "('denied', 'too dear')"]
    asked.clear()
    gate.set()
    other = ScriptedAgent(turn(text("Done.")), tools=[pay], approve=approve)
    other.restore(document)
    await other.run_agent()
    assert asked == []
    assert {each.partition(":")[0] for each in _results(other.snapshot())} >= {"paid bob", "too dear"}


async def test_an_answer_that_came_with_an_approval_is_saved_before_the_function_is_called() -> None:
    world, seen = _World(), list[ConversationSnapshot]()

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
    world = _World()
    agent = world.agent(turn(tool_call("pay", {"to": "ada"})), turn(text("Done.")))
    agent_without_people = ScriptedAgent(turn(tool_call("pay", {"to": "ada"})), tools=agent.tools)
    left = await agent_without_people.run_agent("Hi")
    async with agent_without_people.stream(tool_results={left.pending_tool_calls[0].id: Approve()}):
        decided = [each.decision for each in agent_without_people.checkpoint().snapshot().tool_calls]
    assert decided[0] is not None
    assert [each.decision for each in agent_without_people.snapshot().tool_calls] == [None]
    await agent_without_people.run_agent()
    assert (world.called, len(agent_without_people.pending_tool_calls)) == (Counter(), 1)


async def test_a_stop_is_the_last_word_about_calls_that_were_approved_and_not_begun() -> None:
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
        agent.abort_run()
    assert [each.decision is not None for each in agent.snapshot().tool_calls] == [True, False]


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
    assert conversation.decision("c") == record.decision
    changed = ToolCall(id="c", function=FunctionCall(name="pay", arguments='{"to": "eve"}'))
    document = conversation.snapshot()
    document.messages[1] = AssistantMessage(id="m", tool_calls=[changed])
    world = _World()
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
    world, places = _World(), list[tuple[bool, bool]]()

    async def save(checkpoint: Checkpoint) -> None:
        places.append((checkpoint.call_id is not None, checkpoint.is_at_end))

    await world.agent(*_STORIES[name]).save_with(save).run_agent("Hi")
    assert places == [*[(True, False)] * (len(places) - 1), (False, True)]


async def test_nothing_is_saved_twice() -> None:
    for turns in _STORIES.values():
        world = _World()
        await world.agent(*turns).run_agent("Hi")
        documents = [(is_sent, document) for is_sent, _, document in world.saved]
        assert not [each for each, after in pairwise(documents) if each == after]
