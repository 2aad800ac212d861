"""The statements and transactions that databases get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event


@contextmanager
def counted() -> Generator[Counter[str]]:
    """Count what is sent to databases: statements, and transactions that are begun and committed around them.

    Round trips are those of PostgreSQL: one for a statement, and two more to begin and to commit a transaction. The
    renewals of the process's lease come by the clock, and do not count.
    """
    found = Counter[str]()
    renewing = set[Connection]()

    def count(connection: Connection, cursor: object, statement: str, *others: object) -> None:
        if statement.startswith("UPDATE agui_processes"):
            renewing.add(connection)
            return
        found["statements"] += 1
        if connection.dialect.name == "postgresql":
            found["round trips"] += 1

    def count_commit(connection: Connection) -> None:
        if connection in renewing:
            renewing.remove(connection)
            return
        if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
            return
        driver: Any = connection.connection.driver_connection
        if connection.dialect.name == "sqlite":
            found["transactions"] += 1
        elif not driver.autocommit:
            found["transactions"] += 1
            found["round trips"] += 2

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count_commit)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", count)
        event.remove(Engine, "commit", count_commit)
