"""A run that is in progress, in one output of a cell.

Where the page has widgets, one draws the run, at most 4 times a second, and gets only what is new. That the page has
them is known when the widget's script answers; until then, and where it never does, the output is drawn anew as HTML.
Either way static content, which a saved notebook keeps, is what stands there in the end.

To change

- a run that is in progress, in a cell: this module says what is new, `notebook/live_run.js` changes the page
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import (
    ReasoningMessageContentEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
)

from agui_client._core.ground.waiting import wait_for_end
from agui_client._core.verbs.async_run import AgentRun
from agui_client._rendering.drawing import Drawings
from agui_client._rendering.story import Speakers, calls_in, time_text
from agui_client.a2ui import Surface, Surfaces
from agui_client.notebook._cell_widget import CellWidget, has_widgets
from agui_client.notebook._content import conversation, custom_events, of_result, of_this_call, state_fold
from agui_client.notebook._elements import ROOT_CLASSES, Line, bundle, page, typeset
from agui_client.notebook._surface_elements import painted, progress_lines

if TYPE_CHECKING:
    from ag_ui.core import CustomEvent, Event, Message

    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.interrupts import AnsweredInterrupt
    from agui_client._core.verbs.sync_run import SyncAgentRun
    from agui_client.notebook._elements import Element

    Run = AgentRun | SyncAgentRun

_SECONDS_APART = 0.05
_WIDGET_SECONDS_APART = 0.25
_ANSWER_TIMEOUT = 2.0
"""The seconds after which a page that did not answer is taken for one without widgets."""
_MOST_PER_SECOND = 30_000
"""The number of characters that drawing anew may send a second, as a saved notebook and a browser get them all."""
_LONG = 100_000
"""The number of characters in a call after which a piece of text may be shown a moment later."""
_REST = 3
"""A drawing that takes long is followed by a pause of this many times as long."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A run after an event; nothing in it changes any more."""

    messages: Sequence[Message]
    executions: Sequence[ToolExecution]
    answered: Sequence[AnsweredInterrupt]
    custom: Sequence[CustomEvent]
    state: Any
    events: int
    at: float


class LiveCell:
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
        # Of this display alone, which looks in a thread of its own.
        self._surfaces = Surfaces(before.messages)
        self._revisions = {surface_id: each.revision for surface_id, each in self._surfaces.items()}
        self._speakers = Speakers(before.subagents)
        self._drawings = Drawings()
        self._events = self._arrived = 0
        self._moment = self._look()
        self._began = time.perf_counter()
        self._is_over, self._due = threading.Event(), threading.Event()
        # A sync run blocks the thread in which the script's answer, and a press of Stop, would arrive.
        self._output = _WidgetOutput(run, self._due.set) if isinstance(run, AgentRun) and has_widgets() else _Output()
        self._output.draw(self._blocks(), self._line())

    @contextmanager
    def running(self) -> Generator[Callable[[Event], None]]:
        """Draw while the block lasts, and once more after it; the block gets the function that takes each event."""
        # With the context of the cell, which its output belongs to.
        drawing = threading.Thread(target=copy_context().run, args=(self._draw,), name="agui_client.show", daemon=True)
        drawing.start()
        self._run.call.observers.watch_tools(lambda _: self._renew())
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
            self._due.set()
            wait_for_end(drawing)
            partial = self._run.partial
            elements = of_result(partial, self._changed(partial.messages))
            elements = [*elements, Line(ended, "bad")] if ended else elements
            self._output.end(typeset(elements) if self._math else elements)

    def _take(self, event: Event) -> None:
        if isinstance(event, SubagentStartedEvent):
            self._speakers.begin(event)
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
        self._due.set()

    def _look(self) -> _Moment:
        run = self._run
        answered, now = run.call.answered, time.perf_counter()
        return _Moment(run.messages, run.tool_executions, answered, run.custom, run.state, self._events, now)

    def _draw(self) -> None:
        while self._due.wait() and not self._is_over.is_set():
            self._due.clear()
            began = time.perf_counter()
            pause = self._output.draw(self._blocks(), self._line())
            took = time.perf_counter() - began
            self._is_over.wait(max(pause - took, _REST * took))

    def _blocks(self) -> list[tuple[str, Element]]:
        """Describe the run so far in blocks, each with a name that it keeps while it changes."""
        moment = self._moment
        messages = of_this_call(moment.messages, lambda message_id: message_id not in self._known)
        calls = calls_in(messages, moment.executions, moment.answered, self._speakers)
        chat = conversation(messages, calls, self._drawings, self._speakers, is_live=True)
        blocks = [(f"message {place}", each) for place, each in enumerate(typeset(chat) if self._math else chat)]
        surfaces = [*painted(self._changed(moment.messages)), *progress_lines(self._surfaces)]
        blocks += [(f"surface {place}", each) for place, each in enumerate(surfaces)]
        custom = custom_events(moment.custom, self._drawings)
        blocks += [(f"custom {place}", each) for place, each in enumerate(custom)]
        return [*blocks, *(("state", each) for each in state_fold(moment.state))]

    def _changed(self, messages: Sequence[Message]) -> list[Surface]:
        """Return the surfaces that the call made or changed, of earlier messages, too."""
        self._surfaces.update(messages)
        return [each for each in self._surfaces.values() if self._revisions.get(each.id) != each.revision]

    def _line(self) -> Line:
        taken = time_text(time.perf_counter() - self._began, self._run.call.people_time.seconds)
        return Line(f"running · {taken} · {self._moment.events} events")


