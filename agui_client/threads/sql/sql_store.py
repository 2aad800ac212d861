"""The store in a SQL database: the choice of the database, its first use, forks, and the exceptions of databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from typing_extensions import TypedDict

from agui_client._sql.versions import TablesRefusedError, advance
from agui_client.errors import ThreadStoreError, UsageError
from agui_client.threads.sql import statements
from agui_client.threads.sql.database import Database, PostgresDatabase, SQLiteDatabase, Work
from agui_client.threads.sql.database_errors import translated
from agui_client.threads.sql.statements import Write
from agui_client.threads.sql.thread_tables import TABLES
from agui_client.threads.store import LeasedThread, ThreadInfo, ThreadStore

if TYPE_CHECKING:
    from typing import Unpack

T = TypeVar("T")

_LOCKED_SECONDS = 30.0
"""The longest time to wait while another program has SQLite's database locked."""
_LOCKED_AT_FIRST = 0.25
"""The same for a new lease, for which the caller tries again as long as it wants to wait."""
_CONNECTIONS = 5
"""The number of connections to PostgreSQL if the program does not say another one."""
_KNOWN = (
    "sqlite:///FILE, postgresql+asyncpg://HOST/NAME or postgresql+psycopg://HOST/NAME; "
    "for other databases subclass ThreadStore"
)
_inherited: list[object] = []
"""Parts of the parent that a forked child keeps as they are."""


class PoolOptions(TypedDict, total=False):
    """Options of the connections to PostgreSQL, as SQLAlchemy's `create_async_engine` has them."""

    pool_size: int
    """The number of connections that are kept; 5 if left out."""
    max_overflow: int
    """The number of connections beyond those, which are closed after each use; none if left out."""
    pool_timeout: float
    """Seconds to wait for a connection of the pool. As operations wait for their turn before, it hardly matters."""
    pool_recycle: float
    """Seconds after which a connection is replaced by a new one; never if left out."""
    pool_pre_ping: bool
    """Whether a connection is checked before it is used; it is if left out."""
    connect_args: Mapping[str, Any]
    """Arguments of the driver, such as `{"timeout": 5}` for asyncpg."""


