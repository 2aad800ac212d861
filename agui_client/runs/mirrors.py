"""Logs of runs that other processes have written: mirrored, taken over, or described by their rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ag_ui.core import Interrupt, Message, MessagesSnapshotEvent, RunAgentInput, StateSnapshotEvent
from pydantic import TypeAdapter

from agui_client.runs.kept_run import KeptRun
from agui_client.runs.records import Place, RunInfo, RunStatus
from agui_client.runs.run_log import Phase, RunLog

if TYPE_CHECKING:
    import asyncio

    from agui_client._run.continuing import Continuation
    from agui_client.runs.run_tables import StoredRun

MESSAGES = TypeAdapter(list[Message])
"""Writes and reads the messages that a run begins with."""


class MirroredRun(KeptRun):
    """A run that another process carries out, or that has ended."""

    offset = 0
    """The number of groups that were read."""
    task: asyncio.Task[None] | None = None
    """The task that reads them."""
    forget: Callable[[KeptRun], None]
    """Forgets the run."""

    def stop_reading(self) -> None:
        """End the task that reads the log, which this process writes from now on."""
        if self.task is not None:
            self.task.cancel()

    def stop(self, last: Any = None) -> None:
        """Forget the log, which has grown too large here, or is not followed any more."""
        self.forget(self)
        self.stop_reading()


def take_in(log: RunLog, group: Any) -> None:
    """Add a group of a stream to a log."""
    if log.phase is Phase.OPENING:
        before: Any = group.get("before") or ([], None)
        log.open(MESSAGES.validate_python(before[0]), before[1])
        log.attempt = group["attempt"]
    if group["attempt"] > log.attempt:
        log.begin_again(group["attempt"], group["position"])
    if group["attempt"] < log.attempt:
        return
    frames = [f"{each}\n\n".encode() for each in group["frames"].split("\n\n")[:-1]]
    if (left := group.get("end")) is not None:
        log.left_input = RunAgentInput.model_validate_json(left)
    log.extend(frames, is_end="end" in group)


def go_back(log: RunLog, row: StoredRun, cut: Continuation | None) -> Place:
    """Take the events of a log back to the checkpoint, and show the conversation as it was then.

    Returns:
        The place of the checkpoint.
    """
    if log.phase is Phase.OPENING:
        log.attempt = row.attempt
        return log.end
    log.begin_again(row.attempt, max(1, row.checkpoint_position))
    place = log.end
    if cut is not None:
        before: tuple[Sequence[Message], Any] = (cut.document.messages, cut.document.state)
    else:
        before = log.before or ([], None)
    messages, state = before
    log.append(MessagesSnapshotEvent(messages=list(messages)))
    log.append(StateSnapshotEvent(snapshot=state))
    return place


def info_of(row: StoredRun) -> RunInfo:
    """Return the description of a run by its row."""
    return RunInfo(
        run_id=row.key.run_id,
        thread_id=row.key.thread_id,
        owner=row.key.owner,
        status=row.status,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
        event_count=row.event_count,
        interrupts=[Interrupt.model_validate(each) for each in row.interrupts]
        if row.status is RunStatus.WAITING
        else (),
    )
