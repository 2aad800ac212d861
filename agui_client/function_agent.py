"""FunctionAgent: an async generator function as an agent in this process."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeAlias, Unpack

from agui_client._run.scope import AgentOptions, StateT
from agui_client.agent import AbstractAgent, as_run_input
from agui_client.errors import UsageError
from agui_client.options import lists_keywords

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ag_ui.core import RunAgentInput

    from agui_client._protocol.events import WireEvent

    AgentFunction: TypeAlias = Callable[[RunAgentInput], AsyncIterator[WireEvent]]


class FunctionAgent(AbstractAgent[StateT]):
    """An agent that is one function: `FunctionAgent(echo)`, with `async def echo(input): yield RunStartedEvent(...)`.

    Args:
        function: Takes a `RunAgentInput` and yields the run's events. Its name is the agent's id, and the first line of
            its docstring the description, unless the options give others.
        options: See `AgentOptions`.

    Raises:
        UsageError: It is not a function.
    """

    @lists_keywords(AgentOptions)
    def __init__(self, function: AgentFunction, **options: Unpack[AgentOptions[StateT]]) -> None:
        if not options.get("agent_id"):
            options.update({"agent_id": getattr(function, "__name__", None)})
        if options.get("description") is None:
            options.update({"description": _first_line(function)})
        super().__init__(**options)
        if not callable(function):
            raise UsageError(f"a FunctionAgent needs an async generator function, not {function!r}")
        self._function = function

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the function.

        Args:
            input: The input of the run.

        Returns:
            The events that the function yields.
        """
        return self._function(as_run_input(input))


def _first_line(function: object) -> str:
    """Return the first line of a function's docstring; other objects have their class's."""
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    return (text or "").partition("\n")[0]
