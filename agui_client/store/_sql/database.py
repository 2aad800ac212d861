"""The database of a store: a thread that writes, one that reads, and the lease of this process.

Reads do not wait behind writes, so they may overtake what was asked for before them and is not committed yet.

To change

- how long an outage is waited for: `StoreTimes` in `store/_sql/times.py`, and `Transactions`
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError

from agui_client._core.ground.files import make_private
from agui_client._core.plugs import measure
from agui_client._core.protocol.schema import is_a
from agui_client.errors import UsageError
from agui_client.store._sql.lease import ProcessLease
from agui_client.store._sql.migrations import advance
from agui_client.store._sql.tables import TABLES
from agui_client.store._sql.times import StoreTimes
from agui_client.store._sql.transactions import IS_POOLED, LOCK_TIMEOUT, Outages, Transactions, Work

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
_KNOWN = "sqlite:///FILE or postgresql://USER@HOST/NAME, or an Engine of SQLAlchemy with psycopg"
_OTHERS = "for other databases subclass ThreadStore"


class Database:
    """A database, to be used by one process.

    Args:
        given: A URL; or the engine of an application, made with psycopg, whose options and events are used for
            connections of its own. Of an engine for SQLite, only the URL is used.
        times: The times with which it is used.

    Raises:
        UsageError: It is no such URL or engine, or its driver is not installed.
    """

    def __init__(self, given: str | sa.Engine, times: StoreTimes = _TIMES) -> None:
        url = url_of(given)
        self.is_sqlite: bool = url.get_backend_name() == "sqlite"
        """Whether it is SQLite."""
        self._is_in_memory = self.is_sqlite and url.database in (None, "", ":memory:")
        self.lease: ProcessLease = ProcessLease(times.lease, times.hung_after)
        """The lease of this process."""
        self._patience, self._has_tables = times.patience, False
        self._lock_patience = max(_LOCK_PATIENCE, times.patience)
        if self.is_sqlite:
            options: dict[str, Any] = {"connect_args": {"check_same_thread": False}}
        elif isinstance(given, sa.Engine):
            options = {"creator": partial(_detached, given.pool.recreate())}
        else:
            known = {"connect_timeout": _CONNECT_SECONDS, "tcp_user_timeout": _SILENT_MILLISECONDS}
            options = {"connect_args": {key: value for key, value in known.items() if key not in url.query}}
        # Errors would show messages of callers.
        try:
            self._engine = sa.create_engine(url, hide_parameters=True, poolclass=sa.NullPool, **options)
        except (ArgumentError, ImportError) as error:
            raise UsageError(f"this database cannot be used: {error}; Store takes {_KNOWN}; {_OTHERS}") from None
        if self.is_sqlite and not self._is_in_memory:
            # SQLite gives the permissions of a database to the files that it makes beside it.
            event.listen(self._engine, "do_connect", partial(_make_private, url))
        event.listen(self._engine, "connect", _set_up_sqlite if self.is_sqlite else _set_up_postgresql)
        outages = Outages()
        self._writes = self._reads = Transactions(self._engine, outages, self.lease)
        if not self._is_in_memory:
            # Words to begin and to end a transaction would be as many as those of most reads.
            self._reads = Transactions(self._engine.execution_options(isolation_level="AUTOCOMMIT"), outages)

    async def make_tables(self) -> None:
        """Make the tables, if they are not there, and take those of an older version to this one. Idempotent.

        Raises:
            TablesRefusedError: They are of a newer version, or not ours.
        """
        # A database that was never reached may have another address: that is said at once.
        while not self._has_tables:
            self._has_tables = await self._writes.do(advance, patience=0.0, lock_patience=self._lock_patience)

    async def write(
        self,
        work: Work[T],
        *,
        is_synced: bool = True,
        is_stepwise: bool = False,
        patience: float | None = None,
        lock_patience: float | None = None,
    ) -> T:
        """Carry out an operation that writes: see `Transactions.do`.

        Args:
            work: The operation.
            is_synced: Whether SQLite writes to the disk before this returns.
            is_stepwise: Whether each statement may be committed by itself.
            patience: The seconds for which it waits while the database is away; None for the usual ones.
            lock_patience: The seconds for which it waits for a lock; None for the usual ones.
        """
        waits, begun_at = lock_patience or self._lock_patience, monotonic()
        patience = self._patience if patience is None else patience
        try:
            return await self._writes.do(
                work, is_synced=is_synced, is_stepwise=is_stepwise, patience=patience, lock_patience=waits
            )
        finally:
            measure("agui.store.write.duration", monotonic() - begun_at)

    async def read(self, work: Work[T]) -> T:
        """Carry out an operation that only reads; each of its statements may see the commits between them."""
        return await self._reads.do(work, patience=self._patience, lock_patience=self._lock_patience)

    def size(self, db: sa.Connection) -> int:
        """Return the bytes that the tables and their indexes take; of SQLite, those of the whole file that are used."""
        return int(db.execute(_SIZE_OF_SQLITE if self.is_sqlite else _SIZE_OF_POSTGRESQL).scalar_one())

    async def hold_lease(self, lock_patience: float | None = None) -> None:
        """Take the lease of this process, unless it has one."""
        if not self.lease.is_current:
            how: dict[str, Any] = {"note": self.lease.note(), "is_synced": False, "is_stepwise": True}
            waits = lock_patience or self._lock_patience
            await self._writes.do(self.lease.renew, **how, patience=self._patience, lock_patience=waits)

    def close(self) -> None:
        """Give the lease back, so that others take what this process has at once, and close the connections.

        Waits for what has begun, in this thread. Idempotent.
        """
        for each in (self._reads, self._writes):
            each.close()

    # --- forks

    def rest(self) -> None:
        """Close the connections, which a forked child must not have, between two transactions."""
        for each in {self._writes, self._reads}:
            # SQLite's memory would be gone with its connection.
            each.rest(keeps_connection=self._is_in_memory)

    def resume(self) -> None:
        """Continue after a rest."""
        for each in {self._writes, self._reads}:
            each.resume()

    def start_in_child(self) -> None:
        """Forget what the parent has."""
        self.lease.reset()
        self._has_tables = self._has_tables and not self._is_in_memory
        for each in {self._writes, self._reads}:
            each.start_in_child()


_SIZE_OF_SQLITE = sa.text("""
select (page_count - freelist_count) * page_size from pragma_page_count, pragma_freelist_count, pragma_page_size
""")
_SIZE_OF_POSTGRESQL = sa.text(
    "select " + " + ".join(f"pg_total_relation_size('{each.name}')" for each in TABLES.sorted_tables)
)


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
"""The drivers that are used, whichever a URL names."""


def url_of(given: str | sa.Engine) -> sa.URL:
    """Return a URL for SQLAlchemy, with the driver that is used, such as psycopg for one that names asyncpg.

    Raises:
        UsageError: No such database can be used.
    """
    try:
        url = given.url if isinstance(given, sa.Engine) else sa.make_url(given)
    except ArgumentError:
        url = None
    driver = None if url is None else _DRIVERS.get(url.get_backend_name())
    is_of_psycopg = not isinstance(given, sa.Engine) or given.driver in ("pysqlite", "psycopg")
    if url is None or driver is None or not is_of_psycopg:
        # A URL may have a password, and is not shown.
        shown = "this one" if is_a(given, str) else repr(given)
        raise UsageError(f"Store takes {_KNOWN}, not {shown}; {_OTHERS}")
    if url.drivername == "postgresql+asyncpg" and "ssl" in url.query:
        url = url.difference_update_query(["ssl"]).update_query_dict({"sslmode": url.query["ssl"]})
    return url.set(drivername=driver)


def _detached(pool: sa.Pool) -> Any:
    """Return a connection that a pool has made, and no longer counts."""
    made = pool.connect()
    connection = made.dbapi_connection
    made.detach()
    return connection


def _make_private(url: sa.URL, *_: object) -> None:
    """Make the file of a database, if it is not there, for its owner alone."""
    name = url.database or ""
    is_to_be_made = url.query.get("mode") in (None, "rwc") and url.query.get("vfs") is None
    if name.startswith("file:"):
        name = unquote(urlsplit(name).path)
    if name and is_to_be_made:
        make_private(Path(name))


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = "IMMEDIATE"
    # So damaged characters harm their own row; as surrogates they are not text for those who read it.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
        # With a journal beside the database, readers and the writer do not wait for each other.
        cursor.execute("PRAGMA journal_mode=WAL")


def _set_up_postgresql(connection: Any, record: Any) -> None:
    # Behind a pooler, the next statement may get a server on which it was not prepared.
    connection.prepare_threshold, was_autocommit = None, connection.autocommit
    connection.autocommit = True
    with closing(connection.cursor()) as cursor:
        # A pooler has process ids of its own. What is set for a session would stay with a server that others get.
        found = cursor.execute("select pg_backend_pid()").fetchone()
        record.info[IS_POOLED] = found[0] != connection.info.backend_pid
        if not record.info[IS_POOLED]:
            cursor.execute(LOCK_TIMEOUT.format(""))
    connection.autocommit = was_autocommit
