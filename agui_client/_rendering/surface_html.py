"""Surfaces as HTML: saved and inert, or live where a kernel takes what a person enters.

An agent wrote a surface, so everything in it is text here: no style, class or address of it reaches a page except an
http address as a link that the person presses. Nothing is fetched and no script is written.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.schema import is_object
from agui_client._rendering.escaping import exact, sentence
from agui_client._rendering.markdown import prose, without_styles
from agui_client._rendering.surface_text import CONTAINERS, chosen_of, label_of, named, options_of, shown_text
from agui_client.a2ui import Drawn
from agui_client.a2ui._functions import text_of

if TYPE_CHECKING:
    from agui_client.a2ui import Action, Surface

_MOST = 1_000_000
"""The length of the HTML of a surface, in characters, behind which nothing more is written."""
_JUSTIFY = {"center", "end", "spaceAround", "spaceBetween", "spaceEvenly", "start", "stretch"}
_ALIGN = {"center", "end", "start", "stretch"}

SURFACE_STYLE = """
.agui-surface{border:1px solid var(--agui-line);border-radius:10px;margin:6px 0;padding:10px 12px}
.agui-surface :is(.agui-s-col,.agui-s-row){display:flex;gap:8px;min-width:0}
.agui-surface .agui-s-col{flex-direction:column}
.agui-surface .agui-s-row{flex-wrap:wrap}
.agui-s-j-center{justify-content:center}.agui-s-j-end{justify-content:flex-end}
.agui-s-j-spaceAround{justify-content:space-around}.agui-s-j-spaceBetween{justify-content:space-between}
.agui-s-j-spaceEvenly{justify-content:space-evenly}
.agui-s-a-center{align-items:center}.agui-s-a-end{align-items:flex-end}.agui-s-a-start{align-items:flex-start}
.agui-s-card{border:1px solid var(--agui-line);border-radius:8px;padding:8px 10px}
.agui-s-h1{font-size:20px;font-weight:600}.agui-s-h2{font-size:18px;font-weight:600}.agui-s-h3{font-size:16px;font-weight:600}
.agui-s-h4,.agui-s-h5{font-weight:600}.agui-s-caption{color:var(--agui-dim);font-size:12px}
.agui-surface :is(input,select,textarea,button){background:var(--agui-soft);border:1px solid var(--agui-dim);
border-radius:6px;color:inherit;font:inherit;padding:3px 8px}
.agui-surface button{cursor:pointer}.agui-surface :disabled{cursor:not-allowed;opacity:.7}
.agui-surface .agui-s-primary{background:var(--agui-key);color:var(--agui-on)}
.agui-surface .agui-s-borderless{background:none;border:0;text-decoration:underline}
.agui-s-field{display:flex;flex-direction:column;gap:2px}.agui-s-failed{color:var(--agui-bad);font-size:12px}
.agui-s-rule{border:0;border-top:1px solid var(--agui-line);width:100%}
.agui-s-unknown{border:1px dashed var(--agui-dim);border-radius:6px;padding:4px 8px}
"""


def surface_html(
    surface: Surface, *, is_live: bool = False, complaints: Sequence[str] = (), has_styles: bool = True
) -> str:
    """Write a surface as HTML.

    Args:
        is_live: Whether fields and buttons can be used; they have the members `data-set`, `data-press` and `data-at`.
        complaints: Sentences about what a person did last.
        has_styles: Whether elements have styles; a page whose policy allows none reads the weight of an element in
            its `data-weight`.
    """
    painter = _Painter(surface, is_live, has_styles)
    inside = painter.painted(surface.tree)
    status = "" if surface.status == "ready" else _small(f"{surface.id}: {surface.status}")
    notes = "".join(_failed(each) for each in (*complaints, *surface.problems[:20]))
    return f'<div class="agui-surface" role="group" aria-label="{_attribute(surface.id)}">{status}{inside}{notes}</div>'


def carried_out(surface: Surface, message: Mapping[str, Any]) -> Action | None:
    """Enter a value or press a button, as the page of a live surface says; return the action of a press.

    Args:
        message: `{"set": …, "at": …, "value": …}` or `{"press": …, "at": …}`, as the attributes have them.

    Raises:
        UsageError: The surface does not take it.
    """
    at = str(message.get("at", "/"))
    if "set" in message:
        surface.set(str(message["set"]), message.get("value"), at=at)
    if "press" in message:
        return surface.press(str(message["press"]), at=at)
    return None


class _Painter:
    """Paints the components of one surface."""

    def __init__(self, surface: Surface, is_live: bool, has_styles: bool) -> None:
        self._surface = surface
        self._is_live, self._has_styles = is_live, has_styles
        self._entered = surface.entered
        self._written = 0

    def painted(self, node: Drawn) -> str:
        """Return a component as HTML."""
        if self._written > _MOST:
            return ""
        if node.note:
            return _small(f"({node.note})")
        paint = _PAINT.get(node.component, _Painter.unknown)
        shown = paint(self, node)
        self._written += len(shown) if node.component not in CONTAINERS else 0
        weight = node.values.get("weight")
        if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= 100:
            style = f'style="flex:{weight:g} 1 0;min-width:0"' if self._has_styles else f'data-weight="{weight:g}"'
            return f"<div {style}>{shown}</div>"
        return shown

    # --- what is only seen

    def text(self, node: Drawn) -> str:
        """Return a text: a heading, a caption, or prose as Markdown."""
        text, variant = shown_text(node.values.get("text", "")), node.values.get("variant")
        self._written += len(text)
        if variant in ("h1", "h2", "h3", "h4", "h5"):
            level = str(variant)[1]
            return f'<div class="agui-s-h{level}" role="heading" aria-level="{level}">{_words(text.lstrip("# "))}</div>'
        if variant == "caption":
            return f'<div class="agui-s-caption">{_words(text)}</div>'
        words = prose(text) if self._has_styles else without_styles(prose(text))
        return f'<div class="agui-text" dir="auto">{words}</div>'

    def icon(self, node: Drawn) -> str:
        """Return an icon by its name."""
        # The name alone: an agent may claim any meaning of a picture.
        return f'<span class="agui-s-caption">[{_words(shown_text(node.values.get("name", "")))[:100]}]</span>'

    def media(self, node: Drawn) -> str:
        """Return a picture, video or sound as a link, which loads nothing."""
        about = shown_text(node.values.get("description", "")) or named(node)
        return _link(shown_text(node.values.get("url", "")), f"{node.component.lower()}: {about}")

    def divider(self, node: Drawn) -> str:
        """Return a line between components."""
        return '<hr class="agui-s-rule">'

    def unknown(self, node: Drawn) -> str:
        """Return a component that is not in the catalog, with what it holds."""
        head = _small(f"unknown component {node.component[:100] or node.id!r}")
        return f'<div class="agui-s-unknown">{head}{self._children(node)}</div>'

    # --- what holds others

    def _children(self, node: Drawn) -> str:
        """Return the components that a component holds."""
        return "".join(self.painted(each) for each in node.children)

    def flow(self, node: Drawn) -> str:
        """Return a row, a column or a list."""
        is_row = node.component == "Row" or node.values.get("direction") == "horizontal"
        justify, align = node.values.get("justify"), node.values.get("align")
        classes = ["agui-s-row" if is_row else "agui-s-col"]
        classes += [f"agui-s-j-{justify}"] if justify in _JUSTIFY else []
        classes += [f"agui-s-a-{align}"] if align in _ALIGN else []
        return f'<div class="{" ".join(classes)}">{self._children(node)}</div>'

    def card(self, node: Drawn) -> str:
        """Return a card."""
        return f'<div class="agui-s-card">{self._children(node)}</div>'

    def tabs(self, node: Drawn) -> str:
        """Return tabs as sections that open, the first of them open."""
        return "".join(
            f"<details{' open' if place == 0 else ''}><summary>{_words(shown_text(each.get('title', '')))}</summary>"
            f"{self.painted(each['child']) if 'child' in each else ''}</details>"
            for place, each in enumerate(node.values.get("tabs", ()))
            if is_object(each)
        )

    def modal(self, node: Drawn) -> str:
        """Return what opens over the page as a section below its trigger."""
        trigger, content = node.values.get("trigger"), node.values.get("content")
        title = _words(label_of(trigger)) if isinstance(trigger, Drawn) else ""
        inside = self.painted(content) if isinstance(content, Drawn) else ""
        return f"<details><summary>{title}</summary>{inside}</details>"

    # --- what a person uses

    def button(self, node: Drawn) -> str:
        """Return a button, or the link of one that opens an address."""
        call: Any = (node.action or {}).get("functionCall")
        if is_object(call):
            address = call.get("args", {}).get("url") if is_object(call.get("args")) else None
            return _link(address if isinstance(address, str) else "", label_of(node))
        variant = node.values.get("variant")
        style = f" agui-s-{variant}" if variant in ("primary", "borderless") else ""
        at = f' data-press="{_attribute(node.id)}" data-at="{_attribute(node.at)}"' if self._is_live else " disabled"
        return f'<button type="button" class="agui-s-button{style}"{at}>{_words(label_of(node))}</button>'

    def _use(self, node: Drawn) -> str:
        """Return the attributes of a field: usable where its value is bound and goes to a handler."""
        about = f' aria-label="{_attribute(label_of(node))}"'
        if not self._is_live or "value" not in node.paths:
            return f"{about} disabled"
        return f'{about} data-set="{_attribute(node.id)}" data-at="{_attribute(node.at)}"'

    def _field(self, node: Drawn, control: str, note: str = "") -> str:
        """Return a field with its label and, once a person has touched it, its failed checks."""
        label = f"<label>{_words(label_of(node))}</label>"
        # Before a field was touched, it is no mistake that it is empty.
        failed = node.failed if node.paths.get("value") in self._entered else []
        return f'<div class="agui-s-field">{label}{control}{note}{"".join(map(_failed, failed))}</div>'

    def text_field(self, node: Drawn) -> str:
        """Return a field for a text, a number or a password."""
        variant, value, note = node.values.get("variant"), shown_text(node.values.get("value", "")), ""
        if exact(value) != value and "\n" not in value:
            # In a field, characters that reverse or hide others would show as another text.
            value, note = "", _small(f"value: {exact(value)}")
        if variant == "longText":
            return self._field(node, f"<textarea rows=4{self._use(node)}>{html.escape(value)}</textarea>", note)
        kind = {"number": "number", "obscured": "password"}.get(str(variant), "text")
        step = ' step="any"' if kind == "number" else ""
        shown = "" if kind == "password" and not self._is_live else value
        control = f'<input type="{kind}"{step} value="{html.escape(shown)}" autocomplete="off"{self._use(node)}>'
        return self._field(node, control, "" if kind == "password" else note)

    def check_box(self, node: Drawn) -> str:
        """Return a box to check."""
        checked = " checked" if node.values.get("value") is True else ""
        failed = node.failed if node.paths.get("value") in self._entered else []
        box = f'<input type="checkbox"{checked}{self._use(node)}>'
        return f"<label>{box} {_words(label_of(node))}</label>{''.join(map(_failed, failed))}"

    def choice(self, node: Drawn) -> str:
        """Return a choice of one option or of several."""
        is_multiple, chosen = node.values.get("variant") == "multipleSelection", chosen_of(node)
        # Of all boxes with a name on a page, a browser checks one: those of copies that cannot be used have none.
        name = f' name="{_attribute(f"{self._surface.id}{node.at}{node.id}")}"' if self._is_live else ""
        boxes = [
            f'<label><input type="{"checkbox" if is_multiple else "radio"}"{name} value="{_attribute(value)}"'
            f"{' checked' if value in chosen else ''}{self._use(node)}> {_words(label)}</label>"
            for value, label in options_of(node)[:500]
        ]
        return self._field(node, "".join(boxes))

    def slider(self, node: Drawn) -> str:
        """Return a slider with its value."""
        bounds = "".join(
            f' {name}="{bound:g}"'
            for name in ("min", "max")
            if isinstance(bound := node.values.get(name), int | float) and math.isfinite(bound)
        )
        value = _attribute(text_of(node.values.get("value", "")))
        return self._field(node, f'<input type="range" step="any"{bounds} value="{value}"{self._use(node)}>{value}')

    def moment(self, node: Drawn) -> str:
        """Return a field for a date, a time or both."""
        has_date, has_time = (node.values.get(name) is True for name in ("enableDate", "enableTime"))
        kind, length = ("datetime-local", 16) if has_date and has_time else ("time", 5) if has_time else ("date", 10)
        value = text_of(node.values.get("value", ""))[:length]
        return self._field(node, f'<input type="{kind}" value="{_attribute(value)}"{self._use(node)}>')


def _words(text: str) -> str:
    """Return words as HTML, their invisible characters shown."""
    return html.escape(sentence(text))


def _attribute(text: str) -> str:
    """Return a text for an attribute, its invisible characters shown."""
    return html.escape(exact(text))


def _small(text: str) -> str:
    """Return a caption."""
    return f'<div class="agui-s-caption">{_words(text)}</div>'


def _failed(text: str) -> str:
    """Return the message of a check that failed."""
    return f'<div class="agui-s-failed" role="alert">{_words(text)}</div>'


def _link(address: str, words: str) -> str:
    """Return a link to an address of the web that is shown beside it; of any other address only the words."""
    shown = exact(address)
    if not address.startswith(("https://", "http://")) or shown != address or '"' in address:
        return f'<span class="agui-s-caption">{_words(words)} ({html.escape(shown)})</span>'
    link = f'<a href="{html.escape(address)}" target="_blank" rel="noopener noreferrer nofollow">'
    return f"{link}{_words(words)}</a> {_small(address)}"


_PAINT: dict[str, Callable[[_Painter, Drawn], str]] = {
    "Text": _Painter.text,
    "Image": _Painter.media,
    "Icon": _Painter.icon,
    "Video": _Painter.media,
    "AudioPlayer": _Painter.media,
    "Row": _Painter.flow,
    "Column": _Painter.flow,
    "List": _Painter.flow,
    "Card": _Painter.card,
    "Tabs": _Painter.tabs,
    "Modal": _Painter.modal,
    "Divider": _Painter.divider,
    "Button": _Painter.button,
    "TextField": _Painter.text_field,
    "CheckBox": _Painter.check_box,
    "ChoicePicker": _Painter.choice,
    "Slider": _Painter.slider,
    "DateTimeInput": _Painter.moment,
}
"""The components of the basic catalog, each with the function that paints it."""
