"""`faults`: each one as a client sees it on the wire, with a bare socket or a bare HTTP client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import httpx
import pytest
from ag_ui.core import RunErrorEvent

from agui_client.testing import Reply, events_of, faults, pause, serve_bytes, sse, text, turn
from support.wire import ASK, connected, everything, until_ends_with

BODY = sse(turn(text("Grüße an Åsa")))
EVENTS = events_of(BODY)
HALF = b"".join(EVENTS[:4])
INSIDE = len(HALF) + 10
"""A place in the middle of the fifth event."""

PLACED: dict[str, Callable[..., Reply]] = {
    "cut": faults.cut,
    "ended": faults.ended,
    "reset": faults.reset,
    "stall": faults.stall,
    "broken_chunk": faults.broken_chunk,
    "gzipped": faults.gzipped,
}
"""The faults that have a place in the body."""

every_placed = pytest.mark.parametrize("fault", PLACED.values(), ids=PLACED)


def body_of(reply: Reply) -> bytes:
    """What a socket sees after the head of a reply that ends."""
    with serve_bytes(reply) as server:
        return everything(server).partition(b"\r\n\r\n")[2]


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def posted(reply: Reply) -> httpx.Response:
    """What an HTTP client makes of a reply."""
    with serve_bytes(reply) as server:
        return httpx.post(server.url, verify=False)


def received_until_error(reply: Reply) -> tuple[bytes, httpx.HTTPError]:
    """What an HTTP client could read of a body, and what ended that."""
    received = b""
    with serve_bytes(reply) as server, httpx.stream("POST", server.url, verify=False) as response:
        try:
            for piece in response.iter_bytes():
                received += piece
        except httpx.HTTPError as error:
            return received, error
    raise AssertionError("the body ended properly")


END = b"0\r\n\r\n"


# --- where


@every_placed
@pytest.mark.parametrize("place", [{}, {"events": 1, "size": 1}], ids=["nowhere", "two"])
def test_a_fault_has_exactly_one_place(fault: Callable[..., Reply], place: dict[str, int]) -> None:
    if fault is faults.gzipped:
        place = {**place, "broken": True}
    with pytest.raises(ValueError, match=r"exactly one of events= and size="):
        fault(BODY, **place)


@every_placed
@pytest.mark.parametrize("place", [{"events": 99}, {"events": -1}, {"size": 99_999}, {"size": -1}], ids=str)
def test_a_place_is_inside_the_body(fault: Callable[..., Reply], place: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"no such place .*: \d+ events, \d+ bytes"):
        fault(BODY, **place)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_events_are_counted_whatever_ends_their_lines(newline: str) -> None:
    body = sse(turn(text("Grüße an Åsa")), newline=newline)
    assert body_of(faults.ended(body, events=2)) == chunked(b"".join(events_of(body)[:2])) + END


def test_a_fault_may_be_at_every_event_and_byte() -> None:
    for count in range(len(EVENTS) + 1):
        assert b"".join(EVENTS[:count]) == faults.cut(BODY, events=count).pieces[0]
    for count in range(len(BODY) + 1):
        assert BODY[:count] == faults.cut(BODY, size=count).pieces[0]


# --- the connection


def test_healthy_is_the_whole_body_and_a_proper_end() -> None:
    assert body_of(faults.healthy(BODY)) == chunked(BODY) + END


@pytest.mark.parametrize(("place", "sent"), [({"events": 4}, HALF), ({"size": INSIDE}, BODY[:INSIDE])], ids=str)
def test_cut_closes_without_the_final_chunk(place: dict[str, int], sent: bytes) -> None:
    assert body_of(faults.cut(BODY, **place)) == chunked(sent)
    received, error = received_until_error(faults.cut(BODY, **place))
    assert (received, type(error)) == (sent, httpx.RemoteProtocolError)


def test_cut_before_the_first_event_sends_the_head_alone() -> None:
    assert body_of(faults.cut(BODY, events=0)) == b""


def test_ended_is_a_proper_end_too_early() -> None:
    assert posted(faults.ended(BODY, events=4)).content == HALF
    assert posted(faults.ended(BODY, size=INSIDE)).content == BODY[:INSIDE]
    assert body_of(faults.ended(BODY, events=0)) == END


def test_reset_breaks_the_connection_after_what_was_sent() -> None:
    received, error = received_until_error(faults.reset(BODY, events=4))
    assert (received, type(error)) == (HALF, httpx.ReadError)
    with serve_bytes(faults.reset(BODY, size=INSIDE)) as server, pytest.raises(ConnectionResetError):
        everything(server)


def test_stall_is_silent_until_the_client_goes_away() -> None:
    with serve_bytes(faults.stall(BODY, events=4)) as server:
        with connected(server) as connection:
            connection.sendall(ASK)
            assert until_ends_with(connection, HALF + b"\r\n").endswith(b"\r\n\r\n" + chunked(HALF))
            connection.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            assert not server.disconnected.is_set()
        assert server.disconnected.wait(5)


def test_stall_may_keep_the_connection_alive_for_a_while() -> None:
    keep_alive = b": keep-alive\n\n"
    reply = faults.stall(BODY, events=4, comments=3, seconds=0.02)
    with serve_bytes(reply) as server, connected(server) as connection:
        connection.sendall(ASK)
        until_ends_with(connection, chunked(HALF))
        started = time.monotonic()
        assert until_ends_with(connection, chunked(*[keep_alive] * 3)) == chunked(*[keep_alive] * 3)
        assert time.monotonic() - started >= 0.04
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.parametrize(("end", "error"), [("cut", httpx.RemoteProtocolError), ("reset", httpx.ReadError)])
def test_unanswered_ends_without_a_byte(end: Literal["cut", "reset"], error: type[httpx.HTTPError]) -> None:
    with serve_bytes(faults.unanswered(end=end)) as server:
        with pytest.raises(error):
            httpx.post(server.url, verify=False)
        assert len(server.requests) == 1


def test_unanswered_sends_no_head_either() -> None:
    with serve_bytes(faults.unanswered()) as server:
        assert everything(server) == b""


def test_unanswered_may_last_until_the_client_goes_away() -> None:
    with serve_bytes(faults.unanswered(end="stall")) as server:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url, verify=False, timeout=0.1)
        assert server.disconnected.wait(5)


# --- the writes


def test_trickle_pauses_between_its_writes() -> None:
    started = time.monotonic()
    drops = faults.trickle(BODY[:9], seconds=0.01, size=2)
    with serve_bytes(drops) as server, httpx.stream("POST", server.url, verify=False) as response:
        pieces = list(response.iter_raw())
    assert pieces == [BODY[0:2], BODY[2:4], BODY[4:6], BODY[6:8], BODY[8:9]]
    assert 0.04 <= time.monotonic() - started < 5


def test_trickle_is_a_byte_a_second_unless_said_otherwise() -> None:
    assert faults.trickle(b"abc").pieces == [b"a", pause(1), b"b", pause(1), b"c"]
    assert faults.trickle(b"").pieces == []


@pytest.mark.parametrize("size", [1, 7])
def test_split_is_the_whole_body_in_chunks_of_one_size(size: int) -> None:
    parts = [BODY[at : at + size] for at in range(0, len(BODY), size)]
    assert body_of(faults.split(BODY, size=size)) == chunked(*parts) + END


def test_burst_is_one_write_of_as_many_bytes_as_asked() -> None:
    content = posted(faults.burst(BODY)).content
    assert len(content) >= 10_000_000
    events = events_of(content)
    assert [event for event in events if b'"RAW"' not in event] == EVENTS
    assert events[-1] == EVENTS[-1]
    assert len(faults.burst(BODY).pieces) == 1
    assert faults.burst(BODY, size=0) == faults.healthy(BODY)


# --- the bytes of the body


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_otherwise(newline: str) -> None:
    body = sse(turn(text("Grüße an Åsa")), newline=newline)
    assert posted(faults.crlf(body)).content == BODY.replace(b"\n", b"\r\n")
    assert posted(faults.cr(body)).content == BODY.replace(b"\n", b"\r")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_gzipped_is_the_body_packed(encoding: Literal["gzip", "deflate"]) -> None:
    response = posted(faults.gzipped(BODY, encoding=encoding))
    assert response.headers["content-encoding"] == encoding
    assert response.content == BODY


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_gzipped_may_end_in_the_middle(encoding: Literal["gzip", "deflate"]) -> None:
    assert posted(faults.gzipped(BODY, encoding=encoding, events=4)).content == HALF
    assert BODY.startswith(posted(faults.gzipped(BODY, encoding=encoding, size=100)).content)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("count", [0, 4, len(EVENTS)])
def test_gzipped_may_be_broken_after_any_event(encoding: Literal["gzip", "deflate"], count: int) -> None:
    received, error = received_until_error(faults.gzipped(BODY, encoding=encoding, events=count, broken=True))
    assert (received, type(error)) == (b"".join(EVENTS[:count]), httpx.DecodingError)


def test_trailing_garbage_follows_the_last_event() -> None:
    assert posted(faults.trailing_garbage(BODY, garbage=b"\xff\x00")).content == BODY + b"\xff\x00"
    assert posted(faults.trailing_garbage(BODY)).content.startswith(BODY + b"<!doctype html>")


# --- what the events say


def test_late_error_follows_the_terminal_event() -> None:
    late = sse(RunErrorEvent(message="too late", code="E7"))
    assert posted(faults.late_error(BODY, message="too late", code="E7")).content == BODY + late
    assert events_of(posted(faults.late_error(BODY)).content)[:-1] == EVENTS


def test_double_terminal_repeats_the_last_event() -> None:
    assert events_of(posted(faults.double_terminal(BODY)).content) == [*EVENTS, EVENTS[-1]]


# --- HTTP


def test_broken_chunk_has_no_number_where_a_size_belongs() -> None:
    assert body_of(faults.broken_chunk(BODY, events=4)) == chunked(HALF) + b"not a size\r\n"
    received, error = received_until_error(faults.broken_chunk(BODY, events=4))
    assert (received, type(error)) == (HALF, httpx.RemoteProtocolError)


def test_oversized_headers_are_more_than_clients_read() -> None:
    with serve_bytes(faults.oversized_headers(BODY)) as server, pytest.raises(httpx.RemoteProtocolError):
        httpx.post(server.url, verify=False)
    response = posted(faults.oversized_headers(BODY, size=5000))
    assert (response.headers["x-padding"], response.content) == ("x" * 5000, BODY)


def test_second_response_follows_the_first_on_an_open_connection() -> None:
    stray = sse(turn(text("Not for you")))
    with serve_bytes(faults.second_response(BODY, second=stray)) as server, connected(server) as connection:
        connection.sendall(ASK)
        head, _, rest = until_ends_with(connection, stray).partition(b"\r\n\r\n")
        first, end, second = rest.partition(b"\r\n" + END)
        assert b"Connection: keep-alive" in head
        assert first + end == chunked(BODY) + END
        assert second.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        assert second.partition(b"\r\n\r\n")[2] == stray


def test_second_response_repeats_the_body_unless_said_otherwise() -> None:
    with serve_bytes(faults.second_response(BODY)) as server:
        assert httpx.post(server.url, verify=False).content == BODY
        with connected(server) as connection:
            connection.sendall(ASK)
            assert until_ends_with(connection, BODY).count(BODY) == 2


def test_html_page_is_no_event_stream() -> None:
    response = posted(faults.html_page())
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert response.text.startswith("<!doctype html>")
    response = posted(faults.html_page(status=502, page=b"<h1>Bad gateway</h1>"))
    assert (response.status_code, response.text) == (502, "<h1>Bad gateway</h1>")


def test_status_refuses_the_run() -> None:
    response = posted(faults.status(401, headers={"WWW-Authenticate": "Bearer"}))
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert (response.headers["content-type"], json.loads(response.content)) == (
        "application/json",
        {"detail": "refused"},
    )
    response = posted(faults.status(500, body=b"oops", content_type=None))
    assert (response.status_code, response.content) == (500, b"oops")
    assert "content-type" not in response.headers
    assert "retry-after" not in response.headers


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (0, "0"),
        (30, "30"),
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "Wed, 02 Jan 2030 03:04:05 GMT"),
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1))), "Wed, 02 Jan 2030 02:04:05 GMT"),
    ],
    ids=str,
)
def test_status_says_when_to_come_back(retry_after: int | datetime, expected: str) -> None:
    assert posted(faults.status(503, retry_after=retry_after)).headers["retry-after"] == expected


@pytest.mark.parametrize("status", [302, 307])
def test_redirect_points_elsewhere(status: int) -> None:
    with serve_bytes(faults.healthy(BODY)) as other, serve_bytes(faults.redirect(other.url, status=status)) as server:
        response = httpx.post(server.url, verify=False)
        assert (response.status_code, response.headers["location"]) == (status, other.url)
        assert httpx.post(server.url, verify=False, follow_redirects=True).content == BODY
    assert faults.redirect("/x").status == 307


def test_faults_take_turns() -> None:
    with serve_bytes(faults.status(503, retry_after=1), faults.cut(BODY, events=1), faults.healthy(BODY)) as server:
        assert httpx.post(server.url, verify=False).status_code == 503
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(server.url, verify=False)
        assert httpx.post(server.url, verify=False).content == BODY
