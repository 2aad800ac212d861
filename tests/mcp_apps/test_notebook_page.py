"""A page of an MCP server below a cell: the kernel's side with a widget of a test, and the script in Chromium."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

from agui_client import ToolError
from agui_client.mcp import MCPApps, mcp_server
from agui_client.mcp_apps import App, apps_in
from agui_client.mcp_apps._frame import frame_document
from agui_client.notebook import _app_page, opened
from agui_client.notebook._cell_widget import script_text
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.app_page import app_page
from support.mcp_board import PAGE, make_board
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from support.browser import Chromium

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Cell:
    """Stands where a widget is shown: keeps what it gets, and sends what its page would.

    Args:
        script: The name of the script.
        shown: What is drawn.
        static: What is shown without widgets.
        received: Takes the messages of the page.
    """

    def __init__(
        self,
        script: str,
        shown: Mapping[str, Any],
        static: Mapping[str, str],
        received: Callable[[Mapping[str, Any]], object],
    ) -> None:
        self.shown, self.static, self.press = shown, static, received
        self.sent: list[Mapping[str, Any]] = []
        self.left: Mapping[str, str] | None = None
        cells.append(self)

    def send(self, message: Mapping[str, Any]) -> None:
        """Keep a message for the page."""
        self.sent.append(message)

    def replace(self, static: Mapping[str, str]) -> None:
        """Keep what stands there in the end."""
        self.left = static


cells: list[Cell] = []


@pytest.mark.anyio
@on_asyncio
@pytest.mark.parametrize(("last", "returned"), [({"close": True}, None), ({"say": "Clear it."}, "Clear it.")])
async def test_what_a_page_asks_is_answered_until_a_person_closes_it_or_says_something(
    monkeypatch: pytest.MonkeyPatch, last: Mapping[str, Any], returned: str | None
) -> None:
    monkeypatch.setattr(_app_page, "CellWidget", Cell)
    monkeypatch.setattr(_app_page, "has_widgets", lambda: True)
    cells.clear()
    server, seen = make_board()
    board = mcp_server(server, apps=True)
    steps = [turn(tool_call("show_board", {"place": "Oslo"})), turn(text("There."))]
    agent = ScriptedAgent(*steps, tools=[board]).use(MCPApps(board))
    [app] = apps_in((await agent.run_agent("Show me Oslo.")).messages)
    before = agent.snapshot()

    async def visit() -> None:
        await until(lambda: bool(cells))
        [cell] = cells
        assert cell.shown["page"]["html"] == PAGE
        cell.press({"id": "1", "method": "tools/call", "params": {"name": "move", "arguments": {"stone": 2}}})
        cell.press({"id": "2", "method": "tools/call", "params": {"name": "wipe"}})
        cell.press({"id": "3", "method": "resources/read", "params": {"uri": "file:///etc/passwd"}})
        await until(lambda: len(cell.sent) == 3)
        cell.press(last)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(visit)
            assert await opened(app, agent) == returned
    answers = {each["id"]: each for each in cells[0].sent}
    assert answers["1"]["result"]["content"] == [{"type": "text", "text": "moved 2"}]
    assert "no tool 'wipe'" in answers["2"]["error"]
    assert "has its page at" in answers["3"]["error"]
    assert seen == ["moved 2"]
    assert agent.snapshot() == before
    assert cells[0].left is not None
    assert "page ui://board/page: A board at Oslo." in cells[0].left["text/plain"]
    assert PAGE not in "".join(cells[0].left.values())


@pytest.mark.anyio
@on_asyncio
async def test_a_page_that_is_not_there_is_an_error_and_no_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_app_page, "CellWidget", Cell)
    monkeypatch.setattr(_app_page, "has_widgets", lambda: True)
    cells.clear()
    board = mcp_server(make_board()[0], apps=True)
    agent = ScriptedAgent(turn(text("Hi"))).use(MCPApps(board))
    with pytest.raises(ToolError, match="has its page at"):
        await opened(App("a", "ui://board/none", {}, {}, board.app_hash), agent)
    assert cells == []


_MODEL = """
let handler;
const [sent, model] = [[], {
  get: () => shown, on: (name, call) => { handler = call; }, off: () => {},
  send: (message) => {
    sent.push(message);
    if (message.method) handler({ id: message.id, result: { content: [{ type: "text", text: "moved 2" }] } });
  },
}];
globalThis.sent = sent;
render({ model, el: document.getElementById("cell") });
"""


def test_the_script_of_a_cell_passes_on_what_the_official_client_asks(browser: Chromium, tmp_path: Path) -> None:
    page: dict[str, Any] = {"html": app_page(), "arguments": {"place": "Oslo"}, "wanted": []}
    page["result"] = {"content": [], "structuredContent": {"stones": 3}}
    shown = {"style": "", "rules": "", "classes": "", "page": page, "frame": frame_document()}
    given = json.dumps(shown).replace("</", "<\\/")
    script = script_text("app_page").replace("export default", "void")
    place = tmp_path / "cell.html"
    body = f"<div id=cell></div><script type=module>const shown = {given}\n{script}\n{_MODEL}</script>"
    place.write_text(f"<meta charset=utf-8><body>{body}", "utf-8")

    def look(page: Page) -> Any:
        inside = page.frame_locator(".agui-app-frame").frame_locator("iframe")
        inside.get_by_text("3 stones in Oslo").wait_for()
        inside.locator("#move").click()
        inside.get_by_text("moved 2").wait_for()
        inside.locator("#write").click()
        page.get_by_role("button", name="Send it").click()
        page.get_by_role("button", name="Close the page").click()
        return page.evaluate("globalThis.sent")

    asked, said, closed = browser.visit(place, look)[0]
    assert (asked["method"], asked["params"]["name"], asked["params"]["arguments"]) == (
        "tools/call",
        "move",
        {"stone": 2},
    )
    assert (said, closed) == ({"say": "Clear it."}, {"close": True})
