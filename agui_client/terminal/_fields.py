"""Arguments and messages on a terminal: coloured, escaped, and cut to what fits the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.highlighter import JSONHighlighter
from rich.text import Text

from agui_client._rendering.escaping import json_text

if TYPE_CHECKING:
    from rich.console import Console

_LINES = 30
"""The number of lines of one value that are shown at first."""

_highlight = JSONHighlighter().highlight


def json_lines(value: Any) -> Text:
    """Return a JSON value as coloured text."""
    text = Text(json_text(value), no_wrap=False, overflow="fold")
    _highlight(text)
    return text


def beginning(text: Text, console: Console) -> Text:
    """Cut a text to what fits a screen.

    Args:
        text: The text.
        console: The console that is going to print it.

    Returns:
        The beginning of the text; the text itself if it fits.
    """
    width = max(console.width - 4, 1)
    wrapped = text[: _LINES * width].wrap(console, width, overflow="fold")
    if len(wrapped) <= _LINES and len(text) <= _LINES * width:
        return text
    return Text("\n").join(wrapped[:_LINES])
