"""The operations of a SQL store, each on a connection of SQLAlchemy.

A write begins with the statement that checks the number of the lease. Statements are made once, as making one takes
longer than executing it. PostgreSQL writes to any number of threads in one statement; SQLite cannot pass rows from one
part of it to another.

To change

- the statements of a stored turn: this module; `tests/store/threads/test_statements.py` counts them
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
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
from agui_client.store._sql.tables import (
    ENTRIES,
    LATEST,
    LINES,
    NOW,
    PROCESS,
    START,
    THREADS,
    microseconds,
    microseconds_of,
)
from agui_client.store._sql.thread_rows import DESCRIPTION, columns, described, shown
from agui_client.store._sql.transactions import JoinableWork
from agui_client.store._threads.thread_store import LatestEntries, ThreadInfo
from agui_client.store._write_ids import new_write_id

if TYPE_CHECKING:
    from agui_client.store._sql.lease import ProcessLease

T = TypeVar("T")

_OWNER = bindparam("of", type_=Text)
_IS_THREAD = and_(THREADS.c.owner == _OWNER, THREADS.c.thread_id == bindparam("id"))
_IS_OURS = and_(_IS_THREAD, THREADS.c.lease == bindparam("lease_number"))
# How long a lease is to last from now on, in microseconds: 0 gives it back, none leaves it as it is.
_TIME, _PROCESS_ID = bindparam("time", type_=BigInteger), bindparam("by_process", type_=Text)
_IS_OVER = or_(THREADS.c.leased_until <= NOW, THREADS.c.leased_until > LATEST)
# A request whose response was lost takes again what it has taken, and nobody else does.
_TAKING = bindparam("by_taking", type_=Text)
_IS_FREE = or_(and_(_IS_OVER, THREADS.c.process_id == ""), THREADS.c.taking == _TAKING)
_END = case((_TIME == 0, 0), else_=NOW + _TIME)
_TAKEN: dict[str, Any] = {
    "lease": THREADS.c.lease + 1,
    "leased_until": _END,
    "process_id": _PROCESS_ID,
    "taking": _TAKING,
}
_TAKE = update(THREADS).where(_IS_THREAD, _IS_FREE).values(**_TAKEN).returning(*THREADS.c)
_MAKE = {
    each.__name__.rpartition(".")[2]: each.insert(THREADS)
    .values(leased_until=_END)
    .on_conflict_do_nothing()
    .returning(THREADS.c.lease)
    for each in (postgresql, sqlite)
}
_LEASE: dict[str, Any] = {
    "leased_until": case((_TIME.is_(None), THREADS.c.leased_until), else_=_END),
    "process_id": case((_TIME == 0, ""), else_=THREADS.c.process_id),
}
_RENEW = update(THREADS).where(_IS_OURS).values(**_LEASE).returning(THREADS.c.entry_count)
_FORGET = delete(THREADS).where(_IS_OURS, THREADS.c.entry_count == 0)
_IS_OF_TAKING = and_(_IS_THREAD, THREADS.c.taking == _TAKING)
_GIVE_UP = update(THREADS).where(_IS_OF_TAKING).values(leased_until=0, process_id="")
_FORGET_TAKING = delete(THREADS).where(_IS_OF_TAKING, THREADS.c.entry_count == 0)
_THREAD = select(THREADS).where(_IS_THREAD, THREADS.c.entry_count > 0)
_IS_LINE = and_(LINES.c.owner == _OWNER, LINES.c.line == bindparam("on"))
_LINE = select(LINES.c.parent, LINES.c.shared_count).where(_IS_LINE)
_OWN = and_(ENTRIES.c.owner == LINES.c.owner, ENTRIES.c.line == LINES.c.line, ENTRIES.c.number > LINES.c.shared_count)
_PART = (
    select(LINES.c.parent, LINES.c.shared_count, ENTRIES.c.number, ENTRIES.c.write_id, ENTRIES.c.body)
    .select_from(LINES.outerjoin(ENTRIES, and_(_OWN, ENTRIES.c.number <= bindparam("last"))))
    .where(_IS_LINE)
    .order_by(ENTRIES.c.number)
)
_SLICE = (
    select(ENTRIES.c.body)
    .where(ENTRIES.c.owner == _OWNER, ENTRIES.c.line == bindparam("on"))
    .where(ENTRIES.c.number.between(bindparam("first"), bindparam("last")))
    .order_by(ENTRIES.c.number)
)
_AFTER = bindparam("after", type_=Integer)
_REST = (
    select(ENTRIES.c.number, ENTRIES.c.write_id, case((ENTRIES.c.number > _AFTER, ENTRIES.c.body)).label("body"))
    .where(ENTRIES.c.owner == _OWNER, ENTRIES.c.line == bindparam("on"))
    .where(ENTRIES.c.number.between(_AFTER, bindparam("last")))
    .order_by(ENTRIES.c.number)
)
_DESCRIBE: dict[str, Any] = {each.name: bindparam(f"new_{each.name}") for each in DESCRIPTION}
_WRITE = (
    update(THREADS)
    .where(_IS_OURS, THREADS.c.entry_count == bindparam("count"))
    .values(**_DESCRIBE, entry_count=THREADS.c.entry_count + 1, **_LEASE)
    .returning(THREADS.c.line, THREADS.c.entry_count)
)
_SOURCE = (
    update(THREADS)
    .where(_IS_THREAD, THREADS.c.entry_count >= bindparam("least"))
    .values(lease=THREADS.c.lease)
    .returning(THREADS.c.line)
)
_WRITE_FORK = (
    update(THREADS)
    .where(_IS_OURS, THREADS.c.entry_count == 0)
    .values(**_DESCRIBE, entry_count=bindparam("count", type_=Integer))
    .returning(THREADS.c.line)
)
_NEW_LINE, _NEW_ENTRY = insert(LINES), insert(ENTRIES)
_IS_THERE = select(THREADS.c.entry_count).where(
    _IS_THREAD,
    ENTRIES.c.owner == THREADS.c.owner,
    ENTRIES.c.line == THREADS.c.line,
    ENTRIES.c.number == bindparam("number"),
    ENTRIES.c.write_id == bindparam("by_write"),
)


_CIRCLE = "its lines are damaged: their parents lead in a circle"


def _writing_to_many(*, waits: bool) -> Executable:
    """Make the statement that writes to many threads of PostgreSQL.

    It returns the places of the writes that fit, with the numbers of entries that their threads have then.

    Args:
        waits: Whether it waits for a thread that another transaction is writing to, or leaves it out.
    """
    kinds: dict[str, Any] = {"owner": Text, "thread_id": Text, "lease_number": BigInteger, "count": Integer}
    kinds |= {
        "time": BigInteger,
        "write_id": Text,
        "body": Text,
        **{each.name: type(each.type) for each in DESCRIPTION},
    }
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
        or_(given.c.count.is_(None), THREADS.c.entry_count == given.c.count),
    )
    locked = select(given).where(is_theirs).with_for_update(of=THREADS, skip_locked=not waits).cte("locked")
    new: dict[str, Any] = {each.name: func.coalesce(locked.c[each.name], each) for each in DESCRIPTION}
    written = (
        update(THREADS)
        .where(THREADS.c.owner == locked.c.owner, THREADS.c.thread_id == locked.c.thread_id)
        .values(
            **new,
            entry_count=THREADS.c.entry_count + case((locked.c.body.is_(None), 0), else_=1),
            leased_until=case(
                (locked.c.time.is_(None), THREADS.c.leased_until),
                (locked.c.time == 0, 0),
                else_=NOW + locked.c.time,
            ),
            process_id=case((locked.c.time == 0, ""), else_=THREADS.c.process_id),
        )
        .returning(
            THREADS.c.owner,
            THREADS.c.line,
            THREADS.c.entry_count,
            THREADS.c.lease,
            locked.c.write_id,
            locked.c.body,
            locked.c.place,
        )
        .cte("written")
    )
    appended = select(written).where(written.c.body.is_not(None)).subquery()
    first = select(appended.c.owner, appended.c.line, null(), literal(0)).where(appended.c.entry_count == 1)
    entries = select(*(appended.c[name] for name in ("owner", "line", "entry_count", "lease", "write_id", "body")))
    return select(written.c.place, written.c.entry_count).add_cte(
        insert(LINES).from_select(LINES.c.keys(), first).cte("first_lines"),
        insert(ENTRIES).from_select(ENTRIES.c.keys(), entries).cte("new_entries"),
    )


_WRITE_TO_MANY = {waits: _writing_to_many(waits=waits) for waits in (False, True)}


@dataclass(frozen=True, slots=True)
class Write(JoinableWork):
    """A write to a thread by the block that has its lease; carried out twice, it writes once.

    It returns the number of entries that the thread has then; None if it had another lease or number of entries than
    was expected. One that does not fit may be there already: then the entry behind the expected ones has its id, which
    no other write has, whatever is in them.
    """

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
    write_id: str = field(default_factory=new_write_id)
    """The id of the write."""

    @property
    def time(self) -> int | None:
        """The duration of the lease from now on, in microseconds; 0 gives it back, None leaves it as it is."""
        return None if self.seconds is None or self.seconds == inf else microseconds_of(self.seconds)

    def __call__(self, db: Connection) -> int | None:
        """Write."""
        if db.dialect.name != "sqlite":
            return self.together(db, [self], waits=True).get(0)
        owner = self.owner
        values: dict[str, Any] = {"of": owner, "id": self.thread_id, "lease_number": self.number, "time": self.time}
        if self.info is None:
            renewed: int | None = db.execute(_RENEW, values).scalar_one_or_none()
            return renewed
        new = {**values, **_described_as(self.info), "count": self.count}
        if (row := db.execute(_WRITE, new).one_or_none()) is None:
            return self._written_before(db)
        if row.entry_count == 1:
            db.execute(_NEW_LINE, {"owner": owner, "line": row.line, "parent": None, "shared_count": 0})
        by = {"lease": self.number, "write_id": self.write_id}
        db.execute(_NEW_ENTRY, {"owner": owner, "line": row.line, "number": row.entry_count, "body": self.entry, **by})
        entries: int = row.entry_count
        return entries

    def _written_before(self, db: Connection) -> int | None:
        """Return the number of entries of the thread if this was written before, as the response was lost."""
        return None if self.count is None else written_before(db, self.owner, self.thread_id, self.count, self.write_id)

    def together(self, db: Connection, works: Sequence[Any], *, waits: bool) -> dict[int, int]:
        """Write to threads of PostgreSQL, to each of which once."""
        writes: Sequence[Write] = works
        first = dict[tuple[str, str], int]()
        for index, each in enumerate(writes):
            first.setdefault((each.owner, each.thread_id), index)
        indices = list(first.values())
        chosen = [writes[index] for index in indices]
        described = [{} if each.info is None else columns(each.info) for each in chosen]
        values: dict[str, list[Any]] = {
            "owners": [each.owner for each in chosen],
            "thread_ids": [each.thread_id for each in chosen],
            "lease_numbers": [each.number for each in chosen],
            "counts": [each.count for each in chosen],
            "times": [each.time for each in chosen],
            "write_ids": [each.write_id for each in chosen],
            "bodys": [each.entry for each in chosen],
        }
        values |= {f"{each.name}s": [one.get(each.name) for one in described] for each in DESCRIPTION}
        done: dict[int, Any] = {
            indices[place - 1]: entries for place, entries in db.execute(_WRITE_TO_MANY[waits], values)
        }
        # One that was left out is asked for once more, and waits then.
        for index in (each for each in indices if waits and each not in done):
            if (entries := writes[index]._written_before(db)) is not None:
                done[index] = entries
        return done


class Taken(NamedTuple):
    """A thread whose lease was taken."""

    number: int
    """The number of the lease."""
    row: Row[Any] | None = None
    """The row of the thread; None if there was none."""
    is_of_dead: bool = False
    """Whether the lease was that of a process that no longer has one."""


class Taking:
    """Takes leases of threads.

    Args:
        lease: The lease of the process.
    """

    def __init__(self, lease: ProcessLease) -> None:
        self._lease = lease
        is_left = and_(THREADS.c.process_id != "", THREADS.c.process_id.not_in(lease.living))
        self._take_of_dead = update(THREADS).where(_IS_THREAD, _IS_OVER, is_left).values(**_TAKEN).returning(*THREADS.c)
        self._left = (
            select(case((THREADS.c.process_id == "", THREADS.c.leased_until), else_=PROCESS.c.alive_until) - NOW)
            .select_from(THREADS.outerjoin(PROCESS, PROCESS.c.process_id == THREADS.c.process_id))
            .where(_IS_THREAD)
        )

    def take(self, db: Connection, owner: str, thread_id: str, seconds: float, taking: str) -> Taken | None:
        """Take the lease of a thread: for some seconds, or, if they are infinite, as long as the process lives.

        Args:
            db: The connection.
            taking: The id of the request, which takes the lease once, however often it is carried out.
        """
        leased: dict[str, Any] = {"time": 0, "by_process": self._lease.process_id}
        if seconds < inf:
            leased = {"time": microseconds_of(seconds), "by_process": ""}
        values = {"of": owner, "id": thread_id, "by_taking": taking, **leased}
        if (row := db.execute(_TAKE, values).one_or_none()) is not None:
            return Taken(row.lease, row)
        # A thread that is made again after it was deleted gets higher numbers than before.
        first = {"owner": owner, "thread_id": thread_id, "line": uuid4().hex, "entry_count": 0, **leased}
        first |= {"lease": time.time_ns() // 1000, "process_id": leased["by_process"], "taking": taking}
        if (number := db.execute(_MAKE[db.dialect.name], first).scalar_one_or_none()) is not None:
            return Taken(number)
        row = db.execute(self._take_of_dead, values).one_or_none() if self._lease.may_judge else None
        return None if row is None else Taken(row.lease, row, is_of_dead=True)

    def left(self, db: Connection, owner: str, thread_id: str) -> float:
        """Return the seconds until a lease runs out."""
        left: int | None = db.execute(self._left, {"of": owner, "id": thread_id}).scalar_one_or_none()
        return max(0, left or 0) / 1_000_000


def written_before(db: Connection, owner: str, thread_id: str, count: int, write_id: str) -> int | None:
    """Return the number of entries of a thread if the one behind some of them has the id of a write; None otherwise."""
    this = {"of": owner, "id": thread_id, "number": count + 1, "by_write": write_id}
    entries: int | None = db.execute(_IS_THERE, this).scalar_one_or_none()
    return entries


def give_up_taking(db: Connection, owner: str, thread_id: str, taking: str) -> None:
    """Give back a lease that a request may have taken, unless another one has taken it since."""
    this = {"of": owner, "id": thread_id, "by_taking": taking}
    if not db.execute(_FORGET_TAKING, this).rowcount:
        db.execute(_GIVE_UP, this)


def forget(db: Connection, owner: str, thread_id: str, number: int) -> None:
    """Remove the row of a thread that never was written to, and whose lease was given back."""
    db.execute(_FORGET, {"of": owner, "id": thread_id, "lease_number": number})


def read(db: Connection, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
    """Return the description of a thread and its entries."""
    return _read_of(db, owner, thread_id, lambda row: found(db, owner, row)[:2])


def read_latest(db: Connection, owner: str, thread_id: str, limit: int, end: int | None) -> LatestEntries | None:
    """Return the description of a thread and its latest entries, without a look at those before them."""

    def latest_of(row: Row[Any]) -> LatestEntries:
        """Read those that are asked for."""
        last = row.entry_count if end is None else min(end, row.entry_count)
        first = max(1, last - limit + 1)
        return LatestEntries(_checked_info(row), _some_entries(db, owner, row.line, first, last), first - 1)

    return _read_of(db, owner, thread_id, latest_of)


def _read_of(db: Connection, owner: str, thread_id: str, read_row: Callable[[Row[Any]], T]) -> T | None:
    """Return what is read of a thread by its row; None if there is no such thread.

    Raises:
        ThreadStoreError: The thread is damaged.
    """
    this = {"of": owner, "id": thread_id}
    if (row := db.execute(_THREAD, this).one_or_none()) is None:
        return None
    try:
        return read_row(row)
    except ThreadStoreError:
        # It was deleted just now, if each statement is by itself.
        again = db.execute(_THREAD, this).one_or_none()
        if again is None or again.line != row.line:
            return None
        raise


class EntriesEnd(NamedTuple):
    """The name of the last entry of a thread, by which it is known again."""

    line: str
    """The line of the thread, which no other thread ever has."""
    number: int
    """The number of the entry."""
    write_id: str
    """The id of its write: in a database that was restored from a backup, another write may have the same number."""


class Found(NamedTuple):
    """A thread as it is stored."""

    info: ThreadInfo
    """The description."""
    entries: Sequence[str]
    """The entries."""
    end: EntriesEnd | None
    """The name of the last one."""
    is_rest: bool
    """Whether the entries are only those behind the end that was given."""


def found(db: Connection, owner: str, row: Row[Any], end: EntriesEnd | None = None) -> Found:
    """Return the description and the entries of a thread.

    Args:
        db: The connection.
        row: The row of the thread.
        end: The name of the entry behind which the rest is enough, if the thread has that entry.

    Raises:
        ThreadStoreError: The thread is damaged.
    """
    rest = None if end is None or end.line != row.line else _behind(db, owner, end, row.entry_count)
    bodies, new_end = rest or _all_entries(db, owner, row)
    return Found(_checked_info(row), bodies, new_end, rest is not None)


def _checked_info(row: Row[Any]) -> ThreadInfo:
    """Return the description of a thread.

    Raises:
        ThreadStoreError: It is damaged.
    """
    info, damaged = described(row)
    if damaged:
        raise ThreadStoreError(f"it is damaged in {', '.join(damaged)}")
    return info


def _behind(db: Connection, owner: str, end: EntriesEnd, last: int) -> tuple[Sequence[str], EntriesEnd] | None:
    """Return the entries of a line behind one of them; None if they are to be read from the beginning."""
    rows = db.execute(_REST, {"of": owner, "on": end.line, "after": end.number, "last": last}).all()
    if len(rows) != last - end.number + 1 or rows[0].write_id != end.write_id:
        return None
    return [each.body for each in rows[1:]], EntriesEnd(end.line, last, rows[-1].write_id)


def _all_entries(db: Connection, owner: str, row: Row[Any]) -> tuple[Sequence[str], EntriesEnd | None]:
    """Return all entries of a thread, those that it shares included."""
    parts, end = list[Sequence[str]](), None
    above, last, seen = row.line, row.entry_count, set[str]()
    while above is not None:
        if above in seen:
            raise ThreadStoreError(_CIRCLE)
        seen.add(above)
        if not (part := db.execute(_PART, {"of": owner, "on": above, "last": last}).all()):
            break  # a line that is lost, with entries that are missed below
        if part[-1].number == row.entry_count and above == row.line:
            end = EntriesEnd(row.line, row.entry_count, part[-1].write_id)
        parts.append([each.body for each in part if each.body is not None])
        above, last = part[0].parent, min(part[0].shared_count, last)
    bodies = [body for part in reversed(parts) for body in part]
    if len(bodies) != row.entry_count:
        raise ThreadStoreError(f"{row.entry_count - len(bodies)} of its {row.entry_count} entries are missing")
    return bodies, end


def _some_entries(db: Connection, owner: str, line: str, first: int, last: int) -> Sequence[str]:
    """Return entries of a thread by their numbers; the shared ones stand in the lines that its line comes from."""
    parts, above, end, seen = list[Sequence[str]](), line, last, set[str]()
    while end >= first and above is not None:
        if above in seen:
            raise ThreadStoreError(_CIRCLE)
        seen.add(above)
        if (row := db.execute(_LINE, {"of": owner, "on": above}).one_or_none()) is None:
            break  # a line that is lost, with entries that are missed below
        if (start := max(first, row.shared_count + 1)) <= end:
            parts.append(db.execute(_SLICE, {"of": owner, "on": above, "first": start, "last": end}).scalars().all())
        above, end = row.parent, min(end, row.shared_count)
    bodies = [body for part in reversed(parts) for body in part]
    if len(bodies) != max(0, last - first + 1):
        raise ThreadStoreError(f"{last - first + 1 - len(bodies)} of its entries {first} to {last} are missing")
    return bodies


def append_to_fork(
    db: Connection, owner: str, info: ThreadInfo, entry: str, number: int, shared: tuple[str, int], write_id: str
) -> bool:
    """Append the first entry of a thread that shares the first ones of another; carried out twice, it does so once."""
    thread_id, count = shared
    if not count or (parent := _shared_line(db, owner, thread_id, count)) is None:
        return False
    values = {**_described_as(info), "of": owner, "id": info.thread_id, "lease_number": number, "count": count + 1}
    if (line := db.execute(_WRITE_FORK, values).scalar_one_or_none()) is None:
        return written_before(db, owner, info.thread_id, count, write_id) is not None
    db.execute(_NEW_LINE, {"owner": owner, "line": line, "parent": parent, "shared_count": count})
    by = {"lease": number, "write_id": write_id}
    db.execute(_NEW_ENTRY, {"owner": owner, "line": line, "number": count + 1, "body": entry, **by})
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
        if row.shared_count < count:
            return line
        line = row.parent
    return None


def page(db: Connection, owner: str, limit: int, after: ThreadInfo | None) -> list[ThreadInfo]:
    """Return a page of descriptions."""
    date, thread_id = THREADS.c.updated_at, THREADS.c.thread_id
    of_owner = select(THREADS).where(THREADS.c.owner == owner, THREADS.c.entry_count > 0)
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
    deleted = delete(THREADS).where(_IS_OURS).returning(THREADS.c.line, THREADS.c.entry_count)
    row = db.execute(deleted, {"of": owner, "id": thread_id, "lease_number": number}).one_or_none()
    line = None if row is None else _without_thread(db, owner, row.line)
    while line is not None:
        line = _delete_line(db, owner, line)
    return row is not None and row.entry_count != 0


def delete_all(db: Connection, owner: str | None) -> int:
    """Delete all threads of an owner, or of everybody; return their number."""

    def deletion(table: Table) -> Delete:
        """Make the statement that deletes the rows of a table."""
        return delete(table) if owner is None else delete(table).where(table.c.owner == owner)

    deleted = db.execute(deletion(THREADS).returning(THREADS.c.entry_count)).scalars().all()
    for table in (ENTRIES, LINES):
        # A thread may have been made since, with a line of its own.
        db.execute(deletion(table).where(table.c.line.not_in(select(THREADS.c.line))))
    return sum(each != 0 for each in deleted)


def _delete_line(db: Connection, owner: str, line: str) -> str | None:
    """Delete what no thread needs of a line that has no thread; return its parent if that has none either."""
    is_child = and_(LINES.c.owner == owner, LINES.c.parent == line, LINES.c.line != line)
    needed = db.execute(select(func.max(LINES.c.shared_count)).where(is_child)).scalar_one()
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
