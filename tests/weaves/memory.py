"""Streams over HTTP without a socket: an agent whose server is a function that sends its body in given pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import httpx

from agui_client import HttpAgent
from weaves.naive import Json
from weaves.stages import encoded


class Pieces(httpx.AsyncByteStream):
    """A response body in pieces.

    Args:
        pieces: What is read at a time.
        waits: Whether each read gives way to others, as reading from a socket does.
    """

    def __init__(self, pieces: Iterable[bytes], *, waits: bool = True) -> None:
        self._pieces = pieces
        self._waits = waits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if self._waits:
                await anyio.lowlevel.checkpoint()
            yield piece


class Server:
    """Answers each request with the next body; the last one answers every further request.

    Args:
        bodies: Each body, in pieces.
        waits: Whether each read gives way to others, as reading from a socket does.
    """

    def __init__(self, *bodies: Sequence[bytes], waits: bool = True) -> None:
        self.requests: list[Json] = []
        """What was asked."""
        self._bodies = bodies
        self._waits = waits

    def agent(self, **options: Any) -> HttpAgent:
        """An agent that lives here."""
        return HttpAgent("http://agent.test/", http_client=self._client, thread_id="thread-1", **options)

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(json.loads(await request.aread()))
        body = self._bodies[min(len(self.requests), len(self._bodies)) - 1]
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, stream=Pieces(body, waits=self._waits)
        )


def framed(frames: Iterable[str]) -> bytes:
    """The frames as the body of an event stream, plainly."""
    return "".join(f"data: {frame}\n\n" for frame in frames).encode()


def framed_somehow(random: Random, frames: Iterable[str]) -> bytes:
    """The same in any spelling that means the same: line ends, comments, other fields, a byte order mark.

    An event goes on several `data:` lines where its JSON lets it, which is between two members.
    """
    newline = random.choice(("\n", "\r\n", "\r"))
    body = "\ufeff" if random.randrange(4) == 0 else ""
    for frame in frames:
        body += random.choice(("", "", "", f": alive{newline}", f":{newline}{newline}", f"event: x{newline}"))
        body += f"id: 7{newline}" if random.randrange(6) == 0 else ""
        lines = _spread(frame) if random.randrange(5) == 0 else [frame]
        space = random.choice((" ", " ", ""))
        body += "".join(f"data:{space}{line}{newline}" for line in lines) + newline
    return body.encode()


def _spread(frame: str) -> list[str]:
    """The JSON of a frame on lines of its own, if it survives being written again."""
    try:
        value = json.loads(frame)
        is_same = encoded(value) == frame
    except (ValueError, RecursionError):
        return [frame]
    return json.dumps(value, ensure_ascii=False, indent=1).split("\n") if is_same else [frame]


def cut(random: Random, body: bytes) -> list[bytes]:
    """A body in pieces, cut anywhere."""
    if random.randrange(8) == 0:
        return [body[at : at + 1] for at in range(len(body))]
    size = random.choice((2, 7, 64, 1000))
    pieces: list[bytes] = []
    while body:
        length = random.randrange(1, 2 * size)
        pieces.append(body[:length])
        body = body[length:]
    return pieces
