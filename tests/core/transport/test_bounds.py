"""Reading is bounded: what a server sends without end is given up early, and what it sends at once is read at once."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agui_client import (
    AGUIError,
    ConnectError,
    HttpAgent,
    IncompleteRunError,
    StreamTimeoutError,
    StreamTooLargeError,
    Timeouts,
)
from agui_client.testing import Raw, Reply, events_of, faults, serve_bytes, sse, state, text, turn
from support.bodies import Body, Piece, memory_agent, response
from support.waiting import SOON

BODY = sse(turn(text("One two three.")))
BEGUN = events_of(BODY)[0]
MEGABYTE = 1_000_000


@contextmanager
def little_memory(size: int) -> Generator[None]:
    """Fail if the block needs more bytes than this at any time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size


def endless(*pieces: bytes | Raw) -> Sequence[bytes | Raw]:
    """The pieces, and then the last one so often that nobody waits for the end: a gigabyte of it or more."""
    return [*pieces[:-1], *[pieces[-1]] * 100_000]


def bare(*pieces: bytes) -> Reply:
    """A reply that says its own status line, without end."""
    return Reply(endless(*map(Raw, pieces)), status=None, chunked=False)


X = b"x" * 65536
ENDLESS: dict[str, tuple[Reply, type[AGUIError] | None]] = {
    "status line": (bare(b"HTTP/1.1 200 ", X), ConnectError),
    "header": (bare(b"HTTP/1.1 200 OK\r\nX-A: ", X), ConnectError),
    "headers": (bare(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 8000), ConnectError),
    "responses that are only informational": (bare(b"HTTP/1.1 102 Processing\r\n\r\n" * 500), StreamTimeoutError),
    "line": (Reply(endless(BODY[:-20], X)), StreamTooLargeError),
    "frame of many lines": (Reply(endless(b"data: [\n", b"data: 1,\n" * 7000)), StreamTooLargeError),
    "name of an event": (Reply(endless(b"event: ", X)), StreamTooLargeError),
    "comment": (Reply(endless(BEGUN, b":", X)), StreamTooLargeError),
    "size of a chunk": (Reply(endless(BODY[:-20], Raw(b"5;a="), Raw(X))), IncompleteRunError),
    "trailer after the end": (Reply(endless(BODY, Raw(b"0\r\n"), Raw(b"X-A: b\r\n" * 8000))), None),
    "row of comments": (Reply(endless(BODY, b": alive\n\n" * 7000)), None),
    "row of frames without data": (Reply(endless(BEGUN, b"id: 7\n\n" * 9000)), StreamTimeoutError),
}
"""What goes on for ever, and what a run makes of it that has little time, and a megabyte for an event."""


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.one_loop
@pytest.mark.anyio
@pytest.mark.requirement("SSE-12", "SET-15")
async def test_what_goes_on_for_ever_is_given_up_in_little_memory(name: str) -> None:
    reply, expected = ENDLESS[name]
    is_timed = expected in (None, StreamTimeoutError)
    limits = Timeouts(first_event=0.4, total=0.5) if is_timed else Timeouts(total=20)
    with serve_bytes(reply) as server:
        agent = HttpAgent(server.url, thread_id="thread-1", timeout=limits, max_event_bytes=MEGABYTE)
        with little_memory(12 * MEGABYTE), nullcontext() if expected is None else pytest.raises(expected):
            await agent.run_agent("Hi", run_id="run-1")
        assert server.disconnected.wait(SOON)


@lru_cache(maxsize=2)
def packed(content: bytes) -> bytes:
    """A hundred megabytes in a hundred kilobytes."""
    return gzip.compress(content * (100 * MEGABYTE), 1)


@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.requirement("SET-15")
@pytest.mark.parametrize("status", [200, 500])
async def test_a_little_that_was_packed_from_much_is_unpacked_in_pieces(status: int) -> None:
    bomb = packed(b"\n")
    agent = memory_agent(
        make=lambda: response(Body([bomb]), content_encoding="gzip", status=status), timeout=Timeouts(total=0.3)
    )
    started = time.monotonic()
    with little_memory(4 * MEGABYTE), pytest.raises(AGUIError):
        await agent.run_agent("Hi")
    assert time.monotonic() - started < 5


