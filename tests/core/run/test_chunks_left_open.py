"""A message that chunks began is ended before an event that comes between, on its way to the caller."""

from __future__ import annotations

import pytest

from agui_client import HttpAgent
from agui_client.testing import serve_bytes, sse, turn

SNAPSHOT = {"type": "STATE_SNAPSHOT", "snapshot": 1}
CUSTOM = {"type": "CUSTOM", "name": "n", "value": 1}
CHUNK = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "role": "assistant", "delta": "One"}


@pytest.mark.parametrize("between", [CUSTOM, SNAPSHOT])
def test_a_chunked_message_ends_before_an_event_that_comes_between(between: dict[str, object]) -> None:
    with (
        serve_bytes(sse(turn(CHUNK, between))) as server,
        HttpAgent(server.url).stream_sync("Hi") as run,
    ):
        types = [event.type.value for event in run]
        assert run.result().text == "One"
    ended = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert types == ["RUN_STARTED", *ended, between["type"], "RUN_FINISHED"]
