"""`show`: a run in one output of a cell while it goes on, or at the terminal where there is no notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

from ag_ui.core import (
    CustomEvent,
    ReasoningMessageContentEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
)

from agui_client._run.async_run import AgentRun
from agui_client._run.sync_run import SyncAgentRun
from agui_client._widgets.drawing import Drawings
from agui_client._widgets.views import MOST_VALUES, ShownCustom, viewed, warn_of_unknown, was_executed_here
from agui_client.notebook.content import (
    bundle_of,
    conversation,
    custom_events,
    elements_of,
    ending_line,
    names_of,
    nested,
    of_result,
    of_this_call,
    seconds_text,
    state_fold,
    waiting_lines,
)
from agui_client.notebook.elements import Line, bundle, typeset

if TYPE_CHECKING:
    from ag_ui.core import Event, Message

    from agui_client._cli.live_run import LiveRun
    from agui_client._cli.plain_view import PlainRun
    from agui_client._display import Displayed
    from agui_client._run.result import RunResult
    from agui_client._run.scope import StateT
    from agui_client._tools.context import ToolExecution
    from agui_client.notebook.elements import Element

    Run = AgentRun | SyncAgentRun
    Shown = Displayed | Message

_SECONDS_APART = 0.05
_LONG = 100_000
"""The number of characters in a call after which a piece of text may be shown a moment later."""
_REST = 3
"""A drawing that takes long is followed by a pause of this many times as long."""


@overload
def show(shown: AgentRun[StateT], *, math: bool = False) -> Coroutine[Any, Any, RunResult[StateT]]: ...
@overload
def show(shown: SyncAgentRun[StateT], *, math: bool = False) -> RunResult[StateT]: ...
@overload
def show(shown: Shown | Sequence[Shown], *, math: bool = False) -> None: ...
def show(
    shown: Run | Shown | Sequence[Shown], *, math: bool = False
) -> Coroutine[Any, Any, RunResult] | RunResult | None:
    """Show a run while it goes on: `await show(agent.stream("..."))`, or `show(agent.stream_sync("..."))`.

    In a notebook that is one output of the cell, redrawn at most 20 times a second; elsewhere the terminal is used.

    Args:
        shown: A run, which is entered here unless it was before, and may be over; or a result, an agent, messages, a
            snapshot, warnings, subagents or tool executions, which are shown at once.
        math: Whether the notebook draws the TeX that stands between dollar signs in the agent's answers.

    Returns:
        Of a run the result, to be awaited where the run is asynchronous; else None.

    Raises:
        AGUIError: As `run_agent`; what arrived before is shown.
        UsageError: There is no display of such an object.
    """
    if isinstance(shown, AgentRun):
        return _show_run(shown, math)
    if isinstance(shown, SyncAgentRun):
        return _show_sync_run(shown, math)
    elements = elements_of(shown)
    content = bundle(typeset(elements) if math else elements)
    if _is_notebook():
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
        with _view(run, math).running() as take:
            if not run.call.state.has_ended:
                async for event in run:
                    take(event)
            result = await run.result()
        warn_of_unknown(run)
        return result


def _show_sync_run(run: SyncAgentRun, math: bool) -> RunResult:
    with nullcontext() if run.is_entered else run:
        with _view(run, math).running() as take:
            if not run.call.state.has_ended:
                for event in run:
                    take(event)
            result = run.result()
        warn_of_unknown(run)
        return result


def _view(run: Run, math: bool) -> _Cell | _Terminal:
    return _Cell(run, math) if _is_notebook() else _Terminal(run)


def _is_notebook() -> bool:
    """Return whether this is a kernel, rather than a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@dataclass(frozen=True, slots=True)
class _Moment:
    """A run after an event; nothing in it changes any more."""

    messages: Sequence[Message]
    executions: Sequence[ToolExecution]
    state: Any
    events: int
    at: float


