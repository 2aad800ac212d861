"""The tables of durable runs: the description of each run, and the groups of its events.

Who may write: the process that a row of `agui_run` names, in the attempt that it names. Each statement asks for both,
so that a process that was taken for dead and comes back changes nothing. Times are the database's.

To change

- where a durable run is stored, and the tables: this module, and the statements in `store/sql/run_database.py`, which
  `store/sql/transactions.py` puts together in transactions; `store/sql/versions.py` makes the tables
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from ag_ui.core import Interrupt
from sqlalchemy.exc import OperationalError

from agui_client.errors import UsageError
from agui_client.store.runs.records import Place, RunKey, RunStatus
from agui_client.store.sql.database import sql_url
from agui_client.store.sql.process_lease import PROCESS

SCHEMA = sa.MetaData()
_ = PROCESS.to_metadata(SCHEMA)
RUN = sa.Table(
    "agui_run",
    SCHEMA,
    sa.Column("row_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("stored_request", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False, default=RunStatus.RUNNING.value),
    sa.Column("process_id", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("is_stop_wanted", sa.Boolean, nullable=False, default=False),
    sa.Column("begun_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("event_count", sa.Integer, nullable=False, default=0),
    sa.Column("interrupts", sa.Text, nullable=False, default="[]"),
    sa.Column("answers", sa.Text, nullable=False),
    sa.Column("is_notified", sa.Boolean, nullable=False, default=False),
    sa.Column("left_input", sa.Text),
    sa.Column("checkpoint", sa.Text),
    sa.Column("checkpoint_position", sa.Integer, nullable=False, default=0),
    sa.Column("place_key", sa.Text),
    sa.Column("position_before", sa.Integer, nullable=False, default=0),
)
GROUP = sa.Table(
    "agui_run_events",
    SCHEMA,
    sa.Column("row_id", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("event_count", sa.Integer, nullable=False),
    sa.Column("frames", sa.LargeBinary, nullable=False),
    sa.Column("beginning", sa.Text),
    sa.Column("is_end", sa.Boolean, nullable=False),
)
sa.Index("agui_run_owner", RUN.c.owner, RUN.c.thread_id, RUN.c.begun_at)
sa.Index("agui_run_begun", RUN.c.owner, RUN.c.begun_at, RUN.c.row_id)
sa.Index(
    "agui_run_going_on",
    RUN.c.owner,
    RUN.c.thread_id,
    unique=True,
    sqlite_where=RUN.c.status == RunStatus.RUNNING.value,
    postgresql_where=RUN.c.status == RunStatus.RUNNING.value,
)
# A literal, as an index with a condition serves no statement with a parameter in its place.
IS_WAITING = RUN.c.status == sa.literal_column(f"'{RunStatus.WAITING}'")
"""The condition of a run that waits for a person."""
sa.Index("agui_run_waiting", RUN.c.ended_at, sqlite_where=IS_WAITING, postgresql_where=IS_WAITING)
UNNOTIFIED = sa.and_(IS_WAITING, RUN.c.is_notified.is_(False))
"""The condition of a run that waits for a person, while no function of `on_waiting` has returned."""
IS_OVER = RUN.c.status.not_in([sa.literal_column(f"'{each}'") for each in (RunStatus.RUNNING, RunStatus.WAITING)])
"""The condition of a run that has ended, and waits for no answer."""
sa.Index("agui_run_ended", RUN.c.ended_at, sqlite_where=IS_OVER, postgresql_where=IS_OVER)
sa.Index("agui_run_unnotified", RUN.c.row_id, sqlite_where=UNNOTIFIED, postgresql_where=UNNOTIFIED)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The row of a run."""

    row_id: str
    """The id of the row, which is made of the identity."""
    key: RunKey
    """Its identity."""
    stored_request: dict[str, Any]
    """The agent and the input, for any process."""
    status: RunStatus
    """Its status, as far as it is stored: a run that waits does so until another one of its thread begins."""
    process_id: str
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
    """The number of its events: in descriptions, those that are stored; elsewhere 0 until it has ended."""
    interrupts: list[Interrupt]
    """The interrupts that it has ended with."""
    left_input: str | None
    """The conversation that it has left, for answers, as JSON."""
    checkpoint: str | None
    """The place where it goes on, as JSON; None if it has not begun, or its thread is stored, and has the place."""
    checkpoint_position: int
    """The number of events before the place."""
    place_key: str | None
    """The key of the place that the stored thread of the run has, or was about to get; None of any other run."""
    position_before: int
    """The number of events before the place that the thread had until then."""
    is_queued: bool
    """In descriptions, whether it is going on, and no living process has it; elsewhere False."""

    @property
    def has_begun(self) -> bool:
        """Whether the run was sent, or has called tools, or was about to."""
        return self.checkpoint is not None or self.place_key is not None

    @classmethod
    def of(cls, row: sa.RowMapping) -> StoredRun:
        """Return the run of a row."""
        ended_at = row["ended_at"]
        converted: dict[str, Any] = {
            "key": RunKey(row["owner"], row["thread_id"], row["run_id"]),
            "stored_request": json.loads(row["stored_request"]),
            "status": RunStatus(row["status"]),
            "begun_at": datetime.fromtimestamp(row["begun_at"], UTC),
            "ended_at": None if ended_at is None else datetime.fromtimestamp(ended_at, UTC),
            "interrupts": [Interrupt.model_validate(each) for each in json.loads(row["interrupts"])],
            "is_queued": bool(row.get("is_queued")),
        }
        plain = {each.name: row[each.name] for each in fields(cls) if each.name not in converted}
        return cls(**converted, **plain)


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of a run that were stored together."""

    row_id: str
    """The id of the run's row."""
    place: Place
    """The place of the first event, and the attempt that wrote it."""
    frames: Sequence[bytes]
    """The frames of the events."""
    beginning: str | None
    """The messages and the state that the run began with, as JSON, in the first group; None if its thread has them."""
    is_end: bool
    """Whether the last event is the run's terminal one; then the group has all events of the attempt."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> EventGroup:
        """Return the group of a row."""
        row_id, attempt, position, body, beginning, is_end = row
        frames = (zlib.decompress(body) if is_end else body).split(b"\n\n")[:-1]
        place = Place(position - len(frames) if is_end else position, attempt)
        return cls(row_id, place, [each + b"\n\n" for each in frames], beginning, bool(is_end))

    @property
    def key(self) -> Place:
        """The place of the group among those of its run: the last one of an attempt comes behind all others."""
        return self.place._replace(position=self.place.position + len(self.frames)) if self.is_end else self.place

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the row that depend on the events."""
        # Events that are a few characters each repeat all but these.
        body = b"".join(self.frames)
        about = {"position": self.key.position, "event_count": len(self.frames), "beginning": self.beginning}
        return {**about, "frames": zlib.compress(body) if self.is_end else body, "is_end": self.is_end}


def has_runs(url: sa.URL) -> bool:
    """Return whether a database has the tables; makes neither them nor the database.

    Raises:
        UsageError: The database cannot be reached.
    """
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return False
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).has_table(RUN.name)
    except OperationalError as error:
        raise UsageError(f"the database cannot be reached: {error.orig}") from error
    finally:
        engine.dispose()


def url_of(url: str) -> sa.URL:
    """Return a URL for SQLAlchemy, with the driver that is used.

    Raises:
        UsageError: It is none of a database that can be used.
    """
    if (made := sql_url(url)) is None or not made.database:
        # It may have a password, and is not shown.
        raise UsageError("Runs takes the URL of a database: sqlite:///runs.db, or postgresql://user@host/database")
    return made
