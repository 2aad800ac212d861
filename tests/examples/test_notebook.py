"""The example notebook runs from top to bottom without a network, and its saved outputs are those of such a run."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("nbclient", reason="nbclient runs the notebook: pip install 'agui-client[dev]'")
pytest.importorskip("ipykernel", reason="ipykernel is the notebook's kernel: pip install 'agui-client[dev]'")
pytest.importorskip("markdown_it", reason="the saved outputs have Markdown as HTML")
from support.made_notebook import executed, outline, read

ANEW = "make it anew: PYTHONPATH=.:tests python -m support.made_notebook"


@pytest.fixture(scope="module")
def saved() -> Any:
    return read()


def html_of(notebook: Any, source: str) -> list[str]:
    """The HTML of the outputs of the cell with a text in it."""
    cell = next(each for each in notebook.cells if each.cell_type == "code" and source in each.source)
    return [output.data["text/html"] for output in cell.outputs if "data" in output]


def test_the_notebook_runs_again_to_the_outputs_that_are_saved(saved: Any) -> None:
    assert outline(executed()) == outline(saved), ANEW


def test_the_saved_notebook_shows_everything_without_a_kernel(saved: Any) -> None:
    (live,) = html_of(saved, "await show(")
    assert "<strong>ferry</strong>" in live
    answered, approved, _ = filter(None, html_of(saved, "NotebookApprover"))  # the places of the forms are empty
    assert "Answered by you" in answered
    assert "count 4 → 2" in approved
    _, table = html_of(saved, "run_many")
    assert table.index("RunFailedError") < table.index("Take the bus.")  # failures first
    (inspected,) = html_of(saved, "result.inspect(prices")
    assert ("agui-timeline" in inspected, "with the prices that you gave" in inspected) == (True, True)
    (compared,) = html_of(saved, "result.inspect(other)")
    assert "call 1: differs in request, messages, state, tools" in compared
    kinds = {kind for cell in saved.cells for output in cell.get("outputs", ()) for kind in output.get("data", ())}
    assert kinds == {"text/html", "text/markdown", "text/plain"}  # and no widget, which would need its kernel
    assert not [output for cell in saved.cells for output in cell.get("outputs", ()) if output.output_type == "error"]
