"""Stores the events of a log in groups: a transaction for each event would cost more than the event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from agui_client.runs.records import Place
    from agui_client.runs.run_log import RunLog

_SECONDS = 0.05
"""The time for which an event waits for others of its group."""


class GroupWriter:
    """Follows a log, and stores its frames in groups.

    Args:
        log: The log.
        place: The place behind the frames that are stored already.
        store: Stores frames, given the number of events before them.
    """

    def __init__(self, log: RunLog, place: Place, store: Callable[[int, Sequence[bytes]], Awaitable[None]]) -> None:
        self._log, self._place, self._store = log, place, store
        self._hurry, self._progress = anyio.Event(), anyio.Event()

    async def write(self) -> None:
        """Store the frames until the log ends; those that come together, or soon after each other, as one group."""
        while frames := await self._log.read(self._place):
            if self._log.is_going_on:
                with anyio.move_on_after(_SECONDS):
                    await self._hurry.wait()
                self._hurry = anyio.Event()
                frames = await self._log.read(self._place)
            await self._store(self._place.position, [each for _, each in frames])
            self._place = frames[-1][0]
            self._progress.set()
            self._progress = anyio.Event()

    async def flush(self) -> None:
        """Wait until all events so far are stored."""
        end = self._log.end
        while self._place.position < end.position:
            self._hurry.set()
            await self._progress.wait()
