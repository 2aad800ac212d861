"""The example notebook, executed with a person who answers its questions; no page and no network is needed.

`PYTHONPATH=.:tests python -m support.made_notebook` executes it and saves its outputs; tests/examples/test_notebook.py
executes it again, and compares.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from support.notebook_page import NotebookPage

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "examples" / "notebook.ipynb"
_SECONDS = 90
_ANSWERS = (("Answer", {"Name for the tickets": "Ann"}), ("Approve", {"count": "2"}))
"""The button that the person presses at each question, and the fields that are filled in before."""
_SECONDS_TEXT = r"\d+(?:\.\d+)?(?:e-\d+)? ?(?:m?s|seconds|min)\b|\b\d+\.\d{3}\b|\d\d:\d\d\b"
_CHANGING = re.compile(rf"{_SECONDS_TEXT}|\b[0-9a-f]{{8}}-[0-9a-f-]{{27}}|:\d{{4,5}}\b")
"""Times and durations, generated ids, and ports."""

Formats = Any


class _Client(NotebookClient):
    """Executes a notebook, and answers the questions of its cells as a page would."""

    def __init__(self, notebook: Any) -> None:
        # The kernel's own way of shutting down is deprecated in the kernel's own eyes.
        super().__init__(notebook, kernel_name="python3", timeout=_SECONDS, coalesce_streams=True, record_timing=False)
        self._page = NotebookPage(self._send)
        self._left = [*_ANSWERS]

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Take in a message of the kernel's, and answer the question that it asks."""
        self._page.receive(msg["msg_type"], msg["content"])
        if self._left and self._page.can_press(self._left[0][0]):
            choice, fields = self._left.pop(0)
            for label, text in fields.items():
                self._page.fill(label, text)
            self._page.press(choice)
        return super().process_message(msg, cell, cell_index)

    def _send(self, comm_id: str, data: dict[str, Any]) -> None:
        kernel: Any = self.kc
        kernel.shell_channel.send(kernel.session.msg("comm_msg", {"comm_id": comm_id, "data": data}))


def read() -> Any:
    """Read the notebook as it is saved."""
    formats: Formats = nbformat
    return formats.read(NOTEBOOK, as_version=4)


def executed() -> Any:
    """Return the notebook with new outputs."""
    notebook = read()
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONUTF8": "1"}
    strict = "error,ignore::PendingDeprecationWarning"
    _Client(notebook).execute(env={**environment, "PYTHONWARNINGS": strict})
    notebook.metadata.pop("widgets", None)  # those that are over have static content in their places
    return notebook


def outline(notebook: Any) -> list[list[str]]:
    """Return what a person would compare of each output: its kind, and its text without times, ids and ports."""
    return [[line for output in cell.get("outputs", ()) for line in _outline(output)] for cell in notebook.cells]


def _outline(output: Any) -> list[str]:
    if output.output_type == "stream":
        return [output.name, *_CHANGING.sub("#", output.text).splitlines()]
    data = output.get("data", {})
    text = _CHANGING.sub("#", data.get("text/plain", str(output)))
    # Bars show when something happened.
    lines = [re.sub("[█▒░·]{5,}|[▁▂▃▄▅▆▇█]{3,}", "#", line).rstrip() for line in text.splitlines()]
    return [f"{output.output_type} {', '.join(sorted(data))}", *(line for line in lines if line.strip())]


def main() -> None:
    """Execute the notebook, and save it with its outputs."""
    formats: Formats = nbformat
    formats.write(executed(), NOTEBOOK)


if __name__ == "__main__":
    main()
