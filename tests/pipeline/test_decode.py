"""Decoding tells what is wrong with a frame, and never what was in it."""

from __future__ import annotations

import traceback

import pytest

from agui_client import DecodeError
from agui_client._protocol.decode import Decoder
from agui_client._protocol.events import UnrecognizedEvent
from agui_client._protocol.warnings import WarningLog

SECRET = "s3cr3t"


@pytest.mark.requirement("PROC-12", "SSE-12")
@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (f'{{"type": "RAW", "event": "{SECRET}"', "is not JSON"),
        (f'["{SECRET}"]', "it is a list"),
        (f'{{"event": "{SECRET}"}}', "has no `type`"),
        (f'{{"type": 7, "event": "{SECRET}"}}', "has no `type`"),
        (f'{{"type": "RAW", "event": NaN, "source": "{SECRET}"}}', "NaN is not a JSON value"),
        (f'{{"type": "RAW", "event": "\\ud83d", "source": "{SECRET}"}}', "half of a character"),
        (f'{{"type": "RAW", "source": "{SECRET}", "event": {"[" * 300 + "]" * 300}}}', "nests deeper"),
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
