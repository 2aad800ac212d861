"""The output of a notebook's cell, in a test without a notebook."""

from __future__ import annotations

import time

import pytest


class Cell:
    """The output of a cell: each drawing, and when it was made."""

    def __init__(self) -> None:
        self.drawings: list[dict[str, str]] = []
        self.moments: list[float] = []

    def update(self, content: dict[str, str], *, raw: bool, display_id: bool = True) -> Cell:
        """Take a drawing, as IPython's `display` and its handles do."""
        assert raw
        self.drawings.append(content)
        self.moments.append(time.monotonic())
        return self

    def wait_for(self, part: str) -> str:
        """Wait until the latest drawing contains a text; return the drawing."""
        deadline = time.monotonic() + 10
        while part not in (shown := self.drawings[-1]["text/plain"]) and time.monotonic() < deadline:
            time.sleep(0.01)
        return shown


def shown_cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Make `show` believe that it draws in a notebook."""
    shown = Cell()
    monkeypatch.setattr("agui_client.notebook._showing.in_notebook", lambda: True)
    monkeypatch.setattr("agui_client.notebook._live_cell.has_widgets", lambda: False)
    monkeypatch.setattr("IPython.display.display", shown.update)
    return shown
