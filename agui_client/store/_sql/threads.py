"""Threads in a SQL database: its first use, forks, and the exceptions of databases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

from agui_client._core.plugs import measure
from agui_client._core.protocol.open_items import quoted
from agui_client.errors import ThreadStoreError, ThreadStoreUnavailableError
from agui_client.store._sql import thread_statements as statements
from agui_client.store._sql.errors import translated
from agui_client.store._sql.thread_statements import Taken, Taking, Write
from agui_client.store._sql.versions import TablesRefusedError
from agui_client.store._threads.thread_store import LeasedThread, ThreadInfo, ThreadStore

if TYPE_CHECKING:
    from agui_client.store._sql.database import Database
    from agui_client.store._sql.lease import ProcessLease
    from agui_client.store._sql.transactions import Work

T = TypeVar("T")

_LOCKED_AT_FIRST = 0.25
"""The seconds that a new lease waits for a lock; its caller tries again as long as it wants to wait."""
_ASKED = -1
"""The number of a lease that is asked for, and not taken yet."""
_BETWEEN_RELEASES = 1.0
"""Seconds between two attempts to give back a lease that no block has."""
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
        self._held: dict[tuple[str, str], int] = {}
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

    async def append(
        self, owner: str, info: ThreadInfo, entry: str, number: int, count: int, shared: tuple[str, int] | None = None
    ) -> bool:
        """Append an entry."""
        if shared is None:
            return await self._written(Write(owner, info.thread_id, number, info, entry, count)) is not None
        fork = partial(statements.append_to_fork, owner=owner, info=info, entry=entry, number=number, shared=shared)
        return await self._reach(partial(self._database.write, fork))

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out."""
        return await self._read(partial(self._taking.left, owner=owner, thread_id=thread_id))

    async def lease_and_read(self, owner: str, thread_id: str, seconds: float) -> LeasedThread | None:
        """Take the lease of a thread, and read the thread."""
        if (taken := await self._taken(owner, thread_id, seconds)) is None:
            return None
        if (row := taken.row) is None or row.entries == 0:
            return LeasedThread(taken.number, None)
        try:
            return LeasedThread(taken.number, await self._read(partial(statements.found, owner=owner, row=row)))
        except Exception:
            await self.lease(owner, thread_id, 0, taken.number)
            raise

    async def append_and_release(self, owner: str, info: ThreadInfo, entry: str, number: int, count: int) -> bool:
        """Append an entry, and give the lease back."""
        return await self._written(Write(owner, info.thread_id, number, info, entry, count, seconds=0)) is not None

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return a page of descriptions."""
        return await self._read(partial(statements.page, owner=owner, limit=limit, after=after))

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread, and the entries that no other thread shares."""
        deleted = partial(statements.delete_thread, owner=owner, thread_id=thread_id, number=number)
        is_deleted = await self._reach(partial(self._database.write, deleted))
        self._let_go(owner, thread_id, number)
        return is_deleted

    async def delete_all(self, owner: str | None) -> int:
        """Delete all threads of an owner, or of everybody, in one transaction."""
        return await self._reach(partial(self._database.write, partial(statements.delete_all, owner=owner)))

    async def aclose(self) -> None:
        """Give the lease of this process back, and close all connections."""
        for task in self._releasing:
            task.cancel()
        await anyio.to_thread.run_sync(self._database.close)

    async def before_fork(self) -> None:
        """Close all connections, when no transaction is going on."""
        self._database.rest()

    def after_fork(self, *, is_child: bool) -> None:
        """Open connections again, in a child those of its own."""
        if is_child:
            self._database.start_in_child()
            self._reset()
        else:
            self._database.go_on()

    # --- leases

    async def _taken(self, owner: str, thread_id: str, seconds: float) -> Taken | None:
        """Take the lease of a thread, and return the thread; None if another block has it."""
        try:
            taken = await self._take(owner, thread_id, seconds)
        except ThreadStoreUnavailableError:
            self._release_later(owner, thread_id)
            raise
        if taken is not None and taken.is_of_dead:
            _logger.warning("thread %s was taken over from a process that gave no sign of life", quoted(thread_id))
            measure("agui.store.take_overs", attributes=_TAKEN)
        return taken

    async def _take(self, owner: str, thread_id: str, seconds: float) -> Taken | None:
        key, is_forgotten = (owner, thread_id), (owner, thread_id) not in self._held
        take = partial(self._taking.take, owner=owner, thread_id=thread_id, seconds=seconds, is_forgotten=is_forgotten)
        if seconds < inf:
            return await self._reach(partial(self._database.write, take, lock_patience=_LOCKED_AT_FIRST))
        # Noted before it is asked for, so that a second block of this process, which asks meanwhile, does not get it.
        self._held.setdefault(key, _ASKED)
        taken: Taken | None = None
        try:
            await self._reach(partial(self._database.hold_lease, _LOCKED_AT_FIRST))
            write = partial(self._database.write, take, is_synced=False, lock_patience=_LOCKED_AT_FIRST)
            taken = await self._reach(write)
        finally:
            if taken is not None:
                self._held[key] = taken.number
            elif is_forgotten:
                self._let_go(owner, thread_id, _ASKED)
        return taken

    async def _written(self, write: Write) -> int | None:
        """Write to a thread; return what the write does."""
        try:
            return await self._write(write)
        except ThreadStoreUnavailableError:
            if write.seconds == 0:
                self._release_later(write.owner, write.thread_id, write.number)
            raise

    async def _write(self, write: Write) -> int | None:
        owner, thread_id, number = write.owner, write.thread_id, write.number
        is_synced = write.entry is not None
        entries = await self._reach(partial(self._database.write, write, again=write.again, is_synced=is_synced))
        if write.seconds == 0:
            self._let_go(owner, thread_id, number)
            if entries == 0:
                forget = partial(statements.forget, owner=owner, thread_id=thread_id, number=number)
                await self._reach(partial(self._database.write, forget, is_synced=False))
        return entries

    def _let_go(self, owner: str, thread_id: str, number: int) -> None:
        if self._held.get((owner, thread_id)) == number:
            del self._held[owner, thread_id]

    def _release_later(self, owner: str, thread_id: str, number: int | None = None) -> None:
        """Give back a lease that no block has, when the database is back: it would last as long as this process.

        Args:
            owner: The owner.
            thread_id: The thread.
            number: The number of the lease; None if nobody knows whether it was taken.
        """

        async def release() -> None:
            """Try until the lease was given back, or another block has it."""
            known = number
            while True:
                await asyncio.sleep(_BETWEEN_RELEASES)
                with suppress(ThreadStoreUnavailableError):
                    if known is None and (taken := await self._take(owner, thread_id, inf)) is not None:
                        known = taken.number
                    if known is not None:
                        await self._write(Write(owner, thread_id, known, seconds=0))
                    return

        task = asyncio.get_running_loop().create_task(release())
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
