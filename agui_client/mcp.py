"""Tools of MCP servers (extra `mcp`, the official SDK): `tools=[get_weather, mcp_server("http://host/mcp")]`.

A connection belongs to one event loop, and is kept while calls of agents in that loop use it. It lives in a task of its
own, so that a server that goes away fails the calls that are under way and nothing else; the next call connects again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import unquote, urlsplit

import anyio
import anyio.lowlevel
from ag_ui.core import TextPart, Tool

try:
    import httpx2
    import mcp_types
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
except ModuleNotFoundError as missing:
    raise ImportError("agui_client.mcp needs the MCP SDK: pip install 'agui-client[mcp]'") from missing

from agui_client._concurrency import spawn
from agui_client._tools.json_schema import plainly, schema_problems
from agui_client._tools.questions import DeclinedError, UnansweredError
from agui_client._tools.toolset import Toolset
from agui_client._transport.timeouts import is_duration
from agui_client.errors import ToolError, UsageError
from agui_client.messages import Part, attach

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    from agui_client._tools.approval import ApprovalRule
    from agui_client._tools.context import BoundCall, ToolContext

__all__ = ["Elicit", "MCPToolset", "StdioServerParameters", "mcp_server"]

Elicit: TypeAlias = Callable[["ToolContext", mcp_types.ElicitRequestParams], Awaitable[mcp_types.ElicitResult]]
"""A coroutine function that answers a question of an MCP server in the middle of a call."""

_LONGEST_NAME = 64
"""The longest name of a tool that model providers accept."""
_CLOSING = 5.0
"""The time that a server has to take note of the end of a connection, in seconds."""
_UNKNOWN_TYPE = "application/octet-stream"
_TIMEOUT = httpx2.Timeout(30, read=300)
"""The SDK's own: a server may be silent while a tool is at work."""
_LOST = frozenset({mcp_types.CONNECTION_CLOSED, mcp_types.INVALID_REQUEST, mcp_types.PARSE_ERROR})
"""Codes of errors after which a connection is made anew; a server that has lost its sessions says INVALID_REQUEST."""
_calling: ContextVar[ToolContext | None] = ContextVar("agui_client.mcp.calling", default=None)
"""The call of a tool that the present task carries out; the SDK passes it on where it can."""
_logger = logging.getLogger("agui_client.mcp")


def mcp_server(
    server: str | StdioServerParameters | Server[Any] | MCPServer,
    *,
    name: str | None = None,
    approval: ApprovalRule = "never",
    include: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    elicit: Elicit | None = None,
    timeout: float | None = 120.0,
) -> MCPToolset:
    """Offer the tools of an MCP server.

    Args:
        server: The URL of a server that speaks streamable HTTP; the command of one that speaks stdio, as
            `StdioServerParameters`; or a server object of the SDK, in this process.
        name: The name of the server, for logs and for tools whose names are taken; by default the server's own.
        approval: The rule by which calls wait for approval, as for functions.
        include: The tools to offer, by the server's names; None offers all.
        exclude: The tools not to offer.
        headers: Headers of every request to a URL, such as Authorization.
        elicit: Answers questions of the server; by default they go to the agent's `answer=`.
        timeout: The time that the server has before each run to start and to list its tools, in seconds; None waits
            for ever. The two minutes are for programs that are downloaded when they start. Calls of tools have
            `ToolLimits.timeout`.

    Returns:
        A toolset; the same one may serve several agents.

    Raises:
        UsageError: The time is no number above zero.
    """
    return MCPToolset(
        server,
        name=name,
        approval=approval,
        include=include,
        exclude=exclude,
        headers=headers,
        elicit=elicit,
        timeout=timeout,
    )


