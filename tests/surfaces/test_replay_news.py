"""Replays that tell something else than what is held: what stands, what is put back, and what nobody waits for."""

from __future__ import annotations

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Event,
    FunctionCall,
    Message,
    ReasoningMessage,
    RunErrorEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from agui_client import ConnectError, IncompleteRunError, RunFailedError
from agui_client.testing import Step, text, tool_call, tool_result
from support.teller import (
    ASKED,
    BETWEEN,
    CALL_ENDS,
    CALLING,
    FIRST,
    ONLY_ASKING,
    RAIN,
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

pytestmark = pytest.mark.anyio

# --- what was told further or differently stands


def _half(content: str) -> list[Step]:
    return [TextMessageStartEvent(message_id="answer-1"), TextMessageContentEvent(message_id="answer-1", delta=content)]


@pytest.mark.parametrize(
    ("told", "content", "incomplete"),
    [
        ("", "Rain.", []),
        ("Ra", "Rain.", []),
        ("Rain.", "Rain.", []),
        ("Rain. And", "Rain. And", ["answer-1"]),
        ("Storm", "Storm", ["answer-1"]),
    ],
)
@pytest.mark.requirement("TRUNC-1")
async def test_text_that_was_told_less_of_is_put_back(told: str, content: str, incomplete: list[str]) -> None:
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS, SNOW])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], *_half(told))
    assert [each.content for each in agent.messages] == ["Weather?", content, THANKS.content, "Snow."]
    assert agent.incomplete_ids == incomplete


@pytest.mark.parametrize(
    ("told", "arguments", "incomplete"),
    [("{", '{"a":1}', []), ('{"a":1} ', '{"a":1} ', ["call-1"]), ('{"b', '{"b', ["call-1"])],
)
@pytest.mark.requirement("TRUNC-1")
async def test_arguments_that_were_told_less_of_are_put_back(told: str, arguments: str, incomplete: list[str]) -> None:
    call = ToolCall(id="call-1", function=FunctionCall(name="book", arguments='{"a":1}'))
    agent = Teller(initial_messages=[WEATHER, AssistantMessage(id="answer-1", tool_calls=[call]), THANKS, SNOW])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(
            FIRST[0],
            ToolCallStartEvent(tool_call_id="call-1", tool_call_name="book", parent_message_id="answer-1"),
            ToolCallArgsEvent(tool_call_id="call-1", delta=told),
            ToolCallStartEvent(tool_call_id="call-9", tool_call_name="look", parent_message_id="answer-1"),
        )
    (answer,) = (each for each in agent.messages if isinstance(each, AssistantMessage) and each.tool_calls)
    assert [each.function.arguments for each in answer.tool_calls or ()] == [arguments, ""]
    assert agent.incomplete_ids == [*incomplete, "call-9"]


@pytest.mark.requirement("TRUNC-1", "STATE-6")
async def test_what_was_told_and_taken_back_before_the_cut_comes_back() -> None:
    """The text was streamed under another id than the snapshot then gave it."""
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS, SNOW])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], text("Rain.", message_id="answer-1"), snapshot(WEATHER))
    assert agent.messages == [WEATHER, RAIN, THANKS, SNOW]


@pytest.mark.requirement("TRUNC-1")
async def test_what_is_news_stands_where_it_was_told() -> None:
    news = AssistantMessage(id="answer-0", content="Let me look.")
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS, SNOW])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], text("Let me look.", message_id="answer-0"), FIRST[1])
    assert agent.messages == [WEATHER, news, RAIN, THANKS, SNOW]


@pytest.mark.requirement("TRUNC-1")
async def test_what_was_incomplete_stays_so_until_it_is_told_as_far() -> None:
    agent = Teller()
    rest: list[Step] = [
        TextMessageContentEvent(message_id="answer-1", delta=" wind."),
        TextMessageEndEvent(message_id="answer-1"),
    ]
    more: list[Step] = [*FIRST, started("run-2", THANKS), *_half(" And")]
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*more)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, *more[len(FIRST) : -2])
    assert (agent.messages[1].content, agent.incomplete_ids) == ("Rain. And", ["answer-1"])
    await agent.take_up(*more, *rest, ended("run-2"))
    assert (agent.messages[1].content, agent.incomplete_ids) == ("Rain. And wind.", [])


@pytest.mark.requirement("TRUNC-1", "TOOL-10")
async def test_a_cut_beyond_what_was_held_leaves_what_was_told() -> None:
    agent = await holding(*FIRST)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, *CALLING[:-1])
    held = agent.held()
    assert (held["state"], held["calls"], held["unfinished"]) == ({"at": 2}, ["call-2"], ["call-2"])


