"""The tables of version 1: the version, processes, threads with their entries, runs with their events and messages.

Entries belong to lines. A thread has a line of its own; the line of a fork begins with entries of another line. The
owner is part of every key.

Who may write to a run: the process that its row names, in the attempt that it names. Each statement asks for both, so
that a process that was taken for dead and comes back changes nothing.

Tables have plural names. Times are microseconds since 1970; those of leases, processes and runs are of the clock of the
database (`NOW`), as the clocks of programs differ.

To change

- a column of the tables of threads and runs: this module, the rows in `store/_sql/thread_rows.py` and
  `store/_sql/run_rows.py`, the statements in `store/_sql/thread_statements.py` and `store/_sql/runs.py`, and the way
  from the version before in `MIGRATIONS` (`store/_sql/migrations.py`), each step of which is one transaction
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from agui_client._core.agent.run_records import RunStatus


class _Now(FunctionElement[int]):
    """The time of the database in microseconds."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(_Now, "sqlite")
def _now_of_sqlite(*_: Any, **__: Any) -> str:
    return "cast((julianday('now') - 2440587.5) * 86400000000.0 as integer)"


@compiles(_Now, "postgresql")
def _now_of_postgresql(*_: Any, **__: Any) -> str:
    return "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"


NOW: sa.ColumnElement[int] = _Now()
"""The time of the database in microseconds since 1970, as an expression."""


START = datetime(1970, 1, 1, tzinfo=UTC)
"""The time that columns count from."""
LATEST = (datetime.max.replace(tzinfo=UTC) - START) // timedelta(microseconds=1)
"""The last time that a column can have; SQLite takes texts for greater than all numbers."""


def microseconds(moment: datetime) -> int:
    """Return a time as columns have it."""
    return (moment - START) // timedelta(microseconds=1)


def moment(value: int) -> datetime:
    """Return the time that a column has."""
    return START + timedelta(microseconds=value)


def microseconds_of(seconds: float) -> int:
    """Return a duration as columns have it."""
    return int(seconds * 1_000_000)


