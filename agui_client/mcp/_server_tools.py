"""`mcp_server` and `MCPToolset`: the tools of a server, their names, calls and questions.

To change

- questions of MCP servers: `_ask` here; they take the way of `ctx.ask` to the agent's `answer=`
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import httpx2
import mcp_types
from ag_ui.core import Tool
from mcp import Client, MCPError, StdioServerParameters

from agui_client._core.ground.secrets import address_of
from agui_client._core.ground.sent_secrets import secrets_sent
from agui_client._core.protocol.open_items import listed
from agui_client._core.protocol.open_items import quoted as quoted_name
from agui_client._core.protocol.schema import is_a
from agui_client._core.tools.context import log_failure
from agui_client._core.tools.json_schema import with_defaults
from agui_client._core.tools.questions import DeclinedError, UnansweredError
from agui_client._core.tools.toolset import Toolset
from agui_client._core.transport.timeouts import check_seconds
from agui_client.errors import ToolError, UsageError
from agui_client.mcp._app_tools import is_for_app, is_for_model, page_capability, page_of, ui_of
from agui_client.mcp._call_results import check, content
from agui_client.mcp._connection import CALLING, LOST, Connection, over_http, quoted
from agui_client.mcp_apps._words import ACTIVITY_TYPE

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    from agui_client._core.tools.approval import ApprovalRule
    from agui_client._core.tools.context import BoundCall, ToolContext

Elicit: TypeAlias = Callable[["ToolContext", mcp_types.ElicitRequestParams], Awaitable[mcp_types.ElicitResult]]
"""A coroutine function that answers a question of an MCP server in the middle of a call."""

_LONGEST_NAME = 64
"""The longest name of a tool that model providers accept."""
_MOST_TOOLS = 5000
"""The tools of the longest list; no model accepts as many."""
_logger = logging.getLogger("agui_client.mcp")


class MCPToolset(Toolset):
    """The tools of an MCP server; the same toolset may serve several agents.

    Args:
        server: The URL of a server that speaks streamable HTTP; the command of one that speaks stdio, as
            `StdioServerParameters`; or a server object of the SDK, in this process.
        name: The name of the server, for logs and for tools whose names are taken; by default the server's own.
        approval: The rule by which calls wait for approval, as for functions.
        include: The tools to offer, by the server's names; None offers all.
        exclude: The tools not to offer.
        headers: Headers of every request to a URL, such as Authorization.
        auth: Signs in at a server at a URL, such as an `OAuthClientProvider` of the SDK (`mcp.client.auth`).
        elicit: Answers questions of the server; by default they go to the agent's `answer=`.
        timeout: The time that the server has to start and to list its tools, in seconds; None waits for ever. The two
            minutes are for programs that are downloaded when they start. Calls of tools have `ToolLimits.timeout`.
        idle: The time for which a server at a URL may be silent while a tool is at work, in seconds; None waits for
            ever. Progress and comments count.
        optional: Whether calls continue without the tools of a server that cannot be used, with a warning in the log.
        apps: Whether people are shown the pages that the server has for its tools (MCP Apps): the server is told so,
            and a call of such a tool adds an `mcp-apps` activity to the conversation. `MCPApps` responds to the pages.

    Raises:
        UsageError: The URL is none, a time is not a number above zero, or auth= is of another library or for no URL.
    """

    def __init__(
        self,
        server: str | StdioServerParameters | Server[Any] | MCPServer,
        *,
        name: str | None = None,
        approval: ApprovalRule = "never",
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        elicit: Elicit | None = None,
        timeout: float | None = 120.0,
        idle: float | None = 300.0,
        optional: bool = False,
        apps: bool = False,
    ) -> None:
        check_seconds("timeout= of a tool server", timeout, may_be_none=True)
        check_seconds("idle= of a tool server", idle, may_be_none=True)
        if isinstance(server, str) and not server.startswith(("http://", "https://")):
            # It may hold a secret, and is not quoted.
            other = "a program is given as StdioServerParameters(command=..., args=[...])"
            raise UsageError(f"the URL of a tool server starts with http:// or https://; {other}")
        if auth is not None and not (is_a(auth, httpx2.Auth) and isinstance(server, str)):
            what = "an httpx2.Auth, such as an OAuthClientProvider of mcp.client.auth, for a server at a URL"
            raise UsageError(f"auth= of a tool server is {what}, not {type(auth).__name__}")
        self.apps: bool = apps
        """Whether people are shown the pages of the server's tools."""
        self.app_hash: str = _hash_of(server, name or _name_of(server))
        """The name of the server in activities and requests of apps."""
        self._timeout, self._idle, self._is_optional = timeout, idle, optional
        self._server: Any = server
        self._headers, self._auth, self._elicit = headers, auth, elicit
        self._name = name or _name_of(server)
        self._is_named = name is not None
        self._approval: ApprovalRule = approval
        self._include, self._exclude = include, frozenset(exclude)
        self._connections: dict[object, Connection] = {}
        self._server_names: dict[str, str] = {}
        self._unanswered: dict[ToolContext, UnansweredError] = {}

    def __repr__(self) -> str:
        return f"mcp_server({self._name!r})"

    async def __aenter__(self) -> Self:
        loop = anyio.lowlevel.current_token().native_token
        url = self._server if isinstance(self._server, str) else ""
        secrets = secrets_sent(url, (self._headers or {}).items())
        self._connections.setdefault(loop, Connection(self._client, secrets)).begin_call()
        return self

    async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> None:
        loop = anyio.lowlevel.current_token().native_token
        connection = self._connections[loop]
        connection.users -= 1
        if not connection.users:
            del self._connections[loop]
            await connection.close()

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """List the server's tools, which are remembered until the server says that they changed.

        A server that does not say so is asked once in each call of an agent.

        Raises:
            OSError: The server cannot be reached, or takes too long, and has not listed its tools in this call before.
            MCPError: The server refuses to list its tools.
        """
        connection = self._connection()
        if not connection.is_current:
            try:
                await self._list(connection)
            except Exception as error:
                if not self._is_optional:
                    connection.forget()
                    raise
                # Asked again by the next call, and not before each run of this one: that may take the whole time.
                connection.tools, connection.is_current = None, True
                _logger.warning("the tool server %s is left out: %s: %s", self._name, type(error).__name__, error)
            except BaseException:
                connection.forget()
                raise
        listed = (connection.tools or {}).values()
        return [self._definition(tool) for tool in listed if self._is_offered(tool)]

    async def _list(self, connection: Connection) -> None:
        try:
            with anyio.move_on_after(self._timeout) as scope:
                if connection.tools is not None:
                    # Kept for more than one list, so it is worth hearing of changes.
                    await connection.listen()
                try:
                    connection.tools = await self._listed(connection)
                except MCPError as error:
                    if error.code not in LOST:
                        raise
                    # The server went away since the last run: a list may be asked for again.
                    connection.tools = await self._listed(connection)
            if scope.cancelled_caught:
                raise TimeoutError(f"the list took longer than {self._timeout:g} s; raise timeout= of mcp_server")
        except OSError:
            # A server that is gone in the middle of a call fails its tools, and not the whole call.
            if connection.tools is None:
                raise

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
        result = await self.whole_result(call, ctx)
        tool = (self._connection().tools or {}).get(self._server_names[call.name])
        if self.apps and tool is not None and (page := page_of(tool)) is not None:
            ctx.show_activity(ACTIVITY_TYPE, self._app(call, page, result))
        return content(result)

    async def whole_result(self, call: BoundCall, ctx: ToolContext) -> mcp_types.CallToolResult:
        """Have the server execute a call, and return all that it returned.

        Args:
            ctx: The circumstances of the call.

        Raises:
            ToolError: The server failed.
            UnansweredError: The server asked a question that nobody answered.
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
            return result
        finally:
            self._unanswered.pop(ctx, None)

    async def _called(self, call: BoundCall, ctx: ToolContext) -> mcp_types.CallToolResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            """Pass a progress notification on."""
            ctx.report({"progress": progress, "total": total, "message": message})

        async with self._used(ctx) as client:
            name = self._server_names[call.name]
            result = await client.call_tool(name, dict(call.arguments), progress_callback=report)
            check(result, (self._connection().tools or {}).get(name))
            return result

    @asynccontextmanager
    async def _used(self, ctx: ToolContext | None = None) -> AsyncGenerator[Client]:
        """Use the connection in a block, whose failures are those of a tool.

        Raises:
            ToolError: The server failed.
        """
        server = f"The tool server {self._name}"
        try:
            async with self._connection().client(ctx) as client:
                yield client
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

    # --- apps

    @property
    def app_id(self) -> str | None:
        """The name that the application gave the server, which tells servers at one URL apart; None without one."""
        return self._name if self._is_named else None

    def _app(self, call: BoundCall, page: str, result: mcp_types.CallToolResult) -> dict[str, Any]:
        """Return the content of the activity of a call whose tool has a page."""
        about = {"resourceUri": page, "serverHash": self.app_hash, "toolCallId": call.tool_call_id}
        if self.app_id is not None:
            about["serverId"] = self.app_id
        whole = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"result": whole, "toolInput": dict(call.arguments), **about}

    async def tool_for_app(self, name: object, ctx: RunAgentInput) -> Tool:
        """Return a tool that the server lets its pages call.

        Args:
            name: The server's name of the tool.
            ctx: The input of the run.

        Raises:
            ToolError: There is none of this name.
        """
        for tool in await self._chosen(ctx):
            if tool.name == name and is_for_app(tool):
                return self._definition(tool)
        raise ToolError(f"the tool server {self._name} has no tool {quoted_name(str(name))} for its pages")

    async def read_page(self, uri: object, ctx: RunAgentInput) -> dict[str, Any]:
        """Read a page that one of the server's tools names, and nothing else.

        Args:
            uri: The address of the page.
            ctx: The input of the run.

        Returns:
            The server's whole result.

        Raises:
            ToolError: No tool names it, the server failed, or it took too long.
        """
        if not isinstance(uri, str) or uri not in map(page_of, await self._chosen(ctx)):
            raise ToolError(f"no tool of the tool server {self._name} has its page at {quoted_name(str(uri))}")
        with anyio.move_on_after(self._timeout):
            async with self._used() as client:
                answer = await client.read_resource(uri)
                return answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        raise ToolError(f"the tool server {self._name} did not send its page within {self._timeout:g} s")

    async def _chosen(self, ctx: RunAgentInput) -> list[mcp_types.Tool]:
        """List the tools that are for the agent or for pages.

        Raises:
            ToolError: The server does not list its tools.
        """
        try:
            await self.tools(ctx)
        except (OSError, MCPError) as error:
            raise ToolError(f"the tool server {self._name} does not list its tools") from error
        return [each for each in (self._connection().tools or {}).values() if self._is_chosen(each)]

    async def _listed(self, connection: Connection) -> dict[str, mcp_types.Tool]:
        """Return the tools of all pages by name; those of a server that repeats a cursor up to the repetition."""
        found: dict[str, mcp_types.Tool] = {}
        cursors: set[str] = set()
        async with connection.client() as client:
            info = client.server_info
            if info is not None and not self._is_named:
                self._name = quoted(info.name[:_LONGEST_NAME], ())  # for logs, in one line
            # Before it is asked: it may announce a change while it responds.
            connection.is_current = True
            page = await client.list_tools()
            while True:
                for tool in page.tools:
                    found.setdefault(tool.name, tool)
                if (cursor := page.next_cursor) is None:
                    self._warn_of_unknown(found)
                    return found
                if cursor in cursors or len(found) > _MOST_TOOLS:
                    why = "sent the cursor of a page twice" if cursor in cursors else f"lists more than {_MOST_TOOLS}"
                    _logger.warning(
                        "the tool server %s %s, so its list has no end; the %d tools listed so far are offered",
                        self._name,
                        why,
                        len(found),
                    )
                    return found
                cursors.add(cursor)
                # A server in this process responds without a pause, in which time limits could end the list.
                await anyio.lowlevel.checkpoint()
                page = await client.list_tools(cursor=cursor)

    def _warn_of_unknown(self, found: Mapping[str, mcp_types.Tool]) -> None:
        """Warn of names in `include=` and `exclude=` that have no effect: of a typo nobody would hear."""
        for option, names in (("include", self._include or ()), ("exclude", self._exclude)):
            if unknown := sorted(set(names) - set(found)):
                shown = listed([*map(repr, unknown)])
                known = listed([*map(repr, found)]) or "none"
                _logger.warning(
                    "the tool server %s has no tool %s, which %s= names; its tools are %s",
                    self._name,
                    shown,
                    option,
                    known,
                )
        if kept := sorted(each for each in self._include or () if each in found and not is_for_model(found[each])):
            shown = listed([*map(repr, kept)])
            _logger.warning(
                "the tool server %s keeps %s for its own app, which include= does not change",
                self._name,
                shown,
            )

    def _is_offered(self, tool: mcp_types.Tool) -> bool:
        return self._is_chosen(tool) and is_for_model(tool)

    def _is_chosen(self, tool: mcp_types.Tool) -> bool:
        return tool.name not in self._exclude and (self._include is None or tool.name in self._include)

    def _definition(self, tool: mcp_types.Tool) -> Tool:
        name = _fitting(tool.name)
        self._server_names[name] = tool.name
        description, ui = tool.description or tool.title or "", ui_of(tool)
        about = {"ui": ui} if ui else None
        return Tool(name=name, description=description, parameters=tool.input_schema, metadata=about)

    def _connection(self) -> Connection:
        return self._connections[anyio.lowlevel.current_token().native_token]

    def _client(self, connection: Connection) -> Client:
        """Make a client of the SDK, not connected yet."""

        async def elicit(
            context: object, params: mcp_types.ElicitRequestParams
        ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
            """Ask the person behind the call that the question is about."""
            ctx = CALLING.get() or connection.only_call()
            if ctx is None:
                return _unanswered("It is not clear which of the calls under way the question is about.")
            try:
                return await (self._elicit or _ask)(ctx, params)
            except UnansweredError as error:
                self._unanswered.setdefault(ctx, error)
                return _unanswered(error.message)
            except ToolError as error:
                return _unanswered(f"{error.message} The question was: {params.message}")
            except Exception as error:
                log_failure(_logger, error, "a question of the tool server %s was not answered", self._name)
                return _unanswered("The application failed to answer the question.")

        async def take_note(message: object) -> None:
            """Have the list of a server of an older version asked for again when it says that it changed."""
            if isinstance(message, mcp_types.ToolListChangedNotification):
                connection.forget()
            await anyio.lowlevel.checkpoint()

        is_url = isinstance(self._server, str)
        server = over_http(self._server, self._headers or {}, self._auth, self._idle) if is_url else self._server
        extensions = [page_capability()] if self.apps else None
        return Client(server, elicitation_callback=elicit, message_handler=take_note, extensions=extensions)


mcp_server = MCPToolset
"""Makes an `MCPToolset`: `tools=[mcp_server("http://host/mcp")]`."""


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
            content = with_defaults(params.requested_schema, filled)
            return mcp_types.ElicitResult(action="accept", content=content)
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


def _name_of(server: object) -> str:
    """Return a name for a server that has not given its own, without anything of its address that may be secret."""
    if isinstance(server, str):
        return urlsplit(server).hostname or "server"
    if isinstance(server, StdioServerParameters):
        return server.command.rpartition("/")[2]
    return str(getattr(server, "name", "server"))


def _fitting(name: str) -> str:
    """Return a name that model providers accept: a long or odd one is cut, and ends with a digest of the whole."""
    allowed = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    if allowed == name and 0 < len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{allowed[: _LONGEST_NAME - 9]}_{digest}"


def _hash_of(server: object, name: str) -> str:
    """Return the name of a server in activities of apps, for a URL as the official middleware makes it."""
    about = {"type": "http", "url": address_of(server)} if isinstance(server, str) else {"name": name}
    return hashlib.md5(json.dumps(about, separators=(",", ":")).encode(), usedforsecurity=False).hexdigest()
