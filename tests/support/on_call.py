"""The tables of docs that say what on-call sees of a fault, and callers of an error, for tests that make them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from logging import LogRecord

from support.snippets import ROOT

_PAGES = "\n".join((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("operate", "serving-reference"))
_RECORD = re.compile(r"(WARNING|ERROR) of `(\S+)`: \"(.*?)\"")


@dataclass(frozen=True)
class Signs:
    """The signs of a fault, as the page has them."""

    record: tuple[str, str, str] | None
    """The level, the logger and a part of the text of a log record; None if there is none."""
    metrics: Sequence[str]
    """The metrics of the store that move, without what all names begin with."""
    is_ready: bool
    """Whether the process is ready meanwhile."""

    def are_in(self, records: Sequence[LogRecord]) -> bool:
        """Return whether log records have the record, or none of the store's if there is to be none."""
        found = [(each.levelname, each.name, each.getMessage()) for each in records]
        if self.record is None:
            return not [each for each in found if each[1] == "agui_client.store"]
        level, name, text = self.record
        return any(each[:2] == (level, name) and text in each[2] for each in found)


def signs_of(fault: str) -> Signs:
    """Return the signs of a fault.

    Args:
        fault: The first cell of its row, or how that begins.
    """
    [row] = [each for each in rows() if each[0].startswith(fault)]
    _, record, metric, ready, _ = row
    found = _RECORD.match(record)
    assert found or record == "none" or "does not start" in record, record
    metrics = re.findall(r"`agui\.store\.(\S+?)`", metric)
    return Signs((found[1], found[2], found[3]) if found else None, metrics, ready == "200")


def rows(title: str = "What on-call sees") -> list[list[str]]:
    """Return the cells of each row of the table below a title of the pages."""
    table = _PAGES.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"]
    return cells[2:]
