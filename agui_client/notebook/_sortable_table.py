"""A table whose columns sort by a click on their heads; without scripts it is a table like any other."""

from __future__ import annotations

import html
from dataclasses import dataclass

from agui_client._rendering.escaping import exact
from agui_client.notebook._elements import Line, Table, Tone

# A handler in the element works where a cell's output is put into a page: scripts in it are not always run.
_SORT = """
const head = this.closest('th'), body = head.closest('table').tBodies[0];
const isDown = head.getAttribute('aria-sort') === 'ascending';
const value = (row) => {
  const cell = row.cells[head.cellIndex];
  return cell.querySelector('data')?.value ?? (cell.querySelector('summary') ?? cell).textContent;
};
const compared = (one, other) => one - other || one.localeCompare(other, undefined, {numeric: true});
const rows = [...body.rows].sort((one, other) => compared(value(one), value(other)));
for (const each of head.parentNode.cells) each.removeAttribute('aria-sort');
head.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
body.append(...(isDown ? rows.reverse() : rows));
"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A line that sorts by a number."""

    value: float
    text: str
    tone: Tone = "dim"

    def html(self) -> str:
        """Write the line with its number."""
        inside = html.escape(exact(self.text))
        return f'<div class="agui-line agui-{self.tone}"><data value="{self.value}">{inside}</data></div>'

    def markdown(self) -> str:
        """Write the line."""
        return Line(self.text).markdown()

    def plain(self) -> str:
        """Write the line."""
        return Line(self.text).plain()


class SortableTable(Table):
    """A table with a button in each head: the first click sorts the rows, the next turns them round."""

    def _head(self, name: str) -> str:
        return f'<button type="button" class="agui-sort" onclick="{html.escape(_SORT)}">{name}</button>'
