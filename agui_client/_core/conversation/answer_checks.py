"""Checks of results and approvals of tool calls, before anything is sent or executed (TOOL-10, SEC-3).

An approval is about a call as it was shown: a call that was changed since, that has its result, or whose function
was called before, is not approved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agui_client._core.conversation.ledger import CallStatus
from agui_client._core.protocol.custom_interrupts import is_custom
from agui_client._core.protocol.message_slots import is_same_call
from agui_client._core.protocol.open_items import quoted
from agui_client._core.tools.approval import Approve, Deny
from agui_client._core.tools.interrupts import Cancel, cancel_all, cover
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, ResumeEntry, ToolCall

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.tools.interrupts import Answer, Resume

_LONGEST_CALL = 300
"""The characters of a tool call that an error shows."""


def check_approval(conversation: Conversation, tool_call_id: str, approval: Approve) -> None:
    """Check that an approved call is still the one that was shown (SEC-3).

    Args:
        approval: The approval; one with arguments of its own only needs the tool to be the same.

    Raises:
        UsageError: The call was changed after it began to wait for an answer.
    """
    now, record = conversation.tool_call(tool_call_id), conversation.ledger.get(tool_call_id)
    shown = None if record is None else record.shown
    if now is None or shown is None or is_same_call(now, shown):
        return
    if approval.arguments is None or now.function.name != shown.function.name:
        how = "give the arguments, as in Approve(arguments={...}), or Deny()"
        raise UsageError(
            f"tool call {quoted(tool_call_id)} was approved, but it was shown as {_quoted_call(shown)} and is "
            f"{_quoted_call(now)} now; {how}; nothing was sent"
        )


def resume_entries(conversation: Conversation, resume: Resume | None) -> list[ResumeEntry]:
    """Return the resume entries of the next run.

    Args:
        resume: The caller's answers; None if there are none.

    Returns:
        One entry per pending interrupt, or none.

    Raises:
        InterruptsNotCoveredError: The answers do not cover the pending interrupts.
        UsageError: The call of a resolved interrupt was changed after it was shown.
    """
    kept, pending = conversation.kept_answers, conversation.pending_interrupts
    if conversation.is_abandoned and resume is None:
        return kept + cancel_all(pending)
    if pending and resume is None and all(map(is_custom, pending)):
        # Their servers ask again, and pages answer them past this client, in forwardedProps.
        return kept
    asked = pending or _asked_again(conversation, resume)
    entries = cover(asked, resume)
    answers: Mapping[str, Answer] = resume if isinstance(resume, Mapping) else {}
    calls = {each.id: each.tool_call_id for each in asked}
    for entry in entries:
        answer, tool_call_id = answers.get(entry.interrupt_id), calls[entry.interrupt_id]
        # Any other answer may be a yes in words of the application, so it counts as an approval.
        may_approve = entry.status == "resolved" and not isinstance(answer, Deny | Cancel)
        if may_approve and tool_call_id is not None:
            check_approval(conversation, tool_call_id, answer if isinstance(answer, Approve) else Approve())
    return kept + entries


def _asked_again(conversation: Conversation, resume: Resume | None) -> list[Interrupt]:
    """Return the interrupts that a failed run has answered, and that answers may be about once more."""
    if not resume:
        return []
    named = {*resume} if isinstance(resume, Mapping) else {each.interrupt_id for each in resume}
    open_ids = {each.id for each in conversation.open_interrupts}
    named -= {each.interrupt_id for each in conversation.kept_answers}
    return [each for each in conversation.answered_interrupts if each.id in open_ids or each.id in named]


def check_results(conversation: Conversation, results: Mapping[str, object]) -> list[str]:
    """Check that results and approvals of tool calls fit the conversation (TOOL-10).

    Args:
        results: The results and approvals by tool call id.

    Returns:
        The calls that stay without a result, in the order of the messages.

    Raises:
        UsageError: The call does not exist, or has a result.
    """
    answered = conversation.answered_call_ids
    for tool_call_id, result in results.items():
        if conversation.tool_call(tool_call_id) is None:
            raise UsageError(f"tool_results names {tool_call_id!r}, a call that was never made; nothing was sent")
        if tool_call_id not in answered or conversation.ledger.is_unreported(tool_call_id):
            continue
        if not _takes_late_result(conversation, tool_call_id):
            raise UsageError(f"tool_results names {tool_call_id!r}, a call that has a result already; nothing was sent")
        if isinstance(result, Approve):
            is_begun = conversation.ledger.has(tool_call_id, CallStatus.EXECUTING)
            why = "whose function was called before" if is_begun else "which the conversation continued without"
            raise UsageError(f"tool_results approves {tool_call_id!r}, {why}; give its result instead")
    return [each for each in conversation.open_call_ids if each not in results]


def _takes_late_result(conversation: Conversation, tool_call_id: str) -> bool:
    """Return whether a call has a placeholder of this side; a mark on any other result counts for nothing."""
    statuses = (CallStatus.EXECUTING, CallStatus.PLACEHOLDER, CallStatus.CUT)
    return conversation.has_placeholder(tool_call_id) and conversation.ledger.has(tool_call_id, *statuses)


def _quoted_call(call: ToolCall) -> str:
    return repr(f"{call.function.name}({call.function.arguments})"[:_LONGEST_CALL])
