"""Faults: replies as networks, proxies and servers spoil them, made from a healthy SSE body.

    with serve_bytes(faults.cut(sse(turn(text("Hello you"))), events=3)) as server:
        ...  # the connection closes in the middle of the text

Responses are sent in turn: `serve_bytes(faults.status(503, retry_after=1), faults.healthy(body))`. A fault in the
middle of a body takes its place by exactly one of `events` (after so many events) and `size` (after so many bytes).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Literal

from ag_ui.core import RunErrorEvent

from agui_client.testing._byte_server import Raw, Reply
from agui_client.testing._steps import Pause, events_of, sse

__all__ = [
    "broken_chunk",
    "burst",
    "cr",
    "crlf",
    "cut",
    "double_terminal",
    "ended",
    "gzipped",
    "healthy",
    "html_page",
    "late_error",
    "oversized_headers",
    "redirect",
    "reset",
    "second_response",
    "split",
    "stall",
    "status",
    "trailing_garbage",
    "trickle",
    "unanswered",
]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_NO_DEFLATE_BLOCK = b"\xff" * 8
_PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"


def healthy(body: bytes) -> Reply:
    """Send the whole body in one write, with a proper end: no fault."""
    return Reply([body])


# --- the connection


def cut(body: bytes, *, events: int | None = None, size: int | None = None) -> Reply:
    """Close the connection in the middle of the body: HTTP's final chunk is missing."""
    return Reply([_before(events_of(body), events, size)], end="cut")


def ended(body: bytes, *, events: int | None = None, size: int | None = None) -> Reply:
    """End the body in the middle, properly for HTTP: proxies do that when their upstream is gone."""
    return Reply([_before(events_of(body), events, size)])


def reset(body: bytes, *, events: int | None = None, size: int | None = None) -> Reply:
    """Reset the connection in the middle of the body (TCP RST)."""
    return Reply([_before(events_of(body), events, size)], end="reset")


def stall(
    body: bytes,
    *,
    events: int | None = None,
    size: int | None = None,
    comments: int = 0,
    seconds: float = 1.0,
) -> Reply:
    """Send nothing more in the middle of the body, until the client goes away.

    Args:
        body: The healthy SSE body.
        events: The number of events before the silence.
        size: The number of bytes before the silence.
        comments: The number of keep-alive comments before the silence; they belong between events.
        seconds: The pause before each comment.
    """
    keep_alive = (Pause(seconds), b": keep-alive\n\n")
    return Reply([_before(events_of(body), events, size), *keep_alive * comments], end="stall")


def unanswered(*, end: Literal["cut", "reset", "stall"] = "cut") -> Reply:
    """Read the request and send no byte: close, reset, or keep the client waiting."""
    return Reply(status=None, end=end)


# --- the writes


def trickle(body: bytes, *, seconds: float = 1.0, size: int = 1) -> Reply:
    """Send the whole body in small, paced writes.

    Args:
        body: The healthy SSE body.
        seconds: The pause between two writes.
        size: Bytes per write.
    """
    paced = [piece for part in _parts(body, size) for piece in (Pause(seconds), part)]
    return Reply(paced[1:])


def split(body: bytes, *, size: int) -> Reply:
    """Send the whole body in HTTP chunks of `size` bytes, which may cut lines and characters."""
    return Reply(_parts(body, size))