BOOK = ToolCallStartEvent(tool_call_id="call-1", tool_call_name="book", parent_message_id="answer-1")
LOOK = tool_call("look", {}, tool_call_id="call-9")


def _calling(arguments: str) -> dict[str, object]:
    return {"tool_calls": [ToolCall(id="call-1", function=FunctionCall(name="book", arguments=arguments))]}


def _restated(**fields: object) -> Event:
    return snapshot(WEATHER, AssistantMessage.model_validate({"id": "answer-1", **fields}))


@pytest.mark.parametrize(
    ("held", "told", "is_further"),
    [
        pytest.param({"content": "Rain"}, _half("Ra"), False, id="less text"),
        pytest.param({"content": "Rain"}, _half("Rain"), False, id="as much text"),
        pytest.param({"content": "Rain"}, _half("Rain."), True, id="more text"),
        pytest.param({"content": "Rain"}, [*_half("Rain"), BOOK], True, id="as much text, and a call"),
        pytest.param({"content": "Rain"}, [*_half("Ra"), BOOK], False, id="less text, and a call"),
        pytest.param(
            {"content": "Rain."}, [text("Sun", message_id="answer-1"), BOOK], True, id="another text, and a call"
        ),
        pytest.param({"content": "Rain"}, [_restated(content="Ra"), LOOK], False, id="less text restated, and a call"),
        pytest.param({"content": "Rain"}, [_restated(content="Rain", **_calling(""))], True, id="a call restated"),
        pytest.param({"name": "Ada"}, [BOOK], True, id="a call"),
        pytest.param(_calling('{"a"'), half_a_call('{"'), False, id="fewer arguments"),
        pytest.param(_calling('{"a"'), half_a_call('{"a"'), False, id="as many arguments"),
        pytest.param(_calling('{"a"'), half_a_call('{"a":'), True, id="more arguments"),
        pytest.param(_calling('{"a"'), [*half_a_call('{"b'), CALL_ENDS, LOOK], True, id="other arguments, and a call"),
        pytest.param(_calling('{"a"'), [_restated(**_calling("{")), LOOK], False, id="fewer restated, and a call"),
    ],
)
@pytest.mark.requirement("TRUNC-1", "STATE-1")
async def test_a_state_counts_as_soon_as_the_replay_is_further_than_what_was_held(
    held: dict[str, object], told: list[Step], is_further: bool
) -> None:
    answer = AssistantMessage.model_validate({"id": "answer-1", **held})
    agent = Teller(initial_messages=[WEATHER, answer], initial_state={"old": True})
    with pytest.raises(IncompleteRunError):
        await agent.take_up(started("run-1", WEATHER, state={"old": False}), *told)
    assert agent.state == {"old": not is_further}


@pytest.mark.requirement("LIFE-13")
async def test_a_prompt_that_nobody_may_have_heard_is_not_waited_for_when_there_is_news() -> None:
    agent = Teller(initial_messages=[WEATHER, RAIN, UserMessage(id="local-1", content="Psst")])
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, *SECOND[:-1])
    assert agent.state == {"at": 2}


@pytest.mark.requirement("LIFE-13")
async def test_news_that_is_repeated_in_a_snapshot_is_not_what_follows() -> None:
    news = AssistantMessage(id="answer-0", content="Let me look.")
    agent = Teller(initial_messages=[WEATHER, RAIN, THANKS, SNOW], initial_state={"old": True})
    result = await agent.take_up(
        *FIRST[:1], text("Let me look.", message_id="answer-0"), FIRST[1], snapshot(WEATHER, RAIN, news), FIRST[-1]
    )
    assert (result.outcome, agent.state) == (None, {"old": True})


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


@pytest.mark.requirement("STATE-5", "STATE-6", "STATE-7")
async def test_what_the_last_runs_snapshot_leaves_out_is_gone_at_the_end() -> None:
    thought, pins = (
        ReasoningMessage(id="thought-1", content="Hm."),
        ActivityMessage(id="m", activity_type="M", content={}),
    )
    held = [WEATHER, LOCAL, RAIN, thought, pins, GREETING, THANKS]
    start = started("run-2", WEATHER, THANKS)
    agent = Teller(initial_messages=held)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, start, snapshot(WEATHER, RAIN, THANKS))
    assert agent.messages == held
    await agent.take_up(*FIRST, start, text("Snow.", message_id="answer-2"), ended("run-2"))
    assert agent.messages == [*held, SNOW]
    await agent.take_up(*FIRST, start, snapshot(WEATHER, RAIN, THANKS, SNOW), ended("run-2"))
    assert agent.messages == [WEATHER, RAIN, thought, pins, THANKS, SNOW]
    await agent.take_up(start, snapshot(thought.model_copy(update={"id": "t-2"}), WEATHER), ended("run-2"))
    assert [each.id for each in agent.messages] == ["user-1", "m", "t-2"]


