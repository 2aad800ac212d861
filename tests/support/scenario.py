"""One run with everything in it, what must come of it, and the same run as bytes."""

from __future__ import annotations

from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    CustomEvent,
    RawEvent,
    ReasoningMessageChunkEvent,
    RunAgentInput,
    TextMessageChunkEvent,
    TokenUsage,
    ToolCallChunkEvent,
    UserMessage,
)

from agui_client.testing import patch, reasoning, sse, state, step, text, tool_call, tool_result, turn

PROMPT = UserMessage(id="user-1", content="Wie wird das Wetter in Tromsø?")
INPUT = RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[PROMPT])

TURN = turn(
    step(
        "look",
        reasoning("They want the weather.", message_id="think-1", encrypted_value="opaque=="),
        text("Let me look.", message_id="answer-1"),
        tool_call("get_weather", {"city": "Tromsø"}, tool_call_id="call-1", parent_message_id="answer-1"),
        tool_result("-3 °C", tool_call_id="call-1", message_id="result-1"),
    ),
    state({"city": "Tromsø", "days": []}),
    patch(
        {"op": "add", "path": "/days/-", "value": {"low": -3, "note": None}},
        {"op": "replace", "path": "/days/0/low", "value": -4},
    ),
    ActivitySnapshotEvent(message_id="map-1", activity_type="MAP", content={"zoom": 1}),
    ActivityDeltaEvent.model_validate(
        {"messageId": "map-1", "activityType": "MAP", "patch": [{"op": "replace", "path": "/zoom", "value": 2}]}
    ),
    ReasoningMessageChunkEvent(message_id="think-2", delta="Cold"),
    ReasoningMessageChunkEvent(delta=", then."),
    TextMessageChunkEvent(message_id="answer-2", delta="Kalt: "),
    RawEvent(event={"provider": "event"}, source="model"),
    TextMessageChunkEvent(delta="-4 °C ❄️"),
    ToolCallChunkEvent(
        tool_call_id="call-2", tool_call_name="show_map", parent_message_id="answer-2", delta='{"zoom":'
    ),
    ToolCallChunkEvent(delta="2}"),
    CustomEvent(name="sources", value=[None, 0, ""]),
    result={"low": -4},
    usage=[
        TokenUsage(provider="p", model="m", input_tokens=3, output_tokens=5),
        TokenUsage(provider="p", model="m", input_tokens=4, cached_input_tokens=2),
        TokenUsage(provider="p", model="n", output_tokens=0),
    ],
)
"""What the agent does."""

FRAMES = sse(TURN, input=INPUT)
"""The run on the wire, with LF."""

MESSAGES: list[dict[str, Any]] = [
    {"id": "user-1", "role": "user", "content": "Wie wird das Wetter in Tromsø?"},
    {"id": "think-1", "role": "reasoning", "content": "They want the weather.", "encryptedValue": "opaque=="},
    {
        "id": "answer-1",
        "role": "assistant",
        "content": "Let me look.",
        "toolCalls": [
            {"id": "call-1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Tromsø"}'}}
        ],
    },
    {"id": "result-1", "role": "tool", "toolCallId": "call-1", "content": "-3 °C"},
    {"id": "map-1", "role": "activity", "activityType": "MAP", "content": {"zoom": 2}},
    {"id": "think-2", "role": "reasoning", "content": "Cold, then."},
    {
        "id": "answer-2",
        "role": "assistant",
        "content": "Kalt: -4 °C ❄️",
        "toolCalls": [
            {"id": "call-2", "type": "function", "function": {"name": "show_map", "arguments": '{"zoom":2}'}}
        ],
    },
]
"""What must be held afterwards."""

STATE: dict[str, Any] = {"city": "Tromsø", "days": [{"low": -4, "note": None}]}

USAGE = [
    TokenUsage(provider="p", model="m", input_tokens=7, output_tokens=5, cached_input_tokens=2),
    TokenUsage(provider="p", model="n", output_tokens=0),
]

TYPES = [
    "RUN_STARTED",
    "STEP_STARTED",
    "REASONING_START",
    "REASONING_MESSAGE_START",
    *["REASONING_MESSAGE_CONTENT"] * 4,
    "REASONING_MESSAGE_END",
    "REASONING_ENCRYPTED_VALUE",
    "REASONING_END",
    "TEXT_MESSAGE_START",
    *["TEXT_MESSAGE_CONTENT"] * 3,
    "TEXT_MESSAGE_END",
    "TOOL_CALL_START",
    *["TOOL_CALL_ARGS"] * 2,
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
    "STEP_FINISHED",
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "ACTIVITY_SNAPSHOT",
    "ACTIVITY_DELTA",
    "REASONING_MESSAGE_START",
    *["REASONING_MESSAGE_CONTENT"] * 2,
    "REASONING_MESSAGE_END",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "RAW",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TOOL_CALL_START",
    *["TOOL_CALL_ARGS"] * 2,
    "TOOL_CALL_END",
    "CUSTOM",
    "RUN_FINISHED",
]
"""What the application sees, chunks expanded."""
