"""A program that ends in the middle of a call: what people have said is saved, and the call goes on in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any, TypeAlias, cast

import anyio
import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Interrupt,
    RunAgentInput,
    RunFinishedInterruptOutcome,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic_core import from_json

from agui_client import (
    AbstractAgent,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    Deny,
    Resolve,
    RunObserver,
    ToolContext,
    ToolExecution,
    ToolLimits,
    tool,
)
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, Ledger, ToolCallRecord
from agui_client._core.run.continuing import Continuation
from agui_client._core.verbs.caller_run import caller_end
from agui_client.errors import ThreadStoreError
from agui_client.store import MemoryStore, Store, ThreadInfo
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import ScriptedAgent, Turn, text, tool_call, turn
from agui_client.types import Checkpoint, RunScope, ToolDecision

pytestmark = pytest.mark.anyio
_Round: TypeAlias = "list[tuple[str, dict[str, Any]]]"


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

    def agent(self, *turns: Any, **options: Any) -> ScriptedAgent:
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

        people: dict[str, Any] = {"approve": approve, "answer": answer, **options}
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


# --- the same for members of teams and stored threads, whose agents find out from their conversation what to do next

_LARGE = partial(pytest.param, marks=pytest.mark.soak)
_ASKS = "asks"
_LOOK: _Round = [("look", {"at": "x"})]
_ROUNDS: dict[str, list[_Round]] = {
    "plain": [],
    "a tool": [_LOOK],
    "an approval": [[("pay", {"to": "ada"})]],
    "an edit": [[("pay", {"to": "old"})]],
    "a denial": [[("pay", {"to": "dear"})]],
    "payments": [[("pay", {"to": each}) for each in ("ada", "dear", "old", "bob")]],
    "an interrupt": [[(_ASKS, {"i": "First?", "j": "Second?"})]],
    "a question": [[("trip", {})]],
    "two rounds": [_LOOK, [("pay", {"to": "ada"})]],
}


def _member(world: _World, name: str, rounds: Sequence[_Round]) -> ScriptedAgent:
    """An agent that does what is left of its rounds, by what its conversation has."""

    async def play(input: RunAgentInput) -> AsyncIterator[Turn]:
        done = {each.tool_call_id.rpartition("/")[2] for each in input.messages if each.role == "tool"}
        for number, calls in enumerate(rounds):
            if calls[0][0] == _ASKS:
                if input.resume:
                    break
                asked = [Interrupt(id=key, reason="r", message=words) for key, words in calls[0][1].items()]
                yield turn(outcome=RunFinishedInterruptOutcome(type="interrupt", interrupts=asked))
                return
            made = {f"{name}-{number}-{at}": each for at, each in enumerate(calls)}
            if missing := made.keys() - done:
                ids = [each for each in made if each in missing]
                yield turn(*(tool_call(made[each][0], made[each][1], tool_call_id=each) for each in ids))
                return
        yield turn(text("Done."))

    return world.agent(play, agent_id=name).save_with(None)


_TEAMS: dict[str, Callable[[_World, Sequence[_Round]], AbstractAgent]] = {
    "agent": lambda world, rounds: _member(world, "a", rounds),
    "team": lambda world, rounds: SequentialAgent(_member(world, "z", []), _member(world, "a", rounds)),
    "team in a team": lambda world, rounds: SequentialAgent(
        SequentialAgent(_member(world, "a", rounds), agent_id="inner"), _member(world, "z", []), agent_id="outer"
    ),
    "side by side": lambda world, rounds: ParallelAgent(
        _member(world, "a", rounds), _member(world, "b", [[("look", {"at": "b"})]])
    ),
}


def _given(document: ConversationSnapshot) -> set[str]:
    """What people have said by a document: its ledger, its results, or the journal of a team."""
    made = [each for message in document.messages for each in getattr(message, "tool_calls", None) or ()]
    # Of a call that is arriving there may be no argument yet.
    given = {_own(each.id): from_json(each.function.arguments or "{}", allow_partial=True) for each in made}
    payees = {key: arguments.get("to", "") for key, arguments in given.items()}
    decided = [each.tool_call_id for each in document.tool_calls if each.decision is not None]
    decided += [each.tool_call_id for each in document.messages if isinstance(each, ToolMessage)]
    said = {payees[_own(each)] for each in (*decided, *_decided_in(document.state))}
    questions = [each.question for each in document.tool_calls if each.question is not None]
    said |= {"Where to?" for each in questions if each.given is not None}
    words = {"i": "First?", "j": "Second?"}
    kept = [each.interrupt_id for each in document.kept_answers]
    kept += [each["interruptId"] for pending in _pending_in(document.state) for each in pending.get("answers", ())]
    return said | {words[each] for each in kept}


def _own(tool_call_id: str) -> str:
    """The id of a call as the member that made it has it."""
    return tool_call_id.rpartition("/")[2]


def _decided_in(value: Any) -> list[str]:
    """The calls of members that were decided about and not begun, by the journals in a state."""
    calls = [each for pending in _pending_in(value) for each in pending.get("calls", ())]
    return [each["tool_call_id"] for each in calls if each["status"] == "waiting" and each.get("decision")]


def _answers_nothing(_: Interrupt) -> None:
    """Leave each question to the caller."""


def _pending_in(value: Any) -> list[dict[str, Any]]:
    """What members have left to do between two of their runs, by the journals in a state."""
    if not isinstance(value, dict):
        return []
    state = cast("dict[str, Any]", value)
    own: list[dict[str, Any]] = [each for key, each in state.items() if key == "pending"]
    return own + [each for inner in state.values() for each in _pending_in(inner)]


async def _killed(world: _World, calling: Awaitable[object]) -> None:
    with pytest.raises((_KilledError, BaseExceptionGroup, ThreadStoreError)), anyio.fail_after(10):
        await calling
    world.kill_at = None


@pytest.mark.parametrize("name", _ROUNDS)
@pytest.mark.parametrize("place", [_LARGE(each) if each in ("team", "side by side") else each for each in _TEAMS])
@pytest.mark.parametrize("is_stored", [False, _LARGE(True)], ids=["saved", "stored"])
@pytest.mark.requirement("SEC-3", "TOOL-10", "INT-7")
async def test_behind_each_save_a_member_goes_on_and_asks_nobody_what_was_saved(
    name: str, place: str, *, is_stored: bool
) -> None:
    def agent(world: _World) -> AbstractAgent:
        return _TEAMS[place](world, _ROUNDS[name])

    whole = _World()
    await agent(whole).save_with(whole.save).run_agent("Hi")
    expected, total = _results(whole.saved[-1][2]), len(whole.saved)
    for at in range(1, total):
        world = _World()
        world.kill_at = at
        if is_stored:
            document = await _killed_in_store(world, agent(world))
        else:
            await _killed(world, agent(world).save_with(world.save).run_agent("Hi"))
            document = world.saved[-1][2]
        given, before = _given(document), Counter(world.asked)
        # The second question is asked when the answer to the first one is saved.
        given |= {"First?"} if "Second?" in before else set[str]()
        second = agent(world)
        second.restore(document)
        await second.run_agent()
        where = f"{name}, {place}, behind save {at}"
        assert not [key for key, count in world.called.items() if count > whole.called[key]], where
        assert not [key for key in given if world.asked[key] > before[key]], where
        results = _results(second.snapshot())
        unknown = [each for each in results if each.startswith("unknown")]
        assert len(results) == len(expected), where
        assert not (Counter(results) - Counter([*expected, *unknown])), where
        assert second.messages[-1].content == "Done.", where


@pytest.mark.parametrize("place", ["team", "team in a team", "side by side"])
async def test_what_is_decided_about_calls_of_a_member_is_in_its_teams_journal_while_they_wait(place: str) -> None:
    world = _World()
    await _TEAMS[place](world, _ROUNDS["payments"]).save_with(world.save).run_agent("Hi")
    waiting = [({*map(_own, _decided_in(each.state))}, _results(each)) for _, _, each in world.saved]
    # Approvals, and the denial, which is a result, while the payments are made one after the other, in any order.
    assert any(decided and "too dear" in results for decided, results in waiting)
    assert len({frozenset(decided) for decided, _ in waiting if decided}) > 1


@pytest.mark.parametrize("place", ["team", "team in a team", "side by side"])
@pytest.mark.requirement("INT-7")
async def test_the_answer_to_a_members_question_is_in_its_teams_journal_before_the_next_one_is_asked(
    place: str,
) -> None:
    world = _World()
    await _TEAMS[place](world, _ROUNDS["an interrupt"]).save_with(world.save).run_agent("Hi")
    kept = [
        [each for pending in _pending_in(document.state) for each in pending.get("answers", ())]
        for _, _, document in world.saved
    ]
    answered = [[each["interruptId"] for each in answers] for answers in kept]
    assert [each for each, _ in groupby(answered)] == [[], ["i"], ["i", "j"], []]


async def _killed_in_store(world: _World, agent: AbstractAgent) -> ConversationSnapshot:
    """Run an agent in a stored thread whose process ends behind one of its writes; return what the thread has then."""

    class Connection(MemoryStore):
        """The same threads, as a process uses them that is killed."""

        async def append(self, owner: str, info: ThreadInfo, *given: Any, **about: Any) -> bool:
            if world.kill_at is not None and len(world.saved) >= world.kill_at:
                raise ThreadStoreError("killed")
            is_written = await super().append(owner, info, *given, **about)
            world.saved.append((False, {*world.asked}, ConversationSnapshot(thread_id="t")))
            if len(world.saved) == world.kill_at:
                raise ThreadStoreError("killed")
            return is_written

    threads = Store(Connection()).threads

    async def run() -> None:
        async with threads.open("t", agent) as opened:
            await opened.run_agent("Hi")

    await _killed(world, run())
    found = await threads.get("t")
    assert found is not None
    return found.conversation


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
    world = _World()
    asking = world.agent(turn(tool_call("trip", {})), turn(text("Done.")), answer=_answers_nothing).save_with(None)
    await asking.run_agent("Hi")
    other = world.agent(turn(text("Done.")))
    other.restore(asking.snapshot())
    assert (await other.run_agent()).text == "Done."
    records = [each for _, _, document in world.saved for each in document.tool_calls]
    given = [each.status for each in records if each.question is not None and each.question.given is not None]
    assert (given[:1], _results(other.snapshot())) == ([CallStatus.ASKED], ["to Rome"])


async def test_a_question_that_nobody_answers_after_a_cut_waits_for_the_caller_as_it_does_without_one() -> None:
    world = _World()
    world.kill_at = 2
    with pytest.raises((_KilledError, BaseExceptionGroup)):
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
        saved.append((checkpoint.call_id is not None, _results(checkpoint.snapshot())))

    agent = _World().agent(turn(tool_call("look", {"at": "x"}))).save_with(save)
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


_SAVES: dict[str, tuple[int, Sequence[Turn]]] = {
    "plain": (2, [turn(text("Done."))]),
    "a tool": (4, _STORIES["a tool"]),
    "an approval": (5, [turn(tool_call("pay", {"to": "ada"})), turn(text("Done."))]),
    "an interrupt": (5, _STORIES["an interrupt"]),
    "two rounds": (7, _STORIES["two rounds"]),
}


@pytest.mark.parametrize(("most", "turns"), _SAVES.values(), ids=list(_SAVES))
async def test_a_call_is_saved_as_often_as_something_must_not_be_lost(most: int, turns: Sequence[Turn]) -> None:
    world = _World()
    await world.agent(*turns).run_agent("Hi")
    assert len(world.saved) == most


async def test_nothing_is_saved_twice() -> None:
    for turns in _STORIES.values():
        world = _World()
        await world.agent(*turns).run_agent("Hi")
        documents = [(is_sent, document) for is_sent, _, document in world.saved]
        assert not [each for each, after in pairwise(documents) if each == after]
