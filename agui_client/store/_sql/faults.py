"""The faults of SQL databases: what an exception of SQLAlchemy or of a driver says of the database.

To change

- what an exception of a database says: that it is away or locked, that a transaction is to be tried again, that values
  are refused: `fault_of` here; the exceptions that callers get for it: `translated` in `store/_sql/errors.py`,
  `_translated` in `store/_sql/runs.py`
"""

from __future__ import annotations

import sqlite3
from enum import Enum

from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# What the statement itself is to blame for, and would be again: features, syntax, tables and columns, rights, views; a
# file that is damaged, or no database. Anything else is about the database, such as one that is read-only: it may pass.
_FAILED = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_INTERNAL,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_NOTADB,
    0,  # of Python's own, such as a connection that was closed
)
_FAILED_STATES = ("0A", "20", "21", "34", "3D", "3F", "42", "44", "XX")
_CONFLICT_STATES = ("40001", "40P01", "55P03")
# Data exceptions, broken constraints, and limits of the database.
_REFUSED_STATES = ("22", "23", "54")


class Fault(Enum):
    """The state of a database, by what an exception says."""

    LOCKED = "locked"
    """Another program has a database of SQLite locked."""
    AWAY = "away"
    """The database cannot be reached, or has no room, so that it may do later."""
    CONFLICT = "conflict"
    """PostgreSQL has undone a transaction because of another one: a lock, a deadlock, or no serial order."""
    REFUSED = "refused"
    """The database refuses values, parts of which the text of the exception may quote."""
    FAILED = "failed"
    """Anything else, such as a column that is missing: the same statement would fail again."""


def fault_of(error: Exception) -> Fault | None:
    """Return what an exception says of a database; None if it is not one of a database."""
    # Drivers raise some that SQLAlchemy does not wrap: while they connect, and for half a character in a text.
    is_of_driver = type(error).__module__.startswith("psycopg.")
    if not is_of_driver and not isinstance(error, SQLAlchemyError | OSError | UnicodeEncodeError):
        return None
    reason = getattr(error, "orig", None) or error
    if isinstance(reason, sqlite3.Error):
        return _fault_of_sqlite(reason)
    state = str(getattr(reason, "sqlstate", None) or "")
    if state in _CONFLICT_STATES:
        return Fault.CONFLICT
    if isinstance(error, UnicodeEncodeError | DataError) or state.startswith(_REFUSED_STATES):
        return Fault.REFUSED
    is_away = not state.startswith(_FAILED_STATES) if state else _is_without_connection(error, reason)
    return Fault.AWAY if is_away or getattr(error, "connection_invalidated", False) else Fault.FAILED


def _fault_of_sqlite(error: sqlite3.Error) -> Fault:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _LOCKED:
        return Fault.LOCKED
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
        return Fault.REFUSED
    return Fault.FAILED if code in _FAILED else Fault.AWAY


def _is_without_connection(error: Exception, reason: BaseException) -> bool:
    """Return whether an exception is about a connection: PostgreSQL says why it fails, and a broken connection not."""
    is_broken = isinstance(error, DBAPIError) and type(error).__name__ in ("OperationalError", "InterfaceError")
    return is_broken or isinstance(error, OSError | PoolTimeoutError) or "Connection" in type(reason).__name__
