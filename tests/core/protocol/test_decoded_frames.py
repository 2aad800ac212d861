"""Decoding: which frames become typed events at once, and which are refused however deep they nest."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from ag_ui.core import Event, StateSnapshotEvent, TextMessageContentEvent, TextMessageStartEvent
from pydantic import BaseModel

from agui_client import DecodeError, UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog


def decoded(frame: str) -> Event | UnrecognizedEvent:
    return Decoder(WarningLog()).feed(frame)


@pytest.mark.requirement("PROC-12")
def test_a_frame_that_nests_deeper_than_a_parser_can_follow_is_refused_for_that() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(DecodeError, match="nests deeper than any event should"):
        decoded(f'{{"type": "RAW", "event": {deep}}}')


SNAPSHOTS: list[object] = [{"answer": None}, {"name": "Infinity"}, {"name": "Ada", "list": [1, {}]}]


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_a_snapshot_of_plain_json_has_the_value_of_its_frame(snapshot: object) -> None:
    event = decoded(json.dumps({"type": "STATE_SNAPSHOT", "snapshot": snapshot}))
    assert getattr(event, "snapshot", None) == snapshot or getattr(event, "data", {})["snapshot"] == snapshot


def test_a_conforming_frame_with_more_than_plain_fields_is_a_typed_event_at_once() -> None:
    frame = '{"type": "STATE_SNAPSHOT", "snapshot": {"answer": null}}'
    assert decoded(frame) == StateSnapshotEvent(snapshot={"answer": None})
    frame = '{"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "metadata": {"a": [1]}}'
    assert decoded(frame) == TextMessageStartEvent(message_id="m", role="assistant", metadata={"a": [1]})


TEXTS = ["hi", "", "null", "NaN", "Infinity", "1e999", "9" * 310, "é😀", "a\\b", 'q"q', "\n", "\x7f\u2028", '"}', "}"]
TYPES = ["TEXT_MESSAGE_CONTENT"] * 4 + [
    "REASONING_MESSAGE_CONTENT",
    "TOOL_CALL_ARGS",
    *["TEXT_MESSAGE_CHUNK"] * 2,
    "TOOL_CALL_CHUNK",
    "TEXT_MESSAGE_END",
    "CUSTOM",
]
MORE: list[dict[str, Any]] = [
    *({} for _ in range(12)),
    {"metadata": {"a": 1}},
    {"timestamp": 5},
    {"unknown": 1},
    {"subagentRunId": "s"},
    {"rawEvent": None},
]
DEFECTS = [("", "")] * 12 + [
    ('"delta"', '"delta":"x","delta"'),
    ('"}', '"} '),
    ('"}', '"'),
    ('"}', '"}}'),
    ("hi", "\t"),
    ("hi", "\\ude00"),
    ('"delta"', '"\\"delta"'),
]


def frame_of(delta: str) -> str:
    """Return the frame of a plain delta."""
    return f'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{delta}"}}'


def random_frames(seed: int, count: int) -> list[str]:
    """Return frames of which most are deltas that repeat the one before but for their text."""
    draw = random.Random(seed)
    event, frames = dict[str, Any](), list[str]()
    for _ in range(count):
        if not event or draw.random() < 0.5:
            kind = draw.choice(TYPES)
            name = "toolCallId" if kind == "TOOL_CALL_ARGS" else "messageId"
            members = {"type": kind, name: draw.choice(["m", "m", "n", 'a"b']), **draw.choice(MORE), "delta": ""}
            event = dict(draw.sample([*members.items()], len(members)) if draw.random() < 0.2 else members.items())
        event["delta"] = "".join(draw.choices(TEXTS, k=draw.choice([1, 1, 3])))
        separators = draw.choice([(",", ":"), (",", ":"), (", ", ": ")])
        frame = json.dumps(event, separators=separators, ensure_ascii=draw.random() < 0.1)
        frames.append(frame.replace(*draw.choice(DEFECTS)))
    return frames


def parts(decoder: Decoder, frame: str) -> tuple[object, ...]:
    """Return all that a decoded and validated event has, in order; or the error."""
    try:
        event: Any = Validator(WarningLog()).feed(decoder.feed(frame))
    except Exception as error:
        return type(error), str(error)
    slots = [getattr(event, name) for name in BaseModel.__slots__ if name != "__dict__"]
    return event.__class__.__name__, list(event.__dict__.items()), slots, repr(event)


@pytest.mark.parametrize("count", [1500, pytest.param(60_000, marks=pytest.mark.soak)])
def test_frames_that_repeat_a_delta_become_what_each_becomes_alone(count: int) -> None:
    decoder = Decoder(WarningLog())
    for frame in random_frames(count, count):
        assert parts(decoder, frame) == parts(Decoder(WarningLog()), frame), frame


@pytest.mark.requirement("PROC-12")
def test_half_a_character_is_not_lost_where_deltas_repeat_the_one_before() -> None:
    decoder, validator, start = Decoder(WarningLog()), Validator(WarningLog()), frame_of("x")[:-3]
    frames = [f'{start}{delta}"}}' for delta in ("x", "\\ud83d", "y", "z")]
    events = [validator.feed(each) for each in decoder.feed_all(frames)]
    assert [getattr(each, "delta", None) for each in events] == ["x", "", "\ufffdy", "z"]


def test_an_event_that_is_changed_changes_no_later_one() -> None:
    decoder = Decoder(WarningLog())
    for _ in range(3):
        event = decoder.feed(frame_of("x"))
        assert event == TextMessageContentEvent(message_id="m", delta="x")
        assert isinstance(event, TextMessageContentEvent)
        event.message_id, event.timestamp, event.delta = "other", 5, "changed"
