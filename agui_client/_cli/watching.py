"""Watching a run: where it can be drawn, and how its events get there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client._surfaces.stream import AgentRun
    from agui_client.result import RunResult


class Watched(Protocol):
    """Where a run is shown."""

    def running(self) -> AbstractContextManager[None]:
        """Around each run."""
        ...

    def show(self, event: Event, state: Any) -> None:
        """Show what one event adds."""
        ...


def drawing_board() -> Console | None:
    """The terminal; None if nothing can be drawn there."""
    console = Console()
    return console if console.is_terminal and not console.is_dumb_terminal else None


async def watch(run: AgentRun, view: Watched) -> RunResult:
    """Show a run from its beginning to its end.

    Args:
        run: The run, not started yet.
        view: Where it is shown.

    Returns:
        What it came to.
    """
    with view.running():
        async with run:
            async for event in run:
                view.show(event, run.state)
            return await run.result()
