"""The replies of a byte server without a socket: the same faults in memory, fast enough for thousands, on any clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import httpx

from agui_client import HttpAgent
from agui_client.testing import Raw, Reply
from support.bodies import URL

Refusal = httpx.TransportError
Answer = Reply | Refusal
"""A reply, or why there is none."""

_MAX_HEADERS = 100_000


class Replies:
    """An agent's other end, which answers request after request as `serve_bytes` does.

    Args:
        answer: Makes the answer to a request, given its body.
    """

    def __init__(self, answer: Callable[[Any], Answer]) -> None:
        self.requests: list[Any] = []
        """The body of every request, as JSON."""
        self._answer = answer

    def agent(self, **settings: Any) -> HttpAgent:
        """An agent that lives here, on thread "thread-1"."""
        return HttpAgent(URL, http_client=self._client, thread_id="thread-1", **settings)

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._respond))

    async def _respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(json.loads(await request.aread()))
        reply = self._answer(self.requests[-1])
        if not isinstance(reply, Reply):
            raise reply
        if reply.status is None:
            await _end(reply, "Server disconnected without sending a response.")
        headers = dict(reply.headers)
        if reply.content_type is not None:
            headers["Content-Type"] = reply.content_type
        if sum(map(len, headers.values())) > _MAX_HEADERS:
            raise httpx.RemoteProtocolError("Receive buffer too long")
        return httpx.Response(reply.status or 200, headers=headers, stream=_Content(reply))


class _Content(httpx.AsyncByteStream):
    """The body of a reply."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._reply.pieces:
            await anyio.lowlevel.checkpoint()
            if isinstance(piece, Raw):
                if piece.content.startswith(b"0\r\n"):
                    return
                raise httpx.RemoteProtocolError("illegal chunk header")
            if isinstance(piece, bytes):
                yield piece
            else:
                await piece.wait()
        if self._reply.end != "close":
            await _end(self._reply, "peer closed connection without sending complete message body")


async def _end(reply: Reply, closed: str) -> NoReturn:
    """How a connection ends that does not end properly."""
    if reply.end == "stall":
        await anyio.sleep_forever()
    raise httpx.ReadError("") if reply.end == "reset" else httpx.RemoteProtocolError(closed)
