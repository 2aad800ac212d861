"""Painted surfaces: HTML that is saved, inert and safe, and lines for terminals."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import ActivityMessage, ActivitySnapshotEvent, UserMessage

from agui_client._rendering.inline_parts import escaped_json
from agui_client._rendering.surface_html import SURFACE_STYLE, surface_html
from agui_client._rendering.surface_text import surface_lines
from agui_client.a2ui import Surface, Surfaces
from agui_client.a2ui._catalog import COMPONENTS
from agui_client.asgi import agent_app
from agui_client.inspector import inspector_page
from agui_client.notebook import html_page
from agui_client.notebook._cell_widget import script_text
from agui_client.notebook._content import bundle_of
from agui_client.recording import Recording, record
from agui_client.store import Store
from agui_client.testing import ScriptedAgent, serve, turn
from support.a2ui_fixtures import MISSING, ROOT, examples, operations_of, shown, surface_of
from support.browser import FRAME, Chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TAGS = {
    *("div", "span", "button", "input", "label", "textarea", "details", "summary", "hr", "a", "style"),
    *("p", "strong", "em", "code", "pre", "ul", "ol", "li", "br", "table", "blockquote"),
    *(f"h{level}" for level in range(1, 7)),
}
_LOADING = {"src", "srcset", "srcdoc", "action", "formaction", "poster", "background", "data"}
_STYLES = re.compile(r"flex:[0-9.e+-]+ 1 0;min-width:0")


class _Page(HTMLParser):
    """Collects the tags and attributes of a page as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    page = _Page()
    page.feed(html)
    return page.tags


def _assert_inert(html: str) -> None:
    for tag, attributes in _tags(html):
        assert tag in _TAGS
        assert not [name for name in attributes if name.startswith("on") or name in _LOADING]
        assert tag == "a" or "href" not in attributes
        if tag == "a":
            assert str(attributes["href"]).startswith(("https://", "http://"))
            assert "target" not in attributes or "noopener" in str(attributes["rel"])
        if "style" in attributes:
            assert _STYLES.fullmatch(str(attributes["style"]))


@pytest.mark.skipif(not ROOT.exists(), reason=MISSING)
@pytest.mark.parametrize("example", examples("v0_9"), ids=lambda path: str(path.stem))
def test_an_example_is_painted_inert_with_each_text_that_it_shows(example: Any) -> None:
    bundle = bundle_of([UserMessage(id="u", content="Hi"), shown(*operations_of(example))])
    html, plain = bundle["text/html"], bundle["text/plain"]
    _assert_inert(html)
    assert all("disabled" in attributes for tag, attributes in _tags(html) if tag in ("input", "button", "textarea"))
    assert plain.count("\n") > 2


_ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onfocus=alert(1) autofocus x='",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "![x](https://evil.example/p.png)",
    "[x](javascript:alert(1))",
    "</style><style>*{background:url(https://evil.example)}",
    "</textarea><iframe src=https://evil.example>",
    'https://evil.example/" onmouseover="alert(1)',
    "<svg onload=alert(1)>",
    "\u202egnp.exe",
]


@pytest.mark.parametrize("name", [*COMPONENTS, "Evil<script>"])
def test_whatever_stands_in_a_component_nothing_runs_and_nothing_is_requested(name: str) -> None:
    for attack in _ATTACKS:
        surface = _attacked(name, attack)
        for is_live in (False, True):
            html = surface_html(surface, is_live=is_live, complaints=[attack])
            _assert_inert(html)
            assert "\u202e" not in html
        assert "\u202e" not in "\n".join(surface_lines(surface))


def _attacked(name: str, attack: str) -> Surface:
    return surface_of(_hostile_components(name, attack), {"v": attack}, attack)


def _hostile_components(name: str, attack: str) -> list[dict[str, Any]]:
    """A component in whose properties an attack stands, wherever it takes a text."""
    evil: dict[str, Any] = {
        "id": "root",
        "component": name,
        **dict.fromkeys(("text", "url", "name", "label", "value", "variant", "description", "justify"), attack),
        **dict.fromkeys(("align", "direction", "axis", "displayStyle", "min", "max", "weight"), attack),
        "child": attack,
        "children": [attack, "inner"],
        "tabs": [{"title": attack, "child": "inner"}],
        "trigger": "inner",
        "content": attack,
        "options": [{"label": attack, "value": attack}],
        "action": {"functionCall": {"call": "openUrl", "args": {"url": attack}}},
        "accessibility": {"label": attack},
        "checks": [{"condition": False, "message": attack}],
    }
    inner = {"id": "inner", "component": "TextField", "label": attack, "value": {"path": "/v"}, "variant": "longText"}
    return [evil, inner, {"id": attack, "component": "Text", "text": attack}]


