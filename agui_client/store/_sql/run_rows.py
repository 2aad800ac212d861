"""The rows of durable runs: the description of each run, and the groups of its events."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from ag_ui.core import Interrupt
from sqlalchemy.exc import OperationalError

from agui_client._core.agent.run_records import Place, RunKey, RunStatus
from agui_client.errors import UsageError
from agui_client.store._sql.database import url_of
from agui_client.store._sql.tables import RUN, moment


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a run."""

    row_id: str
    """The id of the row, which is made of the identity."""
    key: RunKey
    """Its identity."""
    stored_request: dict[str, Any]
    """The agent and the input, for any process."""
    status: RunStatus
    """Its status, as far as it is stored: a run that waits does so until another one of its thread begins."""
    process_id: str
    """The process that has it."""
    attempt: int
    """The number of the attempt."""
    is_stop_wanted: bool
    """Whether it is to be stopped."""
    begun_at: datetime
    """The time when it began."""
    ended_at: datetime | None
    """The time when it ended."""
    event_count: int
    """The number of its events: in descriptions, those that are stored; elsewhere 0 until it has ended."""
    interrupts: list[Interrupt]
    """The interrupts that it has ended with."""
    left_input: str | None
    """The conversation that it has left, for answers, as JSON."""
    threadless_checkpoint: str | None
    """The place where it continues, as JSON; None if it has not begun, or its thread is stored, and has the place."""
    threadless_position: int
    """The number of events before the place."""
    has_begun: bool
    """Whether the run was sent, or has called tools, or was about to."""
    is_queued: bool
    """In descriptions, whether it is in progress, and no living process has it; elsewhere False."""

    @classmethod
    def from_row(cls, row: sa.RowMapping) -> Row:
        """Return the run of a row."""
        ended_at = row["ended_at"]
        converted: dict[str, Any] = {
            "key": RunKey(row["owner"], row["thread_id"], row["run_id"]),
            "stored_request": json.loads(row["stored_request"]),
            "status": RunStatus(row["status"]),
            "begun_at": moment(row["begun_at"]),
            "ended_at": None if ended_at is None else moment(ended_at),
            "interrupts": [Interrupt.model_validate(each) for each in json.loads(row["interrupts"])],
            "is_queued": bool(row.get("is_queued")),
        }
        plain = {each.name: row[each.name] for each in fields(cls) if each.name not in converted}
        return cls(**converted, **plain)


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of a run that were stored together."""

    row_id: str
    """The id of the run's row."""
    place: Place
    """The place of the first event, and the attempt that wrote it."""
    frames: Sequence[bytes]
    """The frames of the events."""
    beginning: Sequence[Any] | None
    """The messages and the state that the run began with, as JSON values, in the first group; None if its thread has
    them."""
    is_end: bool
    """Whether the last event is the run's terminal one; then the group has all events of the attempt."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> EventGroup:
        """Return the group of a row."""
        row_id, attempt, position, body, beginning, is_end = row
        frames = (zlib.decompress(body) if is_end else body).split(b"\n\n")[:-1]
        place = Place(position - len(frames) if is_end else position, attempt)
        began = None if beginning is None else json.loads(beginning)
        return cls(row_id, place, [each + b"\n\n" for each in frames], began, bool(is_end))

    @property
    def key(self) -> Place:
        """The place of the group among those of its run: the last one of an attempt comes behind all others."""
        return self.place._replace(position=self.place.position + len(self.frames)) if self.is_end else self.place

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the row that depend on the events."""
        # Events that are a few characters each repeat all but these.
        body = b"".join(self.frames)
        about = {"position": self.key.position, "event_count": len(self.frames)}
        return {**about, "frames": zlib.compress(body) if self.is_end else body, "is_end": self.is_end}


def has_runs(given: str) -> bool:
    """Return whether the database of a URL has the tables; makes neither them nor the database.

    Raises:
        UsageError: The database cannot be used or reached.
    """
    url = url_of(given)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return False
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).has_table(RUN.name)
    except OperationalError as error:
        raise UsageError(f"the database cannot be reached: {error.orig}") from error
    finally:
        engine.dispose()
