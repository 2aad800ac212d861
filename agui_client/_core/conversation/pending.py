"""Waiting calls of a conversation: those without a result, the decisions about them, and the questions of their tools.

The conversation has the facts, in its messages and in the ledger, and these functions read them: without effects, but
for `note_execution`, which writes what became of a call into the ledger.

To change

- what counts as open, decided or asked: here. What comes next of it is `next_step`'s (`_core/run/next_step.py`), and
  what becomes of it when a verb begins is in `fates`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agui_client._core.conversation.ledger import CallStatus
from agui_client._core.protocol.message_slots import is_same_call

if TYPE_CHECKING:
    from ag_ui.core import ToolCall

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.tools.approval import ToolDecision
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.tools.questions import ToolQuestion


def open_records(conversation: Conversation) -> list[ToolCallRecord]:
    """Return the records of the calls without a result."""
    records = conversation.ledger.unsettled
    if not records:  # as nearly always, and each verb asks several times
        return records
    answered = conversation.answered_call_ids
    return [
        each
        for each in records
        if each.tool_call_id not in answered and conversation.tool_call(each.tool_call_id) is not None
    ]


def pending_tool_calls(conversation: Conversation) -> list[ToolCall]:
    """Return the calls that the last run left to the application and that have no result yet."""
    return _calls_of(conversation, (each for each in open_records(conversation) if each.is_ours_to_answer))


def unknown_tool_calls(conversation: Conversation) -> list[ToolCall]:
    """Return the calls whose function was called and whose result is not known, also if the agent was told so."""
    answered = conversation.answered_call_ids
    begun = [each for each in conversation.ledger.unsettled if each.status is CallStatus.EXECUTING]
    unknown = (
        each for each in begun if each.tool_call_id not in answered or conversation.has_placeholder(each.tool_call_id)
    )
    return _calls_of(conversation, unknown)


def waiting_calls(conversation: Conversation) -> dict[str, ToolCall]:
    """Return calls without a result of finished runs, as they are now, by id; those with whole arguments."""
    waiting = (
        each for each in open_records(conversation) if each.shown is not None and each.status is not CallStatus.CUT
    )
    return {call.id: call for call in _calls_of(conversation, waiting)}


def _calls_of(conversation: Conversation, records: Iterable[ToolCallRecord]) -> list[ToolCall]:
    calls = [conversation.tool_call(each.tool_call_id) for each in records]
    return [call for call in calls if call is not None]


def open_questions(conversation: Conversation) -> list[ToolQuestion]:
    """Return the questions of calls that wait for an answer, to be made again with it."""
    asked = (each.question for each in open_records(conversation))
    return [each for each in asked if each is not None and each.given is None]


def answered_question(conversation: Conversation, tool_call_id: str) -> ToolQuestion | None:
    """Return the question of a call that is to be made again with its answer; None if there is none."""
    record = conversation.ledger.get(tool_call_id)
    question = None if record is None else record.question
    return None if question is None or question.given is None else question


def decision_about(conversation: Conversation, tool_call_id: str) -> ToolDecision | None:
    """Return the decision about a call as it is now; None if there is none, or if it was about another (SEC-3)."""
    call, record = conversation.tool_call(tool_call_id), conversation.ledger.get(tool_call_id)
    if call is None or record is None or record.decision is None:
        return None
    shown = record.shown or call
    is_of_tool = record.decision.arguments is not None and call.function.name == shown.function.name
    return record.decision if is_of_tool or is_same_call(call, shown) else None


def note_execution(conversation: Conversation, execution: ToolExecution) -> None:
    """Note that a call is decided about, that its function is called, or that its question waits for an answer.

    Args:
        conversation: The conversation that has the call.
        execution: The execution of the call as it is now.
    """
    ledger = conversation.ledger
    if execution.decision is not None:
        ledger.decide(execution.tool_call_id, execution.decision)
    if execution.status == "running":
        ledger.execute(execution.tool_call_id)
    elif execution.question is not None:
        ledger.ask(execution.tool_call_id, execution.question)
