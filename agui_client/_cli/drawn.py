"""The results of tool views, as text and as renderables of rich."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any, cast


def is_rich(drawn: object) -> bool:
    """Return whether an object is a renderable of rich."""
    return hasattr(drawn, "__rich_console__") or hasattr(drawn, "__rich__")


def drawn_text(drawn: Any) -> str:
    """Write what a view returned as plain text."""
    if isinstance(drawn, str):
        return drawn
    if is_rich(drawn):
        from rich.console import Console

        out = StringIO()
        Console(file=out, width=100, color_system=None).print(drawn)
        return out.getvalue().rstrip()
    return str(drawn_bundle(drawn).get("text/plain", drawn))


def drawn_bundle(drawn: Any) -> Mapping[str, Any]:
    """Return what an object displays of itself by MIME type; empty if it does not."""
    if hasattr(drawn, "_repr_mimebundle_"):
        made = cast("tuple[Any, ...] | dict[str, Any] | None", drawn._repr_mimebundle_(include=None, exclude=None))
        return (made[0] if isinstance(made, tuple) else made) or {}
    return {"text/html": drawn._repr_html_()} if hasattr(drawn, "_repr_html_") else {}
