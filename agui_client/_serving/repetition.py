"""Requests that a caller sends again: each is carried out once, however often it is delivered (SEC-3).

To change

- requests that are delivered twice: this module refuses them; of runs that are kept, `ActiveRuns.refuse_answered` and
  `Runs.add` know the answers; `RunHistory` in `_core/conversation/log.py` has what the log of a stored thread
  tells of its runs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._core.conversation.pending import open_questions
from agui_client._core.protocol.open_items import quoted
from agui_client._core.tools.interrupts import is_expired
from agui_client._core.verbs.caller_interrupts import (
    APPROVAL,
    QUESTION,
    approved_call,
    is_of_another_run,
    own_id,
    unpacked,
)
from agui_client.errors import RequestExpiredError, RequestRepeatedError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence
    from datetime import datetime

    from ag_ui.core import Interrupt, Message, ResumeEntry

    from agui_client._core.conversation.conversation import Conversation


def refuse_repeated_run(conversation: Conversation, run_id: str) -> None:
    """Refuse a run that the log of a stored thread knows.

    Args:
        conversation: The conversation; only that of a stored thread has a log.
        run_id: The id of the run that a caller asks for.

    Raises:
        RequestRepeatedError: The run has begun before.
    """
    if conversation.past is not None and run_id in conversation.past.run_ids:
        how = "it is not run again; a new request needs a runId of its own"
        raise RequestRepeatedError(f"run {quoted(run_id)} has begun in this thread before: {how}")


def refuse_answered(conversation: Conversation, resume: Iterable[ResumeEntry]) -> None:
    """Refuse answers to interrupts of a stored thread that wait no longer.

    Args:
        resume: The caller's answers, with the ids that the agent gave.

    Raises:
        RequestRepeatedError: One of them answers an interrupt that was answered before.
    """
    for interrupt_id in answered_before(conversation, [each.interrupt_id for each in resume]):
        raise _answered(interrupt_id)


def refuse_answered_by_runs(
    resume: Iterable[ResumeEntry], answered: Container[str], waiting: Iterable[Interrupt], now: datetime | None = None
) -> None:
    """Refuse answers that a run of the thread that is kept has carried, and those that come too late.

    Args:
        resume: The caller's answers, with the ids that it got.
        answered: The ids of the interrupts that the runs of the thread have answered.
        waiting: The interrupts that a run of the thread waits for, perhaps once more.
        now: The time of their database; None for that of this machine.

    Raises:
        RequestRepeatedError: An interrupt was answered before.
        RequestExpiredError: The time of an interrupt has passed.
    """
    asked = {each.id: each for each in waiting}
    for entry in resume:
        if (interrupt := asked.get(entry.interrupt_id)) is None and entry.interrupt_id in answered:
            raise _answered(entry.interrupt_id)
        if interrupt is not None and entry.status == "resolved" and is_expired(interrupt, now):
            what = f"resume answers {quoted(interrupt.id)}, which expired at {interrupt.expires_at}"
            raise RequestExpiredError(f"{what}; nothing was done")


def answered_before(conversation: Conversation, interrupt_ids: Iterable[str]) -> Iterator[str]:
    """Yield those of some interrupts that wait no longer: their calls were decided about, or they were answered.

    Args:
        interrupt_ids: The ids that the agent gave.
    """
    answered = conversation.answered_call_ids
    decided = {each for each in answered if not conversation.ledger.is_unreported(each)}
    decided |= {each.tool_call_id for each in conversation.ledger if each.is_begun}
    records = {each.tool_call_id: each for each in conversation.ledger}
    asked = {each.interrupt.id for each in open_questions(conversation)}
    past = set[str]() if conversation.past is None else conversation.past.interrupt_ids
    # A caller whose run has failed gives all answers again, also those to calls which that run has carried out.
    again = {each.id for each in (*conversation.pending_interrupts, *conversation.answered_interrupts)}
    if conversation.past is not None:
        # The thread went back to an earlier message: what it had asked since is withdrawn.
        decided |= {each for each in conversation.past.call_ids if conversation.tool_call(each) is None}
    for interrupt_id in interrupt_ids:
        if interrupt_id.startswith(APPROVAL):
            call_id, ordinal = approved_call(interrupt_id)
            record = records.get(call_id)
            is_over = call_id in decided or (record is not None and ordinal < record.ordinal)
        elif interrupt_id.startswith(QUESTION):
            interrupt = unpacked(interrupt_id)[0].interrupt
            is_over = interrupt.tool_call_id in decided and interrupt.id not in asked
        else:
            # Agents use ids again: an answer to what an earlier run has asked answers nothing of what waits now.
            is_stale = is_of_another_run(interrupt_id, conversation.asking_run_id)
            is_over = is_stale if (own := own_id(interrupt_id)) in again else own in past
        if is_over:
            yield interrupt_id


def refuse_approvals_of_answered_calls(messages: Sequence[Message], resume: Iterable[ResumeEntry]) -> None:
    """Refuse decisions about calls that have their results in the caller's own messages.

    An agent may use the id of a call again once that has its result: then the last call of the id counts.

    Args:
        messages: The conversation of the input.
        resume: The caller's answers, with the ids that the agent gave.

    Raises:
        RequestRepeatedError: One of them is about a call that has a result.
    """
    answered = _answered_calls(messages if resume else ())
    for entry in resume:
        if entry.interrupt_id.startswith(APPROVAL) and approved_call(entry.interrupt_id)[0] in answered:
            raise _answered(entry.interrupt_id)


def _answered_calls(messages: Iterable[Message]) -> set[str]:
    """Return the ids of the calls that have a result behind the last call of the id."""
    answered: set[str] = set()
    for message in messages:
        if message.role == "tool":
            answered.add(message.tool_call_id)
        elif message.role == "assistant":
            answered.difference_update(each.id for each in message.tool_calls or ())
    return answered


def _answered(interrupt_id: str) -> RequestRepeatedError:
    return RequestRepeatedError(f"resume answers {quoted(interrupt_id)}, which was answered before; nothing was done")
