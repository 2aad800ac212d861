"""The questions with which a run of an agent ends, for frameworks that pass them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from ag_ui.core import ResumeEntry, RunFinishedEvent, RunFinishedInterruptOutcome

from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client._core.verbs.caller_run import caller_end

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.result import RunResult
    from agui_client._core.verbs.async_run import AgentRun

_RESUMES = "agui_client"
"""The member of a question with what resumes the agent."""


async def ended_run(run: AgentRun[Any]) -> tuple[RunResult[Any], list[Mapping[str, Any]]]:
    """Wait for the end of a run.

    Args:
        run: The run, entered.

    Returns:
        Its result and all that it asks, approvals of its own tools included.
    """
    last: RunFinishedEvent | None = None
    async for event in run:
        if isinstance(event, RunFinishedEvent):
            last = event
    result = await run.result()
    return result, asked_by(run, last)


def asked_by(run: AgentRun[Any], last: RunFinishedEvent | None) -> list[Mapping[str, Any]]:
    """Return all that a run asks, as JSON.

    Args:
        run: The run, at its end.
        last: Its last RUN_FINISHED; None if there is none.
    """
    outcome = caller_end(run, last).outcome
    asked = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else []
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in asked]


def question_of(agent: AbstractAgent[Any], interrupts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a question of an agent as JSON, with what resumes the agent in any process."""
    resumes = agent.snapshot().model_dump(mode="json", by_alias=True)
    return {"interrupts": list(interrupts), _RESUMES: resumes}


def is_question(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a question that came back, with answers or without."""
    return isinstance(value, Mapping) and _RESUMES in value


def resumed(agent: AbstractAgent[Any], question: Mapping[str, Any]) -> RunOptions:
    """Give an agent the conversation in which it asked; return the keywords of the run with the answers.

    Args:
        question: The question; its member `answers` has the payloads by the ids of interrupts, of which those without
            an answer are approved.
    """
    agent.restore(ConversationSnapshot.model_validate(question[_RESUMES]))
    answers: Mapping[str, Any] = question.get("answers", {})
    entries = [
        ResumeEntry(interrupt_id=each["id"], status="resolved", payload=answers.get(each["id"], {"approved": True}))
        for each in question["interrupts"]
    ]
    return ResumeAnswers(entries, {call.id: call for call in agent.pending_tool_calls}).options
