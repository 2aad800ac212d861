"""`python -m tests.programs.notebook_browser`: forms and a live run in JupyterLab and Notebook 7, in a browser.

It makes an environment with both, serves them on loopback while it runs, and says for each whether all that stood on
the screen was sent: after corrections, after refusals, and where nothing was typed; whether folds and selected text of
a run stay while it goes on; whether the last of two presses counts that a busy kernel finds; whether a form says that
its kernel was restarted; and whether a page of a tool is served below a cell. Fifteen forms are filled in with the
mouse, and again with the keyboard alone, each with one wrong input that has to be named at its field; the answers are
compared with what was typed. It needs Chromium, as tests do, and npm for the page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.app_page import app_page
from support.browser import chromium
from support.filled_forms import FORMS, fill_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGE = Path(__file__).parents[2]
PACKAGES = ("jupyterlab>=4", "notebook>=7", "ipykernel>=7.4")
PLACES = {"JupyterLab": "lab/tree", "Notebook 7": "notebooks"}
CELL = """
from agui_client import tool
from agui_client.notebook import NotebookAnswerer, NotebookApprover
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn

@tool(approval="always")
def book(seats: int) -> str:
    return f"{seats} booked"

properties = {
    "mail": {"type": "string", "description": "$where$ the <b>ticket</b> goes"},
    "seats": {"type": "integer", "maximum": 9},
    "line": {"enum": ["B1", "B2"], "default": "B2"},
    "window": {"type": "boolean", "default": True},
    "note": {"type": "string", "default": "vegetarian"},
}
asked = interrupt("Who?", response_schema={"type": "object", "properties": properties, "required": ["mail", "seats"]})
script = [turn(outcome=asked), turn(tool_call("book", {"seats": 4})), turn(text("Ok."))]
agent = ScriptedAgent(*script, tools=[book], approve=NotebookApprover(), answer=NotebookAnswerer())
result = await agent.run_agent("Book it")
answers = [each.payload for given in agent.inputs for each in given.resume or []]
print("SENT", answers, result.tool_executions[0].arguments)
"""
ANSWER = {"mail": "ann@example.org", "seats": 9, "line": "B2", "window": True, "note": "vegetarian"}
LIVE = """
from ag_ui.core import StateSnapshotEvent
from agui_client.notebook import show
from agui_client.testing import ScriptedAgent, text, tool_call, turn

states = [StateSnapshotEvent(snapshot={"trip": {"count": count}}) for count in (4, 2)]
call = tool_call("book", {"city": "Oslo", "why": "because " * 10}, delay=0.2)
words = [text("# Oslo\\n\\nIt costs $5 and $10. " + "words " * 20, delay=0.1), text("more " * 300, delay=0.1)]
result = await show(ScriptedAgent(turn(states[0], call, words[0], states[1], words[1])).stream("Where?"))
print("STOPPED", result.aborted)
"""
ASKING = """
from agui_client.notebook import NotebookAnswerer
from agui_client.testing import ScriptedAgent, interrupt, text, turn

agent = ScriptedAgent(turn(outcome=interrupt("Who?", response_schema={"type": "string"})), answer=NotebookAnswerer())
await agent.run_agent("Book it")
"""
BUSY = """
import asyncio, time
from pathlib import Path
from agui_client import tool
from agui_client.notebook import NotebookApprover
from agui_client.testing import ScriptedAgent, text, tool_call, turn

@tool(approval="always")
def pay(amount: int) -> str:
    return f"{amount} paid"

async def be_busy():
    while not Path("form-is-there").exists():
        await asyncio.sleep(0.1)
    Path("form-is-there").unlink()
    print("BUSY", flush=True)
    time.sleep(9)

busy = asyncio.create_task(be_busy())
script = [turn(tool_call("pay", {"amount": 100})), turn(text("Ok."))]
agent = ScriptedAgent(*script, tools=[pay], approve=NotebookApprover())
result = await agent.run_agent("Pay")
print("DECIDED", result.tool_executions[0].status)
"""
PAGE = """
from pathlib import Path
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult
from agui_client.mcp import MCPApps, mcp_server
from agui_client.mcp_apps import apps_in
from agui_client.notebook import opened
from agui_client.testing import ScriptedAgent, text, tool_call, turn

server, seen, about = MCPServer("board"), [], {"resourceUri": "ui://board/page"}

@server.tool(meta={"ui": about})
def show_board(place: str) -> CallToolResult:
    return CallToolResult(content=[], structured_content={"stones": 3})

