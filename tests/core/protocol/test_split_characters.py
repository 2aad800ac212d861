"""Characters that a producer cut in two: each message and tool call gets its own halves back (PROC-12)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from ag_ui.core import TextMessageContentEvent

from agui_client import InvalidEventError, Reducer, UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.schema import EVENT_MODELS
from agui_client._core.protocol.validation import Validator
from agui_client._core.protocol.warnings import WarningLog

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
    assert deltas(("messageId", "1", FACE[0]), ("messageId", "2", FACE[1])) == ["", "\ufffd"]


CHUNKS: dict[str, list[dict[str, str]]] = {
    "only the first names its id": [{"messageId": "1"}, {}],
    "only the second names its id": [{}, {"messageId": "1"}],
    "neither names its id": [{}, {}],
    "both name it, and only one the subagent": [{"messageId": "1", "subagentRunId": "s"}, {"messageId": "1"}],
    "of a subagent": [{"messageId": "1", "subagentRunId": "s"}, {"subagentRunId": "s"}],
}


def chunk(delta: str, event_type: str = "TEXT_MESSAGE_CHUNK", **fields: str) -> str:
    return json.dumps({"type": event_type, "delta": delta, **fields})


@pytest.mark.parametrize("name", CHUNKS)
def test_halves_in_two_chunks_are_joined(name: str) -> None:
    first, second = CHUNKS[name]
    decoder = Decoder(WarningLog())
    frames = chunk(f"a{FACE[0]}", **first), chunk("b", subagentRunId="other"), chunk(f"{FACE[1]}c", **second)
    events = [decoder.feed(frame) for frame in frames]
    texts = [each.data["delta"] if isinstance(each, UnrecognizedEvent) else each.delta for each in events]  # type: ignore[union-attr]
    assert texts == ["a", "b", "\N{GRINNING FACE}c"]


@pytest.mark.parametrize(
    "second",
    [
        chunk(FACE[1], messageId="2"),
        chunk(FACE[1], subagentRunId="s"),
        chunk(FACE[1], "REASONING_MESSAGE_CHUNK"),
        chunk(FACE[1], "TOOL_CALL_CHUNK"),
    ],
)
def test_the_half_of_a_chunk_is_joined_with_no_other_item_s(second: str) -> None:
    decoder = Decoder(WarningLog())
    decoder.feed(chunk(FACE[0], messageId="1"))
    event = decoder.feed(second)
    assert isinstance(event, UnrecognizedEvent)
    assert event.data["delta"] == "\ufffd"


@pytest.mark.parametrize("name", ["messageId", "subagentRunId"])
def test_an_id_that_is_no_text_beside_half_a_character_is_malformed(name: str) -> None:
    fields = {"messageId": "1", name: ["1"]}
    event = Decoder(WarningLog()).feed(json.dumps({"type": "TEXT_MESSAGE_CHUNK", "delta": FACE[0], **fields}))
    with pytest.raises(InvalidEventError, match=f"/{name} should be a valid string, got an array"):
        Validator(WarningLog()).feed(event)


ENDED: dict[str, list[dict[str, str]]] = {
    "a message": [
        {"type": "TEXT_MESSAGE_START", "messageId": "1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "1", "delta": f"a{FACE[0]}"},
        {"type": "TEXT_MESSAGE_END", "messageId": "1"},
    ],
    "chunks, with the run": [{"type": "TEXT_MESSAGE_CHUNK", "messageId": "1", "delta": f"a{FACE[0]}"}],
    "chunks, with another message": [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "1", "delta": f"a{FACE[0]}"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "2", "delta": "b"},
    ],
    "chunks, with a thought": [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "1", "delta": f"a{FACE[0]}"},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "2", "delta": "b"},
    ],
    "chunks, the last one without an id": [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "1", "delta": "a"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": FACE[0]},
        {"type": "CUSTOM", "name": "x", "value": "1"},
    ],
    "retired events": [
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": f"a{FACE[0]}"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
    ],
}


@pytest.mark.requirement("SET-18")
@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("name", ENDED)
def test_a_half_whose_item_ends_is_u_fffd_with_a_warning(name: str, is_local: bool) -> None:
    began, finished = ({"type": f"RUN_{what}", "threadId": "t", "runId": "r"} for what in ("STARTED", "FINISHED"))
    warnings = WarningLog()
    reducer = Reducer(warnings=warnings)
    pipeline = Pipeline(reducer, warnings)
    pipeline.verifier.begin("t", "r")
    frames = [json.dumps(each) for each in (began, *ENDED[name], finished)]
    if is_local and name != "retired events":
        events: Iterable[Any] = [EVENT_MODELS[each["type"]](**each) for each in map(json.loads, frames)]
    else:
        events, pipeline.is_conforming = Decoder(warnings).feed_all(frames), True
    for event in events:
        for _ in pipeline.feed(event):
            pass
    assert reducer.messages[0].content == "a\ufffd"
    assert [each.reaction for each in warnings.records() if each.rule == "PROC-12"] == ["replaced by U+FFFD"]


@pytest.mark.requirement("PROC-12", "SET-18")
@pytest.mark.parametrize("has_time", [False, True])
def test_halves_in_two_deltas_of_an_agent_in_this_process_are_joined(has_time: bool) -> None:
    warnings = WarningLog()
    validator = Validator(warnings)
    about: dict[str, Any] = {"timestamp": 5} if has_time else {}
    halves = [("1", f"a{FACE[0]}"), ("2", f"b{HORSE[0]}"), ("1", f"{FACE[1]}c"), ("2", f"{HORSE[1]}d"), ("1", "e")]
    fed = [validator.feed(TextMessageContentEvent(message_id=owner, delta=text, **about)) for owner, text in halves]
    assert [getattr(each, "delta", None) for each in fed] == ["a", "b", "\N{GRINNING FACE}c", "\N{HORSE}d", "e"]
    assert warnings.records() == []


def test_the_second_half_costs_as_much_as_the_first_however_many_are_waited_for() -> None:
    decoder, costs = Decoder(WarningLog()), list[float]()
    for half in FACE:
        frames = [chunk(half, "TEXT_MESSAGE_CONTENT", messageId=str(index)) for index in range(10_000)]
        before = time.process_time()
        for frame in frames:
            decoder.feed(frame)
        costs.append(time.process_time() - before)
    assert costs[1] < 5 * costs[0]
