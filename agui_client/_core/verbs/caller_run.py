"""A call as one run of a served agent's caller, whatever number of rounds it takes (TOOL-8, USAGE-3).

The caller sees one RUN_STARTED and one RUN_FINISHED, with the ids of the first round. Calls of tools that the caller
declared stay pending in its run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from ag_ui.core import (
    PROTOCOL_VERSION,
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    aggregate_token_usage,
)

from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.ground.plain_text import metadata_with_retry_after, printable, retry_after_in
from agui_client._core.protocol.custom_interrupts import ON_INTERRUPT
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.outcome import LEFT_BRANCH
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.placeholders import EXTENSION
from agui_client._core.protocol.traits import DELTAS, STATE_EVENTS
from agui_client._core.run.subagents import without_journal
from agui_client._core.run.turn_input import event_of_result
from agui_client._core.transport.retry import retry_after
from agui_client._core.verbs.caller_interrupts import interrupts_of
from agui_client._core.verbs.one_run import MergedRun
from agui_client._core.verbs.team_journals import WithoutJournal
from agui_client.errors import (
    ConnectTimeoutError,
    HTTPStatusError,
    IncompleteRunError,
    ProtocolError,
    RunFailedError,
    StreamTimeoutError,
    ThreadBusyError,
    ThreadStoreUnavailableError,
    TransportError,
    UnexpectedContentTypeError,
)

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, TokenUsage

    from agui_client._core.verbs.async_run import AgentRun

Failure = TypeVar("Failure", bound=RunErrorEvent | SubagentErrorEvent)

_FAILED = "The agent failed; the server's log has the reason."
_FOLLOWED = "The run failed, and another one followed it."
_STOPPED = "The run was stopped."
_CODES: Mapping[type[Exception], str] = {
    ThreadStoreUnavailableError: "store_unavailable",
    ThreadBusyError: "thread_busy",
    StreamTimeoutError: "upstream_timeout",
    ConnectTimeoutError: "upstream_timeout",
    HTTPStatusError: "upstream_refused",
    UnexpectedContentTypeError: "upstream_invalid",
    TransportError: "upstream_unreachable",
    IncompleteRunError: "upstream_incomplete",
    ProtocolError: "upstream_invalid",
}
"""The codes by which callers and alerts tell failures apart, narrower classes first; see docs/serving-reference.md."""
_STATUSES_OF_CODES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)
"""The statuses of a server behind the app that are passed on to a caller, which handles each in another way."""
_logger = logging.getLogger("agui_client.sse")


class Reader:
    """The reader of a generator: a block in it, left inside all others, that notes when nobody reads any more.

    Whatever fails as the other blocks are left then is raised: a generator that is closed must not yield a last event.
    """

    has_left = False
    """Whether the generator was closed before it came to its end."""

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Note whether the generator is being closed."""
        self.has_left = kind is GeneratorExit


async def caller_events(
    run: AgentRun,
    *,
    expose_errors: bool = False,
    block: AbstractAsyncContextManager[object] | None = None,
    stopped_with: Callable[[], RunErrorEvent | None] | None = None,
    before_end: Callable[[Event], Awaitable[None]] | None = None,
) -> AsyncGenerator[Event]:
    """Iterate a call as one run of its caller, whatever number of rounds it takes.

    Args:
        run: The run, entered or not.
        expose_errors: Whether the caller gets the text of exceptions.
        block: Left when the run is over and its last event is not sent yet; a failure of it is one of the run.
        stopped_with: Returns the last event of a run that the server has stopped for a reason of its own, such as its
            own end; None if its caller or the application has.
        before_end: Called with the last event before the block is left, whose failure is another end of the run.

    Yields:
        One RUN_STARTED, the events of all rounds, and one RUN_FINISHED or RUN_ERROR. What a run that was stopped has
        left open is closed before its RUN_FINISHED (LIFE-5); RUN_ERROR closes it itself (LIFE-6).
    """
    last: RunFinishedEvent | RunErrorEvent | None = None
    thread_id, run_id, ends = "", "", list["Event"]()
    rounds, reader = _Rounds(run, expose_errors=expose_errors), Reader()
    try:
        async with (
            block or nullcontext(),
            nullcontext() if run.is_entered else run,
            rounds,
            reader,
        ):
            thread_id, run_id = run.thread_id, run.run_id
            async for event in run:
                if rounds.passes(event):
                    yield event
                    continue
                for each in rounds.feed(event):
                    yield each
            for each in rounds.end():
                yield each
            error = stopped_with() if stopped_with else None
            last = error if error and _is_cut(run) else caller_end(run, rounds.last, takes_custom_events=True)
            if before_end is not None:
                ends = _last_events(run, rounds, last, {"thread_id": thread_id, "run_id": run_id})
                while len(ends) > 1:
                    yield ends.pop(0)
                await before_end(ends[0])
    except Exception as error:
        if reader.has_left:
            raise
        last = _failure(error, last or rounds.last, run, run_id, thread_id, expose_errors=expose_errors)
        ends = []
    for event in ends or _last_events(run, rounds, last, {"thread_id": thread_id, "run_id": run_id}):
        yield event


