"""Waits of a thread for another thread or for input, during which Ctrl-C is never lost.

Python notes a signal in a flag, which the main thread looks at between two steps and when a signal wakes it. A wait
without a time-out can miss both: the signal comes after the last look and before the thread sleeps, which takes long
while another thread has the interpreter, or another thread gets it. Then nothing is looked at until the wait ends by
itself. So the main thread wakes now and then; other threads handle no signals, and sleep on.
"""

from __future__ import annotations

import os
import select
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_LOOK_SECONDS = 0.2
"""Seconds after which the main thread looks for a signal that it may have missed."""


def next_item(queue: SimpleQueue[T]) -> T:
    """Wait for the next item of a queue.

    Returns:
        The item, which is taken out.
    """
    while True:
        with suppress(Empty):
            return queue.get(timeout=_seconds())


def wait_until_set(event: threading.Event) -> None:
    """Wait until an event is set."""
    while not event.wait(_seconds()):
        pass


def wait_for_end(thread: threading.Thread) -> None:
    """Wait for the end of a thread that was started."""
    while thread.is_alive():
        thread.join(_seconds())


def wait_until_readable(descriptor: int) -> None:
    """Wait until there is something to read, or the end; on Windows, where only sockets can be waited for, do not wait.

    Args:
        descriptor: The number of an open file, pipe or terminal.
    """
    while os.name != "nt" and not select.select([descriptor], [], [], _seconds())[0]:
        pass


def result_of(future: Future[T]) -> T:
    """Wait for the result of a future.

    Args:
        future: The future, which another thread completes.

    Raises:
        BaseException: The exception of the future.
    """
    while not future.done():
        with suppress(TimeoutError):  # of the wait: this returns the future's own exception
            future.exception(_seconds())
    return future.result()


def _seconds() -> float | None:
    return _LOOK_SECONDS if threading.current_thread() is threading.main_thread() else None