TABLES = sa.MetaData()
"""All tables."""
VERSION = sa.Table("agui_versions", TABLES, sa.Column("version", sa.Integer, primary_key=True))
PROCESS = sa.Table(
    "agui_processes",
    TABLES,
    sa.Column("process_id", sa.Text, primary_key=True),
    sa.Column("alive_until", sa.BigInteger, nullable=False),
)
THREADS = sa.Table(
    "agui_threads",
    TABLES,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, primary_key=True),
    sa.Column("line", sa.Text, nullable=False),
    sa.Column("entry_count", sa.Integer, nullable=False),  # the shared ones included; 0 while there is only a lease
    sa.Column("lease", sa.BigInteger, nullable=False),
    sa.Column("leased_until", sa.BigInteger, nullable=False),
    sa.Column("process_id", sa.Text, nullable=False, default=""),  # the process that has the lease as long as it lives
    sa.Column("taking", sa.Text, nullable=False, default=""),  # the id of the request that took the lease last
    sa.Column("title", sa.Text, nullable=False, default=""),
    sa.Column("created_at", sa.BigInteger, nullable=False, default=0),
    sa.Column("updated_at", sa.BigInteger, nullable=False, default=0),
    sa.Column("message_count", sa.Integer, nullable=False, default=0),
    sa.Column("usage", sa.Text, nullable=False, default="[]"),
    sa.Index("agui_threads_by_time", "owner", "updated_at", "thread_id"),
)
LINES = sa.Table(
    "agui_lines",
    TABLES,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("line", sa.Text, primary_key=True),
    sa.Column("parent", sa.Text),
    sa.Column("shared_count", sa.Integer, nullable=False),  # the number of its parent's entries that it begins with
    sa.Index("agui_lines_by_parent", "owner", "parent"),
)
ENTRIES = sa.Table(
    "agui_entries",
    TABLES,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("line", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),  # counted from 1, the shared ones included
    sa.Column("lease", sa.BigInteger, nullable=False),  # the number of the lease of the block that wrote it
    sa.Column("write_id", sa.Text, nullable=False),  # by which its writer, and nobody else, knows it again
    sa.Column("body", sa.Text, nullable=False),
)
RUN = sa.Table(
    "agui_runs",
    TABLES,
    sa.Column("row_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("stored_request", sa.Text, nullable=False),
    sa.Column("write_id", sa.Text, nullable=False, default=""),  # by which the process that added it knows it again
    sa.Column("status", sa.Text, nullable=False, default=RunStatus.RUNNING.value),
    sa.Column("process_id", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("is_stop_wanted", sa.Boolean, nullable=False, default=False),
    sa.Column("begun_at", sa.BigInteger, nullable=False),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("event_count", sa.Integer, nullable=False, default=0),
    sa.Column("interrupts", sa.Text, nullable=False, default="[]"),
    sa.Column("answers", sa.Text, nullable=False),
    sa.Column("is_notified", sa.Boolean, nullable=False, default=False),
    sa.Column("left_input", sa.Text),
    # The place where a run without a stored thread continues; of others, the entries of the thread have it.
    sa.Column("threadless_checkpoint", sa.Text),
    sa.Column("threadless_position", sa.Integer, nullable=False, default=0),
    sa.Column("has_begun", sa.Boolean, nullable=False, default=False),  # was sent, or has called tools, or was about to
)
GROUP = sa.Table(
    "agui_run_events",
    TABLES,
    sa.Column("row_id", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("event_count", sa.Integer, nullable=False),
    sa.Column("frames", sa.LargeBinary, nullable=False),
    sa.Column("beginning", sa.Text),
    sa.Column("is_end", sa.Boolean, nullable=False),
)
SEGMENT = sa.Table(
    "agui_segments",
    TABLES,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, primary_key=True),
    sa.Column("link", sa.Text, primary_key=True),  # a hash of all messages up to the last one of the segment
    sa.Column("parent", sa.Text),  # the link of the segment before it
    sa.Column("body", sa.Text, nullable=False),
)
_BY_TIME = (RUN.c.owner, RUN.c.begun_at, RUN.c.row_id)
sa.Index("agui_runs_by_time", *_BY_TIME)
sa.Index("agui_runs_by_thread", RUN.c.owner, RUN.c.thread_id, RUN.c.begun_at)
sa.Index(
    "agui_runs_running",
    RUN.c.owner,
    RUN.c.thread_id,
    unique=True,
    sqlite_where=RUN.c.status == RunStatus.RUNNING.value,
    postgresql_where=RUN.c.status == RunStatus.RUNNING.value,
)
# A literal, as an index with a condition serves no statement with a parameter in its place.
IS_WAITING = RUN.c.status == sa.literal_column(f"'{RunStatus.WAITING}'")
"""The condition of a run that waits for a person."""
sa.Index("agui_runs_waiting", RUN.c.ended_at, sqlite_where=IS_WAITING, postgresql_where=IS_WAITING)
# Few runs of an owner wait for a person, and a list of them is read each time that a page is loaded.
sa.Index("agui_runs_waiting_by_time", *_BY_TIME, sqlite_where=IS_WAITING, postgresql_where=IS_WAITING)
UNNOTIFIED = sa.and_(IS_WAITING, RUN.c.is_notified.is_(False))
"""The condition of a run that waits for a person, while no function of `on_waiting` has returned."""
IS_OVER = RUN.c.status.not_in([sa.literal_column(f"'{each}'") for each in (RunStatus.RUNNING, RunStatus.WAITING)])
"""The condition of a run that has ended, and waits for no answer."""
sa.Index("agui_runs_over", RUN.c.ended_at, sqlite_where=IS_OVER, postgresql_where=IS_OVER)
sa.Index("agui_runs_unnotified", RUN.c.row_id, sqlite_where=UNNOTIFIED, postgresql_where=UNNOTIFIED)
