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
    # Drivers raise some that SQLAlchemy does not wrap: while they connect, and for half a character in a text.
    known = SQLAlchemyError | OSError | UnicodeEncodeError
    return isinstance(error, known) or type(error).__module__.startswith(("asyncpg.", "psycopg."))


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


def quotes_values(error: Exception) -> bool:
    """Return whether an exception is about values that a database refuses, parts of which its text may quote."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    # Data exceptions and broken constraints.
    return isinstance(error, UnicodeEncodeError) or str(state).startswith(("22", "23"))


def translated(error: Exception) -> ThreadStoreError:
    """Return the exception that callers get for one of a database."""
    reason = getattr(error, "orig", None) or error
    if quotes_values(error):
        why = getattr(reason, "sqlstate", None)
        why = "half a character in a text" if why is None else f"SQLSTATE {why}"
        return ThreadStoreError(f"the database of the threads refuses what was to be stored: {why}")
    said = f"{type(reason).__name__}: {reason}"
    if isinstance(error, OperationalError) and is_lock(error):
        what = f"the database of the threads stays locked by another program ({said})"
        return ThreadStoreUnavailableError(f"{what}; end its transaction, or wait longer with wait=", is_locked=True)
    if is_unavailable(error):
        return ThreadStoreUnavailableError(f"the database of the threads cannot be reached now: {said}")
    return ThreadStoreError(f"the database of the threads failed: {said}")
