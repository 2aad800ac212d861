"""The tables of durable runs: a lease for each process, and the description and the last checkpoint of each run.

Who may write: the process that a row of `agui_run` names, in the attempt that it names. Each statement asks for both,
so that a process that was taken for dead and comes back changes nothing. Times are the database's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from agui_client.errors import AGUIError, RunInProgressError, UsageError
from agui_client.runs.records import RunKey, RunStatus

T = TypeVar("T")
DatabaseError = SQLAlchemyError
"""The base of the exceptions of the database."""

_SCHEMA = sa.MetaData()
_PROCESS = sa.Table(
    "agui_run_process",
    _SCHEMA,
    sa.Column("executor_id", sa.Text, primary_key=True),
    sa.Column("beat_at", sa.Double, nullable=False),
)
_RUN = sa.Table(
    "agui_run",
    _SCHEMA,
    sa.Column("workflow_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Double, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("recipe", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("executor_id", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("is_stop_wanted", sa.Boolean, nullable=False),
    sa.Column("begun_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("event_count", sa.Integer, nullable=False),
    sa.Column("interrupts", sa.Text, nullable=False),
    sa.Column("left_input", sa.Text),
    sa.Column("checkpoint", sa.Text),
    sa.Column("checkpoint_position", sa.Integer, nullable=False),
)
sa.Index("agui_run_owner", _RUN.c.owner, _RUN.c.thread_id, _RUN.c.number)
sa.Index(
    "agui_run_going_on",
    _RUN.c.owner,
    _RUN.c.thread_id,
    unique=True,
    sqlite_where=_RUN.c.status == RunStatus.RUNNING.value,
    postgresql_where=_RUN.c.status == RunStatus.RUNNING.value,
)


class RunLostError(AGUIError):
    """Another process has taken the run over, or its lease has passed; this one must not go on."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The row of a run."""

    workflow_id: str
    """The id of its workflow."""
    key: RunKey
    """Its identity."""
    recipe: dict[str, Any]
    """The agent and the input, for any process."""
    status: RunStatus
    """Its status, as far as it is stored: a run that waits does so until another one of its thread begins."""
    executor_id: str
    """The process that has it."""
    attempt: int
    """The number of the attempt."""
    is_stop_wanted: bool
    """Whether it is to be stopped."""
    begun_at: datetime
    """The time when it began."""
    ended_at: datetime | None
    """The time when it ended."""
    event_count: int
    """The number of its events, once it has ended."""
    interrupts: list[Any]
    """The interrupts that it has ended with, as JSON."""
    left_input: str | None
    """The conversation that it has left, for answers, as JSON."""
    checkpoint: str | None
    """The place where it goes on, as JSON."""
    checkpoint_position: int
    """The number of events before that."""


