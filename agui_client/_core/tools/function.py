"""A Python function as a tool: its definition for the agent, its bound arguments, and how it is called.

A function is called only with arguments that were checked by the schema the agent was offered (SEC-2). Which calls are
executed, when, with whose approval and how many at once is decided in `execute.py`.

To change

- the question about a tool call that waits for approval: `ask=` here, checked and filled in by
  `_core/tools/approval.py`; `Toolset.question` for other toolsets
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from ag_ui.core import Tool

from agui_client._core.ground.concurrency import call_aside
from agui_client._core.protocol.schema import is_object
from agui_client._core.tools.approval import ApprovalQuestion, ApprovalRule, check_question, question_text
from agui_client._core.tools.context import BoundCall, ToolContext
from agui_client._core.tools.docstrings import read_docstring
from agui_client._core.tools.json_schema import bound_by_schema
from agui_client._core.tools.parameters import Parameters, takes_context
from agui_client._core.transport.timeouts import check_seconds
from agui_client.errors import UsageError

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

_logger = logging.getLogger("agui_client.tools")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LEFT_IN_THREAD = "the %s was left in its thread, where nobody waits for it any more"
"""The warning about a thread that does not belong to a tool."""
_LEFT_RUNNING = "tool %s was left running in its thread; it can look at ctx.is_cancelled"


class ToolOptions(TypedDict, total=False):
    """The options of a tool besides its name."""

    description: str | None
    """The tool's description for the agent, instead of the docstring's prose."""
    approval: ApprovalRule
    """The calls that wait for approval: "never", "always", or a function of the `ApprovalRequest`."""
    ask: ApprovalQuestion | None
    """The question for the person who approves a call: a text with the names of arguments in braces, such as "Send
    {count} mails to {group}?", or a function of the arguments."""
    timeout: float | None
    """The time that a call may take, in seconds; None sets no limit for this tool."""
    idempotent: bool
    """Whether a call may be made again if the process ended in the middle of it, because it then has no second effect;
    False by default."""


class NamedToolOptions(ToolOptions, total=False):
    """The options of a tool."""

    name: str | None
    """The tool's name for the agent, instead of the function's name."""


class FunctionTool(Generic[P, R]):
    """A function that an agent may call; for Python it stays the function it was.

    A method becomes a tool of each instance: `shop.order`, not `Shop.order`.

    Args:
        function: The function or bound method; see `tool` for this and the rest.
        name: The tool's name for the agent.
        description: The tool's description for the agent.
        approval: The calls that wait for approval.
        ask: The question for the person who approves a call.
        timeout: The time that a call may take, in seconds.
        idempotent: Whether a call that a process began and did not end may be made again.
        parameters: The JSON Schema of the arguments, instead of the one made from type hints; see `from_schema`.

    Raises:
        UsageError: The function cannot be offered to an agent; the message says why.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: ApprovalRule = "never",
        ask: ApprovalQuestion | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        own_name = _checked_name(function)
        _check_options(own_name if name is None else name, approval, timeout)
        names = inspect.signature(function).parameters
        # A schema that was given has descriptions of its own.
        prose, descriptions = read_docstring(inspect.getdoc(function) or "", names if parameters is None else ())
        functools.update_wrapper(self, function)
        self._parameters = Parameters.from_function(function, own_name, descriptions) if parameters is None else None
        self._takes_context = takes_context(function) if self._parameters is None else self._parameters.has_context
        self.function = function
        """The function itself."""
        self.definition: Tool = Tool(
            name=own_name if name is None else name,
            description=prose if description is None else description,
            parameters=self._parameters.schema if self._parameters else parameters,
        )
        """The definition that the agent is offered: name, description and the JSON Schema of the arguments."""
        self.approval: ApprovalRule = approval
        """The calls that wait for approval."""
        if ask is not None:
            _check_question(self.definition, approval, ask)
        self.ask = ask
        """The question for the person who approves a call; None for none of its own."""
        self.timeout = timeout
        """The time that a call may take, in seconds; None if this tool sets no limit."""
        self.idempotent = idempotent
        """Whether a call that a process began and did not end may be made again."""
        self.is_method: bool = self._parameters is not None and self._parameters.has_receiver
        """Whether the tool has yet to be taken from an instance; before that, it cannot be executed."""

    @classmethod
    def from_schema(
        cls, name: str, call: Callable[..., Any], *, parameters: Mapping[str, Any], **options: Unpack[ToolOptions]
    ) -> FunctionTool[..., Any]:
        """Make a tool that is known by its schema, such as one of another program.

        Args:
            name: The tool's name for the agent.
            call: A function, sync or async, that takes the arguments as keyword arguments, as the JSON that they are;
                and the `ToolContext` before them if its first parameter is annotated so.
            parameters: The JSON Schema of the arguments.
            options: Its description, approval, question, timeout and idempotence; see `ToolOptions`.

        Returns:
            The tool.

        Raises:
            UsageError: It cannot be offered to an agent; the message says why.
        """
        return FunctionTool[..., Any](call, name=name, parameters=parameters, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> FunctionTool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[Any, Any]:
        if instance is None or not self.is_method:
            return self
        bound: FunctionTool[Any, Any] = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.function = MethodType(self.function, instance)
        functools.update_wrapper(bound, bound.function, updated=())
        bound.is_method = False
        return bound

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    def __reduce__(self) -> str:
        """Pickle by name, as functions are pickled."""
        return str(self.__dict__["__qualname__"])

    @property
    def name(self) -> str:
        """The tool's name for the agent."""
        return self.definition.name

    @property
    def description(self) -> str:
        """The tool's description for the agent; empty if there is none."""
        return self.definition.description

    def bind(self, arguments: str | Mapping[str, Any], tool_call_id: str = "") -> BoundCall:
        """Check the arguments of a call (SEC-2).

        Args:
            arguments: The agent's JSON text, where nothing at all stands for no arguments; or a person's edits, by the
                names that the agent uses.

        Returns:
            The call; its `values` are the function's keyword arguments.

        Raises:
            ToolError: The arguments are broken or do not fit; the message is for the agent, and says why.
        """
        if self._parameters is None:
            shown = values = bound_by_schema(self.definition.parameters or {}, arguments)
        else:
            shown, values = self._parameters.bind(arguments)
        return BoundCall(tool_call_id, self.name, shown, values)

    def question(self, arguments: Mapping[str, Any]) -> str:
        """Return the question for the person who approves a call; empty if the tool has none.

        Args:
            arguments: The arguments of the call, as JSON.
        """
        return "" if self.ask is None else question_text(self.ask, arguments)

    async def call(self, call: BoundCall, ctx: ToolContext) -> object:
        """Call the function with arguments that `bind` checked.

        Args:
            call: The bound call.
            ctx: The circumstances of the call, for a function that takes them.

        Returns:
            The function's result.
        """
        first = (ctx,) if self._takes_context else ()
        function: Callable[..., object] = self.function
        return await call_function(functools.partial(function, *first, **call.values), self.name)


