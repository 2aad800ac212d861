"""`python -m tests.programs.pages_browser`: chat pages in Chromium, with their Python server alone.

The page of this package, and those of examples/pages: each asks twice, is reloaded, has an answer made again, edits a
question, and approves a call after another reload; a form that the agent sends is filled in. Then its agent fails, it
is reloaded in a run, another tab is faster, its server is killed in a run and started again, and two tabs write in
turn. What they show must be what the server stores. npm installs the packages of the examples once (600 MB) and makes
the pages; `--own` leaves these out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    from playwright.sync_api import Locator, Page

PAGES = Path(__file__).parents[2] / "examples" / "pages"
_BUILDING, _STARTING, _VISITING = 240, 60, 600
_NULL = subprocess.DEVNULL
_KINDS = (".js", ".jsx", ".css", ".html")
_LAST_WORD = "word29"


def built() -> Path:
    """Return the folder of the pages, made by npm."""
    folder = folder_of(PAGES / "package.json")
    for each in PAGES.iterdir():
        if each.suffix in _KINDS:
            shutil.copy(each, folder)
    subprocess.run(["npm", "run", "build"], cwd=folder, capture_output=True, timeout=_BUILDING, check=True)
    return folder / "dist"


class Served:
    """The example as a program, which can be killed and started again at the same address.

    Args:
        dist: The folder of the pages.
        folder: A folder for its database.
    """

    def __init__(self, dist: Path, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._place = {"DATABASE_URL": f"sqlite:///{folder}/pages.db", "PAGES": str(dist)}
        self.start()

    def start(self) -> None:
        """Start the program, and wait until it listens."""
        command = [sys.executable, str(PAGES / "serve.py"), str(self._port)]
        self._process = subprocess.Popen(command, env=os.environ | self._place, stdout=_NULL, stderr=_NULL)
        end = time.monotonic() + _STARTING
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the program with a signal."""
        self._process.send_signal(number)
        self._process.wait(10)


@contextmanager
def serving(dist: Path) -> Generator[Served]:
    """Serve the example while the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        served = Served(dist, Path(folder))
        try:
            yield served
        finally:
            served.stop()


class Visit:
    """A page that is open, as a person uses it.

    Args:
        page: The page.
    """

    path = ""
    """The place of the page on its server."""
    composer = "textarea:visible"
    """The field for messages."""
    argument = ".approval textarea"
    """The field for an argument of a call that waits."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def prompt(self) -> Locator:
        """The field for messages."""
        return self.page.locator(self.composer).last

    def ask(self, text: str) -> None:
        """Send a question."""
        self.prompt.fill(text)
        self.page.keyboard.press("Enter")

    def await_texts(self, *there: str, gone: str = "") -> None:
        """Wait until the page shows some texts, and not another one."""
        for text in there:
            self.page.get_by_text(text, exact=False).last.wait_for()
        if gone:
            self.page.get_by_text(gone).first.wait_for(state="detached")

    def press(self, name: str) -> None:
        """Press the last button of a name."""
        self.page.get_by_role("button", name=name, exact=True).last.click()

    def edit(self, before: str, text: str) -> None:
        """Edit a question."""
        raise NotImplementedError

    def regenerate(self) -> None:
        """Have the last answer made again."""
        self.press("Regenerate")

    def in_another_tab(self) -> Visit:
        """Open the same thread in another tab."""
        assert self.page.context.browser is not None
        page = self.page.context.browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(self.page.url)
        return type(self)(page)


class Own(Visit):
    """The page of this package."""

    path = "/agent/"
    composer = "#prompt"
    argument = ".agui-field input"

    def ask(self, text: str) -> None:
        """Send a question, as soon as that can be done."""
        self.page.wait_for_selector("#send:enabled")
        super().ask(text)

    def regenerate(self) -> None:
        """Press the button of the last answer."""
        self.press("Answer again")

    def edit(self, before: str, text: str) -> None:
        """Press the button of a question, and type in its place."""
        self.press("Edit")
        self.page.get_by_label("Edit the message").fill(text)
        self.press("Send edited")


