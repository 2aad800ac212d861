"""The end of a run: the verdict on its stream, what it leaves, and the function that stops the server's work.

Only a terminal event of its last run makes a stream a success (TRUNC-1). `on_abort` is called when this side left a run
that was sent. A checkpoint is the conversation as it would be if the program ended now, to be saved when something must
not be lost; it shares messages and state with the conversation, so that it costs little on long threads.

To change

- how often a conversation is saved while events arrive: `Saving` here
- what an error quotes of an answer that holds no event: `_with_beginning` here; `HttpSource.beginning` keeps it, and
  `words_in` in `_core/protocol/problems.py` leaves out what may be an event or hold a secret
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy
from agui_client._core.conversation.settling import settle_conversation, warn_of_changed_interrupts
from agui_client._core.conversation.snapshot import ConversationSnapshot, document_of
from agui_client._core.conversation.state_base import state_hash
from agui_client._core.ground.concurrency import call_aside, whole
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import printable
from agui_client._core.protocol.open_items import listed, quoted
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.result import pending_calls
from agui_client._core.run.subagents import has_journal, is_of_subagent
from agui_client.errors import (
    AGUIError,
    ConnectError,
    DecodeError,
    IncompleteRunError,
    ProtocolError,
    RunFailedError,
    StreamTimeoutError,
    TransportError,
    UsageError,
)

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry, ToolMessage

    from agui_client._core.run.call import Call
    from agui_client._core.run.hooks import HookContext
    from agui_client._core.run.round import Run
    from agui_client._core.run.run_loop import RunLoop
    from agui_client._core.tools.toolset import OfferedTool

OnAbort: TypeAlias = "Callable[[HookContext], Awaitable[Any] | Any]"
"""Called when a run is left before its end, for servers that have a way to stop one; a plain function in a thread."""

_ABORT_SECONDS = 5.0
"""The longest time that leaving a run may take because of `on_abort`."""

_ENDED_ELSEWHERE = (TransportError, IncompleteRunError, RunFailedError, UsageError)
"""Failures after which the agent is done with the run, was not reached, or cannot be."""

_logger = logging.getLogger("agui_client")
_run_logger = logging.getLogger("agui_client.run")


def verdict(run: Run) -> AGUIError | None:
    """Return the failure of a run whose stream ended by itself; None if the run finished."""
    pipeline = run.pipeline
    if run.is_replay and not pipeline.count:
        return None
    try:
        pipeline.verifier.finish()
    except ProtocolError as error:
        return _with_beginning(run, error)
    reported = pipeline.outcome.error
    return None if reported is None else RunFailedError(reported)


def _with_beginning(run: Run, error: ProtocolError) -> ProtocolError:
    """Return the failure of a run; of an answer that held no event at all, with its address and its words."""
    if run.pipeline.count or not run.requests or not isinstance(error, DecodeError | IncompleteRunError):
        return error
    error.args = (f"{error.problem}; {run.requests[-1].beginning}",)
    return error


def verdict_on_break(run: Run, error: Exception, *, is_aborted: bool) -> Exception | None:
    """Return the failure of a run whose stream ended in an exception; None if the run had finished before.

    A connection that breaks or falls silent after a terminal event has lost nothing, and an exception of an agent that
    was stopped is no failure.

    Args:
        run: The run.
        error: The exception.
        is_aborted: Whether the run was stopped from here.
    """
    if is_aborted:
        _logger.warning("a run was aborted, and then raised %r", error)
        return None
    if isinstance(error, TransportError):
        # Its way through the transport says nothing that its message does not.
        error = error.with_traceback(None)
    if not isinstance(error, ConnectError | StreamTimeoutError) or run.outcome.first_event_at is None:
        return _with_beginning(run, error) if isinstance(error, ProtocolError) else error
    if error.member is not None:
        # The connection of a member of a team, and not the one that the events came by.
        return error
    failure = verdict(run)
    if not isinstance(failure, IncompleteRunError):
        run.warnings.add("TRUNC-1", f"after the run had ended, {error}")
        return failure
    if isinstance(error, StreamTimeoutError):
        return error
    cut = IncompleteRunError(
        f"the run was cut off, as {error.problem}. {failure.problem}", rule=failure.rule, fix=failure.fix
    )
    cut.__cause__ = error
    return cut


def settle(call: Call, failure: Exception | None, *, is_whole: bool) -> None:
    """Let the conversation have what a run left; one that never started leaves the conversation as it was.

    This is the only place where a run changes what is pending.

    Args:
        call: The call.
        failure: The exception that the run failed with; None if it did not fail.
        is_whole: Whether the events of the run were read to their end.
    """
    outcome, conversation, request = call.round.outcome, call.conversation, call.request
    if call.is_replay:
        has_ended = is_whole and isinstance(failure, RunFailedError | None) and outcome.is_terminal
        if missing := conversation.lacks(outcome.missing_ids):
            what = f"the server's thread does not have the messages {listed([*map(quoted, missing)])}"
            call.warnings.add("LIFE-13", f"{what}, which stay in this one; send again what it should answer")
        if not _has_replayed(call.round, has_ended=has_ended):
            return
        warn_of_changed_interrupts(conversation, outcome.interrupts, call.warnings)
    if request is not None and call.round.source is not None and not outcome.is_finished:
        conversation.note_unfinished(may_have_started=call.round.may_have_started)
    if outcome.started is not None:
        adopt_pending(call, conversation, call.warnings)
        if call.is_replay:
            conversation.answered_interrupts = []  # a replay answers nothing: what failed has asked nothing (SET-8)
        # A run that was cut off may have left the server with another state than this side saw last.
        is_known = outcome.is_finished and not call.is_replay and call.round.takes_state_base
        conversation.state_base = state_hash(conversation.agent_state) if is_known else None
    elif len(call.rounds) > 1:
        # A later run of the call could not be sent: the answers to interrupts go out with the next one.
        conversation.keep_answers(call.round.input.resume or ())
    elif request is not None:
        request.undo()


def adopt_pending(call: Call, conversation: Conversation, warnings: WarningLog) -> None:
    """Let a conversation have what a run that started left pending.

    Args:
        call: The call.
        conversation: Its conversation, or a branch of that.
        warnings: The log that gets the waiting calls that the run changed.
    """
    run, offered = call.round, call.tools.offered
    is_team = has_journal(conversation.agent_state)
    sides = {
        each.id: _answered_by(offered.get(each.function.name), is_of_member=is_team or _is_of_member(run, each.id))
        for each in pending_calls(run)
    }
    settle_conversation(conversation, run.outcome, run.pipeline.verifier, sides, warnings, run_id=run.input.run_id)


def _is_of_member(run: Run, tool_call_id: str) -> bool:
    """Return whether a call is one of a subagent, and was not named to the caller; a team's server has its journal."""
    return tool_call_id not in (run.outcome.named_pending or ()) and is_of_subagent(run.conversation, tool_call_id)


