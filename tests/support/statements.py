"""The statements and transactions that databases get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Engine, event

_ABOUT_TRANSACTIONS = ("BEGIN", "COMMIT")


@contextmanager
def counted() -> Generator[Counter[str]]:
    """Count what is sent to databases: statements, and transactions that are begun and committed with words."""
    found = Counter[str]()

    def count(connection: object, cursor: object, statement: str, *others: object) -> None:
        if not statement.startswith(_ABOUT_TRANSACTIONS):
            found["statements"] += 1
        elif statement == "COMMIT":
            found["transactions"] += 1

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", count)
