"""Surfaces of agents in displays: painted, inert, and the same when the notebook is saved.

To change

- how a component of a surface looks: `_PAINT` in `_rendering/surface_html.py`, `_LINES` in `_rendering/surface_text.py`
  for terminals, and `SURFACE_STYLE` in the first; `notebook/surface.js` sends what a person enters
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agui_client._rendering.markdown import code_block
from agui_client._rendering.surface_html import SURFACE_STYLE, surface_html
from agui_client._rendering.surface_text import progress_line, surface_lines
from agui_client.a2ui import Surface, Surfaces
from agui_client.notebook._elements import Element, Line


@dataclass(frozen=True, slots=True)
class PaintedSurface:
    """A surface as it is now."""

    as_html: str
    lines: tuple[str, ...]

    def html(self) -> str:
        """Write the surface with its style."""
        return f"<style>{SURFACE_STYLE}</style>{self.as_html}"

    def markdown(self) -> str:
        """Write the surface as a block of code."""
        return code_block(self.plain())

    def plain(self) -> str:
        """Write the surface as lines."""
        return "\n".join(self.lines)


def painted(surfaces: Iterable[Surface]) -> list[Element]:
    """Describe surfaces as they are now."""
    return [PaintedSurface(surface_html(each), tuple(surface_lines(each))) for each in surfaces]


def progress_lines(surfaces: Surfaces) -> list[Line]:
    """Describe the surfaces that are not there yet, what the agent gave up, and what belongs to none."""
    shown = [Line(progress_line(each), "bad" if each.status == "failed" else "dim") for each in surfaces.progress]
    return [*shown, *(Line(each, "bad") for each in surfaces.problems)]
