"""Middleware: the caller's functions around a run, before anything is removed from its events (PROC-2, PROC-14).

A middleware is a callable `(input, next) -> async iterator of events`. It may rewrite the input, the events, or reply
itself. It gets typed events where the official models can hold them, otherwise `UnrecognizedEvent`s.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
from ag_ui.core import Event, RunAgentInput
from pydantic import ValidationError

from agui_client._core.protocol.events import VALIDATOR, UnrecognizedEvent, WireEvent
from agui_client._core.transport.source import Source, SourceLimits, as_source, failure_of
from agui_client._core.transport.timeouts import UNLIMITED, Timeouts
from agui_client.errors import AGUIError

if TYPE_CHECKING:
    from agui_client._core.protocol.compat import Translator
    from agui_client._core.run.scope import RunScope

RunFunction: TypeAlias = Callable[[RunAgentInput], AsyncIterator[WireEvent]]
"""The type of an agent's `run`."""
Next: TypeAlias = Callable[[RunAgentInput], AsyncIterator[Event]]
"""The rest of the chain, as a middleware calls it."""
Middleware: TypeAlias = Callable[[RunAgentInput, Next], AsyncIterator[WireEvent]]
"""A function around a run: `async def middleware(input, next): async for event in next(input): yield event`."""

_validate = VALIDATOR.validate_python


