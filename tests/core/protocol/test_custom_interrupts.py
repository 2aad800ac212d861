"""LangGraph's adapter and CrewAI's: `on_interrupt` events are interrupts, and answers go out as the adapters read them.

The agents here speak as ag-ui-langgraph 0.0.47 was seen to; tests/programs/interop/test_langgraph.py asks the adapter
itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    EventType,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
)

from agui_client import (
    AbstractAgent,
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    FunctionAgent,
    HttpAgent,
    IncompleteRunError,
    InterruptsNotCoveredError,
    Resolve,
    RunFailedError,
    UsageError,
    validate,
)
from agui_client.asgi import ASGITransport, agent_app
from agui_client.recording import ReplayAgent, record
from agui_client.store import MemoryStore, Store
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import events_of
from agui_client.types import Answer
from support.verbs import Verb, every_kind_of_verb, every_result_verb

A, B = "5b02c82efe18cad94db75c0f2d2d065c", "94ceda14649b123cf22f050f87185af5"
"""Ids as LangGraph mints them."""


def question(value: Any, native_id: str | None = None, **raw: Any) -> CustomEvent:
    """What the adapter sends: the value as text, JSON unless it is a string, and the interrupt as it was."""
    told = value if isinstance(value, str) else json.dumps(value)
    native = None if native_id is None else {"value": value, "id": native_id, "response_schema": None, **raw}
    return CustomEvent(name="on_interrupt", value=told, raw_event=native)


class Graph:
    """An adapter that asks these questions, and takes whatever `command.resume` holds for the answers."""

    def __init__(self, *questions: Event, outcome: RunFinishedInterruptOutcome | None = None) -> None:
        self.questions = questions
        self.outcome = outcome
        self.inputs: list[RunAgentInput] = []
        self.agent = FunctionAgent(self.run, thread_id="thread-1")

    async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        self.inputs.append(input)
        is_resumed = bool(input.resume) or "command" in (input.forwarded_props or {})
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield StateSnapshotEvent(snapshot={"resumed": is_resumed})
        for event in () if is_resumed else self.questions:
            yield event
        outcome = None if is_resumed else self.outcome
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, outcome=outcome)

    def asked(self) -> list[Interrupt]:
        return self.agent.run_agent_sync("Book it", run_id="run-1").interrupts

    def told(self, *answers: Answer, **options: Any) -> Any:
        """The `command.resume` that these answers, in the order of the questions, are told with."""
        ids = [interrupt.id for interrupt in self.agent.pending_interrupts]
        resume = dict(zip(ids, answers, strict=True))
        result = self.agent.run_agent_sync(resume=resume, **options)
        assert (result.state, result.interrupts) == ({"resumed": True}, [])
        assert self.inputs[-1].resume is None
        props: Any = self.inputs[-1].forwarded_props
        return props["command"]["resume"]


# --- questions


@every_kind_of_verb
@pytest.mark.requirement("INT-1", "INT-7")
def test_a_question_and_its_answer_go_around(verb: Verb) -> None:
    graph = Graph(question({"message": "Book?", "seat": 7}, A))
    asking = verb(graph.agent, "Book it")
    assert (asking.error, graph.agent.state) == (None, {"resumed": False})
    assert asking.events is None or asking.types == ["RUN_STARTED", "STATE_SNAPSHOT", "CUSTOM", "RUN_FINISHED"]
    assert graph.agent.pending_interrupts == [
        Interrupt(
            id=f"on_interrupt:{A}",
            reason="langgraph:interrupt",
            message="Book?",
            metadata={"langgraph": {"raw": {"message": "Book?", "seat": 7}}},
        )
    ]
    answering = verb(graph.agent, resume={f"on_interrupt:{A}": Resolve({"approved": True})})
    assert (answering.error, graph.agent.state, graph.agent.pending_interrupts) == (None, {"resumed": True}, [])
    assert graph.inputs[-1].forwarded_props == {"command": {"resume": {A: {"approved": True}}}}
    assert graph.inputs[-1].resume is None


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    ("value", "raw", "message"),
    [
        ("Your age?", "Your age?", "Your age?"),
        ('{"message": "Book?"}', {"message": "Book?"}, "Book?"),
        ({"message": "Book?"}, {"message": "Book?"}, "Book?"),
        ('{"question": "Book?"}', {"question": "Book?"}, None),
        ('{"message": 7}', {"message": 7}, None),
        ('["a", "b"]', ["a", "b"], None),
        (["a", "b"], ["a", "b"], None),
        ("42", "42", "42"),
        ("null", "null", "null"),
        ('"quoted"', '"quoted"', '"quoted"'),
        ("{broken", "{broken", "{broken"),
        ("[NaN]", "[NaN]", "[NaN]"),
        ('{"up_to": Infinity}', '{"up_to": Infinity}', '{"up_to": Infinity}'),
        ("[1e999]", "[1e999]", "[1e999]"),
        ('["\\ud800"]', '["\\ud800"]', '["\\ud800"]'),
        (f"[{'9' * 5000}]", f"[{'9' * 5000}]", f"[{'9' * 5000}]"),
        ("[" * 197 + "]" * 197, "[" * 197 + "]" * 197, "[" * 197 + "]" * 197),
        ("[" * 100_000, "[" * 100_000, "[" * 100_000),
        ("", "", ""),
        (42, 42, None),
        (None, None, None),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_whatever_a_graph_asks_is_told(value: Any, raw: Any, message: str | None) -> None:
    native = None if isinstance(value, str) else {"value": value}
    (interrupt,) = Graph(CustomEvent(name="on_interrupt", value=value, raw_event=native)).asked()
    assert (interrupt.metadata, interrupt.message) == ({"langgraph": {"raw": raw}}, message)


def test_however_deep_a_question_is_it_can_be_saved_and_answered() -> None:
    for depth in range(185, 200):
        graph = Graph(question("[" * depth + "]" * depth, A))
        graph.asked()
        saved = graph.agent.snapshot().model_dump_json()
        graph.agent.restore(ConversationSnapshot.model_validate_json(saved))
        assert graph.told(Resolve("yes")) == {A: "yes"}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    ("tool_call_id", "response_schema", "expires_at"),
    [("toolCallId", "responseSchema", "expiresAt"), ("tool_call_id", "response_schema", "expires_at")],
)
def test_a_question_in_the_protocols_words_is_told_in_full(
    tool_call_id: str, response_schema: str, expires_at: str
) -> None:
    value = {"reason": "", tool_call_id: "c1", response_schema: {"type": "boolean"}, expires_at: "2999-01-01"}
    assert Graph(question(value, A)).asked() == [
        Interrupt(
            id=f"on_interrupt:{A}",
            reason="",
            tool_call_id="c1",
            response_schema={"type": "boolean"},
            expires_at="2999-01-01",
            metadata={"langgraph": {"raw": value}},
        )
    ]


def test_members_of_another_kind_are_told_in_the_metadata_only() -> None:
    value: dict[str, Any] = {"reason": 1, "message": [], "toolCallId": {}, "responseSchema": True, "expiresAt": 9}
    assert Graph(question(value, A)).asked() == [
        Interrupt(id=f"on_interrupt:{A}", reason="langgraph:interrupt", metadata={"langgraph": {"raw": value}})
    ]


@pytest.mark.requirement("INT-7")
def test_an_answer_is_held_against_the_schema_that_langgraph_was_given() -> None:
    graph = Graph(question("Book?", A, response_schema={"type": "boolean"}))
    (interrupt,) = graph.asked()
    with pytest.raises(InterruptsNotCoveredError, match="does not fit its responseSchema"):
        graph.told(Resolve("yes"))
    assert graph.told(Resolve(True)) == {A: True}
    assert interrupt.response_schema == {"type": "boolean"}


def test_a_question_of_a_subagent_names_it() -> None:
    event = question("Book?", A).model_copy(update={"subagent_run_id": "sub-1"})
    started = SubagentStartedEvent(subagent_run_id="sub-1", name="booking")
    suspended = SubagentFinishedEvent(subagent_run_id="sub-1", outcome=SubagentFinishedSuspendedOutcome())
    (interrupt,) = Graph(started, suspended, event).asked()
    assert interrupt.subagent_run_id == "sub-1"


def test_a_subagent_that_ended_has_the_answer_to_its_question() -> None:
    """As in a served team, whose member asked and was answered inside of the run."""
    event = question("Book?", A).model_copy(update={"subagent_run_id": "sub-1"})
    started = SubagentStartedEvent(subagent_run_id="sub-1", name="booking")
    assert Graph(started, event, SubagentFinishedEvent(subagent_run_id="sub-1")).asked() == []
    assert Graph(started, event, SubagentErrorEvent(subagent_run_id="sub-1", message="full")).asked() == []


@pytest.mark.requirement("INT-2")
def test_an_interrupt_that_is_told_of_twice_is_one() -> None:
    assert [interrupt.id for interrupt in Graph(question("1", A), question("2", B), question("1", A)).asked()] == [
        f"on_interrupt:{A}",
        f"on_interrupt:{B}",
    ]


@pytest.mark.requirement("INT-2")
@pytest.mark.parametrize("native_id", [None, "", 7, "interrupt", A.upper(), A + "0"])
def test_without_langgraphs_ids_a_question_has_one_of_its_run_and_place(native_id: Any) -> None:
    ids = [interrupt.id for interrupt in Graph(question("1", native_id), question("2", native_id)).asked()]
    assert ids == ["on_interrupt:run-1/0", "on_interrupt:run-1/1"]


# --- what is no interrupt


def listed(agent: AbstractAgent, **options: Any) -> list[Event]:
    with agent.stream_sync("Book it", **options) as run:
        return list(run)


@pytest.mark.requirement("INT-7")
def test_a_server_that_speaks_the_protocol_is_left_alone() -> None:
    """As the adapter does with `emit_interrupt_outcome=True`: the event and the outcome."""
    outcome = RunFinishedInterruptOutcome(interrupts=[Interrupt(id=A, reason="langgraph:interrupt")])
    graph = Graph(question("Book?", A), outcome=outcome)
    events = listed(graph.agent)
    assert events[2:] == [question("Book?", A), events[-1]]
    assert graph.agent.pending_interrupts == outcome.interrupts
    graph.agent.run_agent_sync(resume={A: Resolve("yes")}, forwarded_props={"a": 1})
    assert [(entry.interrupt_id, entry.payload) for entry in graph.inputs[-1].resume or []] == [(A, "yes")]
    assert graph.inputs[-1].forwarded_props == {"a": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_progress", "50 %"),
        ("on_interrupt", None),
        ("on_interrupt", 42),
        ("on_interrupt", {"by": "user"}),
        ("on_interrupt", {"id": "seat-7", "reason": 7}),
        ("on_interrupt", []),
    ],
    ids=repr,
)
def test_other_custom_events_pass(name: str, value: Any) -> None:
    graph = Graph(other := CustomEvent(name=name, value=value))
    assert listed(graph.agent)[2:-1] == [other]
    assert graph.agent.pending_interrupts == []
    assert graph.inputs[0].forwarded_props == {}


def test_a_question_needs_no_answer_before_the_next_run() -> None:
    """Its server asks again; and where it has another name for an answer, that goes in `forwarded_props`."""
    graph = Graph(question("Book?", A))
    graph.asked()
    assert graph.agent.run_agent_sync("Are you there?").interrupts == graph.agent.pending_interrupts
    graph.agent.run_agent_sync(forwarded_props={"command": {"resume": "yes"}})
    assert graph.agent.pending_interrupts == []
    assert graph.inputs[-1].forwarded_props == {"command": {"resume": "yes"}}
    assert [each.resume for each in graph.inputs] == [None, None, None]


async def failing(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield question("Book?", A)
    yield RunErrorEvent(message="out of seats")


async def cut(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield question("Book?", A)


@pytest.mark.parametrize(("function", "error"), [(failing, RunFailedError), (cut, IncompleteRunError)])
def test_a_question_of_a_run_that_did_not_finish_stays_an_event(
    function: Callable[[RunAgentInput], AsyncIterator[Event]], error: type[Exception]
) -> None:
    agent = FunctionAgent(function)
    seen: list[Event] = []
    with pytest.raises(error), agent.stream_sync("Book it") as run:
        seen.extend(run)
    assert [event.type for event in seen[:2]] == [EventType.RUN_STARTED, EventType.CUSTOM]
    assert agent.pending_interrupts == []


# --- answers


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    "answer", [None, {}, [], "", "yes", "42", "null", 0, False, {"approved": True}, {A: 1}], ids=repr
)
def test_an_answer_by_langgraphs_id_is_told_as_it_is(answer: Any) -> None:
    graph = Graph(question("Book?", A))
    graph.asked()
    assert graph.told(Resolve(answer)) == {A: answer}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("yes", "yes"),
        ("", ""),
        ("{broken", "{broken"),
        ("42", '"42"'),
        ("null", '"null"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        (0, 0),
        (False, False),
        ([], []),
        ({"approved": True}, {"approved": True}),
    ],
    ids=repr,
)
def test_a_lone_answer_without_an_id_is_told_so_that_the_adapter_reads_it_as_it_is(answer: Any, told: Any) -> None:
    graph = Graph(question("Book?"))
    graph.asked()
    assert graph.told(Resolve(answer)) == told
    # The adapter parses a string that is JSON.
    assert not isinstance(told, str) or told == answer or json.loads(told) == answer


@pytest.mark.requirement("INT-3", "INT-7")
def test_several_answers_are_told_by_langgraphs_ids() -> None:
    graph = Graph(question("Book?", A), question("Pay?", B))
    graph.asked()
    assert graph.told(Resolve("yes"), Cancel()) == {
        A: "yes",
        B: {"__agui_cancelled__": True, "interrupt_id": B},
    }


@pytest.mark.requirement("INT-3")
def test_an_abandoned_interrupt_is_told_as_the_adapter_tells_it() -> None:
    graph = Graph(question("Book?"))
    graph.asked()
    graph.agent.abandon_interrupts()
    graph.agent.run_agent_sync("Never mind")
    assert graph.inputs[-1].forwarded_props == {
        "command": {"resume": {"__agui_cancelled__": True, "interrupt_id": "run-1/0"}}
    }


def test_abandoned_interrupts_that_no_answer_can_name_are_left_to_the_server() -> None:
    graph = Graph(question("Book?"), question("Pay?"))
    asked = graph.asked()
    graph.agent.abandon_interrupts()
    assert len(graph.agent.run_agent_sync("Never mind").interrupts) == len(asked)
    assert (graph.inputs[-1].resume, graph.inputs[-1].forwarded_props) == (None, {})


def test_the_callers_own_forwarded_props_stay() -> None:
    graph = Graph(question("Book?", A))
    graph.asked()
    props = {"stream_subgraphs": False, "command": {"update": {"seat": 7}}}
    assert graph.told(Resolve("yes"), forwarded_props=props) == {A: "yes"}
    assert graph.inputs[-1].forwarded_props == {
        "stream_subgraphs": False,
        "command": {"update": {"seat": 7}, "resume": {A: "yes"}},
    }
    assert props == {"stream_subgraphs": False, "command": {"update": {"seat": 7}}}


def test_a_conversation_saved_with_a_question_is_answered_by_another_agent() -> None:
    first, second = Graph(question("Book?", A)), Graph()
    first.asked()
    second.agent.restore(first.agent.snapshot())
    assert second.told(Resolve("yes")) == {A: "yes"}


@every_result_verb
@pytest.mark.requirement("INT-3")
@pytest.mark.parametrize(
    ("questions", "answers", "options", "said"),
    [
        ([question("1"), question("2")], [Resolve(1), Resolve(2)], {}, "2 interrupts cannot be answered at once"),
        ([question("1", A), question("2")], [Resolve(1), Resolve(2)], {}, "2 interrupts cannot be answered at once"),
        ([question("1")], [Resolve()], {}, "an empty answer cannot be sent"),
        ([question("1")], [Resolve({})], {}, "an empty answer cannot be sent"),
        ([question("1", A)], [Resolve(1)], {"forwarded_props": [1]}, "forwarded_props carry the answers"),
    ],
)
def test_what_cannot_be_told_is_refused_before_anything_is_sent(
    verb: Verb, questions: Sequence[CustomEvent], answers: Sequence[Answer], options: Any, said: str
) -> None:
    graph = Graph(*questions)
    asked = graph.asked()
    messages = graph.agent.messages
    resume = {interrupt.id: answer for interrupt, answer in zip(asked, answers, strict=True)}
    error = verb(graph.agent, "And quickly", resume=resume, **options).error
    assert isinstance(error, UsageError)
    assert str(error).startswith(said)
    assert str(error).endswith("nothing was sent")
    assert len(graph.inputs) == 1
    assert (graph.agent.pending_interrupts, graph.agent.messages) == (asked, messages)


# --- CrewAI's adapter


@pytest.mark.requirement("INT-1", "INT-7")
def test_an_interrupt_of_1_0_in_the_custom_event_is_answered_as_one() -> None:
    """CrewAI's adapter sends the interrupt itself, and reads `resume`."""
    asked = {
        "id": "pause-1",
        "reason": "crewai:human_feedback",
        "message": "Good?",
        "responseSchema": {"type": "string"},
    }
    graph = Graph(CustomEvent(name="on_interrupt", value=asked))
    (interrupt,) = graph.asked()
    assert interrupt == Interrupt.model_validate({**asked, "id": "on_interrupt/1.0:pause-1"})
    graph.agent.run_agent_sync(resume={interrupt.id: Resolve("yes")})
    assert [(entry.interrupt_id, entry.payload) for entry in graph.inputs[-1].resume or []] == [("pause-1", "yes")]
    assert graph.inputs[-1].forwarded_props == {}


