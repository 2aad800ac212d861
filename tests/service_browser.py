"""`python -m tests.service_browser`: the page of `examples/service_fastapi.py`, reloaded and killed in a browser.

It serves the example with two workers on a PostgreSQL server of its own (`--sqlite`: on a file), on loopback. The page
is reloaded five times while the run goes on, all workers are killed once, and the link is pressed. The text has to be
whole, and there once. It needs Chromium and PostgreSQL, as tests do.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from support.browser import chromium
from support.postgres import postgres_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).parent.parent / "examples"
RELOADS, KILLED_AFTER = 5, 2
WHOLE = re.compile(
    r"user: Plan my Saturday, and book the ferry\.\n"
    r"reasoning: I am a script, [^\n]+\n"
    r"assistant: ## A day in Oslo\n\nYou asked [^\n]+ and ask before I book\.\n\n"
    r"\[get_weather\]\ntool: [^\n]+\n"
    r"assistant: 18 degrees and clear: a day for the \*outdoors\*\.\n\n1\. [^\n]+\n2\. [^\n]+\n3\. [^\n]+\n\n"
    r"The ferry fills up on a day like this\. I can buy two tickets now\.\n\n"
)
"""The text of the page when the run waits for its approval: each message once, and whole."""
REST = re.compile(r"\[buy_tickets\]\ntool: 94 NOK paid\nassistant: Done: \*\*two tickets\*\* [^\n]+\n\n")
"""The text that comes after the approval."""
_SERVING, _STARTING = 240, 60


class Service:
    """The example, served."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        """The address of the page."""
        self._log = log

    def kill_workers(self) -> None:
        """Kill the processes that serve; their parent starts others."""
        for number in re.findall(r"Started server process \[(\d+)\]", self._log.read_text()):
            os.kill(int(number), signal.SIGKILL)

    def link(self) -> str:
        """Wait for the link of the mail; return it as the service is reached here."""
        end = time.monotonic() + _STARTING
        while time.monotonic() < end:
            if found := re.search(r"http://127.0.0.1:8000/(approve\S+)", self._log.read_text()):
                return self.url + found[1]
            time.sleep(0.1)
        raise RuntimeError("no link was printed")


@contextmanager
def serving(database: str, folder: Path) -> Generator[Service]:
    """Serve the example while the block lasts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    needed = {"DATABASE_URL": database, "SECRET": "a key of this program", "PYTHONPATH": str(EXAMPLES.parent)}
    environment = {**os.environ, **needed}
    log, url = folder / "service.log", f"http://127.0.0.1:{port}/"
    command = ["timeout", "--kill-after=20", str(_SERVING), sys.executable, "-m", "uvicorn", "service_fastapi:app"]
    command += ["--app-dir", str(EXAMPLES), "--port", str(port), "--workers=2", "--timeout-worker-healthcheck=20"]
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
        try:
            wait_for(url)
            yield Service(url, log)
        finally:
            process.terminate()  # `timeout` passes it on, and kills a server that does not end in time
            process.wait()


def wait_for(url: str) -> None:
    """Wait until the service answers."""
    end = time.monotonic() + _STARTING
    while time.monotonic() < end:
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"nothing answers at {url}")


def use(page: Page, service: Service) -> tuple[str, str]:
    """Do what people do with the page and the link; return the text before the approval, and at the end."""
    text = page.locator("pre")
    page.get_by_role("button", name="Ask").click()
    for number in range(RELOADS):
        before = len(text.inner_text())
        # uvicorn may have begun to ask a worker for a sign of life when that is killed, and then waits for the answer.
        page.reload(timeout=60_000)
        page.wait_for_function("before => document.querySelector('pre').textContent.length > before + 5", arg=before)
        if number == KILLED_AFTER:
            service.kill_workers()
    page.get_by_text("Waiting for the approval.").wait_for()
    asked = text.text_content() or ""
    assert page.context.browser is not None
    mail = page.context.browser.new_page()
    mail.goto(service.link())
    mail.get_by_role("button", name="Approve").click()
    mail.get_by_text("Approved.").wait_for()
    page.wait_for_function("!document.querySelector('button').disabled")
    ended = text.text_content() or ""
    page.reload()
    page.wait_for_function("!document.querySelector('button').disabled")
    return asked, ended if text.text_content() == ended else f"after a reload: {text.text_content()}"


def main() -> int:
    """Use the page, and say whether all was there, once."""
    parser = argparse.ArgumentParser(prog="python -m tests.service_browser", description=__doc__)
    parser.add_argument("--sqlite", action="store_true", help="keep the runs in a file instead of PostgreSQL")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        database = f"sqlite:///{folder / 'service.db'}"
        if not given.sqlite:
            database = f"postgresql://{stack.enter_context(postgres_server()).new_database()}"
        service = stack.enter_context(serving(database, folder))
        browser = stack.enter_context(chromium())
        (asked, ended), complaints = browser.visit(service.url, partial(use, service=service))
        is_whole = WHOLE.fullmatch(asked) is not None and ended.startswith(asked)
        is_whole = is_whole and REST.fullmatch(ended.removeprefix(asked)) is not None
        sys.stdout.write(f"{asked!r}\n{ended!r}\n{complaints}\n{'pass' if is_whole else 'FAIL'}\n")
    return not is_whole


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
