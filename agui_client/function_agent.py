"""FunctionAgent: an async generator function as an agent in this process."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client.agent import AbstractAgent
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from ag_ui.core import RunAgentInput

    from agui_client._pipeline import NullFields
    from agui_client._pipeline.events import WireEvent
    from agui_client._pipeline.middleware import Middleware
    from agui_client._surfaces.abort import OnAbort
    from agui_client._tools.approval import Approver
    from agui_client._tools.limits import ToolLimits
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Answerer
    from agui_client.messages import MessageLike

    AgentFunction: TypeAlias = Callable[[RunAgentInput], AsyncIterator[WireEvent]]


class FunctionAgent(AbstractAgent):
    """An agent that is one function: `FunctionAgent(echo)`, with `async def echo(input): yield RunStartedEvent(...)`.

    Args:
        function: Takes a `RunAgentInput` and yields the run's events.
        agent_id: What the application calls this agent; the function's name if left out.
        description: What it is for; the first line of the function's docstring if left out.
        thread_id: The conversation to go on with; a new one if left out.
        initial_messages: What was said before.
        initial_state: The state both sides write, any JSON value; `{}` if left out.
        tools: Tools of the application that the agent may call.
        approve: See `AbstractAgent`.
        answer: See `AbstractAgent`.
        tool_limits: See `AbstractAgent`.
        on_abort: See `AbstractAgent`.
        middleware: Functions around each run, outermost first; see `use`.
        null_fields: See `AbstractAgent`.
        strict: See `AbstractAgent`.

    Raises:
        UsageError: It is no function.
    """

    def __init__(
        self,
        function: AgentFunction,
        *,
        agent_id: str | None = None,
        description: str | None = None,
        thread_id: str | None = None,
        initial_messages: Iterable[MessageLike] = (),
        initial_state: Any = None,
        tools: ToolSource = (),
        approve: Approver | None = None,
        answer: Answerer | None = None,
        tool_limits: ToolLimits | None = None,
        on_abort: OnAbort | None = None,
        middleware: Iterable[Middleware] = (),
        null_fields: NullFields = "reject",
        strict: bool = False,
    ) -> None:
        super().__init__(
            agent_id=agent_id or getattr(function, "__name__", None),
            description=_first_line(function) if description is None else description,
            thread_id=thread_id,
            initial_messages=initial_messages,
            initial_state=initial_state,
            tools=tools,
            approve=approve,
            answer=answer,
            tool_limits=tool_limits,
            on_abort=on_abort,
            middleware=middleware,
            null_fields=null_fields,
            strict=strict,
        )
        if not callable(function):
            raise UsageError(f"a FunctionAgent needs an async generator function, not {function!r}")
        self._function = function

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the function.

        Args:
            input: What is asked.

        Returns:
            What the function yields.
        """
        return self._function(input)


def _first_line(function: object) -> str:
    """What a function's docstring says first; other objects have their class's."""
    said = inspect.getdoc(function) if inspect.isroutine(function) else None
    return (said or "").partition("\n")[0]
