"""Bytes to frames: exactly as httpx-sse reads the whole text, however they are cut; a fault spoils no earlier frame."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import example, given
from hypothesis import strategies as st

from agui_client import DecodeError, ProtocolError, StreamTooLargeError
from agui_client._core.transport.numbered import NumberedFramer
from agui_client._core.transport.sse import Framer

BOM = "\ufeff"
PLAIN = 'data: {"type":"CUSTOM"}'
LINES = [
    *(
        PLAIN,
        PLAIN,
        "data: x",
        "data:x",
        "data:",
        "data: ",
        "data",
        "data:  y",
        "data: data: c",
        " data: s",
        "datax: 1",
    ),
    *(
        "data: \u2028z\x85\x0b\x1c",
        "data: é😀",
        f"{BOM}data: q",
        BOM,
        ": c",
        ":",
        "event: e",
        "id: 1",
        "id",
        "retry: 5",
    ),
    *("retry: soon", "odd", ""),
]
ENDS = ["\n", "\n\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r", "\n\r", "\r\n\n", "\n\r\n", ""]

texts = st.lists(
    st.tuples(st.sampled_from(LINES) | st.text(alphabet="data: é\u2028\0\n\r", max_size=12), st.sampled_from(ENDS)),
    max_size=10,
).map(lambda lines: "".join(line + end for line, end in lines))


def read_whole(body: bytes) -> list[str]:
    """The data of every frame, read by httpx-sse from the whole text, the last frame terminated."""
    text, _ = codecs.utf_8_decode(body, "strict", False)
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, text=text.removeprefix(BOM) + "\n\n")
    return [event.data for event in EventSource(response).iter_sse() if event.data]


def read_cut(body: bytes, cuts: Sequence[int], framer: Framer) -> list[str]:
    """The data of every frame, read by us in pieces."""
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    frames = [frame for start, end in pairwise(edges) for frame in framer.feed(body[start:end])]
    return frames + framer.finish()


@example(text="data: 1\n\n", cuts=[], boms=2, missing=0)
@given(text=texts, cuts=st.lists(st.integers(0, 200), max_size=8), boms=st.integers(0, 2), missing=st.integers(0, 3))
@pytest.mark.parametrize("make", [Framer, partial(NumberedFramer, drops_known=False)], ids=["plain", "numbered"])
@pytest.mark.requirement("SSE-4", "SSE-5", "SSE-6", "SSE-7", "SET-12")
def test_frames_are_those_of_httpx_sse_however_the_bytes_are_cut(
    make: Callable[[int], Framer], text: str, cuts: list[int], boms: int, missing: int
) -> None:
    body = (BOM * boms + text).encode()
    body = body[: max(0, len(body) - missing)]
    assert read_cut(body, cuts, make(1_000_000)) == read_whole(body)


@pytest.mark.parametrize("between", [": c\n\n", "event: e\ndata: other\n\n", "data: two\ndata: lines\n\n", "id: 1\n\n"])
def test_plain_frames_are_split_as_before_after_frames_that_are_not(between: str) -> None:
    framer = Framer(1000)
    assert framer.feed(f"data: 1\n\ndata: 2\n\n{between}".encode())[:2] == ["1", "2"]
    assert framer.feed(b"data: 3\n\ndata: 4\n\n") == ["3", "4"]


def test_a_frame_comes_as_soon_as_its_blank_line_has_begun() -> None:
    framer = Framer(1000)
    assert framer.feed(b"data: 1\n\ndata: 2\n") == ["1"]
    assert framer.feed(b"\n") == ["2"]
    assert framer.feed(b"data: 3\r\n\r") == ["3"]
    assert framer.feed(b"\ndata: 4\n\n") == ["4"]
    assert framer.finish() == []


@pytest.mark.requirement("SSE-6")
def test_reads_that_begin_with_a_comment_are_counted_as_keep_alives() -> None:
    framer = Framer(1000)
    for chunk in (b": 1\n\n", b":\n", b"data: x\n", b": 2\n", b"data: y", b": no\n\n", b"data: z\n\n", b":3\r\r"):
        framer.feed(chunk)
    assert framer.keep_alives == 4


@pytest.mark.requirement("SSE-6", "SSE-12")
def test_only_data_counts_when_frames_arrive_whole() -> None:
    assert Framer(100).feed(b": keep-alive\n" * 10 + b"data: {}\n\n") == ["{}"]
    assert Framer(20).feed(b"event: message\ndata: 123456789012345\n\n") == ["123456789012345"]
    framer = Framer(20)
    for _ in range(100):
        assert framer.feed(b": keep-alive\n") == []
    assert framer.feed(b"data: {}\n\n") == ["{}"]
    for line in (b"event: abcdef\n", *[b": keep-alive\n"] * 10):
        assert framer.feed(line) == []
    assert framer.feed(b"data: {}\n\n") == ["{}"]
    for line in (*[b": keep-alive\n"] * 10, b"data: 12345678901234\n"):
        assert framer.feed(line) == []
    assert framer.feed(b"\n") == ["12345678901234"]


@pytest.mark.requirement("SSE-6")
def test_a_comment_costs_no_look_at_the_large_frame_around_it() -> None:
    framer, line = Framer(10_000_000), b"data: " + b"x" * 9_999_980 + b"\n"
    before = time.process_time()
    # Once the first comments no longer fit, all that is there is looked at.
    framer.feed(line)
    for _ in range(10):
        framer.feed(b": keep-alive\n")
    begun = time.process_time()
    for _ in range(1_000):
        framer.feed(b": keep-alive\n")
    assert time.process_time() - begun < 2 * (begun - before)
    assert len(framer.feed(b"\n")[0]) == 9_999_980


BROKEN = {
    "not UTF-8": (b"data: \xff\n\n", DecodeError),
    "not UTF-8, in a frame of two lines": (b"data: 1\ndata: \xe2\x28\n\n", DecodeError),
    "too large": (b"data: " + b"x" * 50 + b"\n\n", StreamTooLargeError),
    "too large, and never complete": (b"event: " + b"x" * 50, StreamTooLargeError),
    "too large, in half as many characters": (f"data: {'é' * 25}\n\n".encode(), StreamTooLargeError),
}


@pytest.mark.requirement("SSE-12", "PROC-12")
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize(
    "before", [b"data: 1\n\ndata: 2\n\n", b"id: 1\ndata: 1\n\ndata: 2\n\n"], ids=["plain", "with id"]
)
def test_the_frames_before_a_fault_are_returned_and_then_it_is_raised(name: str, before: bytes) -> None:
    fault, expected = BROKEN[name]
    at_once, later = Framer(49), Framer(49)
    assert at_once.feed(before + fault) == ["1", "2"]
    with pytest.raises(expected):
        at_once.feed(b"data: 4\n\n")
    with pytest.raises(expected):
        at_once.finish()
    assert later.feed(before) == ["1", "2"]
    with pytest.raises(expected, match=r"UTF-8|of at least 5\d bytes"):
        later.feed(fault)


@pytest.mark.requirement("PROC-12", "TRUNC-1")
def test_a_character_that_the_end_cut_in_half_is_no_fault_of_the_encoding() -> None:
    framer = Framer(1000)
    assert framer.feed("data: é".encode()[:-1]) == []
    assert framer.finish() == []
    framer = Framer(1000)
    assert framer.feed("data: xé".encode()[:-1]) == []
    assert framer.finish() == ["x"]


def test_a_fault_in_the_last_frame_is_raised_at_the_end() -> None:
    framer = Framer(1000)
    assert framer.feed(b"data: \xff!") == []
    with pytest.raises(ProtocolError, match="not UTF-8: invalid start byte at its byte 6"):
        framer.finish()