def test_what_only_looks_like_an_interrupt_of_1_0_is_langgraphs() -> None:
    value = {"id": "seat-7", "reason": "booking"}
    broken = {"id": "seat-7", "reason": "booking", "message": 7}
    for event in (question(value, A), CustomEvent(name="on_interrupt", value=json.dumps(broken))):
        (interrupt,) = Graph(event).asked()
        assert interrupt.id.startswith("on_interrupt:")


# --- LangChain's human-in-the-loop middleware

REVIEW: dict[str, Any] = {
    "action_requests": [{"name": "transfer", "args": {"to": "Ada", "amount": 5}, "description": "Send money?"}],
    "review_configs": [{"action_name": "transfer", "allowed_decisions": ["approve", "edit", "reject"]}],
}
EDITED = {"type": "edit", "edited_action": {"name": "transfer", "args": {"to": "Ada", "amount": 1}}}


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (Approve(), {"type": "approve"}),
        (Approve(arguments={"to": "Ada", "amount": 1}), EDITED),
        (Deny(), {"type": "reject"}),
        (Deny("Too much."), {"type": "reject", "message": "Too much."}),
        (Cancel(), {"type": "reject"}),
    ],
)
def test_a_review_of_langchain_gets_decisions_in_its_words(answer: Answer, decision: Any) -> None:
    graph = Graph(question(REVIEW, A))
    (interrupt,) = graph.asked()
    assert interrupt.message == "Send money?"
    assert graph.told(answer) == {A: {"decisions": [decision]}}


