"""The record of a call that is over or waits, for its team's journal: what of its run another process needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agui_client._core.tools.decisions import for_any_caller
from agui_client.teams._call_journal import CallRecord, last_id, used_by

if TYPE_CHECKING:
    from ag_ui.core import FunctionCall

    from agui_client.teams._subagent_run import SubagentRun


def ended_record(
    before: CallRecord, run: SubagentRun, chosen: list[FunctionCall], over: int, *, is_raised: bool
) -> CallRecord:
    """Return the record of a call that is over: without the text of exceptions, as the team's caller can read it.

    Args:
        before: The record when the call began.
        run: The invocation.
        chosen: The calls of the team's tools that the member made.
        over: The place of the call among those that are over.
        is_raised: Whether its failure is raised.
    """
    result = run.result if run.failure is None else replace(run.result, error=run.failure.message)
    end: dict[str, Any] = {
        "result": result,
        "chosen": chosen,
        "over": over,
    }
    if is_raised:
        # The call may be made again, from where it was.
        return before.model_copy(update={**end, "failure": run.failure})
    used = used_by(before if run.error is not None else before.model_copy(update={"usage": []}))
    end["last"] = last_id(run.messages)
    return CallRecord(prompt=before.prompt, is_apart=before.is_apart, answered=before.answered, **end, **used)


def waiting_record(before: CallRecord, run: SubagentRun, chosen: list[FunctionCall]) -> CallRecord:
    """Return the record of a member that waits.

    Args:
        before: The record when the call began.
        run: The invocation.
        chosen: The calls of the team's tools that the member made.
    """
    return CallRecord(
        prompt=before.prompt,
        is_apart=before.is_apart,
        interrupts=[for_any_caller(each) for each in run.interrupts],
        waiting=[call.id for call in run.pending_tool_calls],
        chosen=chosen,
        answered=before.answered,
        seen=before.seen,
        begin=before.begin,
        text=run.text_id,
        last=last_id(run.messages),
        state=run.state if run.member.state == "dropped" else None,
        **used_by(before),
    )
