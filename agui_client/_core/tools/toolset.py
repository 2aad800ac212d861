"""Toolsets: tools that are offered, approved and called together; and the toolsets of one call.

The loop asks a toolset and knows no function types: a list of functions is one toolset, a connection to a server with
tools of its own is another.

To change

- a new source of tools: a subclass of `Toolset` (here), in the package or in the application; nothing else changes.
  Only for a new kind of entry of `tools=`: `CallTools`, in the same file
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeAlias, cast

from ag_ui.core import RunAgentInput, Tool

from agui_client._core.ground.concurrency import unasked, whole
from agui_client._core.ground.plain_text import sendable
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.prompts import Part, content_of
from agui_client._core.protocol.schema import is_a
from agui_client._core.tools.approval import ApprovalRule
from agui_client._core.tools.context import BoundCall, ToolContext, log_failure
from agui_client._core.tools.function import FunctionTool, call_function
from agui_client._core.tools.json_schema import bound_by_schema
from agui_client.errors import ToolError, ToolsetError, UsageError

FAILED = "The tool failed because of an internal error of the application."
"""The agent's message for an exception that is not a `ToolError`: the details may be none of its business."""

_logger = logging.getLogger("agui_client.tools")


class Toolset(ABC):
    """Tools that are offered, approved and called together; as an async context manager it may hold a connection.

    Entered before the first run of a call and left after the last one, in one task.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> bool | None:
        """Close what `__aenter__` opened."""
        return None

    @abstractmethod
    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """List the tools to offer in one run.

        Args:
            ctx: The input of the run, with its own `tools` empty: tools may depend on the user or the state.

        Returns:
            The definitions, in order.
        """

    @abstractmethod
    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Execute a tool call.

        Args:
            call: The call, as `bind` returned it.
            ctx: The circumstances of the call.

        Returns:
            The result: text, a content part or a list of them, or any value with a JSON form.

        Raises:
            ToolError: The agent gets its message; the message of any other exception is logged and not sent.
        """

    def approval(self, call: BoundCall) -> ApprovalRule:
        """Return the rule by which a call waits for approval: never, unless a subclass says otherwise."""
        return "never"

    def question(self, call: BoundCall) -> str:
        """Return the question for the person who approves a call: none by default, then only the call is shown."""
        return ""

    def timeout(self, call: BoundCall) -> float | None:
        """Return the time that a call may take, in seconds; None for the call's `ToolLimits.timeout`."""
        return None

    def is_repeatable(self, call: BoundCall) -> bool:
        """Return whether a call that asked a question waits for the answer, and is then made again: no by default.

        A call that is not repeatable fails if nobody answers.
        """
        return False

    def is_idempotent(self, call: BoundCall) -> bool:
        """Whether a call that a process began and did not end may be made again, without another effect: no by default.

        A call that is not idempotent gets a result that says that its effect is unknown.
        """
        return False

    def qualified(self, tool: Tool) -> Tool:
        """Return a tool whose name another tool of the run has, too, under a longer name: unchanged by default."""
        return tool

    def bind(self, tool: Tool, tool_call_id: str, arguments: str | Mapping[str, Any]) -> BoundCall:
        """Check the arguments of a call by the tool's JSON Schema, and complete them by its defaults (SEC-2).

        Args:
            tool: The definition that the agent was offered.
            arguments: The agent's JSON text, where nothing at all stands for no arguments; or a person's edits.

        Raises:
            ToolError: The arguments are broken or do not fit; the message is for the agent, and says why.
        """
        return BoundCall(tool_call_id, tool.name, bound_by_schema(tool.parameters or {}, arguments))