class _Cell:
    """One output of a cell; a thread of its own draws, so that neither the run nor a pause of it waits for drawing.

    Args:
        run: The run, in its block.
        math: Whether the notebook draws TeX.
    """

    def __init__(self, run: Run, math: bool) -> None:
        self._run = run
        self._math = math
        before = run.partial
        self._known = {each.id for each in before.messages} - {each.id for each in before.new_messages}
        self._names = names_of(before.subagents)
        self._custom: dict[str, deque[Any]] = {}
        self._drawings = Drawings()
        self._events = self._arrived = 0
        self._moment = self._look()
        self._began = time.perf_counter()
        self._is_over, self._news = threading.Event(), threading.Event()
        display = import_module("IPython.display").display
        self._handle: Any = display(self._bundle(self._elements()), raw=True, display_id=True)

    @contextmanager
    def running(self) -> Generator[Callable[[Event], None]]:
        """Draw while the block lasts, and once more after it; the block gets the function that takes each event."""
        # With the context of the cell, which its output belongs to.
        drawing = threading.Thread(target=copy_context().run, args=(self._draw,), name="agui_client.show", daemon=True)
        drawing.start()
        self._run.call.watch_tools(lambda _: self._renew())
        ended = ""
        try:
            yield self._take
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
            raise
        except BaseException:
            ended = "interrupted"
            raise
        finally:
            self._is_over.set()
            self._news.set()
            drawing.join()
            elements = of_result(self._run.partial, self._custom_elements())
            self._update([*elements, Line(ended, "bad")] if ended else elements)
            _left_in_cell[:] = [(self._run.partial, _cell_number())]

    def _take(self, event: Event) -> None:
        if isinstance(event, CustomEvent) and viewed(event, self._run) is not None:
            self._custom.setdefault(event.name, deque(maxlen=MOST_VALUES)).append(event.value)
        elif isinstance(event, SubagentStartedEvent):
            outer = self._names.get(event.parent_subagent_run_id or "")
            self._names[event.subagent_run_id] = nested(outer, event.name)
        self._events += 1
        if not self._may_wait(event):
            self._renew()

    def _may_wait(self, event: Event) -> bool:
        """Return whether the next look is early enough for an event: looking at a long text copies it."""
        if not isinstance(event, TextMessageContentEvent | ReasoningMessageContentEvent | ToolCallArgsEvent):
            return False
        self._arrived += len(event.delta)
        return self._arrived > _LONG and time.perf_counter() < self._moment.at + _SECONDS_APART

    def _renew(self) -> None:
        self._moment = self._look()
        self._news.set()

    def _look(self) -> _Moment:
        run = self._run
        return _Moment(run.messages, run.tool_executions, run.state, self._events, time.perf_counter())

    def _draw(self) -> None:
        while self._news.wait() and not self._is_over.is_set():
            self._news.clear()
            began = time.perf_counter()
            self._update(self._elements())
            took = time.perf_counter() - began
            self._is_over.wait(max(_SECONDS_APART, _REST * took))

    def _elements(self) -> list[Element]:
        moment = self._moment
        messages = of_this_call(moment.messages, lambda message_id: message_id not in self._known)
        seconds = seconds_text(time.perf_counter() - self._began)
        elements = conversation(messages, moment.executions, self._drawings, self._names)
        elements += [*self._custom_elements(), *state_fold(moment.state)]
        return [*elements, Line(f"running · {seconds} · {moment.events} events")]

    def _custom_elements(self) -> list[Element]:
        kept = [(name, tuple(values)) for name, values in list(self._custom.items())]
        return custom_events([ShownCustom(name, values[-1], values) for name, values in kept], self._drawings)

    def _update(self, elements: Sequence[Element]) -> None:
        self._handle.update(self._bundle(elements), raw=True)

    def _bundle(self, elements: Sequence[Element]) -> dict[str, str]:
        return bundle(typeset(elements) if self._math else elements)


class _Terminal:
    """The terminal: drawn in place, or line by line where it cannot draw.

    Args:
        run: The run, in its block.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lines = _terminal_view()

    @contextmanager
    def running(self) -> Generator[Callable[[Event], None]]:
        """Draw while the block lasts; the block gets the function that takes each event."""
        with self._lines.running():
            self._run.call.watch_tools(self._lines.execution)
            yield self._take
        result = self._run.partial
        for line in (*waiting_lines(result.interrupts, result.pending_tool_calls), ending_line(result)):
            self._lines.note(line.plain())

    def _take(self, event: Event) -> None:
        if not was_executed_here(event, self._run):
            self._lines.show(event, self._run.state, viewed(event, self._run))


def _terminal_view() -> LiveRun | PlainRun:
    """Return the view of the command line; the one that draws needs the extra `cli`."""
    from agui_client._cli.plain_view import PlainRun, WholeLines, is_screen_taken

    if is_screen_taken():
        return PlainRun(answers=WholeLines(sys.stdout), notes=sys.stderr)
    try:
        from agui_client._cli.live_run import LiveRun
        from agui_client._cli.watching import drawing_board
    except ModuleNotFoundError:
        return PlainRun(answers=sys.stdout, notes=sys.stderr)
    console = drawing_board()
    return PlainRun(answers=sys.stdout, notes=sys.stderr) if console is None else LiveRun(console)
