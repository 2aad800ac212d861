"""The seam to databases: a store keeps, for each thread of an owner, a description, a list of entries, and a lease.

An entry is a text that the store does not read. A block that writes has a lease, whose number grows each time that the
lease is taken: a write with an older number changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agui_client._core.ground.field_docs import Record
from agui_client.errors import ThreadBusyError, ThreadStoreError

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

    from agui_client.store._sql.lease import ProcessLease


@dataclass(frozen=True, slots=True)
class ThreadInfo(Record):
    """The description of a thread, as lists show it."""

    thread_id: str
    """The id of the thread, unique among those of its owner."""
    title: str
    """The title; empty as long as there is none."""
    created_at: datetime
    """When the thread was saved first, in UTC."""
    updated_at: datetime
    """When the thread was saved last, in UTC."""
    message_count: int
    """The number of messages."""
    usage: Sequence[TokenUsage] = ()
    """The tokens of all runs, per provider and model, as far as they were reported."""


@dataclass(frozen=True, slots=True)
class LeasedThread(Record):
    """A thread whose lease was taken."""

    number: int
    """The number of the lease."""
    found: tuple[ThreadInfo, Sequence[str]] | None
    """The description and the entries, as `ThreadStore.read` returns them; None if there is no such thread yet."""
    end: object = None
    """The name of the last entry, for `lease_and_read` to return only those behind it next time; it names an entry that
    was written once, and no equal one. None if the store always returns all entries."""
    is_rest: bool = False
    """Whether the entries are only those behind the end that was given."""


@dataclass(frozen=True, slots=True)
class LatestEntries(Record):
    """The end of a thread, or of its beginning."""

    info: ThreadInfo
    """The description of the thread."""
    entries: Sequence[str]
    """The entries in order."""
    before: int
    """The number of entries of the thread before them."""


class ThreadStore(ABC):
    """A place where threads are kept: subclass it for a database of your own.

    The methods are called in an asyncio event loop that `Threads` runs in a thread of its own, several at a time, also
    where the program uses trio or no event loop. `agui_client.testing.ThreadStoreContract` has the tests that a store
    must pass. Every method sees the threads of one owner only. Those that are not abstract need not be overridden.
    """

    process_lease: ProcessLease | None = None
    """The lease of the process, if the store has one, which it renews: threads are leased for infinite seconds then."""

    @abstractmethod
    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        """Take, renew or give back the lease of a thread, which need not exist yet.

        Args:
            seconds: The seconds from now after which others may take the lease; 0 gives it back.
            number: The number of the lease to renew or give back; None takes a new one.

        Returns:
            The number of the lease, higher than all before it; None if another block has it, or took it meanwhile.
        """

    @abstractmethod
    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        """Return the description of a thread and its entries in order; None if there is no such thread."""

    async def read_latest(self, owner: str, thread_id: str, limit: int, end: int | None = None) -> LatestEntries | None:
        """Return the description of a thread and its latest entries in order; None if there is no such thread.

        Optional, for stores that can leave out the entries before them: this method reads the whole thread.

        Args:
            limit: The most entries to return.
            end: The number of entries that the thread is looked at with, as if those behind them were not there; None
                for all.
        """
        if (found := await self.read(owner, thread_id)) is None:
            return None
        info, entries = found
        return latest_of(info, entries, limit, end)

    @abstractmethod
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
    ) -> bool:
        """Append an entry and replace the description, both or neither; create the thread if there is none.

        Args:
            info: The new description.
            number: The number of the lease of the thread.
            count: The number of entries that the thread has. A write that is delayed by a broken connection may arrive
                after others; the number keeps it from being put behind them.
            shared: For a new thread only: the id of another thread of the owner, and the number of its entries that the
                new thread begins with. They outlive the other thread.
            write_id: The id of the write, which no other write has; kept with the entry. A write without a response
                is repeated with its id: it has been written if the entry behind the expected ones has it.

        Returns: Whether it was written, now or before; not if the lease has another number, the thread has another
        number of entries, or the thread to share with is gone.
        """

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out, unless it is renewed.

        Optional: None, which is what this method returns, says that the store does not know.
        """
        return None

    async def lease_and_read(
        self, owner: str, thread_id: str, seconds: float, end: object = None
    ) -> LeasedThread | None:
        """Take the lease of a thread, and read the thread.

        Optional, for stores that can do both in one step, or can read on from an entry. If the thread cannot be read,
        its lease is not taken.

        Args:
            seconds: The seconds from now after which others may take the lease.
            end: The `end` that an earlier call has returned for this thread: if the thread still has that entry, the
                ones behind it are enough.

        Returns:
            The thread; None if another block has the lease.
        """
        if (number := await self.lease(owner, thread_id, seconds)) is None:
            return None
        try:
            return LeasedThread(number, await self.read(owner, thread_id))
        except BaseException:
            await self.lease(owner, thread_id, 0, number)
            raise

    async def append_and_release(
        self, owner: str, info: ThreadInfo, entry: str, number: int, count: int, *, write_id: str = ""
    ) -> bool:
        """Append an entry to a thread, and give its lease back.

        Optional, for stores that can do both in one step.

        Args:
            info: The new description.
            number: The number of the lease of the thread.
            count: The number of entries that the thread has.

        Returns: Whether it was written, now or before; not if the lease has another number, or the thread another
        number of entries. Then the lease may be given back or not.
        """
        is_written = await self.append(owner, info, entry, number, count, write_id=write_id)
        await self.lease(owner, info.thread_id, 0, number)
        return is_written

    @abstractmethod
    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return the descriptions of an owner's threads, those that were saved last first.

        Args:
            limit: The most to return.
            after: The last one of the page before; None for the first page.
        """

    @abstractmethod
    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread, its lease, and those of its entries that no other thread shares.

        Args:
            number: The number of its lease.

        Returns:
            Whether there was such a thread.
        """

    async def delete_all(self, owner: str | None) -> int:
        """Delete all threads of an owner, also those that blocks have open: nothing more of these is saved.

        Optional: this method deletes one thread after the other, refuses to if a block has one open, and knows no other
        owners.

        Args:
            owner: The owner; None for the threads of everybody.

        Returns:
            The number of threads that were deleted.

        Raises:
            ThreadBusyError: A block has a thread open.
            ThreadStoreError: The store cannot tell the threads of everybody.
        """
        if owner is None:
            raise ThreadStoreError(f"{type(self).__name__} does not know its owners: override delete_all")
        deleted = 0
        while page := await self.list(owner, 100):
            for each in page:
                if (number := await self.lease(owner, each.thread_id, 60)) is None:
                    raise ThreadBusyError(f"thread {each.thread_id!r} is in use elsewhere; {deleted} were deleted")
                deleted += await self.delete(owner, each.thread_id, number)
        return deleted

    def carries(self, database: object) -> bool:
        """Return whether a write may carry operations of a database in its transaction; for `Store(URL)`."""
        return False

    async def check(self) -> None:
        """Find out whether threads can be written to now; raises an exception if not.

        Optional: this method only lists.
        """
        await self.list("", 0)

    async def aclose(self) -> None:
        """Close connections; does nothing unless a store has some."""
        return

    async def before_fork(self) -> None:
        """Close connections, as soon as nothing uses them, and open none before `after_fork`.

        Awaited before the process forks, which waits for it a few seconds: processes that share a connection garble it.
        Does nothing unless a store has connections.
        """
        return

    def after_fork(self, *, is_child: bool) -> None:
        """Continue after a fork; does nothing unless a store has connections.

        Args:
            is_child: Whether this is the child, which calls the store in another event loop: it drops what belongs to
                the parent's, and closes no connection that is open all the same.
        """
        return


def latest_of(info: ThreadInfo, entries: Sequence[str], limit: int, end: int | None) -> LatestEntries:
    """Return the latest of the first entries of a thread, of which all are there."""
    until = len(entries) if end is None else min(end, len(entries))
    start = max(0, until - limit)
    return LatestEntries(info, entries[start:until], start)