class FunctionToolset(Toolset):
    """Functions of the application as a toolset.

    Args:
        functions: The functions; two of one name are refused when they are offered.
    """

    def __init__(self, functions: Iterable[FunctionTool[..., Any]]) -> None:
        self._listed = list(functions)
        self._functions = {function.name: function for function in self._listed}

    async def tools(self, ctx: RunAgentInput) -> Sequence[Tool]:
        """List all functions."""
        return [function.definition for function in self._listed]

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Call the function: a coroutine function in this task, any other in a worker thread."""
        return await self._functions[call.name].call(call, ctx)

    def approval(self, call: BoundCall) -> ApprovalRule:
        """Return the function's rule."""
        return self._functions[call.name].approval

    def question(self, call: BoundCall) -> str:
        """Return the function's question."""
        return self._functions[call.name].question(copy.deepcopy(call.arguments))

    def timeout(self, call: BoundCall) -> float | None:
        """Return the function's time limit."""
        return self._functions[call.name].timeout

    def is_idempotent(self, call: BoundCall) -> bool:
        """Return what the function's tool says."""
        return self._functions[call.name].idempotent

    def bind(self, tool: Tool, tool_call_id: str, arguments: str | Mapping[str, Any]) -> BoundCall:
        """Check the arguments by the types of the function's parameters."""
        return self._functions[tool.name].bind(arguments, tool_call_id)


ToolLike: TypeAlias = Tool | FunctionTool[..., Any]
"""A function as a tool, or the definition of a tool that is executed elsewhere."""
ToolSource: TypeAlias = "Sequence[ToolLike | Toolset] | Toolset | Callable[[RunAgentInput], Sequence[ToolLike]]"
"""Tools and toolsets, or a function that chooses tools for each run: by user, state or context."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that was offered in a run, with the toolset that executes it."""

    definition: Tool
    """The definition that the agent was offered."""
    toolset: Toolset | None = None
    """The toolset that the tool belongs to; None for a tool that is executed elsewhere."""

    def bind(self, tool_call_id: str, arguments: str | Mapping[str, Any]) -> BoundCall:
        """Check the arguments of a call.

        Args:
            arguments: The agent's JSON text, or a person's edits.

        Raises:
            ToolError: They do not fit, or the toolset failed, which is logged.
        """
        with _only_tool_errors(self.definition.name, "while its arguments were validated"):
            return self.owner.bind(self.definition, tool_call_id, arguments)

    def question(self, call: BoundCall) -> str:
        """Return the question for the person who approves a call; empty if there is none, or it cannot be made."""
        try:
            return sendable(self.owner.question(call))
        except Exception as error:
            # The call is shown, and waits for approval, all the same.
            log_failure(_logger, error, "the question of tool %s could not be made", self.definition.name)
            return ""

    async def call(self, call: BoundCall, ctx: ToolContext) -> str | list[Part]:
        """Execute a call; its context has ended when this returns or raises.

        Args:
            call: The bound call.
            ctx: The circumstances of the call.

        Returns:
            The result as the content of a tool message: see `content_of`.

        Raises:
            ToolError: The tool raised it; or it raised another exception or returned something without a JSON form,
                which is logged here with its traceback and becomes a failure without details.
        """
        try:
            with _only_tool_errors(self.definition.name, f"in call {quoted(ctx.tool_call_id)}"):
                execute = partial(self.owner.call, call, ctx)
                return content_of(await call_function(execute, self.definition.name))
        finally:
            ctx.end()

    @property
    def owner(self) -> Toolset:
        """The toolset of a tool that is executed here."""
        assert self.toolset is not None
        return self.toolset


