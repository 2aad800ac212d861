"""The logs of threads that this process had open lately, so that a turn reads only what came since.

A log says nothing about who has a thread, and it is only a beginning: whether a thread still has it, the store decides
at each opening, by the name of its last entry.

To change

- how much of the threads a process keeps in memory: `_MOST_CHARACTERS` here
"""

from __future__ import annotations

from dataclasses import dataclass

from agui_client._core.conversation.log import Log, log_of
from agui_client.store._threads.thread_store import LeasedThread

_MOST_CHARACTERS = 16_000_000
"""The characters of the entries of all logs that are kept; their objects take a few times as many bytes."""


@dataclass(frozen=True, slots=True)
class KnownLog:
    """The log of a thread as far as this process has read it."""

    end: object
    """The name of its last entry."""
    log: Log
    """The log, which is never changed."""
    size: int
    """The characters of its entries."""


class KnownLogs:
    """The logs of the threads that were open last; used in the event loop of the store only."""

    def __init__(self) -> None:
        # In the order of their last use.
        self._logs: dict[tuple[str, str], KnownLog] = {}
        self._size = 0

    def get(self, owner: str, thread_id: str) -> KnownLog | None:
        """Return what is known of a thread; None if nothing is."""
        return self._logs.get((owner, thread_id))

    def read_on(self, owner: str, thread_id: str, known: KnownLog | None, taken: LeasedThread) -> Log:
        """Return the log of a thread, and know it from now on.

        Args:
            known: What was known of the thread when it was read.
            taken: The thread as it was read.

        Raises:
            ThreadStoreError: Its entries are damaged, or of another version.
        """
        entries = () if taken.found is None else taken.found[1]
        start = known if taken.is_rest else None
        log = log_of(entries, None if start is None else start.log)
        self._remove((owner, thread_id))
        size = sum(map(len, entries)) + (0 if start is None else start.size)
        if taken.end is not None and size <= _MOST_CHARACTERS:
            self._logs[owner, thread_id] = KnownLog(taken.end, log, size)
            self._size += size
            while self._size > _MOST_CHARACTERS:
                self._remove(next(iter(self._logs)))
        return log

    def forget(self, owner: str | None, thread_id: str | None = None) -> None:
        """Forget what is known of threads.

        Args:
            owner: Their owner; None for the threads of everybody.
            thread_id: The thread; None for all of the owner.
        """
        for key in [key for key in self._logs if owner in (None, key[0]) and thread_id in (None, key[1])]:
            self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        if (known := self._logs.pop(key, None)) is not None:
            self._size -= known.size
