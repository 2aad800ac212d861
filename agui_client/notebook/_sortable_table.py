"""A table over the whole width, whose columns sort by a click on their heads and whose rows unfold.

Without scripts it is a table like any other. A row unfolds by the rules of the style sheet alone: what is below it is
a row of its own, which is shown while the opener in the row is open.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agui_client._rendering.escaping import exact
from agui_client.notebook._elements import Element, Line, Table, Tone

# A handler in the element works where a cell's output is put into a page: scripts in it are not always run.
_SORT = """
const head = this.closest('th'), table = head.closest('table');
const isDown = head.getAttribute('aria-sort') === 'ascending';
const value = (record) => {
  const cell = record.rows[0].cells[head.cellIndex];
  return cell.querySelector('data')?.value ?? (cell.querySelector('summary') ?? cell).textContent;
};
const compared = (one, other) => one - other || one.localeCompare(other, undefined, {numeric: true});
const records = [...table.tBodies].sort((one, other) => compared(value(one), value(other)));
for (const each of head.parentNode.cells) each.removeAttribute('aria-sort');
head.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
table.append(...(isDown ? records.reverse() : records));
"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its text, by which a column sorts; a table may draw it as a bar, too."""

    value: float
    text: str
    tone: Tone = "dim"
    bar: Tone | None = None
    """The colour of a bar below the text, which compares it with the other numbers of its column; None for no bar."""
    whole: float | None = None
    """The number whose bar takes the width of the column; None for the largest one in it."""

    def html(self, most: float = 0.0) -> str:
        """Write the number, with its bar.

        Args:
            most: The largest number of the column.
        """
        inside = html.escape(exact(self.text))
        line = f'<div class="agui-line agui-{self.tone}"><data value="{self.value}">{inside}</data></div>'
        whole = self.whole or most
        if self.bar is None or not whole:
            return line
        width = 100 * abs(self.value) / whole
        bar = f'<span class="agui-part-{self.bar}" style="width:{width:.1f}%"></span>'
        return f'{line}<div class="agui-size">{bar}</div>'

    def markdown(self) -> str:
        """Write the text."""
        return Line(self.text).markdown()

    def plain(self) -> str:
        """Write the text."""
        return Line(self.text).plain()


@dataclass(frozen=True, slots=True)
class Opener:
    """The name of a row, which unfolds it."""

    name: str
    value: float | None = None
    """The number by which the column sorts; None for the name."""

    def html(self) -> str:
        """Write an element that the browser opens and closes."""
        inside = html.escape(exact(" ".join(self.name.split())))
        shown = inside if self.value is None else f'<data value="{self.value}">{inside}</data>'
        return f'<details class="agui-opener"><summary class="agui-dim">{shown}</summary></details>'

    def markdown(self) -> str:
        """Write the name."""
        return Line(self.name).markdown()

    def plain(self) -> str:
        """Write the name."""
        return Line(self.name).plain()


@dataclass(frozen=True, slots=True)
class SortableTable(Table):
    """A table with a button in each head: the first click sorts the rows, the next turns them round."""

    below: Mapping[int, Sequence[Element]] = field(default_factory=dict[int, Sequence["Element"]])
    """The details that rows unfold to, by the places of the rows, each of which has an `Opener`."""

    def html(self) -> str:
        """Write the table."""
        most = [self._most(place) for place in range(len(self.heads))]
        heads = "".join(f"<th{self._side(place)}>{_head(name)}</th>" for place, name in enumerate(self.heads))
        rows = "".join(self._record(place, most) for place in range(len(self.rows)))
        table = f"<table><thead><tr>{heads}</tr></thead>{rows}</table>"
        return f'<div class="agui-rows agui-sheet" dir="auto">{table}</div>'

    def _most(self, column: int) -> float:
        cells = [row[column] for row in self.rows]
        return max((abs(each.value) for each in cells if isinstance(each, Quantity) and each.bar), default=0.0)

    def _side(self, column: int) -> str:
        return ' class="agui-number"' if any(_is_number(row[column]) for row in self.rows) else ""

    def _record(self, place: int, most: Sequence[float]) -> str:
        cells = "".join(_cell(cell, width) for cell, width in zip(self.rows[place], most, strict=True))
        inside = "".join(each.html() for each in self.below.get(place, ()))
        below = f'<tr class="agui-below"><td colspan="{len(self.heads)}">{inside}</td></tr>' if inside else ""
        return f'<tbody class="agui-record"><tr>{cells}</tr>{below}</tbody>'


def _head(name: str) -> str:
    shown = html.escape(exact(" ".join(name.split())))
    return f'<button type="button" class="agui-sort" onclick="{html.escape(_SORT)}">{shown}</button>'


def _cell(cell: Element, most: float) -> str:
    shown = cell.html(most) if isinstance(cell, Quantity) else cell.html()
    return f'<td class="agui-number">{shown}</td>' if _is_number(cell) else f"<td>{shown}</td>"


def _is_number(cell: Element) -> bool:
    """Return whether a cell stands at the right: words that have an order of their own do not."""
    return isinstance(cell, Quantity) and cell.bar is not None