# --- interrupts that wait


@pytest.mark.requirement("INT-3", "INT-4")
async def test_interrupts_that_a_replay_says_nothing_of_wait_on() -> None:
    agent = await holding(*FIRST, *SECOND)
    compact: list[Step] = [started("run-2"), snapshot(WEATHER, RAIN, THANKS, SNOW), ended("run-2")]
    await agent.take_up(*compact)
    assert (agent.pending_interrupts, agent.state) == ([ASKED], {"at": 2})
    answered = snapshot(WEATHER, RAIN, THANKS, SNOW, AssistantMessage(id="answer-3", content="Booked."))
    result = await agent.take_up(compact[0], answered, ended("run-3"))
    assert (result.outcome, agent.pending_interrupts) == (RunFinishedSuccessOutcome(), [])


@pytest.mark.requirement("INT-3", "LIFE-4")
async def test_a_run_that_failed_after_all_waits_for_nothing() -> None:
    agent = await holding(*FIRST, *SECOND)
    with pytest.raises(RunFailedError, match="late"):
        await agent.take_up(*FIRST, *SECOND[:-1], RunErrorEvent(message="late"))
    assert agent.pending_interrupts == []


@pytest.mark.requirement("INT-3", "TRUNC-1")
async def test_they_wait_on_when_the_run_that_follows_is_cut_before_they_were_told() -> None:
    agent = await holding(*FIRST, *ONLY_ASKING)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(*FIRST, started("run-9", WEATHER, THANKS), text("New.", message_id="answer-9"))
    assert (agent.pending_interrupts, agent.state) == ([ASKED], {"at": 2})


# --- what was said, and never heard


async def test_a_prompt_that_nobody_heard_comes_after_what_others_said_meanwhile() -> None:
    agent = await holding(*FIRST)
    agent.told, agent.error = (), ConnectError("refused")
    with pytest.raises(ConnectError):
        await agent.run_agent("Hi")
    assert (await agent.take_up(*FIRST)).outcome == RunFinishedSuccessOutcome()
    await agent.take_up(*FIRST, *SECOND[:3], ended("run-2"))
    assert [each.content for each in agent.messages][-2:] == ["Snow.", "Hi"]
    agent.told = events_of_steps(RunStartedEvent(thread_id="thread-1", run_id="run-3"), ended("run-3"))
    await agent.run_agent("Hi", run_id="run-3")
    assert [each.content for each in agent.asked[-1].messages if isinstance(each, UserMessage)] == [
        WEATHER.content,
        THANKS.content,
        "Hi",
    ]


async def test_a_prompt_that_was_heard_after_all_stands_where_it_was_heard() -> None:
    agent = await holding(*FIRST)
    agent.told, agent.error = (), ConnectError("refused")
    with pytest.raises(ConnectError):
        await agent.run_agent(THANKS)
    await agent.take_up(*FIRST, *SECOND[:1], *SECOND[2:3], ended("run-2"))
    assert agent.messages == [WEATHER, RAIN, THANKS, SNOW]


async def test_an_answer_that_nobody_heard_stays_with_its_call() -> None:
    agent = await holding(*FIRST, *CALLING)
    agent.told, agent.error = (), ConnectError("refused")
    with pytest.raises(ConnectError):
        await agent.run_agent(tool_results={"call-2": "booked"})
    more: list[Step] = [started("run-3"), text("Wait.", message_id="answer-3"), ended("run-3")]
    await agent.take_up(*FIRST, *CALLING, *more)
    answer = next(each for each in agent.messages if isinstance(each, ToolMessage))
    assert [each.id for each in agent.messages][-3:] == ["call-2", answer.id, "answer-3"]


@pytest.mark.requirement("LIFE-13")
async def test_messages_of_one_id_are_both_kept() -> None:
    other = AssistantMessage(id="answer-2", content="Sn")
    twins = [WEATHER, ToolMessage(id="answer-1", tool_call_id="c", content="1"), RAIN, THANKS, SNOW, other]
    agent = Teller(initial_messages=twins)
    with pytest.raises(IncompleteRunError):
        await agent.take_up(FIRST[0], tool_result("2", tool_call_id="c", message_id="result-1"))
    assert [each for each in agent.messages if each.id != "result-1"] == twins
