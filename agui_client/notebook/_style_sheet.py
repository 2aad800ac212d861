"""The style sheet of the outputs of a notebook, which stands in one cell, and not in each output.

JupyterLab and Notebook 7 say with each execution which cell it is of, and which cells were deleted: so it is known
whether the cell with the style sheet is still there as it was. Other front ends say neither, or show each output in a
document of its own; there each output has the style sheet.

To change

- which outputs have the style sheet: `sheet_for_output` here; the rules are in `_rendering/style.py`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from agui_client._rendering.style import STYLE

_SHEET = f"<style>{STYLE}</style>"
_KEPT_SHEET = (
    f"<style data-agui>{STYLE}</style>"
    "<script>(() => { const sheet = document.currentScript?.previousElementSibling;"
    "if (!sheet || document.head.querySelector('style[data-agui]')?.textContent === sheet.textContent) return;"
    "document.head.append(sheet.cloneNode(true)); })()</script>"
)
"""With a copy for the page, which outlives a cell that is scrolled away or cleared, where scripts run."""


class Holder:
    """The cell whose outputs have the style sheet."""

    def __init__(self) -> None:
        self.cell_id: str | None = None
        """The id of the cell; None if there is none, or it was executed anew or deleted."""
        self._watched: Any = None

    def watch(self, shell: Any) -> None:
        """Have the shell report each execution, as outputs of the cell vanish when it is executed anew."""
        if self._watched is not shell:
            self._watched = shell
            shell.events.register("pre_run_cell", self._forget)

    def _forget(self, info: object) -> None:
        execution = _execution(self._watched)
        if self.cell_id in (execution.get("cellId"), *execution.get("deletedCells", ())):
            self.cell_id = None


_HOLDER = Holder()


def sheet_for_output() -> str:
    """Return the style sheet for an output of the cell that is being executed; empty if another cell has it."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    execution = _execution(shell)
    if "deletedCells" not in execution or "cellId" not in execution:
        return _SHEET
    _HOLDER.watch(shell)
    if _HOLDER.cell_id is None:
        _HOLDER.cell_id = execution["cellId"]
    return _KEPT_SHEET if execution["cellId"] == _HOLDER.cell_id else ""


def _execution(shell: Any) -> Mapping[str, Any]:
    """Return what the front end says of the execution that this code belongs to."""
    parent: Any = shell.get_parent() if hasattr(shell, "get_parent") else {}
    metadata: Mapping[str, Any] = parent.get("metadata", {})
    return metadata
