"""Sources: the events of one run, in a form that can be interrupted and closed.

An agent's `run()` may return any async iterator. The pipeline reads from a `Source`: the HTTP transport is one already,
anything else is wrapped in an `IteratorSource`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from time import perf_counter
from typing import TypeAlias, cast

import anyio.lowlevel
from ag_ui.core import ActivitySnapshotEvent, RunErrorEvent, StateSnapshotEvent

from agui_client._core.ground.json_reading import DEEPEST_READ
from agui_client._core.protocol.events import WireEvent
from agui_client._core.protocol.patch import copied
from agui_client._core.transport.timeouts import Timeouts
from agui_client._core.transport.waiting import Waiter
from agui_client.errors import (
    AGUIError,
    FirstEventTimeoutError,
    IdleTimeoutError,
    RunFailedError,
    RunTimeoutError,
    StreamTimeoutError,
    UsageError,
)

Enter: TypeAlias = Callable[[], Callable[[], object]]
"""A function to call before a step of foreign code, that returns the one to call after it, in the same task."""


_EARLY_SECONDS = 0.001


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
                # A caller that iterates a source to its end need not close it.
                await self.aclose()
                break
            self._unread = iter(events)
        raise StopAsyncIteration


class SourceLimits:
    """The time limits of an iterator: for its first event, between two events, and for the whole call.

    Args:
        timeouts: The limits.
        until: The `time.perf_counter()` at which the call has taken too long.
    """

    def __init__(self, timeouts: Timeouts, until: float) -> None:
        self._timeouts, self._remaining = timeouts, until - perf_counter()
        self._until = self._since = math.nan
        self._last: WireEvent | None = None

    def begin(self, now: float) -> float:
        """Begin a wait; return the seconds that it may take.

        Args:
            now: The time on the event loop's clock, in seconds.
        """
        if math.isnan(self._until):
            self._until = now + self._remaining
        self._since = now
        # Timers ring up to their resolution early, which `check` would take for an event that is None.
        return min(self._until - self._since, self._silence) + _EARLY_SECONDS

    def check(self, event: WireEvent | None, now: float) -> None:
        """End a wait.

        Args:
            event: The event that came; None if none did.
            now: The time on the event loop's clock, in seconds.

        Raises:
            StreamTimeoutError: The wait took too long, or the whole call did.
        """
        if now >= self._until:
            raise self._passed(RunTimeoutError, now, f"the call took longer than {self._timeouts.total:g} s", "total")
        if event is not None:
            self._last = event
        elif now - self._since < self._silence:
            return
        elif self._last is None:
            what = f"no event arrived within {self._silence:g} s"
            raise self._passed(FirstEventTimeoutError, now, what, "first_event")
        else:
            what = f"the agent was silent for {self._silence:g} s; its last event was {self._last_type}"
            raise self._passed(IdleTimeoutError, now, what, "idle")

    @property
    def _silence(self) -> float:
        limit = self._timeouts.first_event if self._last is None else self._timeouts.idle
        return math.inf if limit is None else limit

    @property
    def _last_type(self) -> str | None:
        # What is not an event is refused later.
        kind = getattr(self._last, "type", None)
        return None if kind is None else str(getattr(kind, "value", kind))

    def _passed(self, kind: type[StreamTimeoutError], now: float, what: str, name: str) -> StreamTimeoutError:
        fix = f"raise Timeouts.{name} to allow more"
        return kind(what, silent=now - self._since, keep_alives=0, last_event=self._last_type, fix=fix)


class IteratorSource(Source):
    """An async iterator as a source.

    Args:
        events: The iterator; if it is a generator, it is closed with the source.
        enter: Called before each step of the iterator's code.
        limits: The time limits; None for none.
        is_agents: Whether it is an agent's, whose exceptions are failures of the run.
    """

    def __init__(
        self,
        events: AsyncIterator[WireEvent],
        enter: Enter | None = None,
        limits: SourceLimits | None = None,
        *,
        is_agents: bool = False,
    ) -> None:
        self._events, self._enter, self._limits, self._is_agents = events, enter, limits, is_agents
        self._waiter = Waiter()

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next event."""
        if self.is_interrupted:
            return None
        # For one step only: between two events the task is the caller's.
        exit_scope = None if self._enter is None else self._enter()
        waiter, limits = self._waiter, self._limits
        try:
            seconds = math.inf if limits is None else limits.begin(waiter.now())
            event = await waiter.wait(self._events.__anext__(), seconds)
        except StopAsyncIteration:
            return None
        except Exception as error:
            if self._is_agents and not isinstance(error, AGUIError):
                raise failure_of(error) from error
            raise
        finally:
            if exit_scope is not None:
                exit_scope()
        # Iterators may yield None by mistake, which is not the end.
        if event is None and self._has_ended():
            return None
        if limits is not None:
            limits.check(event, waiter.now())
        return (_detached(cast("WireEvent", event)),)

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
        self._waiter.close()
        if (close := getattr(self._events, "aclose", None)) is not None:
            await close()


def failure_of(error: Exception) -> RunFailedError:
    """Return the failure of a run whose agent has raised an exception; the text goes to this process alone."""
    kind = type(error).__name__
    failure = RunFailedError(RunErrorEvent(message=f"the agent failed ({kind})", code=kind), raised=error)
    failure.args = (f"the agent raised {kind}: {error}",)
    return failure


def as_source(
    events: AsyncIterable[WireEvent],
    enter: Enter | None = None,
    limits: SourceLimits | None = None,
    *,
    is_agents: bool = False,
) -> Source:
    """Return the result of an agent's `run` as a source.

    Args:
        events: A source, or anything that can be iterated asynchronously.
        enter: Called before each step of the code of an iterator.
        limits: The time limits of an iterator; None for none. A source has its own.
        is_agents: Whether an iterator is an agent's, whose exceptions are failures of the run.

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
    return IteratorSource(aiter(events), enter, limits, is_agents=is_agents)


_SNAPSHOTS = (StateSnapshotEvent, ActivitySnapshotEvent)


def _detached(event: WireEvent) -> WireEvent:
    """Return an event with open content of its own: its producer, in this process, may continue writing to it."""
    if not isinstance(event, _SNAPSHOTS):
        return event
    field = "snapshot" if isinstance(event, StateSnapshotEvent) else "content"
    try:
        return event.model_copy(update={field: copied(getattr(event, field), DEEPEST_READ)})
    except RecursionError:
        # Validation rejects it.
        return event
