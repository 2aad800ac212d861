"""Pages of MCP servers in Chromium: hostile ones run, request and read nothing; the official client is served."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agui_client.mcp_apps._frame import frame_document, host_script
from support.hostile_pages import ASKING, OPENING, READING, SENDING, listening, sending

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from support.browser import Chromium

_SECONDS = 20.0
_QUIET = 3.0
"""The seconds that hostile pages have."""
DONE = "parent.postMessage({jsonrpc: '2.0', id: 'done', method: 'tools/call', params: {done: true}}, '*');"
"""Asks the host for something that pages may ask, as the last thing that a page does."""
_HOST = """<!doctype html><meta charset="utf-8"><title>host</title><body>SECRET
<script>
var SECRET = "SECRET";
localStorage.setItem("secret", "SECRET");
%(script)s
const asked = [], said = [], closed = [];
const host = (number) => ({
  ask: async (method, params) => {
    asked.push([number, method, params]);
    return { content: [] };
  },
  say: (text) => said.push(text),
  close: () => closed.push(number),
});
const show = (html, number) => document.body.append(hostedPage(
  { html, arguments: { place: "Oslo" }, result: { content: [] }, wanted: ["https://stones.example"] },
  (frame) => { frame.srcdoc = %(frame)s; }, host(number)));
const bare = (html) => { document.body.append(Object.assign(document.createElement("iframe"), { srcdoc: html })); };
</script>
"""


def host_page(folder: Path) -> Path:
    """A page with the host's script, which keeps what pages ask."""
    place = folder / "host.html"
    frame = json.dumps(frame_document()).replace("</", "<\\/")
    place.write_text(_HOST % {"script": host_script(), "frame": frame}, "utf-8")
    return place


