"""After a stream of odd values the conversation goes on: it can be asked again, saved, restored and cloned.

What a producer sends is one of two things: refused when it comes, or held, shown, and sent back with the next run.
"""

from __future__ import annotations

import pytest
from ag_ui.core import Message

from agui_client import ConversationSnapshot, HttpAgent, ProtocolError
from weaves.memory import Server, framed

START = '{"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-%d"}'
FINISH = '{"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-%d"}'

ODD_VALUES = {
    "half-a-character": '"\\ud83d"',
    "half-a-character-in-a-name": '{"\\ud83d": 1}',
    "a-nul-character": '"\\u0000"',
    "more-than-a-float-can-hold": "1e999",
    "more-than-a-float-can-hold-inside": '{"a": [-1e999]}',
    "an-integer-of-4000-digits": "9" * 4000,
    "nested-100-deep": "[" * 100 + "]" * 100,
    "nested-300-deep": "[" * 300 + "]" * 300,
    "nested-900-deep": '{"a":' * 900 + "1" + "}" * 900,
}

EVENTS = {
    "state": ['{"type": "STATE_SNAPSHOT", "snapshot": %s}'],
    "state-delta": ['{"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": %s}]}'],
    "activity": ['{"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {"a": %s}}'],
    "metadata": [
        '{"type": "TEXT_MESSAGE_START", "messageId": "m", "metadata": {"a": %s}}',
        '{"type": "TEXT_MESSAGE_END", "messageId": "m"}',
    ],
    "snapshot": [
        '{"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "user", "content": "", "metadata": {"a": %s}}]}'
    ],
}


@pytest.fixture
def anyio_backend() -> str:
    """What is held and sent does not depend on the event loop."""
    return "asyncio"


def run(number: int, *frames: str) -> bytes:
    return framed([START % number, *frames, FINISH % number])


async def asked(agent: HttpAgent, number: int) -> ProtocolError | None:
    try:
        await agent.run_agent(run_id=f"run-{number}")
    except ProtocolError as error:
        return error
    return None


@pytest.mark.parametrize("value", ODD_VALUES.values(), ids=ODD_VALUES)
@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
@pytest.mark.anyio
async def test_an_odd_value_is_refused_or_can_be_sent_back(events: list[str], value: str) -> None:
    agent = Server([run(1, *(event.replace("%s", value) for event in events))], [run(2)]).agent()
    await asked(agent, 1)
    assert await asked(agent, 2) is None


@pytest.mark.parametrize("value", ODD_VALUES.values(), ids=ODD_VALUES)
@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
@pytest.mark.anyio
async def test_a_conversation_with_an_odd_value_can_be_saved_and_cloned(events: list[str], value: str) -> None:
    agent = Server([run(1, *(event.replace("%s", value) for event in events))], [run(2)]).agent()
    await asked(agent, 1)
    saved = agent.snapshot().model_dump_json()
    twin = agent.clone()
    twin.restore(ConversationSnapshot.model_validate_json(saved))
    assert (twin.messages, twin.state) == (agent.messages, agent.state)


def texts(messages: list[Message]) -> list[object]:
    return [message.content for message in messages]


@pytest.mark.requirement("STREAM-2")
@pytest.mark.anyio
async def test_a_character_split_over_two_deltas_is_one_character_in_the_message() -> None:
    halves = (
        '{"type": "TEXT_MESSAGE_START", "messageId": "m"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "so \\ud83d"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "\\ude00!"}',
        '{"type": "TEXT_MESSAGE_END", "messageId": "m"}',
    )
    server = Server([run(1, *halves)], [run(2)])
    agent = server.agent()
    result = await agent.run_agent(run_id="run-1")
    assert (result.text, texts(agent.messages)) == ("so 😀!", ["so 😀!"])
    await agent.run_agent(run_id="run-2")
    assert server.requests[1]["messages"] == [{"id": "m", "role": "assistant", "content": "so 😀!"}]


@pytest.mark.requirement("STREAM-2")
@pytest.mark.anyio
async def test_a_character_split_over_two_pieces_of_arguments_is_one_character() -> None:
    halves = (
        '{"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look"}',
        '{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\\"q\\": \\"\\ud83d"}',
        '{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "\\ude00\\"}"}',
        '{"type": "TOOL_CALL_END", "toolCallId": "c"}',
    )
    agent = Server([run(1, *halves)], [run(2)]).agent()
    result = await agent.run_agent(run_id="run-1")
    assert [call.function.arguments for call in result.pending_tool_calls] == ['{"q": "😀"}']
    await agent.run_agent(run_id="run-2", tool_results={"c": "found"})


@pytest.mark.anyio
async def test_half_a_character_that_stays_alone_does_not_end_the_conversation() -> None:
    half = (
        '{"type": "TEXT_MESSAGE_START", "messageId": "m"}',
        '{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "so \\ud83d"}',
        '{"type": "TEXT_MESSAGE_END", "messageId": "m"}',
    )
    agent = Server([run(1, *half)], [run(2)]).agent()
    await asked(agent, 1)
    assert await asked(agent, 2) is None
