"""A page of an MCP server on the chat page, in Chromium, with the official `App` class as the page's side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

from agui_client.asgi import ASGITransport, agent_app
from agui_client.mcp import MCPApps, mcp_server
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, serve, text, tool_call, turn
from support.app_page import app_page
from support.hostile_pages import listening
from support.mcp_board import make_board

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from agui_client.asgi import AgentApp
    from support.browser import Chromium


def chat(page: str) -> tuple[AgentApp, list[str]]:
    """A served agent with a chat page, which shows the board and answers once more; and what the board has seen."""
    server, seen = make_board(page)
    board = mcp_server(server, apps=True)
    steps = [turn(tool_call("show_board", {"place": "Oslo"})), turn(text("There it is.")), turn(text("It is clear."))]
    agent = ScriptedAgent(*steps, tools=[board]).use(MCPApps(board))
    return agent_app(agent, store=Store(), owner_of=lambda caller: "", page=True), seen


def test_the_official_client_is_shown_and_served_and_asks_a_person(browser: Chromium) -> None:
    app, seen = chat(app_page())

    def look(page: Page) -> None:
        page.locator("#prompt").fill("Show me Oslo.")
        page.keyboard.press("Enter")
        page.get_by_text("There it is.").wait_for()
        page.get_by_text("page ui://board/page: A board at Oslo.").wait_for()
        page.get_by_role("button", name="Open the page").click()
        inside = page.frame_locator(".agui-app-frame").frame_locator("iframe")

        def pressed(button: str, expected: str) -> None:
            inside.locator(f"#{button}").click()
            inside.get_by_text(expected).wait_for()

        inside.get_by_text("3 stones in Oslo").wait_for()
        pressed("move", "moved 2")
        pressed("wipe", "has no tool 'wipe' for its pages")
        pressed("read", "read 1")
        pressed("link", "offered")
        link = page.locator(".agui-app-offers a")
        assert (link.get_attribute("href"), link.get_attribute("target")) == ("https://stones.example/rules", "_blank")
        pressed("write", "written")
        assert page.get_by_text("It is clear.").count() == 0
        page.get_by_role("button", name="Send it").click()
        page.get_by_text("It is clear.").wait_for()
        height = page.locator(".agui-app-frame").evaluate("each => each.style.height")
        assert height.endswith("px")
        page.get_by_role("button", name="Close the page").click()
        page.locator(".agui-app-frame").wait_for(state="detached")

    with serve(app) as server:
        _, complaints = browser.visit(server.url, look)
    assert seen == ["moved 2"]
    # The class writes to the console whatever it sends and gets.
    assert [each for each in complaints if not each.startswith(("Sending message", "Parsed message"))] == []


def test_a_hostile_page_that_a_person_opens_reaches_nothing(browser: Chromium) -> None:
    with listening() as listener:
        to = f"http://127.0.0.1:{listener.port}/"
        asked = "{jsonrpc: '2.0', id: 1, method: 'ui/open-link', params: {url: 'https://a.example'}}"
        later = f"fetch('{to}'); try {{ parent.location = '{to}' }} catch {{}} open('{to}'); location = '{to}'"
        script = f"setTimeout(() => {{ {later} }}, 200); parent.postMessage({asked}, '*')"
        app, seen = chat(f"<body><img src='{to}'><script>{script}</script>")

        def look(page: Page) -> None:
            page.locator("#prompt").fill("Show me Oslo.")
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Open the page").click()
            page.locator(".agui-app-offers a").wait_for()
            page.wait_for_timeout(2000)
            assert len(page.context.pages) == 1

        with serve(app) as server:
            browser.visit(server.url, look)
        assert (listener.heard, seen) == ([], [])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_frame_of_pages_has_a_policy_that_lets_nothing_out() -> None:
    app, _ = chat("")
    async with httpx.AsyncClient(transport=ASGITransport(app), base_url="http://app") as client:
        frame, page = await client.get("/app-frame"), await client.get("/")
    rules = frame.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "frame-src 'none'", "connect-src 'none'", "sandbox allow-scripts"} <= {*rules}
    assert "frame-ancestors 'self'" in rules
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
