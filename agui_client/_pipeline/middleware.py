"""Middleware: the caller's functions around a run, before anything is removed from its events (PROC-2, PROC-14).

A middleware is a callable `(input, next) -> async iterator of events`. It may rewrite the input, the events, or answer
itself. Each sees typed events where the official models can hold them, otherwise `UnrecognizedEvent`s.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeAlias, cast

from ag_ui.core import Event, RunAgentInput
from pydantic import ValidationError

from agui_client._pipeline.compat import CompatibilityBoundary
from agui_client._pipeline.events import VALIDATOR, UnrecognizedEvent, WireEvent

Run: TypeAlias = Callable[[RunAgentInput], AsyncIterator[WireEvent]]
"""What an agent's `run` is."""
Next: TypeAlias = Callable[[RunAgentInput], AsyncIterator[Event]]
"""The rest of the chain, as a middleware calls it."""
Middleware: TypeAlias = Callable[[RunAgentInput, Next], AsyncIterator[WireEvent]]
"""A function around a run: `async def middleware(input, next): async for event in next(input): yield event`."""

_validate = VALIDATOR.validate_python


class Chain:
    """One run's middleware around one agent's `run`.

    Args:
        run: The agent's `run`.
        middleware: Outermost first.
        compat: The boundary that the agent's events pass before any middleware sees them.
    """

    def __init__(self, run: Run, middleware: Sequence[Middleware], compat: CompatibilityBoundary) -> None:
        self._run = run
        self._compat = compat
        self._opened: list[AsyncIterator[WireEvent]] = []
        self._entry: Run = self._innermost if middleware else self._agent
        for function in reversed(middleware):
            self._entry = partial(self._around, function, self._entry)

    def open(self, run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Start the run; nothing happens before the first event is asked for."""
        return self._entry(run_input)

    async def aclose(self) -> None:
        """Close every generator of the chain, the last opened first, in the task that iterated them.

        One that fails to close does not keep the others open; its exception is raised when all are closed.
        """
        async with AsyncExitStack() as stack:
            for events in self._opened:
                close = getattr(events, "aclose", None)
                if close is not None:
                    stack.push_async_callback(_closing, close)
            self._opened.clear()

    def _around(self, function: Middleware, following: Run, run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        # `Next` promises typed events: what the models cannot hold is the exception a middleware asks for by type.
        return self._register(function(run_input, cast("Next", following)))

    def _agent(self, run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        return self._register(self._run(run_input))

    def _innermost(self, run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
        return self._register(self._presented(self._agent(run_input)))

    async def _presented(self, events: AsyncIterator[WireEvent]) -> AsyncGenerator[WireEvent]:
        async for event in events:
            if type(event) is UnrecognizedEvent:
                for translated in self._compat.feed(event):
                    yield _typed(translated)
            else:
                yield event

    def _register(self, events: AsyncIterator[WireEvent]) -> AsyncIterator[WireEvent]:
        self._opened.append(events)
        return events


async def _closing(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except BaseExceptionGroup as group:
        # A task group in a generator wraps the GeneratorExit that closes it.
        if group.split(GeneratorExit)[1] is not None:
            raise


def _typed(event: WireEvent) -> WireEvent:
    """The event as a typed one if a model can hold all of it, unknown properties included.

    What a model would hide stays JSON, for enforcement to judge: a null for an optional field, the lack of a member
    that the class fills in.
    """
    if not isinstance(event, UnrecognizedEvent):
        return event
    try:
        typed: Event = _validate(event.data, strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return event
    return typed if typed.model_dump(by_alias=True) == event.data else event
