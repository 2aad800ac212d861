r"""The elements of a display, each as HTML, as Markdown and as plain text.

An agent wrote most of what is shown, so every text is escaped here: markup shows as text, and characters that a screen
would obey or hide show as JSON writes them (SEC-8). Nothing that is shown makes a browser fetch anything, and
a notebook draws TeX only where `typeset` was asked for: "$5 and $10" are prices, and `\phantom` would hide text.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._rendering.escaping import exact, sentence
from agui_client._rendering.markdown import code_block, cut, literal, passage, prose
from agui_client._rendering.story import as_json
from agui_client._rendering.style import STYLE
from agui_client.notebook._style_sheet import sheet_for_output

Tone = Literal["dim", "good", "bad", "unfinished"]

_MOST_MEMBERS = 200
_MOST_OPEN = 20
_DEEPEST = 12
ROOT_CLASSES = "agui tex2jax_ignore mathjax_ignore"
"""The classes of the element around everything; notebooks draw no TeX in it."""


COPYING = (
    "<script>(() => { const root = document.currentScript?.previousElementSibling;"
    "for (const code of root?.querySelectorAll('.agui-text pre') ?? []) {"
    "const button = document.createElement('button'), box = document.createElement('div');"
    "Object.assign(button, { type: 'button', className: 'agui-copy', textContent: 'Copy' });"
    "button.onclick = () => navigator.clipboard.writeText(code.innerText).then("
    "() => { button.textContent = 'Copied'; }, () => getSelection().selectAllChildren(code));"
    "box.className = 'agui-code'; code.replaceWith(box); box.append(code, button); } })()</script>"
)
"""Gives blocks of code a button; where no script runs, there is none."""


class Element(Protocol):
    """A part of a display."""

    def html(self) -> str:
        """Write the element as HTML."""
        ...

    def markdown(self) -> str:
        """Write the element as a block of Markdown."""
        ...

    def plain(self) -> str:
        """Write the element as lines of text."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One line about the run."""

    text: str
    tone: Tone = "dim"

    def html(self) -> str:
        """Write a small line."""
        return f'<div class="agui-line agui-{self.tone}">{_name(self.text)}</div>'

    def markdown(self) -> str:
        """Write the line in italics."""
        return f"*{literal(self.text)}*"

    def plain(self) -> str:
        """Write the line."""
        return exact(" ".join(self.text.split()))


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message in a chat."""

    side: Literal["user", "agent", "system"]
    author: str
    text: str
    has_math: bool = False
    """Whether the notebook draws the TeX in it."""

    def html(self) -> str:
        """Write a bubble; the text of agents is Markdown."""
        text = prose(self.text, has_math=self.has_math) if self.side == "agent" else f"<p>{_text(self.text)}</p>"
        author = f'<div class="agui-author">{_name(self.author)}</div>'
        inside = f'{author}<div class="agui-text" dir="auto">{text}</div>'
        return f'<div class="agui-bubble agui-{self.side}" role="article">{inside}</div>'

    def markdown(self) -> str:
        """Write the author, and the text with its markup, but without HTML and images."""
        return f"**{literal(self.author)}**\n\n{passage(cut(self.text), has_math=self.has_math)}"

    def plain(self) -> str:
        """Write the author and the text."""
        return f"{exact(self.author)}: {sentence(cut(self.text))}"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that came by value."""

    mime_type: str
    data: str
    side: Literal["user", "agent"] = "agent"

    def html(self) -> str:
        """Write the picture itself."""
        address = html.escape(f"data:{self.mime_type};base64,{self.data}")
        return f'<img class="agui-image agui-image-{self.side}" src="{address}" alt="{_name(self.plain())}">'

    def markdown(self) -> str:
        """Write what it is, as no document needs to hold it."""
        return Line(self.plain()).markdown()

    def plain(self) -> str:
        """Write the format and the size."""
        return f"[{self.mime_type}, {max(1, len(self.data) * 3 // 4096)} KiB]"


@dataclass(frozen=True, slots=True)
class Code:
    """A text that is not prose, such as a tool's result."""

    text: str

    def html(self) -> str:
        """Write preformatted text that wraps."""
        return f"<pre>{html.escape(_exact(self.text))}</pre>"

    def markdown(self) -> str:
        """Write a block of code."""
        return code_block(cut(self.text))

    def plain(self) -> str:
        """Write the text."""
        return _exact(self.text)


@dataclass(frozen=True, slots=True)
class Tree:
    """A JSON value."""

    value: Any

    def html(self) -> str:
        """Write the value as a tree whose branches fold."""
        return f'<div class="agui-tree">{_branch(self.value, 0)}</div>'

    def markdown(self) -> str:
        """Write the value as a block of code."""
        return Code(as_json(self.value, indent=2)).markdown()

    def plain(self) -> str:
        """Write the value as JSON."""
        return Code(as_json(self.value, indent=2)).plain()


@dataclass(frozen=True, slots=True)
class Details:
    """Elements that unfold below a line."""

    summary: str
    content: Sequence[Element]
    tone: Tone = "dim"
    is_open: bool = False

    def html(self) -> str:
        """Write an element that the browser folds."""
        content, state = "".join(each.html() for each in self.content), " open" if self.is_open else ""
        summary = f'<summary class="agui-{self.tone}">{_name(self.summary)}</summary>'
        return f'<details class="agui-fold"{state}>{summary}<div class="agui-inside">{content}</div></details>'

    def markdown(self) -> str:
        """Write the line, and the elements below it."""
        return "\n\n".join([Line(self.summary).markdown(), *(each.markdown() for each in self.content)])

    def plain(self) -> str:
        """Write the line, and the elements indented below it."""
        lines = "\n".join(each.plain() for each in self.content).split("\n") if self.content else []
        return "\n".join([Line(self.summary).plain(), *(f"  {line}" for line in lines)])