class CopilotKit(Visit):
    """CopilotKit's page."""

    path = "/copilotkit.html"

    def edit(self, before: str, text: str) -> None:
        """Press the button of a question, and type in the prompt."""
        self.page.once("dialog", lambda dialog: dialog.accept(text))
        self.page.get_by_text(before, exact=True).last.hover()
        self.page.get_by_role("button", name="Edit").last.click()


class AssistantUi(Visit):
    """assistant-ui's page."""

    path = "/assistant-ui.html"

    def edit(self, before: str, text: str) -> None:
        """Press the button of a question, and type in its place."""
        self.press("Edit")
        self.page.get_by_label("Edit").last.fill(text)
        self.press("Update")


def use(visit: Visit) -> list[object]:
    """Ask, reload, regenerate, edit and approve; return the contents that the thread has then."""
    visit.ask("one")
    visit.await_texts("to: one")
    visit.ask("two")
    visit.await_texts("to: two")
    visit.page.reload()
    visit.await_texts("to: one", "to: two")
    answer = visit.page.get_by_text("to: two").last.inner_text()
    visit.regenerate()
    visit.await_texts("to: two", gone=answer)
    visit.edit("two", "three")
    visit.await_texts("to: one", "to: three", gone="to: two")
    visit.ask("two tickets")
    visit.await_texts("Buy 2 tickets?")
    visit.page.locator(visit.argument).first.wait_for()
    visit.page.reload()
    visit.await_texts("to: three", "Buy 2 tickets?")
    visit.press("Approve")
    visit.await_texts("to: 2 tickets bought")
    return ["one", "to: one", "three", "to: three", "two tickets", None, "2 tickets bought", "to: 2 tickets bought"]


def fill_in(visit: Visit) -> list[object]:
    """Fill in a form that the agent sends, press its button, and reload."""
    if isinstance(visit, AssistantUi):  # which draws none
        return []
    visit.ask("a form please")
    visit.await_texts("Nothing is booked yet.")
    visit.page.get_by_label("Name for the ticket").last.fill("Ann")
    visit.press("Book")
    visit.await_texts("Booked for Ann.", gone="Nothing is booked yet.")
    visit.page.reload()
    visit.await_texts("Booked for Ann.")
    return ["a form please", ...]


def try_again(visit: Visit) -> list[object]:
    """Have the agent fail, and try again."""
    visit.ask("fail please")
    visit.await_texts("the model is away")
    visit.press("Try again")
    visit.await_texts("to: fail please", gone="the model is away")
    return ["fail please", "to: fail please"]


def approve_at_once(visit: Visit) -> list[object]:
    """Approve a call on the page that has asked, without a reload."""
    visit.ask("more tickets")
    visit.await_texts("Buy 2 tickets?")
    visit.press("Approve")
    visit.page.get_by_text("to: 2 tickets bought").nth(1).wait_for()
    return ["more tickets", None, "2 tickets bought", "to: 2 tickets bought"]


def reload_in_a_run(visit: Visit) -> list[object]:
    """Reload while a run goes on, which the page shows meanwhile."""
    visit.ask("slowly")
    visit.await_texts("word3")
    visit.page.reload()
    visit.await_texts("word5")
    assert visit.page.get_by_text(_LAST_WORD).count() == 0, "the run was over before it was shown"
    visit.await_texts("to: slowly")
    return ["slowly", "to: slowly"]


def be_slower(visit: Visit) -> list[object]:
    """Ask while a run of another tab goes on, and try again behind it."""
    other = visit.in_another_tab()
    other.await_texts("to: one")
    other.ask("slowly again")
    other.await_texts("word3")
    visit.ask("five")
    visit.await_texts("being written in this chat" if isinstance(visit, Own) else "in this thread")
    visit.press("Try again")
    visit.await_texts("to: slowly again", "to: five")
    other.page.close()
    return ["slowly again", "to: slowly again", "five", "to: five"]


