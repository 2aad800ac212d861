"""The demo on a terminal: what is going on is redrawn in place, what is done scrolls up and stays."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ag_ui.core import (
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from rich.console import Console, Group, RenderableType
from rich.json import JSON
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from agui_client._cli.blocks import Answer, Block, Call, Status, Tail, Thought
from agui_client._cli.output import one_line, summary

if TYPE_CHECKING:
    from agui_client.result import RunResult

_STATE_LINES = 9
"""Lines of the terminal that the state and the status take."""


class LiveView:
    """Draws the demo.

    Args:
        console: Where to.
        can_ask: Whether somebody sits there to answer.
    """

    def __init__(self, console: Console, *, can_ask: bool) -> None:
        self._console = console
        self._can_ask = can_ask
        self._blocks: dict[str, Block] = {}
        self._state: Any = None
        self._changed = ""
        self._status = Status()
        self._live: Live | None = None

    def begin(self, url: str, prompt: str) -> None:
        """Say what is going to happen."""
        self._console.print(Text(f"The demo agent answers at {url}", style="dim"))
        self._console.print(Text(f"> {prompt}", style="bold"), end="\n\n")

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Around each run: draw while it lasts."""
        self._status = Status()
        with Live(self._screen(), console=self._console, transient=True, refresh_per_second=15) as self._live:
            yield
        self._console.print(self._state_panel())

    def show(self, event: Event, state: Any) -> None:
        """Draw what one event adds."""
        self._state = state
        self._status.events += 1
        if isinstance(event, StateSnapshotEvent):
            self._changed = "snapshot"
        elif isinstance(event, StateDeltaEvent):
            self._changed = ", ".join(f"{operation.op} {operation.path}" for operation in event.delta)
        else:
            self._take(event)
        self._redraw()

    def ask(self, question: str) -> bool:
        """Put the agent's question to whoever sits there; only "y" and "yes" approve."""
        asked = Text.assemble(("? ", "bold yellow"), (question, "bold"), (" [y/N] ", "dim"))
        if not self._can_ask:
            self._console.print(asked.append("yes (nobody can type here, so the demo answers itself)"), end="\n\n")
            return True
        try:
            reply = self._console.input(asked)
        except EOFError:
            reply = ""
        self._console.print()
        return reply.strip().lower() in {"y", "yes"}

    def finish(self, results: Sequence[RunResult]) -> None:
        """Tell what the runs took."""
        for line in summary(results):
            self._console.print(Text(line, style="dim"))
        self._console.print(Text("Try it with a program of yours: agui demo --serve", style="dim"))

    def _take(self, event: Event) -> None:
        match event:
            case ReasoningMessageStartEvent():
                self._begin(event.message_id, Thought())
            case TextMessageStartEvent():
                self._begin(event.message_id, Answer())
            case ToolCallStartEvent():
                self._begin(event.tool_call_id, Call(event.tool_call_name))
            case ReasoningMessageContentEvent() | TextMessageContentEvent():
                self._blocks[event.message_id].add(event.delta)
            case ToolCallArgsEvent():
                self._blocks[event.tool_call_id].add(event.delta)
            case ReasoningMessageEndEvent() | TextMessageEndEvent():
                self._end(event.message_id)
            case ToolCallEndEvent():
                self._end(event.tool_call_id)
            case ToolCallResultEvent():
                self._keep(Text.assemble(("-> ", "dim"), (one_line(str(event.content)), "green")))
            case _:
                pass

    def _begin(self, item_id: str, block: Block) -> None:
        self._blocks[item_id] = block
        self._status.doing = block.doing

    def _end(self, item_id: str) -> None:
        block = self._blocks.pop(item_id)
        self._status.doing = block.doing_next
        self._keep(block.done(), gap=block.gap)

    def _keep(self, renderable: RenderableType, *, gap: bool = True) -> None:
        """Print above what is redrawn, where it stays."""
        # Drawn at once: what is printed now would otherwise stand there twice until the next refresh.
        self._redraw(refresh=True)
        self._console.print(Group(renderable, *(("",) if gap else ())))

    def _redraw(self, *, refresh: bool = False) -> None:
        if self._live is not None:
            self._live.update(self._screen(), refresh=refresh)

    def _screen(self) -> RenderableType:
        going_on = Tail(Group(*self._blocks.values()), max(self._console.height - _STATE_LINES, 3))
        return Group(going_on, self._state_panel(), self._status)

    def _state_panel(self) -> RenderableType:
        state = JSON.from_data(self._state, indent=None, ensure_ascii=False).text
        state.no_wrap, state.overflow = False, "fold"
        return Panel(state, title="state", subtitle=Text(self._changed), title_align="left", subtitle_align="right")
