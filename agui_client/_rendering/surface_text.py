"""Surfaces as lines of text: for terminals, and wherever a display is written as plain text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._rendering.escaping import exact, sentence
from agui_client.a2ui._functions import text_of

if TYPE_CHECKING:
    from agui_client.a2ui import Drawn, Progress, Surface, Surfaces

LONGEST_TEXT = 10_000
"""The length of one text that is shown, in characters."""
MOST_LINES = 2_000
"""The lines of a surface that are shown."""


def shown_text(value: Any) -> str:
    """Return a value as the text that is shown, cut where it is very long."""
    text = text_of(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def label_of(node: Drawn) -> str:
    """Return the words by which a person knows a component: its label, or the texts in it."""
    if label := shown_text(node.values.get("label", "")):
        return label
    texts = (shown_text(each.values.get("text", each.values.get("name", ""))) for each in node.walk())
    words = " ".join(filter(None, texts))
    return words[:200] or named(node)


def named(node: Drawn) -> str:
    """Return the label that a component has for people who do not see it; its id if it has none."""
    about = node.values.get("accessibility")
    label = about.get("label") if is_object(about) else None
    return label if isinstance(label, str) and label else node.id


def chosen_of(node: Drawn) -> list[str]:
    """Return the values of a choice that are chosen."""
    value = node.values.get("value")
    return [each for each in value if isinstance(each, str)] if is_array(value) else [value] if value else []


def options_of(node: Drawn) -> list[tuple[str, str]]:
    """Return the options of a choice: their values and labels."""
    options = node.values.get("options")
    found = [each for each in options if is_object(each)] if is_array(options) else []
    return [(text_of(each.get("value")), shown_text(each.get("label", each.get("value")))) for each in found]


def surface_lines(surface: Surface) -> list[str]:
    """Write a surface as lines, one for each thing that is said on it."""
    lines: list[str] = []
    for line in _lines_of(surface.tree, surface.entered, 0):
        if len(lines) == MOST_LINES:
            lines.append("…")
            break
        lines.append(line)
    return [*lines, *(f"! {sentence(each)}" for each in surface.problems)]


def progress_line(shown: Progress) -> str:
    """Write how far an agent is with a surface that is not there yet, or why it gave it up."""
    tokens = f" · about {shown.tokens} tokens" if shown.tokens else ""
    attempt = f" · attempt {shown.attempt} of {shown.most_attempts}" if shown.attempt else ""
    error = f" · {shown.error}" if shown.error else ""
    return sentence(f"surface {shown.status}{tokens}{attempt}{error}")


def loose_lines(surfaces: Surfaces) -> list[str]:
    """Write what is not there yet, what the agent gave up, and what belongs to no surface, a line for each."""
    return [*map(progress_line, surfaces.progress), *(f"! {sentence(each)}" for each in surfaces.problems)]


def titled_lines(surface: Surface) -> list[str]:
    """Write a surface as lines below one with its id."""
    return [f"── {exact(surface.id)}", *surface_lines(surface)]


def _lines_of(node: Drawn, entered: Collection[str], depth: int) -> Iterator[str]:
    indent = "  " * min(depth, 10)
    if node.note:
        yield f"{indent}({exact(node.note)})"
        return
    write = _LINES.get(node.component)
    if write is not None:
        if line := write(node):
            yield from (f"{indent}{sentence(each)}" for each in line.split("\n"))
        # Before a field was touched, it is no mistake that it is empty.
        failed = node.failed if node.paths.get("value") in entered else ()
        yield from (f"{indent}  ! {sentence(each)}" for each in failed)
        return
    if node.component not in CONTAINERS:
        yield f"{indent}({exact(node.component or 'a component')[:100]}: unknown here)"
    titles = node.values.get("tabs")
    for place, child in enumerate(node.children):
        if is_array(titles) and place < len(titles):
            yield f"{indent}== {sentence(shown_text(titles[place].get('title')))} =="
        yield from _lines_of(child, entered, depth + (node.component == "Card"))


def _field(node: Drawn) -> str:
    value = shown_text(node.values.get("value", ""))
    if node.values.get("variant") == "obscured":
        value = "•" * min(len(value), 8)
    return f"{label_of(node)}: {value or '…'}"


def _choice(node: Drawn) -> str:
    chosen = chosen_of(node)
    options = [f"({'x' if value in chosen else ' '}) {label}" for value, label in options_of(node)]
    return "\n".join([f"{shown_text(node.values.get('label', '')) or node.id}:", *(f"  {each}" for each in options)])


def _picture(node: Drawn) -> str:
    about = shown_text(node.values.get("description", ""))
    return f"{node.component.lower()}{f' of {about}' if about else ''}: {shown_text(node.values.get('url'))}"


CONTAINERS = frozenset({"Row", "Column", "List", "Card", "Tabs", "Modal"})
"""The components that show nothing but their children."""
_LINES: dict[str, Callable[[Drawn], str]] = {
    "Text": lambda node: shown_text(node.values.get("text", "")),
    "Icon": lambda node: f"[{shown_text(node.values.get('name', ''))}]",
    "Image": _picture,
    "Video": _picture,
    "AudioPlayer": _picture,
    "Divider": lambda node: "───",
    "Button": lambda node: f"[ {label_of(node)} ]",
    "TextField": _field,
    "CheckBox": lambda node: f"[{'x' if node.values.get('value') is True else ' '}] {label_of(node)}",
    "ChoicePicker": _choice,
    "Slider": _field,
    "DateTimeInput": _field,
}
"""The components that are written as lines of their own."""
