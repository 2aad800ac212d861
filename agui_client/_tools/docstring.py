"""What a docstring tells the agent: its prose describes the tool, its sections about parameters the arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

_SECTION = re.compile(r"^[ \t]*(?::\w|-{3,}[ \t]*$|\w[\w ]*:[ \t]*$)", re.MULTILINE)
"""What a section begins with: `:param` (Sphinx), a ruled line (NumPy), `Args:` (Google)."""


def documentation(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Read a function's docstring, in the style of Google, NumPy or Sphinx, whichever it looks like.

    Args:
        function: The function.

    Returns:
        The prose, without sections such as Returns or Raises, and what it says about parameters, by name.
    """
    text = inspect.getdoc(function) or ""
    return _parsed(text) if _SECTION.search(text) else (text, {})


def _parsed(text: str) -> tuple[str, dict[str, str]]:
    # Loaded when a docstring has sections: the import takes longer than all of pydantic's models here.
    import griffe

    prose: list[str] = []
    parameters: dict[str, str] = {}
    quiet = griffe.PerStyleOptions(google={"warnings": False}, numpy={"warnings": False}, sphinx={"warnings": False})
    for section in griffe.parse_auto(griffe.Docstring(text), per_style_options=quiet):
        if isinstance(section, griffe.DocstringSectionText):
            prose.append(section.value)
        elif isinstance(section, griffe.DocstringSectionParameters | griffe.DocstringSectionOtherParameters):
            parameters |= {each.name: each.description for each in section.value}
    return "\n\n".join(prose), parameters
