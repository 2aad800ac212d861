"""The display of objects in notebooks, which is loaded when a notebook first asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container


class Displayed:
    """The base of classes that a notebook displays as HTML, Markdown or plain text."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, Any]:
        bundle: dict[str, Any] = import_module("agui_client.notebook.showing").displayed(self)
        return {
            kind: content
            for kind, content in bundle.items()
            if (not include or kind in include) and (not exclude or kind not in exclude)
        }
