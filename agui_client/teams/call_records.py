"""Records of the calls of members, left in the team's state while the team waits for answers: its journal.

State is what a client sends back whatever client it is (INT-1, STATE-4), so that a run can be taken up in any process.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ag_ui.core import Event, Interrupt, RunErrorEvent, StateDeltaEvent, StateSnapshotEvent
from pydantic import BaseModel, Field, ValidationError

from agui_client._protocol.schema import is_object
from agui_client._run.subagents import JOURNAL, SubagentResult
from agui_client.errors import UsageError
from agui_client.teams.names import state_patch

if TYPE_CHECKING:
    from agui_client.teams.subagent_run import SubagentRun


class CallRecord(BaseModel):
    """One call of a member."""

    result: SubagentResult | None = None
    """The end of the call; None while the member waits."""
    failure: RunErrorEvent | None = None
    """The failure that the call has raised; None if it has returned."""
    is_cut: bool = False
    """Whether the call was cancelled because another one of the same `gather` has failed."""
    chosen: list[str] = Field(default_factory=list[str])
    """The names of the team's tools that the member called."""
    interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that the member waits for, as the team's caller has them."""
    waiting: list[str] = Field(default_factory=list[str])
    """The ids of the tool calls that the member waits for, as the team's caller has them."""
    team: Any = None
    """The journal of a member that is a team itself."""
    state: Any = None
    """The state of a member whose state is not part of the team's."""

    def is_answered(self, has_answers: bool, results: Collection[str]) -> bool:
        """Whether the member can go on.

        Args:
            has_answers: Whether its interrupts are answered.
            results: The ids of the tool calls that have a result.
        """
        return (has_answers or not self.interrupts) and all(call in results for call in self.waiting)


class Journal(BaseModel):
    """The calls of one flow: of a run, and of those that resume it."""

    flow: str
    """The mark of the flow."""
    calls: dict[str, CallRecord] = Field(default_factory=dict[str, CallRecord])
    """The calls of members by the ids of the invocations."""
    said: int = 0
    """The number of messages of the team's own."""
    notes: list[Any] = Field(default_factory=list[Any])
    """The values of what was to be done once."""
    outer_state: Any = None
    """The state of a team whose state is no object, and has no place for this."""


def take_journal(state: Any) -> tuple[Any, Journal | None, list[Event]]:
    """Take the journal out of a team's state.

    Args:
        state: The state of a run's input.

    Returns:
        The state without it, the journal, and the events that tell the caller so.

    Raises:
        UsageError: It is not what a team leaves there.
    """
    if not is_object(state) or JOURNAL not in state:
        return ({} if state is None else state), None, []
    try:
        journal = Journal.model_validate(state[JOURNAL])
    except ValidationError as error:
        raise UsageError(f"the member {JOURNAL!r} of the state is kept for teams, and this is not a team's") from error
    if journal.outer_state is not None:
        return journal.outer_state, journal, [StateSnapshotEvent(snapshot=journal.outer_state)]
    rest = {name: value for name, value in state.items() if name != JOURNAL}
    return rest, journal, [StateDeltaEvent(delta=state_patch({"op": "remove", "path": f"/{JOURNAL}"}))]


def leave_journal(state: Any, journal: Journal) -> Event:
    """Return the event that leaves the journal in the state.

    Args:
        state: The team's state; one that is no object is wrapped.
        journal: The journal.
    """
    if not is_object(state):
        journal = journal.model_copy(update={"outer_state": state})
    value = journal.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    if not is_object(state):
        return StateSnapshotEvent(snapshot={JOURNAL: value})
    return StateDeltaEvent(delta=state_patch({"op": "add", "path": f"/{JOURNAL}", "value": value}))


def ended_record(run: SubagentRun, chosen: list[str], *, is_raised: bool) -> CallRecord:
    """Return the record of a call that is over: without the text of exceptions, as the team's caller can read it.

    Args:
        run: The invocation.
        chosen: The names of the team's tools that the member called.
        is_raised: Whether its failure is raised.
    """
    result = run.result if run.failure is None else replace(run.result, error=run.failure.message)
    return CallRecord(result=result, failure=run.failure if is_raised else None, chosen=chosen)


def waiting_record(run: SubagentRun) -> CallRecord:
    """Return the record of a member that waits."""
    return CallRecord(
        interrupts=run.interrupts,
        waiting=[call.id for call in run.pending_tool_calls],
        team=run.journal,
        state=run.state if run.member.state == "dropped" else None,
    )
