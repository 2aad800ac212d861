"""Waiting for one step after the other, each until a deadline, and so that somebody else can end the wait.

A cancel scope around each step serves both event loops, but on asyncio it costs more than the event that is waited for.
There the waiting task is cancelled and uncancelled as `asyncio.timeout` does it, and one timer serves all steps.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class Patience(ABC):
    """Waits for a source, in one task at a time."""

    now: Callable[[], float]
    """The event loop's clock, in seconds."""

    @staticmethod
    def here() -> Patience:
        """One for the event loop that is running."""
        return _TaskPatience() if anyio.get_cancelled_exc_class() is asyncio.CancelledError else _ScopePatience()

    @abstractmethod
    async def wait(self, step: Awaitable[T], deadline: float = math.inf) -> T | None:
        """Await a step.

        Args:
            step: What to wait for; what it raises is raised.
            deadline: When to give up, on the event loop's clock.

        Returns:
            What the step returned; None if the wait was ended, by the deadline or by `end()`.
        """

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """Whether a step is awaited at this moment."""

    @abstractmethod
    def end(self) -> None:
        """End the wait that is going on, if there is one. Called in the event loop's thread."""

    @abstractmethod
    def close(self) -> None:
        """There will be no further wait."""


class _ScopePatience(Patience):
    """For any event loop."""

    def __init__(self) -> None:
        self.now = anyio.current_time
        self._scope: anyio.CancelScope | None = None

    async def wait(self, step: Awaitable[T], deadline: float = math.inf) -> T | None:
        """Await a step, up to a deadline."""
        with anyio.CancelScope(deadline=deadline) as scope:
            self._scope = scope
            try:
                return await step
            finally:
                self._scope = None
        return None

    @property
    def is_waiting(self) -> bool:
        """Whether a step is awaited."""
        return self._scope is not None

    def end(self) -> None:
        """End the wait that is going on."""
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        """There will be no further wait."""
        self._scope = None


class _TaskPatience(Patience):
    """For asyncio."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._task: asyncio.Task[object] | None = None
        self._has_cancelled = False
        self._deadline = self._rings_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, step: Awaitable[T], deadline: float = math.inf) -> T | None:
        """Await a step, up to a deadline."""
        task = asyncio.current_task()
        assert task is not None
        others = task.cancelling()
        self._task, self._deadline = task, deadline
        if deadline < self._rings_at:
            self._wind()
        try:
            return await step
        except asyncio.CancelledError:
            if self._has_cancelled and task.cancelling() == others + 1:
                return None
            raise
        finally:
            self._task = None
            if self._has_cancelled:
                self._has_cancelled = False
                task.uncancel()

    @property
    def is_waiting(self) -> bool:
        """Whether a step is awaited."""
        return self._task is not None

    def end(self) -> None:
        """End the wait that is going on."""
        # Soon, not now: the step itself may be calling, and only a task that waits can be cancelled without trace.
        self._loop.call_soon(self._cancel)

    def close(self) -> None:
        """There will be no further wait."""
        if self._timer is not None:
            self._timer.cancel()

    def _cancel(self) -> None:
        if self._task is not None and not self._has_cancelled:
            self._has_cancelled = True
            self._task.cancel()

    def _wind(self) -> None:
        self.close()
        self._rings_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._ring)

    def _ring(self) -> None:
        """The time is up for the step that was waited for when the timer was wound; perhaps not for the present one."""
        self._rings_at = math.inf
        if self._task is None:
            return
        if self._loop.time() < self._deadline:
            self._wind()
        else:
            self._cancel()
