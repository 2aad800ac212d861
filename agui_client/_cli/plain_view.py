"""The demo where nothing can be drawn: plain lines, no control codes, and no question that nobody could answer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from agui_client._cli.output import Transcript, summary

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client.result import RunResult


class PlainView:
    """Writes the demo as lines.

    Args:
        out: Where to.
    """

    def __init__(self, out: TextIO) -> None:
        self._transcript = Transcript(answers=out, notes=out, verbose=True)

    def begin(self, url: str, prompt: str) -> None:
        """Say what is going to happen."""
        self._transcript.note(f"the demo agent answers at {url}")
        self._transcript.note(f"> {prompt}")

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Around each run."""
        yield
        self._transcript.end_line()

    def show(self, event: Event, state: Any) -> None:
        """Write what one event adds."""
        self._transcript.show(event, state)

    def ask(self, question: str) -> bool:
        """Answer the agent's question, and say so."""
        self._transcript.note(f"question: {question}")
        self._transcript.note("answer: yes (there is no terminal to ask on, so the demo answers itself)")
        return True

    def finish(self, results: Sequence[RunResult]) -> None:
        """Write what the runs took."""
        for line in summary(results):
            self._transcript.note(line)
