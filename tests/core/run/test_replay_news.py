"""Replays that tell something else than what is held: what stands, what is put back, and what nobody waits for."""

from __future__ import annotations

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Message,
    ReasoningMessage,
    RunErrorEvent,
    RunStartedEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import IncompleteRunError, RunFailedError
from agui_client.testing import text, tool_call, tool_result
from support.teller import (
    ASKED,
    BETWEEN,
    FIRST,
    ONLY_ASKING,
    RAIN,
    SECOND,
    SNOW,
    Teller,
    ended,
    events_of_steps,
    holding,
    snapshot,
)
from support.thread import THANKS, WEATHER, started

pytestmark = pytest.mark.anyio

# --- what was told further or differently stands


@pytest.mark.requirement("TRUNC-1", "STATE-6")
async def test_what_was_told_and_taken_back_before_the_cut_comes_back() -> None:
    """The text was streamed under another id than the snapshot then gave it."""
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS, SNOW])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], text("Rain.", message_id="answer-1"), snapshot(WEATHER))
    assert agent.messages == [WEATHER, RAIN, THANKS, SNOW]


BOOK = ToolCallStartEvent(tool_call_id="call-1", tool_call_name="book", parent_message_id="answer-1")
LOOK = tool_call("look", {}, tool_call_id="call-9")


@pytest.mark.requirement("TRUNC-1")
async def test_a_state_that_the_application_sets_meanwhile_is_its_own() -> None:
    agent = await holding(*FIRST, *SECOND)
    agent.told = events_of_steps(*FIRST, *SECOND)
    async with agent.stream_connect() as run:
        for _ in range(BETWEEN):
            await anext(run)
        agent.set_state({"mine": True})
    assert (agent.state, agent.pending_interrupts) == ({"mine": True}, [ASKED])


# --- what is missing, and need not be waited for


GREETING = AssistantMessage(id="greeting-1", content="Hello!")
LOCAL = UserMessage(id="local-1", content="Psst")


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([GREETING], id="a greeting of the application's"),
        pytest.param([WEATHER, RAIN, ReasoningMessage(id="thought-1", content="Hm.")], id="thoughts nobody tells"),
        pytest.param([WEATHER, RAIN, ActivityMessage(id="map-9", activity_type="MAP", content={})], id="an activity"),
        pytest.param([WEATHER, RAIN, UserMessage(id="mine-2", content=THANKS.content)], id="a prompt under another id"),
        pytest.param([WEATHER, RAIN, THANKS, AssistantMessage(id="answer-0", content="Sun.")], id="another answer"),
        pytest.param([WEATHER, GREETING, RAIN, LOCAL, THANKS, SNOW], id="what was passed over"),
    ],
)
@pytest.mark.requirement("LIFE-13", "INT-3")
async def test_what_a_server_does_not_tell_keeps_no_interrupt_away(held: list[Message]) -> None:
    second = [each for each in SECOND if each is not SECOND[1]]
    agent = Teller(initial_messages=held)
    result = await agent.take_up(*FIRST, *second)
    assert (result.interrupts, agent.pending_interrupts, agent.state) == ([ASKED], [ASKED], {"at": 2})
    assert [each for each in result.warnings if each.rule == "TRUNC-1"] == []


@pytest.mark.requirement("LIFE-13", "INT-3")
async def test_a_server_that_tells_no_prompts_is_not_waited_for_to_tell_them() -> None:
    start = RunStartedEvent(thread_id="thread-1", run_id="run-1")
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS])
    result = await agent.take_up(start, FIRST[1], ended("run-1", ASKED))
    assert (result.interrupts, agent.messages) == ([ASKED], [WEATHER, RAIN, THANKS])


# --- interrupts that wait


@pytest.mark.requirement("INT-3", "LIFE-4")
async def test_a_run_that_failed_after_all_waits_for_nothing() -> None:
    agent = await holding(*FIRST, *SECOND)
    with pytest.raises(RunFailedError, match="late"):
        await agent.take_up(*FIRST, *SECOND[:-1], RunErrorEvent(message="late"))
    assert agent.pending_interrupts == []


@pytest.mark.requirement("INT-3")
@pytest.mark.parametrize("is_known", [False, True])
async def test_what_was_asked_before_a_run_that_failed_waits_in_a_replay_of_both(*, is_known: bool) -> None:
    agent = await holding(*FIRST, *SECOND) if is_known else Teller()
    with pytest.raises(RunFailedError, match="down"):
        await agent.take_up(*FIRST, *SECOND, started("run-3"), RunErrorEvent(message="down"))
    assert agent.pending_interrupts == [ASKED]


@pytest.mark.requirement("INT-3", "TRUNC-1")
async def test_they_wait_on_when_the_run_that_follows_is_cut_before_they_were_told() -> None:
    agent = await holding(*FIRST, *ONLY_ASKING)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, started("run-9", WEATHER, THANKS), text("New.", message_id="answer-9"))
    assert (agent.pending_interrupts, agent.state) == ([ASKED], {"at": 2})


# --- what was said, and never heard


@pytest.mark.requirement("LIFE-13")
async def test_messages_of_one_id_are_both_kept() -> None:
    other = AssistantMessage(id="answer-2", content="Sn")
    twins = [WEATHER, ToolMessage(id="answer-1", tool_call_id="c", content="1"), RAIN, THANKS, SNOW, other]
    agent = Teller(initial_messages=twins)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], tool_result("2", tool_call_id="c", message_id="result-1"))
    assert [each for each in agent.messages if each.id != "result-1"] == twins