@pytest.mark.requirement("INT-7")
def test_a_review_of_one_call_gets_one_decision() -> None:
    request: dict[str, Any] = {
        "type": "tool_approval",
        "tool_call_id": "c1",
        "name": "transfer",
        "args": {},
        "description": "Send?",
    }
    graph = Graph(question(request, A))
    (interrupt,) = graph.asked()
    assert (interrupt.tool_call_id, interrupt.message) == ("c1", "Send?")
    assert graph.told(Approve(arguments={"to": "Ada", "amount": 1})) == {A: EDITED}


def test_a_review_in_the_form_of_1_0_gets_the_same_decisions() -> None:
    """Without middleware, as an adapter with `emit_interrupt_outcome=True` sends it; also when it is abandoned."""
    asked = Interrupt(id=A, reason="langgraph:interrupt", metadata={"langgraph": {"raw": REVIEW}})
    answers: dict[str, dict[str, Answer]] = {"approve": {A: Approve()}, "reject": {}}
    for kind, answer in answers.items():
        graph = Graph(outcome=RunFinishedInterruptOutcome(interrupts=[asked]))
        graph.asked()
        if answer:
            graph.agent.run_agent_sync(resume=answer)
        else:
            graph.agent.abandon_interrupts()
            graph.agent.run_agent_sync()
        (entry,) = graph.inputs[-1].resume or []
        assert (entry.status, entry.payload) == ("resolved", {"decisions": [{"type": kind}]})


