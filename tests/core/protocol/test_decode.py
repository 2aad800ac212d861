"""Decoding tells what is wrong with a frame, and never what was in it."""

from __future__ import annotations

import json
import math
import traceback

import pytest
from ag_ui.core import MessagesSnapshotEvent

from agui_client import DecodeError, UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.warnings import WarningLog

SECRET = "s3cr3t"


@pytest.mark.requirement("PROC-12", "SSE-12", "SET-28")
@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (f'{{"type": "RAW", "event": "{SECRET}"', "is not JSON"),
        (f'["{SECRET}"]', "it is a list"),
        (f'{{"event": "{SECRET}"}}', "has no `type`"),
        (f'{{"type": 7, "event": "{SECRET}"}}', "has no `type`"),
        (f'{{"type": "RAW", "event": 1e999, "source": "{SECRET}"}}', "a number in it is out of range"),
        (f'{{"type": "RAW", "event": [-1{"0" * 400}.0], "source": "{SECRET}"}}', "a number in it is out of range"),
        (
            f'{{"type": "RAW", "event": {{"a":1{"0" * 299}e20}}, "source": "{SECRET}"}}',
            "a number in it is out of range",
        ),
        (f'{{"type": "RAW", "event": NaN, "source": "{SECRET}"}}', "NaN is not a JSON value"),
        (f'{{"type": "RAW", "event": -Infinity, "source": "{SECRET}"}}', "-Infinity is not a JSON value"),
        (f'{{"type": "RAW", "source": "{SECRET}", "event": {"[" * 300 + "]" * 300}}}', "nests deeper"),
        (f'{{"type": "NEW\\ud83d{SECRET}", "event": {"[" * 300 + "]" * 300}}}', "frame nests deeper than any"),
    ],
)
def test_a_frame_that_holds_no_event_is_named_without_its_content(frame: str, said: str) -> None:
    with pytest.raises(DecodeError, match=r"^event 0: the frame") as caught:
        Decoder(WarningLog()).feed(frame)
    assert said in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_what_is_an_event_but_not_plainly_conforming_is_left_to_the_later_stages() -> None:
    frame = '{"type": "CUSTOM", "name": "n", "value": 1, "future": true}'
    data = {"type": "CUSTOM", "name": "n", "value": 1, "future": True}
    assert Decoder(WarningLog()).feed(frame) == UnrecognizedEvent("CUSTOM", data)


@pytest.mark.requirement("PROC-8", "PROC-17")
@pytest.mark.parametrize(
    "message",
    [
        '{"id": "a", "role": "assistant", "future": true}',
        '{"id": "a", "role": "assistant", "content": null}',
        (
            '{"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function":'
            ' {"name": "look", "arguments": "{}", "future": 1}}]}'
        ),
        '{"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "look", "arguments": ""}}]}',
    ],
    ids=["an unknown member", "a null", "an unknown member deep inside", "a missing type"],
)
def test_a_snapshot_with_a_message_that_is_not_plainly_conforming_is_left_to_the_later_stages(message: str) -> None:
    plain = '{"id": "u", "role": "user", "content": "Hi"}'
    frame = f'{{"type": "MESSAGES_SNAPSHOT", "messages": [{plain}, {message}]}}'
    assert Decoder(WarningLog()).feed(frame) == UnrecognizedEvent("MESSAGES_SNAPSHOT", json.loads(frame))
    assert isinstance(Decoder(WarningLog()).feed(frame.replace(message, plain)), MessagesSnapshotEvent)


@pytest.mark.parametrize(
    "number", ["1e+0309", "-1.5E309", "1" + "0" * 309 + ".0", "1" + "0" * 220 + "e89", "1" + "0" * 299 + "e20"]
)
@pytest.mark.parametrize("around", ["[{}]", "[0,{}]", '{{"a":{}}}', '{{"a": {} }}', "{}"])
def test_no_number_becomes_infinity_wherever_it_stands(number: str, around: str) -> None:
    frame = f'{{"type": "RAW", "event":{around.format(number)}}}'
    assert math.isinf(float(number))
    with pytest.raises(DecodeError, match="a number in it is out of range"):
        Decoder(WarningLog()).feed(frame)
