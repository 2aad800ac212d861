"""Answering interrupts inline: `answer=` settles some, the rest comes back, and what was answered is kept for later."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from ag_ui.core import (
    Event,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
)
from pydantic import BaseModel

from agui_client import (
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    InterruptsNotCoveredError,
    People,
    Resolve,
    RunFailedError,
    ToolContext,
    UsageError,
    answer_model,
    tool,
)
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn
from support.tool_rounds import Ran, results_in, results_sent
from support.verbs import Verb, every_kind_of_verb, every_result_verb

DONE = turn(text("Done."))
YES_OR_NO = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
    "additionalProperties": False,
}
ASK = interrupt("Buy?", interrupt_id="i1", response_schema=YES_OR_NO)
PAST = "2020-01-01T00:00:00Z"


def ask_both(*, expires_at: str | None = None) -> RunFinishedInterruptOutcome:
    first = Interrupt(id="i1", reason="confirmation", message="Buy?")
    second = Interrupt(id="i2", reason="confirmation", message="Now?", expires_at=expires_at)
    return RunFinishedInterruptOutcome(type="interrupt", interrupts=[first, second])


def resolved(interrupt_id: str, payload: Any) -> ResumeEntry:
    return ResumeEntry(interrupt_id=interrupt_id, status="resolved", payload=payload)


def resumes(agent: ScriptedAgent) -> list[list[ResumeEntry] | None]:
    """The answers that each run was given."""
    return [asked.resume for asked in agent.inputs]


async def answer_async(asked: Interrupt) -> Resolve:
    await anyio.lowlevel.checkpoint()
    return Resolve({"approved": True})


class Answers:
    """An object that is called like a coroutine function."""

    async def __call__(self, asked: Interrupt) -> Resolve:
        """Answer."""
        return await answer_async(asked)


HANDLERS: dict[str, Callable[[Interrupt], Any]] = {
    "async": answer_async,
    "sync": lambda asked: Resolve({"approved": True}),
    "an object's coroutine": Answers(),
    "Approve()": lambda asked: Approve(),
}


@pytest.mark.parametrize("answer", HANDLERS.values(), ids=list(HANDLERS))
@every_kind_of_verb
@pytest.mark.requirement("INT-1", "INT-7")
def test_what_is_answered_goes_out_with_a_follow_up_run(verb: Verb, answer: Any) -> None:
    agent = ScriptedAgent(turn(text("Well,", message_id="m1"), outcome=ASK), DONE, answer=answer)
    assert verb(agent, "Hi").error is None
    assert resumes(agent) == [None, [resolved("i1", {"approved": True})]]
    assert agent.inputs[0].thread_id == agent.inputs[1].thread_id
    assert [message.role for message in agent.inputs[1].messages] == ["user", "assistant"]
    assert (agent.pending_interrupts, agent.messages[-1].content) == ([], "Done.")


DECISIONS: dict[str, tuple[Any, ResumeEntry]] = {
    "Deny": (Deny("too dear"), resolved("i1", {"approved": False, "reason": "too dear"})),
    "Resolve": (Resolve({"approved": False}), resolved("i1", {"approved": False})),
    "Cancel": (Cancel(), ResumeEntry(interrupt_id="i1", status="cancelled")),
}


@pytest.mark.parametrize(("decision", "entry"), DECISIONS.values(), ids=list(DECISIONS))
@every_kind_of_verb
@pytest.mark.requirement("INT-7")
def test_a_decision_is_said_in_the_words_of_the_schema(verb: Verb, decision: Any, entry: ResumeEntry) -> None:
    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=lambda asked: decision)
    assert verb(agent, "Hi").error is None
    assert resumes(agent)[1] == [entry]


def test_an_answer_can_be_a_model_made_from_the_schema() -> None:
    models: list[type[BaseModel] | None] = []

    def answer(asked: Interrupt) -> Resolve:
        model = answer_model(asked)
        models.append(model)
        assert model is not None
        return Resolve(model.model_validate({"approved": True}))

    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=answer)
    agent.run_agent_sync("Hi")
    assert resumes(agent)[1] == [resolved("i1", {"approved": True})]


@every_result_verb
def test_an_agent_that_asks_again_is_answered_again(verb: Verb) -> None:
    asked: list[str | None] = []

    def answer(interrupt: Interrupt) -> Resolve:
        asked.append(interrupt.message)
        return Resolve(len(asked))

    turns = turn(outcome=interrupt("One?")), turn(outcome=interrupt("Two?")), DONE
    agent = ScriptedAgent(*turns, answer=answer)
    result = verb(agent, "Hi").result
    assert result is not None
    assert (result.text, result.interrupts, asked) == ("Done.", [], ["One?", "Two?"])
    assert resumes(agent) == [None, [resolved("interrupt-1", 1)], [resolved("interrupt-1", 2)]]


# --- some are answered


def only_the_first(asked: Interrupt) -> Resolve | None:
    return Resolve("yes") if asked.id == "i1" else None


@every_result_verb
@pytest.mark.requirement("INT-3")
def test_what_nobody_answered_comes_back_and_the_rest_is_kept_for_then(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), DONE, answer=only_the_first)
    result = verb(agent, "Hi").result
    assert result is not None
    assert ([each.id for each in result.interrupts], len(agent.inputs)) == (["i2"], 1)
    assert [each.id for each in agent.pending_interrupts] == ["i2"]
    done = verb(agent, resume={"i2": Resolve("now")}).result
    assert done is not None
    assert (done.text, agent.pending_interrupts) == ("Done.", [])
    assert resumes(agent)[1] == [resolved("i1", "yes"), resolved("i2", "now")]


@every_kind_of_verb
@pytest.mark.requirement("INT-3", "INT-4")
def test_the_rest_must_be_covered_and_what_was_answered_cannot_be_answered_again(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), DONE, answer=only_the_first)
    verb(agent, "Hi")
    for resume in (None, {"i1": Resolve("no"), "i2": Resolve("now")}):
        before = agent.snapshot()
        assert isinstance(verb(agent, resume=resume).error, InterruptsNotCoveredError)  # type: ignore[arg-type]
        assert (agent.snapshot(), len(agent.inputs)) == (before, 1)


@every_kind_of_verb
def test_kept_answers_survive_in_a_saved_conversation(verb: Verb) -> None:
    first = ScriptedAgent(turn(outcome=ask_both()), answer=only_the_first)
    verb(first, "Hi")
    second = ScriptedAgent(DONE)
    second.restore(ConversationSnapshot.model_validate_json(first.snapshot().model_dump_json()))
    assert [each.id for each in second.pending_interrupts] == ["i2"]
    assert verb(second, resume={"i2": Cancel()}).error is None
    assert resumes(second)[0] == [
        resolved("i1", "yes"),
        ResumeEntry(interrupt_id="i2", status="cancelled"),
    ]


@every_kind_of_verb
def test_kept_answers_go_out_when_the_rest_is_abandoned(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), DONE, answer=only_the_first)
    verb(agent, "Hi")
    agent.abandon_interrupts()
    assert verb(agent, "Go on").error is None
    assert resumes(agent)[1] == [resolved("i1", "yes"), ResumeEntry(interrupt_id="i2", status="cancelled")]


def test_a_clone_has_the_kept_answers() -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), DONE, answer=only_the_first)
    agent.run_agent_sync("Hi")
    agent.clone().run_agent_sync(resume={"i2": Resolve(1)})
    agent.run_agent_sync(resume={"i2": Resolve(2)})
    assert resumes(agent)[1:] == [[resolved("i1", "yes"), resolved("i2", number)] for number in (1, 2)]


@every_kind_of_verb
def test_nothing_is_kept_of_an_earlier_interruption(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), turn(outcome=ask_both()), DONE, answer=only_the_first)
    verb(agent, "Hi")
    verb(agent, resume={"i2": Resolve("now")})
    assert verb(agent, resume={"i2": Resolve("later")}).error is None
    assert resumes(agent)[2] == [resolved("i1", "yes"), resolved("i2", "later")]


# --- answers that are none


INVALID: dict[str, tuple[Any, str]] = {
    "no answer": ("yes", "answer= returned a str as the answer to interrupt 'i1'; it returns Resolve(answer)"),
    "a payload that does not fit": (Resolve({"approved": "yes"}), "does not fit its responseSchema at $.approved"),
    "a yes without its object": (Resolve(True), "does not fit its responseSchema at $"),
}


@pytest.mark.parametrize(("answer", "why"), INVALID.values(), ids=list(INVALID))
@every_kind_of_verb
@pytest.mark.requirement("INT-7")
def test_an_answer_that_does_not_fit_ends_the_call_and_the_question_stays(verb: Verb, answer: Any, why: str) -> None:
    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=lambda asked: answer)
    error = verb(agent, "Hi").error
    assert isinstance(error, UsageError)
    assert why in str(error)
    assert error.partial is not None
    assert [each.id for each in error.partial.interrupts] == ["i1"]
    assert ([each.id for each in agent.pending_interrupts], len(agent.inputs)) == (["i1"], 1)
    assert verb(agent, resume={"i1": Approve()}).error is None


@every_kind_of_verb
@pytest.mark.requirement("INT-5")
def test_an_expired_question_can_only_be_abandoned(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both(expires_at=PAST)), DONE, answer=lambda asked: Resolve("yes"))
    error = verb(agent, "Hi").error
    assert isinstance(error, InterruptsNotCoveredError)
    assert "'i2' expired at 2020-01-01T00:00:00Z; it can only be abandoned with Cancel()" in str(error)
    careful = ScriptedAgent(
        turn(outcome=ask_both(expires_at=PAST)), DONE, answer=lambda asked: Cancel() if asked.expires_at else Approve()
    )
    assert verb(careful, "Hi").error is None
    assert resumes(careful)[1] == [resolved("i1", True), ResumeEntry(interrupt_id="i2", status="cancelled")]


@every_kind_of_verb
def test_a_handler_that_fails_ends_the_call_and_the_question_stays(verb: Verb) -> None:
    def answer(asked: Interrupt) -> Resolve:
        raise KeyError("the screen is broken")

    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=answer)
    assert isinstance(verb(agent, "Hi").error, KeyError)
    assert ([each.id for each in agent.pending_interrupts], agent.is_running) == (["i1"], False)


@pytest.mark.parametrize("second", [KeyError("the screen is broken"), "no answer"], ids=["raises", "does not fit"])
@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_what_was_answered_before_it_went_wrong_is_kept(verb: Verb, second: Any) -> None:
    def answer(asked: Interrupt) -> Any:
        if asked.id == "i1":
            return Resolve("yes")
        if isinstance(second, Exception):
            raise second
        return second

    agent = ScriptedAgent(turn(outcome=ask_both()), DONE, answer=answer)
    error = verb(agent, "Hi").error
    assert error is not None
    assert [each.id for each in agent.pending_interrupts] == ["i2"]
    assert verb(agent, resume={"i2": Cancel()}).error is None
    assert resumes(agent)[1] == [resolved("i1", "yes"), ResumeEntry(interrupt_id="i2", status="cancelled")]


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_a_question_whose_answer_a_failed_run_carried_waits_again(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ASK), turn(RunErrorEvent(message="no")), DONE, answer=lambda asked: Approve())
    assert isinstance(verb(agent, "Hi").error, RunFailedError)
    assert agent.pending_interrupts == ASK.interrupts
    # It may be answered once more, and need not be.
    assert verb(agent, "Again").error is None
    assert agent.pending_interrupts == []


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_answers_that_were_kept_for_a_run_which_failed_are_given_again_with_the_others(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ask_both()), turn(RunErrorEvent(message="no")), DONE, answer=only_the_first)
    verb(agent, "Hi")
    assert isinstance(verb(agent, resume={"i2": Resolve("now")}).error, RunFailedError)
    assert [each.id for each in agent.pending_interrupts] == ["i1", "i2"]
    assert verb(agent, resume={"i1": Resolve("yes"), "i2": Resolve("now")}).error is None
    assert resumes(agent)[2] == [resolved("i1", "yes"), resolved("i2", "now")]


async def _unreachable(input: RunAgentInput) -> AsyncIterator[Event]:
    if input.thread_id:
        raise ConnectionResetError
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)


@every_kind_of_verb
@pytest.mark.requirement("INT-3")
def test_an_answer_that_no_run_took_goes_out_with_the_next(verb: Verb) -> None:
    asked: list[str] = []

    def answer(interrupt: Interrupt) -> Resolve:
        asked.append(interrupt.id)
        return Resolve("yes")

    agent = ScriptedAgent(turn(outcome=ask_both()), _unreachable, DONE, answer=answer)
    assert isinstance(verb(agent, "Hi").error, RunFailedError)
    assert verb(agent).error is None
    assert (asked, resumes(agent)[2]) == (["i1", "i2"], [resolved("i1", "yes"), resolved("i2", "yes")])


# --- together with tools


def both(tool_call_id: str | None = None) -> RunFinishedInterruptOutcome:
    return interrupt("Sure?", interrupt_id="i1", tool_call_id=tool_call_id)


@every_kind_of_verb
@pytest.mark.requirement("TOOL-9", "INT-1")
def test_calls_and_questions_of_one_run_are_answered_with_one_follow_up_run(verb: Verb) -> None:
    agent = ScriptedAgent(
        turn(tool_call("look"), outcome=both()), DONE, tools=Ran().tools, answer=lambda asked: Resolve("yes")
    )
    assert verb(agent, "Hi").error is None
    assert (results_sent(agent)[1], resumes(agent)[1]) == (
        [("call-1", "seen map", None)],
        [resolved("i1", "yes")],
    )
    assert len(agent.inputs) == 2


@every_result_verb
@pytest.mark.requirement("INT-3")
def test_a_question_nobody_answers_here_holds_the_results_back_until_it_is_answered(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look"), outcome=both()), DONE, tools=Ran().tools)
    result = verb(agent, "Hi").result
    assert result is not None
    assert ([each.id for each in result.interrupts], result.pending_tool_calls) == (["i1"], [])
    assert (len(agent.inputs), results_in(agent.messages)) == (1, [("call-1", "seen map", None)])
    done = verb(agent, resume={"i1": Resolve("yes")}).result
    assert done is not None
    assert done.warnings == []
    assert (results_sent(agent)[1], resumes(agent)[1]) == (
        [("call-1", "seen map", None)],
        [resolved("i1", "yes")],
    )


@every_result_verb
@pytest.mark.requirement("TOOL-10")
def test_a_call_nobody_answers_here_holds_the_answers_back_until_it_is_answered(verb: Verb) -> None:
    @tool(approval="always")
    def pay() -> str:
        return "paid"

    agent = ScriptedAgent(
        turn(tool_call("pay"), outcome=both()), DONE, tools=[pay], answer=lambda asked: Resolve("yes")
    )
    result = verb(agent, "Hi").result
    assert result is not None
    assert (result.interrupts, [call.id for call in result.pending_tool_calls]) == ([], ["call-1"])
    assert (agent.pending_interrupts, len(agent.inputs)) == ([], 1)
    done = verb(agent, tool_results={"call-1": Approve()}).result
    assert done is not None
    assert (done.text, done.warnings) == ("Done.", [])
    assert (results_sent(agent)[1], resumes(agent)[1]) == (
        [("call-1", "paid", None)],
        [resolved("i1", "yes")],
    )


@every_kind_of_verb
@pytest.mark.requirement("INT-7")
def test_a_call_that_a_question_is_about_is_the_agents_to_go_on_with(verb: Verb) -> None:
    ran = Ran()
    agent = ScriptedAgent(
        turn(tool_call("look", tool_call_id="c1"), tool_call("listen"), outcome=both("c1")),
        DONE,
        tools=ran.tools,
        answer=lambda asked: Resolve("yes"),
    )
    assert verb(agent, "Hi").error is None
    assert (ran.calls, results_sent(agent)[1]) == (["listen"], [("call-1", '{"heard":true}', None)])


def test_a_sync_handler_is_asked_in_a_thread_of_its_own() -> None:
    threads: list[threading.Thread] = []

    def answer(asked: Interrupt) -> Resolve:
        threads.append(threading.current_thread())
        return Resolve("yes")

    anyio.run(ScriptedAgent(turn(outcome=both()), DONE, answer=answer).run_agent, "Hi")
    assert threads[0] is not threading.current_thread()


@every_result_verb
def test_an_interrupt_that_the_function_does_not_answer_is_left_to_the_caller(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ASK), answer=lambda question: None)
    result = verb(agent, "Hi").result
    assert result is not None
    assert [each.id for each in result.interrupts] == ["i1"]
    assert len(agent.inputs) == 1


class Wavering:
    """A handler of which a person takes time for the second thought: it answers when it is called again."""

    def __init__(self, answer: Any) -> None:
        self.asked = 0
        self._answer = answer

    async def __call__(self, asked: object) -> Any:
        """Leave the first question, and answer those that follow."""
        self.asked += 1
        if self.asked == 1 and isinstance(self._answer, Approve):
            await anyio.sleep_forever()
        return None if self.asked == 1 else self._answer


@every_result_verb
@pytest.mark.requirement("INT-7")
def test_a_run_without_a_prompt_asks_an_open_question_again(verb: Verb) -> None:
    answer = Wavering(Resolve({"approved": True}))
    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=answer)
    verb(agent, "Hi")
    assert [each.id for each in agent.pending_interrupts] == ["i1"]
    result = verb(agent).result
    assert resumes(agent) == [None, [resolved("i1", {"approved": True})]]
    assert result is not None
    assert [(each.by, each.interrupt.message) for each in result.answered] == [("person", "Buy?")]
    assert (answer.asked, agent.pending_interrupts) == (2, [])
    assert 0 < result.timings.people <= (result.timings.total or 0)


@every_kind_of_verb
def test_a_question_that_is_left_again_sends_nothing(verb: Verb) -> None:
    agent = ScriptedAgent(turn(outcome=ASK), DONE, answer=lambda asked: None)
    verb(agent, "Hi")
    assert isinstance(verb(agent).error, InterruptsNotCoveredError)
    assert ([each.id for each in agent.pending_interrupts], len(agent.inputs)) == (["i1"], 1)


@pytest.mark.parametrize("decides", [True, False])
@every_result_verb
@pytest.mark.requirement("SEC-3")
def test_a_run_without_a_prompt_asks_again_for_the_approval_of_a_waiting_call(verb: Verb, decides: bool) -> None:
    dug, approve = list[int](), Wavering(Approve())

    @tool(approval="always")
    def dig(depth: int) -> str:
        """Dig."""
        dug.append(depth)
        return "dug"

    agent = ScriptedAgent(
        turn(tool_call("dig", {"depth": 2}, tool_call_id="c1")),
        DONE,
        tools=[dig],
        approve=approve,
        people=People(wait=0.3, fallback="leave"),
    )
    verb(agent, "Hi")
    assert (dug, [each.function.name for each in agent.pending_tool_calls]) == ([], ["dig"])
    if not decides:
        approve.asked = 0
    again = verb(agent)
    assert again.error is None
    assert again.result is not None
    assert [each.id for each in again.result.pending_tool_calls] == ([] if decides else ["c1"])
    assert dug == ([2] if decides else [])
    # Nothing is sent before somebody decides.
    assert results_sent(agent) == ([[], [("c1", "dug", None)]] if decides else [[]])
    assert len(agent.pending_tool_calls) == (0 if decides else 1)


@every_kind_of_verb
def test_a_question_of_a_tool_is_asked_again_and_its_call_made_again(verb: Verb) -> None:
    answer = Wavering(Resolve("Oslo"))

    @tool
    async def trip(context: ToolContext) -> str:
        """Book a trip."""
        context.leave("so far")
        return f"to {await context.ask('Where to?')}"

    agent = ScriptedAgent(turn(tool_call("trip", tool_call_id="c1")), DONE, tools=[trip], answer=answer)
    verb(agent, "Hi")
    assert [each.message for each in agent.pending_interrupts] == ["Where to?"]
    assert verb(agent).error is None
    assert results_in(agent.messages) == [("c1", "to Oslo", None)]