class RunDatabase:
    """The tables of durable runs in one database.

    Args:
        url: The URL of the database, for SQLAlchemy.
        executor_id: The id of this process.
        lease: Seconds without a sign of life after which a process is taken for dead.
    """

    def __init__(self, url: sa.URL, executor_id: str, lease: float) -> None:
        # Errors would show messages of callers.
        self._engine = sa.create_engine(url, hide_parameters=True)
        self._executor_id, self._lease = executor_id, lease
        if url.get_backend_name() == "sqlite":
            event.listen(self._engine, "connect", _set_up_sqlite)
            now = sa.text("((julianday('now') - 2440587.5) * 86400.0)")
        else:
            now = sa.text("extract(epoch from clock_timestamp())::double precision")
        self._now: sa.ColumnElement[Any] = sa.literal_column(now.text, sa.Double)

    async def open(self) -> None:
        """Make the tables if there are none."""
        try:
            await self._do(_SCHEMA.create_all)
        except (OperationalError, ProgrammingError, IntegrityError):
            # Another process has made some of them since this one looked.
            await self._do(_SCHEMA.create_all)

    async def close(self) -> None:
        """Close the connections."""
        await anyio.to_thread.run_sync(self._engine.dispose)

    # --- processes

    async def beat(self) -> None:
        """Renew the lease of this process, or take one."""
        mine = _PROCESS.c.executor_id == self._executor_id

        def renew(connection: sa.Connection) -> None:
            """Renew the lease."""
            if not connection.execute(sa.update(_PROCESS).where(mine).values(beat_at=self._now)).rowcount:
                connection.execute(sa.insert(_PROCESS).values(executor_id=self._executor_id, beat_at=self._now))

        await self._do(renew)

    async def leave(self) -> None:
        """Give the lease back, so that other processes take the runs over at once."""
        await self._do(lambda db: db.execute(sa.delete(_PROCESS).where(_PROCESS.c.executor_id == self._executor_id)))

    async def take_over(self, agents: Collection[str]) -> list[tuple[str, str]]:
        """Take the runs of dead processes.

        Args:
            agents: The names of the agents that this process has.

        Returns:
            The ids of their workflows, and the names of their agents.
        """
        alive = sa.select(_PROCESS.c.executor_id).where(_PROCESS.c.beat_at > self._now - self._lease)
        orphaned = sa.select(_RUN.c.workflow_id, _RUN.c.agent, _RUN.c.executor_id).where(
            _RUN.c.status == RunStatus.RUNNING.value, _RUN.c.executor_id.not_in(alive), _RUN.c.agent.in_(agents)
        )

        def take(connection: sa.Connection) -> list[tuple[str, str]]:
            """Take each run unless another process was faster."""
            taken: list[tuple[str, str]] = []
            for workflow_id, agent, executor_id in connection.execute(orphaned).all():
                row = sa.and_(_RUN.c.workflow_id == workflow_id, _RUN.c.executor_id == executor_id)
                done = connection.execute(sa.update(_RUN).where(row).values(executor_id=self._executor_id))
                taken += [(workflow_id, agent)] * done.rowcount
            if taken:
                dead = _PROCESS.c.beat_at <= self._now - 10 * self._lease
                connection.execute(sa.delete(_PROCESS).where(dead))
            return taken

        if not await self._do(lambda db: db.execute(orphaned.limit(1)).all()):
            return []
        return await self._do(take)

    async def mine(self) -> dict[str, tuple[int, bool]]:
        """Return the runs that this process has: their attempts, and whether they are to be stopped."""
        columns = (_RUN.c.workflow_id, _RUN.c.attempt, _RUN.c.is_stop_wanted)
        chosen = sa.select(*columns).where(
            _RUN.c.status == RunStatus.RUNNING.value, _RUN.c.executor_id == self._executor_id
        )
        rows = await self._do(lambda db: db.execute(chosen).all())
        return {row[0]: (row[1], bool(row[2])) for row in rows}

    # --- the life of a run

    async def add(self, workflow_id: str, key: RunKey, recipe: dict[str, Any], *, is_left: bool = False) -> None:
        """Add a run that begins.

        Args:
            workflow_id: The id of its workflow.
            key: Its identity.
            recipe: The agent and the input.
            is_left: Whether it is left to any process that has the agent.

        Raises:
            RunInProgressError: A run of the thread is going on, or the run is stored already.
        """
        row: dict[str, Any] = {
            **key._asdict(),
            "workflow_id": workflow_id,
            "agent": recipe["agent"],
            "recipe": json.dumps(recipe),
        }
        row |= {
            "checkpoint_position": 0,
            "status": RunStatus.RUNNING.value,
            "executor_id": "" if is_left else self._executor_id,
            "attempt": 0,
            "number": self._now,
        }
        row |= {"is_stop_wanted": False, "begun_at": self._now, "event_count": 0, "interrupts": "[]"}
        try:
            await self._do(lambda db: db.execute(sa.insert(_RUN).values(**row)))
        except IntegrityError:
            raise RunInProgressError(f"a run is going on in thread {key.thread_id!r}") from None

    async def remove(self, workflow_id: str) -> None:
        """Remove a run that was refused."""
        await self._do(lambda db: db.execute(sa.delete(_RUN).where(_RUN.c.workflow_id == workflow_id)))

    async def attempt(self, workflow_id: str) -> StoredRun | None:
        """Begin an attempt of a run in this process; return its row, or None if it has ended."""
        row = sa.and_(_RUN.c.workflow_id == workflow_id, _RUN.c.status == RunStatus.RUNNING.value)
        begun = sa.update(_RUN).where(row).values(attempt=_RUN.c.attempt + 1, executor_id=self._executor_id)
        found = await self._do(lambda db: db.execute(begun.returning(*_RUN.c)).mappings().all())
        return _stored_run(dict(found[0])) if found else None

    async def save(
        self, workflow_id: str, attempt: int, checkpoint: str, position: int, answers: RunKey | None = None
    ) -> None:
        """Save the place where a run goes on if its process ends.

        Args:
            workflow_id: The id of the run's workflow.
            attempt: The number of the attempt.
            checkpoint: The place, as JSON.
            position: The number of events before it.
            answers: The identity of the run, if what other runs of its thread waited for is answered or abandoned now.

        Raises:
            RunLostError: The run is another process's now.
        """
        await self._write(workflow_id, attempt, answers, checkpoint=checkpoint, checkpoint_position=position)

    async def end(
        self,
        workflow_id: str,
        attempt: int,
        status: RunStatus,
        *,
        event_count: int,
        interrupts: Sequence[Any],
        left_input: str | None,
    ) -> None:
        """Note that a run has ended.

        Raises:
            RunLostError: The run is another process's now.
        """
        values: dict[str, Any] = {"status": status.value, "event_count": event_count, "left_input": left_input}
        values |= {"interrupts": json.dumps(interrupts), "ended_at": self._now, "checkpoint": None}
        await self._write(workflow_id, attempt, **values)

    async def release(self, workflow_id: str) -> None:
        """Leave a run to any process, unless another one has it already."""
        mine = sa.and_(_RUN.c.workflow_id == workflow_id, _RUN.c.executor_id == self._executor_id)
        await self._do(lambda db: db.execute(sa.update(_RUN).where(mine).values(executor_id="")))

    async def want_stop(self, workflow_id: str) -> None:
        """Have the process that has a run stop it."""
        row = _RUN.c.workflow_id == workflow_id
        await self._do(lambda db: db.execute(sa.update(_RUN).where(row).values(is_stop_wanted=True)))

    # --- looking

    async def get(self, workflow_id: str) -> StoredRun | None:
        """Return the row of a run; None if it is not stored."""
        found = await self._rows(_RUN.c.workflow_id == workflow_id)
        return found[0] if found else None

    async def runs(
        self, *, owner: str | None = None, thread_id: str | None = None, run_id: str | None = None, most: int = 1000
    ) -> list[StoredRun]:
        """Return rows of runs, those that began last first; None stands for any."""
        wanted = {_RUN.c.owner: owner, _RUN.c.thread_id: thread_id, _RUN.c.run_id: run_id}
        return await self._rows(*(key == value for key, value in wanted.items() if value is not None), most=most)

    async def expired(self, seconds: float) -> list[str]:
        """Return the workflows of the runs that ended longer ago than some seconds, and wait for nobody."""
        old = sa.select(_RUN.c.workflow_id).where(
            _RUN.c.ended_at < self._now - seconds, _RUN.c.status != RunStatus.WAITING.value
        )
        return [row[0] for row in await self._do(lambda db: db.execute(old.limit(100)).all())]

    # --- inside

    async def _write(self, workflow_id: str, attempt: int, answers: RunKey | None = None, **values: Any) -> None:
        row = sa.and_(_RUN.c.workflow_id == workflow_id, _RUN.c.attempt == attempt)
        mine = sa.and_(row, _RUN.c.executor_id == self._executor_id, _RUN.c.status == RunStatus.RUNNING.value)

        def write(connection: sa.Connection) -> bool:
            """Write the values; return whether the run is this process's."""
            if answers is not None:
                _settle(connection, answers)
            return bool(connection.execute(sa.update(_RUN).where(mine).values(**values)).rowcount)

        if not await self._do(write):
            raise RunLostError("another process has taken the run over, as this one gave no sign of life in time")

    async def _rows(self, *conditions: sa.ColumnElement[bool], most: int = 1) -> list[StoredRun]:
        chosen = sa.select(_RUN).where(*conditions).order_by(_RUN.c.number.desc()).limit(most)
        rows = await self._do(lambda db: db.execute(chosen).mappings().all())
        return [_stored_run(dict(row)) for row in rows]

    async def _do(self, function: Callable[[sa.Connection], T]) -> T:
        def transact() -> T:
            """Call the function in a transaction."""
            with self._engine.begin() as connection:
                return function(connection)

        # Shielded: a transaction that nobody waits for would be another writer beside the one that follows.
        return await asyncio.shield(asyncio.ensure_future(anyio.to_thread.run_sync(transact)))