class MCPToolset(Toolset):
    """The tools of one MCP server; see `mcp_server`."""

    def __init__(
        self,
        server: Any,
        *,
        name: str | None,
        approval: ApprovalRule,
        include: Sequence[str] | None,
        exclude: Sequence[str],
        headers: Mapping[str, str] | None,
        elicit: Elicit | None,
        timeout: float | None,
    ) -> None:
        if timeout is not None and not is_duration(timeout):
            raise UsageError(f"timeout= of a tool server is a number of seconds above zero, or None, not {timeout!r}")
        self._timeout = timeout
        self._server, self._headers, self._elicit = server, headers, elicit
        self._name = name or _name_of(server)
        self._is_named = name is not None
        self._approval: ApprovalRule = approval
        self._include, self._exclude = include, frozenset(exclude)
        self._connections: dict[object, _Connection] = {}
        self._server_names: dict[str, str] = {}
        self._unanswered: dict[ToolContext, UnansweredError] = {}

    def __repr__(self) -> str:
        return f"mcp_server({self._name!r})"

    async def __aenter__(self) -> Self:
        loop = anyio.lowlevel.current_token().native_token
        self._connections.setdefault(loop, _Connection(self._client)).users += 1
        return self

    async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> None:
        loop = anyio.lowlevel.current_token().native_token
        connection = self._connections[loop]
        connection.users -= 1
        if not connection.users:
            del self._connections[loop]
            await connection.close()

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """List the server's tools.

        Raises:
            OSError: The server cannot be reached, or takes too long, and has not listed its tools in this call before.
            MCPError: The server refuses to list its tools.
        """
        connection = self._connection()
        try:
            with anyio.move_on_after(self._timeout) as scope:
                try:
                    connection.tools = await self._listed(connection)
                except MCPError as error:
                    if error.code not in _LOST:
                        raise
                    # The server went away since the last run: a list may be asked for again.
                    connection.tools = await self._listed(connection)
            if scope.cancelled_caught:
                raise TimeoutError(f"the list took longer than {self._timeout:g} s; raise timeout= of mcp_server")
        except OSError:
            # A server that is gone in the middle of a call fails its tools, and not the whole call.
            if connection.tools is None:
                raise
        listed = (connection.tools or {}).values()
        return [self._definition(tool) for tool in listed if self._is_offered(tool.name)]

    def qualified(self, tool: Tool) -> Tool:
        """Return a tool under a name that has the server's in it, as another tool of the run has its own."""
        name = self._server_names[tool.name]
        qualified = _fitting(f"mcp__{self._name}__{name}")
        self._server_names[qualified] = name
        return tool.model_copy(update={"name": qualified})

    def approval(self, call: BoundCall) -> ApprovalRule:
        """Return the rule that was given."""
        return self._approval

    def is_repeatable(self, call: BoundCall) -> bool:
        """Whether a call waits for answers to the server's questions: always, as servers are asked again by design."""
        return True

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Have the server execute a call.

        Raises:
            ToolError: The tool failed, or the server did.
            UnansweredError: The server asked a question that nobody answered; what came of the call does not count.
        """
        try:
            result = await self._called(call, ctx)
        except ToolError as error:
            if (unanswered := self._unanswered.get(ctx)) is not None:
                raise unanswered from error
            raise
        else:
            if (unanswered := self._unanswered.get(ctx)) is not None:
                raise unanswered
            return _content(result)
        finally:
            self._unanswered.pop(ctx, None)

    async def _called(self, call: BoundCall, ctx: ToolContext) -> mcp_types.CallToolResult:
        connection = self._connection()
        server = f"The tool server {self._name}"

        async def report(progress: float, total: float | None, message: str | None) -> None:
            """Pass a progress notification on."""
            ctx.report({"progress": progress, "total": total, "message": message})

        try:
            async with connection.client(ctx) as client:
                name = self._server_names[call.name]
                result = await client.call_tool(name, dict(call.arguments), progress_callback=report)
                _check(result, (connection.tools or {}).get(name))
                return result
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED:
                raise ToolError(f"{server} went away; the effect of the call is unknown.") from error
            raise ToolError(f"{server} refused the call: {error}") from error
        except OSError as error:
            raise ToolError(f"{server} cannot be reached.") from error
        except (RuntimeError, ValueError) as error:
            # Results are checked by the protocol, and by the tool's own schema.
            raise ToolError(
                f"{server} sent a result that cannot be used; the effect of the call is unknown."
            ) from error

    async def _listed(self, connection: _Connection) -> dict[str, mcp_types.Tool]:
        """Return the tools of all pages by name; those of a server that repeats a cursor up to the repetition."""
        found: dict[str, mcp_types.Tool] = {}
        cursors: set[str] = set()
        async with connection.client() as client:
            info = client.server_info
            if info is not None and not self._is_named:
                self._name = info.name
            page = await client.list_tools()
            while True:
                for tool in page.tools:
                    found.setdefault(tool.name, tool)
                if (cursor := page.next_cursor) is None:
                    return found
                if cursor in cursors:
                    _logger.warning(
                        "the tool server %s sent the cursor of a page twice, so its list has no end; the %d tools"
                        " listed so far are offered",
                        self._name,
                        len(found),
                    )
                    return found
                cursors.add(cursor)
                # A server in this process answers without a pause, in which time limits could end the list.
                await anyio.lowlevel.checkpoint()
                page = await client.list_tools(cursor=cursor)

    def _is_offered(self, name: str) -> bool:
        return name not in self._exclude and (self._include is None or name in self._include)

    def _definition(self, tool: mcp_types.Tool) -> Tool:
        name = _fitting(tool.name)
        self._server_names[name] = tool.name
        return Tool(name=name, description=tool.description or tool.title or "", parameters=tool.input_schema)

    def _connection(self) -> _Connection:
        return self._connections[anyio.lowlevel.current_token().native_token]

    def _client(self, connection: _Connection) -> Client:
        """Make a client of the SDK, not connected yet."""

        async def elicit(
            context: object, params: mcp_types.ElicitRequestParams
        ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
            """Ask the person behind the call that the question is about."""
            ctx = _calling.get() or connection.only_call()
            if ctx is None:
                return _unanswered("It is not clear which of the calls under way the question is about.")
            try:
                return await (self._elicit or _ask)(ctx, params)
            except UnansweredError as error:
                self._unanswered.setdefault(ctx, error)
                return _unanswered(error.message)
            except ToolError as error:
                return _unanswered(f"{error.message} The question was: {params.message}")
            except Exception:
                _logger.exception("a question of the tool server %s was not answered", self._name)
                return _unanswered("The application failed to answer the question.")

        is_url = isinstance(self._server, str)
        server = _over_http(self._server, self._headers or {}) if is_url else self._server
        return Client(server, elicitation_callback=elicit)


async def _ask(ctx: ToolContext, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
    """Put a question of a server to the agent's `answer=`: a form to fill in, or a yes or no.

    Raises:
        ToolError: Nobody answers, or the answer does not fit.
    """
    content: dict[str, Any] | None = None
    question = params.message
    try:
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            question = f"{question}\n{params.url}"
        elif params.requested_schema.get("properties"):
            filled = await ctx.ask(question, params.requested_schema)
            return mcp_types.ElicitResult(action="accept", content=filled)
        else:
            # A form without fields is a yes or no: as an object that fits its schema, a denial would accept it.
            content = {}
        is_accepted = await ctx.ask(question, bool)
    except DeclinedError as error:
        return mcp_types.ElicitResult(action=error.action)
    if not is_accepted:
        return mcp_types.ElicitResult(action="decline")
    return mcp_types.ElicitResult(action="accept", content=content)


def _unanswered(why: str) -> mcp_types.ErrorData:
    return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message=why)


class _Connection:
    """A connection to a server in one event loop, made when it is needed and made anew when it broke."""

    def __init__(self, make: Callable[[_Connection], Client]) -> None:
        self.users = 0
        """The number of agents' calls that use the connection."""
        self.tools: dict[str, mcp_types.Tool] | None = None
        """The server's latest list of tools, by name."""
        self._make = make
        self._opening = anyio.Lock()
        self._live: _Live | None = None
        self._calls: list[ToolContext] = []

    def only_call(self) -> ToolContext | None:
        """Return a call that is under way, if all that are belong to the same call of an agent."""
        answerers = {id(call.on_ask) for call in self._calls}
        return self._calls[-1] if len(answerers) == 1 else None

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
                live = _Live(self._make(self))
                await live.start()
                self._live = live
            live = self._live
        live.users += 1
        calling = _calling.set(ctx)
        if ctx is not None:
            self._calls.append(ctx)
        try:
            yield live.client
        except MCPError as error:
            live.is_broken = live.is_broken or error.code in _LOST
            raise
        finally:
            _calling.reset(calling)
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
    """A client in a task of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        """The client."""
        self.users = 0
        """The number of lists and calls that are under way."""
        self.is_broken = False
        """Whether nothing should use the client any more."""
        self._scope = anyio.CancelScope()
        self._started, self._stopping, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._error: Exception | None = None

    async def start(self) -> None:
        """Connect.

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
            raise ConnectionError(f"{type(self._error).__name__}: {self._error}") from self._error

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
                async with self.client:
                    self.client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                    self._started.set()
                    await self._stopping.wait()
        except Exception as error:
            self._error = _first(error)
            self.is_broken = True
            if self._started.is_set():
                _logger.warning("the connection to an MCP server broke: %s", type(self._error).__name__)
        finally:
            self._ended.set()
            self._started.set()


