"""A call as one run of a served agent's caller, whatever number of rounds it takes (TOOL-8, USAGE-3).

The caller sees one RUN_STARTED and one RUN_FINISHED, with the ids of the first round. Calls of tools that the caller
declared stay pending in its run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
from agui_client._core.protocol.traits import STATE_EVENTS
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
"""The statuses of a server behind the app that a caller is told: what it does about them differs."""
_logger = logging.getLogger("agui_client.sse")


class Reader:
    """Who reads the events of a generator: a block in it, left inside all others, that notes when nobody does any more.

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
    usage: list[TokenUsage] = []
    last: RunFinishedEvent | RunErrorEvent | None = None
    thread_id, run_id, ends = "", "", list["Event"]()
    one, reader = MergedRun(), Reader()
    try:
        async with (
            block or nullcontext(),
            nullcontext() if run.is_entered else run,
            aclosing(_in_one_run(run, one)) as events,
            reader,
        ):
            thread_id, run_id = run.thread_id, run.run_id
            async for event in events:
                # By the type itself, here and below: every event passes, and `isinstance` asks a metaclass.
                if type(event) is RunFinishedEvent or type(event) is RunErrorEvent:
                    # Not the caller's end if tools have answered, and another round follows.
                    last = event
                    usage += event.usage or ()
                elif type(event) is SubagentErrorEvent:
                    yield reported_error(event, run, expose_errors=expose_errors)
                else:
                    yield event
            error = stopped_with() if stopped_with else None
            last = error if error and _is_cut(run) else caller_end(run, last, takes_custom_events=True)
            if before_end is not None:
                ends = _last_events(run, one, last, usage, {"thread_id": thread_id, "run_id": run_id})
                while len(ends) > 1:
                    yield ends.pop(0)
                await before_end(ends[0])
    except Exception as error:
        if reader.has_left:
            raise
        last = _failure(error, last, run, run_id, thread_id, expose_errors=expose_errors)
        ends = []
    for event in ends or _last_events(run, one, last, usage, {"thread_id": thread_id, "run_id": run_id}):
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
    one: MergedRun,
    last: RunFinishedEvent | RunErrorEvent,
    usage: Sequence[TokenUsage],
    ids: Mapping[str, str],
) -> list[Event]:
    """Return the caller's terminal event, behind the ends of all that the run has left open if it was stopped.

    Args:
        one: The names and owners in the caller's run.
        last: The terminal event.
        usage: The tokens that its rounds reported.
        ids: The ids of the caller's thread and run.
    """
    if run.is_entered:
        usage = [*usage, *run.call.unreported_usage]
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
    # The version of whoever produces the events that the caller reads (VER-3).
    ids: dict[str, Any] = {"thread_id": run.thread_id, "run_id": run.run_id, "protocol_version": PROTOCOL_VERSION}
    if (request := run.call.request) is not None and request.left_branch is not None:
        ids["metadata"] = {**(started.metadata or {}), EXTENSION: {LEFT_BRANCH: request.left_branch}}
    started = started.model_copy(update=ids)
    return [started, *map(event_of_result, run.call.given_results)]


async def _in_one_run(run: AgentRun, one: MergedRun) -> AsyncGenerator[Event]:
    """Iterate a run as one, behind its beginning, with the messages of echoed inputs that its caller does not have.

    What else an input has, this side has sent. Custom events that ask come at the end, without those that the
    application's `answer=` has answered.

    Args:
        run: The run, entered.
        one: The names and owners in the caller's run.
    """
    known, questions, has_begun = run.call.conversation.messages, list["Event"](), False
    has_answerer = run.call.agent_options.get("answer") is not None
    run.call.has_caller = True
    async with aclosing(_shown_events(run)) as events:
        async for event in events:
            is_start = type(event) is RunStartedEvent
            if is_start:
                one.begin()
                questions = []  # of the round before
            if is_start or not has_begun:
                for each in _beginning(run, one, event, known, is_first=not has_begun):
                    yield each
                has_begun = True
            if is_start:
                continue
            if has_answerer and type(event) is CustomEvent and event.name == ON_INTERRUPT:
                questions.append(one.feed(event))
            else:
                yield one.feed(event)
    for event in questions if has_begun else map(one.feed, beginning_of(run)):
        yield event


def _beginning(run: AgentRun, one: MergedRun, event: Event, known: Sequence[Message], *, is_first: bool) -> list[Event]:
    """Return what the caller gets for the start of a round: the start of its run, or echoed messages.

    Args:
        run: The run, entered.
        one: The names and owners in the caller's run.
        event: The first event of the call, or the start of a later round.
        known: Messages that the caller has.
        is_first: Whether the caller's run begins with it.
    """
    echoed = list["Message"]()
    if isinstance(event, RunStartedEvent):
        echoed = one.echoed(event, known, run.call.round.input.messages)
        restated = RunAgentInput(thread_id=event.thread_id, run_id=event.run_id, messages=echoed) if echoed else None
        event = event.model_copy(update={"input": restated})
    if is_first:
        return list(map(one.feed, beginning_of(run, event)))
    return [MessagesSnapshotEvent(messages=one.messages(run.call.conversation.messages))] if echoed else []


async def _shown_events(run: AgentRun) -> AsyncGenerator[Event]:
    """Iterate a run without the journal of a team, which stays here: in the thread, or in the memory of the app."""
    conversation = run.call.conversation
    journal = WithoutJournal(conversation.state)
    try:
        async with aclosing(_with_state(run)) as events:
            async for event in events:
                if type(event) not in STATE_EVENTS:
                    yield event
                elif (shown := journal.shown(event, conversation.state)) is not None:
                    yield shown
    finally:
        # However the run ends: members that are done are not asked again.
        if run.journal_place is not None:
            run.journal_place.keep(conversation.state, conversation.messages)


async def _with_state(run: AgentRun) -> AsyncGenerator[Event]:
    """Iterate a run, with a snapshot of a stored thread's state where no event has told its caller of it.

    Where one stream has several runs, what a failed one left open is ended before the next. The agent sends none of
    what other callers have changed meanwhile, and of what functions here change.

    Args:
        run: The run, entered.
    """
    conversation, request = run.call.conversation, run.call.request
    known = ABSENT if request is None else request.state_of_caller
    is_stored, left_open = known is not ABSENT, list["Event"]()
    async for event in run:
        if type(event) is RunErrorEvent:
            left_open = run.call.round.pipeline.verifier.ends(_FOLLOWED)
        elif type(event) is RunStartedEvent:
            for end in left_open:
                yield end
            left_open = []
        if is_stored and type(event) in STATE_EVENTS:
            known = without_journal(conversation.agent_state)
        yield event
        is_start = type(event) is RunStartedEvent
        if is_stored and is_start and not is_same_json(known, state := without_journal(conversation.state)):
            yield StateSnapshotEvent(snapshot=(known := state))
    if is_stored and not is_same_json(known, state := without_journal(conversation.state)):
        yield StateSnapshotEvent(snapshot=state)


def _is_cut(run: AgentRun) -> bool:
    """Return whether a run that was stopped here had no end, or would have continued with tools of this side."""
    result, own_names = run.partial, run.call.tools.own_names
    is_going_on = any(call.function.name in own_names for call in result.pending_tool_calls)
    return result.aborted or (run.call.state.is_stopped and is_going_on)


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
