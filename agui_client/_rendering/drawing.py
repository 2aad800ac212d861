"""Drawings of views, as text and as HTML; a view that fails or hangs ends no run.

To change

- where views draw: this module calls them, in a thread with a time limit; `notebook/_content.py`,
  `notebook/_live_cell.py` (a live run), `terminal/_blocks.py` and `terminal/_output.py` show what they made.
  Pages that show finished calls take `call_html(call)` from this module: the HTML of the call's view, or else escaped
  text
"""

from __future__ import annotations

import html
import logging
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from typing import Any, TypeVar

from agui_client._core.ground.plain_text import printable
from agui_client._rendering.displayed_objects import (
    bundle_of_object,
    html_of_bundle,
    records_of,
    table_html,
    table_text,
)
from agui_client._rendering.escaping import exact
from agui_client._rendering.story import ToolCallStory
from agui_client._rendering.views import Key, drop_view, find_view, is_first_report, shown_call

T = TypeVar("T")

_AS_TEXT = ("text/plain", "text/markdown", "text/latex")
"""The forms of an object that a terminal can show, which has no pictures."""
_DRAW_TIMEOUT = 2.0
"""The seconds that one drawing may take."""

_logger = logging.getLogger("agui_client")


@dataclass(frozen=True, slots=True)
class Drawing:
    """The drawing that a view made of its subject."""

    text: str
    """The form for places that show no HTML."""
    html: str | None = None
    """The HTML, which the application vouches for; None if the view drew text."""


def draw(key: Key, shown: object, write: Callable[[Any], T]) -> T | None:
    """Have a view draw, in a thread that is left behind if it hangs.

    Args:
        key: The view.
        shown: Its subject.
        write: Makes something of what the view returned; it calls code of the application, too.

    Returns:
        What `write` returned; None if there is no view, if it wants the usual form, or if it failed.
    """
    view = find_view(key)
    if view is None:
        return None
    made, failures, is_over = list[T](), list[BaseException](), threading.Event()

    def work() -> None:
        """Draw, and keep whatever comes of it."""
        try:
            if (drawn := view(shown)) is not None:
                made.append(write(drawn))
        except BaseException as error:
            failures.append(error)
        is_over.set()

    threading.Thread(target=copy_context().run, args=(work,), name="agui_client.view", daemon=True).start()
    kind, name = key[0], printable(key[1])
    if not is_over.wait(_DRAW_TIMEOUT):
        if drop_view(key, view):
            _logger.warning("the view of %s %s takes too long, and is not called any more", kind, name)
    elif failures and is_first_report(key):
        _logger.error("the view of %s %s failed, and is left out", kind, name, exc_info=failures[0])
    return made[0] if made else None


class Drawings:
    """Drawings that are made again only when their subject has changed."""

    def __init__(self) -> None:
        self._latest: dict[tuple[Key, str], tuple[object, Drawing | None]] = {}

    def draw(self, key: Key, subject_id: str, shown: object) -> Drawing | None:
        """Return the drawing of a view; None for the usual form.

        Args:
            key: The view.
            subject_id: The id of its subject, which stays the same while the subject changes.
            shown: The subject.
        """
        known = self._latest.get((key, subject_id))
        if known is None or known[0] != shown:
            known = self._latest[key, subject_id] = shown, draw(key, shown, drawing)
        return known[1]


def call_html(call: ToolCallStory) -> str:
    """Write a tool call as HTML: as its view draws it, or else its escaped arguments and result."""
    made = draw(("tool", call.name), shown_call(call), drawing)
    if made is not None and made.html is not None:
        return made.html
    plain = [f"{call.name}({call.arguments})", *([] if call.result is None else [call.result])]
    text = made.text if made is not None else "\n".join(plain)
    return f"<pre>{html.escape(exact(text))}</pre>"


def drawing(drawn: Any) -> Drawing:
    """Write what a view returned as text, and as HTML where it has some."""
    if isinstance(drawn, str):
        return Drawing(drawn)
    if (records := records_of(drawn)) is not None:
        return Drawing(table_text(records), table_html(records))
    bundle = bundle_of_object(drawn)
    return Drawing(_text_of(drawn, bundle), html_of_bundle(bundle))


def drawn_text(drawn: Any) -> str:
    """Write what a view returned as plain text."""
    if isinstance(drawn, str):
        return drawn
    if (records := records_of(drawn)) is not None:
        return table_text(records)
    return _text_of(drawn, {} if is_rich(drawn) else bundle_of_object(drawn))


def _text_of(drawn: Any, bundle: Mapping[str, Any]) -> str:
    if is_rich(drawn):
        out = StringIO()
        # In a kernel, a console of rich would display what it prints.
        import_module("rich.console").Console(file=out, width=100, color_system=None, force_jupyter=False).print(drawn)
        return out.getvalue().rstrip()
    return str(next((bundle[kind] for kind in _AS_TEXT if bundle.get(kind) is not None), drawn))


def is_rich(drawn: object) -> bool:
    """Return whether an object is a renderable of rich."""
    return hasattr(drawn, "__rich_console__") or hasattr(drawn, "__rich__")
