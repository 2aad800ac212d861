"""Watching an observable: what it says, in which thread, and when it is over."""

from __future__ import annotations

import threading
from typing import Any

import reactivex
from reactivex.abc import DisposableBase

from support.waiting import LIMIT, in_thread, until


class Watcher:
    """Notes what an observable says, in which thread, and when it was over."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self.threads: set[str] = set()
        self.over = threading.Event()

    def watch(self, observable: reactivex.Observable[Any]) -> DisposableBase:
        """Subscribe."""
        return observable.subscribe(self.next, self.error, self.completed)

    def next(self, value: Any) -> None:
        """A value came."""
        self.values.append(value)
        self.threads.add(threading.current_thread().name)

    def error(self, error: Exception) -> None:
        """It failed."""
        self.errors.append(error)
        self.over.set()

    def completed(self) -> None:
        """It completed."""
        self.completions += 1
        self.over.set()


def observed(observable: reactivex.Observable[Any]) -> Watcher:
    """What an observable says until it is over, subscribed to without a loop."""
    watcher = Watcher()
    in_thread(lambda: watcher.watch(observable))
    assert watcher.over.wait(LIMIT)
    return watcher


async def observed_here(observable: reactivex.Observable[Any]) -> Watcher:
    """What an observable says until it is over, subscribed to in the running loop."""
    watcher = Watcher()
    watcher.watch(observable)
    await until(watcher.over.is_set)
    return watcher
