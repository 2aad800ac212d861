"""Widgets below a cell: a script of this package on the page, with the content that it draws (anywidget).

A notebook that is opened without a kernel cannot show a widget, so each is replaced by static content when it is over.

To change

- a widget below a cell: `CellWidget` here, with a script beside it; static content takes its place when it is over
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from agui_client._rendering.style import STYLE
from agui_client.mcp_apps._frame import host_script

Script = Literal["question", "live_run", "surface", "app_page"]

_WITH_KEYS: Collection[Script] = ("question", "surface", "app_page")
"""The scripts whose keys the notebook does not get."""
_WITH_BUTTONS: Collection[Script] = ("question", "surface")
"""The scripts in which presses are numbered: the last one counts."""
_ADOPTED: Collection[Script] = ("question", "live_run")
"""The scripts whose widgets appear on pages that have no output for them, too."""
_VIEW = "application/vnd.jupyter.widget-view+json"


class CellWidget:
    """A widget in an output of the cell that is being executed, until it is replaced.

    Args:
        script: The script, which draws it on the page.
        shown: The content, as the script reads it; JSON.
        static: What is shown where there are no widgets, by MIME type.
        received: Called with each message of a page, maybe in a thread of the kernel's.
    """

    def __init__(
        self,
        script: Script,
        shown: Mapping[str, Any],
        static: Mapping[str, str],
        received: Callable[[Mapping[str, Any]], object],
    ) -> None:
        self._widget = _kind(script)(shown={"style": STYLE, **shown})

        def receive(widget: object, content: Mapping[str, Any], buffers: object) -> None:
            """Pass the content of a message on."""
            received(content)

        self._widget.on_msg(receive)
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        self._handle = show({_VIEW: view, **static})

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to every page on which the widget is shown."""
        self._widget.send(message)

    def update(self, **shown: Any) -> None:
        """Change parts of the content, for the pages that are open and for those that are opened later."""
        self._widget.shown = {**self._widget.shown, **shown}

    def replace(self, static: Mapping[str, str]) -> Any:
        """Put static content in the place of the widget.

        Args:
            static: The content, by MIME type.

        Returns:
            The handle of the output, as IPython's `display` makes it.
        """
        self._handle.update(static, raw=True)
        self._widget.close()
        return self._handle


def show(content: Mapping[str, Any]) -> Any:
    """Show content in an output of its own.

    Args:
        content: The content, by MIME type.

    Returns:
        The handle of the output, as IPython's `display` makes it.
    """
    return import_module("IPython.display").display(content, raw=True, display_id=uuid4().hex)


def has_widgets() -> bool:
    """Return whether widgets can be made."""
    try:
        return bool(version("anywidget"))
    except PackageNotFoundError:
        return False


def in_marimo() -> bool:
    """Return whether this is a notebook of marimo, which passes no click on while a cell runs."""
    marimo: Any = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


@cache
def _kind(script: Script) -> Any:
    """Make the class of widgets with a script."""
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    members = {"_esm": script_text(script), "shown": traitlets.Dict().tag(sync=True)}
    return type("CellWidget", (anywidget.AnyWidget,), members)


def script_text(script: Script) -> str:
    """Return the text of a script; anywidget takes one file, so that a shared part stands in front."""
    parts = {"keys": _WITH_KEYS, "presses": _WITH_BUTTONS, "adopted": _ADOPTED}
    shared = [name for name, scripts in parts.items() if script in scripts]
    texts = [(Path(__file__).parent / f"{name}.js").read_text("utf-8") for name in (*shared, script)]
    return "\n".join([host_script(), *texts] if script == "app_page" else texts)
