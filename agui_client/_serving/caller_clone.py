"""A clone of an agent that has the conversation of a caller's input, and what waits there for the caller's answers.

Whether the answers are proved is judged before (`answering`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import Interrupt

from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.conversation.snapshot import document_of
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.thread_state import with_free_ids
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent


def clone_for(agent: AbstractAgent, input: RunAgentInput, answers: ResumeAnswers | None = None) -> AbstractAgent:
    """Return a clone of an agent with the conversation of an input, and with what waits for the caller's answers.

    Args:
        input: The input that the caller sent.
        answers: The caller's answers; None if it gives none.
    """
    answers = answers or ResumeAnswers((), {})
    agent = agent.clone(thread_id=input.thread_id)
    # What the agent did in a conversation of its own says nothing about calls of the same ids in this one.
    agent.set_messages([])
    members: dict[str, Any] = {
        "thread_id": input.thread_id,
        "messages": with_free_ids(input.messages),
        "state": {} if input.state is None else input.state,
        # Of the interrupts that the caller answers, the agent needs no more than their ids.
        "pending_interrupts": [Interrupt(id=entry.interrupt_id, reason="") for entry in answers.entries],
        # The signed ids of their interrupts say that these calls are the ones that were shown.
        "tool_calls": _records(input, answers),
    }
    agent.restore(document_of(members))
    return agent


def _records(input: RunAgentInput, answers: ResumeAnswers) -> list[ToolCallRecord]:
    """Return the records of the calls that a caller decides about, or whose questions it answers.

    Raises:
        UsageError: The caller answers a question about a call of another tool than the one that asked it.
    """
    for call in answers.calls:
        # The call is made again with the answer, and without another approval.
        if (asking := answers.tools.get(call.id, call.function.name)) != call.function.name:
            what = f"resume answers a question of tool {quoted(asking)} about call {quoted(call.id)}"
            raise UsageError(f"{what}, which is one of {quoted(call.function.name)} here")
    questions = {each.interrupt.tool_call_id: each for each in answers.questions}
    messages = {call.id: each.id for each, call in tool_calls_in(input.messages if answers.calls else ())}
    return [
        ToolCallRecord(
            tool_call_id=call.id,
            message_id=messages[call.id],
            status=CallStatus.ASKED if call.id in questions else CallStatus.WAITING,
            answered_by=AnsweredBy.APPLICATION,
            shown=call,
            question=questions.get(call.id),
        )
        for call in answers.calls
    ]
