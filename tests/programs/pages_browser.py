"""`python -m tests.programs.pages_browser`: the pages of examples/pages in Chromium, with their Python server alone.

Each page asks twice, is reloaded, has an answer made again, edits a question, and approves a call after another reload;
what it shows must be what the server stores. npm installs the packages of the pages once (600 MB) and makes the pages.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agui_client import HttpAgent
from support.browser import chromium
from support.typescript import folder_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = Path(__file__).parents[2] / "examples" / "pages"
_SERVING, _BUILDING = 240, 120
_ANSWERS = 5
"""The answers that a page asks for; the agent numbers all of them."""


def built() -> Path:
    """Return the folder of the pages, made by npm."""
    folder = folder_of(PAGES / "package.json")
    for each in PAGES.iterdir():
        if each.suffix in (".js", ".jsx", ".html"):
            shutil.copy(each, folder)
    subprocess.run(["npm", "run", "build"], cwd=folder, capture_output=True, timeout=_BUILDING, check=True)
    return folder / "dist"


@contextmanager
def serving(dist: Path) -> Generator[str]:
    """Serve the example while the block lasts; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        place = {"DATABASE_URL": f"sqlite:///{folder}/pages.db", "PAGES": str(dist)}
        command = ["timeout", str(_SERVING), sys.executable, str(PAGES / "serve.py"), str(port)]
        server = subprocess.Popen(command, env=os.environ | place, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + _SERVING
            while time.monotonic() < end and server.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


class Visit:
    """A page that is open."""

    composer = "textarea:visible"

    def __init__(self, page: Page) -> None:
        self.page = page

    def ask(self, text: str) -> None:
        """Send a question."""
        self.page.locator(self.composer).last.fill(text)
        self.page.keyboard.press("Enter")

    def await_texts(self, *there: str, gone: str = "") -> None:
        """Wait until the page shows some texts, and not another one."""
        for text in there:
            self.page.get_by_text(text, exact=False).last.wait_for()
        if gone:
            self.page.get_by_text(gone).first.wait_for(state="detached")

    def approve(self) -> None:
        """Press the button of the question that waits."""
        self.page.get_by_role("button", name="Approve").last.click()

    def regenerate(self) -> None:
        """Have the last answer made again."""
        raise NotImplementedError

    def edit(self, before: str, text: str) -> None:
        """Edit a question."""
        raise NotImplementedError


class CopilotKit(Visit):
    """CopilotKit's page."""

    def regenerate(self) -> None:
        """Press the button below the last answer."""
        self.page.get_by_role("button", name="Regenerate").last.click()

    def edit(self, before: str, text: str) -> None:
        """Press the button of a question, and type in the prompt."""
        self.page.once("dialog", lambda dialog: dialog.accept(text))
        self.page.get_by_text(before, exact=True).last.hover()
        self.page.get_by_role("button", name="Edit").last.click()


class AssistantUi(Visit):
    """assistant-ui's page."""

    def regenerate(self) -> None:
        """Press the button of the last answer."""
        self.page.get_by_role("button", name="Regenerate").last.click()

    def edit(self, before: str, text: str) -> None:
        """Press the button of a question, and type in its place."""
        self.page.get_by_role("button", name="Edit").last.click()
        self.page.get_by_label("Edit").last.fill(text)
        self.page.get_by_role("button", name="Update").click()


def use(visit: Visit, numbers: int) -> str:
    """Go through the story of a page; return the id of its thread."""
    first, second, third, fourth, fifth = (f"Answer {numbers + each} to" for each in range(1, _ANSWERS + 1))
    visit.ask("one")
    visit.await_texts(f"{first}: one")
    visit.ask("two")
    visit.await_texts(f"{second}: two")
    visit.page.reload()
    visit.await_texts(f"{first}: one", f"{second}: two")
    visit.regenerate()
    visit.await_texts(f"{first}: one", f"{third}: two", gone=f"{second}: two")
    visit.edit("two", "three")
    visit.await_texts(f"{first}: one", f"{fourth}: three", gone=f"{third}: two")
    visit.ask("two tickets")
    visit.await_texts("Buy 2 tickets?")
    visit.page.reload()
    visit.await_texts(f"{fourth}: three", "Buy 2 tickets?")
    visit.approve()
    visit.await_texts(f"{fifth}: 2 tickets bought")
    return visit.page.url.partition("#")[2]


async def stored(url: str, thread_id: str) -> list[object]:
    """Return the contents of a thread as the server has it."""
    agent = HttpAgent(f"{url}/agent/", connect_url=f"{url}/agent/connect", thread_id=thread_id)
    await agent.connect_agent()
    return [each.content for each in agent.messages]


def main() -> int:
    """Use each page, and compare what the server has stored in the end with what the page should have left there."""
    failed = False
    with serving(built()) as url, chromium() as browser:
        for number, (name, kind) in enumerate((("assistant-ui", AssistantUi), ("copilotkit", CopilotKit))):
            started = number * _ANSWERS
            thread_id, complaints = browser.visit(f"{url}/{name}.html", partial(look, kind=kind, started=started))
            expected = ["one", f"Answer {started + 1} to: one", "three", f"Answer {started + 4} to: three"]
            bought = ["two tickets", None, "2 tickets bought", f"Answer {started + 5} to: 2 tickets bought"]
            is_same = (found := asyncio.run(stored(url, thread_id))) == expected + bought
            failed |= not is_same
            sys.stdout.write(f"{name}: {'pass' if is_same else f'FAIL {found} {complaints}'}\n")
    return failed


def look(page: Page, kind: type[Visit], started: int) -> str:
    """Use a page; print what stands on it if it does not do what it should."""
    try:
        return use(kind(page), started)
    except Exception:
        sys.stdout.write(f"{page.locator('body').inner_text()}\n")
        raise


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
