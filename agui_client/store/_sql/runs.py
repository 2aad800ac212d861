"""The statements on the tables of durable runs: each method is one transaction."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import sqlalchemy as sa
from ag_ui.core import Interrupt, ResumeEntry
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from agui_client._core.agent.run_records import (
    Place,
    RunFilter,
    RunKey,
    RunsClosedError,
    RunStatus,
    RunsUnavailableError,
    StoredRequest,
    TextRefusedError,
)
from agui_client._core.plugs import measure
from agui_client._serving.repetition import refuse_answered_by_runs
from agui_client.errors import AGUIError, RunInProgressError, UsageError
from agui_client.store._sql.faults import Fault, fault_of
from agui_client.store._sql.migrations import TablesRefusedError
from agui_client.store._sql.run_rows import EventGroup, Row
from agui_client.store._sql.tables import (
    GROUP,
    IS_OVER,
    IS_WAITING,
    NOW,
    PROCESS,
    RUN,
    UNNOTIFIED,
    microseconds,
    microseconds_of,
)
from agui_client.store._sql.transactions import TransactionsClosedError
from agui_client.store._sql.transcripts import Transcript, packed, remove_unused, unpacked
from agui_client.store._write_ids import new_write_id

if TYPE_CHECKING:
    from agui_client.store._sql.database import Database
    from agui_client.store._sql.lease import ProcessLease
    from agui_client.store._sql.transactions import Work

T = TypeVar("T")

_logger = logging.getLogger("agui_client.runs")
_TAKEN = {"agui.kind": "run"}
_LOST = "another process has taken the run over, as this one gave no sign of life in time"
_MOST_GROUPS = 500
"""The groups of events that are read in one go."""
_MOST_REMOVED = 1000
"""The runs that are removed in one go, and about the events."""
_LONG = 500
"""The number of messages from which a conversation is long."""


class _CutOffError(Exception):
    """This process was cut off from the database for a while, as may be those that look dead to it."""


class RunLostError(AGUIError):
    """Another process has taken the run over, or its lease has passed; this one must not continue."""


class ClaimedRun(NamedTuple):
    """A run that this process carries out, and the attempt."""

    row_id: str
    """The id of its row."""
    attempt: int
    """The number of the attempt."""


class Answered(NamedTuple):
    """The end of a run that was to answer another one of its thread."""

    key: RunKey
    """The identity of the run that answers."""
    waits_again: bool
    """Whether it has used no answer, so that the other one waits again."""


class RunChange(NamedTuple):
    """The progress of a run: its next events, and changes of its row."""

    claim: ClaimedRun
    """The run and the attempt."""
    group: EventGroup | None
    """The events."""
    values: Mapping[str, Any]
    """The values of the columns that change, that of `left_input` as a JSON value; the end of the run has its time
    besides."""
    answers: RunKey | None = None
    """The identity of the run, if what other runs of its thread waited for is answered or abandoned now."""
    replaces_groups: bool = False
    """Whether the events take the place of those that the attempt has stored before."""
    answered: Answered | None = None
    """The end of the run, if it was to answer another one."""


class RunningRuns(NamedTuple):
    """The runs that are in progress, of this process and of none, as they are committed."""

    mine: Mapping[ClaimedRun, bool]
    """The runs that the process has, each with whether it is to be stopped."""
    row_ids: Collection[str]
    """The ids of the rows of all of them."""


class Runs:
    """The tables of durable runs in a database."""

    def __init__(self, database: Database) -> None:
        self.database: Database = database
        self.lease: ProcessLease = self.database.lease
        """The lease of this process."""
        is_sqlite = self.database.is_sqlite
        insert = (sqlite if is_sqlite else postgresql).insert(RUN).values(begun_at=NOW)
        self._insert_run = insert.on_conflict_do_nothing().returning(_ARE_WAITING)
        # The lock lets a process that takes the run over wait for the events, or lets these events find it gone.
        self._insert_group = sa.text(_INSERT_GROUP.format(lock="" if is_sqlite else "for share"))
        if is_sqlite:
            parts = {"wanted": ":wanted", "attempt": "json_extract(w.value, '$[0]')"}
            parts["position"] = "json_extract(w.value, '$[1]')"
        else:
            parts = {"wanted": "cast(:wanted as json)", "attempt": "cast(w.value->>0 as int)"}
            parts["position"] = "cast(w.value->>1 as int)"
        self._select_groups = sa.text(_SELECT_GROUPS.format(**parts))
        # The runs of this process, and those of processes whose leases have passed.
        others = self.lease.living.where(PROCESS.c.process_id != sa.bindparam("of_process"))
        self._is_of_no_other_process = RUN.c.process_id.not_in(others)
        # A run that is to be stopped needs no agent any more: any process ends it.
        is_for_this_one = sa.or_(RUN.c.agent.in_(sa.bindparam("of_agents")), RUN.c.is_stop_wanted)
        columns = (RUN.c.row_id, RUN.c.process_id, RUN.c.attempt, RUN.c.is_stop_wanted)
        self._select_running = sa.select(*columns).where(_IS_RUNNING, is_for_this_one, self._is_of_no_other_process)
        self._end = _CHANGE.values(ended_at=NOW)

    async def open(self) -> None:
        """Make the tables if there are none, and take the lease of this process.

        Raises:
            RunsUnavailableError: The database cannot be reached.
            UsageError: The tables in it are of a newer version, or not ours.
        """
        try:
            with _translated():
                await self.database.make_tables()
                await self.database.hold_lease()
        except TablesRefusedError as error:
            raise UsageError(str(error)) from None

    async def _write(self, work: Work[T], *, is_synced: bool = True, is_stepwise: bool = False) -> T:
        with _translated():
            return await self.database.write(work, is_synced=is_synced, is_stepwise=is_stepwise)

    async def _read(self, work: Work[T]) -> T:
        with _translated():
            return await self.database.read(work)

    # --- processes

    async def running(self, agents: Collection[str]) -> RunningRuns:
        """Return the runs that are in progress and that this process has, or could have.

        Args:
            agents: The names of the agents that this process has.
        """
        asked = {"of_process": self.lease.process_id, "of_agents": [*agents]}
        rows = await self._read(lambda db: db.execute(self._select_running, asked).all())
        mine = {ClaimedRun(row[0], row[2]): bool(row[3]) for row in rows if row[1] == self.lease.process_id}
        return RunningRuns(mine, [row[0] for row in rows])

    async def take_over(self, agents: Collection[str], own: Collection[str]) -> list[Row]:
        """Take the runs of dead processes, and those of this one that have no task; a new attempt begins.

        Args:
            agents: The names of the agents that this process has.
            own: The ids of the rows of the runs that this process carries out.
        """
        asked = {"of_process": self.lease.process_id, "of_agents": [*agents]}

        def take(connection: sa.Connection) -> list[tuple[str, Row]]:
            """Take each run unless another process was faster."""
            taken: list[tuple[str, Row]] = []
            for row_id, process_id, attempt, _ in connection.execute(self._select_running, asked).all():
                if row_id in own:
                    continue
                row = _row(row_id, process_id, attempt)
                begun = sa.update(RUN).where(row).values(attempt=attempt + 1, process_id=self.lease.process_id)
                found = connection.execute(begun.returning(*RUN.c)).mappings()
                taken += ((process_id, Row.from_row(each)) for each in found)
            return taken

        taken = await self._write_of_dead(take)
        for process_id, run in taken:
            if process_id not in ("", self.lease.process_id):
                _logger.warning("run %r was taken over from a process that gave no sign of life", run.key.run_id)
                measure("agui.store.take_overs", attributes=_TAKEN)
        return [run for _, run in taken]

    async def _write_of_dead(self, take: Work[list[T]]) -> list[T]:
        """Carry out a transaction that takes runs of dead processes, unless this one may not judge that at its end."""

        def take_as_judge(connection: sa.Connection) -> list[T]:
            """Take the runs; again none if a statement has waited for the database until all leases had passed."""
            taken = take(connection)
            if taken and not self.lease.may_judge:
                raise _CutOffError
            return taken

        try:
            return await self._write(take_as_judge)
        except _CutOffError:
            return []

    async def release(self, claim: ClaimedRun) -> None:
        """Leave a run to any process that has its agent, at once."""
        mine = {"of_row": claim.row_id, "of_attempt": claim.attempt, "of_process": self.lease.process_id}
        await self._write(lambda db: db.execute(_CHANGE, {**mine, "process_id": ""}), is_stepwise=True)

    async def pop_unnotified(self, agents: Collection[str]) -> list[Row]:
        """Take the runs that wait for a person, and whose process ended before it had notified anybody.

        Args:
            agents: The names of the agents that this process has.
        """
        # Those that this process has ended or taken are being notified of.
        is_left = sa.and_(self._is_of_no_other_process, RUN.c.process_id != self.lease.process_id)
        unnotified = sa.update(RUN).where(UNNOTIFIED, RUN.c.agent.in_(agents), is_left)
        taken = unnotified.values(process_id=self.lease.process_id).returning(*RUN.c)
        mine = {"of_process": self.lease.process_id}
        return await self._write_of_dead(lambda db: [*map(Row.from_row, db.execute(taken, mine).mappings())])

    async def overdue(self, agents: Collection[str], seconds: float) -> list[RunKey]:
        """Return the identities of runs that have waited for an answer for longer than some seconds.

        Args:
            agents: The names of the agents that this process has.
        """
        asked = sa.select(RUN.c.owner, RUN.c.thread_id, RUN.c.run_id).where(
            IS_WAITING, RUN.c.ended_at < NOW - microseconds_of(seconds), RUN.c.agent.in_(agents)
        )
        return await self._read(lambda db: [RunKey(*row) for row in db.execute(asked.limit(_MOST_GROUPS)).all()])

    async def note_notified(self, row_id: str) -> None:
        """Note that the functions of `on_waiting` were called with a run."""
        row = RUN.c.row_id == row_id
        await self._write(lambda db: db.execute(sa.update(RUN).where(row).values(is_notified=True)), is_stepwise=True)

    # --- the life of a run

    async def add(self, row_id: str, key: RunKey, stored_request: StoredRequest, *, is_left: bool = False) -> bool:
        """Add a run that begins; return whether other runs of its thread wait for what it answers or abandons.

        Args:
            key: Its identity.
            stored_request: The agent and the input.
            is_left: Whether it is left to any process that has the agent, rather than carried out by this one.

        Raises:
            RequestRepeatedError: The run answers what another run of the thread has answered.
            RunInProgressError: A run of the thread is in progress, or the run is stored already.
        """
        resume = [ResumeEntry.model_validate(each) for each in stored_request.input.get("resume") or ()]
        values: dict[str, Any] = {
            **key._asdict(),
            "row_id": row_id,
            "write_id": new_write_id(),
            "agent": stored_request.agent,
            "stored_request": stored_request.as_text(),
            "process_id": "" if is_left else self.lease.process_id,
            "attempt": 0 if is_left else 1,
            "answers": json.dumps([each.interrupt_id for each in resume]),
        }

        def insert(connection: sa.Connection) -> bool:
            """Add the row, and take it back if the answers were given before."""
            are_waiting = connection.execute(self._insert_run, {**values, **_of(key)}).scalar_one_or_none()
            if are_waiting is None:
                # It may be there, as the response to an earlier try was lost.
                mine = {"of_row": row_id, "by_write": values["write_id"]}
                if connection.execute(_SELECT_MINE, mine).one_or_none() is None:
                    raise RunInProgressError(f"a run is in progress in thread {key.thread_id!r}")
                return True
            # Behind that: of two processes with the same answer, the second one now sees the run of the first.
            if resume:
                _refuse_answered(connection, key, resume, self.lease.now())
            return bool(are_waiting)

        # An answer that was given before takes the row back with it.
        return await self._write(insert, is_stepwise=not resume)

    async def withdraw(self, claim: ClaimedRun) -> bool:
        """Remove a run that this process carries out; return False if another process has taken it over."""
        mine = {"of_row": claim.row_id, "of_attempt": claim.attempt, "of_process": self.lease.process_id}

        def withdraw(connection: sa.Connection) -> bool:
            """Remove the row, if it is this process's or, as the response to an earlier try was lost, gone."""
            row = connection.execute(_LOCK_MINE, mine).one_or_none()
            if row is not None:
                _remove(connection, [claim.row_id])
            return row is not None or not connection.execute(_SELECT_RUN, {"of_row": claim.row_id}).all()

        return await self._write(withdraw)

    async def remove_ended(self, *, older_than: float | None = None, owner: str | None = None) -> int:
        """Remove a set of ended runs with their events; return their number.

        The set is small enough that other transactions, such as the renewal of the lease, hardly wait for it.

        Args:
            older_than: The seconds that must have passed since their end; then runs that wait for an answer stay. None
                for all runs that have ended.
            owner: The owner of the runs; None for those of all.
        """
        which = [sa.not_(_IS_RUNNING)]
        if older_than is not None:
            which = [RUN.c.ended_at < NOW - microseconds_of(older_than), IS_OVER]
        ended = sa.select(RUN.c.row_id, RUN.c.event_count, _EVENTS_BEFORE).where(*which, *_are_of(RUN.c.owner, owner))
        oldest = ended.order_by(RUN.c.ended_at).limit(_MOST_REMOVED).subquery()
        small = sa.select(oldest.c.row_id).where(oldest.c.before < _MOST_REMOVED)
        # Another process that cleans up at the same time removes others; who removes all waits for each.
        may_skip = older_than is not None
        chosen = sa.select(RUN.c.row_id).where(RUN.c.row_id.in_(small)).with_for_update(skip_locked=may_skip)

        def delete(connection: sa.Connection) -> int:
            """Delete the rows."""
            return _remove(connection, connection.execute(chosen).scalars().all())

        return await self._write(delete, is_synced=False)

    async def store(self, change: RunChange) -> None:
        """Store what a run has come to.

        Raises:
            RunLostError: The run is another process's now.
            RunsUnavailableError: The database cannot be reached.
        """
        write, values, group = await self.storing(change), change.values, change.group
        # If the machine loses power, events without values may be lost, as others are that were not stored yet.
        is_one = not values and group is not None and group.beginning is None and change.answers is None
        await self._write(write, is_synced=bool(values), is_stepwise=is_one)

    async def storing(self, change: RunChange) -> Work[None]:
        """Return the operation of `store`, which a write to the thread of the run may carry in its transaction."""
        claim, group, values, answers, replaces_groups, answered = change
        mine = {"of_row": claim.row_id, "of_attempt": claim.attempt, "of_process": self.lease.process_id}
        began = None if group is None or group.beginning is None else await _transcript_of(group.beginning[0])
        left: dict[str, Any] | None = values.get("left_input")
        left_messages = None if left is None else await _transcript_of(left["messages"])

        def write(connection: sa.Connection) -> None:
            """Write; undone as a whole if the run is another process's."""
            if group is not None and not self._insert(connection, group, began, mine):
                if not self._is_over(connection, mine, values):
                    raise RunLostError(_LOST)
                return
            if group is not None and replaces_groups:
                connection.execute(_DELETE_GROUPS, mine)
            if answers is not None:
                _settle(connection, answers)
            if not values:
                return
            changed = dict(values)
            if left is not None and left_messages is not None:
                kept = packed(connection, claim.row_id, left_messages)
                changed["left_input"] = json.dumps({**left, "messages": kept})
            is_end = group is not None and group.is_end
            if not connection.execute(self._end if is_end else _CHANGE, {**changed, **mine}).rowcount:
                raise RunLostError(_LOST)
            if answered is not None:
                _conclude(connection, answered, left, left_messages)

        return write

    def _insert(
        self, connection: sa.Connection, group: EventGroup, began: Transcript | None, mine: Mapping[str, Any]
    ) -> bool:
        """Insert a group of events; return whether the run is still this process's.

        Args:
            connection: The connection of the transaction.
            began: The messages with which the thread of the run begins in it; None if there are none.
            mine: The parameters that name the row, the attempt and the process.
        """
        beginning = None
        if began is not None and group.beginning is not None:
            beginning = json.dumps([packed(connection, mine["of_row"], began), group.beginning[1]])
        columns = {**group.columns, "beginning": beginning}
        return bool(connection.execute(self._insert_group, {**columns, **mine}).rowcount)

    def _is_over(self, connection: sa.Connection, mine: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Return whether the end of a run is stored: the response to an earlier try was lost."""
        row = _row(mine["of_row"], mine["of_process"], mine["of_attempt"], values.get("status", ""))
        return bool(connection.execute(sa.select(RUN.c.row_id).where(row)).all())

    async def want_stop(self, *, row_id: str | None = None, owner: str | None = None) -> int:
        """Have runs that are in progress stopped by the processes that have them; return their number.

        Args:
            row_id: The id of the row of the run; None for any.
            owner: The owner of the runs; None for any.
        """
        rows = (_IS_RUNNING, *_are_of(RUN.c.row_id, row_id), *_are_of(RUN.c.owner, owner))
        wanted = sa.update(RUN).where(*rows).values(is_stop_wanted=True)
        return await self._write(lambda db: db.execute(wanted).rowcount, is_stepwise=True)

    # --- looking

    async def get(self, row_id: str) -> Row | None:
        """Return the row of a run; None if it is not stored."""

        def select(connection: sa.Connection) -> Row | None:
            """Select the row."""
            found = connection.execute(_SELECT_RUN, {"of_row": row_id}).mappings().all()
            return _with_messages(connection, Row.from_row(found[0])) if found else None

        return await self._read(select)

    async def runs(self, wanted: RunFilter, limit: int, after: tuple[str, datetime] | None = None) -> list[Row]:
        """Return descriptions of runs, those that began last first.

        Args:
            wanted: The runs.
            limit: The most to return.
            after: The id of the row of the last run of the page before, and the time when it began.
        """
        given = {**wanted._asdict(), "status": wanted.status and wanted.status.value}
        conditions = [each for name, value in given.items() for each in _are_of(RUN.c[name], value)]
        if wanted.status is RunStatus.WAITING:
            conditions.append(IS_WAITING)  # by which the database knows the index of them
        is_queued = sa.and_(_IS_RUNNING, RUN.c.process_id.not_in(self.lease.living)).label("is_queued")
        described = sa.select(*_DESCRIBED, is_queued).where(*conditions)
        if after is not None:
            row_id, begun_at = after
            # Exact times are in the database only; that run may have been removed meanwhile.
            stored = sa.select(RUN.c.begun_at).where(RUN.c.row_id == row_id).scalar_subquery()
            place = sa.tuple_(sa.func.coalesce(stored, microseconds(begun_at)), sa.literal(row_id))
            described = described.where(sa.tuple_(RUN.c.begun_at, RUN.c.row_id) < place)
        chosen = described.order_by(RUN.c.begun_at.desc(), RUN.c.row_id.desc()).limit(limit)
        rows = await self._read(lambda db: db.execute(chosen).mappings().all())
        return [Row.from_row(row) for row in rows]

    async def groups(self, places: Mapping[str, Place]) -> list[EventGroup]:
        """Return the next groups of events of some runs.

        Args:
            places: The place of the last group that was read, by the ids of their rows.
        """
        wanted = {name: [place.attempt, place.position] for name, place in places.items()}
        asked = {"wanted": json.dumps(wanted), "most": _MOST_GROUPS}

        def select(connection: sa.Connection) -> list[EventGroup]:
            """Select the rows."""
            found = [EventGroup.from_row(row) for row in connection.execute(self._select_groups, asked).all()]
            return [whole for each in found if (whole := _with_beginning(connection, each)) is not None]

        return await self._read(select)

    async def size(self) -> int:
        """Return the bytes that the tables and their indexes take."""
        return await self._read(self.database.size)

    async def existing(self, row_ids: Collection[str]) -> set[str]:
        """Return those of some ids whose runs are stored."""
        chosen = sa.select(RUN.c.row_id).where(RUN.c.row_id.in_(row_ids))
        return {row[0] for row in await self._read(lambda db: db.execute(chosen).all())}


# --- statements, which are made once: their texts are looked up by their identity

_MINE = sa.and_(
    RUN.c.row_id == sa.bindparam("of_row"),
    RUN.c.attempt == sa.bindparam("of_attempt"),
    RUN.c.process_id == sa.bindparam("of_process"),
    RUN.c.status == RunStatus.RUNNING.value,
)
_LOCK_MINE = sa.select(RUN.c.row_id).where(_MINE).with_for_update()
_CHANGE = sa.update(RUN).where(_MINE)
"""Changes the columns that have parameters, if the run is the process's."""
_SELECT_MINE = sa.select(RUN.c.attempt).where(
    RUN.c.row_id == sa.bindparam("of_row"), RUN.c.write_id == sa.bindparam("by_write")
)
_SELECT_RUN = sa.select(RUN).where(RUN.c.row_id == sa.bindparam("of_row"))
_IS_RUNNING = RUN.c.status == RunStatus.RUNNING.value
_EVENTS_BEFORE = (
    sa.func.sum(RUN.c.event_count).over(order_by=(RUN.c.ended_at, RUN.c.row_id)) - RUN.c.event_count
).label("before")
"""The number of the events of runs that ended before a run."""
_STORED_COUNT = (
    sa.select(GROUP.c.position + GROUP.c.event_count)
    .where(GROUP.c.row_id == RUN.c.row_id)
    .order_by(GROUP.c.attempt.desc(), GROUP.c.position.desc())
    .limit(1)
    .scalar_subquery()
)
"""The number of the events behind the last group of a run, which the primary key finds."""
_DESCRIBED = (
    *(each for each in RUN.c if each is not RUN.c.event_count),
    sa.case((_IS_RUNNING, sa.func.coalesce(_STORED_COUNT, 0)), else_=RUN.c.event_count).label("event_count"),
)
_ASKED = sa.select(RUN.c.row_id, RUN.c.run_id, RUN.c.status, RUN.c.interrupts, RUN.c.answers, RUN.c.left_input).where(
    RUN.c.owner == sa.bindparam("of_owner"), RUN.c.thread_id == sa.bindparam("of_thread_id")
)
_SELECT_OTHER_ASKED = _ASKED.where(RUN.c.run_id != sa.bindparam("of_run_id"), sa.or_(IS_WAITING, RUN.c.answers != "[]"))
_SELECT_WAITING_AND_SELF = _ASKED.where(sa.or_(IS_WAITING, RUN.c.run_id == sa.bindparam("of_run_id")))
_ASKING = RUN.alias()
# A run of the thread that is added waits for none: while it is running, no other one of its thread begins or ends.
_ARE_WAITING = sa.exists().where(
    _ASKING.c.owner == sa.bindparam("of_owner"),
    _ASKING.c.thread_id == sa.bindparam("of_thread_id"),
    _ASKING.c.status == sa.literal_column(f"'{RunStatus.WAITING}'"),
)
_SETTLE = (
    sa.update(RUN)
    .where(RUN.c.row_id == sa.bindparam("of_row"))
    .values(status=sa.bindparam("of_status"), left_input=sa.bindparam("of_left_input"))
)
_SELECT_ANSWERED = sa.select(RUN.c.row_id, RUN.c.left_input).where(
    RUN.c.owner == sa.bindparam("of_owner"),
    RUN.c.thread_id == sa.bindparam("of_thread_id"),
    RUN.c.run_id != sa.bindparam("of_run_id"),
    RUN.c.status == RunStatus.FINISHED.value,
    RUN.c.left_input.is_not(None),
)
"""The runs that the one which ends was to answer."""
_INSERT_GROUP = """
insert into agui_run_events (row_id, attempt, position, event_count, frames, beginning, is_end)
select row_id, attempt, :position, :event_count, :frames, :beginning, :is_end from agui_runs
where row_id = :of_row and attempt = :of_attempt and process_id = :of_process and status = 'running'
{lock} on conflict (row_id, attempt, position) do update set frames = excluded.frames
"""
"""Stores events if the run is the process's; the same ones once more if the response to an earlier try was lost."""
_DELETE_GROUPS = sa.delete(GROUP).where(
    GROUP.c.row_id == sa.bindparam("of_row"), GROUP.c.attempt == sa.bindparam("of_attempt"), GROUP.c.is_end.is_(False)
)
"""Removes the groups of an attempt whose events are all in its last group."""
_SELECT_GROUPS = """
select e.row_id, e.attempt, e.position, e.frames, e.beginning, e.is_end
from json_each({wanted}) w join agui_run_events e on e.row_id = w.key
and (e.attempt, e.position) > ({attempt}, {position})
order by e.row_id, e.attempt, e.position limit :most
"""


def _refuse_answered(connection: sa.Connection, key: RunKey, resume: Sequence[ResumeEntry], now: datetime) -> None:
    """Refuse a run that answers what another run of its thread has answered, or answers too late.

    Raises:
        RequestRepeatedError: It does.
    """
    others = connection.execute(_SELECT_OTHER_ASKED, _of(key)).all()
    answered = {each for row in others for each in json.loads(row.answers)}
    waiting = [each for row in others if row.status == RunStatus.WAITING for each in json.loads(row.interrupts)]
    refuse_answered_by_runs(resume, answered, [Interrupt.model_validate(each) for each in waiting], now)


def _settle(connection: sa.Connection, key: RunKey) -> None:
    """Note that what the other runs of a thread waited for was answered by a run, or is abandoned."""
    rows = connection.execute(_SELECT_WAITING_AND_SELF, _of(key)).all()
    answered = {each for row in rows if row.run_id == key.run_id for each in json.loads(row.answers)}
    for row in rows:
        if row.run_id != key.run_id:
            is_answered = not answered.isdisjoint(each["id"] for each in json.loads(row.interrupts))
            # It waits again if the answers are not used.
            status, left = (RunStatus.FINISHED, row.left_input) if is_answered else (RunStatus.SUPERSEDED, None)
            connection.execute(_SETTLE, {"of_row": row.row_id, "of_status": status.value, "of_left_input": left})


def _conclude(
    connection: sa.Connection, answered: Answered, left: Mapping[str, Any] | None, messages: Transcript | None
) -> None:
    """Note what becomes of the runs that one has answered, which ends now.

    Args:
        connection: The connection of the transaction.
        answered: The end of the run.
        left: The conversation that it leaves for answers, as a JSON value; None if it is that of the run that asked.
        messages: The messages of that conversation.
    """
    status = RunStatus.WAITING if answered.waits_again else RunStatus.FINISHED
    for row_id, asked in connection.execute(_SELECT_ANSWERED, _of(answered.key)).all():
        left_input = asked if answered.waits_again else None
        if answered.waits_again and left is not None and messages is not None:
            left_input = json.dumps({**left, "messages": packed(connection, row_id, messages)})
        connection.execute(_SETTLE, {"of_row": row_id, "of_status": status.value, "of_left_input": left_input})


def _remove(connection: sa.Connection, row_ids: Sequence[str]) -> int:
    """Remove runs with their events, and the messages that no other run of their threads has; return their number."""
    if row_ids:
        threads = sa.select(RUN.c.owner, RUN.c.thread_id).where(RUN.c.row_id.in_(row_ids)).distinct()
        unused = [(row.owner, row.thread_id) for row in connection.execute(threads)]
        for table in (GROUP, RUN):
            connection.execute(sa.delete(table).where(table.c.row_id.in_(row_ids)))
        remove_unused(connection, unused)
    return len(row_ids)


async def _transcript_of(messages: Sequence[Any]) -> Transcript:
    """Return the transcript of messages; a long one is made in a thread, as the event loop would stand still."""
    return await asyncio.to_thread(Transcript.make, messages) if len(messages) > _LONG else Transcript.make(messages)


def _with_messages(connection: sa.Connection, run: Row) -> Row | None:
    """Return a row with the messages of the conversation that the run has left; None if it was removed just now."""
    if run.left_input is None:
        return run
    left = json.loads(run.left_input)
    messages = unpacked(connection, run.row_id, left["messages"])
    return None if messages is None else replace(run, left_input=json.dumps({**left, "messages": messages}))


def _with_beginning(connection: sa.Connection, group: EventGroup) -> EventGroup | None:
    """Return a group with the messages that its run began with; None if the run was removed just now."""
    if group.beginning is None:
        return group
    stored, state = group.beginning
    messages = unpacked(connection, group.row_id, stored)
    return None if messages is None else replace(group, beginning=(messages, state))


def _are_of(column: sa.Column[Any], value: str | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of rows that have a value; none for any."""
    return [] if value is None else [column == value]


def _of(key: RunKey) -> dict[str, str]:
    return {f"of_{name}": value for name, value in key._asdict().items()}


def _row(row_id: str, process_id: str, attempt: int, status: str = "running") -> sa.ColumnElement[bool]:
    """Return the condition of the row of a run in a state that was seen before."""
    run = sa.and_(RUN.c.row_id == row_id, RUN.c.process_id == process_id)
    return sa.and_(run, RUN.c.attempt == attempt, RUN.c.status == status)


@contextmanager
def _translated() -> Generator[None]:
    """Raise the exceptions that callers get for those of the database, as a block."""
    try:
        yield
    except TransactionsClosedError:
        raise RunsClosedError("the store of these runs was closed; make another one") from None
    except Exception as error:
        match fault_of(error):
            case Fault.REFUSED if not isinstance(error, IntegrityError):
                # PostgreSQL has no NUL in a text, and a limit for texts in an index. Its words may quote them.
                what = "an id or a text: it is too long, or has a NUL or half a character in it"
                raise TextRefusedError(f"the database of runs cannot store {what}") from None
            case Fault.AWAY | Fault.LOCKED | Fault.CONFLICT:
                raise RunsUnavailableError("the database of runs cannot be reached now") from error
            case _:
                raise
