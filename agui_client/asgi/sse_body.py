"""The body of an SSE response: events as frames, and comments in silence (SSE-4, SSE-8)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import ReasoningMessageContentEvent, TextMessageContentEvent, ToolCallArgsEvent
from ag_ui.encoder import EventEncoder
from pydantic_core import to_json

from agui_client._concurrency import spawn
from agui_client._protocol.events import VALIDATOR, UnrecognizedEvent
from agui_client._transport.timeouts import is_duration
from agui_client.asgi.caller_run import caller_events
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Event
    from anyio.streams.memory import MemoryObjectSendStream

    from agui_client._protocol.events import WireEvent
    from agui_client._run.async_run import AgentRun

KEEP_ALIVE = b": keep-alive\n\n"
"""The comment that keeps a silent connection open; clients ignore it (SSE-8)."""
_AHEAD = 64
"""The number of events that a run may be ahead of the response."""

_encode = EventEncoder().encode
_DELTAS: dict[type[Any], list[tuple[str, str, bool]]] = {
    model: [(name, field.alias or name, not field.is_required()) for name, field in model.model_fields.items()]
    for model in (TextMessageContentEvent, ReasoningMessageContentEvent, ToolCallArgsEvent)
}
"""The fields of the events that make up most of a stream, with their keys in JSON, and whether they may be absent."""


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
    members, values = _DELTAS.get(type(event)), event.__dict__
    if members is None or event.__pydantic_extra__ or len(members) != len(values):
        return _encode(event).encode()
    # The encoder's own way takes about twice as long, and most events are deltas.
    data = {key: values[name] for name, key, is_optional in members if not is_optional or values[name] is not None}
    return b"data: %b\n\n" % to_json(data, inf_nan_mode="null")


def event_of(frame: bytes) -> Event:
    """Return the event that `frame_of` has encoded."""
    event: Event = VALIDATOR.validate_json(frame[len(b"data: ") :], by_alias=True, by_name=False)
    return event


async def frames_of(events: AsyncIterable[WireEvent]) -> AsyncGenerator[bytes]:
    """Iterate events as SSE frames."""
    async for event in events:
        yield frame_of(event)


def check_keep_alive(seconds: object) -> None:
    """Check the seconds of silence after which a comment is sent.

    Raises:
        UsageError: They are no number above zero.
    """
    if not is_duration(seconds):
        raise UsageError(f"keep_alive= is a number of seconds above zero, not {seconds!r}")


def sse_body(run: AgentRun, keep_alive: float, *, expose_errors: bool) -> AsyncGenerator[bytes]:
    """Return the body of an SSE response: a call as one run of its caller, made in a task of its own.

    Args:
        run: The run, entered or not.
        keep_alive: Seconds of silence after which a comment is sent.
        expose_errors: Whether the caller gets the text of exceptions.

    Returns:
        Chunks of whole frames, or a comment; closing the iterator stops the run.

    Raises:
        UsageError: The keep-alive is no number of seconds above zero.
    """
    check_keep_alive(keep_alive)
    return _chunks(caller_events(run, expose_errors=expose_errors), keep_alive)


async def _chunks(events: AsyncGenerator[Event], keep_alive: float) -> AsyncGenerator[bytes]:
    """Iterate events in a task of their own, and yield their frames."""
    sender, receiver = anyio.create_memory_object_stream[bytes](_AHEAD)
    running, ended = anyio.CancelScope(), anyio.Event()

    async def send_frames() -> None:
        """Send frames until the run ends or is left."""
        try:
            with running, sender:
                async with aclosing(events):
                    async for event in events:
                        await _send(sender, frame_of(event))
        finally:
            ended.set()

    spawn(send_frames, copy_context())
    try:
        while True:
            chunks = [KEEP_ALIVE]
            with anyio.move_on_after(keep_alive):
                chunks = [await receiver.receive()]
            with suppress(anyio.WouldBlock, anyio.EndOfStream):
                while True:  # frames that are there already go out together
                    chunks.append(receiver.receive_nowait())
            yield b"".join(chunks)
    except anyio.EndOfStream:
        return
    finally:
        running.cancel()
        receiver.close()
        with anyio.CancelScope(shield=True):
            await ended.wait()


async def _send(sender: MemoryObjectSendStream[bytes], frame: bytes) -> None:
    try:
        sender.send_nowait(frame)
    except anyio.WouldBlock:
        await sender.send(frame)
