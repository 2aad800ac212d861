"""A Python function as a tool of the application: what the agent is offered, and how a call of it is carried out.

Nothing is executed here but with arguments that were held against the advertised schema (SEC-2). Which calls are
executed, when, with whose approval and how many at once is the loop's.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, overload

from ag_ui.core import Tool
from pydantic_core import to_json

from agui_client._pipeline.ownership import quoted
from agui_client._tools.approval import ApprovalRequest
from agui_client._tools.arguments import as_json, as_taken, parsed, validated
from agui_client._tools.calling import called
from agui_client._tools.context import ToolContext
from agui_client._tools.docstring import documentation
from agui_client._tools.schema import Parameters
from agui_client.errors import ToolError, UsageError
from agui_client.messages import Part, content_of

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

ApprovalRule: TypeAlias = Literal["never", "always"] | Callable[[ApprovalRequest], bool | Awaitable[bool]]
"""When a call waits for a person: never, always, or when a function says so (SEC-3)."""

FAILED = "The tool failed because of an internal error of the application."
"""What the agent is told of an exception that is not a `ToolError`: the details may be none of its business."""

_logger = logging.getLogger("agui_client.tools")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class BoundCall:
    """The arguments of one call, held against the tool's schema."""

    arguments: dict[str, Any]
    """As JSON: what was sent as the function takes it, defaults included; see `as_taken`."""
    values: dict[str, Any]
    """As the function's keyword arguments, defaults included."""
    sent: dict[str, Any] = field(compare=False, repr=False)
    """As JSON: what was sent."""


