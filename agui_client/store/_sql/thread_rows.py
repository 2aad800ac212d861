"""Descriptions of threads as rows of their table."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ag_ui.core import TokenUsage
from pydantic import TypeAdapter

from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_text
from agui_client.store._sql.tables import LATEST, START, THREADS, microseconds, moment
from agui_client.store._threads.thread_store import ThreadInfo

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

T = TypeVar("T")

_logger = logging.getLogger("agui_client.threads")

DESCRIPTION = [THREADS.c[name] for name in ("title", "created_at", "updated_at", "message_count", "usage")]
"""The columns that `columns` returns."""
_USAGE = TypeAdapter(list[TokenUsage])


def columns(info: ThreadInfo) -> dict[str, Any]:
    """Return the columns of a description, its id excepted."""
    return {
        "title": info.title,
        "created_at": microseconds(info.created_at),
        "updated_at": microseconds(info.updated_at),
        "message_count": info.message_count,
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
        created_at=read("created_at", _checked_moment, START),
        updated_at=read("updated_at", _checked_moment, START),
        message_count=read("message_count", _count, 0),
        usage=read("usage", _USAGE.validate_json, []),
    )
    return info, damaged


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ValueError
    return value


def _checked_moment(value: Any) -> datetime:
    if not 1 <= value <= LATEST:
        raise ValueError
    return moment(math.floor(value))


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError
    return value