class _Output:
    """An output that is drawn anew as HTML, less often the larger it is.

    Args:
        handle: The handle of the output; None makes one.
    """

    def __init__(self, handle: Any = None) -> None:
        self._handle = handle

    def draw(self, blocks: Sequence[tuple[str, Element]], line: Line) -> float:
        """Draw the run so far.

        Args:
            blocks: Its parts, by their names.
            line: Its progress.

        Returns:
            The time until the next drawing, in seconds.
        """
        content = bundle([*(each for _, each in blocks), line])
        self._put(content)
        return max(_SECONDS_APART, sum(map(len, content.values())) / _MOST_PER_SECOND)

    def end(self, elements: Sequence[Element]) -> None:
        """Draw the run that is over."""
        self._put(bundle(elements))

    def _put(self, content: Mapping[str, str]) -> None:
        if self._handle is None:
            self._handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class _WidgetOutput:
    """A widget that is sent what is new.

    Args:
        run: The run, which Stop cancels.
        renew: Called when the page wants to see the run so far.
    """

    def __init__(self, run: AgentRun, renew: Callable[[], None]) -> None:
        self._run, self._renew = run, renew
        self._id = f"agui-{uuid4().hex}"
        self._widget: CellWidget | None = None
        self._sent: dict[str, str] = {}
        self._number = 0
        self._has_answered, self._wants_all = False, False
        self._gives_up_at = time.perf_counter() + _ANSWER_TIMEOUT
        self._instead: _Output | None = None
        """The output that is drawn anew, once the page did not answer."""

    def draw(self, blocks: Sequence[tuple[str, Element]], line: Line) -> float:
        """Draw the run so far; see `_Output.draw`."""
        if self._widget is None:
            static = bundle([*(each for _, each in blocks), line])
            shown = {"classes": ROOT_CLASSES, "replaced_by": self._id}
            self._widget = CellWidget("live_run", shown, static, self._receive)
        elif self._instead is not None:
            return self._instead.draw(blocks, line)
        elif self._has_answered:
            self._send(self._widget, {name: each.html() for name, each in blocks}, line)
        elif time.perf_counter() > self._gives_up_at:
            self._instead = _Output(self._widget.replace(bundle([*(each for _, each in blocks), line])))
        return _WIDGET_SECONDS_APART

    def end(self, elements: Sequence[Element]) -> None:
        """Put the static content in the place of the widget."""
        if self._instead is not None:
            self._instead.end(elements)
        elif self._widget is not None:
            # To pages that were opened anew, which have no output that would be replaced.
            self._widget.send({"ended": page(elements)})
            self._widget.replace(bundle(elements, element_id=self._id))

    def _send(self, widget: CellWidget, fresh: dict[str, str], line: Line) -> None:
        is_whole, self._wants_all = self._wants_all, False
        before = {} if is_whole else self._sent
        changes = [
            (name, *splice(before.get(name, ""), html)) for name, html in fresh.items() if before.get(name) != html
        ]
        message = {"number": self._number, "keys": [*fresh], "changes": changes, "line": line.plain(), "can_stop": True}
        widget.send({**message, "whole": True} if is_whole else message)
        self._sent, self._number = fresh, self._number + 1

    def _receive(self, message: Mapping[str, Any]) -> None:
        if "stop" in message:
            self._run.cancel()
        elif "ready" in message:
            self._has_answered = self._wants_all = True
            self._renew()


def splice(before: str, after: str) -> tuple[int, int, str]:
    """Return how one text becomes another.

    Returns:
        The number of characters that stay at the beginning, the number that stay at the end (both in the UTF-16 units
        of JavaScript), and the text between them.
    """
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    return _units(before[:start]), _units(before[len(before) - end :]), after[start : len(after) - end]


def _shared(one: str, other: str) -> int:
    """Return the length of the part that two texts begin with."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
