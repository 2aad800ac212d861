"""The compatibility boundary: what each retired shape becomes, what is said about it, and what is left alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agui_client import UnrecognizedEvent
from agui_client._core.protocol.compat import Translator
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.verify import Verifier
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import EventOrderError, InvalidEventError

Wire = dict[str, Any]


def translated(*events: Wire) -> tuple[list[Wire], list[tuple[str, str]]]:
    """What a stream of JSON events becomes, and the warnings as (rule, message)."""
    warnings = WarningLog()
    boundary = Translator(warnings)
    given = copy.deepcopy(events)
    left: list[Wire] = []
    for event in events:
        result = boundary.feed(UnrecognizedEvent(event["type"], event))
        assert result.type == result.data["type"]
        left.append(result.data)
    assert events == given, "the incoming objects must not be changed"
    return left, [(record.rule, record.message) for record in warnings.records()]


def snapshot(*messages: Wire) -> Wire:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def user(*parts: Any) -> Wire:
    return {"id": "u1", "role": "user", "content": list(parts)}


TEXT = {"type": "text", "text": "hi"}
BINARY = {"type": "binary", "mimeType": "image/png", "data": "AAAA"}
IMAGE = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}


@pytest.mark.parametrize(
    "data",
    [
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x", "timestamp": None},
        {"type": "FUTURE_EVENT", "x": 1},
        snapshot(user(TEXT, IMAGE), {"id": "u2", "role": "user", "content": "hi"}),
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": {"messages": "nonsense"}},
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": None},
    ],
)
def test_what_is_not_retired_passes_as_the_same_object(data: Wire) -> None:
    warnings = WarningLog()
    event = UnrecognizedEvent(data["type"], data)
    assert Translator(warnings).feed(event) is event
    assert warnings.records() == []


@pytest.mark.requirement("VER-10", "VER-12")
def test_thinking_events_become_a_reasoning_span_with_a_message_in_it() -> None:
    left, warnings = translated(
        {"type": "THINKING_START", "timestamp": 1},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Let me "},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "check."},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    )
    span_id, message_id = left[0]["messageId"], left[1]["messageId"]
    assert span_id != message_id
    assert left == [
        {"type": "REASONING_START", "messageId": span_id, "timestamp": 1},
        {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": message_id, "delta": "Let me "},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": message_id, "delta": "check."},
        {"type": "REASONING_MESSAGE_END", "messageId": message_id},
        {"type": "REASONING_END", "messageId": span_id},
    ]
    assert [rule for rule, _ in warnings] == ["VER-10"] * 5
    assert warnings[0][1] == "retired THINKING_START translated into REASONING_START; upgrade the producer"


def test_each_thinking_span_and_message_gets_an_id_of_its_own() -> None:
    span = [{"type": "THINKING_START"}, {"type": "THINKING_END"}]
    message = [{"type": "THINKING_TEXT_MESSAGE_START"}, {"type": "THINKING_TEXT_MESSAGE_END"}]
    left, _ = translated(*span, *span, *message, *message)
    ids = [event["messageId"] for event in left]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 4


@pytest.mark.requirement("VER-11")
def test_the_title_of_a_thinking_span_is_lost_with_a_warning() -> None:
    warnings, event = WarningLog(), {"type": "THINKING_START", "title": "Working"}
    left = Translator(warnings).feed(UnrecognizedEvent("THINKING_START", event))
    assert "title" not in left.data
    lost = "title of THINKING_START lost: REASONING_START has no place for it; upgrade the producer"
    assert ("VER-11", lost, "/title") in [(record.rule, record.message, record.path) for record in warnings.records()]


def test_a_missing_or_null_title_is_no_loss() -> None:
    for event in ({"type": "THINKING_START"}, {"type": "THINKING_START", "title": None}):
        left, warnings = translated(event)
        assert set(left[0]) == {"type", "messageId"}
        assert [rule for rule, _ in warnings] == ["VER-10"]


@pytest.mark.requirement("VER-6")
@pytest.mark.parametrize(
    "orphan",
    [
        {"type": "THINKING_END"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "x"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
    ],
)
def test_a_thinking_event_without_its_opener_stays_an_orphan(orphan: Wire) -> None:
    closed = ["THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END", "THINKING_END"]
    events = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}, *({"type": name} for name in closed)]
    warnings = WarningLog()
    boundary, enforcer, verifier = Translator(warnings), Validator(warnings), Verifier(warnings)
    verifier.begin("t", "r")

    def feed(data: Wire) -> None:
        judged = enforcer.feed(boundary.feed(UnrecognizedEvent(data["type"], data)))
        assert judged is not None
        verifier.check(judged)

    for data in events:
        feed(data)
    with pytest.raises(EventOrderError):
        feed(orphan)


@pytest.mark.requirement("VER-6")
def test_a_malformed_value_in_a_retired_event_stays_malformed() -> None:
    left, _ = translated({"type": "THINKING_TEXT_MESSAGE_START"}, {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": 5})
    with pytest.raises(InvalidEventError):
        Validator(WarningLog()).feed(UnrecognizedEvent("REASONING_MESSAGE_CONTENT", left[1]))


@pytest.mark.requirement("VER-12")
@pytest.mark.parametrize(
    ("event_type", "name"),
    [
        ("TOOL_CALL_START", "parentMessageId"),
        ("TOOL_CALL_CHUNK", "parentMessageId"),
        ("RUN_FINISHED", "outcome"),
        ("RUN_FINISHED", "result"),
        ("SUBAGENT_FINISHED", "result"),
        ("STEP_STARTED", "rawEvent"),
        ("RUN_FINISHED", "rawEvent"),
    ],
)
def test_a_retired_null_is_removed_in_silence(event_type: str, name: str) -> None:
    left, warnings = translated({"type": event_type, "x": None, name: None})
    assert left == [{"type": event_type, "x": None}]
    assert warnings == []


@pytest.mark.requirement("VER-12")
@pytest.mark.parametrize(
    "data",
    [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "parentRunId": None},
        {"type": "STEP_STARTED", "stepName": "s", "metadata": None},
        {"type": "STEP_STARTED", "stepName": "s", "subagentRunId": None},
        {"type": "STEP_STARTED", "stepName": "s", "timestamp": None},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": None},
        snapshot({"id": "a", "role": "assistant", "content": None}),
        snapshot(user({**TEXT, "metadata": None})),
    ],
)
def test_a_null_that_is_not_on_the_list_stays_fatal(data: Wire) -> None:
    left, _ = translated(data)
    assert left == [data]
    with pytest.raises(InvalidEventError) as caught:
        Validator(WarningLog()).feed(UnrecognizedEvent(data["type"], data))
    assert caught.value.rule == "PROC-17"


@pytest.mark.requirement("VER-12")
def test_the_nulls_of_an_echoed_input_are_removed_in_silence() -> None:
    echo: Wire = {
        "threadId": "t",
        "runId": "r",
        "forwardedProps": None,
        "state": None,
        "tools": [{"name": "f", "description": "d", "parameters": None}, {"name": "g", "description": "d"}],
        "resume": [{"interruptId": "i", "status": "resolved", "payload": None}],
        "messages": [user({**IMAGE, "metadata": None}, TEXT)],
    }
    left, warnings = translated({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": echo})
    assert left[0]["input"] == {
        "threadId": "t",
        "runId": "r",
        "tools": [{"name": "f", "description": "d"}, {"name": "g", "description": "d"}],
        "resume": [{"interruptId": "i", "status": "resolved"}],
        "messages": [user(IMAGE, TEXT)],
    }
    assert warnings == []


def test_nulls_inside_an_echoed_input_that_are_data_stay() -> None:
    echo: Wire = {"threadId": "t", "runId": "r", "messages": [], "state": {"a": None}, "forwardedProps": {"b": None}}
    event: Wire = {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": echo}
    assert translated(event) == ([event], [])


@pytest.mark.requirement("VER-10", "VER-12")
def test_binary_parts_of_snapshots_and_echoed_inputs_become_media_in_silence() -> None:
    messages = [user(TEXT, BINARY), {"id": "a1", "role": "assistant", "content": "x"}]
    upgraded = [user(TEXT, IMAGE), {"id": "a1", "role": "assistant", "content": "x"}]
    started = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    left, warnings = translated(snapshot(*messages), {**started, "input": {"messages": messages}})
    assert left == [snapshot(*upgraded), {**started, "input": {"messages": upgraded}}]
    assert warnings == []


@pytest.mark.requirement("VER-11", "VER-12")
def test_a_binary_part_with_an_id_only_is_dropped_with_a_warning() -> None:
    part = {"type": "binary", "mimeType": "image/png", "id": "asset-1"}
    left, warnings = translated(snapshot(user(TEXT), user(TEXT, part, IMAGE)))
    assert left == [snapshot(user(TEXT), user(TEXT, IMAGE))]
    path = "/messages/1/content/1"
    message = f"binary part {path} dropped: it has neither data nor url, and its id converts into nothing"
    assert warnings == [("VER-11", message)]


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", "image"),
        ("audio/mp3", "audio"),
        ("video/mp4", "video"),
        ("VIDEO/MP4", "video"),
        ("application/pdf", "document"),
        ("imagery", "document"),
        ("", "document"),
    ],
)
def test_the_mime_type_tells_the_kind_of_a_binary_part(mime_type: str, kind: str) -> None:
    left, warnings = translated(snapshot(user({"type": "binary", "mimeType": mime_type, "url": "u"})))
    media = {"type": kind, "source": {"type": "url", "value": "u", "mimeType": mime_type}}
    assert (left, warnings) == ([snapshot(user(media))], [])


def test_data_goes_before_url_and_the_filename_into_the_metadata() -> None:
    part = {**BINARY, "url": "https://example.test/unused", "id": None, "filename": "photo.png", "extra": 1}
    media = {**IMAGE, "metadata": {"filename": "photo.png"}, "extra": 1}
    assert translated(snapshot(user(part))) == ([snapshot(user(media))], [])


@pytest.mark.requirement("VER-6")
def test_a_malformed_value_in_a_binary_part_stays_malformed() -> None:
    event = Translator(WarningLog()).feed(
        UnrecognizedEvent("MESSAGES_SNAPSHOT", snapshot(user({**BINARY, "data": 42})))
    )
    with pytest.raises(InvalidEventError) as caught:
        Validator(WarningLog()).feed(event)
    assert caught.value.path == "/messages/0/content/0/source/value"


@pytest.mark.parametrize(
    "part", [None, "x", {"type": ["image"]}, {"type": "binary"}, {"type": "binary", "mimeType": 5}]
)
def test_a_part_of_no_known_kind_is_left_to_enforcement(part: Any) -> None:
    event = UnrecognizedEvent("MESSAGES_SNAPSHOT", snapshot(user(part)))
    assert Translator(WarningLog()).feed(event) is event