def url_of(url: str) -> sa.URL:
    """Return a URL for SQLAlchemy, with the driver that DBOS uses.

    Raises:
        UsageError: It is none of a database that can be used.
    """
    try:
        made = sa.make_url(url)
    except ArgumentError:
        made = None
    if made is None or made.get_backend_name() not in ("sqlite", "postgresql") or not made.database:
        # It may have a password, and is not shown.
        raise UsageError("Runs takes the URL of a database: sqlite:///runs.db, or postgresql://user@host/database")
    return made.set(drivername="postgresql+psycopg") if made.get_backend_name() == "postgresql" else made


def has_runs(url: sa.URL) -> bool:
    """Return whether a database has the tables; makes neither them nor the database.

    Raises:
        UsageError: The database cannot be reached.
    """
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return False
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).has_table(_RUN.name)
    except OperationalError as error:
        raise UsageError(f"the database cannot be reached: {error.orig}") from error
    finally:
        engine.dispose()


def _settle(connection: sa.Connection, key: RunKey) -> None:
    """Note that what the other runs of a thread waited for was answered, or is abandoned."""
    thread = sa.and_(_RUN.c.owner == key.owner, _RUN.c.thread_id == key.thread_id, _RUN.c.run_id != key.run_id)
    waiting = sa.and_(thread, _RUN.c.status == RunStatus.WAITING.value)
    connection.execute(sa.update(_RUN).where(waiting).values(status=RunStatus.FINISHED.value, left_input=None))


def _stored_run(row: dict[str, Any]) -> StoredRun:
    ended_at = row["ended_at"]
    return StoredRun(
        workflow_id=row["workflow_id"],
        key=RunKey(row["owner"], row["thread_id"], row["run_id"]),
        recipe=json.loads(row["recipe"]),
        status=RunStatus(row["status"]),
        executor_id=row["executor_id"],
        attempt=row["attempt"],
        is_stop_wanted=bool(row["is_stop_wanted"]),
        begun_at=datetime.fromtimestamp(row["begun_at"], UTC),
        ended_at=None if ended_at is None else datetime.fromtimestamp(ended_at, UTC),
        event_count=row["event_count"],
        interrupts=json.loads(row["interrupts"]),
        left_input=row["left_input"],
        checkpoint=row["checkpoint"],
        checkpoint_position=row["checkpoint_position"],
    )


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = "IMMEDIATE"
    connection.execute("PRAGMA busy_timeout=30000")
    # With a journal beside the database, readers and the writer do not wait for each other.
    connection.execute("PRAGMA journal_mode=WAL")