def burst(body: bytes, *, size: int = 10_000_000) -> Reply:
    """Send the whole body in one write, with RAW events before its last event so that it has at least `size` bytes."""
    *before, last = events_of(body)
    filling = sse({"type": "RAW", "event": "x" * 1000})
    missing = max(0, size - len(body))
    return Reply([b"".join(before) + filling * -(-missing // len(filling)) + last])


# --- the bytes of the body


def crlf(body: bytes) -> Reply:
    r"""Send the whole body with "\r\n" at the end of lines, as SSE allows (SSE-7)."""
    return Reply([_LINE_END.sub(b"\r\n", body)])


def cr(body: bytes) -> Reply:
    r"""Send the whole body with a bare "\r" at the end of lines, as SSE allows (SSE-7)."""
    return Reply([_LINE_END.sub(b"\r", body)])


def gzipped(
    body: bytes,
    *,
    encoding: Literal["gzip", "deflate"] = "gzip",
    events: int | None = None,
    size: int | None = None,
    broken: bool = False,
) -> Reply:
    """Send a compressed body, flushed after each event like streaming servers do; whole if no place is given.

    Args:
        body: The healthy SSE body.
        encoding: The Content-Encoding; "deflate" means zlib's format.
        events: End the body after so many events: properly for HTTP, in the middle for the compression.
        size: End it after so many compressed bytes.
        broken: Send bytes at that place that cannot be unpacked; between events every decoder notices at once.
    """
    packed = _packed(events_of(body), encoding)
    is_whole = events is None and size is None and not broken
    sent = b"".join(packed) if is_whole else _before(packed, events, size)
    return Reply([sent, _NO_DEFLATE_BLOCK if broken else b""], headers={"Content-Encoding": encoding})


def trailing_garbage(body: bytes, *, garbage: bytes = _PAGE) -> Reply:
    """Send the whole body, and other bytes after its last event: by default an HTML page, which SSE readers skip."""
    return Reply([body, garbage])


# --- the events


def late_error(body: bytes, *, message: str = "failed after all", code: str | None = None) -> Reply:
    """Send the whole body, and a RUN_ERROR after its RUN_FINISHED, which makes the run a failed one (LIFE-4)."""
    return Reply([body, sse(RunErrorEvent(message=message, code=code))])


def double_terminal(body: bytes) -> Reply:
    """Send the last event of the whole body twice; a second RUN_FINISHED breaks the protocol (LIFE-3)."""
    return Reply([body, events_of(body)[-1]])


# --- HTTP


def broken_chunk(body: bytes, *, events: int | None = None, size: int | None = None) -> Reply:
    """Send a line in the middle of the body that is not a number where HTTP wants the size of the next chunk."""
    return Reply([_before(events_of(body), events, size), Raw(b"not a size\r\n")], end="cut")


def oversized_headers(body: bytes, *, size: int = 1_000_000) -> Reply:
    """Send the whole body under a response header of `size` bytes, more than any client should read."""
    return Reply([body], headers={"X-Padding": "x" * size})


def second_response(body: bytes, *, second: bytes | None = None) -> Reply:
    """Send a whole reply, and right after it an unrequested second one, on a connection that stays open.

    A client that keeps its connections must not take the second reply for the response to its next request.

    Args:
        body: The healthy SSE body.
        second: The SSE body of the other response; None repeats the first.
    """
    stray = body if second is None else second
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(stray)}\r\n\r\n"
    # One write: bytes that come later are found by clients that look at a connection before they use it again.
    return Reply([body, Raw(b"0\r\n\r\n" + head.encode() + stray)], headers={"Connection": "keep-alive"}, end="stall")


def html_page(*, status: int = 200, page: bytes = _PAGE) -> Reply:
    """Send an HTML page instead of a stream, like a login page or an error page of a proxy."""
    return Reply([page], status=status, content_type="text/html; charset=utf-8")


def status(
    code: int,
    *,
    retry_after: int | datetime | None = None,
    body: bytes = b'{"detail": "refused"}',
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Refuse the request with an HTTP status (SSE-8).

    Args:
        code: The HTTP status.
        retry_after: Seconds, or a time with its time zone, for Retry-After; None sends no such header.
        body: The body of the response.
        content_type: The Content-Type of the body; None sends none.
        headers: Further headers, such as WWW-Authenticate.
    """
    waiting = {} if retry_after is None else {"Retry-After": _retry_after(retry_after)}
    return Reply([body], status=code, content_type=content_type, headers={**waiting, **(headers or {})})


def redirect(location: str, *, status: int = 307) -> Reply:
    """Redirect to another address; 307 and 308 repeat the request, 301 to 303 make most clients send a GET."""
    return Reply(status=status, content_type=None, headers={"Location": location})


def _before(pieces: Sequence[bytes], events: int | None, size: int | None) -> bytes:
    """Return the part of a body before its fault, given one piece per event."""
    whole = b"".join(pieces)
    match events, size:
        case int(count), None if 0 <= count <= len(pieces):
            return b"".join(pieces[:count])
        case None, int(count) if 0 <= count <= len(whole):
            return whole[:count]
        case (None, None) | (int(), int()):
            raise ValueError("say where the fault is with exactly one of events= and size=")
        case _:
            raise ValueError(f"no such place (events={events}, size={size}): {len(pieces)} events, {len(whole)} bytes")


def _parts(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def _packed(events: Sequence[bytes], encoding: Literal["gzip", "deflate"]) -> list[bytes]:
    """Compress and flush each event; the last piece ends the compression."""
    packer = zlib.compressobj(wbits=_WINDOW_BITS[encoding])
    return [*(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events), packer.flush()]


def _retry_after(when: int | datetime) -> str:
    return str(when) if isinstance(when, int) else format_datetime(when.astimezone(UTC), usegmt=True)