@server.tool(meta={"ui": {**about, "visibility": ["app"]}})
def move(stone: int) -> str:
    seen.append(stone)
    return f"moved {stone}"

@server.resource("ui://board/page", mime_type="text/html;profile=mcp-app")
def page() -> str:
    return Path("page.html").read_text()

board = mcp_server(server, apps=True)
agent = ScriptedAgent(turn(tool_call("show_board", {"place": "Oslo"})), turn(text("Ok.")), tools=[board])
agent.use(MCPApps(board))
[app] = apps_in((await agent.run_agent("Show me Oslo.")).messages)
print("SAID", await opened(app, agent), seen)
"""
FORMS_CELL = """
import json
from pathlib import Path
from agui_client.notebook import NotebookAnswerer
from agui_client.testing import ScriptedAgent, interrupt, text, turn

answers = []
for name, schema in json.loads(Path("schemas.json").read_text()) * 2:
    asked = interrupt(f"Fill in: {name}.", response_schema=schema)
    agent = ScriptedAgent(turn(outcome=asked), turn(text("Ok.")), answer=NotebookAnswerer())
    await agent.run_agent("Ask me")
    answers += [each.payload for given in agent.inputs for each in given.resume or []]
    Path("answers.json").write_text(json.dumps(answers))
"""
SEEN = "Oslo | state · trip.count 4 → 2 | STOPPED True | state, trip {1}"
FILLED = f"{len(FORMS)} forms by mouse, {len(FORMS)} by keyboard"
LEFT = "Answered by you · mail: ann@example.org · seats: 9 · line: B2 · window: yes · note: vegetarian"
TAKEN_BACK = "DECIDED denied, after “Approve” is on its way"
LOST = "the form can be used again after 3 s | a page that is opened later says that the form is not connected"
OPENED = "3 stones in Oslo | moved 2 | refused | SAID Clear it. [2] | page ui://board/page"
SENT = f"SENT {[ANSWER]} {{'seats': 2}} {LEFT} | Approved by you · book, seats 4 → 2"
_CLOCK = re.compile(r" \d\d:\d\d")
_INSTALLING, _SERVING, _FILLING, _STARTING = 900, 1200, 420, 60


def watch_and_stop(page: Page, pictures: Path) -> str:
    """Run the second cell of a notebook, touch what it shows while it runs, and stop it; return what was seen."""
    page.locator(".jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.press("Shift+Enter")
    live = page.locator(".agui-live")
    live.locator(".agui-unfinished").wait_for()
    page.screenshot(path=pictures / "arriving.png")
    live.locator("summary", has_text="state").click()
    live.locator("h1").wait_for()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.agui-live h1'))")
    live.locator(".agui-flash").wait_for()
    page.screenshot(path=pictures / "changed.png")
    selected = page.evaluate("getSelection().toString()")
    changed = live.locator("summary[data-changed]").get_attribute("data-changed")
    live.get_by_role("button", name="Stop").click()
    live.wait_for(state="detached")
    printed = page.locator(".jp-OutputArea-output pre", has_text="STOPPED")
    printed.wait_for()
    page.screenshot(path=pictures / "stopped.png")
    left = page.locator(".jp-CodeCell").nth(1).locator(".agui details[open] > summary").all_inner_texts()
    return f"{selected} | state · {changed} | {printed.inner_text().strip()} | {', '.join(left)}"


def use_page(page: Page, pictures: Path) -> str:
    """Run a cell that opens a page of a tool, and use the page as a person does; return what was seen."""
    run_first(page)
    inside = page.frame_locator(".agui-app-frame").frame_locator("iframe")
    inside.get_by_text("3 stones in Oslo").wait_for()
    inside.locator("#move").click()
    inside.get_by_text("moved 2").wait_for()
    page.screenshot(path=pictures / "page.png")
    inside.locator("#wipe").click()
    inside.get_by_text("refused").wait_for()
    inside.locator("#write").click()
    page.get_by_role("button", name="Send it").click()
    printed = page.locator(".jp-OutputArea-output pre", has_text="SAID")
    printed.wait_for()
    page.locator(".agui-app-frame").wait_for(state="detached")
    left = page.locator(".jp-CodeCell").first.locator(".agui-line").last.inner_text()
    return f"3 stones in Oslo | moved 2 | refused | {printed.inner_text().strip()} | {left}"


def fill_in_all(page: Page, notebooks: Path, pictures: Path) -> str:
    """Run a cell that asks with each form twice, and answer; return how many answers arrived as they were typed."""
    page.set_viewport_size({"width": 1200, "height": 1100})
    (notebooks / "answers.json").unlink(missing_ok=True)
    run_first(page)
    faults = [fill_in(page, name, pictures, by_mouse=by_mouse) for by_mouse in (True, False) for name in FORMS]
    page.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).first.wait_for()
    answers, forms = json.loads((notebooks / "answers.json").read_text()), [*FORMS.items()] * 2
    wrong = [
        f"{name}: {sent} arrived" for (name, form), sent in zip(forms, answers, strict=True) if sent != form.answer
    ]
    return "; ".join(filter(None, [*faults, *wrong])) or FILLED


def restart(page: Page, pictures: Path) -> str:
    """Run the third cell, restart the kernel under its form, and open the notebook again; return what is said."""
    page.locator(".jp-CodeCell .cm-content").nth(2).click()
    page.keyboard.press("Shift+Enter")
    answer = page.get_by_role("button", name="Answer")
    answer.wait_for()
    marked = page.title()
    page.get_by_role("button", name="Restart the kernel", exact=False).first.click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.locator('[data-status="idle"]').first.wait_for()
    answer.click()
    page.get_by_role("status").get_by_text("“Answer” is on its way").wait_for()
    page.screenshot(path=pictures / "restarted.png")
    again = "the form can be used again after 3 s" if answer.is_enabled() and "❓" in marked else f"{marked} {answer}"
    page.locator(".jp-CodeCell .cm-content").nth(2).click()
    with page.expect_response(lambda got: got.request.method == "PUT" and "/api/contents/" in got.url):
        page.keyboard.press("Control+s")
    page.reload()
    page.get_by_text("it is not connected to a running cell any more").wait_for()
    page.screenshot(path=pictures / "opened_again.png")
    return f"{again} | a page that is opened later says that the form is not connected"


def run_first(page: Page) -> None:
    """Run the first cell of a notebook, again until its kernel takes it: one that starts loses cells."""
    from playwright.sync_api import TimeoutError as TooLongError

    for _ in range(5):
        page.locator('[data-status="idle"]').first.wait_for()
        page.wait_for_timeout(1500)
        if (select := page.get_by_role("button", name="Select", exact=True)).is_visible():
            select.click()
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        with suppress(TooLongError):
            page.locator(".jp-InputPrompt", has_text=re.compile(r"\[(\*|\d+)\]")).first.wait_for(timeout=3000)
            return


def take_back(page: Page, notebooks: Path, pictures: Path) -> str:
    """Approve a call, and deny it before the kernel has time to hear of either; return what the cell printed."""
    run_first(page)
    approve = page.get_by_role("button", name="Approve")
    approve.wait_for()
    (notebooks / "form-is-there").touch()
    page.locator(".jp-OutputArea-output pre", has_text="BUSY").wait_for()
    approve.click()
    waiting = page.get_by_role("status").get_by_text("is on its way")
    waiting.wait_for()
    page.screenshot(path=pictures / "busy.png")
    said = waiting.inner_text().partition(":")[0]
    page.get_by_role("button", name="Deny").click()
    printed = page.locator(".jp-OutputArea-output pre", has_text="DECIDED")
    printed.wait_for()
    return f"{printed.inner_text().strip().splitlines()[-1]}, after {said}"


def work(page: Page, address: str, pictures: Path) -> str:
    """Do what a person does with the cells of a notebook; return what came of it."""
    sent, seen = type_and_click(page, address, pictures), watch_and_stop(page, pictures)
    return f"{sent}\n{seen}\n{restart(page, pictures)}"


def type_and_click(page: Page, address: str, pictures: Path) -> str:
    """Run the cell of a notebook, fill in its form and edit the arguments of the call; return what the cell printed."""
    page.set_viewport_size({"width": 1200, "height": 1100})
    page.locator('[data-status="idle"]').first.wait_for()
    # A second page has the same widgets, and knows nothing of what is typed on the first.
    assert page.context.browser is not None
    other = page.context.browser.new_page()
    other.goto(address)
    other.locator('[data-status="idle"]').first.wait_for()
    run_first(page)
    page.get_by_label("mail").click()
    page.keyboard.type("ann@exampel.org")
    for _ in "el.org":
        page.keyboard.press("Backspace")
    page.keyboard.type("le.org")
    page.get_by_label("seats").fill("99")
    page.get_by_role("button", name="Answer").click()
    page.get_by_text("must be at most 9").wait_for()
    page.get_by_label("seats").press("Escape")  # goes to the button that sends nothing, as something was typed
    focused = page.evaluate("document.activeElement.textContent")
    page.screenshot(path=pictures / "refused.png")
    page.get_by_label("seats").fill("9" if focused == "Continue without" else "Esc does nothing")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve").wait_for()
    page.get_by_label("seats").fill("two")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("this is not a whole number").wait_for()
    page.get_by_label("seats").fill("2")
    page.get_by_text("the agent asked for: 4").wait_for()
    page.screenshot(path=pictures / "edited.png")
    page.get_by_label("seats").press("Control+Enter")
    printed = page.locator(".jp-OutputArea-output pre").last
    printed.wait_for()
    page.screenshot(path=pictures / "sent.png")
    left = page.locator(".agui-fold > summary").all_inner_texts()
    return f"{printed.inner_text().strip()} {_CLOCK.sub('', ' | '.join(left))}"


@contextmanager
def serving(python: Path, notebooks: Path) -> Generator[str]:
    """Serve notebooks on loopback, without a password, while the block lasts; gives the address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    own = {f"JUPYTER_{each}_DIR": str(notebooks / ".jupyter" / each) for each in ("CONFIG", "DATA", "RUNTIME")}
    settings = {
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.root_dir": notebooks,
        "IdentityProvider.token": "",
        "LabApp.news_url": None,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    command = ["timeout", "--kill-after=20", str(_SERVING), str(python), "-m", "jupyterlab", *options]
    with (notebooks / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}/api")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()  # `timeout` passes it on, and kills a server that does not end in time
            server.wait()


def wait_for(address: str) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + _STARTING
    while time.monotonic() < end:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"nothing answers at {address}")


