"""What is offered to the agent in a run: the application's tools, chosen for each run if they are to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ag_ui.core import Tool

from agui_client._tools.function import FunctionTool
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

ToolLike: TypeAlias = Tool | FunctionTool[..., Any]
"""A function as a tool, or the definition of one that is answered elsewhere."""
ToolSource: TypeAlias = "Sequence[ToolLike] | Callable[[RunAgentInput], Sequence[ToolLike]]"
"""Tools, or a function that chooses them for each run: by who is asking, by state or context."""


def offered(source: ToolSource, asked: RunAgentInput) -> dict[str, ToolLike]:
    """The tools of one run.

    Args:
        source: The tools, or what chooses them.
        asked: What the run asks, apart from its tools.

    Returns:
        The tools by their names, in order.

    Raises:
        UsageError: One is no tool, or cannot be called; two have one name; or there is no list of them.
    """
    # A tool can be called, too, and would be taken for a function that chooses.
    is_tool = isinstance(cast("object", source), FunctionTool)
    chosen = _chosen(source, asked) if callable(source) and not is_tool else cast("Sequence[ToolLike]", source)
    if not isinstance(cast("object", chosen), Iterable):
        raise UsageError(f"tools= takes a list of tools, or a plain function that returns one, not {chosen!r}")
    found: dict[str, ToolLike] = {}
    for tool in chosen:
        _check(tool)
        if tool.name in found:
            raise UsageError(f"two tools are named {tool.name!r}; an agent could not tell them apart")
        found[tool.name] = tool
    return found


def _chosen(choose: Callable[[RunAgentInput], Sequence[ToolLike]], asked: RunAgentInput) -> Sequence[ToolLike]:
    try:
        return choose(asked)
    except StopAsyncIteration as error:
        # Out of an iteration it would pass for its end (PEP 479).
        raise RuntimeError("the function that chooses tools raised StopAsyncIteration") from error


def _check(tool: object) -> None:
    if not isinstance(tool, Tool | FunctionTool):
        raise UsageError(f"tools= takes @tool functions and ag_ui.core.Tool definitions, not {tool!r}")
    if isinstance(tool, FunctionTool) and tool.is_method:
        raise UsageError(f"{tool.name!r} is a method; offer it with its instance, as shop.order and not Shop.order")


def definition(tool: ToolLike) -> Tool:
    """What the agent is told about a tool."""
    return tool if isinstance(tool, Tool) else tool.definition
