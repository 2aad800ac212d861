"""Who takes part in an agent's runs besides the agent: middleware, subscribers, and the application's tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from ag_ui.core import BaseEvent

from agui_client._surfaces.hooks import Subscriber
from agui_client._surfaces.subscribers import EventSubscriber, Roster, Subscription
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from typing import Self

    from agui_client._pipeline.middleware import Middleware
    from agui_client._tools.function import ApprovalRule, FunctionTool
    from agui_client._tools.offer import ToolSource

P = ParamSpec("P")
R = TypeVar("R")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Participants:
    """Those who take part; every agent has these members.

    Args:
        tools: Tools of the application that the agent may call, or what chooses them.
        middleware: Functions around each run, outermost first.
        roster: Who listens; nobody if left out.
    """

    def __init__(self, tools: ToolSource, middleware: Iterable[Middleware], roster: Roster | None = None) -> None:
        self.tools: ToolSource = tools if callable(tools) else list(tools)
        """Tools of the application that the agent may call, or what chooses them."""
        self._middleware: list[Middleware] = []
        self.use(*middleware)
        self._roster = roster or Roster()

    def use(self, *middleware: Middleware) -> Self:
        """Put functions around every run, inside those that are there already.

        Args:
            middleware: `async def function(input, next)` that yields events, usually those of `next(input)`.

        Returns:
            The agent itself.

        Raises:
            UsageError: One of them is no function.
        """
        for function in middleware:
            if not callable(function):
                raise UsageError(f"middleware is a function (input, next), not {function!r}")
        self._middleware += middleware
        return self

    def subscribe(self, subscriber: Subscriber) -> Subscription:
        """Let a subscriber's hooks be called, from the next event on.

        Args:
            subscriber: An instance of a `Subscriber` subclass.

        Returns:
            The subscription; leave it as a block, or call `unsubscribe()`.

        Raises:
            UsageError: It is none.
        """
        if not isinstance(cast("object", subscriber), Subscriber):
            raise UsageError(f"subscribe() takes an instance of a Subscriber subclass, not {subscriber!r}; see on()")
        return self._roster.add(subscriber)

    @overload
    def tool(
        self,
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
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        approval: ApprovalRule = "never",
        timeout: float | None = None,
    ) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorate a function to make it a tool of this agent: `@agent.tool`, or `@agent.tool(approval="always")`.

        Args:
            function: See `agui_client.tool`, also for the options.
            options: Its name, description, approval and timeout.

        Returns:
            The tool, which can be called like the function.

        Raises:
            UsageError: It cannot be offered, or a function chooses this agent's tools.
        """
        from agui_client._tools.function import FunctionTool

        if function is None:
            return partial(self.tool, **options)
        if callable(self.tools):
            raise UsageError("this agent's tools are chosen by a function; let that function choose this one, too")
        made = FunctionTool(function, **options)
        self.tools = [*self.tools, made]
        return made

    def on(self, event_type: type[BaseEvent]) -> Callable[[FunctionT], FunctionT]:
        """Decorate a function, sync or async, to be called with every event of a type.

        Args:
            event_type: An event class of `ag_ui.core`; `BaseEvent` for all.

        Returns:
            The decorator; the function takes the event, and the `HookContext` after it if it wants.

        Raises:
            UsageError: The type is no class of events.
        """
        kind: Any = event_type
        if not (isinstance(kind, type) and issubclass(kind, BaseEvent)):
            raise UsageError(f"on() takes a class of events, such as TextMessageContentEvent, not {event_type!r}")

        def register(function: FunctionT) -> FunctionT:
            """Have the function called from the next event on."""
            self._roster.add(EventSubscriber(event_type, function))
            return function

        return register
