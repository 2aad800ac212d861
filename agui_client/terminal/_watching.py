"""Views of a run, and the loop that feeds one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ag_ui.core import Event, RunStartedEvent, ToolCallResultEvent

from agui_client._rendering.surface_text import loose_lines, titled_lines
from agui_client._rendering.views import viewed, warn_of_unknown
from agui_client.terminal._plain_view import is_screen_taken

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._core.run.result import RunResult
    from agui_client._core.verbs.async_run import AgentRun, RunView
    from agui_client.terminal._live_run import LiveView
    from agui_client.terminal._plain_view import PlainView


def drawing_board() -> Console | None:
    """Return the terminal; None if it cannot draw, or another run is drawn there."""
    # Loaded here: `agui run` draws nothing.
    from rich.console import Console

    console = Console()
    can_draw = console.is_terminal and not console.is_dumb_terminal and not is_screen_taken()
    return console if can_draw else None


def show_event(event: Event, run: RunView, view: LiveView | PlainView) -> None:
    """Show an event of a run, unless it is the result of a tool here, which was shown when the tool ended."""
    if isinstance(event, RunStartedEvent):
        view.story.decide(run.call.round.answered)
    executed = {each.tool_call_id for each in run.tool_executions} if isinstance(event, ToolCallResultEvent) else ()
    if getattr(event, "tool_call_id", None) not in executed:
        view.show(event, run.state, viewed(event, run))


def show_surfaces(result: RunResult, view: LiveView | PlainView) -> None:
    """Show the surfaces that a run which is over has made or changed, and what else came of surfaces.

    Args:
        result: The result of the run.
        view: The view that showed the run.
    """
    lines = [line for each in result.changed_surfaces for line in titled_lines(each)]
    if lines := [*lines, *loose_lines(result.surfaces)]:
        view.show_text("\n".join(lines))


async def watch(run: AgentRun, view: LiveView | PlainView) -> RunResult:
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
                show_event(event, run, view)
            result = await run.result()
            warn_of_unknown(run)
            return result
