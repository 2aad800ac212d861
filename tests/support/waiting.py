"""Waits that end: for a condition, in an event loop or a thread, and for a function that may block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

LIMIT = 10.0
"""Seconds after which a test gives up on something that should happen at once."""
SOON = 0.5
"""Seconds within which a connection must be gone after its run was left."""
_STEP = 0.002


async def until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Wait in an event loop until the condition holds; fail when it does not within the limit."""
    with anyio.fail_after(seconds):
        # What is waited for happens in another thread, or has no event of its own.
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(_STEP)


def until_sync(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Wait in a thread until the condition holds; fail when it does not within the limit."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {seconds:g} s")
        time.sleep(_STEP)


def in_thread(function: Callable[[], T], seconds: float = LIMIT) -> T:
    """Call a function in a thread of its own, as a script would; fail when it does not return within the limit."""
    return start_thread(function)(seconds)


def start_thread(function: Callable[[], T]) -> Callable[[float], T]:
    """Call a function in a thread; what comes back waits for it so many seconds, and returns or raises as it did."""
    returned: list[T] = []
    raised: list[BaseException] = []

    def call() -> None:
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()

    def join(seconds: float = LIMIT) -> T:
        thread.join(seconds)
        if thread.is_alive():
            raise TimeoutError(f"still going after {seconds:g} s")
        if raised:
            raise raised[0]
        return returned[0]

    return join
