"""Transactions in a thread: those that are asked for while one is carried out go together in the next one.

A transaction costs a thread's turn and a write to the disk, however little it changes: one for many runs and threads
costs little more than one for a single run.

    asked for ──▶ waiting ──▶ in a transaction with others ──▶ ended
                     ▲               │ one of them fails, or waits for a lock
                     │               ▼
                     └──── in a transaction of its own
       the database is away or locked, as long as the patience of the operation lasts

What was asked for while the database is away waits, and so does the lease of the process, which the thread renews.

To change

- how the writes of many threads share statements and connections: `Transactions` here joins what waits; what a write
  is, and the statement for many of them on PostgreSQL: `Write` in `store/_sql/thread_statements.py`
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from agui_client._core.ground.waiting import wait_for_end
from agui_client._core.plugs import measure
from agui_client.store._sql.faults import Fault, fault_of

if TYPE_CHECKING:
    from agui_client.store._sql.lease import ProcessLease

T = TypeVar("T")
_logger = logging.getLogger("agui_client.store")
Work = Callable[[sa.Connection], T]
"""The statements of an operation; called again if nothing that they did was kept, and also if that is not known.

So an operation that is carried out twice has to do what it does once: it asks the database whether it is there by an id
of its own, never by values that another process may have written.
"""
_BETWEEN_WARNINGS = 60.0
"""The seconds between two warnings that the database is away."""
_LOCKED_PAUSE, _AWAY_PAUSE = 0.02, 0.25
"""The longest pause between two attempts on a database that is locked, and on one that is away, in seconds."""
IS_POOLED = "agui_is_pooled"
"""The key in the `info` of a connection that says whether a pooler, such as PgBouncer, is in front of the server."""
LOCK_TIMEOUT = "set {}lock_timeout = 1000"
"""The longest wait for a row that another program has locked, in milliseconds: the lease is not renewed meanwhile."""
_inherited: list[object] = []
"""Parts of the parent that a forked child keeps as they are: collecting a connection would close the parent's."""


class TransactionsClosedError(Exception):
    """The thread has ended, so nothing more is carried out."""


class JoinableWork(ABC):
    """An operation that PostgreSQL can carry out in one statement with others of its kind."""

    @abstractmethod
    def __call__(self, db: sa.Connection) -> Any:
        """Carry out the operation by itself."""

    @abstractmethod
    def together(self, db: sa.Connection, works: Sequence[Any], *, waits: bool) -> Mapping[int, Any]:
        """Carry out several operations.

        Args:
            db: The connection.
            works: All of them, this one included.
            waits: Whether to wait for rows that other transactions have locked, and not to leave them out.

        Returns:
            The values by the indices of the operations; none for one that was left out, or changed nothing.
        """


class Outages:
    """The warnings about a database, which the threads that use it share: one a minute, however much waits."""

    def __init__(self) -> None:
        self._warned_at = -inf

    def note(self, error: Exception, what: str) -> None:
        """Note that the database could not be used.

        Args:
            error: The exception.
            what: What is the matter with the database.
        """
        if monotonic() - self._warned_at >= _BETWEEN_WARNINGS:
            self._warned_at = monotonic()
            why = str(getattr(error, "orig", None) or error).partition("\n")[0]
            _logger.warning("the database %s; what is asked for waits: %s", what, why)


@dataclass(slots=True, eq=False)
class _Task:
    """An operation that waits to be carried out."""

    work: Work[Any]
    future: asyncio.Future[Any] | None
    note: Callable[[object], None] | None
    is_synced: bool
    is_stepwise: bool = False
    give_up_at: float = 0.0
    give_up_locked_at: float = 0.0
    is_alone: bool = False

    def waits(self, fault: Fault) -> bool:
        """Return whether the operation is tried again after a fault."""
        return monotonic() < (self.give_up_at if fault is Fault.AWAY else self.give_up_locked_at)


