"""Reaching into an event loop from other threads, without waiting for it: it may be ending at this moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import anyio.lowlevel


class _TrioToken(Protocol):
    """What trio calls a `TrioToken`; trio itself need not be installed."""

    def run_sync_soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread, soon."""


class LoopThread:
    """The event loop that is running where this is made, asyncio's or trio's."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        native: Any = anyio.lowlevel.current_token().native_token
        self._schedule: Callable[[Callable[[], object]], object] = (
            native.call_soon_threadsafe
            if isinstance(native, asyncio.AbstractEventLoop)
            else cast("_TrioToken", native).run_sync_soon
        )

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread: at once from there, soon from elsewhere, not at all if the loop ended.

        Args:
            function: Takes nothing; what it returns is dropped.
        """
        if threading.get_ident() == self._thread:
            function()
            return
        # Both loops raise a RuntimeError when they have ended, and then there is nothing left to reach.
        with suppress(RuntimeError):
            self._schedule(function)