@overload
def tool(function: Callable[P, R], /, **options: Unpack[NamedToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[NamedToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[NamedToolOptions]) -> object:
    """Make a function a tool: `@tool`, `@tool(approval="always")`, or `tool(shop.order)`.

    The agent is offered the function's name, its docstring, and a schema made from its type hints. What the docstring
    says of a parameter becomes the description of that parameter, unless `Annotated[str, "..."]`, `Doc("...")` or
    `Field(description="...")` has one. A first parameter `ctx: ToolContext` is not offered.

    Args:
        function: A function, a coroutine function or a bound method.
        options: The tool's name, description, approval, question, timeout and idempotence; see `NamedToolOptions`.

    Returns:
        The tool, which can be called like the function.

    Raises:
        TypeError: A keyword is unknown.
        UsageError: The function cannot be offered to an agent; the message says why.
    """
    if unknown := sorted(options.keys() - NamedToolOptions.__annotations__.keys()):
        meant = 'approval="always" has each call wait for a person; ' if "appro" in unknown[0] else ""
        raise TypeError(f"unknown keyword {unknown[0]}= of a tool; {meant}help(tool) explains all keywords")
    return functools.partial(tool, **options) if function is None else FunctionTool[..., Any](function, **options)


async def call_function(function: Callable[[], object], name: str, warning: str = _LEFT_RUNNING) -> object:
    """Call a function of the application: a coroutine function in this task, any other in a thread of its own.

    A cancelled coroutine function is cancelled; a thread is left running with a warning, as nothing can stop it.

    Args:
        function: The function, or a `partial` of it with its arguments; an awaitable that it returns is awaited.
        name: The name for the warning: the tool's name.
        warning: The warning that is logged about a thread that is left.
    """
    return await call_aside(function, name, functools.partial(_watch_left, name, warning))


def _watch_left(name: str, warning: str, outcome: Future[object]) -> None:
    """Warn of a thread that is left, and log its end: nobody gets what its function returns.

    Args:
        name: The name of the function.
        warning: The warning about the thread.
        outcome: The outcome of the function.
    """
    _logger.warning(warning, name)

    def note_end(outcome: Future[object]) -> None:
        """Log how the function has ended; what it returned may be a secret."""
        error = outcome.exception()
        how = "returned" if error is None else f"raised {type(error).__qualname__}"
        _logger.warning("%s, which had been left in its thread, has %s; that is dropped", name, how)

    outcome.add_done_callback(note_end)


def _checked_name(function: object) -> str:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        how = "of a static or class method make one with tool(Shop.method), of any other callable with a function"
        raise UsageError(f"a tool is a function or a bound method, not a {type(function).__name__}; {how}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        why = "it yields, and a tool returns its result; progress goes through ctx.report(...)"
        raise UsageError(f"{function.__name__!r} cannot be a tool: {why}")
    return function.__name__


def _check_question(definition: Tool, approval: ApprovalRule, ask: object) -> None:
    if approval == "never":
        raise UsageError(f'ask of {definition.name!r} is the question of an approval: give approval="always", too')
    parameters: Any = definition.parameters
    properties: object = parameters.get("properties") if is_object(parameters) else None
    check_question(definition.name, ask, properties if is_object(properties) else ())


def _check_options(name: str, approval: object, timeout: object) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a tool's name: agents take 1 to 64 letters, digits, _ and -; see name=")
    if approval not in ("never", "always") and not callable(approval):
        raise UsageError(f'approval of {name!r} is "never", "always" or a function, not {approval!r}')
    check_seconds(f"timeout of {name!r}", timeout, may_be_none=True)