@pytest.mark.requirement("INT-7")
def test_a_review_of_several_actions_gets_a_decision_for_each() -> None:
    several = {"action_requests": REVIEW["action_requests"] * 2}
    graph = Graph(question(several, A))
    graph.asked()
    with pytest.raises(InterruptsNotCoveredError, match="several actions"):
        graph.told(Approve(arguments={"to": "Ada", "amount": 1}))
    assert graph.told(Approve()) == {A: {"decisions": [{"type": "approve"}] * 2}}


def test_a_decision_that_a_review_does_not_allow_is_refused() -> None:
    configs = [{"action_name": "transfer", "allowed_decisions": ["approve", "reject"]}]
    graph = Graph(question({**REVIEW, "review_configs": configs}, A))
    graph.asked()
    with pytest.raises(InterruptsNotCoveredError, match="only approve, reject is allowed"):
        graph.told(Approve(arguments={"to": "Ada", "amount": 1}))
    assert len(graph.inputs) == 1


# --- passed on, and recorded


def test_a_recording_asks_and_takes_the_answer(tmp_path: Path) -> None:
    graph, path = Graph(question("Book?", A)), tmp_path / "run.jsonl"
    graph.agent.use(record(path))

    def ask(agent: AbstractAgent) -> tuple[str | None, Any]:
        (asked,) = agent.run_agent_sync("Book it").interrupts
        return asked.message, agent.run_agent_sync(resume={asked.id: Resolve("yes")}).state

    assert ask(graph.agent) == ask(ReplayAgent(path)) == ("Book?", {"resumed": True})
    assert validate(path) == []


