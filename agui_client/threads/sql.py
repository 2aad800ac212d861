"""The store in a SQL database: SQLite and PostgreSQL, through SQLAlchemy's asyncio (extra `threads`).

Entries belong to lines. A thread has a line of its own; the line of a fork begins with entries of another line. The
owner is part of every key. SQLite allows one writer, so that a transaction that writes begins with its write.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from ag_ui.core import TokenUsage
from pydantic import TypeAdapter
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    delete,
    event,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import StaticPool

from agui_client._protocol.open_items import quoted
from agui_client._protocol.schema import is_text
from agui_client.errors import ThreadStoreError, UsageError
from agui_client.threads.store import ThreadInfo, ThreadStore

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

T = TypeVar("T")

_logger = logging.getLogger("agui_client.threads")

VERSION = 1
"""The version of the tables."""
_TABLES = MetaData()
_VERSIONS = Table("agui_version", _TABLES, Column("version", Integer, primary_key=True))
_THREADS = Table(
    "agui_threads",
    _TABLES,
    Column("owner", Text, primary_key=True),
    Column("thread_id", Text, primary_key=True),
    Column("line", Text, nullable=False),
    Column("entries", Integer, nullable=False),  # the shared ones included; none as long as there is only a lease
    Column("lease", BigInteger, nullable=False),
    Column("leased_until", BigInteger, nullable=False),  # this and all other times in microseconds since 1970
    Column("title", Text, nullable=False, default=""),
    Column("created_at", BigInteger, nullable=False, default=0),
    Column("updated_at", BigInteger, nullable=False, default=0),
    Column("messages", Integer, nullable=False, default=0),
    Column("usage", Text, nullable=False, default="[]"),
    Index("agui_threads_by_time", "owner", "updated_at", "thread_id"),
)
_LINES = Table(
    "agui_lines",
    _TABLES,
    Column("owner", Text, primary_key=True),
    Column("line", Text, primary_key=True),
    Column("parent", Text),
    Column("shared", Integer, nullable=False),  # the number of its parent's entries that it begins with
    Index("agui_lines_by_parent", "owner", "parent"),
)
_ENTRIES = Table(
    "agui_entries",
    _TABLES,
    Column("owner", Text, primary_key=True),
    Column("line", Text, primary_key=True),
    Column("number", Integer, primary_key=True),  # counted from 1, the shared ones included
    Column("body", Text, nullable=False),
)
_USAGE = TypeAdapter(list[TokenUsage])
_START = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime.max.replace(tzinfo=UTC) - _START) // timedelta(microseconds=1)
"""The last time that a column can have; SQLite takes texts for greater than all numbers."""
_ATTEMPTS = 5
"""Attempts to make the tables while another process makes them."""
_inherited: list[object] = []
"""Parts of the parent that a forked child keeps as they are."""


class SQLStore(ThreadStore):
    """Keeps threads in SQLite or PostgreSQL; the tables are made with the first use.

    Args:
        url: A URL of SQLAlchemy: `sqlite:///chats.db`, `postgresql+asyncpg://...`, `postgresql+psycopg://...`.

    Raises:
        UsageError: It is no such URL, or its driver is not installed.
    """

    def __init__(self, url: str) -> None:
        if url.startswith("sqlite:"):
            url = url.replace("sqlite:", "sqlite+aiosqlite:", 1)
        if not url.startswith(("sqlite+aiosqlite:", "postgresql+asyncpg:", "postgresql+psycopg:")):
            known = "sqlite:///FILE, postgresql+asyncpg://HOST/NAME or postgresql+psycopg://HOST/NAME"
            raise UsageError(f"threads are kept in {known}; for other databases subclass ThreadStore")
        try:
            self._engine = create_async_engine(url, hide_parameters=True)
        except (ArgumentError, ImportError) as error:
            raise UsageError(f"this database cannot be used: {error}") from None
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine.sync_engine, "connect", _set_up_sqlite)
        self._reset()

    def _reset(self) -> None:
        # Locks and events belong to the event loop that first waits for them, and a child has another loop.
        self._is_ready, self._lock = False, asyncio.Lock()
        self._transactions = 0
        self._is_idle, self._may_begin = asyncio.Event(), asyncio.Event()
        self._is_idle.set()
        self._may_begin.set()

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        """Take, renew or give back a lease."""
        now = time.time_ns() // 1000
        this, until = _is_thread(owner, thread_id), now + int(seconds * 1_000_000)
        async with self._begin() as db:
            if number is not None:
                ours = and_(this, _THREADS.c.lease == number)
                if not seconds:
                    await db.execute(delete(_THREADS).where(ours, _THREADS.c.entries == 0))
                renewed = await db.execute(update(_THREADS).where(ours).values(leased_until=until))
                return number if renewed.rowcount else None
            is_over = or_(_THREADS.c.leased_until <= now, _THREADS.c.leased_until > _LATEST)
            free = update(_THREADS).where(this, is_over)
            taken = free.values(lease=_THREADS.c.lease + 1, leased_until=until).returning(_THREADS.c.lease)
            new_number: int | None = (await db.execute(taken)).scalar_one_or_none()
            if new_number is not None:
                return new_number
            if (await db.execute(select(_THREADS.c.lease).where(this))).first() is not None:
                return None
            # A thread that is made again after it was deleted gets higher numbers than before.
            first = {"owner": owner, "thread_id": thread_id, "line": uuid4().hex, "entries": 0, "lease": now}
            try:
                await db.execute(insert(_THREADS).values(**first, leased_until=until))
            except IntegrityError:  # another process was faster
                await db.rollback()
                return None
            return now

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out."""
        async with self._begin() as db:
            until = (await db.execute(select(_THREADS.c.leased_until).where(_is_thread(owner, thread_id)))).scalar()
        return 0.0 if until is None else max(0.0, until / 1_000_000 - time.time())

    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        """Return the description of a thread and its entries."""
        async with self._begin() as db:
            of_thread = select(_THREADS).where(_is_thread(owner, thread_id), _THREADS.c.entries > 0)
            if (row := (await db.execute(of_thread)).one_or_none()) is None:
                return None
            bodies: list[str] = []
            for line, first, last in await _segments(db, owner, row.line, row.entries):
                number = _ENTRIES.c.number
                found = select(_ENTRIES.c.body).where(_ENTRIES.c.owner == owner, _ENTRIES.c.line == line)
                bodies += (await db.execute(found.where(number > first, number <= last).order_by(number))).scalars()
            if len(bodies) == row.entries:
                info, damaged = _described(row)
                if damaged:
                    raise ThreadStoreError(f"it is damaged in {', '.join(damaged)}")
                return info, bodies
            if (await db.execute(of_thread.where(_THREADS.c.line == row.line))).one_or_none() is None:
                return None  # it was deleted just now
            lost = row.entries - len(bodies)
            raise ThreadStoreError(f"{lost} of its {row.entries} entries are missing")

    async def append(
        self, owner: str, info: ThreadInfo, entry: str, number: int, shared: tuple[str, int] | None = None
    ) -> bool:
        """Append an entry."""
        async with self._begin() as db:
            source = await _shared_line(db, owner, *shared) if shared is not None else (None, 0)
            ours = and_(_is_thread(owner, info.thread_id), _THREADS.c.lease == number)
            count: ColumnElement[int] = _THREADS.c.entries
            if shared is not None:
                ours, count = and_(ours, _THREADS.c.entries == 0), literal(shared[1])
            values = {**_columns(info), "entries": count + 1}
            written = update(_THREADS).where(ours).values(values).returning(_THREADS.c.line, _THREADS.c.entries)
            if source is None or (row := (await db.execute(written)).one_or_none()) is None:
                await db.rollback()
                return False
            if shared is not None or row.entries == 1:
                line = {"owner": owner, "line": row.line, "parent": source[0], "shared": source[1]}
                await db.execute(insert(_LINES).values(line))
            values = {"owner": owner, "line": row.line, "number": row.entries, "body": entry}
            await db.execute(insert(_ENTRIES).values(values))
            return True

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return a page of descriptions."""
        date, thread_id = _THREADS.c.updated_at, _THREADS.c.thread_id
        of_owner = select(_THREADS).where(_THREADS.c.owner == owner, _THREADS.c.entries > 0)
        dated = of_owner.where(date.between(1, _LATEST)).order_by(date.desc(), thread_id.desc())
        # Threads whose date is damaged come last; their descriptions have the date `_START`.
        undated = of_owner.where(or_(date < 1, date > _LATEST)).order_by(thread_id.desc())
        if after is not None:
            last = tuple_(literal(_microseconds(after.updated_at)), literal(after.thread_id))
            dated = dated.where(tuple_(date, thread_id) < last)
            if after.updated_at <= _START:
                undated = undated.where(thread_id < after.thread_id)
        async with self._begin() as db:
            rows = (await db.execute(dated.limit(limit))).all()
            rest = (await db.execute(undated.limit(limit - len(rows)))).all() if len(rows) < limit else ()
        return [_shown(row) for row in (*rows, *rest)]

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread, and the entries that no other thread shares."""
        ours = and_(_is_thread(owner, thread_id), _THREADS.c.lease == number)
        async with self._begin() as db:
            deleted = delete(_THREADS).where(ours).returning(_THREADS.c.line, _THREADS.c.entries)
            row = (await db.execute(deleted)).one_or_none()
            line: str | None = None if row is None else await _without_thread(db, owner, row.line)
            while line is not None:
                line = await _delete_line(db, owner, line)
            return row is not None and row.entries != 0

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def before_fork(self) -> None:
        """Close all connections, when no transaction is going on."""
        self._may_begin.clear()
        await self._is_idle.wait()
        if not isinstance(self._engine.pool, StaticPool):  # with its connection, SQLite's memory would be gone
            await self._engine.dispose()

    def after_fork(self, *, is_child: bool) -> None:
        """Open connections again, in a child those of its own."""
        self._may_begin.set()
        if is_child:
            # Collecting a connection would close it, and the parent uses those that were open all the same.
            _inherited.append((self._engine.pool, self._lock, self._is_idle, self._may_begin))
            self._engine.sync_engine.dispose(close=False)
            self._reset()

    @asynccontextmanager
    async def _begin(self) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction; failures of the database become a `ThreadStoreError`."""
        await self._may_begin.wait()
        self._transactions += 1
        self._is_idle.clear()
        try:
            async with self._lock:
                if not self._is_ready:
                    await self._make_tables()
                    self._is_ready = True
            async with self._engine.begin() as db:
                yield db
        except (SQLAlchemyError, OSError) as error:
            reason = getattr(error, "orig", None) or error
            raise ThreadStoreError(f"the database of the threads failed: {type(reason).__name__}: {reason}") from error
        finally:
            self._transactions -= 1
            if not self._transactions:
                self._is_idle.set()

    async def _make_tables(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                async with self._engine.begin() as db:
                    await db.run_sync(_TABLES.create_all)
                    version = (await db.execute(select(func.max(_VERSIONS.c.version)))).scalar_one()
                    if version is None:
                        await db.execute(insert(_VERSIONS).values(version=VERSION))
            except SQLAlchemyError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
            else:
                if version is not None and version > VERSION:
                    what = f"the tables of the threads are of version {version}, and this client knows {VERSION}"
                    raise ThreadStoreError(f"{what}; upgrade the client")
                return


def _set_up_sqlite(connection: Any, record: object) -> None:
    """Let readers and the one writer not wait for each other, and writers wait for each other."""
    # So damaged characters harm their own row; as surrogates they are no text for those who read it.
    connection.driver_connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()


def _is_thread(owner: str, thread_id: str) -> ColumnElement[bool]:
    return and_(_THREADS.c.owner == owner, _THREADS.c.thread_id == thread_id)


def _microseconds(moment: datetime) -> int:
    return (moment - _START) // timedelta(microseconds=1)


def _columns(info: ThreadInfo) -> dict[str, Any]:
    return {
        "title": info.title,
        "created_at": _microseconds(info.created_at),
        "updated_at": _microseconds(info.updated_at),
        "messages": info.message_count,
        "usage": _USAGE.dump_json(list(info.usage), by_alias=True).decode(),
    }


def _shown(row: Row[Any]) -> ThreadInfo:
    """Return the description of a thread for a list; of one that is damaged, as much as can be read."""
    info, damaged = _described(row)
    if damaged:
        columns = ", ".join(damaged)
        _logger.warning("thread %s is damaged in %s, and listed without", quoted(info.thread_id), columns)
    return info


def _described(row: Row[Any]) -> tuple[ThreadInfo, list[str]]:
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
        created_at=read("created_at", _moment, _START),
        updated_at=read("updated_at", _moment, _START),
        message_count=read("messages", _count, 0),
        usage=read("usage", _USAGE.validate_json, []),
    )
    return info, damaged


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ValueError
    return value


def _moment(value: Any) -> datetime:
    if not 1 <= value <= _LATEST:
        raise ValueError
    return _START + timedelta(microseconds=math.floor(value))


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError
    return value


async def _segments(db: AsyncConnection, owner: str, line: str, last: int) -> list[tuple[str, int, int]]:
    """Return the lines that entries are on, those of the first entries first: the line, and the numbers in between.

    Lines that were deleted just now, or are damaged, are left out.
    """
    segments: list[tuple[str, int, int]] = []
    above: str | None = line
    seen = set[str]()
    while above is not None:
        if above in seen:
            raise ThreadStoreError("its lines are damaged: their parents lead in a circle")
        seen.add(above)
        found = select(_LINES.c.parent, _LINES.c.shared).where(_LINES.c.owner == owner, _LINES.c.line == above)
        if (row := (await db.execute(found)).one_or_none()) is None:
            break
        parent, shared = row
        if shared < last:
            segments.insert(0, (above, shared, last))
        above, last = parent, min(shared, last)
    return segments


async def _shared_line(db: AsyncConnection, owner: str, thread_id: str, count: int) -> tuple[str, int] | None:
    """Return the line that a fork begins with, and the number of entries; None if there are not so many.

    The thread is written to, so that it cannot be deleted before the fork is there.
    """
    source = update(_THREADS).where(_is_thread(owner, thread_id), _THREADS.c.entries >= count)
    same = source.values(lease=_THREADS.c.lease).returning(_THREADS.c.line, _THREADS.c.entries)
    if not count or (row := (await db.execute(same)).one_or_none()) is None:
        return None
    segments = await _segments(db, owner, row.line, count)
    return (segments[-1][0], count) if segments else None


async def _delete_line(db: AsyncConnection, owner: str, line: str) -> str | None:
    """Delete what no thread needs of a line that has no thread; return its parent if that has none either."""
    this = and_(_LINES.c.owner == owner, _LINES.c.line == line)
    is_child = and_(_LINES.c.owner == owner, _LINES.c.parent == line, _LINES.c.line != line)
    children = select(func.max(_LINES.c.shared)).where(is_child)
    needed = (await db.execute(children)).scalar_one()
    entries = and_(_ENTRIES.c.owner == owner, _ENTRIES.c.line == line)
    await db.execute(delete(_ENTRIES).where(entries, _ENTRIES.c.number > (needed or 0)))
    if needed is not None:
        return None
    parent = (await db.execute(delete(_LINES).where(this).returning(_LINES.c.parent))).scalar_one_or_none()
    return None if parent is None else await _without_thread(db, owner, parent)


async def _without_thread(db: AsyncConnection, owner: str, line: str) -> str | None:
    """Return a line if it has no thread, and else None."""
    of_thread = select(_THREADS.c.line).where(_THREADS.c.owner == owner, _THREADS.c.line == line)
    return None if (await db.execute(of_thread)).first() else line
