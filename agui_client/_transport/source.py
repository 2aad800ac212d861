"""Sources: the events of one run, in a form that can be interrupted and closed.

An agent's `run()` may return any async iterator. The pipeline reads from a `Source`: the HTTP transport is one already,
anything else is wrapped in an `IteratorSource`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TypeAlias, cast

import anyio.lowlevel
from ag_ui.core import ActivitySnapshotEvent, StateSnapshotEvent

from agui_client._protocol.events import WireEvent
from agui_client._protocol.patch import copied
from agui_client._transport.waiting import Waiter
from agui_client.errors import UsageError

Enter: TypeAlias = Callable[[], Callable[[], object]]
"""A function to call before a step of foreign code, that returns the one to call after it, in the same task."""


class Source(ABC, AsyncIterator[WireEvent]):
    """The events of one run, read by read, or one by one as an async iterator; it ends early when interrupted."""

    conforming = False
    """Whether its typed events come straight from strict decoding, so that only JSON is left to validate."""
    is_interrupted = False
    """Whether `interrupt()` or `aclose()` was called."""
    _unread: Iterator[WireEvent] = iter(())

    @abstractmethod
    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next events.

        Returns:
            The events that arrived together, at least one; None at the end, or after an interrupt. They are decoded as
            they are iterated, which may happen in another thread, and raises a `ProtocolError` at a broken one.
        """

    async def pause(self) -> None:
        """Let the event loop have its turn between events that arrived together.

        Raises:
            RunTimeoutError: The run took too long.
        """
        await anyio.lowlevel.checkpoint()

    @abstractmethod
    def interrupt(self) -> bool:
        """End the stream now, even in the middle of a wait. Call it in the event loop's thread.

        Returns:
            Whether there was a wait; if not, the connection stays open until the source is closed.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Release what the source uses. Idempotent."""

    async def __anext__(self) -> WireEvent:
        while not self.is_interrupted:
            for event in self._unread:
                return event
            events = await self.read()
            if events is None:
                # Whoever iterates a source to its end need not close it.
                await self.aclose()
                break
            self._unread = iter(events)
        raise StopAsyncIteration


class IteratorSource(Source):
    """An async iterator as a source.

    Args:
        events: The iterator; if it is a generator, it is closed with the source.
        enter: Called before each step of the iterator's code.
    """

    def __init__(self, events: AsyncIterator[WireEvent], enter: Enter | None = None) -> None:
        self._events, self._enter = events, enter
        self._waiter = Waiter()

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next event."""
        if self.is_interrupted:
            return None
        # For one step only: between two events the task is the caller's.
        leave = None if self._enter is None else self._enter()
        try:
            event = await self._waiter.wait(self._events.__anext__())
        except StopAsyncIteration:
            return None
        finally:
            if leave is not None:
                leave()
        # Iterators may yield None by mistake, which is not the end.
        return None if event is None and self._has_ended() else (_detached(cast("WireEvent", event)),)

    def _has_ended(self) -> bool:
        return self.is_interrupted

    def interrupt(self) -> bool:
        """End the stream now, even in the middle of a wait."""
        self.is_interrupted = True
        self._waiter.end()
        return self._waiter.is_waiting

    async def aclose(self) -> None:
        """Close the iterator, if it can be closed."""
        self.is_interrupted = True
        if (close := getattr(self._events, "aclose", None)) is not None:
            await close()


def as_source(events: AsyncIterable[WireEvent], enter: Enter | None = None) -> Source:
    """Return the result of an agent's `run` as a source.

    Args:
        events: A source, or anything that can be iterated asynchronously.
        enter: Called before each step of the code of an iterator.

    Returns:
        The source itself, or one around the iterator.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(events, Source):
        return events
    if not hasattr(events, "__aiter__"):
        if (close := getattr(events, "close", None)) is not None:
            close()
        given = f"run() and middleware return an async iterator of events, not a {type(events).__name__}"
        raise UsageError(f"{given}; an `async def` becomes one by using `yield`")
    return IteratorSource(aiter(events), enter)


_SNAPSHOTS = (StateSnapshotEvent, ActivitySnapshotEvent)


def _detached(event: WireEvent) -> WireEvent:
    """Return an event with open content of its own: its producer, in this process, may go on writing to it."""
    if not isinstance(event, _SNAPSHOTS):
        return event
    field = "snapshot" if isinstance(event, StateSnapshotEvent) else "content"
    try:
        return event.model_copy(update={field: copied(getattr(event, field))})
    except RecursionError:
        # Validation rejects it.
        return event
