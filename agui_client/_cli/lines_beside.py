"""Lines that a user types while a run is in progress; they steer it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


class LinesBeside:
    """Reads lines from the terminal in the event loop of a run.

    The terminal hands out whole lines then, and echoes what is typed. Questions read the keys themselves.
    """

    def __init__(self) -> None:
        self._is_paused = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take: Callable[[str], object] = str

    @contextmanager
    def read(self, take: Callable[[str], object]) -> Generator[None]:
        """Read lines while the block lasts, in the event loop that is running.

        Args:
            take: Called with each line that is not empty.
        """
        loop, self._take = asyncio.get_running_loop(), take
        # Windows has no way to wait for a line in an event loop: there the next prompt gets what was typed.
        with suppress(NotImplementedError):
            self._loop = loop
            self._resume()
        try:
            yield
        finally:
            self._loop = None
            with suppress(NotImplementedError):
                loop.remove_reader(sys.stdin.fileno())

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the keys to a question; called in its thread."""
        # At once, as a key of the answer may come before the loop has its turn.
        self._is_paused = True
        self._in_loop(self._pause)
        try:
            yield
        finally:
            self._is_paused = False
            self._in_loop(self._resume)

    def _in_loop(self, function: Callable[[], None]) -> None:
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(function)

    def _pause(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(sys.stdin.fileno())

    def _resume(self) -> None:
        if self._loop is not None and not self._is_paused:
            self._loop.add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        if self._is_paused:
            return
        try:
            typed = os.read(sys.stdin.fileno(), 4096)
        except OSError:
            typed = b""
        if not typed:  # Ctrl-D, or the terminal is gone: the next prompt notices
            self._pause()
        elif line := typed.decode(sys.stdin.encoding or "utf-8", "replace").strip():
            self._take(line)
