"""A run on a terminal: unfinished blocks are redrawn in place, finished ones scroll up and stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from ag_ui.core import (
    CustomEvent,
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from agui_client._core.ground.waiting import wait_for_end
from agui_client._rendering.app_text import app_line
from agui_client._rendering.story import EventStory, ToolCallStory
from agui_client._rendering.views import find_view
from agui_client.terminal._blocks import (
    AnswerBlock,
    Block,
    ExecutionBlock,
    Printable,
    Status,
    Tail,
    Thought,
    ToolCallBlock,
    ViewedActivity,
    ViewedCall,
    ViewedCustom,
)
from agui_client.terminal._lines import one_line
from agui_client.terminal._plain_view import on_screen

if TYPE_CHECKING:
    from agui_client._core.tools.context import ToolExecution
    from agui_client.terminal._plain_view import on_screen
from agui_client._rendering.views import Viewed

ItemEvent: TypeAlias = (
    ReasoningMessageStartEvent
    | ReasoningMessageContentEvent
    | ReasoningMessageEndEvent
    | TextMessageStartEvent
    | TextMessageContentEvent
    | TextMessageEndEvent
    | ToolCallStartEvent
    | ToolCallArgsEvent
    | ToolCallEndEvent
)
BlockT = TypeVar("BlockT", bound=Block)
_SECONDS_APART = 0.05
_STATUS_LINES = 2
"""The lines of the terminal that blocks may not use."""


class LiveView:
    """Draws runs.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._blocks: dict[tuple[str, str], Block] = {}
        self._status = Status()
        self.story = EventStory()
        """The speakers and the tool calls of the run so far."""
        self._live: Live | None = None
        self._is_running = False
        self._is_paused = False
        self._missed: list[RenderableType] = []
        self._is_apart = True
        # Questions pause the drawing from their own threads, and tools may report from others.
        self._lock = threading.RLock()
        self._due, self._is_over = threading.Event(), threading.Event()

    @contextmanager
    def running(self) -> Generator[None]:
        """Draw while a run lasts."""
        self._status, self._is_running, self._is_apart = Status(), True, True
        self._is_over.clear()
        drawing = threading.Thread(target=self._draw_views, name="agui_client.views", daemon=True)
        drawing.start()
        self._open()
        try:
            with on_screen(self):
                yield
        finally:
            self._is_over.set()
            self._due.set()
            wait_for_end(drawing)
            with self._lock:
                self._is_running = False
                for item in list(self._blocks):
                    self._end(item)
                self._close()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop drawing while other code writes to the terminal; print afterwards what was missed."""
        with self._lock:
            if not self._is_apart:
                self._keep("")
            self._is_paused = True
            self._close()
        try:
            yield
        finally:
            with self._lock:
                self._is_paused = False
                for renderable in self._missed:
                    self._print(renderable)
                self._missed.clear()
                self._open()

    def show(self, event: Event, state: Any, viewed: Viewed | None = None) -> None:
        """Draw an event.

        Args:
            state: The state with the event in it.
            viewed: The part of the event that a view draws.
        """
        with self._lock:
            self._status.events += 1
            if isinstance(viewed, CustomEvent):
                self._viewed("custom", viewed.name, lambda: ViewedCustom(viewed.name)).values.append(viewed.value)
            elif viewed is not None:
                self._viewed("activity", viewed.id, lambda: ViewedActivity(viewed)).activity = viewed
            elif (line := app_line(event)) is not None:
                self.note(line)
            self._take(event)
            self._due.set()
            self._redraw()

    def execution(self, execution: ToolExecution) -> None:
        """Draw the status of a tool's execution."""
        with self._lock:
            call, item = self.story.execute(execution), ("execution", execution.tool_call_id)
            if self._viewed_call(execution.tool_call_id) is not None:
                self._answer(call)
            elif call.is_over:
                self._blocks.pop(item, None)
                self._status.doing = "waiting"
                style = "green" if call.status == "succeeded" else "yellow"
                self._keep(Text(one_line(call.line), style=style), gap=False)
            else:
                self._blocks[item] = ExecutionBlock(call.line)
                self._status.doing = f"working on {one_line(call.name)}"
                self._redraw()

    def note(self, sentence: str) -> None:
        """Print a note about the run."""
        with self._lock:
            self._keep(Text(one_line(sentence), style="dim"), gap=False)

    def show_text(self, text: str) -> None:
        """Print the output of a command."""
        with self._lock:
            self._keep(Text(text), gap=False)

    def _take(self, event: Event) -> None:
        call = self.story.note(event)
        match event:
            case RunStartedEvent() if not self._is_apart:
                self._keep("")
            case ReasoningMessageStartEvent() | TextMessageStartEvent():
                self._begin(event, AnswerBlock() if isinstance(event, TextMessageStartEvent) else Thought())
            case ToolCallStartEvent() if call is not None:
                self._begin(event, ViewedCall(call) if find_view(("tool", call.name)) else ToolCallBlock(call))
            case ReasoningMessageContentEvent() | TextMessageContentEvent():
                self._blocks[_item(event)].add(event.delta)
            case ToolCallEndEvent() if (viewed := self._viewed_call(event.tool_call_id)) is not None:
                self._status.doing = viewed.doing_next
            case ReasoningMessageEndEvent() | TextMessageEndEvent() | ToolCallEndEvent():
                self._end(_item(event))
            case SubagentStartedEvent() | SubagentFinishedEvent() | SubagentErrorEvent():
                self._subagent(event)
            case ToolCallResultEvent() if call is not None and self._viewed_call(event.tool_call_id) is not None:
                self._answer(call)
            case ToolCallResultEvent() if call is not None:
                self._keep(Text(one_line(call.line), style="green" if call.status == "answered" else "yellow"))
            case _:
                pass

    def _subagent(self, event: SubagentStartedEvent | SubagentFinishedEvent | SubagentErrorEvent) -> None:
        """Show the begin of a subagent in the status, and keep its end if that is not a success."""
        if isinstance(event, SubagentStartedEvent):
            self._status.doing = f"{one_line(self.story.speakers.name(event.subagent_run_id))} is at work"
        elif (sentence := self.story.speakers.ending(event)) is not None:
            self._keep(Text(one_line(sentence), style="dim"), gap=False)

    def _draw_views(self) -> None:
        """Have views draw what has changed, while the run lasts: the run does not wait for them."""
        while self._due.wait() and not self._is_over.is_set():
            self._due.clear()
            for block in list(self._blocks.values()):
                block.draw(self._console)
            with self._lock:
                self._redraw()
            self._is_over.wait(_SECONDS_APART)

    def _begin(self, event: ItemEvent, block: Block) -> None:
        block.author = one_line(self.story.speakers.name(event.subagent_run_id))
        self._blocks[_item(event)] = block
        self._status.doing = f"{block.author}: {block.doing}" if block.author else block.doing

    def _end(self, item: tuple[str, str]) -> None:
        block = self._blocks.pop(item)
        block.draw(self._console)
        self._status.doing = block.doing_next
        self._keep(block.signed(block.done()), gap=block.gap)

    def _viewed(self, kind: str, item_id: str, make: Callable[[], BlockT]) -> BlockT:
        """Return the block of an activity or of custom events, which is made for the first event."""
        block = self._blocks.setdefault((kind, item_id), make())
        return cast("BlockT", block)

    def _viewed_call(self, tool_call_id: str) -> ViewedCall | None:
        """Return the block of a call without a result, if its tool has a view."""
        block = self._blocks.get(("call", tool_call_id))
        return block if isinstance(block, ViewedCall) else None

    def _answer(self, call: ToolCallStory) -> None:
        """Draw a call whose tool has a view; with its result it scrolls up."""
        if call.result is None:
            self._due.set()
            self._redraw()
        else:
            self._end(("call", call.tool_call_id))

    def _keep(self, renderable: RenderableType, *, gap: bool = True) -> None:
        """Print above the blocks that are redrawn; the text stays there."""
        kept, self._is_apart = Group(renderable, *(("",) if gap and renderable else ())), gap
        if self._is_paused:
            self._missed.append(kept)
            return
        # Redrawn at once: the old drawing would show the text a second time until the next refresh.
        self._redraw(refresh=True)
        self._print(kept)

    def _print(self, renderable: RenderableType) -> None:
        self._console.print(Printable(renderable))

    def _redraw(self, *, refresh: bool = False) -> None:
        if self._live is not None:
            self._live.update(self._screen(), refresh=refresh)

    def _open(self) -> None:
        if self._is_running and not self._is_paused:
            self._live = Live(self._screen(), console=self._console, transient=True, refresh_per_second=15)
            self._live.start()

    def _close(self) -> None:
        if self._live is not None:
            self._redraw()
            self._live.stop()
            self._live = None

    def _screen(self) -> RenderableType:
        below = self._below()
        height = self._console.height - _STATUS_LINES - self._lines_below
        blocks = Group(*(block.signed(block) for block in self._blocks.values()))
        return Printable(Group(Tail(blocks, max(height, 3)), *below, self._status))

    _lines_below = 0
    """The number of lines that `_below` takes."""

    def _below(self) -> list[RenderableType]:
        """Return the parts between the blocks and the status."""
        return []


def _item(event: ItemEvent) -> tuple[str, str]:
    """Return the kind and the id of what an event is about: a message and a call may share an id."""
    match event:
        case ToolCallStartEvent() | ToolCallArgsEvent() | ToolCallEndEvent():
            return "call", event.tool_call_id
        case TextMessageStartEvent() | TextMessageContentEvent() | TextMessageEndEvent():
            return "answer", event.message_id
        case _:
            return "thought", event.message_id
