"""Streams cut at every byte, plain and packed, or dripping: what arrived is kept, and only a whole run is a success."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, cast

import anyio
import httpx
import pytest
import trio.testing

from agui_client import (
    AGUIError,
    ConnectError,
    DecodeError,
    FirstEventTimeoutError,
    HttpAgent,
    IncompleteRunError,
    RunResult,
    Timeouts,
)
from agui_client.testing import Reply, events_of, faults, serve_bytes, sse, text, turn
from support.bodies import Body, Piece, memory_agent, response

pytestmark = pytest.mark.both_loops

BODY = sse(turn(text("Grüße an Åsa.", message_id="message-1")))
EVENTS = events_of(BODY)
ENDS = list(accumulate(map(len, EVENTS)))
TEXTS = ["", "", "Grüße ", "Grüße an ", "Grüße an Åsa.", "Grüße an Åsa.", "Grüße an Åsa."]
"""What was said after each event."""
VIRTUAL = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
"""A clock that jumps whenever everybody waits."""
one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For what is cut at every byte: the bodies are in memory, and no loop has a say in how they are read."""

NEAR = sorted(
    {*range(0, len(BODY) + 1, 10), *(end + more for end in [0, *ENDS] for more in range(-3, 4))}
    & {*range(len(BODY) + 1)}
)
"""The bytes beside the ends of events, and every tenth in between; that any byte will do is shown once."""

End = tuple[type[AGUIError] | None, str]
"""The error, and the text that was kept."""


async def end_of(agent: HttpAgent) -> End:
    try:
        result: RunResult | None = await agent.run_agent("Hi", run_id="run-1")
    except AGUIError as error:
        result = cast("RunResult", error.partial)
        assert result.outcome is None
        return type(error), result.text
    assert result is not None
    return None, result.text


def after(events: int, before_any: type[AGUIError] = IncompleteRunError) -> End:
    """How a run ends whose stream ends after so many events."""
    if events == len(EVENTS):
        return None, TEXTS[-1]
    return (IncompleteRunError, TEXTS[events - 1]) if events else (before_any, "")


def whole(size: int, *, is_ended: bool) -> int:
    """How many events are whole in so many bytes; a body that ends properly may leave out the last blank line."""
    return sum(end - (2 if is_ended else 0) <= size for end in ENDS)


BREAKS = (
    httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
    httpx.ReadError(""),
)
"""A connection that was closed, and one that was reset."""


@pytest.mark.anyio
@one_loop
@pytest.mark.requirement("TRUNC-1", "TRUNC-3", "SSE-12", "SET-12")
async def test_a_body_that_ends_at_or_between_events_is_incomplete_unless_the_run_had_ended() -> None:
    ends = [await end_of(memory_agent(BODY[:size])) for size in NEAR]
    assert ends == [after(whole(size, is_ended=True)) for size in NEAR]


@pytest.mark.anyio
@one_loop
@pytest.mark.requirement("TRUNC-1", "SSE-10")
async def test_a_connection_that_breaks_at_any_byte_leaves_the_run_incomplete_unless_it_had_ended() -> None:
    ends = [await end_of(memory_agent(BODY[:size], BREAKS[size % 2])) for size in range(len(BODY) + 1)]
    assert ends == [after(whole(size, is_ended=False), ConnectError) for size in range(len(BODY) + 1)]


PLACED: dict[str, Callable[..., Reply]] = {
    "cut": faults.cut,
    "ended": faults.ended,
    "reset": faults.reset,
    "broken chunk": faults.broken_chunk,
    "gzip ended": faults.gzipped,
}


