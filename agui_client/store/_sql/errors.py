"""The exceptions that callers get for those of databases and their drivers."""

from __future__ import annotations

from agui_client.errors import ThreadStoreError, ThreadStoreUnavailableError
from agui_client.store._sql.faults import Fault, fault_of


def translated(error: Exception) -> Exception:
    """Return the exception that callers get for one; itself, if it is not one of a database."""
    fault = fault_of(error)
    if fault is None:
        return error
    reason: BaseException = getattr(error, "orig", None) or error
    if fault is Fault.REFUSED:
        # Without a cause, as its text may quote what was to be stored.
        return ThreadStoreError(f"the database of the threads refuses what was to be stored: {_why(reason)}")
    made = _made(fault, f"{type(reason).__name__}: {reason}")
    made.__cause__ = error
    return made


def _made(fault: Fault, said: str) -> ThreadStoreError:
    if fault in (Fault.LOCKED, Fault.CONFLICT):
        what = f"the database of the threads stays locked by another program ({said})"
        how = "end its transaction, or wait longer with wait="
        return ThreadStoreUnavailableError(f"{what}; {how}", is_locked=True)
    if fault is Fault.AWAY:
        return ThreadStoreUnavailableError(f"the database of the threads cannot be reached now: {said}")
    return ThreadStoreError(f"the database of the threads failed: {said}")


def _why(reason: BaseException) -> str:
    """Return the reason of a refusal without the values in it."""
    if isinstance(reason, UnicodeEncodeError):
        return "half a character in a text"
    state = getattr(reason, "sqlstate", None)
    return f"SQLSTATE {state}" if state else type(reason).__name__
