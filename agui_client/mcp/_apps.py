"""`MCPApps`: responds to the pages of MCP servers, as middleware of the agent whose tools the servers have.

A page asks its host, the host the agent, by a run with the request in `forwarded_props`. A call is executed as one of
the agent's: its arguments are checked, its approval rule is asked, its time is limited, and observers see it.

To change

- what a page may ask of a server: `_answer` here
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio.lowlevel
from ag_ui.core import FunctionCall, RunFinishedEvent, RunStartedEvent, ToolCall

from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.tools.execute import ToolExecutor
from agui_client._core.tools.interrupts import answer_question
from agui_client._core.tools.tool_limits import ToolLimits
from agui_client._core.tools.toolset import OfferedTool, Toolset
from agui_client.errors import ToolError, UsageError
from agui_client.mcp._call_results import content
from agui_client.mcp._server_tools import MCPToolset
from agui_client.mcp_apps._words import CALL, LOG, PING, PROXIED_REQUEST, READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mcp_types
    from ag_ui.core import Event, RunAgentInput, Tool

    from agui_client._core.run.scope import RunScope
    from agui_client._core.tools.approval import ApprovalRule
    from agui_client._core.tools.context import BoundCall, ToolContext, ToolExecution

_LIMITS = ToolLimits(timeout=60.0)


class MCPApps:
    """Middleware that responds to the pages of MCP servers: `agent.use(MCPApps(board))`.

    Pages may call the tools that their server lets apps call, and read the pages that its tools name. A caller
    that may run the agent may ask the same without a page, with any arguments.

    Args:
        *servers: The servers whose pages may ask, each made with `mcp_server(..., apps=True)`.
        tool_limits: Limits the time of a call; a minute by default.

    Raises:
        UsageError: There is no server, one shows no pages, or two cannot be told apart.
    """

    def __init__(self, *servers: MCPToolset, tool_limits: ToolLimits = _LIMITS) -> None:
        if not servers:
            raise UsageError('MCPApps takes the servers whose pages may ask: MCPApps(mcp_server("...", apps=True))')
        for each in servers:
            if not each.apps:
                raise UsageError(f"{each!r} shows no pages, so that none can ask: make it with apps=True")
        self._servers: dict[tuple[object, object], MCPToolset] = {
            (each.app_hash, each.app_id): each for each in servers
        }
        if len(self._servers) < len(servers):
            raise UsageError("two servers of MCPApps cannot be told apart: give each a name=")
        self._limits = tool_limits

    async def __call__(
        self, input: RunAgentInput, next: Callable[[RunAgentInput], AsyncIterator[Event]]
    ) -> AsyncIterator[Event]:
        """Respond to a request of a page, or run the rest of the chain if the run is none.

        Args:
            input: The input of the run.
            next: The rest of the chain.
        """
        asked, scope = _request_in(input), CURRENT_SCOPE.get()
        server = None if asked is None else self._server(asked)
        # A page of a server that a remote agent knows asks that agent.
        if asked is None or scope is None or (server is None and not scope.agent.is_local):
            async for event in next(input):
                yield event
            return
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        try:
            if server is None:
                raise ToolError("no server here has this hash and id")
            async with server:
                result = await self._answer(server, asked, input, scope)
        except ToolError as error:
            result = {"error": error.message}
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, result=result)

    def answers_aside(self, input: RunAgentInput) -> bool:
        """Return whether a run is a request of a page.

        Args:
            input: The input of the run.
        """
        return _request_in(input) is not None

    def _server(self, asked: Mapping[str, Any]) -> MCPToolset | None:
        given = asked.get("serverHash"), asked.get("serverId")
        return self._servers.get(given) if all(isinstance(each, str | None) for each in given) else None

    async def _answer(
        self, server: MCPToolset, asked: Mapping[str, Any], input: RunAgentInput, scope: RunScope
    ) -> dict[str, Any]:
        """Respond to a request.

        Raises:
            ToolError: It is refused, or the server failed.
        """
        method, params = asked.get("method"), asked.get("params")
        given: dict[str, Any] = params if is_object(params) else {}
        if method == CALL:
            return await self._call(server, given, input, scope)
        if method == READ:
            return await server.read_page(given.get("uri"), input)
        if method not in (LOG, PING):
            allowed = ", ".join((CALL, READ, LOG, PING))
            raise ToolError(f"a page may not ask {quoted(str(method))} of its server, but {allowed}")
        return {}

    async def _call(
        self, server: MCPToolset, params: Mapping[str, Any], input: RunAgentInput, scope: RunScope
    ) -> dict[str, Any]:
        """Execute a call as one of the agent's, and return the server's whole result."""
        tool = await server.tool_for_app(params.get("name"), input)
        arguments = json.dumps(params.get("arguments") or {})
        own = _AppCall(server)
        executor = ToolExecutor(
            run_input=input,
            offered={tool.name: OfferedTool(tool, own)},
            approve=scope.approve,
            people=scope.people,
            approved_tools=set(),
            limits=self._limits,
            ask=partial(answer_question, scope.answer, scope.people),
            decided=_undecided,
            note=_unnoted,
            observe=partial(scope.observers.call, "on_tool_execution", scope),
            save=anyio.lowlevel.checkpoint,
        )
        call = ToolCall(id=str(uuid4()), function=FunctionCall(name=tool.name, arguments=arguments))
        messages = await executor.execute([call])
        if own.result is not None:
            return own.result.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not messages:
            raise ToolError(f"a call of {quoted(tool.name)} waits for an approval or an answer, and nobody is asked")
        raise ToolError(messages[0].error or "the call was not carried out")


class _AppCall(Toolset):
    """One call of a page, with the approval rule of its server, which keeps the whole result."""

    def __init__(self, server: MCPToolset) -> None:
        self.result: mcp_types.CallToolResult | None = None
        """The result; None before the server has responded."""
        self._server = server

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """List nothing: the tool is not offered to the agent."""
        return ()

    def approval(self, call: BoundCall) -> ApprovalRule:
        """Return the rule of the server."""
        return self._server.approval(call)

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Have the server execute the call."""
        self.result = await self._server.whole_result(call, ctx)
        return content(self.result)


def _request_in(input: RunAgentInput) -> dict[str, Any] | None:
    """Return the request of a page that a run is; None if it is none."""
    props = input.forwarded_props
    asked = props.get(PROXIED_REQUEST) if is_object(props) else None
    return asked if is_object(asked) else None


def _undecided(tool_call_id: str) -> None:
    """Know no decision about a call: each call of a page is decided about anew."""


def _unnoted(execution: ToolExecution) -> None:
    """Note nothing in the ledger: the call is in no conversation."""
