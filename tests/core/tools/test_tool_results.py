"""Answers to tool calls on their way back to the agent (TOOL-8 … TOOL-10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextPart,
    Tool,
    ToolMessage,
    UserMessage,
)
from pydantic import BaseModel

from agui_client import (
    AbstractAgent,
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    Resolve,
    RunFailedError,
    ToolError,
    UsageError,
    tool,
)
from agui_client.testing import ScriptedAgent, Step, interrupt, text, tool_call, tool_result, turn
from agui_client.types import RunOptions
from support.verbs import Verb, every_kind_of_verb, every_result_verb

TWO_CALLS = turn(tool_call("look", {"at": "map"}, tool_call_id="c1"), tool_call("listen", tool_call_id="c2"))
DONE = turn(text("Done."))


def pending_of(agent: AbstractAgent, verb: Verb) -> list[str]:
    result = verb(agent, "Hi").result
    assert result is not None
    return [call.id for call in result.pending_tool_calls]


def answers(agent: ScriptedAgent) -> list[ToolMessage]:
    """The tool messages the agent was sent last."""
    return [message for message in agent.inputs[-1].messages if isinstance(message, ToolMessage)]


@every_result_verb
@pytest.mark.requirement("TOOL-8", "TOOL-9", "TOOL-11")
def test_calls_without_a_result_are_pending(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look"), tool_result("seen"), tool_call("listen"), tool_call("unheard_of")))
    assert pending_of(agent, verb) == ["call-2", "call-3"]


@every_result_verb
@pytest.mark.requirement("TOOL-9")
def test_an_empty_list_of_pending_calls_is_no_list(verb: Verb) -> None:
    outcome = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=[])
    assert pending_of(ScriptedAgent(turn(tool_call("look"), outcome=outcome)), verb) == ["call-1"]


@every_result_verb
@pytest.mark.requirement("TOOL-8")
def test_a_list_of_pending_calls_is_exact(verb: Verb) -> None:
    outcome = RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=["c2"])
    agent = ScriptedAgent(
        turn(tool_call("look", tool_call_id="c1"), tool_call("listen", tool_call_id="c2"), outcome=outcome)
    )
    assert pending_of(agent, verb) == ["c2"]


@every_result_verb
@pytest.mark.requirement("TOOL-9", "SET-19")
def test_a_named_call_that_a_snapshot_removed_is_reported_with_a_warning_and_not_executed(verb: Verb) -> None:
    @tool
    def look() -> str:
        """Looks."""
        raise AssertionError("it is not executed")

    hello = MessagesSnapshotEvent(messages=[UserMessage(id="u", content="Hi")])
    outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=["c1", "c9"])
    removed: list[Step] = [
        tool_call("look", {"at": 1}, tool_call_id="c1"),
        tool_call("listen", tool_call_id="c2"),
        hello,
    ]
    agent = ScriptedAgent(turn(*removed, outcome=outcome), turn(*removed), tools=[look])
    result = verb(agent, "Hi").result
    assert result is not None
    assert [(each.id, each.function.arguments) for each in result.pending_tool_calls] == [("c1", '{"at": 1}')]
    assert [(each.rule, each.count) for each in result.warnings] == [("TOOL-9", 2)]
    assert result.warnings[0].message.startswith("tool call 'c1' is pending by the outcome of its run, and not among")
    # Where no list names them, calls that a snapshot removed are taken back.
    assert pending_of(agent, verb) == []


@every_result_verb
@pytest.mark.requirement("TOOL-9")
def test_calls_of_an_interrupted_run_are_derived_apart_from_those_that_it_is_about(verb: Verb) -> None:
    asked = interrupt("Pay?", tool_call_id="call-1")
    look = Tool(name="look", description="Looks.")
    agent = ScriptedAgent(turn(tool_call("pay"), tool_call("look"), outcome=asked), tools=[look])
    assert pending_of(agent, verb) == ["call-2"]


@every_result_verb
@pytest.mark.requirement("TOOL-9")
def test_calls_of_earlier_runs_are_not_this_runs(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    assert pending_of(agent, verb) == ["call-1"]
    assert pending_of(agent, verb) == []


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10", "TOOL-6")
def test_results_are_tool_messages_right_after_the_messages_that_made_the_calls(verb: Verb) -> None:
    agent = ScriptedAgent(TWO_CALLS, DONE)
    verb(agent, "Hi")
    assert verb(agent, tool_results={"c1": "a map", "c2": {"heard": None}}).error is None
    roles = [message.role for message in agent.inputs[1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    first, second = answers(agent)
    assert (first.tool_call_id, first.content, first.error) == ("c1", "a map", None)
    assert (second.tool_call_id, json.loads(str(second.content))) == ("c2", {"heard": None})
    assert first.id != second.id
    assert agent.messages[:5] == agent.inputs[1].messages


class Found(BaseModel):
    place: str


@pytest.mark.requirement("TOOL-6")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "null"),
        (0, "0"),
        ([1, "two"], '[1,"two"]'),
        ([], "[]"),
        ({"ü": True}, '{"ü":true}'),
        (Found(place="Oslo"), '{"place":"Oslo"}'),
        ([TextPart(text="a part")], [TextPart(text="a part")]),
    ],
    ids=repr,
)
def test_a_result_is_text_parts_or_json(value: Any, content: Any) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(tool_results={"call-1": value})
    assert answers(agent)[0].content == content


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10")
def test_a_failure_says_what_went_wrong(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    verb(agent, "Hi")
    verb(agent, tool_results={"call-1": ToolError("no light")})
    [message] = answers(agent)
    assert (message.content, message.error) == ("no light", "no light")


@every_kind_of_verb
def test_results_come_before_the_prompt(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    verb(agent, "Hi")
    verb(agent, "And?", tool_results={"call-1": "seen"})
    assert [message.role for message in agent.inputs[1].messages] == ["user", "assistant", "tool", "user"]


@every_result_verb
@pytest.mark.requirement("TOOL-10")
def test_nothing_is_sent_while_a_call_waits_whose_answer_is_missing(verb: Verb) -> None:
    agent = ScriptedAgent(TWO_CALLS, DONE)
    verb(agent, "Hi")
    ending = verb(agent, tool_results={"c2": "heard"})
    assert (ending.error, len(agent.inputs)) == (None, 1)
    if ending.result:
        assert [each.id for each in ending.result.pending_tool_calls] == ["c1"]
        assert ending.result.warnings == []
    # What was given is kept, and sent with the rest, also by another process.
    other = ScriptedAgent(DONE)
    other.restore(ConversationSnapshot.model_validate_json(agent.snapshot().model_dump_json()))
    for each in (agent, other):
        assert verb(each, tool_results={"c1": "seen"}).error is None
        sent = [str(message.content) for message in each.inputs[-1].messages if message.role == "tool"]
        assert sent == ["seen", "heard"]


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10")
def test_going_on_without_an_answer_is_warned_about(verb: Verb) -> None:
    agent = ScriptedAgent(TWO_CALLS, DONE)
    verb(agent, "Hi")
    ending = verb(agent, "And?", tool_results={"c2": "heard"})
    assert ending.error is None
    if ending.result:
        assert [warning.rule for warning in ending.result.warnings] == ["TOOL-10"]
        assert "'c1'" in ending.result.warnings[0].message


@every_kind_of_verb
@pytest.mark.parametrize(("tool_call_id", "why"), [("c9", "never made"), ("call-1", "has a result already")])
def test_an_answer_to_no_open_call_is_refused(verb: Verb, tool_call_id: str, why: str) -> None:
    agent = ScriptedAgent(turn(tool_call("look"), tool_result("seen")), DONE)
    verb(agent, "Hi")
    before = agent.messages
    error = verb(agent, tool_results={tool_call_id: "x"}).error
    assert isinstance(error, UsageError)
    assert why in str(error)
    assert agent.messages == before
    assert len(agent.inputs) == 1


@every_kind_of_verb
def test_results_without_the_ids_of_their_calls_are_refused(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    verb(agent, "Hi")
    error = verb(agent, tool_results=cast("Any", ["seen"])).error
    assert isinstance(error, UsageError)
    assert "tool_call_id" in str(error)


@every_kind_of_verb
def test_a_result_that_is_no_json_is_refused(verb: Verb) -> None:
    agent = ScriptedAgent(turn(tool_call("look")), DONE)
    verb(agent, "Hi")
    before = agent.messages
    error = verb(agent, tool_results={"call-1": object()}).error
    assert isinstance(error, UsageError)
    assert "call-1" in str(error)
    assert (agent.messages, agent.is_running) == (before, False)


@every_kind_of_verb
def test_a_call_of_a_conversation_that_was_loaded_can_be_answered(verb: Verb) -> None:
    first = ScriptedAgent(turn(tool_call("look")))
    first.run_agent_sync("Hi")
    agent = ScriptedAgent(DONE)
    agent.restore(first.snapshot())
    assert verb(agent, tool_results={"call-1": "seen"}).error is None
    called = agent.messages[1]
    assert isinstance(called, AssistantMessage)
    assert answers(agent)[0].content == "seen"


@pytest.mark.requirement("TOOL-10")
def test_pending_calls_survive_in_a_saved_conversation() -> None:
    first, second = ScriptedAgent(TWO_CALLS), ScriptedAgent(DONE)
    first.run_agent_sync("Hi")
    second.restore(ConversationSnapshot.model_validate_json(first.snapshot().model_dump_json()))
    (warning,) = second.run_agent_sync("And?").warnings
    assert warning.rule == "TOOL-10"


def test_a_call_that_an_interrupt_is_about_is_answered_by_the_interrupt() -> None:
    asked = interrupt("Book it?", interrupt_id="i1", tool_call_id="call-1")
    agent = ScriptedAgent(turn(tool_call("book", {}), outcome=asked), turn(text("Fine.")))
    result = agent.run_agent_sync("Hi")
    assert (result.pending_tool_calls, result.warnings) == ([], [])
    agent.abandon_interrupts()
    assert agent.run_agent_sync("Never mind").warnings == []
    assert answers(agent) == []


@every_result_verb
@pytest.mark.requirement("TOOL-9", "TOOL-10")
@pytest.mark.parametrize("named", [None, "c3"])
def test_an_interrupt_is_about_all_calls_of_tools_that_were_not_offered(verb: Verb, named: str | None) -> None:
    """LangGraph's adapter names no call; ADK's names one of its own, which asks about the other."""
    asked = interrupt("Send it?", interrupt_id="i1", tool_call_id=named)
    look = Tool(name="look", description="Looks.")
    calls = [tool_call("send", tool_call_id="c1"), tool_call("look", tool_call_id="c2")]
    asking = turn(*calls, tool_call("ask", tool_call_id="c3"), outcome=asked)
    sent = turn(tool_result("sent", tool_call_id="c1"), tool_result("yes", tool_call_id="c3"))
    agent = ScriptedAgent(asking, sent, tools=[look])
    assert pending_of(agent, verb) == ["c2"]
    ending = verb(agent, resume={"i1": Resolve(True)}, tool_results={"c2": "seen"})
    assert ending.result is not None
    assert ending.result.warnings == []
    assert answers(agent) == [ToolMessage(id=answers(agent)[0].id, tool_call_id="c2", content="seen")]


def test_a_call_that_only_asked_is_answered_without_a_warning() -> None:
    asked = interrupt("Send it?", interrupt_id="i1", tool_call_id="c1")
    agent = ScriptedAgent(turn(tool_call("ask", tool_call_id="c1"), outcome=asked), DONE, DONE)
    agent.run_agent_sync("Hi")
    agent.run_agent_sync(resume={"i1": Resolve(True)})
    assert agent.run_agent_sync("And?").warnings == []
    assert given_up(agent) == [("c1", NO_RESULT, NO_RESULT)]


NO_RESULT = "no result: the conversation went on without one"


def given_up(agent: ScriptedAgent) -> list[tuple[str, Any, str | None]]:
    return [(each.tool_call_id, each.content, each.error) for each in answers(agent)]


@every_kind_of_verb
@pytest.mark.requirement("TOOL-10", "TOOL-5")
def test_a_prompt_answers_the_calls_that_it_leaves_without_a_result(verb: Verb) -> None:
    agent = ScriptedAgent(TWO_CALLS, DONE)
    verb(agent, "Hi")
    ending = verb(agent, "And?", tool_results={"c2": "heard"})
    assert given_up(agent) == [("c1", NO_RESULT, NO_RESULT), ("c2", "heard", None)]
    assert [each.role for each in agent.inputs[1].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
    ]
    if ending.result:
        assert [(each.rule, "'c1'" in each.message) for each in ending.result.warnings] == [("TOOL-10", True)]
    assert agent.pending_tool_calls == []


ANSWERS_TO_AN_INTERRUPT: dict[str, Any] = {"cancelled": Cancel(), "approved": Approve(), "abandoned": None}


@pytest.mark.parametrize("answer", ANSWERS_TO_AN_INTERRUPT.values(), ids=list(ANSWERS_TO_AN_INTERRUPT))
@every_kind_of_verb
@pytest.mark.requirement("TOOL-10")
def test_a_call_of_an_interrupt_that_never_got_its_result_is_answered_after_it(verb: Verb, answer: Any) -> None:
    asked = interrupt("Book it?", interrupt_id="i1", tool_call_id="c1")
    agent = ScriptedAgent(turn(tool_call("book", {}, tool_call_id="c1"), outcome=asked), DONE)
    verb(agent, "Hi")
    if answer is None:
        agent.abandon_interrupts()
    options: RunOptions = {} if answer is None else {"resume": {"i1": answer}}
    verb(agent, **options)
    assert answers(agent) == []
    verb(agent, "And?")
    assert given_up(agent) == [("c1", NO_RESULT, NO_RESULT)]
    verb(agent, "And then?")
    assert given_up(agent) == [("c1", NO_RESULT, NO_RESULT)]


def test_a_call_is_not_given_up_for_a_run_that_never_started() -> None:
    class Down(ScriptedAgent):
        async def run(self, input: RunAgentInput) -> AsyncIterator[Any]:
            if len(input.messages) > 2:
                raise ConnectionResetError
            async for event in super().run(input):
                yield event

    agent = Down(turn(tool_call("look", tool_call_id="c1")))
    agent.run_agent_sync("Hi")
    with pytest.raises(RunFailedError):
        agent.run_agent_sync("And?")
    assert ([each.id for each in agent.pending_tool_calls], len(agent.messages)) == (["c1"], 2)


# --- said again, and what cannot be said


async def _unreachable(input: RunAgentInput) -> AsyncIterator[Event]:
    if input.thread_id:
        raise ConnectionResetError
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)


@every_kind_of_verb
def test_an_approval_that_is_said_again_after_a_failure_is_carried_out_once(verb: Verb) -> None:
    looked: list[str] = []

    @tool(approval="always")
    def look(at: str) -> str:
        looked.append(at)
        return f"seen {at}"

    asking = turn(tool_call("look", {"at": "map"}, tool_call_id="c1"))
    agent = ScriptedAgent(asking, _unreachable, _unreachable, DONE, tools=[look])
    assert verb(agent, "Hi").error is None
    for _ in range(2):
        assert isinstance(verb(agent, "Now", tool_results={"c1": Approve()}).error, RunFailedError)
    for late in (Deny("no"), Approve({"at": "sky"}), "seen nothing"):
        assert "a call that was carried out" in str(verb(agent, "Now", tool_results={"c1": late}).error)
    assert verb(agent, "Now", tool_results={"c1": Approve()}).error is None
    assert (looked, [each.content for each in answers(agent)]) == (["map"], ["seen map"])
    assert [message.role for message in agent.messages] == ["user", "assistant", "tool", "user", "assistant"]


DEEP = json.loads("[" * 300 + "]" * 300)
BROKEN_PART = TextPart(text="fine")
BROKEN_PART.metadata = {"a": object()}
UNSENDABLE: dict[str, Any] = {
    "half a character": "\ud800",
    "a part with half a character": TextPart(text="\ud800"),
    "a part that is none": [TextPart.model_construct(text=5)],
    "a part with odd metadata": BROKEN_PART,
    "a part with a date": TextPart(text="fine", metadata={"at": datetime(2026, 1, 2)}),
    "a part with no number": TextPart(text="fine", metadata={"share": float("nan")}),
    "a part that is too deep": TextPart(text="fine", metadata={"deep": DEEP}),
    "an object": object(),
}


@pytest.mark.parametrize("value", UNSENDABLE.values(), ids=list(UNSENDABLE))
@every_kind_of_verb
@pytest.mark.requirement("TOOL-6")
def test_a_result_that_cannot_be_sent_is_refused_and_the_call_stays_pending(verb: Verb, value: Any) -> None:
    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), DONE)
    assert verb(agent, "Hi").error is None
    error = verb(agent, tool_results={"c1": value}).error
    assert isinstance(error, UsageError)
    assert "the result of tool call 'c1' is not JSON" in str(error)
    assert verb(agent, tool_results={"c1": "seen"}).error is None


@pytest.mark.parametrize("value", UNSENDABLE.values(), ids=list(UNSENDABLE))
@every_kind_of_verb
@pytest.mark.requirement("TOOL-10")
def test_a_tool_that_returns_what_cannot_be_sent_has_failed(verb: Verb, value: Any) -> None:
    @tool
    def look() -> Any:
        return value

    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), DONE, DONE, tools=[look])
    assert verb(agent, "Hi").error is None
    assert [each.error for each in answers(agent)] == [
        "The tool failed because of an internal error of the application."
    ]
    assert verb(agent, "Again").error is None


@pytest.mark.parametrize("said", [Deny("no \ud800"), ToolError("no \ud800")], ids=["Deny", "ToolError"])
@every_kind_of_verb
def test_half_a_character_in_a_denial_becomes_a_question_mark(verb: Verb, said: Any) -> None:
    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), DONE)
    assert verb(agent, "Hi").error is None
    assert verb(agent, tool_results={"c1": said}).error is None
    assert [each.error for each in answers(agent)] == ["no ?"]


@every_kind_of_verb
@pytest.mark.requirement("TOOL-6")
def test_a_part_that_is_changed_after_it_was_returned_is_sent_as_it_was(verb: Verb) -> None:
    shared = TextPart(text="fine")

    @tool
    def look() -> TextPart:
        return shared

    agent = ScriptedAgent(turn(tool_call("look", tool_call_id="c1")), DONE, DONE, tools=[look])
    assert verb(agent, "Hi").error is None
    shared.text = "\ud800"
    assert verb(agent, "Again").error is None
    assert [each.content for each in answers(agent)] == [[TextPart(text="fine")]]


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("answer", [True, False, None])
def test_a_yes_or_no_is_no_result_of_a_call_that_wants_approval(answer: object) -> None:
    @tool(approval="always")
    def pay() -> str:
        return "paid"

    agent = ScriptedAgent(turn(tool_call("pay", tool_call_id="c1")), DONE, tools=[pay])
    agent.run_agent_sync("Hi")
    with pytest.raises(UsageError, match=r"gives .* a call of .pay. that wants approval; say Approve\(\) or Deny\(\)"):
        agent.run_agent_sync(tool_results={"c1": answer})
    assert [call.id for call in agent.pending_tool_calls] == ["c1"]
