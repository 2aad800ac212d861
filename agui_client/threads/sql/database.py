"""The databases of a SQL store: SQLite in the thread of the event loop, PostgreSQL through SQLAlchemy's asyncio.

A statement of SQLite takes microseconds, and handing it to another thread takes longer than that, so nothing is handed
over. What waits to be written goes into one transaction together, as each commit waits for the disk. While another
program has the database locked, the event loop goes on.

On PostgreSQL, writes to threads wait while the one before them is on its way, and then go there in one statement: a
statement costs much, and a thread more in it little. So the more threads are saved, the less each of them costs.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool, SingletonThreadPool

from agui_client._sql.database_faults import Fault, fault_of
from agui_client.threads.sql import statements
from agui_client.threads.sql.statements import Write

T = TypeVar("T")
Work = Callable[[Connection], T]
"""The statements of an operation."""

_BATCH = 64
"""The most operations in one transaction of SQLite."""
_MOST_AT_ONCE = 256
"""The most threads of PostgreSQL that are written to in one statement."""
_GATHERED_SECONDS = 0.015
"""The shortest time between two such statements, while more than one thread at a time is written to."""
_MOST_CONNECTIONS = 20
"""The most connections to PostgreSQL at once if its pool has no limit."""
_LONGEST_PAUSE = 0.02
"""Seconds between two attempts on a database that another program has locked."""
_ATTEMPTS = 5
"""Attempts of an operation that PostgreSQL undoes because of another transaction."""
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
    async def write(self, write: Write, *, wait: float) -> int | None:
        """Write to a thread.

        Args:
            write: The write.
            wait: The most seconds to wait while another program has the database locked.

        Returns:
            The number of entries that the thread has now; None if it had another lease or number of entries than was
            expected.
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
class _Operation(Generic[T]):
    """An operation on SQLite that waits to be carried out."""

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
        self._writes = deque[_Operation[Any]]()
        self._task: asyncio.Task[None] | None = None

    async def run(self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float) -> T:
        """Carry out an operation, several together if they write."""
        give_up = monotonic() + wait
        if not is_read:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._writes.append(_Operation(work, give_up, future))
            if self._task is None:
                self._task = asyncio.create_task(self._write_all())
            return await future
        while True:
            try:
                with self._engine.connect() as db:
                    return _transact(db, "BEGIN", partial(work, db))
            except OperationalError as error:
                if fault_of(error) is not Fault.LOCKED or monotonic() > give_up:
                    raise
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE))

    async def write(self, write: Write, *, wait: float) -> int | None:
        """Write to a thread."""
        return await self.run(partial(statements.write, write=write), wait=wait)

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
            if fault_of(error) is Fault.LOCKED:
                overdue = [each for each in self._writes if each.give_up < monotonic()]
                for each in overdue:
                    self._writes.remove(each)
                    _end(each.future, error)
                return False
            ends = [partial(_end, each.future, error) for each in batch]
        for _ in batch:
            self._writes.popleft()
        for end in ends:
            end()
        return True

    def _carry_out(self, db: Connection, batch: list[_Operation[Any]]) -> list[Callable[[], None]]:
        """Call operations, each of which is undone if it fails; return functions that report what became of them."""
        ends: list[Callable[[], None]] = []
        for each in batch:
            try:
                value = each.work(db) if len(batch) == 1 else _transact(db, "SAVEPOINT one", partial(each.work, db))
            except Exception as error:
                if len(batch) == 1 or not _is_in_transaction(db):
                    raise
                ends.append(partial(_end, each.future, error))
            else:
                ends.append(partial(_end, each.future, None, value))
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
        self._writes, self._task = deque[_Operation[Any]](), None


