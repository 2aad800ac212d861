"""Objects that a notebook displays, and whether this is one."""

from __future__ import annotations

import sys
from typing import Any

from agui_client._core.plugs import DISPLAYS


def in_notebook() -> bool:
    """Return whether this is a kernel, rather than a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Displayed:
    """The base of classes that a notebook displays as HTML, Markdown or plain text."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        # All kinds, whatever is asked for: IPython picks among them itself.
        return DISPLAYS[0](self)
