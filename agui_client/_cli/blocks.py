"""What a screen is made of: one block per thing that is going on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from agui_client._cli.output import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


class Shown:
    """Whatever an agent had a part in, as a screen may have it: all that is drawn goes through here (SEC-8).

    What is drawn is looked at, not what was written: Markdown, for one, makes characters of `&#x202e;`.

    Args:
        content: What to draw.
    """

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._content, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class Block:
    """Something of the agent's that arrives in pieces."""

    doing = "working"
    """What the status says while it arrives."""
    doing_next = "working"
    """What the status says once it is there."""
    gap = True
    """Whether an empty line follows it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def content(self) -> str:
        """What has arrived so far."""
        return "".join(self._pieces)

    def add(self, delta: str) -> None:
        """Take the next piece."""
        self._pieces.append(delta)

    def done(self) -> RenderableType:
        """How it is shown for good."""
        return self.__rich__()

    def __rich__(self) -> RenderableType:
        return Text(self.content)


class Thought(Block):
    """Reasoning, folded into one line: its latest words while it goes on, its first ones afterwards."""

    doing = "thinking"

    def __init__(self) -> None:
        super().__init__()
        self._started_at = time.perf_counter()

    def done(self) -> RenderableType:
        """How long it took and how it began."""
        seconds = time.perf_counter() - self._started_at
        return _folded(f"thought for {seconds:.1f} s: {one_line(self.content)}")

    def __rich__(self) -> RenderableType:
        return _folded(f"thinking: …{one_line(self.content)[-60:]}")


class Answer(Block):
    """A text message, as Markdown; where a link leads is told."""

    doing = "answering"

    def __rich__(self) -> RenderableType:
        return Markdown(self.content, hyperlinks=False)


class Call(Block):
    """A tool call, with its arguments as they grow.

    Args:
        name: The tool's name.
    """

    gap = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = one_line(name)
        self.doing = f"calling {self._name}"
        self.doing_next = f"waiting for {self._name}"

    def __rich__(self) -> RenderableType:
        return Text.assemble(("tool ", "dim"), (self._name, "bold cyan"), f" {one_line(self.content)}")


class Work(Block):
    """A tool of ours at work.

    Args:
        line: What it is doing.
    """

    gap = False

    def __init__(self, line: str) -> None:
        super().__init__()
        self.add(line)

    def __rich__(self) -> RenderableType:
        return _folded(one_line(self.content))


class Status:
    """The last line: what goes on, since when, and how many events it took."""

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
    """The last lines of something that may be longer than the screen.

    Args:
        content: What to show.
        height: How many lines of it.
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
