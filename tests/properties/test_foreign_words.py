"""What the other side wrote forges no log line and reaches no terminal: it is escaped in every message."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agui_client import AGUIError, InvalidEventError, RunResult
from support.bodies import Body as Pieces
from support.bodies import memory_agent, response

EVIL = "x\nERROR forged \x1b[31m\u202e\x9b\u2028y"
RAW = ("\n", "\r", "\x1b", "\u202e", "\x9b", "\u2028")

EVENTS: list[dict[str, Any]] = [
    {"type": "RUN_STARTED", "threadId": EVIL, "runId": EVIL, "protocolVersion": EVIL},
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r", EVIL: EVIL},
    {"type": "RUN_FINISHED", "threadId": EVIL, "runId": EVIL},
    {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": EVIL}},
    {"type": "RUN_ERROR", "message": EVIL, "code": EVIL},
    {"type": EVIL, EVIL: EVIL},
    {"type": "CUSTOM", "name": EVIL, "value": {EVIL: EVIL}},
    {"type": "CUSTOM", "name": "on_interrupt", "value": EVIL},
    {"type": "STEP_STARTED", "stepName": EVIL},
    {"type": "STEP_FINISHED", "stepName": f"{EVIL}2"},
    {"type": "TEXT_MESSAGE_START", "messageId": EVIL, "role": "assistant", "name": EVIL},
    {"type": "TEXT_MESSAGE_START", "messageId": EVIL, "role": EVIL},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": EVIL, "delta": EVIL},
    {"type": "TEXT_MESSAGE_CHUNK", "delta": EVIL, "messageId": [EVIL]},
    {"type": "TEXT_MESSAGE_END", "messageId": EVIL},
    {"type": "TOOL_CALL_START", "toolCallId": EVIL, "toolCallName": EVIL, "parentMessageId": EVIL},
    {"type": "TOOL_CALL_ARGS", "toolCallId": EVIL, "delta": EVIL},
    {"type": "TOOL_CALL_END", "toolCallId": EVIL},
    {"type": "TOOL_CALL_RESULT", "messageId": EVIL, "toolCallId": f"{EVIL}3", "content": EVIL},
    {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": f"/{EVIL}", "value": EVIL}]},
    {"type": "STATE_DELTA", "delta": [{"op": EVIL, "path": f"/{EVIL}"}]},
    {
        "type": "ACTIVITY_DELTA",
        "messageId": EVIL,
        "activityType": EVIL,
        "patch": [{"op": "remove", "path": f"/{EVIL}"}],
    },
    {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": EVIL, "role": EVIL, "content": EVIL}]},
    {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": EVIL, "role": "user", "content": [{"type": EVIL}], EVIL: 1}]},
    {"type": "REASONING_ENCRYPTED_VALUE", "subtype": EVIL, "entityId": EVIL, "encryptedValue": EVIL},
    {"type": "SUBAGENT_STARTED", "subagentRunId": EVIL, "name": EVIL},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": f"{EVIL}4"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "d", "subagentRunId": EVIL},
]


def said(error: AGUIError) -> list[str]:
    """Everything that an error shows, of which no line may be forged."""
    shown = [str(error), *getattr(error, "__notes__", ())]
    if isinstance(error, InvalidEventError):
        shown += error.errors
    cause = error.__cause__
    return shown + (said(cause) if isinstance(cause, AGUIError) else [])


def assert_harmless(texts: list[str]) -> None:
    for text in texts:
        assert not [raw for raw in RAW if raw in text], text


@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_holds_raw_what_the_other_side_wrote(
    caplog: pytest.LogCaptureFixture, events: list[dict[str, Any]], begins: bool
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    stream = [EVENTS[0], *events] if begins else events
    agent = memory_agent(*(f"data: {json.dumps(each)}\n\n".encode() for each in stream))
    texts: list[str] = []
    result: RunResult | None
    try:
        result = agent.run_agent_sync("Hi")
    except AGUIError as error:
        texts += said(error)
        result = cast("RunResult | None", error.partial)
    if result is not None:
        texts += [part for each in result.warnings for part in (each.message, each.path or "")]
        texts += [each.error or "" for each in result.attempts]
    assert_harmless(texts + [record.getMessage() for record in caplog.records])


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_page_is_shown_in_one_line(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def make() -> httpx.Response:
        return response(Pieces([EVIL.encode()]), status=status, content_type="text/html")

    with pytest.raises(AGUIError) as caught:
        memory_agent(make=make).run_agent_sync("Hi")
    assert_harmless(said(caught.value) + [record.getMessage() for record in caplog.records])
    assert EVIL in vars(caught.value)["body"]
    last = traceback.format_exception_only(caught.value)
    assert len(last) == 1
