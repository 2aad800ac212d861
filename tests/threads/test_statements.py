"""The statements and transactions that a stored turn costs, however long its thread is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra threads: pip install 'agui-client[threads]'")
from sqlalchemy import Engine, event

from agui_client.testing import ScriptedAgent, text, turn
from agui_client.threads import SQLStore, Threads
from support.postgres import postgres_server

_ABOUT_TRANSACTIONS = ("BEGIN", "COMMIT")


@contextmanager
def counted() -> Generator[Counter[str]]:
    """Count what is sent to databases: statements, and transactions with more than one statement or by themselves."""
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


@pytest.fixture(params=["sqlite", "postgresql"])
def threads(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Threads]:
    if request.param == "sqlite":
        with Threads(f"sqlite:///{tmp_path}/threads.db") as threads:
            yield threads
        return
    with postgres_server() as server, Threads(f"postgresql+asyncpg://{server.address}") as threads:
        yield threads


def costs_of(threads: Threads, agent: ScriptedAgent) -> dict[str, int]:
    with counted() as found, threads.open("t", agent) as opened:
        opened.run_agent_sync("Hi")
    return dict(found)


def test_a_turn_takes_few_statements_and_transactions(threads: Threads) -> None:
    agent = ScriptedAgent(turn(text("Hello.")))
    costs_of(threads, agent)
    is_sqlite = isinstance(threads._store, SQLStore) and "sqlite" in type(threads._store._database).__name__.lower()
    # PostgreSQL takes one statement to open a thread and one to read it; all others are saves, and transactions of
    # their own.
    assert costs_of(threads, agent) == ({"statements": 7, "transactions": 4} if is_sqlite else {"statements": 5})
