"""The tables of version 1, as they are frozen in `tests/store/runs/version_1/`: databases of users have them.

`PYTHONPATH=.:tests python -m support.frozen_tables` writes them anew, which is right only before they are released.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from agui_client.store._sql.tables import TABLES

_FOLDER = Path(__file__).parents[1] / "store" / "runs" / "version_1"


def frozen(database: str) -> str:
    """Return the statements that make the tables in a kind of database, "sqlite" or "postgresql"."""
    return (_FOLDER / f"{database}.sql").read_text("utf-8")


def current(dialect: Dialect) -> str:
    """Return the statements that make the tables of the package."""
    made: list[CreateTable | CreateIndex] = []
    for table in TABLES.sorted_tables:
        made += [
            CreateTable(table),
            *(CreateIndex(each) for each in sorted(table.indexes, key=lambda each: str(each.name))),
        ]
    lines = "\n".join(f"{str(each.compile(dialect=dialect)).strip()};" for each in made).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    for each in (sqlite, postgresql):
        (_FOLDER / f"{each.__name__.rpartition('.')[2]}.sql").write_text(current(each.dialect()), "utf-8")
