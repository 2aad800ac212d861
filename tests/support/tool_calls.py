"""Single tool calls, bound and executed as the loop does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agui_client import FunctionToolset
from agui_client._core.tools.toolset import OfferedTool

if TYPE_CHECKING:
    from agui_client import FunctionTool, ToolContext
    from agui_client.types import BoundCall


def offered(tool: FunctionTool[..., Any]) -> OfferedTool:
    """The tool as it is offered."""
    return OfferedTool(tool.definition, FunctionToolset([tool]))


def bound(tool: FunctionTool[..., Any], text: str) -> BoundCall:
    """A call with the agent's arguments."""
    return offered(tool).bind("c1", text)


async def executed(tool: FunctionTool[..., Any], context: ToolContext, text: str = "") -> Any:
    """The content that a call comes to."""
    one = offered(tool)
    return await one.call(one.bind(context.tool_call_id, text), context)
