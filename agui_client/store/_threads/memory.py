"""A store in memory, for tests and for programs that need threads only as long as they run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import count
from typing import cast

from agui_client.store._threads.thread_store import (
    LatestEntries,
    LeasedThread,
    ThreadInfo,
    ThreadStore,
    latest_of,
)


@dataclass
class _Thread:
    number: int
    leased_until: float
    line: int
    info: ThreadInfo | None = None
    entries: list[str] = field(default_factory=list[str])
    write_id: str = ""


class MemoryStore(ThreadStore):
    """Keeps threads in this process."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], _Thread] = {}
        self._numbers = count(1)

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        """Take, renew or give back a lease."""
        key, now = (owner, thread_id), time.monotonic()
        thread = self._threads.get(key)
        if number is None:
            if thread is not None and thread.leased_until > now:
                return None
            number = next(self._numbers)
            if thread is None:
                thread = self._threads[key] = _Thread(number, now, line=number)
            thread.number = number
        if thread is None or thread.number != number:
            return None
        thread.leased_until = now + seconds
        if not seconds and thread.info is None:
            del self._threads[key]
        return number

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out."""
        thread = self._threads.get((owner, thread_id))
        return 0.0 if thread is None else max(0.0, thread.leased_until - time.monotonic())

    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        """Return the description of a thread and its entries."""
        thread = self._threads.get((owner, thread_id))
        return None if thread is None or thread.info is None else (thread.info, list(thread.entries))

    async def read_latest(self, owner: str, thread_id: str, limit: int, end: int | None = None) -> LatestEntries | None:
        """Return the description of a thread and its latest entries."""
        thread = self._threads.get((owner, thread_id))
        return None if thread is None or thread.info is None else latest_of(thread.info, thread.entries, limit, end)

    async def lease_and_read(
        self, owner: str, thread_id: str, seconds: float, end: object = None
    ) -> LeasedThread | None:
        """Take the lease of a thread, and read the thread, or what it has behind an entry."""
        if (number := await self.lease(owner, thread_id, seconds)) is None:
            return None
        thread = self._threads[owner, thread_id]
        if thread.info is None:
            return LeasedThread(number, None)
        # Entries stay as long as their line.
        line, start = cast("tuple[int, int]", end or (0, 0))
        is_rest = line == thread.line
        entries = thread.entries[start:] if is_rest else list(thread.entries)
        return LeasedThread(number, (thread.info, entries), (thread.line, len(thread.entries)), is_rest)

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
        """Append an entry."""
        thread = self._threads.get((owner, info.thread_id))
        if thread is not None and write_id and thread.write_id == write_id:
            return True
        if thread is None or thread.number != number or len(thread.entries) != count:
            return False
        if shared is not None:
            source = self._threads.get((owner, shared[0]))
            if source is None or len(source.entries) < shared[1]:
                return False
            thread.entries += source.entries[: shared[1]]
        thread.entries.append(entry)
        thread.info, thread.write_id = info, write_id
        return True

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return a page of descriptions."""
        infos = [each.info for (whose, _), each in self._threads.items() if whose == owner and each.info is not None]
        if after is not None:
            infos = [each for each in infos if _age(each) < _age(after)]
        return nlargest(limit, infos, key=_age)

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread."""
        thread = self._threads.get((owner, thread_id))
        if thread is None or thread.number != number:
            return False
        del self._threads[owner, thread_id]
        return thread.info is not None

    async def delete_all(self, owner: str | None) -> int:
        """Delete all threads of an owner, or of everybody."""
        keys = [key for key in self._threads if owner in (None, key[0])]
        return sum(self._threads.pop(key).info is not None for key in keys)


def _age(info: ThreadInfo) -> tuple[float, str]:
    return info.updated_at.timestamp(), info.thread_id
