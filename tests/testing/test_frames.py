"""`sse` writes the frames a producer would write."""

from __future__ import annotations

import pytest
from ag_ui.core import RunAgentInput, StateSnapshotEvent

from agui_client.testing import events_of, pause, sse, text, turn


@pytest.mark.requirement("SSE-4")
def test_events_and_dicts_become_one_frame_each() -> None:
    frames = sse(StateSnapshotEvent(snapshot=None), {"type": "FUTURE_EVENT", "name": "Tromsø", "gone": None})
    assert frames == (
        b'data: {"type":"STATE_SNAPSHOT","snapshot":null}\n\n'
        b'data: {"type": "FUTURE_EVENT", "name": "Troms\xc3\xb8", "gone": null}\n\n'
    )


@pytest.mark.requirement("SSE-7")
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_as_asked_and_newlines_in_text_stay_escaped(newline: str) -> None:
    frames = sse(text("a\nb", chunk=3), newline=newline)
    end = newline.encode()
    assert frames == (
        b'data: {"type":"TEXT_MESSAGE_START","messageId":"message-1","role":"assistant"}' + end * 2
        + b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"message-1","delta":"a\\nb"}' + end * 2
        + b'data: {"type":"TEXT_MESSAGE_END","messageId":"message-1"}' + end * 2
    )  # fmt: skip


def test_a_turn_answers_the_given_input_and_waits_leave_no_bytes() -> None:
    input = RunAgentInput(thread_id="t", run_id="r", messages=[])
    assert sse(turn(pause(60)), input=input) == (
        b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}\n\n'
        b'data: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}\n\n'
    )
    assert sse(turn()) == sse(turn(), input=RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[]))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_body_comes_apart_into_its_events(end: bytes) -> None:
    events = [
        b'data: {"a": "data: 1"}\n\n',
        b"\n: comment with data\n\nid: 7\n\ndata: {\ndata: }\n\n",
        b"event: x\ndata:[]\nid: 8\n\n",
        b": bye\n\ndata: cu",
    ]
    ended = [event.replace(b"\n", end) for event in events]
    assert events_of(b"".join(ended)) == ended


def test_what_follows_the_last_event_is_kept_apart() -> None:
    assert events_of(b"data: 1\n\n: bye\n\n") == [b"data: 1\n\n", b": bye\n\n"]
    assert events_of(b"data: 1\n\n\n") == [b"data: 1\n\n", b"\n"]
    assert events_of(b"") == []
