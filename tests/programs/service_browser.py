"""`python -m tests.programs.service_browser`: `examples/service_page.html`, reloaded while workers are killed.

The program of docs/deploy.md serves it with two workers on a PostgreSQL server of its own (`--sqlite`: on a file), on
loopback. The page is reloaded five times while the run goes on, all workers are killed once, and the link is pressed.
The text has to be whole, and there once. It needs Chromium and PostgreSQL, as tests do.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agui_client.demo import demo_agent
from agui_client.testing import serve
from support.browser import chromium
from support.deployed import Deployed, deployed, write_programs
from support.postgres import postgres_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE = Path(__file__).parents[2] / "examples" / "service_page.html"
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


_SERVES_THE_PAGE = f"""

from fastapi.responses import FileResponse
app.get("/")(lambda: FileResponse({str(PAGE)!r}))
"""


@contextmanager
def serving(database: str, folder: Path, stack: ExitStack) -> Generator[tuple[Deployed, str]]:
    """Serve the programs of docs/deploy.md, and the page, while the block lasts."""
    write_programs(folder)
    with (folder / "service.py").open("a") as program:
        program.write(_SERVES_THE_PAGE)
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    agent = stack.enter_context(serve(demo_agent())).url
    with deployed(folder, listener, DATABASE_URL=database, AGENT_URL=agent, SERVICE_URL=url) as service:
        service.wait_until_started()
        yield service, url


def use(page: Page, service: Deployed) -> tuple[str, str]:
    """Do what people do with the page and the link; return the text before the approval, and at the end."""
    text = page.locator("pre")
    page.get_by_role("button", name="Ask").click()
    for reload in range(RELOADS):
        before = len(text.inner_text())
        # uvicorn may have begun to ask a worker for a sign of life when that is killed, and then waits for the answer.
        page.reload(timeout=60_000)
        page.wait_for_function("before => document.querySelector('pre').textContent.length > before + 5", arg=before)
        if reload == KILLED_AFTER:
            for number in service.workers:
                os.kill(number, signal.SIGKILL)
    page.get_by_text("Waiting for the approval.").wait_for()
    asked = text.text_content() or ""
    assert page.context.browser is not None
    mail = page.context.browser.new_page(extra_http_headers={"Cookie": "session=5f0c"})
    mail.goto(service.wait_for(r"mail to ann: .* (http\S+)")[1])
    mail.get_by_role("button", name="Approve").click()
    mail.get_by_text("Approved.").wait_for()
    page.wait_for_function("!document.querySelector('button').disabled")
    ended = text.text_content() or ""
    page.reload()
    page.wait_for_function("!document.querySelector('button').disabled")
    return asked, ended if text.text_content() == ended else f"after a reload: {text.text_content()}"


def main() -> int:
    """Use the page, and say whether all was there, once."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.service_browser", description=__doc__)
    parser.add_argument("--sqlite", action="store_true", help="keep the runs in a file instead of PostgreSQL")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        database = f"sqlite:///{folder / 'service.db'}"
        if not given.sqlite:
            database = f"postgresql://{stack.enter_context(postgres_server()).new_database()}"
        service, url = stack.enter_context(serving(database, folder, stack))
        browser = stack.enter_context(chromium())
        (asked, ended), complaints = browser.visit(url, partial(use, service=service))
        is_whole = WHOLE.fullmatch(asked) is not None and ended.startswith(asked)
        is_whole = is_whole and REST.fullmatch(ended.removeprefix(asked)) is not None
        sys.stdout.write(f"{asked!r}\n{ended!r}\n{complaints}\n{'pass' if is_whole else 'FAIL'}\n")
    return not is_whole


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