def _failure(
    error: Exception, last: Event | None, run: AgentRun, run_id: str, thread_id: str, *, expose_errors: bool
) -> RunErrorEvent:
    """Return the RUN_ERROR of a run that failed: the agent's own if it sent one."""
    if isinstance(error, RunFailedError) and isinstance(last, RunErrorEvent):
        return reported_error(last, run, expose_errors=expose_errors)
    return failure_event(error, run_id, thread_id, expose_errors=expose_errors)


def _last_events(
    run: AgentRun,
    rounds: _Rounds,
    last: RunFinishedEvent | RunErrorEvent,
    ids: Mapping[str, str],
) -> list[Event]:
    """Return the caller's terminal event, behind the ends of all that the run has left open if it was stopped.

    Args:
        rounds: The rounds of the run.
        last: The terminal event.
        ids: The ids of the caller's thread and run.
    """
    usage, one = [*rounds.usage, *(run.call.unreported_usage if run.is_entered else ())], rounds.one
    last = last.model_copy(update={"usage": aggregate_token_usage(usage) or None})
    if isinstance(last, RunErrorEvent):
        return [one.feed(last)]
    return list(map(one.feed, [*run.call.round.pipeline.verifier.ends(_STOPPED), last.model_copy(update=ids)]))


def reported_error(event: Failure, run: AgentRun, *, expose_errors: bool) -> Failure:
    """Return the RUN_ERROR or SUBAGENT_ERROR of an agent as its caller gets it.

    An agent of this process speaks to the caller; what a server elsewhere has said, also that of a member, is for its
    client, and is logged.
    """
    is_of_server = not run.call.agent.is_local or event.message in run.call.round.remote_texts
    if expose_errors or not is_of_server:
        return event
    _logger.error("run %s of thread %s failed: %s", quoted(run.run_id), quoted(run.thread_id), printable(event.message))
    # What a team adds about a member stays, the rest of what a server has said does not.
    keeps = run.call.agent.is_local and isinstance(event, SubagentErrorEvent)
    about = event.metadata if keeps else metadata_with_retry_after(retry_after_in(event.metadata))
    changes: Mapping[str, object] = {
        "message": _FAILED,
        "code": event.code or "upstream_failed",
        "metadata": about,
        "raw_event": None,
    }
    copied: Failure = cast("Any", event.model_copy(update=changes))
    return copied


def failure_event(error: Exception, run_id: str, thread_id: str, *, expose_errors: bool) -> RunErrorEvent:
    """Log an exception, and return the event that reports it.

    Args:
        error: The exception.
        run_id: The run that failed.
        expose_errors: Whether the caller gets the text of the exception.
    """
    _logger.error("run %s of thread %s failed", quoted(run_id), quoted(thread_id), exc_info=error)
    raised = (error.raised if isinstance(error, RunFailedError) else None) or error
    code = next((code for kind, code in _CODES.items() if isinstance(raised, kind)), "agent_failed")
    seconds = raised.retry_after if isinstance(raised, RunFailedError) else None
    if isinstance(raised, HTTPStatusError):
        seconds = retry_after(raised)
        code = f"upstream_{raised.status_code}" if raised.status_code in _STATUSES_OF_CODES else code
    message = f"{type(raised).__name__}: {raised}" if expose_errors else _FAILED
    return RunErrorEvent(message=message, code=code, metadata=metadata_with_retry_after(seconds))


