"""`python -m tests.programs.surfaces_browser`: a ferry is booked in JupyterLab, on a surface of a pydantic-ai agent.

The agent has a tool `render_a2ui`, and is served by its own AG-UI adapter. In a notebook in Chromium, a person sees the
surface while the run lasts, touches a field, is told what is missing, presses too early, corrects, and presses; the
next run books, and its cell shows the surface again. The notebook is saved, opened without a kernel, and has it, too.
It takes pydantic-ai in this environment and makes one with JupyterLab, as `notebook_browser` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agui_client.testing import serve
from programs.notebook_browser import made, notebook, run_first, serving
from support.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ASKING = """
from agui_client import HttpAgent
from agui_client.a2ui import A2UI
from agui_client.notebook import pressed, show

agent = HttpAgent("{url}").use(A2UI())
result = await show(agent.stream("A ferry, please"))
"""
PRESSING = """
action = await pressed(agent.surfaces["ferry"])
print("PRESSED", dict(action.context))
"""
BOOKING = "await agent.run_agent(**action.run_options())"
SHOWING = "await show(agent.stream(**action.run_options()))"
SEEN = [
    "shown by the run: Nothing is booked yet.",
    "complains before a field was touched: no",
    "complains after it was touched: Who is going?",
    "pressed too early: 'book' cannot be pressed yet: Who is going?",
    "typed letter by letter: Ann Lee",
    "printed: PRESSED {'name': 'Ann Lee', 'ferry': 'dusk'}",
    "left in the cell: Ann Lee, and nothing to press",
    "chosen still in the first cell: dawn",
    "shown again by the next run: Booked dusk for Ann Lee.",
    "shown again while another run lasts: Booked dusk for Ann Lee.",
    "saved: Booked dusk for Ann Lee.",
]


def _cell(page: Page, number: int) -> Locator:
    return page.locator(".jp-CodeCell").nth(number)


def _run(page: Page, number: int) -> Locator:
    cell = _cell(page, number)
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    return cell


def book(page: Page, pictures: Path) -> list[str]:
    """Do what a person does with the cells of the notebook; return what was seen."""
    page.set_viewport_size({"width": 1200, "height": 1300})
    run_first(page)
    said = _cell(page, 0).locator(".agui-surface .agui-text").last
    said.wait_for()
    seen = [f"shown by the run: {said.inner_text()}"]
    cell = _run(page, 1)
    name, press = cell.locator("[data-set=name]"), cell.locator("[data-press=book]")
    name.wait_for()
    page.screenshot(path=pictures / "shown.png")
    missing = cell.locator(".agui-s-field .agui-s-failed")
    seen.append(f"complains before a field was touched: {'yes' if missing.count() else 'no'}")
    name.click()
    page.keyboard.type("A")
    page.keyboard.press("Tab")
    page.wait_for_timeout(500)
    name.fill("")
    page.keyboard.press("Tab")
    missing.wait_for()
    seen.append(f"complains after it was touched: {missing.inner_text()}")
    press.click()
    refused = cell.locator(".agui-surface > .agui-s-failed")
    refused.wait_for()
    page.screenshot(path=pictures / "refused.png")
    seen.append(f"pressed too early: {refused.inner_text()}")
    name.click()
    page.keyboard.type("Ann Lee", delay=120)
    seen.append(f"typed letter by letter: {name.input_value()}")
    cell.locator("input[type=radio]").nth(1).check()
    press.click()
    printed = cell.locator(".jp-OutputArea-output pre", has_text="PRESSED")
    printed.wait_for()
    seen.append(f"printed: {printed.inner_text().strip()}")
    left = cell.locator(".agui-surface input[type=text]")
    usable = cell.locator("[data-press], [data-set]").count()
    seen.append(f"left in the cell: {left.input_value()}, and {usable or 'nothing'} to press")
    chosen = _cell(page, 0).locator("input[type=radio]:checked")
    seen.append(f"chosen still in the first cell: {chosen.get_attribute('value')}")
    for number, words in ((2, "shown again by the next run"), (3, "shown again while another run lasts")):
        booked = _run(page, number).locator(".agui-surface .agui-text").last
        booked.wait_for()
        seen.append(f"{words}: {booked.inner_text()}")
    page.screenshot(path=pictures / "booked.png", full_page=True)
    with page.expect_response(lambda got: got.request.method == "PUT" and "/api/contents/" in got.url):
        page.keyboard.press("Control+s")
    return seen


def look_at_saved(page: Page) -> str:
    """Open the saved notebook, whose kernel is gone, and return what it shows."""
    said = _cell(page, 2).locator(".agui-surface .agui-text").last
    said.wait_for()
    return f"saved: {said.inner_text()}"


def main() -> int:
    """Book a ferry, and say what was seen."""
    from support.ferry_booking import Bookings

    parser = argparse.ArgumentParser(prog="python -m tests.programs.surfaces_browser", description=__doc__)
    parser.add_argument("--environment", type=Path, help="where the environment is kept; a temporary one if left out")
    parser.add_argument("--pictures", type=Path, help="a directory for pictures of the page; none are kept if left out")
    given, bookings = parser.parse_args(), Bookings()
    with tempfile.TemporaryDirectory() as scratch:
        python = made(given.environment or Path(scratch, "environment"))
        notebooks, pictures = Path(scratch, "notebooks"), given.pictures or Path(scratch, "pictures")
        notebooks.mkdir()
        pictures.mkdir(parents=True, exist_ok=True)
        with serve(bookings.app) as agent, serving(python, notebooks) as url, chromium() as browser:
            cells = ASKING.format(url=agent.url), PRESSING, BOOKING, SHOWING
            (notebooks / "ferry.ipynb").write_text(notebook(*cells))
            address = f"{url}/lab/tree/ferry.ipynb?reset"
            seen, _ = browser.visit(address, lambda page: book(page, pictures))
            saved, _ = browser.visit(address, look_at_saved)
    seen.append(saved)
    failed = seen != SEEN or bookings.made != [("Ann Lee", "dusk")] * 2
    sys.stdout.write("\n".join([*seen, f"booked: {bookings.made}", "FAIL" if failed else "pass"]) + "\n")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
