"""The rows of a recording that another part of the program, or another program, is still writing."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from agui_client._rendering.inline_parts import escaped_json
from agui_client.inspector._rows import Inspection
from agui_client.recording._reading import read_line
from agui_client.recording._references import WholeInputs

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices


class LiveRows:
    """Reads a file line by line while it grows.

    Args:
        path: The file; it need not be there yet.
        prices: The prices of tokens; None for none.
    """

    def __init__(self, path: Path, prices: Prices | None = None) -> None:
        self.written: list[bytes] = []
        """The rows so far, each as JSON that can stand in a page."""
        self._path = path
        self._inspection = Inspection(prices)
        self._inputs = WholeInputs()
        self._position = 0
        self._lock = Lock()

    def catch_up(self) -> None:
        """Read the lines that were completed since the last call; several threads may call at once."""
        with self._lock:
            if not self._path.exists():
                return
            with self._path.open("rb") as file:
                file.seek(self._position)
                *whole, _ = file.read().split(b"\n")
            self._position += sum(len(text) + 1 for text in whole)
            for line in map(read_line, whole):
                # A program that was killed may have left half a line.
                if line is not None and not isinstance(line, str):
                    self.written.append(escaped_json(self._inspection.row(self._inputs.restore(line))))
