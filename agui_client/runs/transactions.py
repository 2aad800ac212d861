"""Transactions in a thread: those that are asked for while one is carried out go together in the next one.

A transaction costs a thread's turn and a write to the disk, however little it changes: one for many runs costs little
more than one for a single run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from agui_client._sql.database_faults import Fault, fault_of
from agui_client.runs.records import RunsClosedError, RunsUnavailableError, TextRefusedError

T = TypeVar("T")
Work = Callable[[sa.Connection], Any]
_CLOSED = "these runs were closed; make another Runs(URL)"


class Transactions:
    """Carries out functions of a connection, in the order in which they come.

    Args:
        engine: The engine of the database.
        only_read: Whether the functions change nothing, so that they are called again when a kept connection broke.
    """

    def __init__(self, engine: sa.Engine, *, only_read: bool = False) -> None:
        self._engine, self._only_read = engine, only_read
        # Kept: taking one from a pool for each transaction, and giving it back, costs half as much as the transaction.
        self._connection: sa.Connection | None = None
        self._is_synced = True
        self._thread = ThreadPoolExecutor(1, "agui-runs")
        self._waiting: list[tuple[Work, asyncio.Future[Any], bool]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def do(self, work: Callable[[sa.Connection], T], *, is_synced: bool = True) -> T:
        """Call a function in a transaction, and return what it returns.

        A caller that is cancelled no longer waits for it, but it is carried out all the same: its place in the order
        is taken.

        Args:
            work: The function.
            is_synced: Whether SQLite writes to the disk before this returns. Otherwise a machine that loses power may
                lose the transaction, but none that is synced after it; the end of a process loses nothing.

        Raises:
            RunsUnavailableError: The database cannot be reached.
            RunsClosedError: The thread was ended.
            TextRefusedError: The database cannot store a text of the function.
        """
        if self._is_closed:
            raise RunsClosedError(_CLOSED)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, done, is_synced))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._do_all())
        return await done

    def close(self) -> None:
        """End the thread when it has done what it was given; nothing else is carried out."""
        self._is_closed = True
        for _, done, _ in self._waiting:
            if not done.done():
                done.set_exception(RunsClosedError(_CLOSED))
        self._waiting.clear()
        self._thread.submit(self._disconnect)
        self._thread.shutdown(wait=False)

    async def _do_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            is_synced = any(each for _, _, each in batch)
            results = await loop.run_in_executor(self._thread, self._results, [work for work, _, _ in batch], is_synced)
            for (_, done, _), result in zip(batch, results, strict=True):
                if done.done():
                    continue
                if isinstance(result, BaseException):
                    done.set_exception(result)
                else:
                    done.set_result(result)
        self._task = None

    def _results(self, works: Sequence[Work], is_synced: bool) -> Sequence[Any]:
        """Return what the functions return, or the exceptions that they raise."""
        was_kept = self._connection is not None
        try:
            return self._together(works, is_synced)
        except Exception as error:
            fault = fault_of(error)
            if fault is Fault.AWAY:
                self._disconnect()
                # The database may be back since: nothing else would notice before the next caller is refused.
                if was_kept and self._only_read:
                    return self._results(works, is_synced)
            if len(works) == 1 or fault in (Fault.AWAY, Fault.LOCKED):
                return [_translated(error, fault)] * len(works)
        # One of them failed, and took the others with it.
        return [self._results([work], is_synced)[0] for work in works]

    def _together(self, works: Sequence[Work], is_synced: bool) -> Sequence[Any]:
        """Return what the functions return, all called in one transaction."""
        connection, is_whole = self._connected(is_synced), False
        try:
            transaction = connection.begin()
            try:
                results = [work(connection) for work in works]
            except Exception:
                transaction.rollback()
                is_whole = True
                raise
            transaction.commit()
            is_whole = True
            return results
        finally:
            # What a transaction that was neither committed nor undone has written would go into the next one.
            if not is_whole:
                self._disconnect()

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


def _translated(error: Exception, fault: Fault | None) -> Exception:
    """Return the exception that callers get for one of a function."""
    match fault:
        case Fault.REFUSED if not isinstance(error, exc.IntegrityError):
            # PostgreSQL has no NUL in a text, and a limit for texts in an index. Its words may quote them.
            what = "an id or a text: it is too long, or has a NUL or half a character in it"
            return TextRefusedError(f"the database of runs cannot store {what}")
        case Fault.AWAY | Fault.LOCKED | Fault.CONFLICT:
            made = RunsUnavailableError("the database of runs cannot be reached now")
            made.__cause__ = error
            return made
        case _:
            return error