def in_time(page: Page, is_so: Callable[[], bool], seconds: float = _SECONDS) -> bool:
    """Whether something comes true in a bounded time."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        page.wait_for_timeout(50)
    return is_so()


def shown(browser: Chromium, place: Path, pages: Sequence[str], how: str = "show") -> dict[str, Any]:
    """Show pages, the last of which says when it is done, and return what the host knows a while later."""

    def look(page: Page) -> dict[str, Any]:
        opened: list[str] = []
        page.context.on("page", lambda each: opened.append(each.url))
        for number, html in enumerate(pages):
            page.evaluate(f"([html, number]) => {how}(html, number)", [html, number])
        assert how == "bare" or in_time(page, lambda: page.evaluate("asked.some(([, method, params]) => params.done)"))
        page.wait_for_timeout(_QUIET * 1000)
        links = page.locator(".agui-app-offers a").evaluate_all("all => all.map(each => each.href)")
        known = page.evaluate("({ asked, said, stolen: globalThis.STOLEN ?? null, text: document.title })")
        return {**known, "opened": opened, "url": page.url, "links": links, "frames": len(page.frames)}

    return browser.visit(place, look)[0]


def test_pages_that_send_or_load_reach_nothing(browser: Chromium, tmp_path: Path) -> None:
    place = host_page(tmp_path)
    with listening() as listener:
        pages = [sending(number, listener.port) for number in range(len(SENDING))]
        known = shown(browser, place, [*pages, f"<body><script>{DONE}</script>"])
        assert listener.heard == []
        assert (len(known["asked"]), known["opened"], known["url"]) == (1, [], place.as_uri())
        # The same pages in a frame alone: what reaches the listener from there is what the frames are for.
        harmless = [each for each in pages if "top" not in each and "parent" not in each and "open(" not in each]
        shown(browser, place, harmless, "bare")
        reached = {line.split(" ")[1].split("/")[1] for line in listener.heard if line.count(" ") == 2}
        assert len(reached) > 25
        assert "UDP" in listener.heard


def test_pages_that_read_find_nothing(browser: Chromium, tmp_path: Path) -> None:
    # Without eval, each expression is a function of its own.
    body = "".join(
        f"try {{ found.push([{json.dumps(each)}, String({each})]); }} catch {{ found.push([{json.dumps(each)}, '']); }}"
        for each in READING
    )
    script = f"const found = []; {body} {DONE.replace('done: true', 'done: true, found')}"
    known = shown(browser, host_page(tmp_path), [f"<body><script>{script}</script>"])
    [(_, method, params)] = known["asked"]
    assert method == "tools/call"
    found = {name: value for name, value in params["found"] if value not in ("", "null", "undefined", "pending")}
    assert found == {}
    assert len(params["found"]) == len(READING)


def test_pages_that_ask_what_they_may_not_ask_nothing(browser: Chromium, tmp_path: Path) -> None:
    requests = [{"jsonrpc": "2.0", "id": number, "method": each} for number, each in enumerate(ASKING)]
    requests += [{"jsonrpc": "2.0", "id": 1, "method": "ui/open-link", "params": {"url": each}} for each in OPENING]
    odd: list[Any] = [
        None,
        5,
        "tools/call",
        [],
        {"jsonrpc": "1.0", "id": 1, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": {"tools/call": 1}},
        {"jsonrpc": "2.0", "id": 1, "method": "ui/message", "params": {"content": [{"type": "image"}]}},
        {"jsonrpc": "2.0", "id": 1, "method": "ui/message", "params": 7},
        {"jsonrpc": "2.0", "method": "ui/notifications/size-changed", "params": {"height": 10**9}},
        {"jsonrpc": "2.0", "method": "ui/notifications/size-changed", "params": {"height": "x"}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {}},
    ]
    texts = [json.dumps(each).replace("</", "<\\/") for each in [*requests, *odd]]
    send = "".join(f"parent.postMessage({each}, '*');" for each in texts)
    # Past the outer frame, to the host itself; as long as a megabyte; and one with what is no JSON.
    send += "top.postMessage({jsonrpc: '2.0', id: 9, method: 'tools/call', params: {}}, '*');"
    send += "parent.postMessage({jsonrpc: '2.0', id: 9, method: 'tools/call', params: {x: 'x'.repeat(2e6)}}, '*');"
    send += "alert(1); confirm(1); prompt(1); print();"
    known = shown(browser, host_page(tmp_path), [f"<body><script>{send}{DONE}</script>"])
    assert [params for _, _, params in known["asked"]] == [{"done": True}]
    assert (known["said"], known["links"], known["stolen"]) == ([], [], None)
    assert known["opened"] == []


def test_a_page_has_few_requests_at_a_time_and_its_links_and_messages_wait_for_a_person(
    browser: Chromium, tmp_path: Path
) -> None:
    page_html = """<body><script>
    const ask = (id, method, params) => parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
    for (let each = 0; each < 100; each += 1) ask(each, "tools/call", { name: "move" });
    for (let each = 0; each < 20; each += 1) ask(`l${each}`, "ui/open-link", { url: `https://stones.example/${each}` });
    ask("m", "ui/message", { role: "user", content: [{ type: "text", text: "Move it." }] });
    parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params: { height: 321 } }, "*");
    </script>"""

    def look(page: Page) -> None:
        page.evaluate("(html) => show(html, 0)", page_html)
        page.get_by_role("button", name="Send it").wait_for()
        assert page.evaluate("said") == []
        assert page.locator(".agui-app-offers a").count() == 2
        link = page.locator(".agui-app-offers a").last
        assert link.get_attribute("href") == "https://stones.example/19"
        assert link.get_attribute("rel") == "noopener noreferrer"
        page.get_by_role("button", name="Send it").click()
        assert page.evaluate("said") == ["Move it."]
        assert in_time(page, lambda: page.locator(".agui-app-frame").evaluate("each => each.style.height") == "321px")
        page.get_by_role("button", name="Close the page").click()
        assert page.evaluate("closed") == [0]

    browser.visit(host_page(tmp_path), look)
