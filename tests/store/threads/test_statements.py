"""The statements and transactions that a stored turn costs, however long its thread is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
from agui_client import tool
from agui_client.store import Store, Threads
from agui_client.store._sql.threads import SQLStore
from agui_client.testing import ScriptedAgent, text, tool_call, turn
from support.postgres import PostgresServer
from support.statements import counted


@pytest.fixture(params=["sqlite", "postgresql"])
def threads(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Threads]:
    if request.param == "sqlite":
        with Store(f"sqlite:///{tmp_path}/threads.db") as store:
            yield store.threads
        return
    server: PostgresServer = request.getfixturevalue("postgresql")
    with Store(f"postgresql://{server.new_database()}") as store:
        yield store.threads


def costs_of(threads: Threads, agent: ScriptedAgent) -> dict[str, int]:
    with counted() as found, threads.open("t", agent) as opened:
        opened.run_agent_sync("Hi")
    return dict(found)


@tool
def look() -> str:
    """Look around."""
    return "seen"


def test_a_turn_and_a_round_with_a_tool_take_few_statements_and_transactions(threads: Threads) -> None:
    plain = ScriptedAgent(turn(text("Hello.")))
    calling = ScriptedAgent(turn(tool_call("look", {})), turn(text("Done.")), tools=[look])
    costs_of(threads, plain)
    is_sqlite = isinstance(threads._store, SQLStore) and threads._store._database.is_sqlite
    # To open a thread takes a statement, and to read it another one; PostgreSQL saves in one, SQLite in two.
    # Where all is in one statement, PostgreSQL needs no transaction around it.
    sqlite, postgresql = [{"statements": 7, "transactions": 4}, {"statements": 11, "transactions": 6}], [5, 7]
    expected = sqlite if is_sqlite else [{"statements": each, "round trips": each} for each in postgresql]
    assert [costs_of(threads, each) for each in (plain, calling)] == expected