class CallTools:
    """The tools of one turn: a block that opens its toolsets, lists their tools for each run, and closes them.

    Args:
        source: The tools.
        further: Definitions of tools that are executed elsewhere, to be offered before these.

    Raises:
        UsageError: The tools are neither a list nor a function.
    """

    def __init__(self, source: ToolSource, further: Sequence[Tool] = ()) -> None:
        self._further = further
        given = cast("Any", [source] if isinstance(source, Toolset) else source)
        self._choose: Callable[[RunAgentInput], object] | None = given if chooses_tools(source) else None
        self._tools = tool_list(given) if self._choose is None else []
        self.toolsets: list[Toolset] = [each for each in self._tools if isinstance(each, Toolset)]
        """The toolsets to open."""
        self.offered: Mapping[str, OfferedTool] = {}
        """The tools of the latest run, by name."""
        self.own_names: frozenset[str] = frozenset()
        """The names of those that are executed here, also under their own names where others have the same."""
        self._stack = AsyncExitStack()

    @property
    def is_empty(self) -> bool:
        """Whether there is no tool to offer, and no function that chooses some."""
        return not self._tools and not self._further and self._choose is None

    async def __aenter__(self) -> Self:
        """Open the toolsets, one after the other.

        Raises:
            ToolsetError: One of them failed; those already open are closed.
        """
        try:
            # One after the other: task groups in them have to be left in the reverse order, in this task.
            for toolset in self.toolsets:
                with _toolset_errors(toolset, "could not be opened, so nothing was sent"):
                    await whole(self._stack.enter_async_context(toolset))
        except BaseException as error:
            # `async with` does not leave a block that it could not enter.
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(self, exc_type: Any, exc_value: BaseException | None, traceback: Any) -> None:
        """Close the toolsets, the last one first; none of them changes how the call ends."""
        try:
            await whole(self._stack.__aexit__(exc_type, exc_value, traceback))
        except Exception as error:
            if exc_value is not None and not isinstance(exc_value, Exception):
                # A toolset that lost its connection cancelled this task, and says why only now.
                raise ToolsetError(f"a toolset failed during the call: {_cause(error)}") from error
            log_failure(_logger, error, "a toolset failed while it was closed")

    async def offer(self, run_input: RunAgentInput) -> list[Tool]:
        """List the tools of one run, and keep them in `offered`.

        Args:
            run_input: The input of the run, apart from its tools.

        Returns:
            The definitions, in order.

        Raises:
            UsageError: One is not a tool, or cannot be called; two have one name; or there is no list of them.
            ToolsetError: A toolset could not list its tools.
        """
        try:
            own = self._tools if self._choose is None else tool_list(self._choose(run_input))
        except StopAsyncIteration as error:
            # Out of an iteration it would pass for its end (PEP 479).
            raise RuntimeError("the function that chooses tools raised StopAsyncIteration") from error
        except asyncio.CancelledError as error:
            raise unasked(error) from error
        listed = [tool for item in (*self._further, *own) for tool in await self._offered(item, run_input)]
        names = Counter(tool.definition.name for tool in listed)
        found: dict[str, OfferedTool] = {}
        for tool in listed:
            definition = tool.definition
            # A definition that is executed elsewhere keeps its name, by which the caller knows it.
            if tool.toolset is not None and names[definition.name] > 1:
                definition = tool.toolset.qualified(definition)
            if definition.name in found:
                raise _doubled(definition.name)
            found[definition.name] = OfferedTool(definition, tool.toolset)
        self.offered = found
        own_tools = [*listed, *found.values()]
        self.own_names = frozenset(tool.definition.name for tool in own_tools if tool.toolset is not None)
        return [tool.definition for tool in found.values()]

    async def _offered(self, item: ToolLike | Toolset, run_input: RunAgentInput) -> list[OfferedTool]:
        check_tool(item, is_chosen=self._choose is not None)
        if isinstance(item, Tool):
            return [OfferedTool(item)]
        if isinstance(item, FunctionTool):
            return [OfferedTool(item.definition, FunctionToolset([item]))]
        with _toolset_errors(item, "could not list its tools, so the run was not sent"):
            listed = await whole(item.tools(run_input))
        if not all(is_a(tool, Tool) for tool in listed):
            raise UsageError(f"{item!r} lists {listed!r}, and not all of these are ag_ui.core.Tool definitions")
        return [OfferedTool(tool, item) for tool in listed]


