"""The parts of a screen: one block for each message, call and execution in progress."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from agui_client._rendering.drawing import draw, drawn_text, is_rich
from agui_client._rendering.views import MOST_VALUES, Key, ShownCustom, shown_call
from agui_client.terminal._lines import one_line, printable

if TYPE_CHECKING:
    from ag_ui.core import ActivityMessage
    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from agui_client._rendering.story import ToolCallStory


_DEEPEST = 19
"""The level that no token of rich's Markdown has, unless something was left out below it."""


class Printable:
    """Content without control characters: everything that is drawn goes through here (SEC-8).

    The rendered text is checked, not its source: Markdown turns `&#x202e;` into a character.

    Args:
        content: The content to draw.
    """

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._content, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class Block:
    """A message or call that arrives in pieces."""

    doing = "working"
    """The text of the status while the block arrives."""
    doing_next = "working"
    """The text of the status after the block is complete."""
    gap = True
    """Whether an empty line follows the block."""
    author = ""
    """The subagent that the block is of; empty for the agent itself."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def content(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def add(self, delta: str) -> None:
        """Add the next piece."""
        self._pieces.append(delta)

    def draw(self, console: Console) -> None:
        """Have a view draw the block, if it has one."""

    def signed(self, content: RenderableType) -> RenderableType:
        """Return a form of the block under the name of its author."""
        return Group(Text(self.author, style="magenta"), content) if self.author else content

    def done(self) -> RenderableType:
        """Return the final form of the block."""
        return self.__rich__()

    def __rich__(self) -> RenderableType:
        return Text(self.content)


class Thought(Block):
    """Reasoning, folded into one line: its latest words while it arrives, its first ones afterwards."""

    doing = "thinking"

    def __init__(self) -> None:
        super().__init__()
        self._started_at = time.perf_counter()

    def done(self) -> RenderableType:
        """Return the time that it took, and its beginning."""
        seconds = time.perf_counter() - self._started_at
        return _folded(f"thought for {seconds:.1f} s: {one_line(self.content)}")

    def __rich__(self) -> RenderableType:
        return _folded(f"thinking: …{one_line(self.content)[-60:]}")


class AnswerBlock(Block):
    """A text message, as Markdown; a link shows its address."""

    doing = "answering"

    def __rich__(self) -> RenderableType:
        content = self.content
        markdown = Markdown(content, hyperlinks=False)
        # What nests deeper than the parser reads would be left out, and a person would not see it.
        is_whole = all(token.level < _DEEPEST for token in markdown.parsed)
        return markdown if is_whole else Text(content)


class ToolCallBlock(Block):
    """A tool call, with its arguments as they grow."""

    gap = False

    def __init__(self, call: ToolCallStory) -> None:
        super().__init__()
        self.call = call
        """The call as it is now."""
        self.doing = f"calling {one_line(call.name)}"
        self.doing_next = f"waiting for {one_line(call.name)}"

    def __rich__(self) -> RenderableType:
        name = one_line(self.call.name), "bold cyan"
        return Text.assemble(("tool ", "dim"), name, f" {one_line(self.call.arguments)}")


class ViewedCall(ToolCallBlock):
    """A call of a tool that has a view; the block stays until the call has its result."""

    gap = True

    def __init__(self, call: ToolCallStory) -> None:
        super().__init__(call)
        self._drawn = Drawn(("tool", call.name))

    def draw(self, console: Console) -> None:
        """Draw the call as it is now."""
        self._drawn.draw(lambda: shown_call(self.call), console)

    def __rich__(self) -> RenderableType:
        return self._drawn.or_else(super().__rich__() if self.call.result is None else Text(one_line(self.call.line)))


class ViewedActivity(Block):
    """An activity that has a view; the block stays until the run is over."""

    doing = doing_next = "waiting"

    def __init__(self, activity: ActivityMessage) -> None:
        super().__init__()
        self.activity = activity
        """The activity as it is now."""
        self._drawn = Drawn(("activity", activity.activity_type))

    def draw(self, console: Console) -> None:
        """Draw the activity as it is now."""
        self._drawn.draw(lambda: self.activity, console)

    def __rich__(self) -> RenderableType:
        return self._drawn.or_else(Text(f"activity {one_line(self.activity.activity_type)}", style="dim"))


class ViewedCustom(Block):
    """The custom events of a name that has a view; the block stays until the run is over.

    Args:
        name: The name of the events.
    """

    gap = False
    doing = doing_next = "waiting"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.values = deque[Any](maxlen=MOST_VALUES)
        """The values of the events so far."""
        self._name = name
        self._drawn = Drawn(("custom", name))

    def draw(self, console: Console) -> None:
        """Draw the events so far."""
        self._drawn.draw(lambda: ShownCustom(self._name, self.values[-1], tuple(self.values)), console)

    def __rich__(self) -> RenderableType:
        return self._drawn.or_else(Group())


class Drawn:
    """A drawing of a view, rendered for the terminal: the code of the application is not called while that is drawn.

    Args:
        key: The view.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._shown: object = None
        self._segments: list[Segment] | None = None
        self._lock = threading.Lock()

    def draw(self, look: Callable[[], object], console: Console) -> None:
        """Have the view draw its subject, unless that has not changed.

        Args:
            look: Returns the subject; called when no other thread is drawing any more.
            console: The terminal.
        """
        with self._lock:
            if (shown := look()) == self._shown:
                return
            # A console of its own: the terminal's may be locked by the thread that waits for this.
            apart = Console(file=StringIO(), width=console.width, force_terminal=True, force_jupyter=False)

            def render(drawn: Any) -> list[Segment]:
                """Render what the view returned, here, where it may fail."""
                return list(apart.render(drawn if is_rich(drawn) else Text(drawn_text(drawn))))

            self._shown, self._segments = shown, draw(self._key, shown, render)

    def or_else(self, usual: RenderableType) -> RenderableType:
        """Return the drawing; the usual form if the view made none."""
        return usual if self._segments is None else Segments(self._segments)


class ExecutionBlock(Block):
    """An execution of one of the application's tools.

    Args:
        line: Its status.
    """

    gap = False

    def __init__(self, line: str) -> None:
        super().__init__()
        self.add(line)

    def __rich__(self) -> RenderableType:
        return _folded(one_line(self.content))


class Status:
    """The last line: the current activity, the time since the start, and the number of events."""

    def __init__(self) -> None:
        self.doing = "waiting"
        self.events = 0
        self._started_at = time.perf_counter()
        self._spinner = Spinner("dots", style="cyan")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        seconds = time.perf_counter() - self._started_at
        self._spinner.update(text=Text(f"{self.doing} · {seconds:.1f} s · {self.events} events", style="dim"))
        yield self._spinner


class Tail:
    """The last lines of content that may be longer than the screen.

    Args:
        height: The number of lines to show.
    """

    def __init__(self, content: RenderableType, height: int) -> None:
        self._content = content
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._content, options, pad=False)[-self._height :]:
            yield from line
            yield Segment.line()


def _folded(line: str) -> Text:
    return Text(line, style="dim italic", no_wrap=True, overflow="ellipsis")
