"""The pictures of the notebook and of the inspector in README and docs.

`PYTHONPATH=.:tests python -m support.pictures` draws them with Chromium: from the saved outputs of the example
notebook, and from the page of a recording. Each picture names the HTML that it was drawn from by its hash, so that
tests/examples/test_pictures.py finds those that are out of date without a browser.
"""

from __future__ import annotations

import hashlib
import html
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

from agui_client.inspector import inspector_page
from agui_client.recording import Recording
from support.browser import FRAME, chromium
from support.made_notebook import read

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
RECORDING = PROJECT / "tests" / "fixtures" / "inspected_demo.jsonl"
MOST_BYTES = 165_000
_KEYWORD = b"agui-drawn-from"
_STYLE = (
    "body{margin:0;padding:14px 20px;background:#fff;font:14px/1.45 system-ui,sans-serif}"
    "pre.cell{background:#f5f5f5;border:1px solid #e0e0e0;margin:10px 0 8px;padding:6px 10px;max-width:740px;"
    "font:13px/1.4 ui-monospace,monospace;white-space:pre-wrap}"
    "[data-theme=dark]{background:#111;color:#ddd}[data-theme=dark] pre.cell{background:#1c1c1c;border-color:#444}"
)
Scheme: TypeAlias = Literal["light", "dark"]


def notebook_page(scheme: Scheme) -> bytes:
    """Return the HTML of some cells of the example notebook, with their outputs as they are saved."""
    return _cells(scheme, "await show(", "NotebookApprover", "run_many")


def comparison_page(scheme: Scheme) -> bytes:
    """Return the HTML of the last cells, in which a run is inspected and compared."""
    return _cells(scheme, "result.inspect(other)")


def page_of_inspector(scheme: Scheme) -> bytes:
    """Return the inspector's page of a recording of the demo agent, which has the colours of the system."""
    return inspector_page(Recording.read(RECORDING), prices={"demo-script": (1.25, 10)})


PICTURES: dict[str, tuple[Callable[[Scheme], bytes], Scheme, int]] = {
    "notebook.png": (notebook_page, "light", 960),
    "notebook-dark.png": (notebook_page, "dark", 960),
    "inspector.png": (page_of_inspector, "light", 960),
    "inspector-dark.png": (page_of_inspector, "dark", 960),
    "comparison.png": (comparison_page, "light", 800),
}
"""The pictures in docs/: the HTML that each is drawn from, its colours, and the width of the window."""


def _cells(scheme: Scheme, *parts: str) -> bytes:
    """Return cells with their outputs; of a cell's lines, the last ones."""
    shown = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><style>{_STYLE}</style><body data-theme="{scheme}">'
    ]
    cells: list[Any] = [cell for cell in read().cells if cell.cell_type == "code"]
    for part in parts:
        cell = next(each for each in cells if part in each.source)
        lines = cell.source.split("\n")
        begin = max((place + 1 for place, line in enumerate(lines) if not line), default=0)
        shown.append(f'<pre class="cell">{html.escape(chr(10).join(lines[begin:][-4:]))}</pre>')
        shown += [output.data["text/html"] for output in cell.outputs if "data" in output]
    return "".join([*shown, "</body></html>"]).encode()


def drawn_from(picture: bytes) -> str | None:
    """Return the hash of the HTML that a picture was drawn from; None if it names none."""
    _, found, rest = picture.partition(b"tEXt" + _KEYWORD + b"\0")
    return rest[:64].decode() if found else None


def hash_of(page: bytes) -> str:
    """Return the name of the HTML that a picture is drawn from."""
    return hashlib.sha256(page).hexdigest()


def _signed(picture: bytes, page: bytes) -> bytes:
    """Return a PNG with a chunk of text that names the HTML, behind the header, which is 33 bytes long."""
    content = b"tEXt" + _KEYWORD + b"\0" + hash_of(page).encode()
    chunk = (len(content) - 4).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
    return picture[:33] + chunk + picture[33:]


def _look(page: Page) -> bytes:
    is_inspector = page.locator("#timeline").count() == 1
    if is_inspector:
        page.set_viewport_size({"width": 960, "height": 600})
        page.locator("#messages").evaluate("(panel) => panel.scrollTo(0, panel.scrollHeight)")
        page.evaluate(FRAME)
    # The inspector fills its window; a notebook has the height of its cells.
    return page.screenshot(full_page=not is_inspector)


def main() -> int:
    """Draw the pictures that are out of date; return the number of those that are too large."""
    too_large = 0
    with chromium() as browser, TemporaryDirectory() as folder:
        for name, (make, scheme, width) in PICTURES.items():
            page, file = make(scheme), DOCS / name
            if file.exists() and drawn_from(file.read_bytes()) == hash_of(page):
                continue
            place = Path(folder) / "page.html"
            place.write_bytes(page)
            picture, _ = browser.visit(place, _look, width=width, scheme=scheme)
            file.write_bytes(_signed(picture, page))
            too_large += file.stat().st_size > MOST_BYTES
            sys.stdout.write(f"{file.relative_to(PROJECT)}: {file.stat().st_size} bytes\n")
    return too_large


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
