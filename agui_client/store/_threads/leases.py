"""The wait for the lease of a thread: attempts until it is free, and the exception that says for how long it is not.

To change

- how long a thread that is in use is waited for, and the error after that: this module; of a store without a
  `process_lease`, a block renews its lease in `store/_threads/opened.py`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

from agui_client._core.transport.retry import pause_before
from agui_client.errors import ThreadBusyError, ThreadStoreUnavailableError
from agui_client.store._threads.thread_store import ThreadStore

T = TypeVar("T")

_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5
"""Seconds between two attempts."""


async def take(
    lease: Callable[[str, str, float], Coroutine[Any, Any, T | None]],
    store: ThreadStore,
    owner: str,
    thread_id: str,
    seconds: float,
    wait: float,
    *,
    check: Callable[[], None] = lambda: None,
) -> T:
    """Take the lease of a thread, as soon as it is free.

    Args:
        lease: Takes it, if it is free: a method of the store, `lease` or `lease_and_read`.
        seconds: The seconds that the lease lasts.
        wait: The most seconds to wait for it.
        check: Called between two attempts; raises an exception to end the wait.

    Raises:
        ThreadBusyError: The lease was not free in time.
    """
    give_up, attempt = monotonic() + wait, 0
    while True:
        attempt += 1
        locked: ThreadStoreUnavailableError | None = None
        try:
            if (taken := await lease(owner, thread_id, seconds)) is not None:
                return taken
        except ThreadStoreUnavailableError as error:
            if not error.is_locked:
                raise
            locked = error
        check()
        if (left := give_up - monotonic()) <= 0:
            raise locked or await _busy(store, owner, thread_id, wait)
        await asyncio.sleep(min(pause_before(attempt, _FIRST_WAIT, _LONGEST_WAIT), left))


async def _busy(store: ThreadStore, owner: str, thread_id: str, wait: float) -> ThreadBusyError:
    """Return the exception that says how long a thread may stay busy."""
    what = f"thread {thread_id!r} is in use elsewhere, and was not free within {wait:g} seconds"
    how = "wait= sets how long to wait"
    if (seconds := await store.lease_left(owner, thread_id)) is None:
        return ThreadBusyError(f"{what}; {how}")
    why = f"{seconds:.3g} seconds of its lease are left, which its program renews unless it is dead"
    return ThreadBusyError(f"{what}: {why}; {how}", retry_after=seconds)