def events_for_a_page(graph: Graph, *, is_stored: bool) -> Callable[..., list[dict[str, Any]]]:
    """Serve the agent of a graph; returns a page's function that posts an input and gives the events of the answer."""
    threads = Store(MemoryStore()).threads
    app = agent_app(lambda _, given: threads.open(given.thread_id, graph.agent) if is_stored else graph.agent)

    async def sent(path: str, body: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=ASGITransport(app)) as client:
            return await client.post(f"http://app/{path}", json=body)

    def post(run_id: str, path: str = "", **members: Any) -> list[dict[str, Any]]:
        body: dict[str, Any] = {"threadId": "page-1", "runId": run_id, "messages": [], **members}
        response = anyio.run(sent, path, body)
        assert response.status_code == 200, response.text
        return [json.loads(each.removeprefix(b"data: ")) for each in events_of(response.content)]

    return post


HI = {"id": "u1", "role": "user", "content": "Book it"}


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored"])
def test_a_page_that_knows_the_event_gets_no_outcome_and_answers_as_it_does(*, is_stored: bool) -> None:
    """The TypeScript client refuses a run that answers an outcome in `forwardedProps`; CopilotKit's page answers so."""
    graph = Graph(question("Book?", A))
    post = events_for_a_page(graph, is_stored=is_stored)
    *_, asked, finished = post("r1", messages=[HI])
    assert (asked["name"], asked["value"], finished.get("outcome")) == ("on_interrupt", "Book?", None)
    answered = post("r2", messages=[HI], forwardedProps={"command": {"resume": "yes"}})
    types = [each["type"] for each in answered if each["type"] != "STATE_SNAPSHOT"]
    assert types == ["RUN_STARTED", "RUN_FINISHED"]
    assert graph.inputs[-1].forwarded_props == {"command": {"resume": "yes"}}


