"""The agent's answer to one request, shown to observers as it is taken, before anything is done to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

from agui_client._transport.source import Source, as_source

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._protocol.events import WireEvent
    from agui_client._run.call_setup import CallSetup
    from agui_client._run.middleware import Run
    from agui_client._run.scope import RunScope


def observed_run(setup: CallSetup, scope: RunScope) -> Run:
    """Return the agent's `run`, or `connect`, with its requests shown to the observers that watch them.

    Args:
        setup: The parts that the agent brings to the call.
        scope: The run.
    """
    if not setup.observers.has_wire:
        return setup.run
    # Inside of middleware its code runs in the steps of that.
    enter = None if setup.middleware else scope.enter
    numbers = count(1)

    def observed(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the agent."""
        number = next(numbers)
        call = scope.observers.call
        call("on_request", scope, number, run_input)
        end = partial(call, "on_request_end", scope, number)
        try:
            events = as_source(setup.run(run_input), enter)
        except Exception as error:
            end(error, is_whole=False)
            raise
        return ObservedSource(events, partial(call, "on_wire_event", scope, number), end)

    return observed


class End(Protocol):
    """A function that takes the end of a source."""

    def __call__(self, error: Exception | None, /, *, is_whole: bool) -> object:
        """Take the exception that reading failed with, and whether the source was read to its end."""
        ...


class ObservedSource(Source):
    """A source whose events are shown when they are taken.

    Args:
        source: The source.
        show: Called with each event.
        end: Called once, when the source is closed.
    """

    def __init__(self, source: Source, show: Callable[[WireEvent], object], end: End) -> None:
        self.conforming = source.conforming
        self._source, self._show, self._end = source, show, end
        self._error: Exception | None = None
        self._untaken = 0
        self._has_ended = self._is_closed = False

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next events."""
        try:
            batch = await self._source.read()
        except Exception as error:
            self._error = error
            raise
        if batch is None:
            self._has_ended = not self._source.is_interrupted
            return None
        self._untaken += 1
        return self._taken(batch)

    def _taken(self, batch: Iterable[WireEvent]) -> Iterator[WireEvent]:
        try:
            for event in batch:
                self._show(event)
                yield event
        except Exception as error:
            self._error = error
            raise
        # Sync runs read ahead: an end that was read is the end only when everything before it was taken.
        self._untaken -= 1

    async def pause(self) -> None:
        """Let the event loop have its turn."""
        try:
            await self._source.pause()
        except Exception as error:
            self._error = error
            raise

    def interrupt(self) -> bool:
        """End the stream now, even in the middle of a wait."""
        self.is_interrupted = True
        return self._source.interrupt()

    async def aclose(self) -> None:
        """Close the source."""
        self.is_interrupted = True
        try:
            await self._source.aclose()
        finally:
            if not self._is_closed:
                self._is_closed = True
                self._end(self._error, is_whole=self._has_ended and not self._untaken and self._error is None)
