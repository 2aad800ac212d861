"""Views that write plain lines, for output that is not a terminal: no control codes, and no questions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Protocol, TextIO

from agui_client.terminal._output import PROGRAM_HEADING, Writer, summary

if TYPE_CHECKING:
    from agui_client._core.run.result import RunResult


class _View(Protocol):
    """Something that is drawn."""

    def paused(self) -> AbstractContextManager[None]:
        """Leave the screen to other code while the block lasts."""
        ...


_on_screen: list[_View] = []


@contextmanager
def on_screen(view: _View) -> Generator[None]:
    """Count a view among those that questions interrupt, while the block lasts."""
    _on_screen.append(view)
    try:
        yield
    finally:
        _on_screen.remove(view)


def is_screen_taken() -> bool:
    """Return whether a run is being shown, so that another one is written as lines above its drawing."""
    return bool(_on_screen)


@contextmanager
def paused_screen() -> Generator[None]:
    """Interrupt all views, while the block lasts."""
    with ExitStack() as stack:
        for view in _on_screen:
            stack.enter_context(view.paused())
        yield


class WholeLines(StringIO):
    """A stream of whole lines for a terminal where something is drawn, which the half of a line would break.

    Args:
        out: The terminal.
    """

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._out.fileno()

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        return self._out.isatty()

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        super().write(text)
        *lines, rest = self.getvalue().split("\n")
        if lines:
            self._out.write("".join(f"{line}\n" for line in lines))
            self.seek(0)
            self.truncate()
            super().write(rest)
        return len(text)


class PlainView(Writer):
    """Writes runs as lines."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Write a run; end its last line afterwards."""
        try:
            with on_screen(self):
                yield
        finally:
            self.end()

    @contextmanager
    def paused(self) -> Generator[None]:
        """End the line before other code writes to the terminal."""
        self.end_line()
        yield


class PlainDemoView(PlainView):
    """Writes the demo as lines.

    Args:
        out: The stream to write to.
    """

    def __init__(self, out: TextIO) -> None:
        super().__init__(answers=out, notes=out, verbose=True)

    def begin(self, lines: Sequence[str], prompt: str) -> None:
        """Write what the demo is, and the prompt."""
        for line in (*lines, f"> {prompt}"):
            self.note(line)

    def ask(self, question: str) -> bool:
        """Answer the agent's question with yes, and write that."""
        self.note(f"question: {question}")
        self.note("answer: yes (there is no terminal to ask on, so the demo answers itself)")
        return True

    def finish(self, results: Sequence[RunResult], program: str) -> None:
        """Write the usage and the timings of the runs, and the program that does the same."""
        for line in (*summary(results), PROGRAM_HEADING):
            self.note(line)
        self.show_text(program)
