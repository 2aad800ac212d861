"""Small charts of numbers in a display: columns in the order of what they are of, as HTML and as characters."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agui_client._core.ground.prices import dollar_text
from agui_client._rendering.escaping import exact
from agui_client._rendering.story import seconds_text
from agui_client.notebook._elements import Line

_MOST_COLUMNS = 60
_LEVELS = "▁▂▃▄▅▆▇█"
_FEWEST = 3
"""The number of values from which a chart says more than they do."""


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers of one chart."""

    name: str
    """The unit, such as "seconds"."""
    values: Sequence[float]
    write: Callable[[float], str]
    """Writes a number with its unit."""


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts beside each other; those of one row have one scale, so that they can be compared."""

    rows: Sequence[Sequence[Series]]

    @classmethod
    def make(cls, sides: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]]) -> list[Charts]:
        """Make charts of those series that have enough values; none if there is none.

        Args:
            sides: The seconds, the tokens and the dollars of each side, in their order, by its name.
        """
        kinds = (("seconds", seconds_text), ("tokens", "{:.0f}".format), ("cost", dollar_text))
        rows = [
            [Series(f"{name}: {kind}" if name else kind, values[place], write) for name, values in sides.items()]
            for place, (kind, write) in enumerate(kinds)
        ]
        drawn = [[each for each in row if len(each.values) >= _FEWEST and max(each.values) > 0] for row in rows]
        return [cls([row for row in drawn if row])] if any(drawn) else []

    def html(self) -> str:
        """Write columns as high as their numbers are large."""
        return f'<div class="agui-charts">{"".join(map(self._row, self.rows))}</div>'

    def markdown(self) -> str:
        """Write a line for each chart."""
        return "\n\n".join(Line(line).markdown() for line in self.plain().split("\n"))

    def plain(self) -> str:
        """Write a line for each chart, with a character for each column."""
        return "\n".join(self._line(each, _most(row)) for row in self.rows for each in row)

    def _row(self, row: Sequence[Series]) -> str:
        return f'<div class="agui-chart-row">{"".join(self._chart(each, _most(row)) for each in row)}</div>'

    def _chart(self, series: Series, most: float) -> str:
        columns = "".join(
            f'<span class="agui-f-run" style="height:{100 * value / most:.0f}%"></span>' for value in _columns(series)
        )
        label = html.escape(exact(_facts(series)))
        drawn = f'<div class="agui-chart" role="img" aria-label="{label}">{columns}</div>'
        return f'<div><div class="agui-line agui-dim">{label}</div>{drawn}</div>'

    def _line(self, series: Series, most: float) -> str:
        levels = "".join(_LEVELS[min(7, int(8 * value / most))] for value in _columns(series))
        return exact(f"{_facts(series)} {levels}")


def _most(row: Sequence[Series]) -> float:
    return max(max(each.values) for each in row)


def _facts(series: Series) -> str:
    ordered = sorted(series.values)
    return f"{series.name} · median {series.write(ordered[len(ordered) // 2])} · most {series.write(ordered[-1])}"


def _columns(series: Series) -> list[float]:
    """Return the numbers; of very many the largest ones of equal parts, as outliers count."""
    values, count = series.values, min(_MOST_COLUMNS, len(series.values))
    bounds = [len(values) * place // count for place in range(count + 1)]
    return [max(values[start:stop]) for start, stop in pairwise(bounds)]
