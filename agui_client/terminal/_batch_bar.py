"""The bar of a batch at a terminal, on stderr, while its loop runs."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agui_client.terminal._plain_view import is_screen_taken, on_screen

if TYPE_CHECKING:
    from agui_client.batch import Batch

_WIDTH = 20


@contextmanager
def bar_of(batch: Batch) -> Generator[None]:
    """Draw the progress of a batch while the block lasts, below what is printed; nothing of it is left."""
    console = Console(stderr=True)
    if console.is_dumb_terminal or is_screen_taken():
        yield
        return
    bar = _Bar(batch, console)
    with on_screen(bar), bar.drawn():
        yield


class _Bar:
    """A bar that questions of the terminal's handlers interrupt."""

    def __init__(self, batch: Batch, console: Console) -> None:
        self._batch = batch
        self._live = Live(
            console=console,
            get_renderable=self._line,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # a file or a pipe gets what is printed
        )

    @contextmanager
    def drawn(self) -> Generator[None]:
        """Draw while the block lasts."""
        self._live.start(refresh=True)
        try:
            yield
        finally:
            self._live.stop()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the screen to a question while the block lasts."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def _line(self) -> Table:
        progress = self._batch.progress
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(
                total=max(progress.total, 1), completed=progress.finished, width=_WIDTH, complete_style="green"
            ),
            Text(
                f"{progress}, {progress.tokens} tokens",
                style="red" if progress.failed else "",
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
        return line
