"""Scripts play as the events they read like."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Interrupt,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from agui_client import Resolve, UnrecognizedEvent
from agui_client.errors import UsageError
from agui_client.testing import (
    Gate,
    ScriptedAgent,
    Step,
    Turn,
    interrupt,
    patch,
    pause,
    reasoning,
    state,
    step,
    text,
    tool_call,
    tool_result,
    turn,
)
from agui_client.testing._steps import closing

pytestmark = pytest.mark.anyio

STARTED = RunStartedEvent(thread_id="t", run_id="r", protocol_version="1.0")
FINISHED = RunFinishedEvent(thread_id="t", run_id="r")


def run_input(**fields: object) -> RunAgentInput:
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": [], **fields})


async def events_of(*script: Turn, input: RunAgentInput | None = None) -> list[Event | UnrecognizedEvent]:
    agent = ScriptedAgent(*script)
    return [event async for event in agent.run(input or run_input())]


async def test_a_turn_is_a_whole_run_that_echoes_the_inputs_ids() -> None:
    assert await events_of(turn(text("Hi Ada"))) == [
        STARTED,
        TextMessageStartEvent(message_id="message-1", role="assistant"),
        TextMessageContentEvent(message_id="message-1", delta="Hi "),
        TextMessageContentEvent(message_id="message-1", delta="Ada"),
        TextMessageEndEvent(message_id="message-1"),
        FINISHED,
    ]


async def test_text_is_cut_into_chunks_of_the_given_size_and_lost_nowhere() -> None:
    played = await events_of(text("  one\n\ntwo  ", chunk=4), input=run_input())
    by_word = await events_of(text("  one\n\ntwo  "))
    assert [event.delta for event in played if isinstance(event, TextMessageContentEvent)] == ["  on", "e\n\nt", "wo  "]
    assert "".join(event.delta for event in by_word if isinstance(event, TextMessageContentEvent)) == "  one\n\ntwo  "


async def test_empty_text_has_no_deltas() -> None:
    assert await events_of(text("", message_id="m", role="user")) == [
        TextMessageStartEvent(message_id="m", role="user"),
        TextMessageEndEvent(message_id="m"),
    ]


async def test_a_tool_call_streams_its_arguments_and_a_result_answers_the_last_call() -> None:
    assert await events_of([tool_call("get_weather", {"city": "Tromsø"}), tool_result({"celsius": 4})]) == [
        ToolCallStartEvent(tool_call_id="call-1", tool_call_name="get_weather"),
        ToolCallArgsEvent(tool_call_id="call-1", delta='{"city": '),
        ToolCallArgsEvent(tool_call_id="call-1", delta='"Tromsø"}'),
        ToolCallEndEvent(tool_call_id="call-1"),
        ToolCallResultEvent(message_id="result-1", tool_call_id="call-1", content='{"celsius": 4}', role="tool"),
    ]


async def test_arguments_given_as_a_string_are_sent_as_they_are() -> None:
    played = await events_of(tool_call("f", '{"broken', chunk=100, tool_call_id="c", parent_message_id="m"))
    assert played == [
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f", parent_message_id="m"),
        ToolCallArgsEvent(tool_call_id="c", delta='{"broken'),
        ToolCallEndEvent(tool_call_id="c"),
    ]


async def test_a_result_before_any_call_is_a_mistake_in_the_script() -> None:
    with pytest.raises(ValueError, match="needs a tool_call"):
        await events_of(tool_result("18"))


async def test_reasoning_is_a_span_with_one_message_and_its_encrypted_value() -> None:
    assert await events_of(reasoning("Hm", encrypted_value="opaque")) == [
        ReasoningStartEvent(message_id="reasoning-1"),
        ReasoningMessageStartEvent(message_id="reasoning-1", role="reasoning"),
        ReasoningMessageContentEvent(message_id="reasoning-1", delta="Hm"),
        ReasoningMessageEndEvent(message_id="reasoning-1"),
        ReasoningEncryptedValueEvent(subtype="message", entity_id="reasoning-1", encrypted_value="opaque"),
        ReasoningEndEvent(message_id="reasoning-1"),
    ]


async def test_state_patches_and_steps_play_in_their_place() -> None:
    played = await events_of(step("plan", state(None), patch({"op": "replace", "path": "", "value": 1})))
    assert played == [
        StepStartedEvent(step_name="plan"),
        StateSnapshotEvent(snapshot=None),
        StateDeltaEvent.model_validate({"delta": [{"op": "replace", "path": "", "value": 1}]}),
        StepFinishedEvent(step_name="plan"),
    ]


async def test_a_turn_carries_result_outcome_and_usage() -> None:
    usage = [TokenUsage(provider="acme", input_tokens=3)]
    assert await events_of(turn(result={"ok": True}, outcome=interrupt("Send?"), usage=usage)) == [
        STARTED,
        RunFinishedEvent(
            thread_id="t",
            run_id="r",
            result={"ok": True},
            outcome=RunFinishedInterruptOutcome(
                type="interrupt", interrupts=[Interrupt(id="interrupt-1", reason="confirmation", message="Send?")]
            ),
            usage=usage,
        ),
    ]


async def test_a_step_that_ends_the_run_takes_the_place_of_run_finished() -> None:
    failed = RunErrorEvent(message="overloaded")
    assert await events_of(turn(failed, pause(0))) == [STARTED, failed]
    raw = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": None}
    assert await events_of(turn(raw)) == [STARTED, UnrecognizedEvent("RUN_FINISHED", raw)]


async def test_a_replayed_run_has_its_own_run_id() -> None:
    played = await events_of([turn(run_id="old"), turn()])
    assert played == [
        RunStartedEvent(thread_id="t", run_id="old", protocol_version="1.0"),
        RunFinishedEvent(thread_id="t", run_id="old"),
        STARTED,
        FINISHED,
    ]


async def test_a_list_is_exactly_its_steps_and_a_dict_is_sent_as_it_is() -> None:
    end: Event = TextMessageEndEvent(message_id="orphan")
    future = {"type": "FUTURE_EVENT", "x": 1}
    assert await events_of([end, future]) == [end, UnrecognizedEvent("FUTURE_EVENT", future)]


@pytest.mark.requirement("LIFE-15")
async def test_made_up_ids_avoid_the_ids_the_conversation_holds() -> None:
    call = ToolCall(id="call-1", type="function", function=FunctionCall(name="f", arguments="{}"))
    held = [UserMessage(id="message-1", content="Hi"), AssistantMessage(id="message-3", tool_calls=[call])]
    input = run_input().model_copy(update={"messages": held})
    played = await events_of([text(""), text(""), tool_call("f", "")], input=input)
    starts = [event for event in played if isinstance(event, TextMessageStartEvent)]
    assert [event.message_id for event in starts] == ["message-2", "message-4"]
    assert ToolCallEndEvent(tool_call_id="call-2") in played


async def test_turns_follow_each_other_per_thread_and_the_last_repeats() -> None:
    agent = ScriptedAgent(state(1), state(2))
    threads = ["a", "a", "b", "a"]
    played = [[event async for event in agent.run(run_input(threadId=thread))] for thread in threads]
    assert played == [[StateSnapshotEvent(snapshot=number)] for number in (1, 2, 1, 2)]
    assert [input.thread_id for input in agent.inputs] == threads


async def test_a_turn_can_be_a_function_of_the_input_and_is_closed_with_the_run() -> None:
    closed: list[bool] = []

    async def echo(input: RunAgentInput) -> AsyncIterator[Step]:
        try:
            yield state(input.state)
            yield state("never reached")
        finally:
            closed.append(True)

    async with closing(ScriptedAgent(echo).run(run_input(state=7))) as run:
        assert await anext(run) == StateSnapshotEvent(snapshot=7)
    assert closed == [True]


async def test_a_gate_holds_the_script_until_it_is_opened() -> None:
    gate = Gate()
    run = ScriptedAgent([state(1), gate, state(2)]).run(run_input())
    assert await anext(run) == StateSnapshotEvent(snapshot=1)
    gate.open()
    assert [event async for event in run] == [StateSnapshotEvent(snapshot=2)]


async def test_in_process_it_is_an_agent_like_any_other() -> None:
    agent = ScriptedAgent(
        turn(text("Shall I?"), state({"asked": True}), outcome=interrupt("Proceed?", interrupt_id="i")),
        turn(text("Done.")),
        thread_id="t",
        initial_state={"asked": False},
    )
    first = await agent.run_agent("Wire 100 EUR to Ada", run_id="r")
    assert (first.text, first.state, first.warnings) == ("Shall I?", {"asked": True}, [])
    second = await agent.run_agent(resume={"i": Resolve({"approved": True})})
    assert second.text == "Done."
    assert [input.state for input in agent.inputs] == [{"asked": False}, {"asked": True}]
    assert agent.inputs[1].resume == [ResumeEntry(interrupt_id="i", status="resolved", payload={"approved": True})]


async def test_a_script_without_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        ScriptedAgent()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: patch([{"op": "remove", "path": "/a"}]), r"patch\(\): delta 0: .*, not an array$"),  # type: ignore[arg-type]
        (lambda: patch({"op": "rename", "path": "/a"}), r"patch\(\): delta 0: Input tag 'rename' "),
        (lambda: interrupt(5), r"interrupt\(\): message: Input should be a valid string, not 5$"),  # type: ignore[arg-type]
        (lambda: interrupt("Go?", response_schema="text"), r"interrupt\(\): response_schema: .*, not 'text'$"),  # type: ignore[arg-type]
    ],
)
def test_a_part_says_what_it_cannot_be_made_of(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make()
