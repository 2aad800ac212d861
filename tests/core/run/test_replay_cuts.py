"""Replays that stop before they came as far as what is held, in every way, and those that only look like it."""

from __future__ import annotations

from typing import cast

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    FunctionCall,
    RunErrorEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
)

from agui_client import ConnectError, IncompleteRunError, Reducer, RunFailedError
from agui_client.testing import Step, reasoning, text, tool_call, tool_result
from support.teller import (
    ASKED,
    BETWEEN,
    CALL_ENDS,
    CALLING,
    FIRST,
    LONGER,
    ONLY_ASKING,
    ONLY_STATE,
    RAIN,
    RESUMED,
    SECOND,
    SNOW,
    Teller,
    ended,
    events_of_steps,
    half_a_call,
    holding,
    snapshot,
)
from support.thread import THANKS, WEATHER, started
from support.verbs import shown

pytestmark = pytest.mark.anyio

every_second = pytest.mark.parametrize(
    "second",
    [SECOND, CALLING, ONLY_STATE, ONLY_ASKING, RESUMED, LONGER],
    ids=["answer and question", "call", "state", "question", "question of a resumed run", "more of the first answer"],
)

# --- wherever it stops


@every_second
@pytest.mark.requirement("TRUNC-1", "LIFE-13", "STATE-6", "INT-3")
async def test_a_replay_that_is_cut_anywhere_takes_nothing_away(second: list[Step]) -> None:
    agent = await holding(*FIRST, *second)
    before, events = agent.held(), events_of_steps(*FIRST, *second)
    for count in range(1, len(events)):
        if count != BETWEEN:
            with pytest.raises(IncompleteRunError):
                await agent.take_up(*events[:count])
            assert agent.held() == before, count
    await agent.take_up(*events)
    assert agent.held() == before


@every_second
@pytest.mark.requirement("LIFE-13", "INT-3")
async def test_one_that_is_left_anywhere_takes_nothing_away(second: list[Step]) -> None:
    agent = await holding(*FIRST, *second)
    before = agent.held()
    for count in range(1, len(events_of_steps(*FIRST, *second))):
        if second is not RESUMED or count != BETWEEN:
            await agent.follow(*FIRST, *second, events=count)
            assert agent.held() == before, count


@pytest.mark.requirement("STATE-6", "STATE-5")
async def test_what_is_held_of_later_runs_is_there_while_a_snapshot_of_an_earlier_one_is_told() -> None:
    agent = await holding(*FIRST, *SECOND)
    whole = shown(agent.messages)
    assert [each["id"] for each in whole] == ["user-1", "answer-1", "user-2", "think-2", "answer-2", "map-1"]
    agent.told = events_of_steps(*FIRST, *SECOND)
    async with agent.stream_connect() as run:
        for _ in range(BETWEEN):
            await anext(run)
        assert shown(run.messages) == whole
        await run.result()
    assert shown(agent.messages) == whole


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([*FIRST, *SECOND], id="two runs"),
        pytest.param([started("run-1", WEATHER), snapshot(THANKS, RAIN, SNOW), ended("run-1")], id="a snapshot"),
        pytest.param(
            [
                started("run-1", WEATHER),
                tool_call("look", {}, tool_call_id="call-1"),
                tool_result("3", tool_call_id="call-1", message_id="result-1"),
                reasoning("Hm.", message_id="think-1"),
                tool_call("look", {}, tool_call_id="call-2"),
                ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={"pins": 1}),
                ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={"pins": 2}, replace=False),
                ended("run-1"),
            ],
            id="calls and an activity",
        ),
        pytest.param(
            [
                FIRST[0],
                *half_a_call('{"a"'),
                CALL_ENDS,
                *half_a_call(":"),
                CALL_ENDS,
                ended("run-1"),
            ],
            id="a call that goes on",
        ),
        pytest.param(
            [
                FIRST[0],
                text("Rain.", message_id="answer-1"),
                snapshot(
                    WEATHER,
                    AssistantMessage(
                        id="answer-1",
                        tool_calls=[ToolCall(id="call-1", function=FunctionCall(name="book", arguments='{"a": '))],
                    ),
                ),
                *half_a_call("1}"),
                CALL_ENDS,
                text("And", message_id="answer-1"),
                TextMessageStartEvent(message_id="answer-1"),
                TextMessageContentEvent(message_id="answer-1", delta=" wind."),
                TextMessageEndEvent(message_id="answer-1", metadata={"tone": "dry"}),
                ended("run-1"),
            ],
            id="a snapshot that is gone on with",
        ),
    ],
)
@pytest.mark.requirement("LIFE-13", "TOOL-4", "ACT-4", "META-1")
async def test_a_whole_replay_comes_to_the_same_in_whichever_order_it_was_held(told: list[Step]) -> None:
    fresh, plain = await holding(*told), Reducer()
    for event in events_of_steps(*told):
        plain.feed(cast("Event", event))
    agent = Teller(initial_messages=list(reversed(fresh.messages)))
    await agent.take_up(*told)
    assert agent.held() == fresh.held()
    assert agent.messages == plain.messages


# --- between two runs


@pytest.mark.requirement("TRUNC-1", "LIFE-13")
async def test_a_replay_that_ends_between_two_runs_does_not_pass_the_older_ones_end_off_as_the_threads() -> None:
    agent = await holding(*FIRST, *SECOND)
    before = agent.held()
    result = await agent.take_up(*FIRST)
    assert (result.outcome, result.interrupts, result.pending_tool_calls, result.aborted) == (None, [], [], False)
    assert [(each.rule, each.message) for each in result.warnings] == [
        ("TRUNC-1", "the replay stopped after a run, before it came as far as the local thread, which stays")
    ]
    assert agent.held() == before
    assert (shown(result.messages), result.state) == (before["messages"], before["state"])


@pytest.mark.requirement("LIFE-13", "TRUNC-1")
async def test_one_that_breaks_after_all_was_told_has_lost_nothing() -> None:
    agent = await holding(*FIRST, *SECOND)
    result = await agent.take_up(*FIRST, *SECOND, error=ConnectError("reset by peer"))
    assert (result.interrupts, [each.message for each in result.warnings]) == (
        [ASKED],
        ["after the run had ended, reset by peer"],
    )


@pytest.mark.requirement("LIFE-13", "LIFE-8")
async def test_a_failure_that_is_told_is_raised_although_more_is_held() -> None:
    agent = await holding(*FIRST, *SECOND)
    before = agent.held()
    with pytest.raises(RunFailedError, match="store is gone"):
        await agent.take_up(*FIRST, *SECOND[:1], RunErrorEvent(message="store is gone"))
    assert agent.held() == before