def beginning_of(run: AgentRun, first: Event | None = None) -> list[Event]:
    """Return the caller's RUN_STARTED, and the results that came with the run, before the agent's own events.

    Args:
        run: The run, entered.
        first: Its first event; results of calls that were approved come before the agent's RUN_STARTED. None if there
            is none, as the run asks or ends before the agent is asked.
    """
    started = first if isinstance(first, RunStartedEvent) else RunStartedEvent(thread_id="", run_id="")
    # The version of the producer of the events that the caller reads (VER-3).
    ids: dict[str, Any] = {"thread_id": run.thread_id, "run_id": run.run_id, "protocol_version": PROTOCOL_VERSION}
    if (request := run.call.request) is not None and request.left_branch is not None:
        ids["metadata"] = {**(started.metadata or {}), EXTENSION: {LEFT_BRANCH: request.left_branch}}
    started = started.model_copy(update=ids)
    return [started, *map(event_of_result, run.call.given_results)]


class _Rounds:
    """The rounds of a call as one run of its caller: a block around their events, which is fed with each of them.

    Behind the beginning come the messages of echoed inputs that the caller does not have; what else an input has, this
    side has sent. Custom events that ask come at the end, without those that the application's `answer=` has answered.
    What a failed round left open is ended before the next one.

    Of a stored thread, a snapshot sends the caller the state that no event has sent: the agent sends none of what
    other callers have changed meanwhile, and of what functions here change. The journal of a team stays here, in the
    thread or in the memory of the app.

    Args:
        run: The run, entered when the block is.
        expose_errors: Whether the caller gets the text of exceptions.
    """

    def __init__(self, run: AgentRun, *, expose_errors: bool) -> None:
        self._run, self._expose_errors = run, expose_errors
        self.one = MergedRun()
        """The names and owners in the caller's run."""
        self.last: RunFinishedEvent | RunErrorEvent | None = None
        """The last terminal event of a round: not the caller's end if tools have returned, and another one follows."""
        self.usage: list[TokenUsage] = []
        """The tokens that the rounds reported."""
        self._questions, self._left_open = list["Event"](), list["Event"]()
        self._has_begun = False

    async def __aenter__(self) -> Self:
        """Begin with the conversation as it is."""
        call = self._run.call
        self._conversation = call.conversation
        self._known_messages = call.conversation.messages
        self._known_state = ABSENT if call.request is None else call.request.state_of_caller
        self._is_stored = self._known_state is not ABSENT
        self._journal = WithoutJournal(call.conversation.state)
        self._place = self._run.journal_place
        self._has_answerer = call.agent_options.get("answer") is not None
        call.has_caller = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Keep the journal however the run ends: members that are done are not asked again."""
        self._keep_journal()

    def passes(self, event: Any) -> bool:
        """Return whether an event is the caller's as it is: a piece of the agent's own, as nearly every event."""
        return self._has_begun and type(event) in DELTAS and event.subagent_run_id is None

    def feed(self, event: Event) -> Iterator[Event]:
        """Yield what the caller gets for an event of a round."""
        if type(event) is RunErrorEvent:
            self._left_open = self._run.call.round.pipeline.verifier.ends(_FOLLOWED)
        elif type(event) is RunStartedEvent:
            for end in self._left_open:
                yield from self._shown(end)
            self._left_open = []
        if self._is_stored and type(event) in STATE_EVENTS:
            self._known_state = without_journal(self._conversation.agent_state)
        yield from self._shown(event)
        if type(event) is RunStartedEvent:
            yield from self._untold_state()

    def end(self) -> Iterator[Event]:
        """Yield what the caller gets behind the last round."""
        yield from self._untold_state()
        self._keep_journal()
        yield from self._questions if self._has_begun else map(self.one.feed, beginning_of(self._run))

    def _keep_journal(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.keep(self._conversation.state, self._conversation.messages)

    def _untold_state(self) -> Iterator[Event]:
        if self._is_stored:
            state = without_journal(self._conversation.state)
            if not is_same_json(self._known_state, state):
                self._known_state = state
                yield from self._shown(StateSnapshotEvent(snapshot=state))

    def _shown(self, event: Event) -> Iterator[Event]:
        if type(event) in STATE_EVENTS:
            shown = self._journal.shown(event, self._conversation.state)
            if shown is None:
                return
            event = shown
        is_start = type(event) is RunStartedEvent
        if is_start:
            self.one.begin()
            self._questions = []  # of the round before
        if is_start or not self._has_begun:
            yield from self._beginning(event)
            self._has_begun = True
        if is_start:
            return
        event = self.one.feed(event)
        match event:
            case RunFinishedEvent() | RunErrorEvent():
                self.last = event
                self.usage += event.usage or ()
            case SubagentErrorEvent():
                yield reported_error(event, self._run, expose_errors=self._expose_errors)
            case CustomEvent(name=name) if name == ON_INTERRUPT and self._has_answerer:
                self._questions.append(event)
            case _:
                yield event

    def _beginning(self, event: Event) -> list[Event]:
        """Return what the caller gets for the start of a round: the start of its run, or echoed messages."""
        run, one, echoed = self._run, self.one, list["Message"]()
        if isinstance(event, RunStartedEvent):
            echoed = one.echoed(event, self._known_messages, run.call.round.input.messages)
            restated = (
                RunAgentInput(thread_id=event.thread_id, run_id=event.run_id, messages=echoed) if echoed else None
            )
            event = event.model_copy(update={"input": restated})
        if not self._has_begun:
            return list(map(one.feed, beginning_of(run, event)))
        return [MessagesSnapshotEvent(messages=one.messages(self._conversation.messages))] if echoed else []


def _is_cut(run: AgentRun) -> bool:
    """Return whether a run that was stopped here had no end, or would have continued with tools of this side."""
    result, own_names = run.partial, run.call.tools.own_names
    continues = any(call.function.name in own_names for call in result.pending_tool_calls)
    return result.aborted or (run.call.state.is_stopped and continues)


def caller_end(
    run: AgentRun, last: RunFinishedEvent | RunErrorEvent | None, *, takes_custom_events: bool = False
) -> RunFinishedEvent:
    """Return the caller's RUN_FINISHED for a run that did not fail.

    It is cancelled if the run was stopped here, has interrupts if approvals or questions wait, and names the calls for
    which a run that sent nothing still waits.

    Args:
        last: The last terminal event of the agent; None if it sent none.
        takes_custom_events: Whether the caller gets interrupts that came in custom events as these alone: a page that
            knows them does not answer them once it sees an outcome.
    """
    finished = last if isinstance(last, RunFinishedEvent) else None
    outcome = finished.outcome if finished else None
    if finished is not None and outcome is None and not takes_custom_events:
        outcome = run.call.round.outcome.outcome
    held_up = run.call.conversation.pending_interrupts if finished is None else []
    asked = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else held_up
    interrupts = interrupts_of(run, asked, is_finished=finished is not None)
    last = finished or RunFinishedEvent(thread_id=run.thread_id, run_id=run.run_id)
    if run.partial.aborted or (finished is None and not interrupts):
        # Nothing was sent, as other calls of the caller wait for their results.
        waiting = [] if run.partial.aborted else [each.id for each in run.partial.pending_tool_calls]
        named = RunFinishedSuccessOutcome(pending_tool_call_ids=waiting)
        return last.model_copy(update={"outcome": named if waiting else RunFinishedCancelledOutcome()})
    if not interrupts:
        return last
    return last.model_copy(update={"outcome": RunFinishedInterruptOutcome(interrupts=interrupts)})