@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.requirement("SET-15")
async def test_a_frame_is_measured_as_it_is_unpacked() -> None:
    bomb = packed(b"x")
    agent = memory_agent(make=lambda: response(Body([bomb]), content_encoding="gzip"), max_event_bytes=MEGABYTE)
    with little_memory(8 * MEGABYTE), pytest.raises(StreamTooLargeError):
        await agent.run_agent("Hi")


@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.requirement("SET-15")
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
async def test_a_run_brings_no_more_than_it_may(is_packed: bool) -> None:
    pieces = events_of(BODY)
    much = b"".join([*pieces[:2], pieces[2] * 20_000, *pieces[3:]])
    sent = gzip.compress(much) if is_packed else much
    coding = "gzip" if is_packed else "identity"

    def agent(max_run_bytes: int | None) -> HttpAgent:
        chunks = [sent[at : at + 10_000] for at in range(0, len(sent), 10_000)]
        return memory_agent(make=lambda: response(Body(chunks), content_encoding=coding), max_run_bytes=max_run_bytes)

    whole = (await agent(None).run_agent("Hi")).text
    assert (await agent(len(much)).run_agent("Hi")).text == whole
    too_large = rf"the run brought \d+ bytes, which exceeds max_run_bytes={len(much) // 2}; raise that option"
    with pytest.raises(StreamTooLargeError, match=too_large) as caught:
        await agent(len(much) // 2).run_agent("Hi")
    assert caught.value.rule == "SSE-12"
    assert caught.value.partial is not None
    assert whole.startswith(caught.value.partial.text)
    assert len(caught.value.partial.text) < len(whole)


@pytest.mark.anyio
async def test_a_packed_body_without_end_can_be_left() -> None:
    bomb = packed(b"\n")
    begun, reads, heard = anyio.Event(), list[int](), list[int]()

    async def read() -> None:
        reads.append(len(reads))
        await anyio.lowlevel.checkpoint()
        # What follows is handed over at once, so whoever hears of this does so while it is being unpacked.
        begun.set()

    pieces: list[Piece] = [read, bomb] * 100
    agent = memory_agent(make=lambda: response(Body(pieces, is_hasty=True), content_encoding="gzip"))

    async def abort() -> None:
        await begun.wait()
        heard.extend(reads)
        agent.abort_run()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort)
            assert (await agent.run_agent("Hi")).aborted
    assert heard == [0]
    assert len(reads) <= 2


# --- what comes at once


async def seconds_of_reading(pieces: Iterable[bytes]) -> float:
    """What reading a body takes of the processor, at best."""
    content = list(pieces)

    async def seconds() -> float:
        agent = memory_agent(*content, max_event_bytes=100 * MEGABYTE)
        started = time.thread_time()
        await agent.run_agent("Hi")
        return time.thread_time() - started

    return min([await seconds() for _ in range(3)])


def burst(size: int) -> list[bytes]:
    """Many events in one read."""
    return [bytes(piece) for piece in faults.burst(BODY, size=size).pieces if isinstance(piece, bytes)]


def large_frame(size: int, step: int) -> list[bytes]:
    """One event in many reads."""
    body = sse(turn(state("x" * size)))
    return [body[at : at + step] for at in range(0, len(body), step)]


AT_ONCE: dict[str, Callable[[int], list[bytes]]] = {
    "many events in one read": burst,
    "one event in large reads": lambda size: large_frame(size, 65536),
    "one event in small reads": lambda size: large_frame(size // 20, 20),
}


@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.parametrize("make", AT_ONCE.values(), ids=AT_ONCE)
async def test_ten_times_as_much_at_once_takes_about_ten_times_as_long(make: Callable[[int], list[bytes]]) -> None:
    size = MEGABYTE // 2
    little, much = await seconds_of_reading(make(size)), await seconds_of_reading(make(10 * size))
    assert much < 30 * little


@pytest.mark.anyio
@pytest.mark.one_loop
@pytest.mark.parametrize("options", [{}, {"headers": {"Content-Encoding": "identity"}}], ids=["plain", "with coding"])
async def test_a_state_of_nine_megabytes_is_one_event(options: Any) -> None:
    body = sse(turn(state("x" * 9 * MEGABYTE), text("Large.")))
    with serve_bytes(Reply([body], **options)) as server:
        agent = HttpAgent(server.url)
        assert (await agent.run_agent("Hi")).text == "Large."
    assert agent.state == "x" * 9 * MEGABYTE
