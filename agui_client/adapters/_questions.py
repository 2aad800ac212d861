"""The questions with which a run of an agent ends, for frameworks that pass them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ag_ui.core import RunFinishedEvent, RunFinishedInterruptOutcome

from agui_client._core.verbs.caller_run import caller_end

if TYPE_CHECKING:
    from agui_client._core.run.result import RunResult
    from agui_client._core.verbs.async_run import AgentRun


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
