"""Views of a run, and the loop that feeds one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._cli.plain_view import is_screen_taken
from agui_client._widgets.views import viewed, warn_of_unknown, was_executed_here

if TYPE_CHECKING:
    from rich.console import Console

    from agui_client._cli.live_run import LiveRun
    from agui_client._cli.plain_view import PlainRun
    from agui_client._run.async_run import AgentRun
    from agui_client._run.result import RunResult


def drawing_board() -> Console | None:
    """Return the terminal; None if it cannot draw, or another run is drawn there."""
    # Loaded here: `agui run` draws nothing.
    from rich.console import Console

    console = Console()
    can_draw = console.is_terminal and not console.is_dumb_terminal and not is_screen_taken()
    return console if can_draw else None


async def watch(run: AgentRun, view: LiveRun | PlainRun) -> RunResult:
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
                if not was_executed_here(event, run):
                    view.show(event, run.state, viewed(event, run))
            result = await run.result()
            warn_of_unknown(run)
            return result
