"""The exceptions of databases and their drivers: which of them are outages, and what each becomes for callers."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from agui_client.errors import ThreadStoreError, ThreadStoreUnavailableError


def is_lock(error: OperationalError) -> bool:
    """Return whether another program has a database of SQLite locked."""
    return isinstance(error.orig, sqlite3.Error) and error.orig.sqlite_errorcode & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def is_conflict(error: DBAPIError) -> bool:
    """Return whether PostgreSQL has undone a transaction because of another one: a deadlock, or no serial order."""
    return getattr(error.orig, "sqlstate", None) in ("40001", "40P01")


def is_of_database(error: Exception) -> bool:
    """Return whether an exception is one of a database, of its driver or of SQLAlchemy."""
    # While they connect, drivers raise exceptions that SQLAlchemy does not wrap.
    return isinstance(error, SQLAlchemyError | OSError) or type(error).__module__.startswith(("asyncpg.", "psycopg."))


def is_unavailable(error: Exception) -> bool:
    """Return whether a database is away, or has no room for another connection, so that it may do later."""
    if isinstance(error, OperationalError) and is_lock(error):
        return True
    if isinstance(error, OSError | PoolTimeoutError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return True
    reason = getattr(error, "orig", None) or error
    state = getattr(reason, "sqlstate", None)
    if state is None:
        # PostgreSQL says why it fails; a connection that breaks does not. SQLite knows no such states.
        is_connection = isinstance(error, DBAPIError) and type(error).__name__ in ("OperationalError", "InterfaceError")
        module = type(reason).__module__
        return (is_connection and "sqlite" not in module) or "Connection" in type(reason).__name__
    # Connection exceptions, too many connections, shutting down and starting up.
    return str(state).startswith(("08", "53300", "57P"))


def translated(error: Exception) -> ThreadStoreError:
    """Return the exception that callers get for one of a database."""
    reason = getattr(error, "orig", None) or error
    said = f"{type(reason).__name__}: {reason}"
    if isinstance(error, OperationalError) and is_lock(error):
        what = f"the database of the threads stays locked by another program ({said})"
        return ThreadStoreUnavailableError(f"{what}; end its transaction, or wait longer with wait=", is_locked=True)
    if is_unavailable(error):
        return ThreadStoreUnavailableError(f"the database of the threads cannot be reached now: {said}")
    return ThreadStoreError(f"the database of the threads failed: {said}")