def test_a_page_that_does_not_know_the_event_goes_on_with_a_stored_thread() -> None:
    post = events_for_a_page(Graph(question("Book?", A)), is_stored=True)
    post("r1", messages=[HI])
    assert "outcome" not in post("c1", "connect")[-1]
    assert post("r2", messages=[{**HI, "id": "u2"}])[-1]["type"] == "RUN_FINISHED"


def test_a_question_that_is_answered_by_the_served_agent_is_none_for_its_caller() -> None:
    graph = Graph(question("Book?", A))
    asked: list[str | None] = []

    async def answer(interrupt: Interrupt) -> Answer:
        asked.append(interrupt.message)
        return Resolve("yes")

    graph.agent = FunctionAgent(graph.run, answer=answer)
    caller = HttpAgent("http://app/", app=agent_app(graph.agent))
    seen = listed(caller)
    assert asked == ["Book?"]
    assert [event.type for event in seen] == ["RUN_STARTED", "STATE_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
    assert (caller.state, caller.pending_interrupts) == ({"resumed": True}, [])


@every_result_verb
def test_a_client_of_a_served_agent_answers_through_it(verb: Verb) -> None:
    graph = Graph(question("Book?", A))
    caller = HttpAgent("http://app/", app=agent_app(graph.agent))
    verb(caller, "Book it")
    (asked,) = caller.pending_interrupts
    answered = verb(caller, resume={asked.id: Resolve("yes")})
    assert (answered.error, caller.pending_interrupts, caller.state) == (None, [], {"resumed": True})
    assert graph.inputs[-1].forwarded_props == {"command": {"resume": {A: "yes"}}}


@pytest.mark.parametrize("is_asked_at_once", [True, False])
def test_members_of_a_team_ask_and_are_answered(*, is_asked_at_once: bool) -> None:
    graphs = [Graph(question(f"{name}?", A)) for name in ("Oslo", "Turin")]
    members = [FunctionAgent(graph.run, agent_id=name) for graph, name in zip(graphs, ("oslo", "turin"), strict=True)]

    def answer(interrupt: Interrupt) -> Answer:
        return Resolve("yes")

    handlers: dict[str, Any] = {"answer": answer} if is_asked_at_once else {}
    team = SequentialAgent(ParallelAgent(*members), agent_id="desk", **handlers)
    result = team.run_agent_sync("Book it")
    if not is_asked_at_once:
        assert [each.message for each in result.interrupts] == ["Oslo?", "Turin?"]
        result = team.run_agent_sync(resume={each.id: Resolve("yes") for each in result.interrupts})
    assert (result.interrupts, result.warnings) == ([], [])
    assert [graph.inputs[-1].forwarded_props for graph in graphs] == [{"command": {"resume": {A: "yes"}}}] * 2
