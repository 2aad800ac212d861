"""A run, and the demo, where nothing can be drawn: plain lines, no control codes, no question nobody could answer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from agui_client._cli.output import Transcript, summary

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client.result import RunResult, ToolExecution


class PlainRun:
    """Writes runs as lines.

    Args:
        answers: Where the agent's text goes, and what is asked for.
        notes: Where everything else goes.
        verbose: Whether reasoning, state, usage and timings are told too.
    """

    def __init__(self, *, answers: TextIO, notes: TextIO, verbose: bool = False) -> None:
        self._transcript = Transcript(answers=answers, notes=notes, verbose=verbose)

    @contextmanager
    def running(self) -> Generator[None]:
        """Around each run."""
        try:
            yield
        finally:
            self._transcript.end_line()

    @contextmanager
    def paused(self) -> Generator[None]:
        """While somebody else writes to the terminal."""
        self._transcript.end_line()
        yield

    def show(self, event: Event, state: Any) -> None:
        """Write what one event adds."""
        self._transcript.show(event, state)

    def execution(self, execution: ToolExecution) -> None:
        """Write how far a tool has come."""
        self._transcript.execution(execution)

    def note(self, sentence: str) -> None:
        """Write a line beside the answers."""
        self._transcript.note(sentence)

    def tell(self, text: str) -> None:
        """Write what was asked for."""
        self._transcript.tell(text)


class PlainView(PlainRun):
    """Writes the demo as lines.

    Args:
        out: Where to.
    """

    def __init__(self, out: TextIO) -> None:
        super().__init__(answers=out, notes=out, verbose=True)

    def begin(self, url: str, prompt: str) -> None:
        """Say what is going to happen."""
        self.note(f"the demo agent answers at {url}")
        self.note(f"> {prompt}")

    def ask(self, question: str) -> bool:
        """Answer the agent's question, and say so."""
        self.note(f"question: {question}")
        self.note("answer: yes (there is no terminal to ask on, so the demo answers itself)")
        return True

    def finish(self, results: Sequence[RunResult]) -> None:
        """Write what the runs took."""
        for line in summary(results):
            self.note(line)
