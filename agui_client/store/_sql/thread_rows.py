"""Descriptions of threads as rows of their table."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ag_ui.core import TokenUsage
from pydantic import TypeAdapter

from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_text
from agui_client.store._sql.tables import THREADS
from agui_client.store._threads.thread_store import ThreadInfo

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

T = TypeVar("T")

_logger = logging.getLogger("agui_client.threads")

DESCRIPTION = [THREADS.c[name] for name in ("title", "created_at", "updated_at", "messages", "usage")]
"""The columns that `columns` returns."""
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