def _answered_by(tool: OfferedTool | None, *, is_of_member: bool) -> AnsweredBy:
    """Return the side that answers a call of a tool which a run left.

    Args:
        tool: The tool; None for one that was not offered.
        is_of_member: Whether a member of a team made the call, whose own tools nobody has offered here.
    """
    if tool is None:
        return AnsweredBy.AGENT if is_of_member else AnsweredBy.CALLER
    return AnsweredBy.CALLER if tool.toolset is None else AnsweredBy.APPLICATION


def _has_replayed(run: Run, *, has_ended: bool) -> bool:
    """End a replay; return whether its thread is the conversation now."""
    run.is_behind = run.conversation.end_replay(has_ended=has_ended, is_whole=bool(run.outcome.missing_ids))
    if run.is_behind:
        what = "the replay stopped after a run, before it came as far as the local thread, which stays"
        run.warnings.add("TRUNC-1", what)
    return has_ended and not run.is_behind


def may_still_run(failure: Exception | None, *, has_abandoned_run: bool) -> bool:
    """Return whether the agent may still be working on a run that is over on this side.

    Args:
        failure: The exception that it failed with; None if it did not fail.
        has_abandoned_run: Whether the run was stopped from here, or a wait for it was cancelled.
    """
    # The server of a run that timed out does not know, and works on.
    if has_abandoned_run or isinstance(failure, StreamTimeoutError):
        return True
    if isinstance(failure, RunFailedError) and failure.raised is not None:
        return True
    return failure is not None and not isinstance(failure, _ENDED_ELSEWHERE)


async def call_on_abort(on_abort: OnAbort, context: HookContext) -> None:
    """Call the function, whatever is being cancelled around it; if it fails or takes too long, that is only logged.

    Args:
        on_abort: The function.
        context: The run that was left.
    """
    # Shielded, as the run was often left by a cancellation; bounded, as a program that ends waits for it.
    with anyio.move_on_after(_ABORT_SECONDS, shield=True) as scope:
        try:
            await call_aside(partial(on_abort, context), "on_abort")
        except Exception:
            _run_logger.exception("on_abort of run %s failed", printable(context.run_id))
    if scope.cancelled_caught:
        run_id = printable(context.run_id)
        _run_logger.warning("on_abort of run %s took longer than %g s, and was given up", run_id, _ABORT_SECONDS)


SAVE_SECONDS = 1.0
"""The time between two saves while events arrive."""
_SLOW_SAVES, _LONGEST_PAUSE = 20, 5
"""The pause of slow saves: the time between two of them, in times that one takes, and its bound, in usual times."""


