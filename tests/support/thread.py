"""A thread of two runs as its server tells it again, what it comes to, and parts of it that a client may hold."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ag_ui.core import (
    ActivitySnapshotEvent,
    Message,
    RunAgentInput,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)

from agui_client import HttpAgent, IncompleteRunError
from agui_client.testing import (
    ByteServer,
    Step,
    patch,
    reasoning,
    serve_bytes,
    sse,
    text,
    tool_call,
    tool_result,
)


def started(run_id: str, *messages: Message, state: Any = None) -> RunStartedEvent:
    """The beginning of a run that somebody asked for."""
    asked = RunAgentInput(thread_id="thread-1", run_id=run_id, messages=list(messages), state=state)
    return RunStartedEvent(thread_id="thread-1", run_id=run_id, input=asked)


def finished(run_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "thread-1", "runId": run_id, **more}


WEATHER = UserMessage(id="user-1", content="Weather?")
THANKS = UserMessage(id="user-2", content="Thanks, and tomorrow?")

FIRST_RUN: list[Step] = [
    started("run-1", WEATHER, state={"days": []}),
    reasoning("They want the weather.", message_id="think-1", encrypted_value="opaque=="),
    text("Let me look.", message_id="answer-1"),
    tool_call("get_weather", {"city": "Oslo"}, tool_call_id="call-1", parent_message_id="answer-1"),
    tool_result("-3", tool_call_id="call-1", message_id="result-1"),
    patch({"op": "add", "path": "/days/-", "value": -3}),
    ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={"pins": []}),
    {
        "type": "ACTIVITY_DELTA",
        "messageId": "map-1",
        "activityType": "MAP",
        "patch": [{"op": "add", "path": "/pins/-", "value": "Oslo"}],
    },
    finished("run-1"),
]
SECOND_RUN: list[Step] = [
    started("run-2", WEATHER, THANKS, state={"days": [-3]}),
    text("Tomorrow it snows.", message_id="answer-2"),
    patch({"op": "add", "path": "/days/-", "value": -5}),
    finished("run-2"),
]
THREAD = sse(*FIRST_RUN, *SECOND_RUN)

MESSAGES: list[dict[str, Any]] = [
    {"id": "user-1", "role": "user", "content": "Weather?"},
    {"id": "think-1", "role": "reasoning", "content": "They want the weather.", "encryptedValue": "opaque=="},
    {
        "id": "answer-1",
        "role": "assistant",
        "content": "Let me look.",
        "toolCalls": [
            {"id": "call-1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
        ],
    },
    {"id": "result-1", "role": "tool", "toolCallId": "call-1", "content": "-3"},
    {"id": "map-1", "role": "activity", "activityType": "MAP", "content": {"pins": ["Oslo"]}},
    {"id": "user-2", "role": "user", "content": "Thanks, and tomorrow?"},
    {"id": "answer-2", "role": "assistant", "content": "Tomorrow it snows."},
]
STATE = {"days": [-3, -5]}


def agent_of(server: ByteServer, **settings: Any) -> HttpAgent:
    return HttpAgent(server.url, connect_url="connect", thread_id="thread-1", **settings)


async def told(agent: HttpAgent, *steps: Step) -> None:
    """Let an agent hold what these steps come to."""
    with serve_bytes(sse(*steps)) as server:
        other = agent_of(server)
        with suppress(IncompleteRunError):
            await other.connect_agent()
    agent.restore(other.snapshot())


HELD: dict[str, list[Step]] = {
    "nothing": [],
    "all": [*FIRST_RUN, *SECOND_RUN],
    "the first run": FIRST_RUN,
    "half of the first answer": [*FIRST_RUN[:2], TextMessageStartEvent(message_id="answer-1"),
                                 TextMessageContentEvent(message_id="answer-1", delta="Let me")],
    "half of the arguments": [*FIRST_RUN[:3], {"type": "TOOL_CALL_START", "toolCallId": "call-1",
                              "toolCallName": "get_weather", "parentMessageId": "answer-1"},
                              {"type": "TOOL_CALL_ARGS", "toolCallId": "call-1", "delta": '{"city'}],
    "half of the thoughts": [FIRST_RUN[0], {"type": "REASONING_MESSAGE_START", "messageId": "think-1",
                             "role": "reasoning"},
                             {"type": "REASONING_MESSAGE_CONTENT", "messageId": "think-1", "delta": "They"}],
    "half of the second answer": [*FIRST_RUN, SECOND_RUN[0], TextMessageStartEvent(message_id="answer-2"),
                                  TextMessageContentEvent(message_id="answer-2", delta="Tomorrow")],
}  # fmt: skip
