"""The operations of a SQL store, each on a connection of SQLAlchemy.

A write begins with the statement that checks the number of the lease. Statements are made once, as making one takes
longer than executing it. PostgreSQL writes to any number of threads in one statement; SQLite cannot pass rows from one
part of it to another.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Executable,
    Integer,
    Row,
    Table,
    Text,
    and_,
    bindparam,
    case,
    column,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from agui_client.errors import ThreadStoreError
from agui_client.threads.sql.thread_tables import (
    DESCRIPTION,
    ENTRIES,
    LATEST,
    LINES,
    START,
    THREADS,
    columns,
    described,
    microseconds,
    shown,
)
from agui_client.threads.store import LeasedThread, ThreadInfo

_OWNER = bindparam("of", type_=Text)
_IS_THREAD = and_(THREADS.c.owner == _OWNER, THREADS.c.thread_id == bindparam("id"))
_IS_OURS = and_(_IS_THREAD, THREADS.c.lease == bindparam("lease_number"))
_UNTIL = bindparam("until", type_=BigInteger)
_IS_OVER = or_(THREADS.c.leased_until <= bindparam("now"), THREADS.c.leased_until > LATEST)
_TAKE = (
    update(THREADS)
    .where(_IS_THREAD, _IS_OVER)
    .values(lease=THREADS.c.lease + 1, leased_until=_UNTIL)
    .returning(*THREADS.c)
)
_MAKE = {
    each.__name__.rpartition(".")[2]: each.insert(THREADS).on_conflict_do_nothing().returning(THREADS.c.lease)
    for each in (postgresql, sqlite)
}
_RENEW = update(THREADS).where(_IS_OURS).values(leased_until=_UNTIL).returning(THREADS.c.entries)
_FORGET = delete(THREADS).where(_IS_OURS, THREADS.c.entries == 0)
_LEASED_UNTIL = select(THREADS.c.leased_until).where(_IS_THREAD)
_THREAD = select(THREADS).where(_IS_THREAD, THREADS.c.entries > 0)
_IS_LINE = and_(LINES.c.owner == _OWNER, LINES.c.line == bindparam("on"))
_LINE = select(LINES.c.parent, LINES.c.shared).where(_IS_LINE)
_OWN = and_(ENTRIES.c.owner == LINES.c.owner, ENTRIES.c.line == LINES.c.line, ENTRIES.c.number > LINES.c.shared)
_PART = (
    select(LINES.c.parent, LINES.c.shared, ENTRIES.c.body)
    .select_from(LINES.outerjoin(ENTRIES, and_(_OWN, ENTRIES.c.number <= bindparam("last"))))
    .where(_IS_LINE)
    .order_by(ENTRIES.c.number)
)
_DESCRIBE: dict[str, Any] = {each.name: bindparam(f"new_{each.name}") for each in DESCRIPTION}
_WRITE = (
    update(THREADS)
    .where(_IS_OURS, THREADS.c.entries == bindparam("count"))
    .values(**_DESCRIBE, entries=THREADS.c.entries + 1, leased_until=func.coalesce(_UNTIL, THREADS.c.leased_until))
    .returning(THREADS.c.line, THREADS.c.entries)
)
_SOURCE = (
    update(THREADS)
    .where(_IS_THREAD, THREADS.c.entries >= bindparam("least"))
    .values(lease=THREADS.c.lease)
    .returning(THREADS.c.line)
)
_WRITE_FORK = (
    update(THREADS)
    .where(_IS_OURS, THREADS.c.entries == 0)
    .values(**_DESCRIBE, entries=bindparam("count", type_=Integer))
    .returning(THREADS.c.line)
)
_NEW_LINE, _NEW_ENTRY = insert(LINES), insert(ENTRIES)


def _writing_to_many(*, waits: bool) -> Executable:
    """Make the statement that writes to many threads of PostgreSQL.

    It returns the places of the writes that fit, with the numbers of entries that their threads have then.

    Args:
        waits: Whether it waits for a thread that another transaction is writing to, or leaves it out.
    """
    kinds: dict[str, Any] = {"owner": Text, "thread_id": Text, "lease_number": BigInteger, "count": Integer}
    kinds |= {"until": BigInteger, "body": Text, **{each.name: type(each.type) for each in DESCRIPTION}}
    arrays = [bindparam(f"{name}s", type_=postgresql.ARRAY(kind)) for name, kind in kinds.items()]
    rows = func.unnest(*arrays).table_valued(
        *(column(name, kind) for name, kind in kinds.items()), with_ordinality="place", name="given"
    )
    given = select(rows.render_derived()).cte("given")
    is_theirs = and_(
        THREADS.c.owner == given.c.owner,
        THREADS.c.thread_id == given.c.thread_id,
        THREADS.c.lease == given.c.lease_number,
        # A renewal of the lease expects no number of entries.
        or_(given.c.count.is_(None), THREADS.c.entries == given.c.count),
    )
    locked = select(given).where(is_theirs).with_for_update(of=THREADS, skip_locked=not waits).cte("locked")
    new: dict[str, Any] = {each.name: func.coalesce(locked.c[each.name], each) for each in DESCRIPTION}
    written = (
        update(THREADS)
        .where(THREADS.c.owner == locked.c.owner, THREADS.c.thread_id == locked.c.thread_id)
        .values(
            **new,
            entries=THREADS.c.entries + case((locked.c.body.is_(None), 0), else_=1),
            leased_until=func.coalesce(locked.c.until, THREADS.c.leased_until),
        )
        .returning(THREADS.c.owner, THREADS.c.line, THREADS.c.entries, locked.c.body, locked.c.place)
        .cte("written")
    )
    appended = select(written).where(written.c.body.is_not(None)).subquery()
    first = select(appended.c.owner, appended.c.line, null(), literal(0)).where(appended.c.entries == 1)
    entries = select(appended.c.owner, appended.c.line, appended.c.entries, appended.c.body)
    return select(written.c.place, written.c.entries).add_cte(
        insert(LINES).from_select(LINES.c.keys(), first).cte("first_lines"),
        insert(ENTRIES).from_select(ENTRIES.c.keys(), entries).cte("new_entries"),
    )


_WRITE_TO_MANY = {waits: _writing_to_many(waits=waits) for waits in (False, True)}


@dataclass(frozen=True, slots=True)
class Write:
    """A write to a thread by the block that has its lease."""

    owner: str
    """The owner."""
    thread_id: str
    """The thread."""
    number: int
    """The number of the lease."""
    info: ThreadInfo | None = None
    """The new description; None to renew the lease only."""
    entry: str | None = None
    """The entry; None to renew the lease only."""
    count: int | None = None
    """The number of entries that the thread has; None to renew the lease only."""
    seconds: float | None = None
    """The seconds for which the lease is renewed; 0 gives it back, None leaves it as it is."""

    @property
    def until(self) -> int | None:
        """The new end of the lease, as its column has it."""
        if self.seconds is None:
            return None
        return time.time_ns() // 1000 + int(self.seconds * 1_000_000) if self.seconds else 0


def take(db: Connection, owner: str, thread_id: str, seconds: float) -> LeasedThread | None:
    """Take the lease of a thread, and read the thread: see `ThreadStore.lease_and_read`."""
    if (taken := _take(db, owner, thread_id, seconds)) is None or isinstance(taken, int):
        return taken if taken is None else LeasedThread(taken, None)
    try:
        return LeasedThread(taken.lease, _found(db, owner, taken) if taken.entries != 0 else None)
    except Exception:
        db.execute(_RENEW, {"of": owner, "id": thread_id, "lease_number": taken.lease, "until": 0})
        raise


def lease(db: Connection, owner: str, thread_id: str, seconds: float) -> int | None:
    """Take the lease of a thread; return its number, or None."""
    taken = _take(db, owner, thread_id, seconds)
    return taken if taken is None or isinstance(taken, int) else taken.lease


def _take(db: Connection, owner: str, thread_id: str, seconds: float) -> Row[Any] | int | None:
    """Take the lease of a thread; return the row of the thread, or the number of the lease if there was no row."""
    now = time.time_ns() // 1000
    until = now + int(seconds * 1_000_000)
    if (row := db.execute(_TAKE, {"of": owner, "id": thread_id, "now": now, "until": until}).one_or_none()) is not None:
        return row
    # A thread that is made again after it was deleted gets higher numbers than before.
    first = {"owner": owner, "thread_id": thread_id, "line": uuid4().hex, "entries": 0, "lease": now}
    return db.execute(_MAKE[db.dialect.name], {**first, "leased_until": until}).scalar_one_or_none()


def forget(db: Connection, owner: str, thread_id: str, number: int) -> None:
    """Remove the row of a thread that never was written to, and whose lease was given back."""
    db.execute(_FORGET, {"of": owner, "id": thread_id, "lease_number": number})


def lease_left(db: Connection, owner: str, thread_id: str) -> float:
    """Return the seconds until a lease runs out."""
    until = db.execute(_LEASED_UNTIL, {"of": owner, "id": thread_id}).scalar()
    return max(0.0, until / 1_000_000 - time.time()) if isinstance(until, int) else 0.0


def read(db: Connection, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
    """Return the description of a thread and its entries."""
    this = {"of": owner, "id": thread_id}
    if (row := db.execute(_THREAD, this).one_or_none()) is None:
        return None
    try:
        return _found(db, owner, row)
    except ThreadStoreError:
        # It was deleted just now, if each statement is by itself.
        again = db.execute(_THREAD, this).one_or_none()
        if again is None or again.line != row.line:
            return None
        raise


def _found(db: Connection, owner: str, row: Row[Any]) -> tuple[ThreadInfo, Sequence[str]]:
    """Return the description and the entries of a thread, given its row."""
    parts = list[Sequence[str]]()
    above, last, seen = row.line, row.entries, set[str]()
    while above is not None:
        if above in seen:
            raise ThreadStoreError("its lines are damaged: their parents lead in a circle")
        seen.add(above)
        if not (part := db.execute(_PART, {"of": owner, "on": above, "last": last}).all()):
            break  # a line that is lost, with entries that are missed below
        parts.append([each.body for each in part if each.body is not None])
        above, last = part[0].parent, min(part[0].shared, last)
    bodies = [body for part in reversed(parts) for body in part]
    if len(bodies) != row.entries:
        raise ThreadStoreError(f"{row.entries - len(bodies)} of its {row.entries} entries are missing")
    info, damaged = described(row)
    if damaged:
        raise ThreadStoreError(f"it is damaged in {', '.join(damaged)}")
    return info, bodies


def write(db: Connection, write: Write) -> int | None:
    """Write to a thread of SQLite; return what `Database.write` returns."""
    owner = write.owner
    values: dict[str, Any] = {"of": owner, "id": write.thread_id, "lease_number": write.number, "until": write.until}
    if write.info is None:
        renewed: int | None = db.execute(_RENEW, values).scalar_one_or_none()
        return renewed
    if (row := db.execute(_WRITE, {**values, **_described_as(write.info), "count": write.count}).one_or_none()) is None:
        return None
    if row.entries == 1:
        db.execute(_NEW_LINE, {"owner": owner, "line": row.line, "parent": None, "shared": 0})
    db.execute(_NEW_ENTRY, {"owner": owner, "line": row.line, "number": row.entries, "body": write.entry})
    entries: int = row.entries
    return entries


def write_to_many(db: Connection, writes: Sequence[Write], *, waits: bool) -> dict[int, int]:
    """Write to threads of PostgreSQL, each of which is there once; either all or none if the statement fails.

    Args:
        db: The connection.
        writes: The writes.
        waits: Whether to wait for a thread that another transaction is writing to, and not to leave it out.

    Returns:
        The numbers of entries that the threads have now, by the indices of the writes; none for a thread that had not
        the lease or the number of entries that was expected.
    """
    described = [{} if each.info is None else columns(each.info) for each in writes]
    values: dict[str, list[Any]] = {
        "owners": [each.owner for each in writes],
        "thread_ids": [each.thread_id for each in writes],
        "lease_numbers": [each.number for each in writes],
        "counts": [each.count for each in writes],
        "untils": [each.until for each in writes],
        "bodys": [each.entry for each in writes],
    }
    values |= {f"{each.name}s": [one.get(each.name) for one in described] for each in DESCRIPTION}
    return {place - 1: entries for place, entries in db.execute(_WRITE_TO_MANY[waits], values)}


def append_to_fork(
    db: Connection, owner: str, info: ThreadInfo, entry: str, number: int, shared: tuple[str, int]
) -> bool:
    """Append the first entry of a thread that shares the first ones of another."""
    thread_id, count = shared
    if not count or (parent := _shared_line(db, owner, thread_id, count)) is None:
        return False
    values = {**_described_as(info), "of": owner, "id": info.thread_id, "lease_number": number, "count": count + 1}
    if (line := db.execute(_WRITE_FORK, values).scalar_one_or_none()) is None:
        return False
    db.execute(_NEW_LINE, {"owner": owner, "line": line, "parent": parent, "shared": count})
    db.execute(_NEW_ENTRY, {"owner": owner, "line": line, "number": count + 1, "body": entry})
    return True


def _described_as(info: ThreadInfo) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in columns(info).items()}


def _shared_line(db: Connection, owner: str, thread_id: str, count: int) -> str | None:
    """Return the line that a fork begins with; None if its thread has not so many entries.

    The thread is written to, so that it cannot be deleted before the fork is there.
    """
    found = db.execute(_SOURCE, {"of": owner, "id": thread_id, "least": count})
    line: str | None = found.scalar_one_or_none()
    seen = set[str]()
    while line is not None and line not in seen:
        seen.add(line)
        if (row := db.execute(_LINE, {"of": owner, "on": line}).one_or_none()) is None:
            return None
        if row.shared < count:
            return line
        line = row.parent
    return None


def page(db: Connection, owner: str, limit: int, after: ThreadInfo | None) -> list[ThreadInfo]:
    """Return a page of descriptions."""
    date, thread_id = THREADS.c.updated_at, THREADS.c.thread_id
    of_owner = select(THREADS).where(THREADS.c.owner == owner, THREADS.c.entries > 0)
    dated = of_owner.where(date.between(1, LATEST)).order_by(date.desc(), thread_id.desc())
    # Threads whose date is damaged come last; their descriptions have the date `START`.
    undated = of_owner.where(or_(date < 1, date > LATEST)).order_by(thread_id.desc())
    if after is not None:
        last = tuple_(literal(microseconds(after.updated_at)), literal(after.thread_id))
        dated = dated.where(tuple_(date, thread_id) < last)
        if after.updated_at <= START:
            undated = undated.where(thread_id < after.thread_id)
    rows = db.execute(dated.limit(limit)).all()
    rest = db.execute(undated.limit(limit - len(rows))).all() if len(rows) < limit else ()
    return [shown(row) for row in (*rows, *rest)]


def delete_thread(db: Connection, owner: str, thread_id: str, number: int) -> bool:
    """Delete a thread, and the entries that no other thread shares."""
    deleted = delete(THREADS).where(_IS_OURS).returning(THREADS.c.line, THREADS.c.entries)
    row = db.execute(deleted, {"of": owner, "id": thread_id, "lease_number": number}).one_or_none()
    line = None if row is None else _without_thread(db, owner, row.line)
    while line is not None:
        line = _delete_line(db, owner, line)
    return row is not None and row.entries != 0


def delete_all(db: Connection, owner: str | None) -> int:
    """Delete all threads of an owner, or of everybody; return their number."""

    def deletion(table: Table) -> Delete:
        """Make the statement that deletes the rows of a table."""
        return delete(table) if owner is None else delete(table).where(table.c.owner == owner)

    deleted = db.execute(deletion(THREADS).returning(THREADS.c.entries)).scalars().all()
    for table in (ENTRIES, LINES):
        # A thread may have been made since, with a line of its own.
        db.execute(deletion(table).where(table.c.line.not_in(select(THREADS.c.line))))
    return sum(each != 0 for each in deleted)


def _delete_line(db: Connection, owner: str, line: str) -> str | None:
    """Delete what no thread needs of a line that has no thread; return its parent if that has none either."""
    is_child = and_(LINES.c.owner == owner, LINES.c.parent == line, LINES.c.line != line)
    needed = db.execute(select(func.max(LINES.c.shared)).where(is_child)).scalar_one()
    entries = and_(ENTRIES.c.owner == owner, ENTRIES.c.line == line)
    db.execute(delete(ENTRIES).where(entries, ENTRIES.c.number > (needed or 0)))
    if needed is not None:
        return None
    this = delete(LINES).where(_IS_LINE).returning(LINES.c.parent)
    parent = db.execute(this, {"of": owner, "on": line}).scalar_one_or_none()
    return None if parent is None else _without_thread(db, owner, parent)


def _without_thread(db: Connection, owner: str, line: str) -> str | None:
    """Return a line if it has no thread, and else None."""
    of_thread = select(THREADS.c.line).where(THREADS.c.owner == owner, THREADS.c.line == line)
    return None if db.execute(of_thread).first() else line
