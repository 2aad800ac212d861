"""An httpx transport that sends requests to an ASGI app in this process, streaming both ways.

The app runs in a task of its own, so that its contextvars and the caller's stay apart, as over a socket. A response
that is closed early disconnects the app, and cancels the app if that does not end it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextvars import Context
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import anyio
import httpx

from agui_client._core.ground.concurrency import spawn
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
"""An app that an ASGI server can run."""

_GRACE_SECONDS = 0.05
"""Seconds that an app has to end by itself after its caller has left."""
_logger = logging.getLogger("agui_client.asgi")


class ASGITransport(httpx.AsyncBaseTransport):
    """Sends the requests of an `httpx.AsyncClient` to an ASGI app in this process.

    Response bodies stream: a chunk is there as soon as the app has sent it, and the app waits until it is read.

    Args:
        app: The app: FastAPI, Starlette, `agent_app(...)`, or any other.
        lifespan: Whether the app's startup and shutdown run when the client's block is entered and left.
        root_path: The path that the app is mounted at.
    """

    def __init__(self, app: ASGIApp, *, lifespan: bool = False, root_path: str = "") -> None:
        self._app = app
        self._root_path = root_path
        self._lifespan = _Lifespan(app) if lifespan else None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Start the app for one request, and return as soon as the response's headers are there.

        Raises:
            httpx.RemoteProtocolError: The app raised an exception, or ended without a response.
        """
        body = await request.aread()
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": self._root_path,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 0),
            "server": (request.url.host, request.url.port),
            "state": dict(self._lifespan.state) if self._lifespan else {},
        }
        exchange = _Exchange(self._app, scope, body)
        spawn(exchange.run, Context())
        status, headers = await exchange.start()
        return httpx.Response(status, headers=headers, stream=exchange)

    async def __aenter__(self) -> Self:
        if self._lifespan is not None:
            await self._lifespan.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        if self._lifespan is not None:
            await self._lifespan.stop()


def client_of(app: ASGIApp, http_client: object) -> Callable[[], httpx.AsyncClient]:
    """Return a function that makes clients whose requests go to an app.

    Raises:
        UsageError: It is not an app, or there is a client besides.
    """
    if http_client is not None:
        raise UsageError("give app= or http_client=, not both")
    if not callable(app):
        raise UsageError(f"app= takes an ASGI app, such as agent_app(agent), not {app!r}")
    return lambda: httpx.AsyncClient(transport=ASGITransport(app), trust_env=False)


class _Exchange(httpx.AsyncByteStream):
    """One request, handled by the app in a task of its own; the response body is iterated from here."""

    def __init__(self, app: ASGIApp, scope: MutableMapping[str, Any], body: bytes) -> None:
        self._app, self._scope = app, scope
        self._unread: list[bytes] = [body]
        self._send_chunk, self._chunks = anyio.create_memory_object_stream[bytes](0)
        self._cancel_scope = anyio.CancelScope()
        self._started, self._ended, self._left = anyio.Event(), anyio.Event(), anyio.Event()
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._is_complete = False
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Run the app."""
        try:
            with self._cancel_scope:
                await self._app(self._scope, self._receive, self._send)
        except Exception as error:
            # As a server does: the error of the run has no more than the class, for texts may have secrets in them.
            level = logging.DEBUG if self._left.is_set() else logging.ERROR
            _logger.log(level, "the app raised an exception", exc_info=error)
            self._error = error
        finally:
            self._send_chunk.close()
            self._started.set()
            self._ended.set()

    async def start(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Wait for the beginning of the response; return its status and headers."""
        try:
            await self._started.wait()
        except BaseException:
            await self.aclose()
            raise
        if self._head is None:
            self._chunks.close()
            raise self._failure()
        return self._head

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._unread:
            return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self._left.is_set():
            raise OSError("the caller has left")
        if message["type"] == "http.response.start":
            self._head = message["status"], list(message.get("headers", ()))
            self._started.set()
        elif message["type"] == "http.response.body":
            if self._head is None:
                raise RuntimeError("the app sent a body before the start of its response")
            try:
                if body := message.get("body", b""):
                    await self._send_chunk.send(body)
            except anyio.BrokenResourceError:
                raise OSError("the caller has left") from None
            if not message.get("more_body", False):
                self._is_complete = True
                self._send_chunk.close()
                self._left.set()  # as servers do: a complete response disconnects

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk
        if not self._is_complete:
            await self._ended.wait()
            raise self._failure()

    def _failure(self) -> Exception:
        error = self._error
        if error is None:
            return httpx.RemoteProtocolError("the app ended before its response was complete")
        failure = httpx.RemoteProtocolError(f"the app raised {type(error).__name__}")
        failure.__cause__ = error
        return failure

    async def aclose(self) -> None:
        """Disconnect the app, and wait until it has ended; one that continues is cancelled."""
        self._left.set()
        self._chunks.close()
        if self._ended.is_set():
            return
        with anyio.CancelScope(shield=True):
            if not self._is_complete:
                with anyio.move_on_after(_GRACE_SECONDS):
                    await self._ended.wait()
                self._cancel_scope.cancel()
            await self._ended.wait()


class _Lifespan:
    """The startup and shutdown of an app, in a task of its own (ASGI lifespan)."""

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        """The state that the app keeps for its requests."""
        self._app = app

    async def start(self) -> None:
        """Run the app's startup; an app that knows no lifespan is left alone.

        Raises:
            RuntimeError: The startup failed.
        """
        self._has_started, self._has_ended, self._stopping = anyio.Event(), anyio.Event(), anyio.Event()
        self._is_asked, self._refusal = False, ""
        spawn(self._run, Context())
        await self._has_started.wait()
        if self._refusal:
            await self.stop()
            raise RuntimeError(f"the app refused to start: {self._refusal}")

    async def stop(self) -> None:
        """Run the app's shutdown."""
        with anyio.CancelScope(shield=True):
            self._stopping.set()
            await self._has_ended.wait()

    async def _run(self) -> None:
        try:
            await self._app(
                {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self.state}, self._receive, self._send
            )
        except Exception as error:
            # Servers take an exception for an app that knows no lifespan; one after the startup is a failure.
            level = logging.ERROR if self._has_started.is_set() else logging.DEBUG
            _logger.log(level, "the app's lifespan ended with an exception", exc_info=error)
        finally:
            self._has_started.set()
            self._has_ended.set()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "lifespan.startup"}
        await self._stopping.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "lifespan.startup.failed":
            self._refusal = message.get("message") or "it gave no reason"
        if message["type"].startswith("lifespan.startup"):
            self._has_started.set()