class FunctionTool(Generic[P, R]):
    """A function that an agent may call; for Python it stays the function it was.

    A method becomes a tool of each instance: `shop.order`, not `Shop.order`.

    Args:
        function: The function or bound method; see `tool` for this and the rest.
        name: What the agent calls it.
        description: What the agent is told about it.
        approval: When a call waits for a person.
        timeout: How long a call may take, in seconds.

    Raises:
        UsageError: It cannot be offered to an agent; the message says why.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: ApprovalRule = "never",
        timeout: float | None = None,
    ) -> None:
        own_name = _checked_name(function)
        _check_options(own_name if name is None else name, approval, timeout)
        prose, descriptions = documentation(function)
        functools.update_wrapper(self, function)
        self._parameters = Parameters.of(function, own_name, descriptions)
        self.function = function
        """The function itself."""
        self.definition = Tool(
            name=own_name if name is None else name,
            description=prose if description is None else description,
            parameters=self._parameters.schema,
        )
        """What the agent is offered: name, description and the JSON schema of the arguments."""
        self.approval: ApprovalRule = approval
        """When a call waits for a person."""
        self.timeout = timeout
        """How long a call may take, in seconds; None if this tool sets no limit."""
        self.is_method = self._parameters.has_receiver
        """Whether it is still to be taken from an instance; before that, no call of it can be carried out."""

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
        bound: FunctionTool[Any, Any] = copy.copy(self)
        bound.function = MethodType(self.function, instance)
        functools.update_wrapper(bound, bound.function, updated=())
        bound.is_method = False
        return bound

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    @property
    def name(self) -> str:
        """What the agent calls it."""
        return self.definition.name

    @property
    def description(self) -> str:
        """What the agent is told about it; empty if nobody said anything."""
        return self.definition.description

    def bind(self, arguments_text: str) -> BoundCall:
        """Hold a call's arguments against the schema (SEC-2).

        Args:
            arguments_text: The JSON text the agent sent; nothing at all stands for no arguments.

        Raises:
            ToolError: They are broken or do not fit; the message tells the agent which, and why.
            UsageError: It is a method without its instance.
        """
        return self._bound(parsed(arguments_text))

    def bind_arguments(self, arguments: Mapping[str, Any], before: BoundCall | None = None) -> BoundCall:
        """Hold arguments that a person edited against the schema, as `bind` does with the agent's.

        Args:
            arguments: By the names the agent uses.
            before: What the person was shown: what is unchanged stays the value that it was.

        Raises:
            ToolError: They do not fit, or something was edited that the function does not read.
        """
        if before is None:
            return self._bound(dict(arguments))
        edited = as_json(dict(arguments))
        kept = {
            name for name, shown in before.arguments.items() if name in edited and _is_same_json(edited[name], shown)
        }
        sent = {name: value for name, value in edited.items() if name not in kept}
        bound = self._bound({**{name: before.sent[name] for name in kept if name in before.sent}, **sent})
        if vain := [name for name in sent if _is_same_json(bound.arguments.get(name), before.arguments.get(name))]:
            raise ToolError(f"what was edited in {', '.join(map(repr, vain))} has no effect")
        names = self._parameters.names
        values = {**bound.values, **{names[name]: before.values[names[name]] for name in kept}}
        return replace(bound, values=values, arguments={**bound.arguments, **{n: before.arguments[n] for n in kept}})

    def _bound(self, sent: object) -> BoundCall:
        if self.is_method:
            raise UsageError(f"{self.name!r} is a method; offer it with its instance, as shop.order and not Shop.order")
        arguments = as_json(sent)
        with _only_tool_errors(self.name, "while its arguments were validated"):
            values = validated(self._parameters, arguments)
            return BoundCall(as_taken(self._parameters, arguments, values), values, arguments)

    async def execute(self, call: BoundCall, context: ToolContext) -> str | list[Part]:
        """Carry out a call: a coroutine function in this task, any other in a worker thread.

        Cancelled, a thread is left to itself with a warning; `context.is_cancelled` tells it to stop.

        Args:
            call: What `bind` gave.
            context: The call's circumstances; it has ended when this returns or raises.

        Returns:
            What the function returned, as the content of a tool message: see `content_of`.

        Raises:
            ToolError: The function raised it; or it raised something else, or returned what JSON cannot hold, which is
                logged here with its traceback and put to the agent as a failure without details.
        """
        first = (context,) if self._parameters.has_context else ()
        function: Callable[..., object] = self.function
        try:
            with _only_tool_errors(self.name, f"in call {quoted(context.tool_call_id)}"):
                return content_of(await called(functools.partial(function, *first, **call.values), self.name))
        finally:
            context.ended.set()


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: ApprovalRule = "never",
    timeout: float | None = None,
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: ApprovalRule = "never",
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: ApprovalRule = "never",
    timeout: float | None = None,
) -> object:
    """Make a function a tool: `@tool`, `@tool(approval="always")`, or `tool(shop.order)`.

    The agent is offered the function's name, the prose of its docstring, and a schema made from its type hints, with
    what the docstring says about each argument. A first parameter `ctx: ToolContext` is not offered: it is given.

    Args:
        function: A function, a coroutine function or a bound method.
        name: What the agent calls it, instead of the function's name.
        description: What the agent is told about it, instead of the docstring's prose.
        approval: When a call waits for a person: "never", "always", or a function of the `ApprovalRequest`.
        timeout: How long a call may take, in seconds; None sets no limit for this tool.

    Returns:
        The tool, which can be called like the function.

    Raises:
        UsageError: It cannot be offered to an agent; the message says why.
    """

    def made(function: Callable[P, R]) -> FunctionTool[P, R]:
        """Make the tool."""
        return FunctionTool(function, name=name, description=description, approval=approval, timeout=timeout)

    return made if function is None else made(function)


def _is_same_json(value: object, other: object) -> bool:
    """Whether two JSON values are one: for Python, true is 1."""
    return to_json(value) == to_json(other)


def _checked_name(function: object) -> str:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise UsageError(
            f"a tool is a function or a bound method, not a {type(function).__name__}; "
            "of a static or class method make one with tool(Shop.method), and put a function around a callable object"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__name__!r} cannot be a tool: it yields, and a tool returns its result; "
            "progress goes through ctx.report(...)"
        )
    return function.__name__


def _check_options(name: str, approval: object, timeout: float | None) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a tool's name: agents take 1 to 64 letters, digits, _ and -; see name=")
    if approval not in ("never", "always") and not callable(approval):
        raise UsageError(f'approval of {name!r} is "never", "always" or a function, not {approval!r}')
    if timeout is not None and not timeout > 0:
        raise UsageError(f"timeout of {name!r} is a number of seconds above 0 or None, not {timeout!r}")


@contextmanager
def _only_tool_errors(tool_name: str, when: str) -> Generator[None]:
    """Let out what is meant for the agent; the rest is for the log."""
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        _logger.exception("tool %s failed %s", tool_name, when)
        raise ToolError(FAILED) from error