def check_tool(item: object, *, is_chosen: bool = False) -> None:
    """Check an entry of `tools=`.

    Args:
        item: The entry.
        is_chosen: Whether a function chose it for one run.

    Raises:
        UsageError: It is not a tool, or cannot be called.
    """
    if isinstance(item, FunctionTool) and item.is_method:
        raise UsageError(f"{item.name!r} is a method; offer it with its instance, as shop.order and not Shop.order")
    # A chosen toolset could not be opened before the run any more, nor stay open until the last.
    if isinstance(item, Tool | FunctionTool) or (isinstance(item, Toolset) and not is_chosen):
        return
    message = f"tools= takes @tool functions and ag_ui.core.Tool definitions, not {item!r}"
    if isinstance(item, Toolset):
        message += "; a toolset is given in a list: it chooses for each run itself"
    elif hasattr(item, "as_tool"):
        message += '; an agent becomes one with agent.as_tool("name", "description")'
    elif inspect.isroutine(item):
        message += "; put @tool before the function, or give tool(function)"
    elif type(item).__module__.partition(".")[0] == "mcp":
        message += "; agui_client.mcp has mcp_server(...), which makes tools of an MCP server"
    elif isinstance(item, type) and issubclass(item, Toolset):
        message += f"; give an instance of it, such as {item.__name__}()"
    raise UsageError(message)


def checked_source(source: ToolSource) -> ToolSource:
    """Return the value of `tools=` with a list of its own; a toolset or a function that chooses tools as it is.

    Raises:
        UsageError: It is neither these nor a list of tools, or two tools of the list have one name.
    """
    if isinstance(source, Toolset) or chooses_tools(source):
        return source
    listed = tool_list(source)
    for each in listed:
        check_tool(each)
    for name, count in Counter(each.name for each in listed if isinstance(each, FunctionTool | Tool)).items():
        if count > 1:
            raise _doubled(name)
    return listed


def _doubled(name: str) -> UsageError:
    return UsageError(f"two tools are named {name!r}; an agent could not distinguish them")


def known_functions(source: ToolSource) -> dict[str, OfferedTool]:
    """Return the functions that are known outside runs, by name: those in a list.

    Args:
        source: The value of `tools=`.
    """
    listed = cast("Sequence[object]", source if isinstance(source, Sequence) else ())
    functions: list[FunctionTool[..., Any]] = [each for each in listed if isinstance(each, FunctionTool)]
    return {each.name: OfferedTool(each.definition, FunctionToolset([each])) for each in functions}


def chooses_tools(source: object) -> bool:
    """Return whether `tools=` is a function that chooses tools; tools can be called, too, and classes of toolsets."""
    return callable(source) and not isinstance(source, FunctionTool | Toolset | type)


def tool_list(source: object) -> list[Any]:
    """Return the entries of `tools=`, or of what a function that chooses tools returned, as a list.

    Args:
        source: The entries.

    Raises:
        UsageError: They are not a list.
    """
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
        return list(cast("Iterable[object]", source))
    raise UsageError(f"tools= takes a list of tools, or a plain function that returns one, not {source!r}")


def listed_names(source: ToolSource) -> set[str]:
    """Return the names of the tools that `tools=` lists one by one."""
    if isinstance(source, Toolset) or callable(source):
        return set()
    return {tool.name for tool in source if isinstance(tool, FunctionTool | Tool)}


@contextmanager
def _toolset_errors(toolset: Toolset, failed: str) -> Generator[None]:
    """Translate exceptions of a toolset."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise ToolsetError(f"the toolset {toolset!r} {failed}: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """Name an exception, or the first one in a group: task groups wrap the only one that says anything."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"


@contextmanager
def _only_tool_errors(tool_name: str, when: str) -> Generator[None]:
    """Let errors for the agent through, and log all others."""
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        log_failure(_logger, error, "tool %s failed %s", tool_name, when)
        raise ToolError(FAILED) from error
