"""Exceptions as JSON, and exceptions made of such JSON again."""

from __future__ import annotations

import builtins
from typing import Any

from pydantic_core import to_jsonable_python

from agui_client import errors
from agui_client.errors import AGUIError, RunFailedError
from agui_client.recording._format import ErrorRecord

_ABOUT_THE_RUN = frozenset({"thread_id", "run_id", "partial", "event"})
"""Attributes that the run sets again wherever the exception is raised."""
_WITH_MORE = (UnicodeError, BaseExceptionGroup)
"""Exceptions of Python's own that cannot be made of a text."""


class ReplayedError(AGUIError):
    """An exception of a class that only the recorded program knew."""


def error_record(error: Exception, *, is_ours: bool) -> ErrorRecord:
    """Return an exception as JSON.

    Args:
        error: The exception.
        is_ours: Whether to keep the text of an exception that is not of this package: that of an agent in this process
            belongs to its response, any other may quote credentials.
    """
    if isinstance(error, RunFailedError) and error.raised is not None:
        error = error.raised
    if not isinstance(error, AGUIError):
        return ErrorRecord(type=type(error).__name__, message=str(error) if is_ours else None)
    details = {name: value for name, value in vars(error).items() if name not in _ABOUT_THE_RUN}
    message = str(error.args[0]) if error.args else ""
    return ErrorRecord(type=type(error).__name__, message=message, details=_plain(details))


def exception_of(record: ErrorRecord) -> Exception:
    """Return an exception of the recorded class, if it is one of this package's or Python's own."""
    kind = getattr(errors, record.type, None) or getattr(builtins, record.type, None)
    message = record.message or ""
    if isinstance(kind, type) and issubclass(kind, AGUIError):
        # Without its constructor, which takes more than a message.
        error = kind.__new__(kind, message)
        error.__dict__.update(record.details)
        return error
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _WITH_MORE):
        return kind(message)
    return ReplayedError(f"the recorded agent failed with {record.type}" + (f": {message}" if message else ""))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = to_jsonable_python(values, fallback=repr)
    return plain
