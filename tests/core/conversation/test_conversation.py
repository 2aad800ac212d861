"""A conversation that is cloned, saved as a document, and restored in another place."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Interrupt,
    Message,
    ResumeEntry,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallResultEvent,
    UserMessage,
)
from pydantic import BaseModel, Field, TypeAdapter

from agui_client import (
    AbstractAgent,
    ApprovalRequest,
    Approve,
    ConversationSnapshot,
    FunctionAgent,
    HookContext,
    Mutation,
    RunInProgressError,
    Subscriber,
    UnrecognizedEvent,
    UsageError,
    tool,
)
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.conversation.log import empty_members, entry_of, log_of
from agui_client._core.conversation.pending import unknown_tool_calls
from agui_client._core.run import engine, saving
from agui_client.store._threads.entries import checkpoint_of
from agui_client.testing import ScriptedAgent, interrupt, state, text, tool_call, turn
from agui_client.types import Checkpoint
from support import scenario
from support.verbs import Verb, every_kind_of_verb

HELLO = turn(text("Hello."))
SYSTEM = SystemMessage(id="system", content="Be brief.")
BEFORE: list[Message] = [
    SYSTEM,
    UserMessage(id="user-1", content="Hi"),
    AssistantMessage(id="answer-1", content="Hello."),
]


def contents(agent: AbstractAgent) -> list[Any]:
    return [message.content for message in agent.messages]


# --- clones


def test_nothing_that_is_said_to_a_clone_reaches_the_other() -> None:
    agent = ScriptedAgent(turn(text("Hello."), state({"n": 1})), initial_messages=BEFORE, initial_state={"deep": []})
    clone = agent.clone()
    assert type(clone) is ScriptedAgent
    assert (clone.messages, clone.state, clone.thread_id, clone.agent_id) == (
        agent.messages, agent.state, agent.thread_id, agent.agent_id
    )  # fmt: skip
    clone.run_agent_sync("Hi")

    @clone.tool
    def look() -> None: ...

    assert (clone.tools, agent.tools) == ([look], [])
    assert (agent.messages, agent.state) == (BEFORE, {"deep": []})
    agent.set_messages([])
    agent.set_state("mine")
    assert (len(clone.messages), clone.state) == (5, {"n": 1})


def test_a_clone_takes_what_is_pending_with_it() -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")))
    agent.run_agent_sync()
    clone = agent.clone()
    agent.abandon_interrupts()
    agent.run_agent_sync()
    assert [each.id for each in clone.pending_interrupts] == ["interrupt-1"]
    with pytest.raises(UsageError):
        clone.run_agent_sync()


def test_a_clone_can_be_made_in_the_middle_of_a_run() -> None:
    agent = ScriptedAgent(turn(text("One two")))
    with agent.stream_sync("Hi") as run:
        for _ in range(3):
            next(run)
        clone = agent.clone()
        assert contents(clone) == ["Hi", "One "]
        assert not clone.is_running
        run.result()
    assert contents(clone) == ["Hi", "One "]
    assert contents(agent) == ["Hi", "One two"]


def test_a_clone_keeps_what_a_subclass_has() -> None:
    class Mine(FunctionAgent):
        own = "class"

        def __init__(self) -> None:
            super().__init__(ScriptedAgent(HELLO).run)
            self.own = "instance"

    assert Mine().clone().own == "instance"


# --- saving


@pytest.mark.requirement("INT-1")
def test_a_conversation_survives_json() -> None:
    agent = ScriptedAgent([scenario.TURN], turn(outcome=interrupt("Proceed?", response_schema={"type": "boolean"})))
    agent.run_agent_sync(scenario.PROMPT)
    agent.run_agent_sync("Book it")
    document = agent.snapshot().model_dump_json()
    other = ScriptedAgent(HELLO)
    other.restore(ConversationSnapshot.model_validate_json(document))
    assert other.thread_id == agent.thread_id
    assert other.messages == agent.messages
    assert other.state == agent.state == scenario.STATE
    assert other.pending_interrupts == agent.pending_interrupts
    with pytest.raises(UsageError, match="interrupt-1"):
        other.run_agent_sync()
    assert other.snapshot() == agent.snapshot()


def test_an_abandoned_interrupt_is_still_abandoned_after_a_restore() -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")))
    agent.run_agent_sync()
    agent.abandon_interrupts()
    other = ScriptedAgent(HELLO)
    other.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    other.run_agent_sync()
    assert [entry.status for entry in other.inputs[0].resume or []] == ["cancelled"]


@pytest.mark.parametrize("value", [None, 0, [], {"a": None}], ids=repr)
def test_any_state_survives_json(value: Any) -> None:
    agent = ScriptedAgent(HELLO)
    agent.set_state(value)
    document = agent.snapshot().model_dump_json()
    agent.set_state("other")
    agent.restore(ConversationSnapshot.model_validate_json(document))
    assert agent.state == value


def test_a_snapshot_never_changes_and_is_not_changed_through() -> None:
    agent = ScriptedAgent(turn(text("Hello."), state({"list": [1]})), initial_state={"list": []})
    document = agent.snapshot()
    document.state["list"].append("mine")
    assert agent.state == {"list": []}
    agent.run_agent_sync("Hi")
    assert (document.messages, document.state) == ([], {"list": ["mine"]})
    document.messages.append(SYSTEM)
    assert agent.state == {"list": [1]}
    agent.restore(document)
    document.state["list"].append("later")
    document.messages.clear()
    assert (agent.state, agent.messages) == ({"list": ["mine"]}, [SYSTEM])


def test_a_document_of_another_shape_is_refused() -> None:
    for version in (1, 3, '"2"', "null"):
        text = f'{{"version": {version}, "thread_id": "t", "executed_call_ids": []}}'
        with pytest.raises(ValueError, match="the document has another version than 2, the only one that this"):
            ConversationSnapshot.model_validate_json(text)
    with pytest.raises(ValueError, match="extra"):
        ConversationSnapshot.model_validate_json('{"thread_id": "t", "colour": "red"}')


def test_a_conversation_is_not_replaced_in_the_middle_of_a_run() -> None:
    agent = ScriptedAgent(HELLO)
    document = agent.snapshot()
    with agent.stream_sync("Hi") as run:
        next(run)
        with pytest.raises(RunInProgressError):
            agent.restore(document)
        assert run.result().text == "Hello."


@pytest.mark.requirement("SEC-3")
def test_an_older_document_of_a_thread_does_not_let_its_calls_be_carried_out_again() -> None:
    paid: list[int] = []

    @tool(approval="always")
    def pay() -> str:
        paid.append(1)
        return "paid"

    agent = ScriptedAgent(turn(tool_call("pay", tool_call_id="c1")), turn(text("Done.")), tools=[pay])
    agent.run_agent_sync("Hi")
    before = agent.snapshot()
    agent.run_agent_sync(tool_results={"c1": Approve()})
    agent.restore(before)
    with pytest.raises(UsageError, match="whose function was called before"):
        agent.run_agent_sync(tool_results={"c1": Approve()})
    assert paid == [1]


# --- the state of an application


class Leg(BaseModel):
    to_city: str = Field(alias="toCity")


@dataclass
class Trip:
    budget: int
    legs: list[Leg]


TRIP: Any = Trip(900, [Leg(toCity="Oslo")])
TRIP_AS_JSON = {"budget": 900, "legs": [{"toCity": "Oslo"}]}


def state_of(agent: AbstractAgent) -> Any:
    return agent.state


@every_kind_of_verb
def test_models_and_dataclasses_in_the_state_become_json_wherever_the_state_comes_from(verb: Verb) -> None:
    class Planner(Subscriber):
        def on_run_started_event(self, event: RunStartedEvent, context: HookContext) -> Mutation:
            return Mutation(state=[context.state, TRIP])

    agent = ScriptedAgent(HELLO, initial_state={"trip": TRIP})
    assert state_of(agent) == {"trip": TRIP_AS_JSON}
    agent.set_state([{"deep": (TRIP,)}])
    assert state_of(agent) == [{"deep": [TRIP_AS_JSON]}]
    agent.state = TRIP
    assert state_of(agent) == TRIP_AS_JSON
    agent.subscribe(Planner())
    verb(agent, "Hi", forwarded_props={"trip": TRIP})
    assert state_of(agent) == [TRIP_AS_JSON, TRIP_AS_JSON]
    assert (agent.inputs[0].state, agent.inputs[0].forwarded_props) == (TRIP_AS_JSON, {"trip": TRIP_AS_JSON})
    assert TypeAdapter(Trip).validate_python(state_of(agent)[1]) == TRIP


@pytest.mark.parametrize("value", [object(), {"a": [len]}], ids=["object", "function"])
def test_a_state_without_a_json_form_is_not_taken(value: Any) -> None:
    agent = ScriptedAgent(HELLO, initial_state={"n": 1})
    with pytest.raises(UsageError, match="the state cannot be written as JSON: Unable to serialize unknown type"):
        agent.state = value
    assert agent.state == {"n": 1}


def test_a_conversation_is_restored_from_its_model_only() -> None:
    agent = ScriptedAgent(HELLO)
    document: Any = agent.snapshot().model_dump()
    with pytest.raises(UsageError, match=r"restore\(\) takes a ConversationSnapshot"):
        agent.restore(document)


def test_a_state_that_contains_itself_is_not_taken() -> None:
    agent, endless = ScriptedAgent(HELLO, initial_state={"n": 1}), dict[str, Any]()
    endless["self"] = endless
    with pytest.raises(UsageError, match="the state contains itself, or nests deeper"):
        agent.state = endless
    assert agent.state == {"n": 1}


def test_a_conversation_without_a_run_has_a_checkpoint() -> None:
    agent = ScriptedAgent(HELLO, initial_messages=BEFORE, initial_state={"n": 1})
    found = agent.checkpoint()
    assert (found.snapshot(), found.run_id, found.results) == (agent.snapshot(), None, ())


def test_the_first_failure_to_save_keeps_its_cause_when_later_saves_fail_too() -> None:
    cause, failures = ValueError("the disk is full"), [OSError("first"), OSError("second")]

    async def save(checkpoint: Checkpoint) -> None:
        """Fail, the first time for a known cause."""
        if len(failures) == 2:
            raise failures.pop(0) from cause
        raise failures[0]

    with pytest.raises(OSError, match="first") as caught:
        ScriptedAgent(HELLO).save_with(save).run_agent_sync("Hi")
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize(
    ("seconds", "between"),
    [(0.01, 1.01), (0.1, 2.1), (0.25, 5.25), (4, 6)],
    ids=["fast saves", "slow saves", "slower saves", "saves that take nearly as long as the longest time between them"],
)
def test_the_slower_saves_are_the_less_often_they_are_made(
    seconds: float, between: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saved = [0.0], list[float]()
    monkeypatch.setattr(saving, "perf_counter", lambda: now[0])
    monkeypatch.setattr(engine, "_TURN_SECONDS", 0)

    async def save(checkpoint: Checkpoint) -> None:
        """Take some time."""
        saved.append(now[0])
        now[0] += seconds

    async def speaking(input: RunAgentInput) -> AsyncIterator[Event]:
        """Yield a piece of text every second."""
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id="m")
        for _ in range(30):
            now[0] += 1
            yield TextMessageContentEvent(message_id="m", delta="word ")
        yield TextMessageEndEvent(message_id="m")
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)

    asyncio.run(FunctionAgent(speaking).save_with(save).run_agent("Hi"))
    # The first one is made before the run is sent.
    assert [after - before for before, after in pairwise(saved[1:5])] == pytest.approx([between] * 3)


def test_the_conversation_is_saved_before_anything_happens_that_must_not_be_lost() -> None:
    happened: list[str] = []
    last = [""]

    async def save(checkpoint: Checkpoint) -> None:
        """Note what would be known if the program ended now, where that has changed."""
        document = checkpoint.snapshot()
        calls = " ".join(each.status for each in document.tool_calls) or "none"
        results = sum(each.role == "tool" for each in document.messages)
        saved = f"saved: {'sent' if checkpoint.run_id else 'ended'}, calls {calls}, results {results}"
        if saved != last[0]:
            happened.append(saved)
        last[0] = saved

    @tool
    def look() -> str:
        """Look."""
        happened.append("look")
        return "seen"

    @tool(approval="always")
    def pay() -> str:
        """Pay."""
        happened.append("pay")
        return "paid"

    def approve(request: ApprovalRequest) -> bool:
        happened.append("asked")
        return True

    class Noting(ScriptedAgent):
        def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            happened.append("agent")
            return super().run(input)

    script = turn(tool_call("look", {})), turn(tool_call("pay", {})), turn(text("Done."))
    agent = Noting(*script, tools=[look, pay], approve=approve).save_with(save)
    with agent.stream_sync("Hi") as run:
        for event in run:
            happened += ["result shown"] if isinstance(event, ToolCallResultEvent) else []
    assert happened == [
        "saved: sent, calls none, results 0",
        "agent",
        "saved: ended, calls executing, results 0",
        "look",
        "saved: sent, calls answered, results 1",
        "result shown",
        "agent",
        "saved: ended, calls answered waiting, results 1",
        "asked",
        "saved: ended, calls answered executing, results 1",
        "pay",
        "saved: sent, calls answered answered, results 2",
        "result shown",
        "agent",
        "saved: ended, calls answered answered, results 2",
    ]


def test_a_conversation_goes_back_to_a_message_and_on_from_there() -> None:
    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = ScriptedAgent(
        turn(tool_call("pay", {"amount": 3}, tool_call_id="c")),
        turn(text("Paid."), outcome=interrupt("Sure?", interrupt_id="i")),
        turn(text("Once more.")),
        tools=[pay],
    )
    agent.run_agent_sync("Pay")
    agent.run_agent_sync(tool_results={"c": Approve()})
    question, call, result, answer = agent.messages
    for name in (None, result.id, "nobody"):
        with pytest.raises(UsageError):
            agent.rewind(before=name)
    with pytest.raises(UsageError, match="the id of the last message that stays"):
        agent.rewind(question.id, before=call.id)
    with pytest.raises(
        UsageError, match=r"^rewind\(\) takes the id of a message, as in rewind\(message\.id\), not a User"
    ):
        agent.rewind(question)  # type: ignore[arg-type]
    assert agent.rewind(call.id) == [answer]
    # What waited was asked behind that message.
    assert (agent.messages, agent.pending_interrupts) == ([question, call, result], [])
    assert agent.rewind(before=question.id) == [question, call, result]
    agent.run_agent_sync(UserMessage(id=question.id, content="Do not pay"))
    assert [each.content for each in agent.messages] == ["Do not pay", "Once more."]


@pytest.mark.parametrize("value", [math.nan, {"a": [1, math.inf]}, [[-math.inf]]])
def test_a_state_with_a_number_that_json_does_not_have_is_refused_when_it_is_set(value: Any) -> None:
    agent = ScriptedAgent(turn())
    agent.set_state({"a": 1.5})
    with pytest.raises(UsageError, match="which is not a JSON number; it was not taken"):
        agent.set_state(value)
    assert agent.state == {"a": 1.5}


def test_an_interrupt_whose_answer_is_kept_waits_for_no_other() -> None:
    conversation = Conversation("t")
    conversation.pending_interrupts = [Interrupt(id=each, reason="input_required") for each in ("a", "b")]
    for answered, waiting in (("a", ["b"]), ("b", [])):
        conversation.keep_answers([ResumeEntry(interrupt_id=answered, status="resolved", payload="yes")])
        assert [each.id for each in conversation.open_interrupts] == waiting
        assert [each.id for each in conversation.snapshot().open_interrupts] == waiting
    conversation.kept_answers = []  # the run that carried them has failed
    assert [each.id for each in conversation.open_interrupts] == ["a", "b"]


def test_a_settled_record_without_its_result_is_unknown_at_each_opening_of_its_log_until_that_is_saved() -> None:
    called = AssistantMessage(id="m", tool_calls=[ToolCall(id="c", function=FunctionCall(name="pay", arguments="{}"))])
    record = ToolCallRecord(
        tool_call_id="c",
        message_id="m",
        status=CallStatus.ANSWERED,
        answered_by=AnsweredBy.APPLICATION,
        is_reported=True,
    )
    damaged = {**empty_members(), "messages": [called], "tool_calls": [record]}
    log = log_of([entry_of(empty_members(), damaged, 1) or ""])
    for _ in range(2):
        conversation = Conversation("t")
        conversation.restore(checkpoint_of("t", log.begun).snapshot())
        assert [call.id for call in unknown_tool_calls(conversation)] == ["c"]
        log = log_of([], log)
