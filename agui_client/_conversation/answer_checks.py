"""Checks of answers to tool calls, before anything is sent or executed (TOOL-10, SEC-3).

An answer is about a call as it was shown: a call that was changed since, that has its result, or whose function was
called before, is not approved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agui_client._conversation.ledger import CallStatus
from agui_client._protocol.open_items import quoted
from agui_client._protocol.thread_state import is_same_call
from agui_client._tools.approval import Approve
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import ToolCall

    from agui_client.conversation import Conversation

_LONGEST_CALL = 300
"""The characters of a tool call that an error shows."""


def check_approval(conversation: Conversation, tool_call_id: str, approval: Approve) -> None:
    """Check that an approved call is still the one that was shown (SEC-3).

    Args:
        conversation: The conversation.
        tool_call_id: The id of the call.
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


def check_results(conversation: Conversation, results: Mapping[str, object]) -> list[str]:
    """Check that answers to tool calls fit the conversation (TOOL-10).

    Args:
        conversation: The conversation.
        results: The answers by tool call id.

    Returns:
        The calls that stay without a result, in the order of the messages.

    Raises:
        UsageError: The call does not exist, or has a result.
    """
    messages = conversation.messages
    # By the role: to ask a model for its class takes long, and there may be thousands.
    called = dict.fromkeys([call.id for each in messages if each.role == "assistant" for call in each.tool_calls or ()])
    answered = conversation.answered_call_ids
    for tool_call_id, result in results.items():
        if tool_call_id not in called:
            raise UsageError(f"tool_results answers {tool_call_id!r}, a call that was never made; nothing was sent")
        if tool_call_id not in answered or conversation.is_unreported(tool_call_id):
            continue
        if not _takes_late_result(conversation, tool_call_id):
            raise UsageError(
                f"tool_results answers {tool_call_id!r}, a call that has a result already; nothing was sent"
            )
        if isinstance(result, Approve):
            is_begun = conversation.ledger.has(tool_call_id, CallStatus.EXECUTING)
            why = "whose function was called before" if is_begun else "which the conversation went on without"
            raise UsageError(f"tool_results approves {tool_call_id!r}, {why}; give its result instead")
    return [each for each in called if each not in results and each not in answered]


def _takes_late_result(conversation: Conversation, tool_call_id: str) -> bool:
    """Return whether a call has a placeholder of this side; a mark on any other result counts for nothing."""
    statuses = (CallStatus.EXECUTING, CallStatus.PLACEHOLDER, CallStatus.CUT)
    return conversation.has_placeholder(tool_call_id) and conversation.ledger.has(tool_call_id, *statuses)


def withheld_calls(conversation: Conversation) -> dict[str, str]:
    """Return the calls that no function is to be called for, with the reason."""
    withheld: dict[str, str] = {}
    for record in conversation.ledger:
        if record.is_begun:
            withheld[record.tool_call_id] = "its function was called before"
        elif not record.is_whole:
            withheld[record.tool_call_id] = "its arguments never ended"
        elif record.status is CallStatus.CUT:
            withheld[record.tool_call_id] = "the run that made it did not finish"
    return withheld


def _quoted_call(call: ToolCall) -> str:
    return repr(f"{call.function.name}({call.function.arguments})"[:_LONGEST_CALL])
