"""The databases of a SQL store: SQLite in the thread of the event loop, PostgreSQL through SQLAlchemy's asyncio.

A statement of SQLite takes microseconds, and handing it to another thread takes longer than that, so nothing is handed
over. What waits to be written goes into one transaction together, as each commit waits for the disk. While another
program has the database locked, the event loop goes on.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import SingletonThreadPool

T = TypeVar("T")
Work = Callable[[Connection], T]
"""The statements of an operation."""

_BATCH = 64
"""The most operations in one transaction of SQLite."""
_LONGEST_PAUSE = 0.02
"""Seconds between two attempts on a database that another program has locked."""
_inherited: list[object] = []
"""Parts of the parent that a forked child keeps as they are: collecting a connection would close the parent's."""


class Database(ABC):
    """A database, to be used in one event loop."""

    @abstractmethod
    async def run(self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float) -> T:
        """Carry out an operation.

        Args:
            work: Its statements. It may be called again if nothing that it did was kept.
            is_read: Whether it only reads.
            is_atomic: Whether its statements must be in one transaction. Otherwise each may be in one of its own.
            wait: The most seconds to wait while another program has the database locked.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    async def rest(self) -> None:
        """Close the connections that a forked child must not have."""
        await self.close()

    @abstractmethod
    def start_in_child(self) -> None:
        """Forget the connections of the parent, without closing them."""


@dataclass(slots=True)
class _Write(Generic[T]):
    """An operation that waits to be carried out."""

    work: Work[T]
    give_up: float
    future: asyncio.Future[T]


class SQLiteDatabase(Database):
    """SQLite, on a connection in the thread of the event loop.

    Args:
        url: The URL.
    """

    def __init__(self, url: URL) -> None:
        # SQLAlchemy leaves transactions alone then: those that write must be known as such from their beginning.
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT", hide_parameters=True)
        event.listen(self._engine, "connect", _set_up_sqlite)
        self._writes = deque[_Write[Any]]()
        self._task: asyncio.Task[None] | None = None

    async def run(self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float) -> T:
        """Carry out an operation, several together if they write."""
        give_up = monotonic() + wait
        if not is_read:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._writes.append(_Write(work, give_up, future))
            if self._task is None:
                self._task = asyncio.create_task(self._write_all())
            return await future
        while True:
            try:
                with self._engine.connect() as db:
                    return _transact(db, "BEGIN", partial(work, db))
            except OperationalError as error:
                if not is_lock(error) or monotonic() > give_up:
                    raise
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE))

    async def _write_all(self) -> None:
        """Carry out the operations that wait, and those that come meanwhile."""
        try:
            while self._writes:
                is_locked = not self._write_some()
                await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE) if is_locked else 0)
        finally:
            self._task = None

    def _write_some(self) -> bool:
        """Carry out operations in one transaction; return False if another program has the database locked."""
        batch = list(islice(self._writes, _BATCH))
        try:
            with self._engine.connect() as db:
                ends = _transact(db, "BEGIN IMMEDIATE", partial(self._carry_out, db, batch))
        except Exception as error:
            if isinstance(error, OperationalError) and is_lock(error):
                overdue = [each for each in self._writes if each.give_up < monotonic()]
                for each in overdue:
                    self._writes.remove(each)
                    _end(each, error)
                return False
            ends = [partial(_end, each, error) for each in batch]
        for _ in batch:
            self._writes.popleft()
        for end in ends:
            end()
        return True

    def _carry_out(self, db: Connection, batch: list[_Write[Any]]) -> list[Callable[[], None]]:
        """Call operations, each of which is undone if it fails; return functions that report what became of them."""
        ends: list[Callable[[], None]] = []
        for each in batch:
            try:
                value = each.work(db) if len(batch) == 1 else _transact(db, "SAVEPOINT one", partial(each.work, db))
            except Exception as error:
                if len(batch) == 1 or not _is_in_transaction(db):
                    raise
                ends.append(partial(_end, each, error))
            else:
                ends.append(partial(_end, each, None, value))
        return ends

    async def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    async def rest(self) -> None:
        """Close the connection, unless SQLite's memory would be gone with it."""
        if not isinstance(self._engine.pool, SingletonThreadPool):
            self._engine.dispose()

    def start_in_child(self) -> None:
        """Forget the connection and the operations of the parent."""
        _inherited.append((self._engine.pool, self._writes, self._task))
        self._engine.dispose(close=False)
        self._writes, self._task = deque[_Write[Any]](), None


class PostgresDatabase(Database):
    """PostgreSQL.

    Args:
        engine: An engine of which nobody else has connections, with the isolation level AUTOCOMMIT.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def run(self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float) -> T:
        """Carry out an operation; most take one statement, for which the words to begin and to commit would be many."""
        async with self._engine.connect() as db:
            if is_atomic:
                _ = await db.execution_options(isolation_level="READ COMMITTED")
            async with db.begin():
                return await db.run_sync(work)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    def start_in_child(self) -> None:
        """Forget the connections of the parent."""
        _inherited.append(self._engine.pool)
        self._engine.sync_engine.dispose(close=False)


def is_lock(error: OperationalError) -> bool:
    """Return whether another program has a database of SQLite locked."""
    return isinstance(error.orig, sqlite3.Error) and error.orig.sqlite_errorcode & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def _transact(db: Connection, begin: str, work: Callable[[], T]) -> T:
    """Call a function in a transaction of SQLite, or between savepoints in one."""
    name = begin.partition("SAVEPOINT ")[2]
    db.exec_driver_sql(begin)
    try:
        value = work()
        db.exec_driver_sql(f"RELEASE {name}" if name else "COMMIT")
    except BaseException:
        # SQLite has ended the transaction itself if the disk is full or fails.
        if _is_in_transaction(db):
            db.exec_driver_sql(f"ROLLBACK TO {name}" if name else "ROLLBACK")
        raise
    return value


def _is_in_transaction(db: Connection) -> bool:
    connection: Any = db.connection.driver_connection
    return bool(connection.in_transaction)


def _end(write: _Write[T], error: Exception | None, value: Any = None) -> None:
    if write.future.done():  # cancelled
        return
    if error is not None:
        write.future.set_exception(error)
    else:
        write.future.set_result(value)


def _set_up_sqlite(connection: Any, record: object) -> None:
    """Let readers and the one writer not wait for each other, and nobody wait in the thread of the event loop."""
    # So damaged characters harm their own row; as surrogates they are no text for those who read it.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    with closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
        cursor.execute("PRAGMA journal_mode = WAL")
