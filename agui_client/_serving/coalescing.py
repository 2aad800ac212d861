"""Deltas that follow closely, as one event: fewer frames for callers of a model that writes a token at a time.

To change

- deltas that are joined for callers: this module, which `AgentApp._sender` puts before the response
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import anyio

from agui_client._core.protocol.traits import DELTAS

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agui_client._core.protocol.events import WireEvent

    Emit = Callable[[WireEvent], Awaitable[None]]


class DeltaJoiner:
    """Joins the deltas of one message or call that come within a time; every other event is passed on at once.

    A delta after a silence is not delayed, so that the first word is as early as it was.

    Args:
        emit: Sends an event.
        seconds: The time by which a delta may be delayed.
    """

    def __init__(self, emit: Emit, seconds: float) -> None:
        self._emit, self._seconds = emit, seconds
        self._waiting: Any = None
        self._parts: list[str] = []
        self._latest = 0.0
        self._order, self._has_waiting = anyio.Lock(), anyio.Event()

    def begin(self, tasks: TaskGroup) -> None:
        """Send from now on what has waited for long enough."""
        tasks.start_soon(self._send_in_time)

    async def take(self, event: WireEvent) -> None:
        """Send an event, or have it wait; the events keep their order."""
        async with self._order:
            if self._joins(event):
                return
            await self._send_waiting()
            if DELTAS.get(type(event)) is None or _is_tagged(event):
                await self._emit(event)
            elif time.monotonic() - self._latest >= self._seconds:
                self._latest = time.monotonic()
                await self._emit(event)
            else:
                self._delay(event)

    def _delay(self, event: Any) -> None:
        self._waiting, self._parts = event, [event.delta]
        self._has_waiting.set()

    def _joins(self, event: Any) -> bool:
        """Add a delta to the one that waits, if it continues with that."""
        waiting: Any = self._waiting
        kind: Any = cast("Any", type(event))
        if waiting is None or kind is not type(waiting) or _is_tagged(event):
            return False
        name = DELTAS[kind]
        if (getattr(event, name), event.subagent_run_id) != (getattr(waiting, name), waiting.subagent_run_id):
            return False
        self._parts.append(event.delta)
        return True

    async def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._latest = time.monotonic()
            await self._emit(waiting.model_copy(update={"delta": "".join(self._parts)}))

    async def _send_in_time(self) -> None:
        while True:
            await self._has_waiting.wait()
            self._has_waiting = anyio.Event()
            await anyio.sleep(self._latest + self._seconds - time.monotonic())
            async with self._order:
                await self._send_waiting()


def _is_tagged(event: Any) -> bool:
    """Return whether an event has more than a delta, which would be lost, or said of other deltas, if joined."""
    return bool(event.raw_event is not None or event.metadata is not None or event.__pydantic_extra__)
