"""Descriptions of runs, and the cursors of their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from ag_ui.core import Event, Interrupt

from agui_client._field_docs import Record
from agui_client.errors import UsageError

_MOST_DIGITS = 15
"""The digits of the largest position in a log."""


class RunsClosedError(UsageError):
    """A run cannot begin because the runs were closed; for other parts of the package."""


class RunStatus(StrEnum):
    """The status of a run that is kept."""

    RUNNING = "running"
    """The run is going on."""
    WAITING = "waiting"
    """The run has ended with interrupts that nobody has answered yet."""
    FINISHED = "finished"
    """The run has ended, and waits for nobody."""
    STOPPED = "stopped"
    """The run was stopped before its end."""
    FAILED = "failed"
    """The run has ended with RUN_ERROR."""


class RunKey(NamedTuple):
    """The identity of a run: callers choose ids, so two owners or two threads may have runs of one id."""

    owner: str
    """The owner of the run."""
    thread_id: str
    """The thread of the run."""
    run_id: str
    """The id of the run."""


class FollowedEvent(NamedTuple):
    """An event of a run that is followed, with its place in the log."""

    cursor: str
    """The place behind the event: following the run with `after=` this begins with the next event."""
    event: Event
    """The event."""


@dataclass(frozen=True, slots=True)
class RunInfo(Record):
    """The description of a run that is kept."""

    run_id: str
    """The id of the run."""
    thread_id: str
    """The thread of the run."""
    owner: str
    """The owner of the run; empty if there is none."""
    status: RunStatus
    """The status of the run."""
    begun_at: datetime
    """The time when the run began, in UTC."""
    ended_at: datetime | None
    """The time when the run ended, in UTC; None while it is going on."""
    event_count: int
    """The number of events so far."""
    interrupts: Sequence[Interrupt] = ()
    """The interrupts that the run waits for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON, with the protocol's spelling of names."""
        return {
            "runId": self.run_id,
            "threadId": self.thread_id,
            "owner": self.owner,
            "status": self.status.value,
            "begunAt": self.begun_at.isoformat(),
            "endedAt": self.ended_at and self.ended_at.isoformat(),
            "eventCount": self.event_count,
            "interrupts": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in self.interrupts],
        }


@dataclass(frozen=True, slots=True)
class WaitingRun(Record):
    """A run that has ended with interrupts, with all that is needed to answer them elsewhere."""

    run_id: str
    """The id of the run, for `runs.answer`."""
    thread_id: str
    """The thread of the run."""
    owner: str
    """The owner of the run; empty if there is none."""
    interrupts: Sequence[Interrupt] = field(repr=False)
    """The interrupts, with their messages and the schemas of their answers."""

    @property
    def query(self) -> str:
        """The query of a link to a page of yours that answers the run: `thread=...&run=...`.

        It names the run and proves nothing: the page has to know who asks for it.
        """
        return urlencode({"thread": self.thread_id, "run": self.run_id})


def cursor_of(run_id: str, position: int) -> str:
    """Return the cursor behind a number of events of a run.

    Args:
        run_id: The id of the run.
        position: The number of events.
    """
    # It names the run, as a caller who connects knows only the thread, whose next run may have begun meanwhile.
    return f"{position}-{quote(run_id, safe='')}"


def read_cursor(cursor: str) -> tuple[str, int]:
    """Return the id of the run that a cursor is about, and the number of events that it is behind.

    Raises:
        UsageError: It is no cursor.
    """
    position, mark, run_id = cursor.partition("-")
    if not (mark and run_id and position.isascii() and position.isdecimal() and len(position) <= _MOST_DIGITS):
        raise UsageError(f"{cursor[:80]!r} is no cursor of a run; take it from an event as it came")
    return unquote(run_id), int(position)
