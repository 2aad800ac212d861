"""A connection to an MCP server: a client of the SDK in a task of its own, made anew when it broke.

It knows whether the server announces changes of its list of tools, and whether the list that is remembered still holds.

To change

- the connection to an MCP server, and the list of tools that is remembered: this module; `MCPToolset.tools` in
  `mcp/_server_tools.py`
- how much an MCP server may send over HTTP: `_HttpClient` here
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import anyio
import httpx2
import mcp_types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agui_client._core.ground.concurrency import spawn
from agui_client._core.ground.secrets import address_of, hidden_text
from agui_client._core.transport.quiet_logs import quiet_logs
from agui_client._core.transport.sse import EVENT_STREAM

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from agui_client._core.tools.context import ToolContext

LOST = frozenset({mcp_types.CONNECTION_CLOSED, mcp_types.INVALID_REQUEST, mcp_types.PARSE_ERROR})
"""Codes of errors after which a connection is made anew; a server that has lost its sessions says INVALID_REQUEST."""
CALLING: ContextVar[ToolContext | None] = ContextVar("agui_client.mcp.calling", default=None)
"""The call of a tool that the present task carries out; the SDK passes it on where it can."""
_CLOSING = 5.0
"""The time that a server has to take note of the end of a connection, in seconds."""
_STEP_SECONDS = 30.0
"""The time that each step of a request has, apart from the silence of the server (the SDK's own default)."""
_MOST_BYTES = 64 * 1024 * 1024
"""The bytes of the largest response of a server over HTTP that is not a stream of events."""
_OF_ENCODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_logger = logging.getLogger("agui_client.mcp")


class Connection:
    """A connection to a server in one event loop, made when it is needed and made anew when it broke.

    Args:
        make: Makes a client of the SDK that is not connected yet.
        secrets: The texts that errors of the server are shown without.
    """

    def __init__(self, make: Callable[[Connection], Client], secrets: Collection[str] = ()) -> None:
        self.users: int = 0
        """The number of agents' calls that use the connection."""
        self.tools: dict[str, mcp_types.Tool] | None = None
        """The server's latest list of tools, by name; None before the first."""
        self.is_current: bool = False
        """Whether the list can be offered without asking the server again."""
        self._make, self._secrets = make, secrets
        self._opening = anyio.Lock()
        self._live: _Live | None = None
        self._calls: list[ToolContext] = []

    def begin_call(self) -> None:
        """Count a call of an agent, which asks for the list once if the server does not announce changes of it."""
        self.users += 1
        if self._live is None or not self._live.is_listening:
            self.forget()

    def forget(self) -> None:
        """Have the list asked for before it is offered again."""
        self.is_current = False

    def only_call(self) -> ToolContext | None:
        """Return a call that is under way, if all that are belong to the same call of an agent."""
        answerers = {id(call.on_ask) for call in self._calls}
        return self._calls[-1] if len(answerers) == 1 else None

    async def listen(self) -> None:
        """Have the server announce changes of its list from now on, if it can."""
        if self._live is not None and not self._live.is_broken:
            await self._live.listen()

    @asynccontextmanager
    async def client(self, ctx: ToolContext | None = None) -> AsyncGenerator[Client]:
        """Connect if need be; an error that shows that the connection broke gives it up.

        Args:
            ctx: The call that the client is used for; None for a list.

        Raises:
            OSError: The server cannot be reached.
        """
        async with self._opening:
            if self._live is None or self._live.is_broken:
                self.forget()
                live = _Live(self._make(self), self.forget)
                await live.start(self._secrets)
                self._live = live
            live = self._live
        live.users += 1
        calling = CALLING.set(ctx)
        if ctx is not None:
            self._calls.append(ctx)
        try:
            yield live.client
        except MCPError as error:
            live.is_broken = live.is_broken or error.code in LOST
            raise MCPError(error.code, quoted(error.message, self._secrets)) from None
        finally:
            CALLING.reset(calling)
            if ctx is not None:
                self._calls.remove(ctx)
            live.users -= 1
            if live.is_broken and not live.users:
                await live.stop()

    async def close(self) -> None:
        """Close the connection, and wait until nothing of it is left."""
        if self._live is not None:
            await self._live.stop()


class _Live:
    """A client in a task of its own.

    Args:
        client: The client, not connected yet.
        forget: Called when the server's list of tools changed, or changes are no longer announced.
    """

    def __init__(self, client: Client, forget: Callable[[], None]) -> None:
        self.client = client
        """The client."""
        self.users = 0
        """The number of lists and calls that are under way."""
        self.is_broken = False
        """Whether nothing should use the client any more."""
        self.is_listening = False
        """Whether the server announces changes of its list of tools."""
        self._forget = forget
        self._scope = anyio.CancelScope()
        self._started, self._stopping, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._tasks: TaskGroup | None = None
        self._error: Exception | None = None

    async def start(self, secrets: Collection[str]) -> None:
        """Connect.

        Args:
            secrets: The texts that an error of the server is shown without.

        Raises:
            OSError: The server cannot be reached.
        """
        spawn(self._run, Context())
        try:
            await self._started.wait()
        except BaseException:
            self._scope.cancel()
            await self.stop()
            raise
        if self._error is not None:
            what = quoted(f"{type(self._error).__name__}: {self._error}", secrets)
            raise ConnectionError(what) from None

    async def listen(self) -> None:
        """Have the server announce changes of its list, if it can; an older one does so unasked."""
        tools = self.client.server_capabilities.tools
        if self.is_listening or self._tasks is None or tools is None or not tools.list_changed:
            return
        if self.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._tasks.start(self._hear_changes)
        else:
            # Over HTTP, an older server that lost its sessions would say nothing.
            self.is_listening = isinstance(self.client.server, StdioServerParameters)

    async def stop(self) -> None:
        """Disconnect, in a bounded time."""
        self._stopping.set()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSING):
                await self._ended.wait()
            self._scope.cancel()
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                async with self.client, anyio.create_task_group() as self._tasks:
                    self.client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                    self._started.set()
                    await self._stopping.wait()
                    self._tasks.cancel_scope.cancel()
        except Exception as error:
            self._error = _first(error)
            self.is_broken = True
            if self._started.is_set():
                _logger.warning("the connection to an MCP server broke: %s", type(self._error).__name__)
        finally:
            self._ended.set()
            self._started.set()

    async def _hear_changes(self, *, task_status: TaskStatus[None]) -> None:
        """Read the stream in which a server of the protocol's present version announces changes."""
        try:
            async with self.client.listen(tools_list_changed=True) as changes:
                self.is_listening = bool(changes.honored.tools_list_changed)
                task_status.started()
                async for _ in changes:
                    self._forget()
        except Exception as error:
            _logger.debug("an MCP server no longer announces changes of its tools: %s", type(error).__name__)
        finally:
            self.is_listening = False
            self._forget()
        task_status.started()


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, idle: float | None
) -> AsyncGenerator[Any]:
    """Open the streams of a connection over HTTP, which end with its client.

    Args:
        url: The address of the server.
        headers: Headers of every request.
        auth: Signs requests; None for what the address says.
        idle: The longest silence of the server, in seconds; None for no limit.
    """
    parts = urlsplit(url)
    # The SDK and httpx2 log addresses: the password of one goes into the header, and the client adds the query.
    if auth is None and parts.username is not None:
        auth = httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    timeout = httpx2.Timeout(_STEP_SECONDS, read=idle)
    http = _HttpClient(parts.query.encode(), headers=headers, auth=auth, timeout=timeout)
    async with http, streamable_http_client(address_of(url), http_client=http) as streams:
        yield streams


