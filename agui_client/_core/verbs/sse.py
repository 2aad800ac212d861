"""The body of an SSE response: events as frames, and comments in silence (SSE-4, SSE-8)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from contextvars import copy_context
from typing import TYPE_CHECKING

import anyio
from ag_ui.encoder import EventEncoder

from agui_client._core.ground.concurrency import spawn
from agui_client._core.protocol.delta_json import delta_json
from agui_client._core.protocol.events import VALIDATOR, UnrecognizedEvent
from agui_client._core.transport.timeouts import check_seconds
from agui_client._core.verbs.caller_run import caller_events

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.verbs.async_run import AgentRun

KEEP_ALIVE = b": keep-alive\n\n"
"""The comment that keeps a silent connection open; clients ignore it (SSE-8)."""
_AHEAD = 64
"""The number of events that a run may be ahead of the response."""

_encode = EventEncoder().encode


def sse_headers() -> dict[str, str]:
    """Return the headers of a response whose body is `run.sse()`: with them, proxies send each event on at once."""
    return {
        "content-type": "text/event-stream",
        # Proxies may neither store nor compress it: what compresses collects.
        "cache-control": "no-cache, no-transform",
        # nginx would collect the events otherwise.
        "x-accel-buffering": "no",
    }


def frame_of(event: WireEvent) -> bytes:
    """Encode an event as an SSE frame (SSE-4)."""
    if isinstance(event, UnrecognizedEvent):
        return f"data: {json.dumps(event.data, ensure_ascii=False)}\n\n".encode()
    # The encoder's own way takes ten times as long, and most events are deltas.
    data = delta_json(event)
    return f"data: {data}\n\n".encode() if data is not None else _encode(event).encode()


def event_of(frame: bytes) -> Event:
    """Return the event that `frame_of` has encoded."""
    event: Event = VALIDATOR.validate_json(frame[len(b"data: ") :], by_alias=True, by_name=False)
    return event


async def frames_of(events: AsyncIterable[WireEvent]) -> AsyncGenerator[bytes]:
    """Iterate events as SSE frames."""
    async for event in events:
        yield frame_of(event)


def sse_body(run: AgentRun, keep_alive: float, *, expose_errors: bool) -> AsyncGenerator[bytes]:
    """Return the body of an SSE response: a call as one run of its caller, made in a task of its own.

    Args:
        run: The run, entered or not.
        keep_alive: Seconds of silence after which a comment is sent.
        expose_errors: Whether the caller gets the text of exceptions.

    Returns:
        Chunks of whole frames, or a comment; closing the iterator stops the run.

    Raises:
        UsageError: The keep-alive is not a number of seconds above zero.
    """
    check_seconds("keep_alive=", keep_alive)
    return _chunks(caller_events(run, expose_errors=expose_errors), keep_alive)


class _Frames:
    """The frames that a run has made, and the response has not taken: an anyio stream would cost as much as a frame."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._are_there, self._are_taken = anyio.Event(), anyio.Event()
        self._has_ended = False

    def put(self, frame: bytes) -> bool:
        """Add a frame; return whether as many are there as may be, and none should be added before they are taken."""
        self._frames.append(frame)
        if len(self._frames) == 1:
            self._are_there.set()
        return len(self._frames) >= _AHEAD

    async def taken(self) -> None:
        """Wait until the frames are taken."""
        self._are_taken = anyio.Event()
        await self._are_taken.wait()

    def end(self) -> None:
        """Note that no frame follows."""
        self._has_ended = True
        self._are_there.set()

    async def take(self) -> bytes | None:
        """Wait for frames, and return all of them together; None at the end."""
        await self._are_there.wait()
        frames, self._frames = self._frames, []
        if not self._has_ended:
            self._are_there = anyio.Event()
        self._are_taken.set()
        return b"".join(frames) if frames else None


async def _chunks(events: AsyncGenerator[Event], keep_alive: float) -> AsyncGenerator[bytes]:
    """Iterate events in a task of their own, and yield their frames."""
    frames, running, ended = _Frames(), anyio.CancelScope(), anyio.Event()

    async def send_frames() -> None:
        """Send frames until the run ends or is left."""
        try:
            with running:
                async with aclosing(events):
                    async for event in events:
                        if frames.put(frame_of(event)):
                            await frames.taken()
        finally:
            frames.end()
            ended.set()

    spawn(send_frames, copy_context())
    try:
        while True:
            chunk: bytes | None = KEEP_ALIVE
            with anyio.move_on_after(keep_alive):
                chunk = await frames.take()
            if chunk is None:
                return
            yield chunk
    finally:
        running.cancel()
        with anyio.CancelScope(shield=True):
            await ended.wait()