class PostgresDatabase(Database):
    """PostgreSQL.

    Args:
        engine: An engine of which nobody else has connections, with the isolation level AUTOCOMMIT.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reset()

    def _reset(self) -> None:
        # Operations wait for a connection here, in order and as long as it takes: a pool gives up after a while.
        pool: Any = self._engine.pool
        beyond: int = getattr(pool, "_max_overflow", -1)  # which has no public name
        is_bounded = isinstance(pool, QueuePool) and beyond >= 0 and pool.size() > 0
        self._connections = asyncio.Semaphore(pool.size() + beyond if is_bounded else _MOST_CONNECTIONS)
        self._writes = deque[tuple[Write, asyncio.Future[int | None]]]()
        self._tasks = set[asyncio.Task[None]]()
        self._is_writing = False

    async def run(self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float) -> T:
        """Carry out an operation, again if the database has undone it because of another transaction."""
        for attempt in range(1, _ATTEMPTS):
            try:
                return await self._run_once(work, is_atomic=is_atomic)
            except DBAPIError as error:
                if fault_of(error) is not Fault.CONFLICT:
                    raise
            await asyncio.sleep(random.uniform(0, attempt * _LONGEST_PAUSE))
        return await self._run_once(work, is_atomic=is_atomic)

    async def _run_once(self, work: Work[T], *, is_atomic: bool = False) -> T:
        """Carry out an operation; most take one statement, for which the words to begin and to commit would be many."""
        async with self._connections, self._engine.connect() as db:
            if is_atomic:
                _ = await db.execution_options(isolation_level="READ COMMITTED")
            async with db.begin():
                return await db.run_sync(work)

    async def write(self, write: Write, *, wait: float) -> int | None:
        """Write to a thread, in one statement with others if some wait already."""
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._writes.append((write, future))
        if not self._is_writing:
            self._is_writing = True
            self._begin(self._write_all())
        return await future

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_all(self) -> None:
        """Write what waits, and what comes meanwhile."""
        try:
            while self._writes:
                begun, batch = monotonic(), self._next_batch()
                await self._write_together(batch)
                # Many threads that are saved one shortly after the other have a statement each if nothing makes them
                # wait for each other. A thread that is alone never waits.
                if self._writes or len(batch) > 1:
                    await asyncio.sleep(begun + _GATHERED_SECONDS - monotonic())
        finally:
            self._is_writing = False

    def _next_batch(self) -> list[tuple[Write, asyncio.Future[int | None]]]:
        """Take writes that one statement can carry out, as it can write to a row once."""
        batch = dict[tuple[str, str], tuple[Write, asyncio.Future[int | None]]]()
        later = deque[tuple[Write, asyncio.Future[int | None]]]()
        while self._writes and len(batch) < _MOST_AT_ONCE:
            write, future = self._writes.popleft()
            if batch.setdefault((write.owner, write.thread_id), (write, future))[1] is not future:
                later.append((write, future))
        self._writes.extendleft(reversed(later))
        return list(batch.values())

    async def _write_together(self, batch: list[tuple[Write, asyncio.Future[int | None]]]) -> None:
        try:
            written = await self._run_once(_writing_to([write for write, _ in batch], waits=False))
        except Exception as error:
            if fault_of(error) is Fault.AWAY:
                for _, future in batch:
                    _end(future, error)
                return
            # The database has undone them all: one of them cannot be written, and should harm no other.
            written = dict[int, int]()
        for index, (write, future) in enumerate(batch):
            if index in written:
                _end(future, None, written[index])
            else:
                # Its thread was taken over, or another transaction is writing to it: the others need not wait for that.
                self._begin(self._write_alone(write, future))

    async def _write_alone(self, write: Write, future: asyncio.Future[int | None]) -> None:
        try:
            _end(future, None, (await self.run(_writing_to([write], waits=True), wait=0)).get(0))
        except Exception as error:
            _end(future, error)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    def start_in_child(self) -> None:
        """Forget the connections and the writes of the parent."""
        _inherited.append((self._engine.pool, self._connections, self._writes, self._tasks))
        self._engine.sync_engine.dispose(close=False)
        self._reset()


def _writing_to(writes: list[Write], *, waits: bool) -> Work[dict[int, int]]:
    return partial(statements.write_to_many, writes=writes, waits=waits)


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


def _end(future: asyncio.Future[T], error: Exception | None, value: Any = None) -> None:
    if future.done():  # cancelled
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _set_up_sqlite(connection: Any, record: object) -> None:
    """Let readers and the one writer not wait for each other, and nobody wait in the thread of the event loop."""
    # So damaged characters harm their own row; as surrogates they are no text for those who read it.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    with closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
        cursor.execute("PRAGMA journal_mode = WAL")
