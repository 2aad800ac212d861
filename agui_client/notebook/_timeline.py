"""The timeline of a recording, as elements of a display: bars by time, and the rows of what happened."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agui_client._rendering.escaping import exact
from agui_client.notebook._elements import Code, Line, Table

if TYPE_CHECKING:
    from agui_client.inspector._summary import Family

_NARROWEST = 0.4
"""The percents of the width that an event takes at least."""
_CELLS = 40


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which one kind of event came."""

    start: float
    end: float
    family: Family


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lines for agents, on which bars stand for what they did, over one span of time."""

    lanes: Sequence[tuple[str, Sequence[Stretch]]]
    """The names of the lines, each with its bars in the order of their beginnings."""
    seconds: float
    """The length of all lines."""

    def html(self) -> str:
        """Write a row of bars for each line."""
        lanes = "".join(self._lane(name, stretches) for name, stretches in self.lanes)
        scale = f'<div class="agui-scale"><span>0 s</span><span>{self._end()}</span></div>'
        return f'<div class="agui-timeline">{lanes}{scale}</div>'

    def markdown(self) -> str:
        """Write the lines as a block of text."""
        return Code(self.plain()).markdown()

    def plain(self) -> str:
        """Write a line of characters for each line: full where something came."""
        width = max((len(name) for name, _ in self.lanes), default=0)
        return "\n".join(
            [exact(f"{name.ljust(width)} {self._cells(stretches)} {self._end()}") for name, stretches in self.lanes]
        )

    def _end(self) -> str:
        return f"{self.seconds:.3g} s"

    def _lane(self, name: str, stretches: Sequence[Stretch]) -> str:
        bars: list[str] = []
        at = 0.0
        for each in stretches:
            start, end = (100 * moment / (self.seconds or 1) for moment in (each.start, each.end))
            # Where bars would lie on each other, the later one begins where the earlier one ends.
            start = max(start, at)
            end = min(100.0, max(end, start + _NARROWEST))
            if end <= start:
                continue
            bars.append(f'<span style="width:{start - at:.2f}%"></span>' if start > at else "")
            bars.append(f'<span class="agui-f-{each.family}" style="width:{end - start:.2f}%"></span>')
            at = end
        label = html.escape(exact(name))
        track = f'<div class="agui-track" role="img" aria-label="{label}: {len(stretches)}">{"".join(bars)}</div>'
        return f'<div class="agui-lane"><div class="agui-lane-name">{label}</div>{track}</div>'

    def _cells(self, stretches: Sequence[Stretch]) -> str:
        cells = ["·"] * _CELLS
        for each in stretches:
            first, last = (min(_CELLS - 1, int(_CELLS * at / (self.seconds or 1))) for at in (each.start, each.end))
            cells[first : last + 1] = "█" * (last + 1 - first)
        return "".join(cells)


@dataclass(frozen=True, slots=True)
class Moment:
    """A row of the timeline: a time, a coloured name, and what it says; it may unfold to the pieces of a text."""

    time: str
    name: str
    text: str
    family: Family
    pieces: str = ""
    """The pieces that the row stands for, a line each; empty if it stands for itself."""

    def html(self) -> str:
        """Write a row, which the browser unfolds if it has pieces."""
        time, text = html.escape(self.time), html.escape(exact(" ".join(self.text.split())))
        name = f'<b class="agui-n-{self.family}">{html.escape(exact(self.name))}</b>'
        row = f'<span class="agui-time">{time}</span> {name} <span class="agui-dim">{text}</span>'
        if not self.pieces:
            return f'<div class="agui-moment">{row}</div>'
        return f'<details class="agui-moment"><summary>{row}</summary>{Code(self.pieces).html()}</details>'

    def markdown(self) -> str:
        """Write the row as a line."""
        return Line(self.plain()).markdown()

    def plain(self) -> str:
        """Write the row as a line, the pieces folded."""
        return exact(" ".join(f"{self.time.rjust(8)} {self.name} {' '.join(self.text.split())}".rstrip().splitlines()))


@dataclass(frozen=True, slots=True)
class Moments:
    """Rows of the timeline in a list of its own height, which a browser shows from its end."""

    rows: Sequence[Moment]

    def html(self) -> str:
        """Write the list."""
        return f'<div class="agui-end"><div>{"".join(each.html() for each in self.rows)}</div></div>'

    def markdown(self) -> str:
        """Write the rows as a block of text."""
        return Code(self.plain()).markdown()

    def plain(self) -> str:
        """Write the rows."""
        return "\n".join(each.plain() for each in self.rows)


class Wide(Table):
    """A table whose columns share the width of the display, for things that stand side by side."""

    __slots__ = ()

    def html(self) -> str:
        """Write the table."""
        return f'<div class="agui-wide">{Table.html(self)}</div>'
