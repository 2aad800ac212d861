"""Databases that take nothing for a while: nothing is lost, readiness says so, and everything continues by itself."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest

from agui_client import tool
from agui_client.store import Store
from agui_client.testing import Gate, ScriptedAgent, text, tool_call, turn
from support.on_call import signs_of
from support.pgbouncer import pgbouncer
from support.postgres import PostgresServer
from support.telemetry import StoreMetrics

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0
Outage = partial[Any]
"""Makes a block during which a database takes nothing."""
_OUTAGE = 1.0
"""Seconds that an outage lasts: longer than the lease."""


@contextmanager
def locked(path: Path) -> Generator[None]:
    lock = sqlite3.connect(path, isolation_level=None, timeout=5)
    lock.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        lock.execute("COMMIT")
        lock.close()


@contextmanager
def without_room(_: Path) -> Generator[None]:
    """Let each write to a file fail, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@contextmanager
def changed(server: PostgresServer, name: str, change: str, back: str) -> Generator[None]:
    """Change a database of PostgreSQL, and cut the connections to it."""
    with psycopg.connect(f"postgresql://{server.address}", autocommit=True) as admin:
        for statement in (change, f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"):
            admin.execute(statement.encode())
        try:
            yield
        finally:
            admin.execute(back.encode())
            admin.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'".encode())


@contextmanager
def stopped(server: PostgresServer) -> Generator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


_FAULTS = {
    "locked": "another program has SQLite locked",
    "full": "the disk of the database is full",
    "read-only": "the database is read-only",
    "no connections": "the database takes no connections",
    "stopped": "the database is stopped",
}
"""The faults, and how their rows in docs/operate.md begin."""


@pytest.fixture(params=_FAULTS)
def kind(request: pytest.FixtureRequest) -> str:
    param: str = request.param
    return param


@pytest.fixture
def fault(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Outage]:
    """The URL of a database, and a block during which it takes nothing."""
    path = tmp_path / "store.db"
    if kind in ("locked", "full"):
        return f"sqlite:///{path}", partial(locked if kind == "locked" else without_room, path)
    server: PostgresServer = request.getfixturevalue("postgresql")
    address = server.new_database()
    url, name = f"postgresql://{address}", address.rpartition("/")[2]
    if kind == "stopped":
        return url, partial(stopped, server)
    key, value, back = ("default_transaction_read_only", "on", "off")
    change, undo = (f"alter database {name} set {key} = {each}" for each in (value, back))
    if kind == "no connections":
        change, undo = (f"alter database {name} with allow_connections {each}" for each in ("false", "true"))
    return url, partial(changed, server, name, change, undo)


async def test_a_run_in_a_database_that_takes_nothing_loses_nothing_and_continues_by_itself(
    kind: str, fault: tuple[str, Outage], metrics: StoreMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    (url, taking_nothing), signs, gate, paid = fault, signs_of(_FAULTS[kind]), Gate(), list[str]()

    @tool
    def pay() -> str:
        """Pay."""
        paid.append("once")
        return "paid " + "x" * 20_000

    agent = ScriptedAgent(turn(tool_call("pay", {}), gate), turn(text("Paid.")), tools=[pay])
    store = Store(url, lease=0.5)
    store.runs.add("helper", lambda thread_id: store.threads.open(thread_id, agent))
    with anyio.fail_after(_SECONDS):
        async with store:
            assert await store.ready()
            await store.runs.start("helper", "Pay", run_id="r", thread_id="t")
            block = taking_nothing()
            await anyio.to_thread.run_sync(block.__enter__)
            gate.open()
            answers = [await store.ready() for _ in range(3)]
            await anyio.sleep(_OUTAGE)
            await anyio.to_thread.run_sync(block.__exit__, None, None, None)
            assert (answers, paid) == ([signs.is_ready] * 3, [])
            events = [each.event.type.value async for each in store.runs.follow("r")]
            saved = await store.threads.get("t")
            assert await store.ready()
    assert (events[-1], paid) == ("RUN_FINISHED", ["once"])
    assert saved is not None
    contents = [str(each.content)[:5] for each in saved.conversation.messages if each.role != "assistant"]
    assert contents == ["Pay", "paid "]
    assert signs.are_in(caplog.records)
    assert [each for each in signs.metrics if not metrics.read(each)] == []
    assert bool(metrics.read("outages")) is ("outages" in signs.metrics)
    # However much waits, one warning a minute says so; another program's lock is no outage.
    warnings = [each.getMessage() for each in caplog.records if each.name == "agui_client.store"]
    assert len(warnings) == (0 if taking_nothing.func is locked else 1), warnings


@tool
def look() -> str:
    """Look around."""
    return "seen"


async def test_a_pooler_may_give_each_transaction_another_connection(postgresql: PostgresServer) -> None:
    address = postgresql.new_database()
    agent = ScriptedAgent(*[turn(tool_call("look", {})), turn(text("Seen."))] * 40, tools=[look])
    with anyio.fail_after(_SECONDS), pgbouncer(address) as pooled:
        async with AsyncExitStack() as stack:
            stores = [Store(f"postgresql://{pooled}") for _ in range(4)]
            for store in stores:
                store.runs.add("helper", partial(_opened, store, agent))
                await stack.enter_async_context(store)
            for number in range(24):
                # Each run is taken by one store and read by another one, on whichever connection is free.
                store, other = stores[number % 4], stores[(number + 1) % 4]
                run = await store.runs.start("helper", "Look", thread_id=f"t{number % 6}")
                events = [each.event.type.value async for each in other.runs.follow(run.run_id)]
                assert (events[0], events[-1]) == ("RUN_STARTED", "RUN_FINISHED")
            assert all([await each.ready() for each in stores])
            threads = [await stores[0].threads.get(f"t{number}") for number in range(6)]
        # Nothing that was set for a transaction stayed with a connection that others get.
        for _ in range(6):
            with psycopg.connect(f"postgresql://{pooled}") as other_program:
                assert other_program.execute("show lock_timeout").fetchone() == ("0",)
    assert [each is not None and len(each.conversation.messages) for each in threads] == [16] * 6


def _opened(store: Store, agent: ScriptedAgent, thread_id: str) -> AbstractAsyncContextManager[ScriptedAgent]:
    return store.threads.open(thread_id, agent)