class _HttpClient(httpx2.AsyncClient):
    """A client that adds the query of the server's address, and reads no more of a response than `_MOST_BYTES`.

    Args:
        **options: Options of `httpx2.AsyncClient`.
    """

    def __init__(self, query: bytes, **options: Any) -> None:
        super().__init__(**options)
        self._query = query

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request.

        Raises:
            httpx2.ReadError: The response is too large.
        """
        if self._query:
            request.url = request.url.copy_with(query=self._query)
        with quiet_logs():
            response = await super().send(request, **options)
        # Exceptions about the response name its address.
        response.request.url = response.request.url.copy_with(query=None)
        if response.headers.get("content-type", "").lower().startswith(EVENT_STREAM):
            return response  # each of its events has a limit of the SDK's
        content = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    _logger.warning(
                        "an MCP server sent more than %d bytes in one response, which is dropped", _MOST_BYTES
                    )
                    raise httpx2.ReadError("the response is too large", request=request)
        finally:
            await response.aclose()
        # The content is decoded, which these headers of the response do not say.
        given = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_ENCODED]
        return httpx2.Response(response.status_code, headers=given, content=bytes(content), request=request)


def quoted(text: str, secrets: Collection[str]) -> str:
    """Return a text of a server without secrets, those among them that it was sent, and in one line."""
    return "".join(each if each.isprintable() else " " for each in hidden_text(text, secrets))


def _first(error: Exception) -> Exception:
    """Return the exception that task groups wrap."""
    wrapped: Sequence[Exception] = getattr(error, "exceptions", ())
    return _first(wrapped[0]) if wrapped else error


async def _unchecked(name: str, result: mcp_types.CallToolResult) -> None:
    """Take the place of the SDK's check; `call_results.check` does its work."""
