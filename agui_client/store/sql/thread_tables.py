"""The tables of threads in a SQL database, and descriptions of threads as rows of them.

Entries belong to lines. A thread has a line of its own; the line of a fork begins with entries of another line. The
owner is part of every key.

To change

- the tables of threads and runs: this module and `store/sql/run_tables.py`, and the way from the version before in
  `MIGRATIONS` (`store/sql/versions.py`), each step of which is one transaction
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ag_ui.core import TokenUsage
from pydantic import TypeAdapter
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text

from agui_client._protocol.open_items import quoted
from agui_client._protocol.schema import is_text
from agui_client.store.sql.process_lease import PROCESS
from agui_client.store.threads.thread_store import ThreadInfo

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

T = TypeVar("T")

_logger = logging.getLogger("agui_client.threads")

TABLES = MetaData()
_ = PROCESS.to_metadata(TABLES)
THREADS = Table(
    "agui_threads",
    TABLES,
    Column("owner", Text, primary_key=True),
    Column("thread_id", Text, primary_key=True),
    Column("line", Text, nullable=False),
    Column("entries", Integer, nullable=False),  # the shared ones included; none as long as there is only a lease
    Column("lease", BigInteger, nullable=False),
    Column("leased_until", BigInteger, nullable=False),  # this and all other times in microseconds since 1970
    Column("holder", Text, nullable=False, default=""),  # the process that has the lease as long as it lives
    Column("title", Text, nullable=False, default=""),
    Column("created_at", BigInteger, nullable=False, default=0),
    Column("updated_at", BigInteger, nullable=False, default=0),
    Column("messages", Integer, nullable=False, default=0),
    Column("usage", Text, nullable=False, default="[]"),
    Index("agui_threads_by_time", "owner", "updated_at", "thread_id"),
)
DESCRIPTION = [THREADS.c[name] for name in ("title", "created_at", "updated_at", "messages", "usage")]
"""The columns that `columns` returns."""
LINES = Table(
    "agui_lines",
    TABLES,
    Column("owner", Text, primary_key=True),
    Column("line", Text, primary_key=True),
    Column("parent", Text),
    Column("shared", Integer, nullable=False),  # the number of its parent's entries that it begins with
    Index("agui_lines_by_parent", "owner", "parent"),
)
ENTRIES = Table(
    "agui_entries",
    TABLES,
    Column("owner", Text, primary_key=True),
    Column("line", Text, primary_key=True),
    Column("number", Integer, primary_key=True),  # counted from 1, the shared ones included
    Column("body", Text, nullable=False),
)
_USAGE = TypeAdapter(list[TokenUsage])
START = datetime(1970, 1, 1, tzinfo=UTC)
"""The time that columns count from."""
LATEST = (datetime.max.replace(tzinfo=UTC) - START) // timedelta(microseconds=1)
"""The last time that a column can have; SQLite takes texts for greater than all numbers."""


def microseconds(moment: datetime) -> int:
    """Return a time as columns have it."""
    return (moment - START) // timedelta(microseconds=1)


def columns(info: ThreadInfo) -> dict[str, Any]:
    """Return the columns of a description, its id excepted."""
    return {
        "title": info.title,
        "created_at": microseconds(info.created_at),
        "updated_at": microseconds(info.updated_at),
        "messages": info.message_count,
        "usage": _USAGE.dump_json(list(info.usage), by_alias=True).decode(),
    }


def shown(row: Row[Any]) -> ThreadInfo:
    """Return the description of a thread for a list; of one that is damaged, as much as can be read."""
    info, damaged = described(row)
    if damaged:
        where = ", ".join(damaged)
        _logger.warning("thread %s is damaged in %s, and listed without", quoted(info.thread_id), where)
    return info


def described(row: Row[Any]) -> tuple[ThreadInfo, list[str]]:
    """Return the description of a thread, and the columns that are damaged, instead of which it has nothing."""
    damaged: list[str] = []

    def read(column: str, convert: Callable[[Any], T], nothing: T) -> T:
        """Return the value of a column."""
        try:
            return convert(getattr(row, column))
        except (ArithmeticError, TypeError, ValueError):
            damaged.append(column)
            return nothing

    info = ThreadInfo(
        thread_id=read("thread_id", _text, ""),
        title=read("title", _text, ""),
        created_at=read("created_at", _moment, START),
        updated_at=read("updated_at", _moment, START),
        message_count=read("messages", _count, 0),
        usage=read("usage", _USAGE.validate_json, []),
    )
    return info, damaged


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ValueError
    return value


def _moment(value: Any) -> datetime:
    if not 1 <= value <= LATEST:
        raise ValueError
    return START + timedelta(microseconds=math.floor(value))


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError
    return value
