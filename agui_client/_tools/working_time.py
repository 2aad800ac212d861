"""Limits of the time that agents may take, which do not run while a person is asked."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

_LIMITS: ContextVar[tuple[WorkingTime, ...]] = ContextVar("agui_client.working_time", default=())
"""The limits that the running code is under."""


class WorkingTime:
    """A limit of the time that a block may take; the block is cancelled when the time is up.

    Args:
        seconds: The time, in seconds; None for any.
        spent: The part of it that has been used before.
    """

    def __init__(self, seconds: float | None, spent: float = 0) -> None:
        self._scope = anyio.CancelScope()
        self._seconds, self._spent = math.inf if seconds is None else seconds, spent
        self._began_at = math.inf
        self._asked = 0

    @property
    def is_up(self) -> bool:
        """Whether the block was cancelled because its time was up."""
        return self._scope.cancelled_caught

    @property
    def spent(self) -> float:
        """The seconds that were used so far."""
        return self._spent + max(0, anyio.current_time() - self._began_at)

    @contextmanager
    def limited(self) -> Generator[None]:
        """Cancel the block when the time is up."""
        reset = _LIMITS.set((*_LIMITS.get(), self))
        try:
            with self._scope:
                self._go_on()
                yield
        finally:
            self._stop()
            _LIMITS.reset(reset)

    def _go_on(self) -> None:
        self._began_at = anyio.current_time()
        self._scope.deadline = self._began_at + self._seconds - self._spent

    def _stop(self) -> None:
        self._spent, self._began_at = self.spent, math.inf
        self._scope.deadline = math.inf

    def pause(self) -> None:
        """Stop the clock: a person is asked."""
        self._asked += 1
        if self._asked == 1:
            self._stop()

    def resume(self) -> None:
        """Let the clock go on when nobody is asked any more."""
        self._asked -= 1
        if not self._asked:
            self._go_on()


@contextmanager
def person_asked() -> Generator[None]:
    """Stop the clocks of all limits around the block, in which a person is asked."""
    limits = _LIMITS.get()
    for each in limits:
        each.pause()
    try:
        yield
    finally:
        for each in limits:
            each.resume()
