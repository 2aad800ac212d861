"""Threads in a SQL database: its first use, forks, and the exceptions of databases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio.to_thread

from agui_client._core.plugs import measure
from agui_client._core.protocol.open_items import quoted
from agui_client.errors import ThreadStoreError, ThreadStoreUnavailableError
from agui_client.store._sql import thread_statements as statements
from agui_client.store._sql.errors import translated
from agui_client.store._sql.migrations import TablesRefusedError
from agui_client.store._sql.thread_statements import EntriesEnd, Taken, Taking, Write
from agui_client.store._threads.thread_store import LatestEntries, LeasedThread, ThreadInfo, ThreadStore
from agui_client.store._write_ids import new_write_id

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from agui_client._core.run.continuing import Carried
    from agui_client.store._sql.database import Database
    from agui_client.store._sql.lease import ProcessLease
    from agui_client.store._sql.transactions import Work

T = TypeVar("T")

_LOCKED_AT_FIRST = 0.25
"""The seconds that a new lease waits for a lock; its caller tries again as long as it wants to wait."""
_LOCKED_AT_CHECK = 1.0
"""The seconds that a check waits for a lock: checks must not queue up behind each other in an outage."""
_BETWEEN_RELEASES = 1.0
"""Seconds between two attempts to give back a lease that no block has."""
_UNSYNCED: dict[str, Any] = {"is_synced": False, "is_stepwise": True}
_TAKEN = {"agui.kind": "thread"}
_logger = logging.getLogger("agui_client.threads")


class SQLStore(ThreadStore):
    """Keeps threads in SQLite or PostgreSQL; the tables are made with the first use.

    Args:
        database: The database, which this closes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.process_lease: ProcessLease | None = self._database.lease
        """The lease of this process, which its threads share."""
        self._taking = Taking(self.process_lease)
        self._reset()

    def _reset(self) -> None:
        # Locks belong to the event loop that first waits for them, and a child has another loop.
        self._lock = asyncio.Lock()
        self._releasing: set[asyncio.Task[None]] = set()

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        """Take, renew or give back a lease."""
        if number is None:
            taken = await self._taken(owner, thread_id, seconds)
            return None if taken is None else taken.number
        entries = await self._written(Write(owner, thread_id, number, seconds=seconds))
        return None if entries is None else number

    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        """Return the description of a thread and its entries."""
        return await self._read(partial(statements.read, owner=owner, thread_id=thread_id))

    async def read_latest(self, owner: str, thread_id: str, limit: int, end: int | None = None) -> LatestEntries | None:
        """Return the description of a thread and its latest entries."""
        about: dict[str, Any] = {"owner": owner, "thread_id": thread_id, "limit": limit, "end": end}
        return await self._read(partial(statements.read_latest, **about))

    async def append(
        self,
        owner: str,
        info: ThreadInfo,
        entry: str,
        number: int,
        count: int,
        shared: tuple[str, int] | None = None,
        *,
        write_id: str = "",
        beside: Sequence[Carried] = (),
    ) -> bool:
        """Append an entry."""
        write_id = write_id or new_write_id()
        if shared is None:
            write = Write(owner, info.thread_id, number, info, entry, count, write_id=write_id)
            return await self._written(write, beside) is not None
        about: dict[str, Any] = {"owner": owner, "info": info, "entry": entry, "number": number}
        fork = partial(statements.append_to_fork, **about, shared=shared, write_id=write_id)
        return await self._reach(partial(self._database.write, fork))

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out."""
        return await self._read(partial(self._taking.left, owner=owner, thread_id=thread_id))

    async def lease_and_read(
        self, owner: str, thread_id: str, seconds: float, end: object = None
    ) -> LeasedThread | None:
        """Take the lease of a thread, and read the thread, or what it has behind an entry."""
        if (taken := await self._taken(owner, thread_id, seconds)) is None:
            return None
        if (row := taken.row) is None or row.entry_count == 0:
            return LeasedThread(taken.number, None)
        try:
            known = cast("EntriesEnd | None", end)
            found = await self._read(partial(statements.found, owner=owner, row=row, end=known))
            return LeasedThread(taken.number, (found.info, found.entries), found.end, found.is_rest)
        except Exception:
            await self.lease(owner, thread_id, 0, taken.number)
            raise

    async def append_and_release(
        self,
        owner: str,
        info: ThreadInfo,
        entry: str,
        number: int,
        count: int,
        *,
        write_id: str = "",
        beside: Sequence[Carried] = (),
    ) -> bool:
        """Append an entry, and give the lease back."""
        write = Write(owner, info.thread_id, number, info, entry, count, seconds=0, write_id=write_id or new_write_id())
        return await self._written(write, beside) is not None

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return a page of descriptions."""
        return await self._read(partial(statements.page, owner=owner, limit=limit, after=after))

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread, and the entries that no other thread shares."""
        deleted = partial(statements.delete_thread, owner=owner, thread_id=thread_id, number=number)
        return await self._reach(partial(self._database.write, deleted))

    async def delete_all(self, owner: str | None) -> int:
        """Delete all threads of an owner, or of everybody, in one transaction."""
        return await self._reach(partial(self._database.write, partial(statements.delete_all, owner=owner)))

    def carries(self, database: object) -> bool:
        """Return whether a write may carry operations of a database in its transaction: those of its own."""
        return database is self._database

    async def check(self) -> None:
        """Find out whether threads can be written to: the lease of this process is renewed."""
        assert self.process_lease is not None
        about: dict[str, Any] = {"patience": 0.0, "lock_patience": _LOCKED_AT_CHECK}
        await self._reach(partial(self._database.write, self.process_lease.renew, **_UNSYNCED, **about))

    async def aclose(self) -> None:
        """Give the lease of this process back, and close all connections."""
        for task in self._releasing:
            task.cancel()
        await anyio.to_thread.run_sync(self._database.close)

    async def before_fork(self) -> None:
        """Close all connections, when no transaction is in progress."""
        self._database.rest()

    def after_fork(self, *, is_child: bool) -> None:
        """Open connections again, in a child those of its own."""
        if is_child:
            self._database.start_in_child()
            self._reset()
        else:
            self._database.resume()

    # --- leases

    async def _taken(self, owner: str, thread_id: str, seconds: float) -> Taken | None:
        """Take the lease of a thread, and return the thread; None if another block has it."""
        taking = new_write_id()
        try:
            taken = await self._take(owner, thread_id, seconds, taking)
        except (ThreadStoreUnavailableError, asyncio.CancelledError):
            # It may have been taken all the same.
            give_up = partial(statements.give_up_taking, owner=owner, thread_id=thread_id, taking=taking)
            self._release_later(partial(self._reach, partial(self._database.write, give_up, **_UNSYNCED)))
            raise
        if taken is not None and taken.is_of_dead:
            _logger.warning("thread %s was taken over from a process that gave no sign of life", quoted(thread_id))
            measure("agui.store.take_overs", attributes=_TAKEN)
        return taken

    async def _take(self, owner: str, thread_id: str, seconds: float, taking: str) -> Taken | None:
        take = partial(self._taking.take, owner=owner, thread_id=thread_id, seconds=seconds, taking=taking)
        if seconds == inf:
            await self._reach(partial(self._database.hold_lease, _LOCKED_AT_FIRST))
        is_synced = seconds < inf
        return await self._reach(
            partial(self._database.write, take, is_synced=is_synced, is_stepwise=True, lock_patience=_LOCKED_AT_FIRST)
        )

    async def _written(self, write: Write, beside: Sequence[Carried] = ()) -> int | None:
        """Write to a thread; return what the write does."""
        try:
            return await self._write(write, beside)
        except ThreadStoreUnavailableError:
            if write.seconds == 0:
                self._release_later(partial(self._write, replace(write, info=None, entry=None, count=None)))
            raise

    async def _write(self, write: Write, beside: Sequence[Carried] = ()) -> int | None:
        owner, thread_id, number = write.owner, write.thread_id, write.number
        is_synced = write.entry is not None

        def all_or_none(db: Connection) -> int | None:
            """Write, and carry out what goes with it, unless the thread is another block's."""
            if (entries := write(db)) is not None:
                for each in beside:
                    each.work(db)
            return entries

        work: Work[int | None] = all_or_none if beside else write
        entries = await self._reach(partial(self._database.write, work, is_synced=is_synced))
        if write.seconds == 0 and entries == 0:
            forget = partial(statements.forget, owner=owner, thread_id=thread_id, number=number)
            await self._reach(partial(self._database.write, forget, **_UNSYNCED))
        return entries

    def _release_later(self, release: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Give back a lease that no block has, when the database is back: it would last as long as this process.

        Args:
            release: Gives it back, unless another block has it.
        """

        async def released() -> None:
            """Try until the lease was given back, or another block has it."""
            while True:
                await asyncio.sleep(_BETWEEN_RELEASES)
                with suppress(ThreadStoreUnavailableError):
                    await release()
                    return

        task = asyncio.get_running_loop().create_task(released())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    # --- the database

    async def _read(self, work: Work[T]) -> T:
        return await self._reach(partial(self._database.read, work))

    async def _reach(self, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Carry out an operation, for which the tables are made if they are not there yet.

        Raises:
            ThreadStoreUnavailableError: The database cannot be reached, or another program has it locked.
            ThreadStoreError: The database failed.
        """
        try:
            async with self._lock:
                await self._database.make_tables()
            return await operation()
        except TablesRefusedError as error:
            raise ThreadStoreError(str(error)) from None
        except Exception as error:
            if (made := translated(error)) is error:
                raise
            raise made from made.__cause__