@dataclass(frozen=True, slots=True)
class Bar:
    """The part of something that is done."""

    good: int
    bad: int
    total: int

    def html(self) -> str:
        """Write a bar with two colours."""
        parts = "".join(
            f'<span class="agui-part agui-part-{tone}" style="width:{100 * count / max(self.total, 1):.2f}%"></span>'
            for tone, count in (("good", self.good), ("bad", self.bad))
        )
        return f'<div class="agui-bar" role="img" aria-label="{self.plain()}">{parts}</div>'

    def markdown(self) -> str:
        """Write the bar as text."""
        return Code(self.plain()).markdown()

    def plain(self) -> str:
        """Write a bar of characters."""
        good, bad = (round(20 * count / max(self.total, 1)) for count in (self.good, self.bad))
        return f"{'█' * good}{'▒' * bad}".ljust(20, "░")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of elements."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Element]]

    def html(self) -> str:
        """Write a table."""
        heads = "".join(f"<th>{_name(each)}</th>" for each in self.heads)
        rows = "".join(f"<tr>{''.join(f'<td>{each.html()}</td>' for each in row)}</tr>" for row in self.rows)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        return f'<div class="agui-rows" dir="auto">{table}</div>'

    def markdown(self) -> str:
        """Write a table of the first line of each cell."""
        lines = [[literal(each) for each in self.heads], ["---"] * len(self.heads)]
        lines += [[literal(_first_line(each)) for each in row] for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def plain(self) -> str:
        """Write a line of the first lines of the cells for each row."""
        lines = [list(self.heads), *([_first_line(each) for each in row] for row in self.rows)]
        return "\n".join(exact(" | ".join(line)) for line in lines)


@dataclass(frozen=True, slots=True)
class TrustedHtml:
    """Content that the application drew itself: it is trusted, and shown as it is."""

    as_html: str
    as_text: str

    def html(self) -> str:
        """Return the HTML."""
        return f'<div class="agui-view">{self.as_html}</div>'

    def markdown(self) -> str:
        """Write the text as a block of code."""
        return Code(self.as_text).markdown()

    def plain(self) -> str:
        """Return the text."""
        return _exact(self.as_text)


def bundle(elements: Sequence[Element], *, element_id: str = "") -> dict[str, str]:
    """Write elements as the content of a cell's output, by MIME type.

    Args:
        element_id: The id of the HTML element around them; empty for none.
    """
    shown = sheet_for_output() + _root(elements, element_id)
    return {
        "text/html": shown + COPYING if "<pre><code" in shown else shown,
        "text/markdown": "\n\n".join(each.markdown() for each in elements),
        "text/plain": "\n".join(each.plain() for each in elements),
    }


def page(elements: Sequence[Element], element_id: str = "") -> str:
    """Write elements as HTML, with the style sheet that they need; see `bundle`."""
    return f"<style>{STYLE}</style>{_root(elements, element_id)}"


def _root(elements: Sequence[Element], element_id: str) -> str:
    inside = "".join(each.html() for each in elements)
    named = f' id="{element_id}"' if element_id else ""
    return f'<div{named} class="{ROOT_CLASSES}" role="group" aria-label="Agent">{inside}</div>'


def typeset(elements: Sequence[Element]) -> list[Element]:
    """Return elements in which the notebook draws the TeX that agents wrote in their answers."""
    return [_typeset(each) for each in elements]


def _typeset(element: Element) -> Element:
    match element:
        case ChatMessage():
            return replace(element, has_math=True)
        case Details():
            return replace(element, content=typeset(element.content))
        case _:
            return element


def _branch(value: Any, depth: int) -> str:
    members = _members(value)
    if not members or depth >= _DEEPEST:
        leaf = as_json(value)
        kind = "text" if isinstance(value, str) else "value"
        return f'<span class="agui-{kind}">{html.escape(_exact(leaf))}</span>'
    rows = [_row(key, each, depth) for key, each in islice(members, _MOST_MEMBERS)]
    if len(members) > _MOST_MEMBERS:
        rows.append(f'<li class="agui-dim">… {len(members) - _MOST_MEMBERS} more</li>')
    return f"<ul>{''.join(rows)}</ul>"


def _row(key: object, value: Any, depth: int) -> str:
    name = f'<span class="agui-key">{_name(str(key))}</span>'
    members = _members(value)
    if not members or depth + 1 >= _DEEPEST:
        return f"<li>{name}: {_branch(value, depth + 1)}</li>"
    size = f"{{{len(members)}}}" if is_object(value) else f"[{len(members)}]"
    is_open = " open" if depth < 1 and len(members) <= _MOST_OPEN else ""
    summary = f'<summary>{name} <span class="agui-dim">{size}</span></summary>'
    return f"<li><details{is_open}>{summary}{_branch(value, depth + 1)}</details></li>"


def _members(value: Any) -> Collection[tuple[object, Any]]:
    """Return the members of an object or array with their keys; none of any other value."""
    if is_object(value):
        return value.items()
    return [*enumerate(value)] if is_array(value) else ()


def _first_line(element: Element) -> str:
    return element.plain().partition("\n")[0]


def _name(text: str) -> str:
    """Write a name or one line as HTML."""
    return html.escape(exact(" ".join(cut(text).split())))


def _text(text: str) -> str:
    return html.escape(sentence(cut(text).expandtabs(4)))


def _exact(text: str) -> str:
    return exact(cut(text).expandtabs(4))