_MOST_HARM = [
    "<script>window.taken = localStorage.secret</script>",
    '"><img src=http://127.0.0.1:9/a onerror="window.taken = 1">',
    "' onfocus=window.taken=1 onmouseover=window.taken=1 autofocus x='",
    "</style><style>*{background:url(http://127.0.0.1:9/b)}</style><link rel=stylesheet href=http://127.0.0.1:9/c>",
    "</textarea></template></title><iframe srcdoc='<script>parent.taken = 1</script>'></iframe>",
    "![p](http://127.0.0.1:9/d.png) <svg onload=window.taken=1> [x](javascript:window.taken=1)",
    "javascript:window.taken=1",
    "http://127.0.0.1:9/e",
    "<form action=http://127.0.0.1:9/f><button>Send</button><meta http-equiv=refresh content='0;http://127.0.0.1:9/g'>",
    "<base href=http://127.0.0.1:9/h><object data=http://127.0.0.1:9/i></object><video src=http://127.0.0.1:9/j>",
]
_ALL_HARM = [(name, attack) for name in [*COMPONENTS, "Evil<script>"] for attack in _MOST_HARM]
_HARM_DONE = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("input, textarea, button, select, div, span")) {
    each.focus();
    each.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
  }
  for (const each of document.querySelectorAll(".agui-surface button")) each.click();
  const found = document.querySelectorAll(`.agui-surface :is(script, iframe, img, object, embed, video, audio, source,
    link, base, meta, style, form, svg, template)`).length;
  const surfaces = document.querySelectorAll(".agui-surface").length;
  const links = [...document.querySelectorAll(".agui-surface a")].filter((each) => !/^https?:/.test(each.href)).length;
  return {surfaces, found, links, taken: window.taken ?? null, title: document.title};
}"""


def _hostile_activity() -> ActivityMessage:
    operations: list[dict[str, Any]] = []
    for number, (name, attack) in enumerate(_ALL_HARM):
        components, surface_id = _hostile_components(name, attack), f"{number} {attack}"
        operations += [
            {"createSurface": {"surfaceId": surface_id, "catalogId": "basic", "theme": {"primaryColor": attack}}},
            {"updateComponents": {"surfaceId": surface_id, "components": components}},
            {"updateDataModel": {"surfaceId": surface_id, "value": {"v": attack}}},
        ]
    return shown(*operations)


def _harm_done(browser: Chromium, place: Path | str, begin: Callable[[Page], object] = str) -> dict[str, Any]:
    """Use everything on a page of hostile surfaces; return what is there, and what was requested beside the page."""

    def look(page: Page) -> dict[str, Any]:
        own = page.url.partition("#")[0].rstrip("/")
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.reload()
        page.evaluate("localStorage.secret = 'a secret of the page'")
        begin(page)
        page.locator(".agui-surface").nth(len(_ALL_HARM) - 1).wait_for(state="attached")
        done: dict[str, Any] = page.evaluate(_HARM_DONE)
        page.evaluate(FRAME)
        return {**done, "requested": [each for each in requested if not each.startswith((own, "data:", "blob:"))]}

    done, _ = browser.visit(place, look)
    return done


@pytest.mark.parametrize("place", ["saved", "live", "chat page", "inspector"])
def test_hostile_surfaces_run_request_and_read_nothing(browser: Chromium, tmp_path: Path, place: str) -> None:
    assert len(_ALL_HARM) >= 60
    message = _hostile_activity()
    path = tmp_path / "page.html"
    match place:
        case "saved":
            path.write_bytes(html_page([message]))
            done = _harm_done(browser, path)
        case "live":
            html = "".join(surface_html(each, is_live=True) for each in Surfaces([message]).values())
            script, shown_in = _live_script(html)
            path.write_text(f"<body><p id=a><script type=module>{script}{shown_in('a')}</script>", "utf-8")
            done = _harm_done(browser, path)
        case "inspector":
            recording = tmp_path / "run.jsonl"
            agent = ScriptedAgent(turn(_event_of(message)))
            agent.use(record(recording)).run_agent_sync("Hi")
            path.write_bytes(inspector_page(Recording.read(recording)))
            done = _harm_done(browser, path)
        case _:
            app = agent_app(ScriptedAgent(turn(_event_of(message))), store=Store(), owner_of=lambda _: "", page=True)

            def ask(page: Page) -> None:
                page.locator("#prompt").fill("Hi")
                page.keyboard.press("Enter")

            with serve(app) as server:
                done = _harm_done(browser, server.url, ask)
    titles = {"saved": "Chat", "live": "", "inspector": "run.jsonl: AG-UI inspector", "chat page": "agent"}
    assert done == {
        "surfaces": len(_ALL_HARM),
        "found": 0,
        "links": 0,
        "taken": None,
        "title": titles[place],
        "requested": [],
    }


def _live_script(html: str) -> tuple[str, Callable[[str], str]]:
    """The script of live surfaces, and the call that shows one in the element with an id."""
    shown = escaped_json({"style": "", "rules": SURFACE_STYLE, "classes": "agui", "html": html}).decode()
    script = script_text("surface").replace("export default", "void")
    model = "{get: () => shown, on: () => {}, off: () => {}, send: () => {}}"
    return (
        f"const shown = {shown}\n{script}\n",
        lambda place: f"render({{model: {model}, el: document.getElementById('{place}')}})\n",
    )


def _event_of(message: ActivityMessage) -> ActivitySnapshotEvent:
    return ActivitySnapshotEvent(message_id="m", activity_type=message.activity_type, content=message.content)


def _form() -> Surface:
    needed = {"condition": {"call": "required", "args": {"value": {"path": "/name"}}}, "message": "Who is going?"}
    return surface_of(
        [
            {"id": "root", "component": "Column", "children": ["name", "mode", "go"]},
            {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}, "checks": [needed]},
            {"id": "mode", "component": "CheckBox", "label": "Return", "value": True},
            {"id": "go", "component": "Button", "child": "t", "action": {"event": {"name": "go"}}},
            {"id": "t", "component": "Text", "text": "Go"},
        ],
        {"name": ""},
    )


def test_checks_complain_after_a_field_was_touched() -> None:
    surface = _form()
    assert "Who is going?" not in surface_html(surface, is_live=True)
    surface.set("name", "Ann")
    surface.set("name", "")
    assert "Who is going?" in surface_html(surface, is_live=True)


def test_a_field_can_be_used_live_where_its_value_is_bound() -> None:
    tags = _tags(surface_html(_form(), is_live=True))
    fields = {attributes["aria-label"]: attributes for tag, attributes in tags if tag == "input"}
    assert (fields["Name"]["data-set"], fields["Name"]["data-at"]) == ("name", "/")
    assert "disabled" in fields["Return"]
    (button,) = [attributes for tag, attributes in tags if tag == "button"]
    assert (button["data-press"], button["data-at"]) == ("go", "/")


def test_boxes_of_copies_of_a_surface_on_one_page_are_groups_of_their_own(browser: Chromium, tmp_path: Path) -> None:
    options = [{"label": each, "value": each} for each in ("dawn", "dusk")]
    picker = {"id": "root", "component": "ChoicePicker", "options": options, "value": {"path": "/v"}}
    copies = [surface_of([picker], {"v": [each]}) for each in ("dawn", "dusk", "dusk")]
    static = "".join(surface_html(each) for each in copies)
    script, shown = _live_script(surface_html(copies[0], is_live=True))
    path = tmp_path / "page.html"
    path.write_text(
        f"<body>{static}<p id=a><p id=b><script type=module>{script}{shown('a')}{shown('b')}</script>", "utf-8"
    )

    def look(page: Page) -> list[bool]:
        page.locator("#a input").last.check()
        found: list[bool] = page.evaluate("[...document.querySelectorAll('input')].map((each) => each.checked)")
        return found

    checked, complaints = browser.visit(path, look)
    assert checked == [True, False, *[False, True] * 3, True, False]
    assert complaints == []


def test_a_surface_is_written_as_lines() -> None:
    surface = _form()
    surface.set("name", "Ann")
    assert surface_lines(surface) == ["Name: Ann", "[x] Return", "[ Go ]"]


def test_what_is_hidden_while_it_is_typed_is_in_no_saved_page() -> None:
    field = {"id": "root", "component": "TextField", "label": "PIN", "value": {"path": "/p"}, "variant": "obscured"}
    surface = surface_of([field], {"p": "4711"})
    assert "4711" not in surface_html(surface) + "\n".join(surface_lines(surface))
