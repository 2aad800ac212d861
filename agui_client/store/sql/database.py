"""A database of threads or runs: a thread that writes, one that reads, and the lease of this process.

Reads do not wait behind writes, so they may overtake what was asked for before them and is not committed yet.

To change

- how long an outage is waited for: `PATIENCE` here, and `Transactions`
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError

from agui_client.store.sql.process_lease import ProcessLease
from agui_client.store.sql.times import StoreTimes
from agui_client.store.sql.transactions import Transactions, Work
from agui_client.store.sql.versions import advance

T = TypeVar("T")

_TIMES = StoreTimes()
_LOCK_PATIENCE = 5.0
"""The least seconds for which operations wait for locks: other programs that write are no outage."""
_BUSY_MILLISECONDS = 50
"""The time that SQLite's library waits for another writer, before the thread looks whose patience is over."""
_CONNECT_SECONDS = 5
"""The longest wait for a connection to a PostgreSQL server."""
_SILENT_MILLISECONDS = 5000
"""The longest wait for a PostgreSQL server that no longer acknowledges what it gets."""
_LOCK_MILLISECONDS = 1000
"""The longest wait for a row that another program has locked, as the lease is not renewed meanwhile."""


class Database:
    """A database, to be used by one process.

    Args:
        database: A URL of `sql_url`; or the engine of an application for PostgreSQL, whose options and events are used
            for connections of its own.
        tables: The tables that it needs.
        times: The times with which it is used.
    """

    def __init__(self, database: sa.URL | sa.Engine, tables: sa.MetaData, times: StoreTimes = _TIMES) -> None:
        url = database.url if isinstance(database, sa.Engine) else database
        self.is_sqlite = url.get_backend_name() == "sqlite"
        """Whether it is SQLite."""
        self._is_in_memory = self.is_sqlite and url.database in (None, "", ":memory:")
        sql = "((julianday('now') - 2440587.5) * 86400.0)" if self.is_sqlite else _NOW_OF_POSTGRESQL
        self.now: sa.ColumnElement[Any] = sa.literal_column(sql, sa.Double)
        """The time of the database in seconds, as an expression."""
        self.lease = ProcessLease(self.now, times.lease, times.hung_after)
        """The lease of this process."""
        self._tables, self._patience = tables, times.patience
        self._lock_patience = max(_LOCK_PATIENCE, times.patience)
        if isinstance(database, sa.Engine):
            options: dict[str, Any] = {"creator": partial(_detached, database.pool.recreate())}
        elif self.is_sqlite:
            options = {"connect_args": {"check_same_thread": False}}
        else:
            known = {"connect_timeout": _CONNECT_SECONDS, "tcp_user_timeout": _SILENT_MILLISECONDS}
            options = {"connect_args": {key: value for key, value in known.items() if key not in url.query}}
        # Errors would show messages of callers.
        self._engine = sa.create_engine(url, hide_parameters=True, poolclass=sa.NullPool, **options)
        event.listen(self._engine, "connect", _set_up_sqlite if self.is_sqlite else _set_up_postgresql)
        self._writes = self._reads = Transactions(self._engine, self.lease)
        if not self._is_in_memory:
            # Words to begin and to end a transaction would be as many as those of most reads.
            self._reads = Transactions(self._engine.execution_options(isolation_level="AUTOCOMMIT"))

    async def make_tables(self) -> None:
        """Make the tables, if they are not there, and take those of an older version to this one.

        Raises:
            TablesRefusedError: They are of a newer version, or not ours.
        """
        work = partial(advance, tables=self._tables)
        # A database that was never reached may have another address: that is said at once.
        while not await self._writes.do(work, patience=0.0, lock_patience=self._lock_patience):
            """The tables are one version further."""

    async def write(
        self, work: Work[T], *, again: Work[T] | None = None, is_synced: bool = True, lock_patience: float | None = None
    ) -> T:
        """Carry out an operation that writes: see `Transactions.do`.

        Args:
            work: The operation.
            again: What takes its place if it may have been carried out.
            is_synced: Whether SQLite writes to the disk before this returns.
            lock_patience: The seconds for which it waits for a lock; None for the usual ones.
        """
        waits = lock_patience or self._lock_patience
        return await self._writes.do(
            work, again=again, is_synced=is_synced, patience=self._patience, lock_patience=waits
        )

    async def read(self, work: Work[T]) -> T:
        """Carry out an operation that only reads; each of its statements may see the commits between them."""
        return await self._reads.do(work, patience=self._patience, lock_patience=self._lock_patience)

    async def hold_lease(self, lock_patience: float | None = None) -> None:
        """Take the lease of this process, unless it has one."""
        if not self.lease.is_current:
            renewed, waits = self.lease.note(), lock_patience or self._lock_patience
            await self._writes.do(
                self.lease.renew, note=renewed, is_synced=False, patience=self._patience, lock_patience=waits
            )

    async def give_back_lease(self) -> None:
        """Give the lease of this process back, if it has one, so that others take what it has at once."""
        if self.lease.is_current:
            await self._writes.do(self.lease.give_back, patience=0.0)

    async def close(self) -> None:
        """Close the connections, when what has begun is done; the lease passes, unless it was given back."""
        for each in {self._writes, self._reads}:
            each.close()
            await anyio.to_thread.run_sync(each.join)

    # --- forks

    def rest(self) -> None:
        """Close the connections, which a forked child must not have, between two transactions."""
        for each in {self._writes, self._reads}:
            # SQLite's memory would be gone with its connection.
            each.rest(keeps_connection=self._is_in_memory)

    def go_on(self) -> None:
        """Go on after a rest."""
        for each in {self._writes, self._reads}:
            each.go_on()

    def start_in_child(self) -> None:
        """Forget what the parent has."""
        self.lease.reset()
        for each in {self._writes, self._reads}:
            each.start_in_child()


_NOW_OF_POSTGRESQL = "extract(epoch from clock_timestamp())::double precision"


def sql_url(text: str) -> sa.URL | None:
    """Return a URL for SQLAlchemy, with the driver that is used; None if no such database can be used."""
    try:
        url = sa.make_url(text)
    except ArgumentError:
        return None
    driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}.get(url.get_backend_name())
    return None if driver is None else url.set(drivername=driver)


def _detached(pool: sa.Pool) -> Any:
    """Return a connection that a pool has made, and no longer counts."""
    made = pool.connect()
    connection = made.dbapi_connection
    made.detach()
    return connection


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = "IMMEDIATE"
    # So damaged characters harm their own row; as surrogates they are no text for those who read it.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
        # With a journal beside the database, readers and the writer do not wait for each other.
        cursor.execute("PRAGMA journal_mode=WAL")


def _set_up_postgresql(connection: Any, _: object) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"set lock_timeout = {_LOCK_MILLISECONDS}")
    connection.commit()
