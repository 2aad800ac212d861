"""Deltas that follow closely, as one event: fewer frames for callers of a model that writes a token at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import anyio
from ag_ui.core import ReasoningMessageContentEvent, TextMessageContentEvent, ToolCallArgsEvent

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agui_client._protocol.events import WireEvent

    Emit = Callable[[WireEvent], Awaitable[None]]

_IDS: dict[type[Any], str] = {
    TextMessageContentEvent: "message_id",
    ReasoningMessageContentEvent: "message_id",
    ToolCallArgsEvent: "tool_call_id",
}
"""The kinds of deltas, with the fields that name what they belong to."""


class DeltaJoiner:
    """Joins the deltas of one message or call that come within a time; every other event goes on at once.

    A delta after a silence is not held, so that the first word is as early as it was.

    Args:
        emit: Sends an event.
        seconds: The time that a delta may be held.
    """

    def __init__(self, emit: Emit, seconds: float) -> None:
        self._emit, self._seconds = emit, seconds
        self._held: Any = None
        self._parts: list[str] = []
        self._latest = 0.0
        self._order, self._has_held = anyio.Lock(), anyio.Event()

    def begin(self, tasks: TaskGroup) -> None:
        """Send from now on what was held for long enough."""
        tasks.start_soon(self._send_in_time)

    async def take(self, event: WireEvent) -> None:
        """Send an event, or hold it; the events keep their order."""
        async with self._order:
            if self._joins(event):
                return
            await self._send_held()
            if _IDS.get(type(event)) is None or _is_tagged(event):
                await self._emit(event)
            elif time.monotonic() - self._latest >= self._seconds:
                self._latest = time.monotonic()
                await self._emit(event)
            else:
                self._hold(event)

    def _hold(self, event: Any) -> None:
        self._held, self._parts = event, [event.delta]
        self._has_held.set()

    def _joins(self, event: Any) -> bool:
        """Add a delta to the one that is held, if it goes on with that."""
        held: Any = self._held
        kind: Any = cast("Any", type(event))
        if held is None or kind is not type(held) or _is_tagged(event):
            return False
        name = _IDS[kind]
        if (getattr(event, name), event.subagent_run_id) != (getattr(held, name), held.subagent_run_id):
            return False
        self._parts.append(event.delta)
        return True

    async def _send_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._latest = time.monotonic()
            await self._emit(held.model_copy(update={"delta": "".join(self._parts)}))

    async def _send_in_time(self) -> None:
        while True:
            await self._has_held.wait()
            self._has_held = anyio.Event()
            await anyio.sleep(self._latest + self._seconds - time.monotonic())
            async with self._order:
                await self._send_held()


def _is_tagged(event: Any) -> bool:
    """Return whether an event has more than a delta, which would be lost, or said of other deltas, if joined."""
    return bool(event.raw_event is not None or event.metadata is not None or event.__pydantic_extra__)
