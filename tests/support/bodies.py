"""Response bodies in memory: bytes cut where a test wants, over the real HTTP client and no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import httpcore
import httpx

from agui_client import HttpAgent

Piece = bytes | Exception | Callable[[], Awaitable[None]]
"""A chunk, what breaks the connection, or something to await in between."""

EVENT_STREAM = "text/event-stream"
URL = "http://agent.example/runs"


class Body(httpx.AsyncByteStream):
    """A body that comes in given pieces, and notes when it was closed.

    Args:
        pieces: What comes, one read each.
        is_hasty: Whether a read never gives way to anything else, as no socket does.
    """

    def __init__(self, pieces: Iterable[Piece], *, is_hasty: bool = False) -> None:
        self._pieces = pieces
        self._is_hasty = is_hasty
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if not self._is_hasty:
                await anyio.lowlevel.checkpoint()
            if isinstance(piece, bytes):
                yield piece
            elif isinstance(piece, Exception):
                raise piece
            else:
                await piece()

    async def aclose(self) -> None:
        self.is_closed = True


def response(
    body: httpx.AsyncByteStream, *, status: int = 200, content_type: str | None = EVENT_STREAM, **headers: str
) -> httpx.Response:
    """A response with this body; underscores in the names of headers stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        named["content-type"] = content_type
    return httpx.Response(status, headers=named, stream=body)


def event_stream(*pieces: Piece) -> httpx.Response:
    """A response whose body comes in these pieces."""
    return response(Body(pieces))


def refused(error: httpx.TransportError | None = None) -> httpx.TransportError:
    """A connection that could not be made, as httpx's own transport reports it; other transports prove nothing."""
    error = error or httpx.ConnectError("refused")
    error.__cause__ = httpcore.ConnectError("refused")
    return error


class Memory:
    """An HTTP client's other end: answers every POST with the same response, made anew, and keeps the requests."""

    def __init__(self, *pieces: Piece, make: Callable[[], httpx.Response] | None = None) -> None:
        self.requests: list[httpx.Request] = []
        self._make = make or (lambda: event_stream(*pieces))

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        return self._make()

    def client(self) -> httpx.AsyncClient:
        """A client that talks to this."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self.answer))


def memory_agent(*pieces: Piece, make: Callable[[], httpx.Response] | None = None, **settings: Any) -> HttpAgent:
    """An HTTP agent on thread "thread-1", answered with an event stream in these pieces or with what `make` makes."""
    return HttpAgent(URL, http_client=Memory(*pieces, make=make).client, thread_id="thread-1", **settings)
