"""The display of objects in notebooks, which is loaded when a notebook first asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Displayed:
    """The base of classes that a notebook displays as HTML, Markdown or plain text."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        # All kinds, whatever is asked for: IPython picks among them itself.
        bundle: dict[str, Any] = import_module("agui_client.notebook.showing").displayed(self)
        return bundle