@pytest.mark.anyio
@pytest.mark.parametrize("fault", PLACED.values(), ids=PLACED)
@pytest.mark.requirement("TRUNC-1")
async def test_on_a_real_socket_it_is_the_same_after_and_inside_every_event(fault: Callable[..., Reply]) -> None:
    inside = [end - len(event) // 2 for event, end in zip(EVENTS, ENDS, strict=True)]
    places = [{"events": count} for count in range(len(EVENTS) + 1)]
    if fault is not faults.gzipped:
        places += [{"size": size} for size in inside]
    before_any = IncompleteRunError if fault in (faults.ended, faults.gzipped) else ConnectError
    with serve_bytes(*(fault(BODY, **place) for place in places)) as server:
        ends = [await end_of(HttpAgent(server.url, thread_id="thread-1")) for _ in places]
    events = [*range(len(EVENTS) + 1), *range(len(EVENTS))]
    assert ends == [after(count, before_any) for count in events[: len(places)]]


# --- packed bodies


def packed(coding: str) -> list[bytes]:
    """The body packed, event by event, and the end of the packing."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | (16 if coding == "gzip" else 0))
    return [*(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS), packer.flush()]


def packed_agent(coding: str, *pieces: Piece) -> HttpAgent:
    return memory_agent(make=lambda: response(Body(pieces), content_encoding=coding))


every_coding = pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate"])


@pytest.mark.anyio
@every_coding
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_packed_body_may_come_in_pieces(coding: str, size: int) -> None:
    content = b"".join(packed(coding.removeprefix("x-")))
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert await end_of(packed_agent(coding, *pieces)) == after(len(EVENTS))


@pytest.mark.anyio
@one_loop
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.requirement("TRUNC-1")
async def test_a_packed_body_that_ends_anywhere_is_incomplete_unless_the_run_had_ended(coding: str) -> None:
    parts = packed(coding)
    content, ends = b"".join(parts), list(accumulate(map(len, parts[:-1])))
    for size in range(len(content) + 1) if coding == "gzip" else [*range(0, len(content), 5), *ends, len(content)]:
        kind, said = await end_of(packed_agent(coding, content[:size]))
        events = sum(end <= size for end in ends)
        assert (kind, said) in (after(events), after(min(events + 1, len(EVENTS)))), size


@pytest.mark.anyio
@every_coding
@pytest.mark.requirement("SSE-4")
async def test_a_packed_body_that_breaks_after_any_event_is_a_decode_error(coding: str) -> None:
    parts = packed(coding.removeprefix("x-"))
    for count in range(1, len(EVENTS)):
        agent = packed_agent(coding, *parts[:count], b"\xff" * 8)
        assert await end_of(agent) == (DecodeError, TEXTS[count - 1])


@pytest.mark.anyio
@every_coding
async def test_what_follows_the_end_of_a_packed_body_is_left_out(coding: str) -> None:
    content = b"".join(packed(coding.removeprefix("x-")))
    assert await end_of(packed_agent(coding, content + b"\xff" * 100, *[b"\xff" * 100] * 10)) == after(len(EVENTS))


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_gzip_may_have_any_number_of_members(size: int) -> None:
    content = b"".join(map(gzip.compress, [*EVENTS, b""])) + b"\0" * 20
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert await end_of(packed_agent("gzip", *pieces)) == after(len(EVENTS))
    assert await end_of(packed_agent("gzip", content[: len(content) // 2])) != after(len(EVENTS))


@pytest.mark.anyio
@pytest.mark.parametrize("coding", ["none", "identity", "utf-8", ""])
async def test_a_content_encoding_that_packs_nothing_is_no_fault(coding: str) -> None:
    assert await end_of(packed_agent(coding, BODY)) == after(len(EVENTS))


@pytest.mark.anyio
@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "deflate, gzip"])
@pytest.mark.requirement("SSE-4")
async def test_a_packing_that_was_not_asked_for_is_named(coding: str) -> None:
    agent = packed_agent(coding, b"\x8b\x02\x80")
    with pytest.raises(DecodeError, match=f"cannot be unpacked: it is packed as {coding}; the request accepts gzip"):
        await agent.run_agent("Hi")


# --- dripping


@pytest.fixture
def dripping() -> Sequence[Piece]:
    """The body, a byte a second."""

    async def second() -> None:
        await anyio.sleep(1)

    return [piece for at in range(len(BODY)) for piece in (second, BODY[at : at + 1])]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
@pytest.mark.parametrize("timeout", [None, Timeouts(idle=1.5)], ids=["by default", "idle for 1.5 s"])
async def test_a_byte_a_second_is_a_healthy_stream(dripping: Sequence[Piece], timeout: Any) -> None:
    started = anyio.current_time()
    assert await end_of(memory_agent(*dripping, timeout=timeout)) == after(len(EVENTS))
    assert anyio.current_time() - started == pytest.approx(len(BODY))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
async def test_bytes_are_no_first_event(dripping: Sequence[Piece]) -> None:
    assert await end_of(memory_agent(*dripping, timeout=Timeouts(first_event=60))) == (FirstEventTimeoutError, "")


# --- what comes after the end


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL])
@pytest.mark.parametrize("timeout", [Timeouts(idle=60), Timeouts(total=60)], ids=["idle", "total"])
@pytest.mark.requirement("SSE-11", "TRUNC-1")
async def test_a_run_that_ended_is_over_although_the_server_never_closes(timeout: Timeouts) -> None:
    agent = memory_agent(BODY, anyio.sleep_forever, timeout=timeout)
    result = await agent.run_agent("Hi", run_id="run-1")
    assert (result.text, result.outcome and result.outcome.type) == (TEXTS[-1], "success")
    assert [warning.rule for warning in result.warnings] == ["TRUNC-1"]
    assert "after the run had ended, " in result.warnings[0].message
    assert agent.incomplete_ids == []
