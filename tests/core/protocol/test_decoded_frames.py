"""Decoding: which frames become typed events at once, and which are refused however deep they nest."""

from __future__ import annotations

import json

import pytest
from ag_ui.core import StateSnapshotEvent, TextMessageStartEvent

from agui_client import DecodeError
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.events import WireEvent
from agui_client._core.protocol.warnings import WarningLog


def decoded(frame: str) -> WireEvent:
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
