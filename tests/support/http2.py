"""HTTP/2 on the loopback: a real server for any app, a raw one that breaks its streams, and a client for both.

Both speak it without TLS, to clients who know beforehand ("prior knowledge").
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx
import hypercorn.asyncio
from anyio.abc import SocketStream
from anyio.from_thread import start_blocking_portal
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from hypercorn.config import Config

from agui_client._core.transport.in_process import ASGIApp
from support.listening import listening
from support.waiting import LIMIT

# Its types know only apps that are typed with its own events.
_hypercorn: Any = hypercorn.asyncio
_STOP_SECONDS = 0.5
_READ_BYTES = 65536
STREAMS_AT_ONCE = 20
"""The number of requests that one connection to the real server takes at a time."""


def http2_client() -> httpx.AsyncClient:
    """A client that speaks nothing else, and needs no certificates, which take long to load."""
    return httpx.AsyncClient(http1=False, http2=True, verify=False)


@contextmanager
def serve_http2(app: ASGIApp) -> Generator[str]:
    """The address of a hypercorn that serves an app in a thread while the block lasts."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = _STOP_SECONDS
    config.errorlog = None
    config.h2_max_concurrent_streams = STREAMS_AT_ONCE
    with start_blocking_portal(name="http2-server") as portal:
        stop = portal.call(anyio.Event)
        stopped = portal.start_task_soon(_serve, app, config, stop)
        try:
            yield url
        finally:
            portal.call(stop.set)
            stopped.result(LIMIT)


async def _serve(app: ASGIApp, config: Config, stop: anyio.Event) -> None:
    await _hypercorn.serve(app, config, shutdown_trigger=stop.wait, mode="asgi")


Answer = Callable[[H2Connection, int], None]
"""Answers the request on a stream, by that stream's id."""


class RawServer:
    """A server that answers each request by a function of a test's own, and notes what it saw."""

    url: str

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests = 0
        """How many arrived."""
        self.connections = 0
        """How many clients have connected."""
        self.left: list[int] = []
        """The streams that clients have reset."""
        self._answers = answers

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Listen on a free port while the block lasts."""
        async with listening(self._converse) as address:
            self.url = f"{address}/"
            yield

    async def _converse(self, client: SocketStream) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        async with client:
            while True:
                await client.send(connection.data_to_send())
                try:
                    events = connection.receive_data(await client.receive(_READ_BYTES))
                except (anyio.EndOfStream, anyio.BrokenResourceError, ProtocolError):
                    # The client is gone, or has more to say on a connection that was closed here.
                    return
                for event in events:
                    self._see(connection, event)

    def _see(self, connection: H2Connection, event: object) -> None:
        match event:
            case RequestReceived():
                self.requests += 1
            case StreamEnded(stream_id=int(stream_id)):
                self._answers[min(self.requests, len(self._answers)) - 1](connection, stream_id)
            case StreamReset(stream_id=int(stream_id)):
                self.left.append(stream_id)
            case _:
                pass


@contextmanager
def serve_raw_http2(*answers: Answer) -> Generator[RawServer]:
    """A raw server in a thread while the block lasts.

    Args:
        *answers: One per request; the last one answers every further request.
    """
    server = RawServer(answers)
    with start_blocking_portal(name="raw-http2-server") as portal, ExitStack() as stack:
        block = portal.wrap_async_context_manager(server.listening())
        block.__enter__()
        stack.callback(block.__exit__, None, None, None)
        yield server


def begin(connection: H2Connection, stream_id: int, body: bytes) -> None:
    """Begin an event stream with these bytes, and leave it open."""
    connection.send_headers(stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
    if body:
        connection.send_data(stream_id, body)