@dataclass(frozen=True, slots=True)
class Checkpoint(Record):
    """A conversation as it would be if the program ended now."""

    members: Mapping[str, Any]
    """The members of its `ConversationSnapshot`; messages and state are shared, and to be read only."""
    results: Sequence[ToolMessage] = ()
    """Results of tools that the application executed, which are not among the messages yet."""
    run_id: str | None = None
    """The id of the run that is sent or going on; None between runs. If the program ends now, the end
    of that run is unknown."""
    resume: Sequence[ResumeEntry] = ()
    """The answers to interrupts that the run carries, as long as it is unknown whether the agent got them."""
    call_id: str | None = None
    """The id of the first run of the call that is going on; None if the call is about to end, or there is none. A
    program that takes the call up finds its place by it."""
    position: int = 0
    """The number of events that the call's log had where the call goes on from this; 0 without a log."""
    is_at_end: bool = False
    """Whether the call is about to end; otherwise it may next send a run, call a function or ask a person."""

    def snapshot(self) -> ConversationSnapshot:
        """Return the conversation as a document that can be restored, with the results in it."""
        document = document_of(self.members)
        if not self.results:
            return document
        conversation = Conversation(document.thread_id)
        conversation.restore(document)
        conversation.add_results(self.results, are_own=True)
        return conversation.snapshot()


Save: TypeAlias = Callable[[Checkpoint], Awaitable[None]]
"""Saves a conversation; the call waits for it, and fails if it fails."""


class Saving:
    """Has the conversation of a call saved, if the agent says how.

    Args:
        call: The call.
        loop: The event loop for asynchronous work.
    """

    def __init__(self, call: Call, loop: RunLoop) -> None:
        self._call, self._loop = call, loop
        self._next_at = 0.0
        self._saved: Checkpoint | None = None
        self._failure: Exception | None = None

    async def save(self, following: str | None = None, *, is_at_end: bool = False) -> None:
        """Save the conversation; during a replay, which asks nothing and changes nothing, there is no need.

        Args:
            following: The id of the run that is sent next, if the save is also the one before that; None if it is not.
            is_at_end: Whether the call is about to end.

        Raises:
            Exception: The first failure to save in this call.
        """
        call = self._call
        # What a durable run goes on from comes first: where the program ends between the two, its thread catches up.
        saves = [each for each in (call.also_save, call.save) if each is not None]
        if not saves or (call.is_replay and call.state.is_run_open):
            return
        began = perf_counter()
        self._next_at = began + SAVE_SECONDS
        checkpoint = replace(checkpoint_of(call, following), is_at_end=is_at_end)
        # No place to go on from: the call is over here, and all that was said and done in it was saved before.
        checkpoint = replace(checkpoint, call_id=None) if is_at_end else checkpoint
        # Nearly always a run is sent, and the block left, with what the last save has. While events arrive they change
        # state and messages in place, so that two checkpoints of that time cannot be compared.
        is_changing = call.state.is_run_open and call.round.outcome.first_event_at is not None
        if not is_changing and checkpoint == self._saved:
            return
        try:
            for save in saves:
                await whole(self._loop.call(save, checkpoint))
            self._saved = checkpoint
            # A save is slow where many are made: fewer of them make each one faster, and events wait for none of them
            # longer than a twentieth of the time.
            took = perf_counter() - began
            self._next_at = began + min(max(SAVE_SECONDS, _SLOW_SAVES * took), _LONGEST_PAUSE * SAVE_SECONDS)
        except Exception as error:
            # One failure is enough for a call; the steps of its end are tried all the same.
            self._failure = self._failure or error
            # With its own cause: `raise` inside of a handler would give it the later failure's.
            raise self._failure from self._failure.__cause__

    async def sometimes(self) -> None:
        """Save the conversation unless that was done just now: events arrive one after the other."""
        if perf_counter() > self._next_at:
            await self.save()


def checkpoint_of(call: Call, following: str | None = None) -> Checkpoint:
    """Return the conversation as it would be if the program ended now: a run that is going on is cut off.

    Args:
        call: The call.
        following: The id of the run that is sent next, after one that is over, to count as sent; None for the present.
    """
    conversation = call.conversation.branch()
    if not call.rounds:  # the block of the call is being entered
        return Checkpoint(conversation.members())
    run_input, is_run_open = call.round.input, call.state.is_run_open
    # A replay that is cut leaves the local thread as it was.
    if call.is_replay and is_run_open:
        conversation.end_replay(has_ended=False)
        return Checkpoint(conversation.members())
    call_id = call.rounds[0].run_id
    if following is not None:
        conversation.unreceived = None
        position = call.position_of(following)
        return Checkpoint(conversation.members(), run_id=following, call_id=call_id, position=position)
    has_started = call.round.outcome.started is not None
    if is_run_open and has_started:
        adopt_pending(call, conversation, WarningLog())
    if is_run_open:
        # Whether the agent got the messages of an open run is unknown, so the next run sends all of them.
        conversation.unreceived = None
    # A tool that has ended while others go on: its result is among the messages only when all have.
    done = [each.message for each in call.executions if each.message is not None]
    results = [message for message in done if conversation.message(message.id) is None]
    run_id = run_input.run_id if is_run_open else None
    return Checkpoint(
        members=conversation.members(),
        results=tuple(results),
        run_id=run_id,
        resume=run_input.resume or () if is_run_open and not has_started else (),
        call_id=call_id,
        position=call.position_of(run_id),
    )