class Transactions:
    """Carries out operations on one connection, in a thread that begins with the first of them.

    Args:
        engine: The engine of the database, whose pool keeps no connections.
        outages: Warns of outages.
        lease: The lease of the process, if the thread renews it.
    """

    def __init__(self, engine: sa.Engine, outages: Outages, lease: ProcessLease | None = None) -> None:
        self._engine, self._outages, self._lease = engine, outages, lease
        self._joins = engine.dialect.name == "postgresql"
        self._reset()

    def _reset(self) -> None:
        # Kept: taking one from a pool for each transaction, and giving it back, costs half as much as the transaction.
        self._connection: sa.Connection | None = None
        self._is_synced = True
        self._away_at: float | None = None  # since when, as far as it was measured
        self._queue = SimpleQueue[_Task | None]()
        self._at_work = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def do(
        self,
        work: Work[T],
        *,
        note: Callable[[object], None] | None = None,
        is_synced: bool = True,
        is_stepwise: bool = False,
        patience: float,
        lock_patience: float | None = None,
    ) -> T:
        """Carry out an operation in a transaction, and return what it returns.

        A caller that is cancelled no longer waits for it, but it is carried out all the same.

        Args:
            work: The operation.
            note: Called in the thread with the result, or the exception.
            is_synced: Whether SQLite writes to the disk before this returns. Otherwise a machine that loses power may
                lose the transaction, but none that is synced after it; the end of a process loses nothing.
            is_stepwise: Whether each statement may be committed by itself, as PostgreSQL does without two more round
                trips: the operation is whole after each of them, and may be carried out again behind any.
            patience: The seconds for which the operation waits while the database is away.
            lock_patience: The seconds for which it waits for a lock; None for as many.

        Raises:
            TransactionsClosedError: The thread was ended.
        """
        if self._is_closed:
            raise TransactionsClosedError
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        now, lock_patience = monotonic(), patience if lock_patience is None else lock_patience
        self._queue.put(_Task(work, done, note, is_synced, is_stepwise, now + patience, now + lock_patience))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="agui_client.database", daemon=True)
            self._thread.start()
        return await done

    def close(self) -> None:
        """End the thread when it has done what it has begun and given the lease back, and wait for its end. Idempotent.

        Nothing else is carried out.
        """
        self._is_closed = True
        self._queue.put(None)
        if self._thread is not None:
            wait_for_end(self._thread)

    # --- forks

    def rest(self, *, keeps_connection: bool) -> None:
        """Close the connection between two transactions, and begin no other one before `resume`."""
        _ = self._at_work.acquire()
        if not keeps_connection:
            self._disconnect()

    def resume(self) -> None:
        """Continue after a rest."""
        self._at_work.release()

    def start_in_child(self) -> None:
        """Forget the connection, the thread and the operations of the parent in a child."""
        _inherited.append((self._connection, self._queue, self._thread))
        self._reset()

    # --- in the thread

    def _work(self) -> None:
        waiting, resumes_at = list[_Task](), inf
        while not self._is_closed:
            waiting += self._collected(resumes_at if waiting else None)
            with self._at_work:
                waiting, pause = self._survived(waiting)
            resumes_at = monotonic() + pause
        if self._lease is not None and self._lease.is_current:
            with suppress(Exception):  # it passes
                _ = self._together([_Task(self._lease.give_back, None, None, is_synced=True)])
        self._disconnect()
        # Operations that were asked for just before the end come in front of the last `None`, or are alone.
        with suppress(Empty):
            while True:
                waiting += filter(None, [self._queue.get_nowait()])
        _deliver([(each, TransactionsClosedError()) for each in waiting])

    def _collected(self, resumes_at: float | None) -> list[_Task]:
        """Return the operations that were asked for, as soon as there is one, or the lease is due.

        Args:
            resumes_at: The end of the pause between two attempts, which is waited for; None if there is none.
        """
        tasks = list[_Task]()
        due_at = inf if self._lease is None else self._lease.due_at
        until = due_at if resumes_at is None else resumes_at
        with suppress(Empty):
            while not self._is_closed:
                seconds = 0.0 if tasks and resumes_at is None else max(0.0, until - monotonic())
                tasks += filter(None, [self._queue.get(timeout=None if seconds == inf else seconds)])
        return tasks

    def _survived(self, tasks: list[_Task]) -> tuple[list[_Task], float]:
        """Carry out operations, whatever fails: without this thread, all that is asked for would wait for ever."""
        try:
            return self._carry_out(tasks)
        except Exception as error:
            _logger.exception("the thread of the database has failed, and carries out what is asked for next")
            _deliver([(each, error) for each in tasks])
            return [], 0.0

    def _carry_out(self, tasks: list[_Task]) -> tuple[list[_Task], float]:
        """Carry out operations; return those that are tried again, and the pause before that."""
        if self._lease is not None and self._lease.is_due():
            tasks.insert(0, _Task(self._lease.renew, None, self._lease.note(), is_synced=False, is_stepwise=True))
        remaining, pause = list[_Task](), 0.0
        joined = [each for each in tasks if not each.is_alone]
        batches = deque([joined] if joined else [])
        batches += [[each] for each in tasks if each.is_alone]
        while batches:
            batch = batches.popleft()
            was_connected, fault, error_of = self._connection is not None, None, None
            try:
                batches += [[each] for each in self._together(batch)]
            except Exception as error:
                fault, error_of = fault_of(error), error
                if fault is Fault.AWAY:
                    self._disconnect()
                if fault is Fault.AWAY and was_connected:
                    # The database may be back since: nothing else would notice.
                    batches.appendleft(batch)
                    continue
                if fault in (Fault.AWAY, Fault.LOCKED) or (fault is Fault.CONFLICT and len(batch) == 1):
                    pause = max(pause, _AWAY_PAUSE if fault is Fault.AWAY else random.uniform(0, _LOCKED_PAUSE))
                    waiting = [each for each in batch if each.waits(fault)]
                    remaining += waiting
                    _deliver([(each, error) for each in batch if each not in waiting])
                elif len(batch) == 1:
                    _deliver([(batch[0], error)])
                else:
                    # One of them failed, and took the others with it.
                    for each in batch:
                        each.is_alone = fault is Fault.CONFLICT
                    batches += [[each] for each in batch]
            if fault is Fault.AWAY and error_of is not None:
                self._outages.note(error_of, "is away")
            self._measure_outage(is_away=fault is Fault.AWAY)
        return remaining, pause

    def _measure_outage(self, *, is_away: bool) -> None:
        # Both threads of a database are cut off from it; the one that renews the lease notices it soon, and counts it.
        if self._lease is None or (self._away_at is None and not is_away):
            return
        now = monotonic()
        if self._away_at is None:
            measure("agui.store.outages")
        else:
            # While it lasts, so that it is seen before its end.
            measure("agui.store.outage.time", now - self._away_at)
        self._away_at = now if is_away else None

    def _together(self, batch: Sequence[_Task]) -> Sequence[_Task]:
        """Carry out operations in one transaction; return those that wait for a lock, and need one of their own."""
        db, is_whole = self._connected(any(each.is_synced for each in batch)), False
        try:
            commits_each = self._begins_none(db, batch)
            transaction = db.begin()
            try:
                if db.info.get(IS_POOLED) and not commits_each:
                    db.exec_driver_sql(LOCK_TIMEOUT.format("local "))
                results = self._results(db, batch)
            except Exception:
                transaction.rollback()
                is_whole = True
                raise
            transaction.commit()
            is_whole = True
        finally:
            # What a transaction that was neither committed nor undone has written would go into the next one.
            if not is_whole:
                self._disconnect()
        _deliver([(each, results[each]) for each in batch if each in results])
        left = [each for each in batch if each not in results]
        for each in left:
            each.is_alone = True  # and waits for the lock
        return left

    def _begins_none(self, db: sa.Connection, batch: Sequence[_Task]) -> bool:
        """Let each statement commit by itself, if the operations allow it; return whether that is so."""
        if not self._joins:
            return False
        if db.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
            return True
        are_one = all(isinstance(each.work, JoinableWork) for each in batch)
        # A lock must not be waited for without a limit, which a pooler keeps for the time of a transaction only.
        commits_each = not db.info.get(IS_POOLED) and (are_one or (len(batch) == 1 and batch[0].is_stepwise))
        driver: Any = db.connection.driver_connection
        driver.autocommit = commits_each
        return commits_each

    def _results(self, db: sa.Connection, batch: Sequence[_Task]) -> dict[_Task, Any]:
        """Call operations; return their values, none for one that waits for a lock."""
        results = dict[_Task, Any]()
        joined = [(each, each.work) for each in batch if self._joins and isinstance(each.work, JoinableWork)]
        if joined:
            is_alone = joined[0][0].is_alone
            found = joined[0][1].together(db, [work for _, work in joined], waits=is_alone)
            results |= {task: found.get(index) for index, (task, _) in enumerate(joined) if is_alone or index in found}
        together = {task for task, _ in joined}
        for each in batch:
            if each not in together:
                results[each] = each.work(db)
        return results

    def _connected(self, is_synced: bool) -> sa.Connection:
        if self._connection is None:
            self._connection, self._is_synced = self._engine.connect(), True
        if is_synced is not self._is_synced and self._engine.dialect.name == "sqlite":
            # Between two transactions, and so not by the SQLAlchemy connection, which would begin one.
            self._connection.connection.cursor().execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken
                connection.invalidate()  # it is closed as it is: nothing of it is undone or kept
                connection.close()


def _deliver(ended: Sequence[tuple[_Task, Any]]) -> None:
    """Tell the callers of operations how these have ended; an event loop is woken once for all that it waits for."""
    by_loop = defaultdict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]](list)
    for task, result in ended:
        if task.note is not None:
            task.note(result)
        if task.future is not None:
            by_loop[task.future.get_loop()].append((task.future, result))
    for loop, futures in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(_end_all, futures)


def _end_all(futures: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in futures:
        if future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