class RunSource(Source):
    """The events of one run: of the agent's `run` inside its middleware.

    Args:
        run: The agent's `run`.
        middleware: The functions around it, outermost first.
        timeouts: The time limits of the call.
        compat: The translation of retired shapes, before any middleware sees them.
        scope: The run.
    """

    def __init__(
        self,
        run: RunFunction,
        middleware: Sequence[Middleware],
        timeouts: Timeouts,
        compat: Translator,
        scope: RunScope,
    ) -> None:
        self._compat = compat
        self._scope = scope
        self._opened: list[AsyncIterator[WireEvent]] = []
        entry: RunFunction = partial(self._open, run)
        if middleware:
            entry = partial(self._called, entry)
        for function in reversed(middleware):
            entry = partial(self._around, function, entry)
        exit_scope = scope.enter()
        try:
            events = entry(scope.input)
        finally:
            exit_scope()
        self._source = as_source(events, scope.enter, _limits(timeouts, scope), is_agents=not middleware)
        self.conforming = self._source.conforming
        # Without a step in between for a run that is one request.
        if scope.requests == [self._source]:
            self.pause = self._source.pause  # type: ignore[method-assign]

    async def read(self) -> Iterable[WireEvent] | None:
        """Return the next events."""
        batch = await self._source.read()
        # Without a step in between from here on, when the source knows how it reads.
        self.read = self._source.read  # type: ignore[method-assign]
        return batch

    async def pause(self) -> None:
        """Let the event loop have its turn, and see to it that every request has time left."""
        await self._source.pause()
        for request in self._scope.requests:
            if request is not self._source:
                await request.pause()

    def interrupt(self) -> bool:
        """End the iteration now, even in the middle of a wait."""
        was_waiting = self._source.interrupt()
        if not was_waiting:
            # Nobody would come to close the connections before a hook is done, or the block is left.
            for request in self._scope.requests:
                request.interrupt()
        return was_waiting

    async def aclose(self) -> None:
        """Close every generator, the last opened first, in the task that iterated them; then every connection.

        One that fails to close does not keep the others open; its exception is raised when all are closed.
        """
        if anyio.current_effective_deadline() == -math.inf:
            # Only where it is needed: a scope around the closing of a generator that holds one itself upsets both.
            with anyio.CancelScope(shield=True):
                await self._close()
        else:
            await self._close()

    async def _close(self) -> None:
        async with AsyncExitStack() as stack:
            stack.callback(self._scope.enter())
            for request in self._scope.requests:
                if not any(request is events for events in self._opened):
                    stack.push_async_callback(request.aclose)
            for events in self._opened:
                if (close := getattr(events, "aclose", None)) is not None:
                    stack.push_async_callback(_closing, close)
            self._opened.clear()

    def _around(
        self, function: Middleware, following: RunFunction, run_input: RunAgentInput
    ) -> AsyncIterator[WireEvent]:
        # `Next` promises typed events: what the models cannot hold is the exception a middleware asks for by type.
        return self._open(function, run_input, cast("Next", following))

    def _called(self, agent: RunFunction, run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        # `next(input)` calls the agent at once, so that it raises what the agent's `run` does.
        return self._open(self._typed, agent(run_input))

    async def _typed(self, events: AsyncIterator[WireEvent]) -> AsyncGenerator[WireEvent]:
        source = as_source(events, is_agents=True)
        while (batch := await source.read()) is not None:
            for event in batch:
                yield _typed(self._compat.feed(event)) if type(event) is UnrecognizedEvent else event

    def _open(self, function: Callable[..., AsyncIterator[WireEvent]], *arguments: object) -> AsyncIterator[WireEvent]:
        self._opened.append(function(*arguments))
        return self._opened[-1]


async def _closing(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except BaseExceptionGroup as group:
        # A task group in a generator wraps the GeneratorExit that closes it.
        if group.split(GeneratorExit)[1] is not None:
            raise


def _typed(event: UnrecognizedEvent) -> WireEvent:
    """Return the event as a typed one if a model can hold all of it, unknown properties included.

    JSON that a model would hide stays JSON, for validation to judge: a null for an optional field, the lack of a member
    that the class fills in.
    """
    try:
        typed: Event = _validate(event.data, strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return event
    return typed if typed.model_dump(by_alias=True) == event.data else event


def observed_run(run: RunFunction, scope: RunScope, timeouts: Timeouts, *, has_middleware: bool) -> RunFunction:
    """Return the agent's `run`, or `connect`, with its requests shown to the observers that watch them.

    Args:
        run: The function.
        scope: The run.
        timeouts: The time limits of the call.
        has_middleware: Whether middleware calls the function.
    """

    def called(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the agent, whose exceptions are failures of the run."""
        try:
            return run(run_input)
        except AGUIError:
            raise
        except Exception as error:
            raise failure_of(error) from error

    if not scope.observers.has_wire:
        return called
    # Inside of middleware its code runs in the steps of that.
    enter, limits = (None, None) if has_middleware else (scope.enter, _limits(timeouts, scope))
    numbers = count(1)

    def observed(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Call the agent."""
        number = next(numbers)
        tell = scope.observers.call
        tell("on_request", scope, number, run_input)
        end = partial(tell, "on_request_end", scope, number)
        try:
            events = as_source(called(run_input), enter, limits, is_agents=True)
        except Exception as error:
            end(error, is_whole=False)
            raise
        return ObservedSource(events, partial(tell, "on_wire_event", scope, number), end)

    return observed


def _limits(timeouts: Timeouts, scope: RunScope) -> SourceLimits | None:
    """Return the time limits of an agent that does not keep to them by itself."""
    is_limited = "timeout" not in scope.agent.takes and timeouts is not UNLIMITED
    return SourceLimits(timeouts, scope.until) if is_limited else None


class ObservedSource(Source):
    """A source whose events are shown as the pipeline gets them.

    Args:
        show: Called with each event.
        end: Called once, as `end(error, is_whole=...)`, when the source is closed: with the exception of a read that
            failed or None, and with whether the source was read to its end.
    """

    def __init__(self, source: Source, show: Callable[[WireEvent], object], end: Callable[..., object]) -> None:
        self.conforming = source.conforming
        self._source, self._show, self._end = source, show, end
        self._error: Exception | None = None
        # Sync runs read in one thread and iterate in another: each counter is written by one of them.
        self._read_count = self._shown_count = 0
        self._has_ended = self._is_closed = False

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next events."""
        with self._noting():
            batch = await self._source.read()
        if batch is None:
            self._has_ended = not self._source.is_interrupted
            return None
        self._read_count += 1
        return self._shown(batch)

    def _shown(self, batch: Iterable[WireEvent]) -> Iterator[WireEvent]:
        with self._noting():
            for event in batch:
                self._show(event)
                yield event
        # Sync runs read ahead: an end that was read is the end only when everything before it was shown.
        self._shown_count += 1

    async def pause(self) -> None:
        """Let the event loop have its turn."""
        with self._noting():
            await self._source.pause()

    @contextmanager
    def _noting(self) -> Generator[None]:
        try:
            yield
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
                is_shown = self._shown_count == self._read_count
                self._end(self._error, is_whole=self._has_ended and is_shown and self._error is None)
