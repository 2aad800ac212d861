"""`show`: a run in one output of a cell while it is running, or at the terminal where there is no notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

from agui_client._core.ground.display import in_notebook
from agui_client._core.verbs.async_run import AgentRun
from agui_client._core.verbs.sync_run import SyncAgentRun
from agui_client._rendering.views import warn_of_unknown
from agui_client.notebook._content import bundle_of, closing_lines, elements_of, with_prices
from agui_client.notebook._elements import bundle, typeset

if TYPE_CHECKING:
    from ag_ui.core import Event, Message

    from agui_client._core.ground.display import Displayed
    from agui_client._core.run.result import RunResult
    from agui_client._core.run.scope import StateT
    from agui_client.terminal._live_run import LiveView
    from agui_client.terminal._plain_view import PlainView

    Run = AgentRun | SyncAgentRun
    Shown = Displayed | Message


@overload
def show(shown: AgentRun[StateT], *, math: bool = False) -> Coroutine[Any, Any, RunResult[StateT]]: ...
@overload
def show(shown: SyncAgentRun[StateT], *, math: bool = False) -> RunResult[StateT]: ...
@overload
def show(
    shown: Shown | Sequence[Shown], *, math: bool = False, prices: Mapping[str, tuple[float, float]] | None = None
) -> None: ...
def show(
    shown: Run | Shown | Sequence[Shown], *, math: bool = False, prices: Mapping[str, tuple[float, float]] | None = None
) -> Coroutine[Any, Any, RunResult] | RunResult | None:
    """Show a run while it is running: `await show(agent.stream("..."))`, or `show(agent.stream_sync("..."))`.

    In a notebook that is one output of the cell, with a button that stops the run; elsewhere the terminal is used.

    Args:
        shown: A run, which is entered here unless it was before, and may be over; or a result, an agent, messages, a
            snapshot, warnings, subagents or tool executions, which are shown at once.
        math: Whether the notebook draws the TeX in the agent's answers: between dollar signs, or in brackets with
            a backslash each.
        prices: The prices of a million tokens by the names of models, as `{"gpt-5": (1.25, 10)}`: of those that go in,
            and of those that come out. Rows of a batch, comparisons and evaluations have the cost then.

    Returns:
        Of a run the result, to be awaited where the run is asynchronous; else None.

    Raises:
        AGUIError: As `run_agent`; what arrived before is shown.
        UsageError: There is no display of such an object, or it has no cost.
    """
    if isinstance(shown, AgentRun):
        return _show_run(shown, math)
    if isinstance(shown, SyncAgentRun):
        return _show_sync_run(shown, math)
    elements = elements_of(shown) if prices is None else with_prices(shown, prices)
    content = bundle(typeset(elements) if math else elements)
    if in_notebook():
        import_module("IPython.display").display(content, raw=True)
    else:
        sys.stdout.write(f"{content['text/plain']}\n")
    return None


def displayed(shown: object) -> dict[str, str]:
    """Write an object that a cell ends with; a result that `show` left in the same cell is there already."""
    is_there = any(shown is result and number == _cell_number() for result, number in _left_in_cell)
    return {"text/plain": repr(shown)} if is_there else bundle_of(shown)


_left_in_cell: list[tuple[RunResult, int]] = []
"""The result that `show` left last, and the number of the cell."""


def _cell_number() -> int:
    ipython: Any = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "execution_count", 0)


async def _show_run(run: AgentRun, math: bool) -> RunResult:
    async with nullcontext() if run.is_entered else run:
        with _drawn(run, math) as take:
            if not run.call.state.has_ended:
                async for event in run:
                    take(event)
            result = await run.result()
        warn_of_unknown(run)
        return result


def _show_sync_run(run: SyncAgentRun, math: bool) -> RunResult:
    with nullcontext() if run.is_entered else run:
        with _drawn(run, math) as take:
            if not run.call.state.has_ended:
                for event in run:
                    take(event)
            result = run.result()
        warn_of_unknown(run)
        return result


@contextmanager
def _drawn(run: Run, math: bool) -> Generator[Callable[[Event], None]]:
    """Draw a run while the block lasts; the block gets the function that takes each event."""
    if not in_notebook():
        with _at_terminal(run) as take:
            yield take
        return
    try:
        with import_module("agui_client.notebook._live_cell").LiveCell(run, math).running() as take:
            yield take
    finally:
        _left_in_cell[:] = [(run.partial, _cell_number())]


@contextmanager
def _at_terminal(run: Run) -> Generator[Callable[[Event], None]]:
    """Draw a run in place, or line by line where that cannot be, while the block lasts."""
    from agui_client.terminal._watching import show_event, show_surfaces

    view = _terminal_view()
    with view.running():
        run.call.observers.watch_tools(view.execution)
        yield lambda event: show_event(event, run, view)
    show_surfaces(run.partial, view)
    for line in closing_lines(run.partial):
        view.note(line.plain())


def _terminal_view() -> LiveView | PlainView:
    """Return the view of the command line; the one that draws needs the extra `cli`."""
    from agui_client.terminal._plain_view import PlainView, WholeLines, is_screen_taken

    if is_screen_taken():
        return PlainView(answers=WholeLines(sys.stdout), notes=sys.stderr)
    try:
        from agui_client.terminal._live_run import LiveView
        from agui_client.terminal._watching import drawing_board
    except ModuleNotFoundError:
        return PlainView(answers=sys.stdout, notes=sys.stderr)
    console = drawing_board()
    return PlainView(answers=sys.stdout, notes=sys.stderr) if console is None else LiveView(console)
