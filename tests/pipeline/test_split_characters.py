"""Characters that a producer cut in two: each message and tool call gets its own halves back (PROC-12)."""

from __future__ import annotations

import json

import pytest

from agui_client import DecodeError
from agui_client._protocol.decode import Decoder
from agui_client._protocol.events import UnrecognizedEvent
from agui_client._protocol.warnings import WarningLog

FACE, HORSE = "\ud83d\ude00", "\ud83d\udc0e"


def deltas(*frames: tuple[str, str, str]) -> list[object]:
    """Decode deltas, given as the name of the id, the id and the text; return the texts that come out."""
    decoder = Decoder(WarningLog())
    kinds = {"messageId": "TEXT_MESSAGE_CONTENT", "toolCallId": "TOOL_CALL_ARGS"}
    events = [
        decoder.feed(json.dumps({"type": kinds[name], name: owner, "delta": delta})) for name, owner, delta in frames
    ]
    return [event.data["delta"] if isinstance(event, UnrecognizedEvent) else event.delta for event in events]  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [("messageId",) * 2, ("toolCallId",) * 2, ("messageId", "toolCallId")])
def test_halves_of_interleaved_owners_are_joined_each_with_its_own(names: tuple[str, str]) -> None:
    one, two = names
    frames = [(one, "1", f"a{FACE[0]}"), (two, "2", f"b{HORSE[0]}"), (one, "1", f"{FACE[1]}c"), (two, "2", HORSE[1])]
    assert deltas(*frames) == ["a", "b", "\N{GRINNING FACE}c", "\N{HORSE}"]


def test_a_second_half_of_another_owner_is_no_character() -> None:
    with pytest.raises(DecodeError, match="half of a character"):
        deltas(("messageId", "1", FACE[0]), ("messageId", "2", FACE[1]))
