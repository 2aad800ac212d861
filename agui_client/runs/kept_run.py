"""A run that is kept: the task that carries it out and writes its log, whether or not anybody follows it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
import anyio.lowlevel
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from agui_client._protocol.open_items import quoted
from agui_client.asgi.caller_input import StoredThreadRequest
from agui_client.asgi.caller_run import caller_events
from agui_client.runs.run_log import Phase, RunLog

if TYPE_CHECKING:
    from agui_client._run.async_run import AgentRun

Enter: TypeAlias = Callable[[AsyncExitStack], Awaitable["AgentRun"]]
"""Enters the run in a stack of blocks, which is left when the run is over."""
Reenter: TypeAlias = Callable[[RunAgentInput], Enter]
"""Returns what enters another run of the thread, which an input with answers asks for."""
WhenLeft: TypeAlias = Literal["continue", "stop"]
"""Says what becomes of a run when its last caller has left."""

STOPPED = RunErrorEvent(message="The run was stopped before it had begun.", code="stopped")
SHUTTING_DOWN = RunErrorEvent(message="The server shuts down.", code="shutting_down")
LOG_FULL = RunErrorEvent(message="The run has more events than the server can keep.", code="log_full")

_BEFORE_OTHERS = 64
"""The events that a run may write before other tasks get their turn, if its agent never waits."""
_logger = logging.getLogger("agui_client.runs")


class KeptRun:
    """A run that is carried out in a task of its own, and its log.

    Args:
        log: The log that the run writes.
        input: The input that asked for the run.
        enter: Enters the run.
        reenter: Makes the run that goes on with answers to the interrupts of this one.
        when_left: Says what becomes of the run when its last caller has left.
        expose_errors: Whether callers get the text of exceptions.
    """

    def __init__(
        self,
        log: RunLog,
        input: RunAgentInput,
        enter: Enter,
        reenter: Reenter,
        *,
        when_left: WhenLeft,
        expose_errors: bool,
    ) -> None:
        self.log = log
        """The log that the run writes."""
        self.reenter = reenter
        """Makes the run that goes on with answers to the interrupts of this one."""
        self.when_left: WhenLeft = when_left
        """Says what becomes of the run when its last caller has left."""
        self.expose_errors = expose_errors
        """Whether callers get the text of exceptions."""
        self._input, self._enter = input, enter
        self._run: AgentRun | None = None
        self._scope = anyio.CancelScope()
        self._last: RunErrorEvent | None = None

    async def carry_out(self, before: RunLog | None) -> None:
        """Carry out the run, and write its events to the log.

        Args:
            before: The log of the thread's run before this one, whose interrupts this one answers or abandons.
        """
        # Behind the block, which may have a lease to give back.
        refusal: Exception | None = None
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    try:
                        run = await self._enter(stack)
                    except Exception as error:
                        refusal = error
                    else:
                        if before is not None:
                            before.settle()
                        await self._write(run, stack)
        except Exception:
            _logger.exception("run %s of thread %s", quoted(self.log.key.run_id), quoted(self.log.key.thread_id))
        finally:
            # The agent's conversation goes; what followers and answers need is in the log.
            self._run = None
            if refusal is not None:
                self.log.refuse(refusal)
            elif self.log.is_going_on:
                # It was stopped while it began, or the event loop ends.
                is_stopped = self._scope.cancel_called
                self.log.append(self._last or (STOPPED if is_stopped else SHUTTING_DOWN))

    def stop(self, last: RunErrorEvent | None = None) -> None:
        """Stop the run.

        Args:
            last: The run's last event, if its end is not a caller's wish.
        """
        self._last = self._last or last
        if self._run is not None:
            self._run.cancel()
        else:
            self._scope.cancel()

    async def _write(self, run: AgentRun, stack: AsyncExitStack) -> None:
        self._run = run
        self.log.open(run.messages, run.state)
        if self._scope.cancel_called:
            run.cancel()
        # The blocks are left before the run's last event is written: they may save the thread.
        events: AsyncGenerator[Event] = caller_events(run, expose_errors=self.expose_errors, block=aclosing(stack))
        async with aclosing(events):
            number = 0
            async for event in events:
                self._append(event, run)
                number += 1
                if number % _BEFORE_OTHERS == 0:
                    await anyio.lowlevel.checkpoint()

    def _append(self, event: Event, run: AgentRun) -> None:
        if self.log.phase is not Phase.OPEN:
            return
        outcome = event.outcome if isinstance(event, RunFinishedEvent) else None
        if isinstance(outcome, RunFinishedInterruptOutcome):
            self.log.left_input = _left(self._input, run)
        if isinstance(outcome, RunFinishedCancelledOutcome) and self._last is not None:
            event = self._last
        self.log.append(event)


def _left(input: RunAgentInput, run: AgentRun) -> RunAgentInput:
    """Return an input for answers to the interrupts that a run has left, with the conversation if it is stored nowhere.

    Args:
        input: The input that asked for the run.
        run: The run.
    """
    is_stored = isinstance(run.call.request, StoredThreadRequest)
    messages, state = ([], None) if is_stored else (run.messages, run.state)
    return input.model_copy(update={"messages": messages, "state": state, "resume": None, "parent_run_id": None})
