"""The statements and transactions that databases get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event


@contextmanager
def counted() -> Generator[Counter[str]]:
    """Count what is sent to databases: statements, and transactions that are committed, but those that only read."""
    found = Counter[str]()

    def count(connection: object, cursor: object, statement: str, *others: object) -> None:
        found["statements"] += 1

    def count_commit(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            found["transactions"] += 1

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count_commit)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", count)
        event.remove(Engine, "commit", count_commit)