def made(environment: Path) -> Path:
    """Make an environment with JupyterLab, Notebook 7 and this package, if it is not there; return its Python."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=_INSTALLING)
    install = [str(python), "-m", "pip", "install", "-q", *PACKAGES, "-e", f"{PACKAGE}[notebook,mcp]"]
    subprocess.run(install, check=True, timeout=_INSTALLING)
    return python


def notebook(*sources: str) -> str:
    """Write a notebook with cells."""
    empty: dict[str, object] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [{**empty, "id": f"cell-{place}", "source": source} for place, source in enumerate(sources)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


def main() -> int:
    """Type in both, and say what was sent."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.notebook_browser", description=__doc__)
    parser.add_argument("--environment", type=Path, help="where the environment is kept; a temporary one if left out")
    parser.add_argument("--pictures", type=Path, help="a directory for pictures of the page; none are kept if left out")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        python = made(given.environment or Path(scratch, "environment"))
        notebooks = Path(scratch, "notebooks")
        notebooks.mkdir()
        (notebooks / "page.html").write_text(app_page())
        (notebooks / "schemas.json").write_text(json.dumps([[name, each.schema] for name, each in FORMS.items()]))
        with serving(python, notebooks) as url, chromium() as browser:
            for place, path in PLACES.items():
                name = f"{path.partition('/')[0]}.ipynb"
                (notebooks / name).write_text(notebook(CELL, LIVE, ASKING))
                (notebooks / f"busy-{name}").write_text(notebook(BUSY))
                (notebooks / f"page-{name}").write_text(notebook(PAGE))
                (notebooks / f"forms-{name}").write_text(notebook(FORMS_CELL))
                pictures = (given.pictures or Path(scratch)) / place
                pictures.mkdir(parents=True, exist_ok=True)
                # Without `reset`, JupyterLab opens the notebooks of earlier visits, too.
                look = partial(take_back, notebooks=notebooks, pictures=pictures)
                taken_back, _ = browser.visit(f"{url}/{path}/busy-{name}?reset", look)
                address = f"{url}/{path}/{name}?reset"
                sent, _ = browser.visit(address, partial(work, address=address, pictures=pictures))
                opened, _ = browser.visit(f"{url}/{path}/page-{name}?reset", partial(use_page, pictures=pictures))
                fill = partial(fill_in_all, notebooks=notebooks, pictures=pictures)
                sent, wanted = f"{sent}\n{taken_back}\n{opened}", f"{SENT}\n{SEEN}\n{LOST}\n{TAKEN_BACK}\n{OPENED}"
                filled, _ = browser.visit(f"{url}/{path}/forms-{name}?reset", fill, limit=_FILLING)
                sent, wanted = f"{sent}\n{filled}", f"{wanted}\n{FILLED}"
                has_failed = sent != wanted
                failed |= has_failed
                sys.stdout.write(f"{place}: {'FAIL' if has_failed else 'pass'}\n{sent}\n")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
