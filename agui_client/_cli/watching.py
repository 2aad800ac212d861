"""Views of a run, and the loop that feeds one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ag_ui.core import Event, ToolCallResultEvent
from rich.console import Console

from agui_client._widgets.tool_views import warn_of_unknown

if TYPE_CHECKING:
    from agui_client._run.async_run import AgentRun
    from agui_client._run.result import RunResult


class Watched(Protocol):
    """A view of a run."""

    def running(self) -> AbstractContextManager[None]:
        """Return the block that is entered around each run."""
        ...

    def show(self, event: Event, state: Any) -> None:
        """Show an event."""
        ...


def drawing_board() -> Console | None:
    """Return the terminal; None if it cannot draw."""
    console = Console()
    return console if console.is_terminal and not console.is_dumb_terminal else None


async def watch(run: AgentRun, view: Watched) -> RunResult:
    """Show a run from its beginning to its end.

    Args:
        run: The run, not started yet.
        view: The view that shows the run.

    Returns:
        The result of the run.
    """
    with view.running():
        async with run:
            async for event in run:
                if not _was_executed_here(event, run):
                    view.show(event, run.state)
            result = await run.result()
            warn_of_unknown(run.tool_names)
            return result


def _was_executed_here(event: Event, run: AgentRun) -> bool:
    """Return whether an event is the result of a tool of the application, which was shown when the tool ended."""
    return isinstance(event, ToolCallResultEvent) and any(
        each.tool_call_id == event.tool_call_id for each in run.tool_executions
    )
