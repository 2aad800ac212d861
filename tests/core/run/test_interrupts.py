"""Interrupts on an agent: nothing is sent until every one is answered, once and fittingly (INT-1 … INT-8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from ag_ui.core import (
    AssistantMessage,
    Interrupt,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedInterruptOutcome,
    UserMessage,
)

from agui_client import (
    Approve,
    Cancel,
    ConversationSnapshot,
    HttpAgent,
    InterruptsNotCoveredError,
    ProtocolError,
    Resolve,
    RunFailedError,
)
from agui_client.testing import Reply, ScriptedAgent, Step, interrupt, serve_bytes, text, tool_call, tool_result, turn
from agui_client.types import RunOptions
from support.verbs import Verb, every_kind_of_verb

DONE = turn(text("Done."))
PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


def asking(*interrupts: Interrupt) -> RunFinishedInterruptOutcome:
    return RunFinishedInterruptOutcome(type="interrupt", interrupts=list(interrupts))


def question(interrupt_id: str, **fields: Any) -> Interrupt:
    return Interrupt(id=interrupt_id, reason="confirmation", **fields)


def interrupted(*interrupts: Interrupt) -> ScriptedAgent:
    """An agent whose last run asked these, and whose next run is done."""
    agent = ScriptedAgent(turn(text("Ready."), outcome=asking(*interrupts)), DONE)
    agent.run_agent_sync("Pay")
    return agent


def sent_entries(agent: ScriptedAgent) -> list[dict[str, Any]]:
    entries = agent.inputs[-1].resume or []
    return [entry.model_dump(by_alias=True, exclude_none=True) for entry in entries]


def refusal(agent: ScriptedAgent, verb: Verb, resume: Any) -> str:
    """What a resume is refused with; nothing may be sent or changed by it."""
    messages, pending = agent.messages, agent.pending_interrupts
    options: RunOptions = {} if resume is None else {"resume": resume}
    error = verb(agent, "Go on", **options).error
    assert isinstance(error, InterruptsNotCoveredError)
    assert (agent.messages, agent.pending_interrupts) == (messages, pending)
    assert len(agent.inputs) == 1
    assert not agent.is_running
    return str(error)


# --- coming and going on


@every_kind_of_verb
@pytest.mark.requirement("INT-1", "INT-7")
def test_an_interrupted_run_returns_with_its_interrupts_as_they_came(verb: Verb) -> None:
    full = question("i1", message="Pay 100 EUR?", tool_call_id="c1", response_schema={"x": 1}, metadata={"a": None})
    agent = ScriptedAgent(turn(outcome=asking(full, question("i2"))), DONE)
    ending = verb(agent, "Pay")
    assert ending.error is None
    assert agent.pending_interrupts == [full, question("i2")]
    if ending.result:
        assert ending.result.interrupts == [full, question("i2")]


@every_kind_of_verb
@pytest.mark.requirement("INT-1", "INT-3", "INT-7")
def test_answers_are_sent_with_a_new_run_on_the_same_thread(verb: Verb) -> None:
    agent = interrupted(question("i1"), question("i2"), question("i3"))
    answers: dict[str, Resolve | Cancel] = {
        "i1": Resolve({"approved": True}, metadata={"by": "ada"}),
        "i2": Cancel(metadata={"why": "late"}),
        "i3": Resolve(),
    }
    assert verb(agent, resume=answers).error is None
    assert sent_entries(agent) == [
        {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}, "metadata": {"by": "ada"}},
        {"interruptId": "i2", "status": "cancelled", "metadata": {"why": "late"}},
        {"interruptId": "i3", "status": "resolved"},
    ]
    asked, resumed = agent.inputs
    assert resumed.thread_id == asked.thread_id
    assert resumed.run_id != asked.run_id
    assert [message.content for message in resumed.messages] == ["Pay", "Ready."]
    assert agent.pending_interrupts == []


@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("payload", [0, "", False, [], {"a": None}, "yes"], ids=repr)
def test_any_json_is_an_answer(payload: Any) -> None:
    agent = interrupted(question("i1"))
    agent.run_agent_sync(resume={"i1": Resolve(payload)})
    assert sent_entries(agent) == [{"interruptId": "i1", "status": "resolved", "payload": payload}]


@pytest.mark.requirement("INT-7", "INPUT-6")
def test_no_payload_is_left_out_on_the_wire() -> None:
    with serve_bytes(b"") as server:
        agent = HttpAgent(server.url)
        agent.restore(interrupted(question("i1")).snapshot())
        with pytest.raises(ProtocolError):
            agent.run_agent_sync(resume={"i1": Resolve(None)})
        assert server.requests[0].json()["resume"] == [{"interruptId": "i1", "status": "resolved"}]


@every_kind_of_verb
def test_the_protocols_own_entries_are_taken_too(verb: Verb) -> None:
    agent = interrupted(question("i1"))
    assert verb(agent, resume=[ResumeEntry(interrupt_id="i1", status="cancelled")]).error is None
    assert sent_entries(agent) == [{"interruptId": "i1", "status": "cancelled"}]


@every_kind_of_verb
@pytest.mark.requirement("INT-8")
def test_a_resumed_run_may_end_in_the_same_interrupt_again(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")))
    for _ in range(3):
        options: RunOptions = {"resume": {i.id: Resolve(True) for i in agent.pending_interrupts}}
        assert verb(agent, **options).error is None
        assert [each.id for each in agent.pending_interrupts] == ["interrupt-1"]


@every_kind_of_verb
@pytest.mark.requirement("INT-8")
def test_a_resumed_run_may_be_refused_and_the_interrupts_stay_until_a_run_begins(verb: Verb) -> None:
    with serve_bytes(Reply(status=503)) as server:
        agent = HttpAgent(server.url)
        agent.restore(interrupted(question("i1")).snapshot())
        assert verb(agent, resume={"i1": Resolve(True)}).error is not None
        assert [each.id for each in agent.pending_interrupts] == ["i1"]
        assert verb(agent, resume={"i1": Resolve(True)}).error is not None
        assert len(server.requests) == 2


@pytest.mark.requirement("INT-8", "SET-26")
def test_what_a_failed_run_has_answered_may_be_answered_again_also_after_a_restore_and_need_not_be() -> None:
    failed = turn(text("Half"), RunErrorEvent(message="overloaded"))
    agent = ScriptedAgent(turn(outcome=asking(question("i1"), question("i2"))), failed, failed, DONE)
    agent.run_agent_sync("Pay")
    answers: dict[str, Any] = {"i1": Resolve(True), "i2": Cancel()}
    again: list[RunOptions] = [{"resume": answers}, {}]
    for options in again:
        with pytest.raises(RunFailedError, match="overloaded"):
            agent.run_agent_sync(**options)
        assert [each.id for each in agent.pending_interrupts] == ["i1", "i2"]
    agent.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    with pytest.raises(InterruptsNotCoveredError, match="i2"):
        agent.run_agent_sync(resume={"i1": Resolve(True)})
    assert agent.run_agent_sync(resume=answers).text == "Done."
    assert [each["interruptId"] for each in sent_entries(agent)] == ["i1", "i2"]
    with pytest.raises(InterruptsNotCoveredError):
        agent.run_agent_sync(resume=answers)


@pytest.mark.requirement("INT-8")
def test_an_approval_whose_call_the_failed_run_has_carried_out_stays_decided() -> None:
    asks = turn(
        tool_call("pay", tool_call_id="c1"),
        tool_call("pay", tool_call_id="c2"),
        outcome=asking(question("i1", tool_call_id="c1"), question("i2", tool_call_id="c2")),
    )
    failed = turn(tool_result("paid", tool_call_id="c1"), RunErrorEvent(message="overloaded"))
    agent = ScriptedAgent(asks, failed, DONE)
    agent.run_agent_sync("Pay")
    with pytest.raises(RunFailedError, match="overloaded"):
        agent.run_agent_sync(resume={"i1": Approve(), "i2": Approve()})
    assert [each.id for each in agent.pending_interrupts] == ["i2"]
    assert agent.run_agent_sync(resume={"i2": Approve()}).text == "Done."


@every_kind_of_verb
@pytest.mark.requirement("INT-8")
def test_resuming_where_nothing_waits_is_refused(verb: Verb) -> None:
    agent = ScriptedAgent(DONE)
    agent.run_agent_sync("Hi")
    said = refusal(agent, verb, {"i1": Resolve(True)})
    assert said == "nothing was sent: 'i1' is not among the pending interrupts, as there are none"
    for slip in (True, Resolve(True), "yes", [Resolve(True)]):
        assert "resume is {interrupt_id: answer} with Resolve(answer)" in refusal(agent, verb, slip)


@every_kind_of_verb
@pytest.mark.requirement("INT-4")
def test_only_the_latest_runs_interrupts_are_pending(verb: Verb) -> None:
    agent = ScriptedAgent(
        turn(outcome=interrupt("One?", interrupt_id="i1")), turn(outcome=interrupt("Two?", interrupt_id="i2")), DONE
    )
    verb(agent)
    verb(agent, resume={"i1": Resolve(True)})
    assert [each.id for each in agent.pending_interrupts] == ["i2"]
    error = verb(agent, resume={"i1": Resolve(True), "i2": Resolve(True)}).error
    assert isinstance(error, InterruptsNotCoveredError)
    assert verb(agent, resume={"i2": Resolve(True)}).error is None


@every_kind_of_verb
@pytest.mark.requirement("INT-2", "SET-6")
def test_two_interrupts_with_one_id_reject_the_stream(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=asking(question("i1"), question("i1"))))
    error = verb(agent).error
    assert isinstance(error, ProtocolError)
    assert error.rule == "INT-2"
    assert agent.pending_interrupts == []


@every_kind_of_verb
def test_a_failed_run_leaves_nothing_pending(verb: Verb) -> None:
    failing: list[Step] = [turn(outcome=interrupt("Proceed?")), RunErrorEvent(message="late")]
    agent = ScriptedAgent(failing, DONE)
    assert isinstance(verb(agent).error, RunFailedError)
    assert verb(agent, "Go on").error is None


# --- answers that do not cover


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
@pytest.mark.parametrize("resume", [None, {}, [], {"i1": Resolve(True)}], ids=repr)
def test_a_missing_answer_is_refused(verb: Verb, resume: Any) -> None:
    said = refusal(interrupted(question("i1"), question("i2")), verb, resume)
    assert said.startswith("nothing was sent: no answer to ")
    assert "'i2'" in said
    assert "abandon_interrupts()" in said


@every_kind_of_verb
@pytest.mark.requirement("INT-4", "SET-7")
def test_an_unknown_answer_is_refused(verb: Verb) -> None:
    said = refusal(interrupted(question("i1")), verb, {"i1": Resolve(True), "i9": Cancel()})
    assert said == "nothing was sent: 'i9' is not among the pending interrupts"


@every_kind_of_verb
@pytest.mark.requirement("INT-4", "SET-7")
def test_a_second_answer_is_refused(verb: Verb) -> None:
    twice = [ResumeEntry(interrupt_id="i1", status="resolved"), ResumeEntry(interrupt_id="i1", status="cancelled")]
    assert refusal(interrupted(question("i1")), verb, twice) == "nothing was sent: 'i1' is answered twice"


@every_kind_of_verb
@pytest.mark.parametrize("answer", [True, "yes", None, {"approved": True}], ids=repr)
def test_a_bare_answer_is_refused_with_what_to_write_instead(verb: Verb, answer: Any) -> None:
    assert "Resolve(answer)" in refusal(interrupted(question("i1")), verb, {"i1": answer})


# --- expiry


@every_kind_of_verb
@pytest.mark.requirement("INT-5")
def test_an_expired_interrupt_can_only_be_cancelled(verb: Verb) -> None:
    agent = interrupted(question("i1", expires_at=PAST))
    assert "expired at 2001-01-01T00:00:00Z" in refusal(agent, verb, {"i1": Resolve(True)})
    assert verb(agent, resume={"i1": Cancel()}).error is None


@pytest.mark.requirement("INT-6")
@pytest.mark.parametrize("moment", [FUTURE, "2999-01-01", "2999-01-01T00:00:00+02:00", "tomorrow", "", "9"])
def test_what_has_not_come_and_what_is_no_date_has_not_expired(moment: str) -> None:
    agent = interrupted(question("i1", expires_at=moment))
    assert agent.run_agent_sync(resume={"i1": Resolve(True)}).text == "Done."


@pytest.mark.requirement("INT-6")
@pytest.mark.parametrize(
    "moment", [PAST, "2001-01-01", "2001-01-01T00:00:00", "2001-01-01T00:00:00.123+02:00", "20010101T000000Z"]
)
def test_a_date_in_the_past_has_expired(moment: str) -> None:
    agent = interrupted(question("i1", expires_at=moment))
    with pytest.raises(InterruptsNotCoveredError, match="expired"):
        agent.run_agent_sync(resume={"i1": Resolve(True)})


@pytest.mark.requirement("INT-6")
def test_a_date_without_a_zone_is_utc() -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    agent = interrupted(question("i1", expires_at=soon.replace(tzinfo=None).isoformat()))
    assert agent.run_agent_sync(resume={"i1": Resolve(True)}).text == "Done."
    ago = datetime.now(UTC) - timedelta(minutes=5)
    agent = interrupted(question("i1", expires_at=ago.replace(tzinfo=None).isoformat()))
    with pytest.raises(InterruptsNotCoveredError):
        agent.run_agent_sync(resume={"i1": Resolve(True)})


# --- the schema of an answer

SCHEMA = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}


def test_answers_are_by_id() -> None:
    agent = interrupted(question("i1"))
    with pytest.raises(InterruptsNotCoveredError, match=r"resume is \{interrupt_id: answer\}"):
        agent.run_agent_sync(resume=cast("Any", {1: Resolve("yes")}))
    assert agent.run_agent_sync(resume={"i1": Resolve("yes")}).text == "Done."


@every_kind_of_verb
@pytest.mark.requirement("INT-7")
@pytest.mark.parametrize("payload", [None, {}, {"approved": "yes"}, True], ids=repr)
def test_an_answer_that_does_not_fit_its_schema_is_refused(verb: Verb, payload: Any) -> None:
    agent = interrupted(question("i1", response_schema=SCHEMA))
    assert "the answer to 'i1' does not fit its responseSchema at $" in refusal(agent, verb, {"i1": Resolve(payload)})
    assert verb(agent, resume={"i1": Resolve({"approved": False})}).error is None


def test_an_abandoned_interrupt_needs_no_fitting_answer() -> None:
    agent = interrupted(question("i1", response_schema=SCHEMA))
    assert agent.run_agent_sync(resume={"i1": Cancel()}).text == "Done."


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 7},
        {"pattern": "["},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"$id": 7},
        {"$id": "http://[", "$ref": "x"},
        {"$schema": "of the future", "type": "string"},
        {"$schema": 7},
        {"$schema": ["x"]},
        {},
    ],
    ids=repr,
)
def test_a_schema_that_is_none_refuses_nothing(schema: dict[str, Any]) -> None:
    agent = interrupted(question("i1", response_schema=schema))
    assert agent.run_agent_sync(resume={"i1": Resolve("yes")}).text == "Done."


def test_a_schema_makes_nobody_fetch_anything() -> None:
    with serve_bytes(Reply([b'{"type": "string"}'], content_type="application/json")) as server:
        agent = interrupted(question("i1", response_schema={"$ref": server.url + "schema.json"}))
        assert agent.run_agent_sync(resume={"i1": Resolve(7)}).text == "Done."
        assert server.requests == []


# --- going on without


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_abandoning_cancels_every_interrupt_with_the_next_run(verb: Verb) -> None:
    agent = interrupted(question("i1"), question("i2", expires_at=PAST))
    agent.abandon_interrupts()
    assert verb(agent, "Something else").error is None
    assert sent_entries(agent) == [
        {"interruptId": "i1", "status": "cancelled"},
        {"interruptId": "i2", "status": "cancelled"},
    ]
    assert verb(agent, "And on").error is None
    assert sent_entries(agent) == []


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_what_is_said_instead_of_an_answer_stays_when_a_snapshot_does_not_know_it(verb: Verb) -> None:
    asked, done = UserMessage(id="u1", content="Book it."), AssistantMessage(id="a1", content="Not booked.")
    unaware = MessagesSnapshotEvent(messages=[asked, done])
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")), turn(unaware), turn(unaware))
    agent.run_agent_sync(asked)
    agent.abandon_interrupts()
    for prompt in (UserMessage(id="u2", content="Something else"), None):
        assert verb(agent, prompt).error is None
        assert [message.id for message in agent.messages] == ["u1", "u2", "a1"]


def test_abandoning_is_for_one_time() -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")))
    agent.run_agent_sync()
    agent.abandon_interrupts()
    agent.run_agent_sync()
    with pytest.raises(InterruptsNotCoveredError):
        agent.run_agent_sync()


def test_abandoning_where_nothing_waits_does_nothing() -> None:
    agent = ScriptedAgent(turn(outcome=interrupt("Proceed?")))
    agent.abandon_interrupts()
    agent.run_agent_sync()
    with pytest.raises(InterruptsNotCoveredError):
        agent.run_agent_sync()


def test_the_list_of_pending_interrupts_is_the_callers_own() -> None:
    agent = interrupted(question("i1"))
    agent.pending_interrupts.clear()
    assert [each.id for each in agent.pending_interrupts] == ["i1"]
