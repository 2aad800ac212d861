"""Waiting for one step after the other, each up to a deadline, in a way that another task can end.

A cancel scope around each step serves every event loop, but on asyncio it costs more than the event that is waited for.
There the waiting task is cancelled and uncancelled as in `asyncio.timeout`, and one timer serves all steps.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from agui_client._core.ground.concurrency import unasked

T = TypeVar("T")


_TIME = asyncio.BaseEventLoop.time
"""The method as it is before a program replaces it, as those that freeze the time do."""


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    # What asyncio's own loops call, without a call in between: each read of a stream looks at the time twice.
    return time.monotonic if getattr(loop.time, "__func__", None) is _TIME else loop.time


class Waiter:
    """Waits in the event loop that is running, for one step at a time."""

    def __init__(self) -> None:
        is_asyncio = anyio.get_cancelled_exc_class() is asyncio.CancelledError
        self._loop = asyncio.get_running_loop() if is_asyncio else None
        self.now: Callable[[], float] = _clock_of(self._loop) if self._loop else anyio.current_time
        """The event loop's clock, in seconds."""
        self.since: float = self.now()
        """The moment at which the latest wait began."""
        self.until: float = math.inf
        """The moment at which every wait ends, whatever time it has by itself."""
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[object] | None = None
        self._has_cancelled = False
        self._deadline = self._timer_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, step: Awaitable[T], seconds: float = math.inf) -> T | None:
        """Await a step.

        Args:
            step: The step; its exceptions are raised here, a cancellation that nobody asked for as a RuntimeError.
            seconds: How long it may take.

        Returns:
            What the step returned; None if the wait was ended by time or by `end()`.
        """
        self.since = since = self.now()
        deadline = since + seconds
        # Not `min`, which takes longer than all of this: each read of a stream waits here.
        if deadline > self.until:
            deadline = self.until
        self._deadline = deadline
        if self._loop is None:
            return await self._wait_in_scope(step)
        self._task = task = asyncio.current_task(self._loop)
        assert task is not None
        cancelled_before = task.cancelling()
        if deadline < self._timer_at:
            self._schedule(self._loop)
        try:
            return await step
        except asyncio.CancelledError as error:
            if self._has_cancelled and task.cancelling() == cancelled_before + 1:
                return None
            raise unasked(error) from error
        finally:
            self._task = None
            if self._has_cancelled:
                self._has_cancelled = False
                task.uncancel()

    @property
    def needs_no_scope(self) -> bool:
        """Whether waits are ended without a cancel scope, as on asyncio."""
        return self._loop is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a step is awaited at this moment."""
        return self._task is not None or self._scope is not None

    def end(self) -> None:
        """End the present wait, if there is one. Call it in the event loop's thread."""
        if self._loop is not None:
            # Soon, not now: the step itself may be calling, and only a task that waits can be cancelled without trace.
            self._loop.call_soon(self._cancel)
        elif self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        """Release the timer; there must be no further wait."""
        if self._timer is not None:
            self._timer.cancel()

    async def _wait_in_scope(self, step: Awaitable[T]) -> T | None:
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._scope = scope
            try:
                return await step
            finally:
                self._scope = None
        return None

    def _cancel(self) -> None:
        if self._task is not None and not self._has_cancelled:
            self._has_cancelled = True
            self._task.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._timer_at = self._deadline
        self._timer = loop.call_at(self._deadline, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the wait if its time is up; the timer may have been set for an earlier one."""
        self._timer_at = math.inf
        if self._task is not None and loop.time() < self._deadline:
            self._schedule(loop)
        else:
            self._cancel()
