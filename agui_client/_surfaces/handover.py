"""Handing over: a queue from an event loop to a thread; it wakes the thread once per batch, and holds the loop back."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """Made and filled in an event loop, emptied in one thread.

    A batch is what the loop produces before it has to wait for something.

    Args:
        limit: How many items may wait before the loop is held back.
    """

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._items: deque[T] = deque()
        self._filled = threading.Condition()
        self._loop = asyncio.get_running_loop()
        self._space = asyncio.Event()
        self._is_paused = False
        self._is_flush_due = False

    def put(self, item: T) -> bool:
        """Add an item, in the loop.

        Args:
            item: What to hand over.

        Returns:
            Whether the thread is far behind, so that `wait_for_space()` is due.
        """
        self._items.append(item)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return len(self._items) >= self._limit

    def put_last(self, item: T) -> None:
        """Add an item and wake the thread at once, in the loop: it may not get to anything else any more."""
        self._items.append(item)
        self._flush()

    async def wait_for_space(self) -> None:
        """Wait, in the loop, until the thread has caught up."""
        self._space.clear()
        self._is_paused = True
        if len(self._items) <= self._limit // 2:
            # The thread caught up before it could see that it has to say so.
            self._is_paused = False
            return
        self._flush()
        await self._space.wait()

    def get(self) -> T:
        """Take the next item, in the thread; waits for it, and can be interrupted with Ctrl-C."""
        while not self._items:
            with self._filled:
                if not self._items:
                    self._filled.wait()
        item = self._items.popleft()
        if self._is_paused and len(self._items) <= self._limit // 2:
            self._is_paused = False
            self._loop.call_soon_threadsafe(self._space.set)
        return item

    def rest(self) -> list[T]:
        """What nobody took, when the loop adds nothing any more."""
        return list(self._items)

    def _flush(self) -> None:
        self._is_flush_due = False
        with self._filled:
            self._filled.notify()
