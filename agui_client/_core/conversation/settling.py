"""The end of a run: what of messages, interrupts and tool calls it leaves pending replaces what was pending before.

A run changes what is pending here alone; `adopt_pending` in `_core/run/ending.py` calls it, for a checkpoint with a
branch of the conversation.

To change

- what a run leaves pending: `settle_conversation` here; `reconcile` in `_core/conversation/reconciling.py` says what
  becomes of records when messages change
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.conversation.pending import decision_about
from agui_client._core.conversation.reconciling import reconcile
from agui_client._core.protocol.message_slots import is_same_call
from agui_client._core.protocol.open_items import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ag_ui.core import Interrupt

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.outcome import OutcomeTracker
    from agui_client._core.protocol.verify import Verifier
    from agui_client._core.protocol.warnings import WarningLog


def settle_conversation(
    conversation: Conversation,
    outcome: OutcomeTracker,
    verifier: Verifier,
    left: Mapping[str, AnsweredBy],
    warnings: WarningLog,
    run_id: str | None = None,
) -> None:
    """Replace what is pending by what a run that started left.

    Args:
        outcome: The outcome of the run.
        verifier: The verifier of its events, which knows what it left open.
        left: The sides that give the missing results, by the ids of the calls, apart from calls that an interrupt is
            about.
        warnings: The log of the run, which gets the waiting calls that it changed.
    """
    has_failed, interrupts = outcome.finished is None, outcome.interrupts
    waiting_again = [*conversation.answered_interrupts, *conversation.pending_interrupts]
    conversation.answered_interrupts = waiting_again if has_failed else []
    conversation.pending_interrupts = list(interrupts)
    if interrupts:
        conversation.asking_run_id = run_id
    conversation.kept_answers, conversation.is_abandoned = [], False
    broken = _note_incomplete(conversation, outcome, verifier)
    # Before the calls of this run are looked at: a snapshot may have replaced the messages that records are about.
    reconcile(conversation)
    conversation.ledger.report()
    asked_about = [each.tool_call_id for each in interrupts if each.tool_call_id is not None]
    waiting, answered = dict.fromkeys([*left, *asked_about]), conversation.answered_call_ids
    for each in outcome.named_pending:
        if each not in answered and conversation.tool_call(each) is None:
            what = f"tool call {quoted(each)} is pending by the outcome of its run, and not among the messages"
            warnings.add(
                "TOOL-9", f"{what}: no function is called for it; keep it in snapshots until it has its result"
            )
    known = [each.tool_call_id for each in conversation.ledger.unsettled]
    unfinished = dict.fromkeys(outcome.unfinished_call_ids)
    for call_id in dict.fromkeys([*known, *waiting, *unfinished]):
        if call_id not in answered:
            _record_call(
                conversation,
                call_id,
                outcome,
                run_id,
                left.get(call_id, AnsweredBy.AGENT),
                warnings,
                is_broken=call_id in broken,
                is_shown=call_id in waiting,
                is_unfinished=call_id in unfinished,
            )


def _note_incomplete(conversation: Conversation, outcome: OutcomeTracker, verifier: Verifier) -> set[str]:
    """Note which messages and calls came to their end, and which did not; return the calls that did not."""
    open_ids = verifier.unclosed_ids
    closed_ids = outcome.completed_ids.difference(open_ids)
    conversation.ledger.complete(closed_ids)
    opened_before = [each for each in verifier.unclosed_ids_before if each not in closed_ids]
    before = [each for each in conversation.incomplete_ids if each not in closed_ids]
    cut_ids = (*before, *opened_before, *open_ids, *sorted(outcome.cut_ids))
    cut_short = [each for each in cut_ids if conversation.tool_call(each) is None]
    conversation.incomplete_ids = dict.fromkeys(cut_short)
    return {*opened_before, *open_ids}


def _record_call(
    conversation: Conversation,
    call_id: str,
    outcome: OutcomeTracker,
    run_id: str | None,
    answered_by: AnsweredBy,
    warnings: WarningLog,
    *,
    is_broken: bool,
    is_shown: bool,
    is_unfinished: bool,
) -> None:
    """Store the record of a call that a run left without a result."""
    known = conversation.ledger.get(call_id)
    call, place = conversation.tool_call(call_id), conversation.place_of_call(call_id)
    if call is None or place is None:
        return
    message, ordinal = place
    is_whole = not is_broken and (known is None or known.is_whole)
    if known is not None and is_whole and not is_same_call(call, known.latest or call):
        what = "which waits for an answer, was changed; no approval of it as it was shown counts any more"
        warnings.add("SEC-3", f"tool call {quoted(call_id)}, {what}")
    # A call that this run did not touch keeps its status: it may be cut, and must not begin to wait.
    status = CallStatus.WAITING if known is None or call_id in outcome.tool_call_ids else known.status
    first_shown = None if known is None else known.shown
    conversation.ledger.record(
        ToolCallRecord(
            tool_call_id=call_id,
            message_id=message.id,
            ordinal=ordinal,
            run_id=run_id if known is None else known.run_id,
            subagent_run_id=message.subagent_run_id,
            status=CallStatus.CUT if is_unfinished else status,
            answered_by=answered_by,
            is_whole=is_whole,
            is_awaited=call_id in outcome.named_pending or (known is not None and known.is_awaited),
            shown=(first_shown or call) if is_whole and (is_shown or first_shown) else None,
            latest=call if is_whole else None,
            decision=None if call_id in outcome.tool_call_ids else decision_about(conversation, call_id),
        )
    )


def warn_of_changed_interrupts(
    conversation: Conversation, interrupts: Sequence[Interrupt], warnings: WarningLog
) -> None:
    """Warn of waiting interrupts that a replay changed: nobody was asked what they ask now."""
    before = {each.id: each for each in conversation.pending_interrupts}
    for interrupt in interrupts:
        if interrupt != before.get(interrupt.id, interrupt):
            what = "which waits for an answer, was changed; show it again before it is answered"
            warnings.add("SEC-3", f"interrupt {quoted(interrupt.id)}, {what}")
