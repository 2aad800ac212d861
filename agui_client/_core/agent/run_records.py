"""Descriptions of runs, and the cursors of their events.

To change

- the cursor of an event: `cursor_of` and `read_cursor` here
- the description of a run: `RunInfo` here, with `to_dict` and `of_dict`; `RunLog.info` in `store/_runs/run_log.py`
  makes it of a run of this process, `info_of` in `store/_runs/remote_runs.py` of a row of the database
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode

from ag_ui.core import Event, Interrupt

from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.problems import shortened
from agui_client.errors import AGUIError, UsageError

WhenLeft: TypeAlias = Literal["continue", "stop"]
"""Says what becomes of a run when its last caller has left."""
OnCrash: TypeAlias = Literal["again", "fail"]
"""Says what becomes of a run whose process ends: the part that was cut is run again, or the run fails."""
_PLACE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?(?:~([0-9]{1,15}))?")
"""A place as it is written in a cursor: the position, the attempt and the ends."""


class RunsUnavailableError(AGUIError):
    """The runs cannot be reached now, or this process stops; what was asked for may be asked for again."""


class RunsClosedError(RunsUnavailableError, UsageError):
    """A run cannot begin because the runs were closed, as in a server that stops; for other parts of the package."""


class TextRefusedError(UsageError):
    """The database of the runs cannot store an id or another text; for other parts of the package."""


class RunStatus(StrEnum):
    """The status of a run that is kept."""

    RUNNING = "running"
    """The run is in progress."""
    WAITING = "waiting"
    """The run has ended with interrupts that nobody has answered yet."""
    FINISHED = "finished"
    """The run has ended, and waits for nobody: it asked nothing, or was answered."""
    SUPERSEDED = "superseded"
    """The run has ended with interrupts, and another run of its thread has begun instead of an answer."""
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


class RunFilter(NamedTuple):
    """The runs of an owner, of a thread, of an id, or with a status; None stands for any."""

    owner: str | None = None
    """The owner."""
    thread_id: str | None = None
    """The thread."""
    run_id: str | None = None
    """The id of the runs."""
    status: RunStatus | None = None
    """The status of the runs."""


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
    """The time when the run ended, in UTC; None while it is in progress."""
    event_count: int
    """The number of events so far; of a run that another process carries out, those that are stored."""
    interrupts: Sequence[Interrupt] = ()
    """The interrupts that the run waits for."""
    is_queued: bool = False
    """Whether the run is in progress in the database only: no process carries it out, and it waits for one."""

    @property
    def key(self) -> RunKey:
        """The identity of the run."""
        return RunKey(self.owner, self.thread_id, self.run_id)

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
            "isQueued": self.is_queued,
        }

    @classmethod
    def of_dict(cls, described: Mapping[str, Any]) -> RunInfo:
        """Return the description that `to_dict` has written."""
        ended = described["endedAt"]
        return cls(
            run_id=described["runId"],
            thread_id=described["threadId"],
            owner=described["owner"],
            status=RunStatus(described["status"]),
            begun_at=datetime.fromisoformat(described["begunAt"]),
            ended_at=None if ended is None else datetime.fromisoformat(ended),
            event_count=described["eventCount"],
            interrupts=[Interrupt.model_validate(each) for each in described["interrupts"]],
            is_queued=described["isQueued"],
        )


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

    @classmethod
    def of(cls, key: RunKey, interrupts: Sequence[Interrupt]) -> WaitingRun:
        """Return the run of an identity."""
        return cls(key.run_id, key.thread_id, key.owner, interrupts)

    @property
    def query(self) -> str:
        """The query of a link to a page of yours that answers the run: `thread=...&run=...`.

        It names the run and proves nothing: the page has to know who asks for it.
        """
        return urlencode({"thread": self.thread_id, "run": self.run_id})


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """All that another process needs to carry out a run."""

    agent: str
    """The name of the agent."""
    about: dict[str, Any]
    """The request that asked for the run, as JSON."""
    input: dict[str, Any]
    """The input of the run, as JSON."""
    when_left: WhenLeft = "continue"
    """Says what becomes of the run when its last caller has left."""
    expose_errors: bool = False
    """Whether callers get the text of exceptions."""
    on_crash: OnCrash = "again"
    """Says what becomes of the run if its process ends."""
    asked: str = ""
    """The hash of what the input asks for, by which a repeated request is known; empty where none is expected."""

    trace: dict[str, str] = field(default_factory=dict[str, str])
    """The trace of the caller, and that of the first attempt, as headers; empty without OpenTelemetry."""

    def as_text(self) -> str:
        """Return the request as JSON."""
        # Not `asdict`, which copies the whole input.
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})

    def of_ended_run(self) -> StoredRequest:
        """Return what is kept of the request when the run has ended: its conversation is elsewhere."""
        return replace(self, input={**self.input, "messages": [], "state": None})


class Place(NamedTuple):
    """A place in the log of a run."""

    position: int
    """The number of events before it."""
    attempt: int = 1
    """The attempt that wrote them: a run whose process ended is attempted again, and some events are replaced."""
    earlier: tuple[Place, ...] = ()
    """The places where a follower left earlier attempts in which it saw subagents begin: none is announced twice."""
    ends: int = 0
    """The number of events behind it that a follower has already, which end what an earlier attempt left open."""

    @property
    def order(self) -> tuple[int, int]:
        """The attempt and the position, by which one place of a log comes before another."""
        return self.attempt, self.position


def cursor_of(run_id: str, place: Place) -> str:
    """Return the cursor of a place.

    Args:
        place: The place in its log.
    """
    # It names the run, as a caller who connects knows only the thread, whose next run may have begun meanwhile.
    places = "_".join(map(_written, (*place.earlier, place)))
    return f"{places}-{quote(run_id, safe='')}"


def read_cursor(cursor: str) -> tuple[str, Place]:
    """Return the id of the run that a cursor is about, and the place in its log.

    Raises:
        UsageError: It is not a cursor.
    """
    written, _, run_id = cursor.partition("-")
    places = [_PLACE.fullmatch(each) for each in written.split("_")]
    found = [Place(int(each[1]), int(each[2] or 1), ends=int(each[3] or 0)) for each in places if each]
    is_in_order = all(one.attempt < following.attempt for one, following in pairwise(found))
    if not run_id or len(found) < len(places) or not is_in_order:
        raise UsageError(f"{cursor[:80]!r} is not a cursor of a run; take it from an event as it came")
    return unquote(run_id), found[-1]._replace(earlier=tuple(found[:-1]))


def _written(place: Place) -> str:
    attempt = f".{place.attempt}" if place.attempt > 1 else ""
    return f"{place.position}{attempt}{f'~{place.ends}' if place.ends else ''}"


def status_of(value: object) -> RunStatus | None:
    """Return the status of the runs to list; None for all.

    Raises:
        UsageError: There is no such status.
    """
    if value is None:
        return None
    try:
        return RunStatus(value)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(each.value for each in RunStatus)
        raise UsageError(f"status= is one of {known}, or None for all runs, not {shortened(value)}") from None


def check_on_crash(on_crash: object, *, is_durable: bool) -> None:
    """Check what becomes of a run whose process ends.

    Args:
        on_crash: The value.
        is_durable: Whether the runs outlive their process.

    Raises:
        UsageError: It is no such value, or runs in memory are to fail, of which nothing is left then.
    """
    if on_crash not in ("again", "fail"):
        raise UsageError(f'on_crash= is "again" or "fail", not {on_crash!r}')
    if on_crash == "fail" and not is_durable:
        raise UsageError(
            'on_crash="fail" is for Store(URL): of runs in memory, nothing is left when their process ends'
        )
