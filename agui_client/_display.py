"""The display of objects in notebooks, which is loaded when a notebook first asks for one."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any


def in_notebook() -> bool:
    """Return whether this is a kernel, rather than a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def shown_while(watched: object) -> AbstractContextManager[object]:
    """Show how far a batch is while a block lasts, if this is a notebook, or stderr a terminal."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (is_terminal or in_notebook()):
        return nullcontext()
    room = "notebook.batch_tables" if in_notebook() else "_cli.batch_bar"
    try:
        bar: AbstractContextManager[object] = import_module(f"agui_client.{room}").bar_of(watched)
    except ModuleNotFoundError as error:
        if error.name != "rich":  # the extra `cli` is not installed
            raise
        return nullcontext()
    return bar


class Displayed:
    """The base of classes that a notebook displays as HTML, Markdown or plain text."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        # All kinds, whatever is asked for: IPython picks among them itself.
        bundle: dict[str, Any] = import_module("agui_client.notebook.showing").displayed(self)
        return bundle
