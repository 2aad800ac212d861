"""The demo on a terminal: a live run, with the state below it, and a question at its end.

To change

- the words of a difference that is shown: of the state in a terminal, this module from `changed_places` in
  `recording/_matching.py`; of requests and of recordings, `differences` in `recording/_matching.py`, which
  `inspector/_comparison.py` calls for each aspect. The inspector shows the patches of `inspector/_response_changes.py`
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ag_ui.core import Event
from rich.console import Console, RenderableType
from rich.json import JSON
from rich.panel import Panel
from rich.text import Text

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.traits import STATE_EVENTS
from agui_client.recording._matching import ABSENT, changed_places
from agui_client.terminal._lines import one_line, printable
from agui_client.terminal._live_run import LiveView
from agui_client.terminal._output import PROGRAM_HEADING, summary

if TYPE_CHECKING:
    from agui_client._core.run.result import RunResult
    from agui_client._rendering.views import Viewed

_LONGEST_VALUE, _SHOWN = 40, 2


class DemoView(LiveView):
    """Draws the demo.

    Args:
        console: The terminal.
        can_ask: Whether a user can answer there.
    """

    _lines_below = 7

    def __init__(self, console: Console, *, can_ask: bool) -> None:
        super().__init__(console)
        self._can_ask = can_ask
        self._state: Any = None
        self._changed = ""

    def begin(self, lines: Sequence[str], prompt: str) -> None:
        """Print what the demo is, and the prompt."""
        for line in lines:
            self._print(Text(line, style="dim"))
        self._print(Text(f"> {prompt}\n", style="bold"))

    @contextmanager
    def running(self) -> Generator[None]:
        """Draw while a run lasts, and print its state at the end."""
        with super().running():
            yield
        self._print(self._state_panel())

    def show(self, event: Event, state: Any, viewed: Viewed | None = None) -> None:
        """Draw an event."""
        if isinstance(event, STATE_EVENTS):
            self._changed = _described(self._state, state)
        self._state = state
        super().show(event, state, viewed)

    def ask(self, question: str) -> bool:
        """Ask the user the agent's question; only "y" and "yes" approve."""
        asked = Text.assemble(("? ", "bold yellow"), (printable(question), "bold"), (" [y/N] ", "dim"))
        if not self._can_ask:
            self._print(asked.append("yes (there is no terminal to ask on, so the demo answers itself)\n"))
            return True
        try:
            reply = self._console.input(asked)
        except EOFError:
            reply = ""
        self._console.print()
        return reply.strip().lower() in {"y", "yes"}

    def finish(self, results: Sequence[RunResult], program: str) -> None:
        """Print the usage and the timings of the runs, and the program that does the same."""
        for line in summary(results):
            self._print(Text(line, style="dim"))
        self._print(Text(f"\n{PROGRAM_HEADING}\n", style="bold"))
        # As it is, so that it can be copied: a line is not folded with spaces.
        self._print(Text(program, style="cyan", no_wrap=True, overflow="ignore"))

    def _below(self) -> list[RenderableType]:
        return [self._state_panel()]

    def _state_panel(self) -> RenderableType:
        state = JSON.from_data(self._state, indent=None, ensure_ascii=False).text
        state.no_wrap, state.overflow = False, "fold"
        return Panel(state, title="state", subtitle=Text(self._changed), title_align="left", subtitle_align="right")


def _described(before: Any, after: Any) -> str:
    """Say in a line what an event changed in the state."""
    said: list[str] = []
    for path, _, new in changed_places(before, after):
        value = "is gone" if new is ABSENT else f"= {json.dumps(new, ensure_ascii=False)}"
        said.append(f"{path or 'the state'} {cut_short(value, _LONGEST_VALUE)}")
    if len(said) > _SHOWN:
        said[_SHOWN:] = [f"{len(said) - _SHOWN} more"]
    return one_line(", ".join(said)) or "nothing changed"
