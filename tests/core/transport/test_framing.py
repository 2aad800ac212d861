"""The same run however its bytes are cut and framed (SSE-4 … SSE-7, SSE-12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import httpx
import pytest
from ag_ui.core import RunFinishedSuccessOutcome, TextMessageContentEvent
from hypothesis import given
from hypothesis import strategies as st

from agui_client import DecodeError, HttpAgent, RunResult
from agui_client.testing import sse, text, turn
from support import scenario
from support.bodies import URL, event_stream, memory_agent
from support.verbs import shown

NEWLINES = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}

SHORT = turn(text("Kühl, ❄️ -4 °C", chunk=5))
"""A run that is cheap to cut everywhere."""


@pytest.fixture
def anyio_backend() -> str:
    """How bytes are cut has nothing to do with the loop; test_matrix runs on both."""
    return "asyncio"


async def run_of(chunks: Iterable[bytes]) -> RunResult:
    agent = memory_agent(*chunks)
    return await agent.run_agent(scenario.PROMPT, run_id="run-1")


async def text_of(*chunks: bytes) -> str:
    return (await run_of(chunks)).text


async def results_of(cuts: Iterable[Sequence[bytes]]) -> list[RunResult]:
    """The results of many runs over one HTTP client, which is what makes thousands of them affordable."""
    bodies = [list(chunks) for chunks in cuts]
    served = iter(bodies)
    results: list[RunResult] = []
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: event_stream(*next(served)))) as client:
        for _ in bodies:
            agent = HttpAgent(URL, http_client=client, thread_id="thread-1")
            results.append(await agent.run_agent(scenario.PROMPT, run_id="run-1"))
    return results


def places_in(frames: bytes) -> list[int]:
    """Return the places beside and inside line ends, in the names of fields and in characters of several bytes."""
    return [0, 1, 2, *(match.start() for match in re.finditer(rb"(?<=[\r\n])|[\r\n:]|at?a|[\x80-\xbf]|\Z", frames))]


def assert_whole(result: RunResult) -> None:
    assert shown(result.messages) == scenario.MESSAGES
    assert result.state == scenario.STATE
    assert result.outcome == RunFinishedSuccessOutcome()
    assert result.usage == scenario.USAGE
    assert result.warnings == []


@pytest.mark.anyio
@pytest.mark.requirement("SSE-4", "PROC-12")
async def test_a_run_cut_in_two_in_its_line_ends_its_names_and_its_characters_is_the_same_run() -> None:
    frames = scenario.FRAMES
    assert len(places_in(frames)) > 150
    for result in await results_of((frames[:at], frames[at:]) for at in places_in(frames)):
        assert_whole(result)


@pytest.mark.anyio
@pytest.mark.requirement("SSE-7")
@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES.keys())
async def test_line_ends_of_all_kinds_may_be_cut_anywhere(newline: str) -> None:
    frames = b"\xef\xbb\xbf: hello\n".replace(b"\n", newline.encode()) + sse(SHORT, newline=newline)
    results = await results_of((frames[:at], frames[at:]) for at in places_in(frames))
    assert {result.text for result in results} == {"Kühl, ❄️ -4 °C"}
    assert all(result.warnings == [] for result in results)


@pytest.mark.anyio
@pytest.mark.requirement("SSE-7")
@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES.keys())
async def test_a_run_that_comes_byte_by_byte_is_the_same_run(newline: str) -> None:
    frames = sse(scenario.TURN, input=scenario.INPUT, newline=newline)
    assert_whole(await run_of(frames[at : at + 1] for at in range(len(frames))))


@given(
    cuts=st.lists(st.integers(0, len(scenario.FRAMES)), max_size=40), newline=st.sampled_from(list(NEWLINES.values()))
)
@pytest.mark.anyio
async def test_a_run_cut_at_random_is_the_same_run(cuts: list[int], newline: str) -> None:
    frames = sse(scenario.TURN, input=scenario.INPUT, newline=newline)
    edges = [0, *sorted(cuts), len(frames)]
    assert_whole(await run_of(frames[start:end] for start, end in pairwise(edges)))


@pytest.mark.anyio
async def test_empty_chunks_mean_nothing() -> None:
    frames = sse(SHORT)
    assert await text_of(b"", frames[:100], b"", b"", frames[100:], b"") == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
async def test_line_ends_may_be_mixed() -> None:
    ends = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"]
    data = [line for line in sse(SHORT).split(b"\n\n") if line]
    mixed = b"".join(line + ends[index % len(ends)] for index, line in enumerate(data))
    assert await text_of(mixed) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [(), (1,), (2,), (1, 2)], ids=str)
async def test_a_byte_order_mark_is_passed_over(cut: tuple[int, ...]) -> None:
    frames = b"\xef\xbb\xbf" + sse(SHORT)
    edges = [0, *cut, len(frames)]
    assert await text_of(*(frames[a:b] for a, b in pairwise(edges))) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SSE-6")
@pytest.mark.parametrize("comment", [b": ping\n\n", b":\n", b": data: {}\n\n", b":\n\n:\n\n", b"\n\n"], ids=repr)
async def test_comments_are_tolerated_between_frames_and_inside_them(comment: bytes) -> None:
    between = comment + sse(SHORT).replace(b"\n\n", b"\n\n" + comment)
    assert await text_of(between) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SSE-6")
async def test_a_comment_inside_a_frame_is_no_part_of_its_data() -> None:
    frames = sse(SHORT).replace(b"data: ", b": before\ndata: ").replace(b"\n\n", b"\n: after\n\n")
    assert await text_of(frames) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SSE-4")
async def test_the_data_lines_of_a_frame_are_joined_with_newlines() -> None:
    frames = sse(turn(text("{Cold}"))).replace(b',"', b'\ndata: ,"').replace(b'{"', b'{\ndata:\ndata: "')
    assert frames.count(b"\ndata:") > 20
    assert await text_of(frames) == "{Cold}"


@pytest.mark.anyio
@pytest.mark.requirement("SSE-4")
async def test_a_newline_between_data_lines_inside_a_string_is_no_json() -> None:
    with pytest.raises(DecodeError) as caught:
        await text_of(sse(SHORT).replace(b"TEXT_MESSAGE_START", b"TEXT_\ndata: MESSAGE_START"))
    assert caught.value.rule == "PROC-12"


@pytest.mark.anyio
async def test_the_space_after_the_colon_may_be_missing() -> None:
    assert await text_of(sse(SHORT).replace(b"data: ", b"data:")) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SSE-5")
@pytest.mark.parametrize(
    "field", [b"event: error", b"event: RUN_ERROR", b"id: 7", b"id", b"retry: 1", b"retry: soon", b"what: ever", b"odd"]
)
async def test_other_fields_are_ignored_before_and_after_the_data(field: bytes) -> None:
    frames = sse(SHORT)
    assert await text_of(frames.replace(b"data: ", field + b"\ndata: ")) == "Kühl, ❄️ -4 °C"
    assert await text_of(frames.replace(b"\n\n", b"\n" + field + b"\n\n")) == "Kühl, ❄️ -4 °C"
    assert await text_of(field + b"\n\n" + frames) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SET-12")
@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES.keys())
@pytest.mark.parametrize("missing", [1, 2])
async def test_an_unterminated_last_frame_counts_if_it_is_whole(newline: str, missing: int) -> None:
    frames = sse(SHORT, newline=newline).removesuffix(newline.encode() * missing)
    assert await text_of(frames) == "Kühl, ❄️ -4 °C"
    assert await text_of(*(frames[at : at + 1] for at in range(len(frames)))) == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.requirement("SET-12")
async def test_an_unterminated_comment_at_the_end_is_nothing() -> None:
    assert await text_of(sse(SHORT) + b": bye") == "Kühl, ❄️ -4 °C"
    assert await text_of(sse(SHORT) + b": bye\n") == "Kühl, ❄️ -4 °C"


@pytest.mark.anyio
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"], ids=ascii)
async def test_only_line_feeds_and_carriage_returns_end_a_line(separator: str) -> None:
    said = f"one{separator}two"
    event = TextMessageContentEvent(message_id="m", delta="PLACE").model_dump_json(by_alias=True, exclude_none=True)
    frame = f"data: {event.replace('PLACE', said)}\n\n".encode()
    if separator < " ":
        frame = frame.replace(separator.encode(), f"\\u{ord(separator):04x}".encode())
    begin, end = sse(turn(text("X", message_id="m"))).split(
        b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"X"}\n\n'
    )
    assert await text_of(begin + frame + end) == said
