"""The agent's answer to one request, shown to observers as it is taken, before anything is done to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

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
        scope.observers.call("on_request", scope, number, run_input)
        try:
            return ObservedSource(as_source(setup.run(run_input), enter), scope, number)
        except Exception as error:
            scope.observers.call("on_request_end", scope, number, error, is_whole=False)
            raise

    return observed


class ObservedSource(Source):
    """A source whose events observers see when they are taken.

    Args:
        source: The source.
        scope: The run.
        number: The number of the request in its run.
    """

    def __init__(self, source: Source, scope: RunScope, number: int) -> None:
        self.conforming = source.conforming
        self._source, self._scope, self._number = source, scope, number
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
                self._scope.observers.call("on_wire_event", self._scope, self._number, event)
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
                is_whole = self._has_ended and not self._untaken and self._error is None
                self._scope.observers.call("on_request_end", self._scope, self._number, self._error, is_whole=is_whole)
