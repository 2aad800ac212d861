"""Sources: where the events of one run come from, as something that can be interrupted and closed.

An agent's `run()` may return any async iterator. The pipeline pulls from a `Source`: the HTTP transport is one already,
anything else is wrapped in an `IteratorSource`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, cast

from agui_client._pipeline.waiting import Patience
from agui_client.errors import IncompleteRunError, UsageError

if TYPE_CHECKING:
    from agui_client._pipeline.events import WireEvent


class Source(ABC, AsyncIterator["WireEvent"]):
    """An async iterator of one run's events that ends early when interrupted."""

    conforming = False
    """Whether its typed events come straight from strict decoding, so that enforcement has nothing left to judge."""

    @abstractmethod
    def interrupt(self) -> bool:
        """End the iteration now, even in the middle of a wait. Called in the event loop's thread.

        Returns:
            Whether there was a wait; if not, nobody comes to release what the source holds before it is closed.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Release what the source holds. Idempotent."""


class IteratorSource(Source):
    """Any async iterator as a source.

    Args:
        events: The iterator; if it is a generator, it is closed with the source.
    """

    def __init__(self, events: AsyncIterator[WireEvent]) -> None:
        self._events = events
        self._interrupted = False
        self._patience = Patience.here()

    async def __anext__(self) -> WireEvent:
        if self._interrupted:
            raise StopAsyncIteration
        event = await self._patience.wait(self._events.__anext__())
        if event is None and self._is_interrupted():
            raise StopAsyncIteration
        return cast("WireEvent", event)

    def _is_interrupted(self) -> bool:
        return self._interrupted

    def interrupt(self) -> bool:
        """End the iteration now, even in the middle of a wait."""
        self._interrupted = True
        self._patience.end()
        return self._patience.is_waiting

    async def aclose(self) -> None:
        """Close the iterator, if it can be closed."""
        self._interrupted = True
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


class CutSource(Source):
    """What is left of a source when the wait for its next event was cancelled: it cannot be taken up again (SSE-10)."""

    async def __anext__(self) -> WireEvent:
        raise IncompleteRunError(
            "the wait for an event was cancelled, and its connection with it; to limit how long a run may take, "
            "use timeout= or leave the block",
            rule="TRUNC-1",
        )

    def interrupt(self) -> bool:
        """There is nothing to end."""
        return False

    async def aclose(self) -> None:
        """There is nothing to release."""


def as_source(events: AsyncIterable[WireEvent]) -> Source:
    """What a `run` returned, as a source.

    Args:
        events: A source, or anything that can be iterated asynchronously.

    Returns:
        The source itself, or one around the iterator.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(events, Source):
        return events
    if not hasattr(events, "__aiter__"):
        close = getattr(events, "close", None)
        if close is not None:
            close()
        raise UsageError(
            f"run() and middleware return an async iterator of events, not a {type(events).__name__}; "
            "an `async def` becomes one by using `yield`"
        )
    return IteratorSource(aiter(events))
