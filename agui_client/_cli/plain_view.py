"""Views that write plain lines, for output that is no terminal: no control codes, and no questions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from agui_client._cli.output import PROGRAM_HEADING, Transcript, summary

if TYPE_CHECKING:
    from agui_client._run.result import RunResult


class PlainRun(Transcript):
    """Writes runs as lines."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Write a run; end its last line afterwards."""
        try:
            yield
        finally:
            self.end_line()

    @contextmanager
    def paused(self) -> Generator[None]:
        """End the line before other code writes to the terminal."""
        self.end_line()
        yield


class PlainView(PlainRun):
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
