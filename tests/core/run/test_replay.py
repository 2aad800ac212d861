"""What a thread that is told again comes to, onto whatever is held of it: nothing is doubled, nothing lost."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    ImagePart,
    Message,
    MessagesSnapshotEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCallEndEvent,
    UrlSource,
    UserMessage,
)

from agui_client import IncompleteRunError, Reducer
from agui_client._core.protocol.replay import ReplayReducer
from agui_client._core.protocol.warnings import WarningLog
from agui_client.testing import Step, events_of, faults, patch, serve_bytes, sse, state, text, tool_call, turn
from support.thread import (
    FIRST_RUN,
    HELD,
    MESSAGES,
    STATE,
    THREAD,
    WEATHER,
    agent_of,
    finished,
    started,
    told,
)
from support.verbs import shown

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

every_held = pytest.mark.parametrize("held", HELD.values(), ids=HELD)


@every_held
@pytest.mark.requirement("LIFE-13", "LIFE-14", "PROC-1", "STATE-1")
async def test_a_thread_told_again_is_the_same_whatever_was_held_of_it(held: list[Step]) -> None:
    with serve_bytes(THREAD) as server:
        agent = agent_of(server)
        if held:
            await told(agent, *held)
        result = await agent.connect_agent()
    assert shown(agent.messages) == MESSAGES
    assert agent.state == STATE
    assert (shown(result.messages), result.state) == (MESSAGES, STATE)
    assert (result.text, result.outcome) == ("Tomorrow it snows.", RunFinishedSuccessOutcome())
    assert result.warnings == []
    assert agent.incomplete_ids == []
    assert not agent.is_running


@every_held
async def test_a_message_the_server_never_saw_stays_where_it_is(held: list[Step]) -> None:
    local = UserMessage(id="local-1", content="Never sent")
    with serve_bytes(THREAD) as server:
        agent = agent_of(server)
        if held:
            await told(agent, *held)
        before = [message.id for message in agent.messages]
        agent.add_message(local)
        await agent.connect_agent()
    ids = [message.id for message in agent.messages]
    assert [each for each in ids[: ids.index("local-1")] if each in before] == before
    assert [each for each in shown(agent.messages) if each["id"] != "local-1"] == MESSAGES


async def test_telling_it_twice_changes_nothing() -> None:
    with serve_bytes(THREAD) as server:
        agent = agent_of(server)
        for _ in range(3):
            await agent.connect_agent()
    assert (shown(agent.messages), agent.state) == (MESSAGES, STATE)


# --- replays that are cut


@pytest.mark.requirement("TRUNC-1", "LIFE-8")
@every_held
async def test_a_replay_that_is_cut_says_so_and_can_be_told_again(held: list[Step]) -> None:
    events = len(events_of(THREAD))
    whole = len(events_of(sse(*FIRST_RUN)))
    cuts = [faults.cut(THREAD, events=count) for count in range(1, events, 3 if held else 1) if count != whole]
    with serve_bytes(*cuts, THREAD) as server:
        agent = agent_of(server)
        if held:
            await told(agent, *held)
        for _ in cuts:
            with pytest.raises(IncompleteRunError):
                await agent.connect_agent()
        await agent.connect_agent()
    assert (shown(agent.messages), agent.state, agent.incomplete_ids) == (MESSAGES, STATE, [])


@pytest.mark.requirement("TRUNC-1")
async def test_a_replay_that_is_cut_before_it_came_as_far_takes_nothing_away() -> None:
    events = events_of(THREAD)
    last_answer = next(at for at, event in enumerate(events) if b'TEXT_MESSAGE_END","messageId":"answer-2"' in event)
    counts = range(1, last_answer + 1)
    with serve_bytes(*(faults.ended(THREAD, events=count) for count in counts)) as server:
        for count in counts:
            agent = agent_of(server)
            await told(agent, *HELD["all"])
            if count == len(events_of(sse(*FIRST_RUN))):
                await agent.connect_agent()
            else:
                with pytest.raises(IncompleteRunError):
                    await agent.connect_agent()
            assert (shown(agent.messages), agent.incomplete_ids) == (MESSAGES, [])
            if count != len(events_of(sse(*FIRST_RUN))):
                assert agent.state == STATE


OTHERWISE: dict[str, list[Step]] = {
    "thoughts": [{"type": "REASONING_MESSAGE_START", "messageId": "think-1", "role": "reasoning"},
                 {"type": "REASONING_MESSAGE_CONTENT", "messageId": "think-1", "delta": "Someone wants"}],
    "text": [TextMessageStartEvent(message_id="answer-1"),
             TextMessageContentEvent(message_id="answer-1", delta="Look at this")],
    "arguments": [*FIRST_RUN[2:3],
                  {"type": "TOOL_CALL_START", "toolCallId": "call-1", "toolCallName": "get_weather",
                   "parentMessageId": "answer-1"},
                  {"type": "TOOL_CALL_ARGS", "toolCallId": "call-1", "delta": '{"town": "Os'}],
}  # fmt: skip
"""Beginnings of what the first run says, in other words."""


# --- snapshots


def snapshot(*messages: Message) -> MessagesSnapshotEvent:
    return MessagesSnapshotEvent(messages=list(messages))


ANSWER = AssistantMessage(id="answer-1", content="Half an")


@pytest.mark.requirement("STATE-5", "STATE-6")
@pytest.mark.parametrize("held", [[], [WEATHER], [WEATHER, AssistantMessage(id="answer-1", content="Half")]])
async def test_a_snapshot_that_says_more_replaces_the_local_message(held: list[Message]) -> None:
    activity = ActivityMessage(id="map-1", activity_type="MAP", content={})
    with serve_bytes(sse(turn(snapshot(WEATHER, ANSWER), state({"a": 1}), run_id="run-9"))) as server:
        agent = agent_of(server, initial_messages=[*held, activity])
        result = await agent.connect_agent()
    assert sorted(message.id for message in agent.messages) == ["answer-1", "map-1", "user-1"]
    assert [each for each in agent.messages if each != activity] == [WEATHER, ANSWER]
    assert (agent.state, result.text) == ({"a": 1}, "Half an")


@pytest.mark.requirement("LIFE-13", "STREAM-5", "STATE-5")
@pytest.mark.parametrize("held", ["", "Half", "Half an", "Half an hour."])
async def test_what_a_snapshot_told_is_gone_on_with(held: str) -> None:
    live = turn(snapshot(WEATHER, ANSWER), text(" hour.", message_id="answer-1"), run_id="run-9")
    with serve_bytes(sse(live)) as server:
        agent = agent_of(server, initial_messages=[WEATHER])
        if held:
            agent.add_message(AssistantMessage(id="answer-1", content=held))
        await agent.connect_agent()
    assert [message.content for message in agent.messages] == ["Weather?", "Half an hour."]


@pytest.mark.requirement("LIFE-13", "LIFE-14", "STREAM-5")
@pytest.mark.parametrize("held", ["", "Half", "Half an", "Half an hour."])
async def test_what_the_replayed_run_was_asked_with_is_gone_on_with(held: str) -> None:
    steps: list[Step] = [
        started("run-9", WEATHER, ANSWER),
        text(" hour.", message_id="answer-1"),
        finished("run-9"),
    ]
    with serve_bytes(sse(*steps)) as server:
        agent = agent_of(server, initial_messages=[WEATHER])
        if held:
            agent.add_message(AssistantMessage(id="answer-1", content=held))
        await agent.connect_agent()
    assert [message.content for message in agent.messages] == ["Weather?", "Half an hour."]


@pytest.mark.requirement("LIFE-13")
async def test_what_was_said_in_several_parts_is_not_told_again_in_text() -> None:
    picture = ImagePart(source=UrlSource(value="http://host.example/a.png"))
    asked = UserMessage(id="user-1", content=[TextPart(text="What is this?"), picture])
    steps = [text("What is this?", message_id="user-1", role="user"), text("A cat.", message_id="answer-1")]
    with serve_bytes(sse(turn(*steps, run_id="run-9"))) as server:
        agent = agent_of(server, initial_messages=[asked])
        assert (await agent.connect_agent()).warnings == []
    assert agent.messages == [asked, AssistantMessage(id="answer-1", content="A cat.")]


@pytest.mark.requirement("ACT-4")
async def test_an_activity_that_is_told_again_is_not_patched_twice() -> None:
    steps: list[Step] = [
        ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={"pins": []}, replace=False),
        FIRST_RUN[7],
    ]
    with serve_bytes(sse(turn(*steps, run_id="run-9"))) as server:
        agent = agent_of(server)
        for _ in range(2):
            await agent.connect_agent()
            assert [message.content for message in agent.messages] == [{"pins": ["Oslo"]}]


# --- state

ADD: Step = patch({"op": "add", "path": "/days/-", "value": -3})


@pytest.mark.requirement("STATE-1")
async def test_a_patch_of_a_state_that_the_replay_did_not_send_is_warned_about() -> None:
    with serve_bytes(sse(turn(ADD, run_id="run-9"))) as server:
        result = await agent_of(server, initial_state={"days": []}).connect_agent()
    assert result.state == {"days": []}
    assert [warning.rule for warning in result.warnings] == ["SNAP-5"]


@pytest.mark.requirement("STATE-1")
@pytest.mark.parametrize("local", [[], "", 0, False, {"a": 1}], ids=repr)
async def test_a_replay_that_sends_no_state_leaves_the_local_one(local: Any) -> None:
    with serve_bytes(sse(turn(text("Hello."), run_id="run-9"))) as server:
        agent = agent_of(server, initial_state=local)
        result = await agent.connect_agent()
    assert (repr(result.state), repr(agent.state)) == (repr(local), repr(local))


def test_a_look_at_the_state_while_a_thread_is_replayed_does_not_go_through_it() -> None:
    local = {"notes": ["x" * 100] * 20_000}
    replay = ReplayReducer(Reducer((), local, warnings=WarningLog()), WarningLog())
    assert replay.tool_call("nobody's") is None
    before = time.process_time()
    for _ in range(20):
        json.dumps(local)
    begun = time.process_time()
    replay.feed(StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/notes", "value": ["a"]}]}))
    for index in range(1_000):
        replay.feed(TextMessageStartEvent(message_id=str(index)))
        assert replay.state is local
    assert time.process_time() - begun < begun - before


NOTES: list[Step] = [
    patch({"op": "add", "path": "/notes", "value": ["a"]}),
    patch({"op": "add", "path": "/notes/-", "value": "b"}),
]


@pytest.mark.requirement("STATE-1")
@pytest.mark.parametrize(
    ("local", "expected"),
    [
        pytest.param({}, {"notes": ["a", "b"]}, id="nothing"),
        pytest.param({"notes": ["a"]}, {"notes": ["a", "b"]}, id="less"),
        pytest.param({"notes": ["a", "b"], "mine": True}, {"notes": ["a", "b"], "mine": True}, id="more"),
    ],
)
async def test_patches_of_a_thread_that_is_replayed_without_its_state_begin_with_an_empty_one(
    local: Any, expected: Any
) -> None:
    with serve_bytes(sse(turn(NOTES[0], run_id="run-8"), turn(NOTES[1], run_id="run-9"))) as server:
        agent = agent_of(server, initial_state=local)
        for _ in range(2):
            result = await agent.connect_agent()
            assert (result.state, agent.state, result.warnings) == (expected, expected, [])


@pytest.mark.requirement("STATE-1")
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([started("run-9", state={"days": []}), ADD], {"days": [-3]}, id="as the run was asked"),
        pytest.param([started("run-9"), ADD], {"a": 1}, id="asked without one"),
        pytest.param([started("run-9"), state({"days": [0]}), ADD], {"days": [0, -3]}, id="as a snapshot says"),
        pytest.param(
            [RunStartedEvent(thread_id="thread-1", run_id="run-9"), state({"days": [0]})],
            {"days": [0]},
            id="a snapshot",
        ),
        pytest.param([started("run-9", state={"days": [0]}), state(None)], None, id="null"),
        pytest.param(
            [started("run-8", state={"days": []}), ADD, finished("run-8"), started("run-9", state={"days": [1]}), ADD],
            {"days": [1, -3]},
            id="as each run was asked",
        ),
        pytest.param(
            [started("run-8", state={"days": []}), ADD, finished("run-8"), started("run-9"), ADD],
            {"days": [-3, -3]},
            id="as the run before left it",
        ),
    ],
)
async def test_a_replayed_run_patches_the_state_it_was_asked_with(steps: list[Step], expected: Any) -> None:
    if expected == {"a": 1}:
        steps = [steps[0], patch({"op": "add", "path": "/a", "value": 1})]
    with serve_bytes(sse(*steps, finished("run-9"))) as server:
        agent = agent_of(server, initial_state={"days": [-3], "old": True})
        for _ in range(2):
            assert (await agent.connect_agent()).warnings == []
            assert agent.state == expected


async def test_while_a_thread_is_replayed_its_calls_and_texts_can_be_looked_at_and_messages_added() -> None:
    replayed = turn(text("Wait.", message_id="answer"), tool_call("look", {"at": "map"}, tool_call_id="c1"))
    with serve_bytes(sse(replayed)) as server:
        agent = agent_of(server)
        async with agent.stream_connect() as run:
            async for event in run:
                if isinstance(event, ToolCallEndEvent):
                    break
            assert run.tool_calls["c1"].arguments == {"at": "map"}
            assert run.partial.text == "Wait."
            agent.add_message(UserMessage(id="mine", content="Hi"))
            assert "mine" in [message.id for message in run.messages]
            await run.result()
    assert {"answer", "mine"} <= {message.id for message in agent.messages}


async def test_messages_that_are_replaced_while_a_thread_is_replayed_are_the_local_ones() -> None:
    with serve_bytes(sse(turn(text("Wait.", message_id="answer")))) as server:
        agent = agent_of(server, initial_messages=[UserMessage(id="old", content="Hi")])
        async with agent.stream_connect() as run:
            await anext(aiter(run))
            agent.set_messages([UserMessage(id="new", content="Hello")])
            await run.result()
    assert [message.id for message in agent.messages] == ["new", "answer"]