class SQLStore(ThreadStore):
    """Keeps threads in SQLite or PostgreSQL; the tables are made with the first use.

    Args:
        database: A URL of SQLAlchemy: `sqlite:///chats.db`, `postgresql+asyncpg://...`, `postgresql+psycopg://...`; or
            the engine of an application, whose address, options and events are used for connections of the store's
            own. Of an engine for SQLite, only the URL is used.
        **options: Options of the connections to PostgreSQL, if a URL is given.

    Raises:
        UsageError: It is no such URL or engine, its driver is not installed, or it does not take the options.
    """

    def __init__(self, database: str | AsyncEngine, **options: Unpack[PoolOptions]) -> None:
        try:
            self._database = _database_of(database, options)
        except (ArgumentError, ImportError, TypeError) as error:
            raise UsageError(f"this database cannot be used: {error}; threads are kept in {_KNOWN}") from None
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
        if number is None:
            taken = partial(statements.lease, owner=owner, thread_id=thread_id, seconds=seconds)
            return await self._run(taken, wait=_LOCKED_AT_FIRST)
        entries = await self._write(Write(owner, thread_id, number, seconds=seconds))
        if entries == 0 and not seconds:
            await self._run(partial(statements.forget, owner=owner, thread_id=thread_id, number=number))
        return None if entries is None else number

    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        """Return the description of a thread and its entries."""
        return await self._run(partial(statements.read, owner=owner, thread_id=thread_id), is_read=True)

    async def append(
        self, owner: str, info: ThreadInfo, entry: str, number: int, count: int, shared: tuple[str, int] | None = None
    ) -> bool:
        """Append an entry."""
        if shared is not None:
            return await self._run(
                lambda db: statements.append_to_fork(db, owner, info, entry, number, shared), is_atomic=True
            )
        return await self._write(Write(owner, info.thread_id, number, info, entry, count)) is not None

    async def lease_left(self, owner: str, thread_id: str) -> float | None:
        """Return the seconds until the lease of a thread runs out."""
        return await self._run(partial(statements.lease_left, owner=owner, thread_id=thread_id), is_read=True)

    async def lease_and_read(self, owner: str, thread_id: str, seconds: float) -> LeasedThread | None:
        """Take the lease of a thread, and read the thread."""
        taken = partial(statements.take, owner=owner, thread_id=thread_id, seconds=seconds)
        return await self._run(taken, wait=_LOCKED_AT_FIRST)

    async def append_and_release(self, owner: str, info: ThreadInfo, entry: str, number: int, count: int) -> bool:
        """Append an entry, and give the lease back."""
        return await self._write(Write(owner, info.thread_id, number, info, entry, count, seconds=0)) is not None

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        """Return a page of descriptions."""
        return await self._run(partial(statements.page, owner=owner, limit=limit, after=after), is_read=True)

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        """Delete a thread, and the entries that no other thread shares."""
        deleted = partial(statements.delete_thread, owner=owner, thread_id=thread_id, number=number)
        return await self._run(deleted, is_atomic=True)

    async def delete_all(self, owner: str | None) -> int:
        """Delete all threads of an owner, or of everybody, in one transaction."""
        return await self._run(partial(statements.delete_all, owner=owner), is_atomic=True)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._database.close()

    async def before_fork(self) -> None:
        """Close all connections, when no transaction is going on."""
        self._may_begin.clear()
        await self._is_idle.wait()
        await self._database.rest()

    def after_fork(self, *, is_child: bool) -> None:
        """Open connections again, in a child those of its own."""
        self._may_begin.set()
        if is_child:
            _inherited.append((self._lock, self._is_idle, self._may_begin))
            self._database.start_in_child()
            self._reset()

    async def _run(
        self, work: Work[T], *, is_read: bool = False, is_atomic: bool = False, wait: float = _LOCKED_SECONDS
    ) -> T:
        """Carry out an operation."""
        async with self._using(wait):
            return await self._database.run(work, is_read=is_read, is_atomic=is_atomic, wait=wait)

    async def _write(self, write: Write) -> int | None:
        """Write to a thread; return what `Database.write` returns."""
        async with self._using(_LOCKED_SECONDS):
            return await self._database.write(write, wait=_LOCKED_SECONDS)

    @asynccontextmanager
    async def _using(self, wait: float) -> AsyncGenerator[None]:
        """Use the database for a block, for which the tables are made if they are not there yet.

        Raises:
            ThreadStoreUnavailableError: The database cannot be reached, or another program has it locked.
            ThreadStoreError: The database failed.
        """
        if not self._may_begin.is_set():
            await self._may_begin.wait()
        self._transactions += 1
        self._is_idle.clear()
        try:
            if not self._is_ready:
                async with self._lock:
                    if not self._is_ready:
                        await self._make_tables(wait)
                        self._is_ready = True
            yield
        except Exception as error:
            if (made := translated(error)) is error:
                raise
            raise made from made.__cause__
        finally:
            self._transactions -= 1
            if not self._transactions:
                self._is_idle.set()

    async def _make_tables(self, wait: float) -> None:
        try:
            while not await self._database.run(partial(advance, tables=TABLES), is_atomic=True, wait=wait):
                """The tables are one version further."""
        except TablesRefusedError as error:
            raise ThreadStoreError(str(error)) from None


def _database_of(database: str | AsyncEngine, options: PoolOptions) -> Database:
    """Return the database of a URL, or one with connections of its own to the same place as an engine.

    The application uses the connections of its engine in an event loop of its own, and drivers allow one loop only.
    """
    given: Any = database
    if isinstance(given, AsyncEngine):
        if options:
            raise UsageError(f"an engine has options of its own, so {', '.join(options)} cannot be given beside it")
        url = given.url
    elif isinstance(given, str):
        url = make_url(given)
    else:
        raise UsageError(f"threads are kept in a URL, an AsyncEngine of SQLAlchemy or a ThreadStore, not {given!r}")
    if url.get_backend_name() == "sqlite":
        if options:
            what = f"{', '.join(options)}: options of connections are for PostgreSQL"
            raise UsageError(f"{what}; SQLite has one connection, and its options are in the URL")
        return SQLiteDatabase(url.set(drivername="sqlite"))
    if url.drivername not in ("postgresql+asyncpg", "postgresql+psycopg"):
        raise UsageError(f"threads are kept in {_KNOWN}")
    # Statements that are transactions of their own need no further words to begin and to end them.
    keywords: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "hide_parameters": True}
    # A connection beyond those that are kept would be opened and closed for one statement.
    own = {"pool_pre_ping": True, "pool_size": _CONNECTIONS, "max_overflow": 0, **options}
    keywords |= {"pool": given.pool.recreate()} if isinstance(given, AsyncEngine) else own
    return PostgresDatabase(create_async_engine(url, **keywords))
