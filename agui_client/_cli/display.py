"""What is decided about, on a terminal: as it may be shown, with colours, and no more than fits the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.highlighter import JSONHighlighter
from rich.text import Text

from agui_client._tools.sight import json_text

if TYPE_CHECKING:
    from rich.console import Console

_LINES = 30
"""As much of one value as is shown before somebody asks for all of it."""

_highlight = JSONHighlighter().highlight


def json_lines(value: Any) -> Text:
    """A JSON value to be printed, with its colours."""
    text = Text(json_text(value), no_wrap=False, overflow="fold")
    _highlight(text)
    return text


def beginning(text: Text, console: Console) -> Text:
    """As much of a text as fits a screen.

    Args:
        text: All of it.
        console: Where it is going to be printed.

    Returns:
        The text itself if it fits.
    """
    width = max(console.width - 4, 1)
    wrapped = text[: _LINES * width].wrap(console, width, overflow="fold")
    if len(wrapped) <= _LINES and len(text) <= _LINES * width:
        return text
    return Text("\n").join(wrapped[:_LINES])