@asynccontextmanager
async def _over_http(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Any]:
    """Open the streams of a connection over HTTP, which end with its client."""
    parts = urlsplit(url)
    # httpx2 logs addresses: the password of one goes into the header.
    auth = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    http = httpx2.AsyncClient(headers=headers, auth=auth, timeout=_TIMEOUT)
    async with http, streamable_http_client(bare, http_client=http) as streams:
        yield streams


def _name_of(server: object) -> str:
    """Return a name for a server that has not given its own, without anything of its address that may be secret."""
    if isinstance(server, str):
        return urlsplit(server).hostname or "server"
    if isinstance(server, StdioServerParameters):
        return server.command.rpartition("/")[2]
    return str(getattr(server, "name", "server"))


def _first(error: Exception) -> Exception:
    """Return the exception that task groups wrap."""
    wrapped: Sequence[Exception] = getattr(error, "exceptions", ())
    return _first(wrapped[0]) if wrapped else error


def _fitting(name: str) -> str:
    """Return a name that model providers accept: a long or odd one is cut, and ends with a digest of the whole."""
    allowed = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    if allowed == name and 0 < len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{allowed[: _LONGEST_NAME - 9]}_{digest}"


async def _unchecked(name: str, result: mcp_types.CallToolResult) -> None:
    """Take the place of the SDK's check; `_check` does its work."""


