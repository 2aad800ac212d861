"""A loopback HTTP/1.1 server that sends exactly the given bytes, for replies that no real server makes.

It reads requests with a Content-Length and writes a status line; the `Reply` decides the rest: the bytes, the writes
they are cut into, and the end of the connection.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, cast

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.from_thread import start_blocking_portal
from anyio.streams.buffered import BufferedByteReceiveStream

from agui_client.testing._steps import Gate, Pause

_MAX_HEAD_BYTES = 65536
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case; values of a repeated name joined by ", "."""
    body: bytes

    def json(self) -> Any:
        """Return the body, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of a reply that are written as they are, in no HTTP chunk: they break the framing, or follow its end."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to one request."""

    pieces: Sequence[bytes | Raw | Pause | Gate] = ()
    """The body: each bytes object is one write, an empty one none; pauses and gates wait between writes."""
    status: int | None = 200
    """The HTTP status; None sends neither a status line nor headers, only the pieces."""
    content_type: str | None = "text/event-stream"
    """The Content-Type; None sends none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further headers, sent unchanged."""
    chunked: bool = True
    """Each piece is one HTTP chunk; otherwise the body is ended by the end of the connection."""
    end: Literal["close", "cut", "reset", "stall"] = "close"
    """The end after the last piece: a proper one, a close without the final chunk, a reset of the connection, or
    silence until the client goes away."""


Content: TypeAlias = "Reply | bytes | list[bytes | Raw | Pause | Gate]"
"""A reply, a whole SSE body, or the pieces of one."""
Answer: TypeAlias = "Content | Callable[[Request], Content]"
"""The response to a request, or a function of the request that returns it."""


class ByteServer:
    """A running byte server, with the requests that it received.

    Args:
        answers: The responses in order; the last one is sent to every further request.
    """

    url: str
    """The address of the root, such as "http://127.0.0.1:51234/"."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests: list[Request] = []
        """The requests that arrived whole, in order."""
        self.disconnected: threading.Event = threading.Event()
        """Set when a client closed its connection before the reply was over."""
        self.disconnected_at: float | None = None
        """The latest time of that, on the clock of `time.monotonic()`; None if it has not happened."""
        self._answers = answers

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None, None]:
        """Listen on a free port while the block lasts; `serve_bytes` does it in a thread."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._converse)
            yield
            tasks.cancel_scope.cancel()

    async def _converse(self, connection: SocketStream) -> None:
        async with connection:
            request = await _read_request(connection)
            if request is None:
                return
            self.requests.append(request)
            reply = self._reply(request)
            finished = False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_on_close, connection, tasks.cancel_scope)
                await _write(connection, reply)
                finished = True
                tasks.cancel_scope.cancel()
            if not finished:
                self.disconnected_at = time.monotonic()
                self.disconnected.set()

    def _reply(self, request: Request) -> Reply:
        answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
        made: object = answer(request) if callable(answer) else answer
        if isinstance(made, bytes | bytearray):
            return Reply([bytes(made)])
        return made if isinstance(made, Reply) else Reply(cast("list[Any]", made))


@contextmanager
def serve_bytes(*answers: Answer) -> Generator[ByteServer, None, None]:
    """Respond to requests with given bytes while the block lasts: `with serve_bytes(sse(turn(text("Hi")))) as server:`.

    Leaving the block drops the connections that are still open and stops the server's thread.

    Args:
        *answers: One per request, at least one; the last one goes to every further request. Bytes are the body of a
            200 event stream.
    """
    if not answers:
        raise ValueError("serve_bytes needs at least one response: serve_bytes(Reply([b'...']))")
    given: tuple[object, ...] = answers
    for answer in given:
        if not (isinstance(answer, Reply | bytes | bytearray | list) or callable(answer)):
            what = "a Reply, bytes, a list of pieces, or a function of the request that returns one of them"
            raise TypeError(f"a response of serve_bytes is {what}, not a {type(answer).__name__}")
    server = ByteServer(answers)
    with start_blocking_portal(name="agui-byte-server") as portal, ExitStack() as stack:
        listening = portal.wrap_async_context_manager(server.listening())
        listening.__enter__()
        # Left without an exception: an exception in the block belongs to the test and is raised unchanged.
        stack.callback(listening.__exit__, None, None, None)
        yield server


async def _read_request(connection: SocketStream) -> Request | None:
    stream = BufferedByteReceiveStream(connection)
    try:
        head = await stream.receive_until(b"\r\n\r\n", _MAX_HEAD_BYTES)
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = _headers(lines)
        body = await stream.receive_exactly(int(headers.get("content-length", "0")))
    except (*_BROKEN, anyio.IncompleteRead):
        return None
    method, path, _ = request_line.split(" ", 2)
    return Request(method, path, headers, body)


def _headers(lines: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers


async def _cancel_on_close(connection: SocketStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await connection.receive()
    except _BROKEN:
        scope.cancel()


async def _write(connection: SocketStream, reply: Reply) -> None:
    try:
        await connection.send(_head(reply))
        for piece in reply.pieces:
            if isinstance(piece, Pause | Gate):
                await piece.wait()
            else:
                await connection.send(_framed(piece, chunked=_is_chunked(reply)))
        await _end(connection, reply)
    except _BROKEN:
        # The client is gone: the task that reads the connection notices it, too, and ends the reply.
        await anyio.sleep_forever()


def _framed(piece: bytes | Raw, *, chunked: bool) -> bytes:
    if isinstance(piece, Raw):
        return piece.content
    # An empty chunk would end the body.
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece and chunked else piece


def _is_chunked(reply: Reply) -> bool:
    """Return whether the body has chunks: responses with these statuses have none, and no end either."""
    return reply.chunked and reply.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


def _head(reply: Reply) -> bytes:
    if reply.status is None:
        return b""
    fields = {"Connection": "close", **reply.headers}
    if reply.content_type is not None:
        fields["Content-Type"] = reply.content_type
    if _is_chunked(reply):
        fields["Transfer-Encoding"] = "chunked"
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {reply.status} {_phrase(reply.status)}\r\n{lines}\r\n".encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


async def _end(connection: SocketStream, reply: Reply) -> None:
    match reply.end:
        case "close" if _is_chunked(reply):
            await connection.send(b"0\r\n\r\n")
        case "reset":
            # A linger of zero seconds makes the close that follows a reset.
            linger = struct.pack("ii", 1, 0)
            connection.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        case "stall":
            await anyio.sleep_forever()
        case _:
            pass