def lose_the_server(visit: Visit, served: Served) -> list[object]:
    """Kill the server in a run, and start it again."""
    visit.ask("slowly now")
    visit.await_texts("word4")
    served.stop(signal.SIGKILL)
    visit.await_texts("cannot be reached")
    served.start()
    visit.await_texts("to: slowly now", gone="cannot be reached")
    return ["slowly now", "to: slowly now"]


def write_in_turn(visit: Visit) -> list[object]:
    """Write in two tabs in turn, neither of which has seen what the other one wrote."""
    other = visit.in_another_tab()
    other.await_texts("to: one", "to: slowly now")
    visit.ask("from A")
    visit.await_texts("to: from A")
    other.ask("from B")
    other.await_texts("to: from B")
    visit.ask("A again")
    visit.await_texts("to: A again", "to: from A")
    other.page.close()
    return ["from A", "to: from A", "A again", "to: A again"]


async def stored(url: str, thread_id: str) -> list[object]:
    """Return the contents of a thread as the server has it."""
    agent = HttpAgent(f"{url}/agent/", connect_url=f"{url}/agent/connect", thread_id=thread_id)
    await agent.connect_agent()
    return [each.content for each in agent.messages]


def is_same(found: Sequence[object], expected: Sequence[object]) -> bool:
    """Return whether contents are the expected ones; of the texts of answers, their ends are known."""
    pairs = zip(found, expected, strict=len(found) == len(expected))
    is_end = ((end is ... or one == end or (isinstance(one, str) and one.endswith(str(end)))) for one, end in pairs)
    return len(found) == len(expected) and all(is_end)


def look(page: Page, kind: type[Visit], served: Served) -> bool:
    """Use a page; print what stands on it if it does not do what it should."""
    visit, expected = kind(page), list[object]()
    steps: Sequence[Callable[[Visit], list[object]]] = (
        use,
        fill_in,
        approve_at_once,
        try_again,
        reload_in_a_run,
        be_slower,
        partial(lose_the_server, served=served),
        write_in_turn,
    )
    for step in steps:
        name = str(getattr(step, "func", step)).split()[1]
        try:
            expected += step(visit)
        except Exception as error:
            shown = page.locator("body").inner_text()
            page.screenshot(path=f"{tempfile.gettempdir()}/pages-{kind.__name__}-{name}.png")
            sys.stdout.write(f"{kind.__name__}: {name}: FAIL {str(error)[:300]}\n{shown}\n")
            return False
        sys.stdout.write(f"{kind.__name__}: {name}: pass\n")
        sys.stdout.flush()
    # In another thread: that of the browser has an event loop already.
    with ThreadPoolExecutor(1) as aside:
        contents = aside.submit(asyncio.run, stored(served.url, page.url.partition("#")[2])).result(_STARTING)
    if not is_same(contents, expected):
        sys.stdout.write(f"{kind.__name__}: FAIL stored {contents}\n")
        return False
    return True


def main() -> int:
    """Use each page, and compare what the server has stored in the end with what the page should have left there."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.pages_browser", description=__doc__)
    parser.add_argument("--own", action="store_true", help="only the page of this package, which needs no npm")
    parser.add_argument("--only", help="only the page of this class")
    given = parser.parse_args()
    kinds: tuple[type[Visit], ...] = (Own,) if given.own else (Own, AssistantUi, CopilotKit)
    kinds = tuple(each for each in kinds if given.only in (None, each.__name__))
    failed = False
    with tempfile.TemporaryDirectory() as empty, serving(Path(empty) if given.own else built()) as served:
        for kind in kinds:
            with chromium() as browser:
                looking = partial(look, kind=kind, served=served)
                passed, complaints = browser.visit(served.url + kind.path, looking, limit=_VISITING)
            sys.stdout.write(f"{kind.__name__}: {'pass' if passed else f'FAIL {complaints}'}\n")
            failed |= not passed
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
