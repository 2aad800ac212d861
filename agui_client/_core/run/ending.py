"""The end of a run: the verdict on its stream, what it leaves, and the function that stops the server's work.

Only a terminal event of its last run makes a stream a success (TRUNC-1). `on_abort` is called when this side left a run
that was sent. What is saved of all this is `saving`'s.

To change

- what an error quotes of a response that holds no event: `_with_beginning` here; `HttpSource.beginning` keeps it, and
  `words_in` in `_core/protocol/problems.py` leaves out what may be an event or hold a secret
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy
from agui_client._core.conversation.settling import settle_conversation, warn_of_changed_interrupts
from agui_client._core.conversation.state_base import state_hash
from agui_client._core.ground.concurrency import call_aside
from agui_client._core.ground.plain_text import printable
from agui_client._core.protocol.open_items import listed, quoted
from agui_client._core.protocol.warnings import WarningLog
from agui_client._core.run.result_building import pending_calls
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
    from agui_client._core.run.call import Call
    from agui_client._core.run.hooks import HookContext, OnAbort
    from agui_client._core.run.round import Run
    from agui_client._core.tools.toolset import OfferedTool

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
    """Return the failure of a run; of a response that held no event at all, with its address and its words."""
    if run.pipeline.count or not run.requests or not isinstance(error, DecodeError | IncompleteRunError):
        return error
    error.args = (f"{error.problem}; {run.requests[-1].beginning}",)
    return error


def verdict_on_break(run: Run, error: Exception, *, is_aborted: bool) -> Exception | None:
    """Return the failure of a run whose stream ended in an exception; None if the run had finished before.

    A connection that breaks or falls silent after a terminal event has lost nothing, and an exception of an agent that
    was stopped is not a failure.

    Args:
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
        failure: The exception that the run failed with; None if it did not fail.
        is_whole: Whether the events of the run were read to their end.
    """
    outcome, conversation, request = call.round.outcome, call.conversation, call.request
    if call.is_replay:
        has_ended = is_whole and isinstance(failure, RunFailedError | None) and outcome.is_terminal
        if missing := conversation.lacks(outcome.missing_ids):
            what = f"the server's thread does not have the messages {listed([*map(quoted, missing)])}"
            call.warnings.add("LIFE-13", f"{what}, which stay in this one; send again what it should reply to")
        if not _has_replayed(call.round, has_ended=has_ended):
            return
        warn_of_changed_interrupts(conversation, outcome.interrupts, call.warnings)
    if request is not None and call.round.source is not None and not outcome.is_finished:
        conversation.note_unfinished(may_have_started=call.round.may_have_started)
    if outcome.started is not None:
        asked, asking_run_id = {each.id for each in conversation.open_interrupts}, conversation.asking_run_id
        adopt_pending(call, conversation, call.warnings)
        if call.is_replay:
            # What failed has asked nothing (SET-8), and what was asked before it waits.
            conversation.answered_interrupts = [] if outcome.finished is not None else [*outcome.asked_before]
            if asked == {each.id for each in conversation.open_interrupts}:
                conversation.asking_run_id = asking_run_id  # they are asked by the run that asked them first
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
    """Return the side that gives the result of a call which a run left.

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
