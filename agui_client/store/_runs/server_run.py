"""A run that is kept: the task that carries it out and writes its log, whether or not anybody follows it.

To change

- what becomes of a run without callers: `ServerRun` here carries it out, `RunLog` in `store/_runs/run_log.py` has its
  events and its phases, `ActiveRuns` in `store/_runs/run_registry.py` says how long it is kept
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.lowlevel
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
)

from agui_client._core.agent.run_records import RunStatus, StoredRequest, WhenLeft
from agui_client._core.plugs import counted
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.subagents import has_journal, without_journal
from agui_client._core.tools.interrupts import expires_before
from agui_client._core.verbs.caller_interrupts import is_of_agent, own_id
from agui_client._core.verbs.caller_run import beginning_of, caller_events, failure_event
from agui_client._core.verbs.team_journals import open_calls
from agui_client._serving.caller_input import StoredThreadRequest
from agui_client._serving.repetition import answered_before
from agui_client._serving.stopping import SHUTTING_DOWN
from agui_client.errors import ThreadBusyError
from agui_client.store._runs.run_log import STOPPED, LogPhase, RunLog, interrupts_in, status_after

if TYPE_CHECKING:
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._serving.answering import ResumedRun
    from agui_client.store._runs.attempts import RunAttempt


class Enter(Protocol):
    """Enters a run of the thread that an input asks for, such as one with answers."""

    def __call__(
        self, input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None, /
    ) -> Awaitable[AgentRun]:
        """Enter the run.

        Args:
            stack: The stack of blocks in which it is entered, which is left when the run is over.
            cut: What is known of the run if its process ended; None if it begins.
        """
        ...


class NamedAgent(Protocol):
    """Enters runs of an agent that each process knows by the same name."""

    def enter_as(self, stored_request: StoredRequest, /) -> Enter:
        """Return what enters the run that a request asked for, and those that answer its interrupts.

        Args:
            stored_request: The request.
        """
        ...


_BUSY_SECONDS, _BUSY_SECONDS_AT_END, _BETWEEN_ATTEMPTS = 120.0, 5.0, 0.5
"""The longest waits for the thread of a run that is taken over, to continue or to end it, and the time between two
attempts to open it."""
_FOR_TURN = {"agui.reason": "at_once"}
_ENDS = (RunFinishedEvent, RunErrorEvent)
_BEFORE_OTHERS = 64
"""The events that a run may write before other tasks get their turn, if its agent never waits."""
_logger = logging.getLogger("agui_client.runs")


class ServerRun:
    """A run that is carried out in a task of its own, and its log.

    Args:
        log: The log that the run writes.
        input: The input that asked for the run.
        enter: Enters the run, and those that continue with answers to its interrupts.
        when_left: Says what becomes of the run when its last caller has left.
        expose_errors: Whether callers get the text of exceptions.
        stored_request: All that another process needs to carry out the run; None if it ends with this one.
        turns: Limit the runs that are carried out at one time; the run takes a turn of each, in this order.
        answer_until: Returns the time when interrupts expire that are asked now; None for no limit.
        is_expiry: Whether the run only notes that nobody has answered in time: it ends before its agent continues.
        cut: What is known of the run if its process ended; None if it begins here.
    """

    def __init__(
        self,
        log: RunLog,
        input: RunAgentInput,
        enter: Enter,
        *,
        when_left: WhenLeft,
        expose_errors: bool,
        stored_request: StoredRequest | None = None,
        turns: Sequence[anyio.CapacityLimiter] = (),
        answer_until: Callable[[], datetime | None] = lambda: None,
        is_expiry: bool = False,
        cut: ResumedRun | None = None,
    ) -> None:
        self.log = log
        """The log that the run writes."""
        self.input = input
        """The input that asked for the run."""
        self.answered_ids: frozenset[str] = frozenset(each.interrupt_id for each in input.resume or ())
        """The interrupts that the run answers, which are not answered again; fewer if it failed before it did so."""
        self.enter = enter
        """Enters the run, and those that continue with answers to its interrupts."""
        self.when_left: WhenLeft = when_left
        """Says what becomes of the run when its last caller has left."""
        self.expose_errors = expose_errors
        """Whether callers get the text of exceptions."""
        self.stored_request = stored_request
        """All that another process needs to carry out the run; None if it ends with this one."""
        self.earlier_attempts: int | None = None
        """The number of attempts at the run before this process took it over; None if it begins here. With the first
        one, the caller gets to know that the run continues."""
        self.ends_with: Event | None = None
        """The event with which a run that was taken over ends at once; None if it continues."""
        self.journal: RunAttempt | None = None
        """Stores what the run needs to continue in another process; None if it ends with this one."""
        self.is_given_up: bool = False
        """Whether the run was left to another process."""
        self.waits_again: bool = False
        """Whether what the run was to answer waits again, as the run has ended without using an answer."""
        self._turns, self._answer_until, self._is_expiry, self._cut = turns, answer_until, is_expiry, cut
        self._run: AgentRun | None = None
        # A run that is given up meanwhile is entered first: a block that is left in the middle saves what was asked.
        self._is_entering = False
        self._scope = anyio.CancelScope()
        self._last: RunErrorEvent | None = None
        self._prepared: tuple[Event, Event] | None = None

    async def carry_out(self, before: Iterable[RunLog]) -> None:
        """Carry out the run, and write its events to the log.

        Args:
            before: The logs of runs of the thread that wait, whose interrupts this one answers or abandons.
        """
        # Behind the block, which may have a lease to give back.
        refusal: Exception | None = None
        try:
            with self._scope:
                async with _turn_of_each(self._turns), AsyncExitStack() as stack:
                    try:
                        run = await self._entered(stack)
                    except Exception as error:
                        refusal = error
                    else:
                        for each in before:
                            each.settle(is_answered=self._is_answer_to(each, run))
                        if self.journal is not None:
                            await self.journal.begin(run)
                        await (self._write(run, stack) if self.ends_with is None else self._end_at_once(run, stack))
        except Exception:
            _logger.exception("run %s of thread %s", quoted(self.log.key.run_id), quoted(self.log.key.thread_id))
        finally:
            # The agent's conversation goes; what followers and answers need is in the log.
            self._run = None
            await self._conclude(refusal)
            for each in before:
                each.conclude(self.log.left_input, waits_again=self.waits_again)

    async def _conclude(self, refusal: Exception | None) -> None:
        """End the log of a run that was given up, refused, or stopped while it began, or that the event loop ends."""
        if self.is_given_up:
            self.log.drop()
        elif self.log.phase is LogPhase.OPENING and refusal is not None and self.ends_with is None:
            if self.earlier_attempts:
                # Its caller knows that it continues, so it has to have an end; what it answers waits again.
                self.answered_ids, self.waits_again = frozenset(), bool(self.input.resume) and not self._is_expiry
                key = self.log.key
                await self.finish(failure_event(refusal, key.run_id, key.thread_id, expose_errors=self.expose_errors))
            elif self.journal is None or await self.journal.withdraw():
                self.log.refuse(refusal)
            else:
                self.is_given_up = True
                self.log.drop()
        elif self.log.is_running:
            last = self.ends_with or self._last or (STOPPED if self._scope.cancel_called else SHUTTING_DOWN)
            if refusal is not None and self.ends_with is None:
                key = self.log.key
                last = failure_event(refusal, key.run_id, key.thread_id, expose_errors=self.expose_errors)
            await self.finish(last)

    def stop(self, last: RunErrorEvent | None = None) -> None:
        """Stop the run.

        Args:
            last: The run's last event, if its end is not a caller's wish.
        """
        self._last = self._last or last
        if self.ends_with is not None:
            return  # it ends as soon as its thread is free
        if self._run is not None:
            self._run.cancel()
        else:
            self._scope.cancel()

    def shut_down(self) -> None:
        """End the run with a RUN_ERROR that says why, as soon as the functions that were begun have ended."""
        self._end_after_functions(partial(self.stop, SHUTTING_DOWN))

    async def _entered(self, stack: AsyncExitStack) -> AgentRun:
        # The lease of a stored thread outlives the process that was killed.
        longest = _BUSY_SECONDS if self.ends_with is None else _BUSY_SECONDS_AT_END
        give_up_at = time.monotonic() + (0.0 if self.earlier_attempts is None else longest)
        while True:
            self._is_entering = True
            try:
                run = await self.enter(self.input, stack, self._cut)
            except Exception as error:
                # A served agent makes a refusal of it.
                is_busy = isinstance(error, ThreadBusyError) or isinstance(error.__cause__, ThreadBusyError)
                if not is_busy or self.is_given_up or time.monotonic() >= give_up_at:
                    raise
            else:
                if self.is_given_up:
                    run.call.leave_as_saved()
                    self._scope.cancel()
                return run
            finally:
                self._is_entering = False
            await anyio.sleep(_BETWEEN_ATTEMPTS)

    async def finish(self, last: Event, left_input: RunAgentInput | None = None) -> None:
        """End the run.

        Args:
            last: The terminal event.
            left_input: The conversation that the run leaves, for answers; None if it waits for none.
        """
        if self.journal is not None:
            await self.journal.end(last, left_input)
        if not self.is_given_up:
            self.log.left_input = left_input
            self.log.append(last)

    def leave(self) -> None:
        """Leave the run to another process, as soon as the functions that were begun have ended."""
        self._end_after_functions(self.give_up)

    def _end_after_functions(self, end: Callable[[], object]) -> None:
        if self._run is None:
            end()
        else:
            self._run.call.leaving.begin(end)

    def give_up(self) -> None:
        """Leave the run to another process: it is left without an end, and its followers with it."""
        self.is_given_up = True
        if self._run is not None:
            # The thread is as another process takes it: an end that is saved here would be the end of the run.
            self._run.call.leave_as_saved()
        if not self._is_entering:
            self._scope.cancel()

    async def _end_at_once(self, run: AgentRun, stack: AsyncExitStack) -> None:
        """Tell of the calls that the process before had begun, whose results are unknown, and end the run."""
        if run.call.given_results:
            started, *results = beginning_of(run)
            if self.log.phase is LogPhase.OPENING:
                self.log.open(run.messages, _state_of_caller(run))
                self.log.append(started)
            for each in results:
                self.log.append(each)
        # Its thread is saved with the results.
        await stack.aclose()

    async def _write(self, run: AgentRun, stack: AsyncExitStack) -> None:
        self._run = run
        is_first = self.log.phase is LogPhase.OPENING
        if is_first:
            self.log.open(run.messages, _state_of_caller(run))
        if self._scope.cancel_called:
            run.cancel()
        # The blocks are left before the run's last event is written: they may save the thread.
        events: AsyncGenerator[Event] = caller_events(
            run,
            expose_errors=self.expose_errors,
            block=aclosing(stack),
            stopped_with=lambda: self._last,
            before_end=partial(self._prepare_end, run) if self.journal is not None else None,
        )
        async with aclosing(events):
            number = 0
            async for event in events:
                if not is_first and isinstance(event, RunStartedEvent):
                    continue
                if isinstance(event, _ENDS):
                    await self._finish(event, run)
                elif self.log.phase is LogPhase.OPEN:
                    self.log.append(event)
                    if self._is_expiry and not number:
                        # The calls are denied by now, and the agent is about to be asked.
                        run.cancel()
                number += 1
                if number % _BEFORE_OTHERS == 0:
                    await anyio.lowlevel.checkpoint()

    def _is_answer_to(self, before: RunLog, run: AgentRun) -> bool:
        if self.answered_ids:
            return any(each.id in self.answered_ids for each in before.interrupts)
        # A program gives the answers to the agent itself.
        return not run.call.options.keys().isdisjoint(("resume", "tool_results"))

    async def _prepare_end(self, run: AgentRun, event: Event) -> None:
        """Have the end stored with the thread, before its block is left."""
        if self.journal is not None and self.log.phase is LogPhase.OPEN and not self.is_given_up:
            last = self._last_of(event, run)
            self._prepared = event, last
            await self.journal.prepare_end(last, _left(self.input, run, last))

    def _last_of(self, event: Event, run: AgentRun) -> Event:
        if self.answered_ids and status_after(event) in (RunStatus.FAILED, RunStatus.STOPPED):
            self.waits_again = not self._is_expiry and _has_used_nothing(self.answered_ids, run)
            self.answered_ids = _taken(self.answered_ids, run)
        until = self._answer_until()
        return event if until is None else _expiring(event, until)

    async def _finish(self, event: Event, run: AgentRun) -> None:
        prepared = self._prepared[1] if self._prepared is not None and self._prepared[0] is event else None
        last = prepared or self._last_of(event, run)
        if self.log.phase is LogPhase.OPEN and not self.is_given_up:
            await self.finish(last, _left(self.input, run, last))


@asynccontextmanager
async def _turn_of_each(limits: Iterable[anyio.CapacityLimiter]) -> AsyncGenerator[None]:
    """Take a turn of each of some limits, for a block."""
    async with AsyncExitStack() as stack:
        for each in limits:
            with counted("agui.store.queued_runs", _FOR_TURN):
                await stack.enter_async_context(each)
        yield


def _expiring(event: Event, at: datetime) -> Event:
    """Return the end of a run, with the time when its interrupts expire unless they do so before."""
    if not isinstance(event, RunFinishedEvent) or not (interrupts := interrupts_in(event)):
        return event
    expires_at = at.isoformat(timespec="seconds")
    outcome = RunFinishedInterruptOutcome(
        interrupts=[
            each if expires_before(each, at) else each.model_copy(update={"expires_at": expires_at})
            for each in interrupts
        ]
    )
    return event.model_copy(update={"outcome": outcome})


def _taken(answered_ids: frozenset[str], run: AgentRun) -> frozenset[str]:
    """Return those interrupts that a run which has failed has answered nevertheless; the others may be answered again.

    Args:
        answered_ids: The interrupts that the run was to answer, with the ids that the caller got.
    """
    own_ids = _own_ids(answered_ids, run)
    return frozenset(own_ids[each] for each in answered_before(run.call.conversation, own_ids))


def _has_used_nothing(answered_ids: frozenset[str], run: AgentRun) -> bool:
    """Return whether a run that has failed leaves all that it was to answer as it was.

    Args:
        answered_ids: The interrupts that the run was to answer, with the ids that the caller got.
    """
    conversation, own_ids = run.call.conversation, _own_ids(answered_ids, run)
    is_stored, messages = isinstance(run.call.request, StoredThreadRequest), run.messages
    if has_journal(run.state) and not is_stored:
        # Which of the members' calls its caller approved is not known: none may have been made.
        results = [each for each in messages if each.role == "tool" and each.id not in run.call.known_ids]
        if results or open_calls(messages):
            return False
    open_ids = {each.id for each in conversation.open_interrupts}
    asked = {own_id(each) for each in own_ids if is_of_agent(each)}
    return asked <= open_ids and not any(answered_before(conversation, own_ids))


def _own_ids(answered_ids: frozenset[str], run: AgentRun) -> dict[str, str]:
    """Return the ids that a caller got, by those that were signed."""
    return {each if run.signer is None else run.signer.verified(each): each for each in answered_ids}


def _state_of_caller(run: AgentRun) -> object:
    """Return the state of a run as its caller has it."""
    return without_journal(run.state)


def _left(input: RunAgentInput, run: AgentRun, last: Event) -> RunAgentInput | None:
    """Return an input for answers to the interrupts that a run has left, with the conversation if it is stored nowhere.

    Args:
        input: The input that asked for the run.
        last: Its terminal event.

    Returns:
        The input; None if nothing waits for answers.
    """
    is_stored = isinstance(run.call.request, StoredThreadRequest)
    # Members of a team that failed have done part of their work, which is not done again when it continues.
    has_failed = status_after(last) in (RunStatus.FAILED, RunStatus.STOPPED)
    if not interrupts_in(last) and (is_stored or not has_failed or not has_journal(run.state)):
        return None
    messages, state = ([], None) if is_stored else (run.messages, run.state)
    return input.model_copy(update={"messages": messages, "state": state, "resume": None, "parent_run_id": None})
