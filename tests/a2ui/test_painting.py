"""Painted surfaces: HTML that is saved, inert and safe, and lines for terminals."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ag_ui.core import UserMessage

from agui_client._rendering.surface_html import surface_html
from agui_client._rendering.surface_text import surface_lines
from agui_client.a2ui import Surface
from agui_client.a2ui._catalog import COMPONENTS
from agui_client.notebook._content import bundle_of
from support.a2ui_fixtures import MISSING, ROOT, examples, operations_of, shown, surface_of

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
    return surface_of([evil, inner, {"id": attack, "component": "Text", "text": attack}], {"v": attack}, attack)


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


def test_a_surface_is_written_as_lines() -> None:
    surface = _form()
    surface.set("name", "Ann")
    assert surface_lines(surface) == ["Name: Ann", "[x] Return", "[ Go ]"]


def test_what_is_hidden_while_it_is_typed_is_in_no_saved_page() -> None:
    field = {"id": "root", "component": "TextField", "label": "PIN", "value": {"path": "/p"}, "variant": "obscured"}
    surface = surface_of([field], {"p": "4711"})
    assert "4711" not in surface_html(surface) + "\n".join(surface_lines(surface))
