"""`pressed`: a surface below a cell takes what a page sends, complains, and returns the action of a press."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from agui_client import CannotWaitError, UsageError
from agui_client._rendering.surface_html import SURFACE_STYLE, surface_html
from agui_client.a2ui import Action, Surface
from agui_client.notebook import _pressing, pressed
from agui_client.notebook._cell_widget import script_text
from support.a2ui_fixtures import surface_of
from support.browser import Chromium
from support.waiting import LIMIT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.anyio


class _Page:
    """The page of a notebook, as far as the kernel hears of it."""

    pages: list[_Page]

    def __init__(
        self,
        script: str,
        shown: Mapping[str, Any],
        static: Mapping[str, str],
        received: Callable[[Mapping[str, Any]], object],
    ) -> None:
        self.html: list[str] = [shown["html"]]
        self.arrived: list[str] = []
        self.replaced = ""
        self.send_message = received
        self.pages.append(self)

    def update(self, **shown: Any) -> None:
        self.html.append(shown["html"])

    def send(self, message: Mapping[str, Any]) -> None:
        if "arrived" in message:
            self.arrived.append(message["arrived"])
        else:
            assert message["html"] == self.html[-1]

    def replace(self, static: Mapping[str, str]) -> None:
        self.replaced = static["text/html"]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[_Page]:
    _Page.pages = []
    monkeypatch.setattr(_pressing, "CellWidget", _Page)
    monkeypatch.setattr(_pressing, "has_widgets", lambda: True)
    return _Page.pages


def _form() -> Surface:
    needed = {"condition": {"call": "required", "args": {"value": {"path": "/name"}}}, "message": "Who is going?"}
    event = {"event": {"name": "book", "context": {"name": {"path": "/name"}, "seats": {"path": "/seats"}}}}
    return surface_of(
        [
            {"id": "root", "component": "Column", "children": ["name", "seats", "go"]},
            {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
            {"id": "seats", "component": "Slider", "max": 5, "value": {"path": "/seats"}},
            {"id": "go", "component": "Button", "child": "t", "action": event, "checks": [needed]},
            {"id": "t", "component": "Text", "text": "Go"},
        ],
        {"name": "", "seats": 1},
    )


async def test_a_surface_is_filled_in_and_pressed_on_a_page(pages: list[_Page]) -> None:
    surface = _form()

    async def person() -> None:
        while not pages:
            await anyio.lowlevel.checkpoint()
        for message in (
            {"press": "go", "at": "/"},
            {"set": "seats", "at": "/", "value": 9},
            {"set": "seats", "at": "/", "value": 2},
            {"set": "name", "at": "/", "value": "Ann"},
            {"press": "go", "at": "/"},
        ):
            pages[0].send_message(message)

    actions: list[Action] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            actions.append(await pressed(surface))
    (action,) = actions
    assert (action.name, action.context) == ("book", {"name": "Ann", "seats": 2})
    (page,) = pages
    assert ["Who is going?" in html for html in page.html] == [False, True, False, False, False]
    assert "takes a number from 0 to 5, not 9" in page.html[2]
    assert "data-set" not in page.replaced
    assert 'value="Ann"' in page.replaced


async def test_of_two_presses_the_last_is_the_action(pages: list[_Page]) -> None:
    surface = surface_of(
        [
            {"id": "root", "component": "Row", "children": ["pay", "stop"]},
            *(
                {"id": name, "component": "Button", "child": "t", "action": {"event": {"name": name}}}
                for name in ("pay", "stop")
            ),
            {"id": "t", "component": "Text", "text": "Go"},
        ],
        {},
    )

    async def person() -> None:
        while not pages:
            await anyio.lowlevel.checkpoint()
        (page,) = pages
        for number, name in enumerate(("pay", "stop"), 1):
            page.send_message({"press": name, "at": "/", "press_id": f"p-{number}"})
        while page.arrived != ["p-1", "p-2"]:
            await anyio.lowlevel.checkpoint()
        page.send_message({"latest": "p-1"})
        page.send_message({"latest": "p-2"})

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            assert (await pressed(surface)).name == "stop"


async def test_a_surface_is_not_pressed_without_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pressing, "has_widgets", lambda: False)
    with pytest.raises(UsageError, match="anywidget"):
        await pressed(_form())


_MODEL = """
const sent = window.sent = []
let handler
const model = {get: () => shown, on: (name, call) => { handler = call }, off: () => {}, send: (each) => sent.push(each)}
window.repaint = () => handler({html: shown.html})
render({model, el: document.body})
"""


def test_a_page_keeps_what_is_being_typed_and_sends_it_before_the_press(browser: Chromium, tmp_path: Path) -> None:
    script = script_text("surface").replace("export default", "void")
    html = surface_html(_form(), is_live=True)
    shown = json.dumps({"style": "", "rules": SURFACE_STYLE, "classes": "agui", "html": html})
    place = tmp_path / "page.html"
    place.write_text(f"<body><script type=module>const shown = {shown}\n{script}\n{_MODEL}</script>", "utf-8")

    def look(page: Page) -> Any:
        page.fill("[data-set=name]", "Ann")
        page.evaluate("window.repaint()")
        page.keyboard.type("a")
        page.click("[data-press=go]")
        return page.evaluate("window.sent")

    sent, complaints = browser.visit(place, look)
    assert complaints == []
    press_id = sent[-1].pop("press_id")
    assert sent[-2:] == [{"set": "name", "at": "/", "value": "Anna"}, {"press": "go", "at": "/"}]
    assert press_id.endswith("-1")


async def test_in_marimo_no_surface_is_drawn_that_cannot_be_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    with pytest.raises(CannotWaitError, match=r"marimo passes no click on .* surface.press\('book'\)"):
        await pressed(_form())