def _check(result: mcp_types.CallToolResult, tool: mcp_types.Tool | None) -> None:
    """Check a result by the schema of its tool.

    The SDK tries the patterns of the schema, for which a server needs one line to freeze the program.

    Raises:
        ValueError: The result does not fit.
    """
    schema = None if tool is None or result.is_error else tool.output_schema
    if schema is None:
        return
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        raise ValueError("the tool has an output schema, and its result no structured content")
    if problems := schema_problems(schema, result.structured_content):
        raise ValueError(plainly(problems))


def _content(result: mcp_types.CallToolResult) -> object:
    """Return a result as a tool's result: text, content parts, or JSON.

    Raises:
        ToolError: The tool reported an error.
    """
    parts = [_part(block) for block in result.content]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if result.is_error:
        raise ToolError("\n".join(texts) or "The tool failed and gave no reason.")
    # Servers repeat structured content as text, for clients that know only text.
    if len(texts) == len(parts):
        return "\n".join(texts) if result.structured_content is None else result.structured_content
    if not texts and result.structured_content is not None:
        return [TextPart(text=json.dumps(result.structured_content, ensure_ascii=False)), *parts]
    return parts


def _part(block: mcp_types.ContentBlock) -> Part:
    match block:
        case mcp_types.TextContent():
            return TextPart(text=block.text)
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return attach(b64decode(block.data), block.mime_type or _UNKNOWN_TYPE)
        case mcp_types.ResourceLink():
            return TextPart(text=f"{block.title or block.name}: {block.uri}")
        case mcp_types.EmbeddedResource(resource=resource):
            if isinstance(resource, mcp_types.TextResourceContents):
                return TextPart(text=resource.text)
            return attach(b64decode(resource.blob), resource.mime_type or _UNKNOWN_TYPE)
