"""Runs that other processes carry out, or that have ended: their logs are read from the database.

One task reads for all runs that are followed in this process, in one statement.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ag_ui.core import MessagesSnapshotEvent, RunAgentInput, StateSnapshotEvent

from agui_client._core.agent.run_records import Place, RunFilter, RunInfo, RunStatus, RunsUnavailableError
from agui_client._core.protocol.outcome import ThreadFacts
from agui_client._core.run.subagents import without_journal
from agui_client.store._runs.run_log import MESSAGES, LogPhase, RunLog
from agui_client.store._runs.server_run import ServerRun

if TYPE_CHECKING:
    from agui_client._serving.answering import ResumedRun
    from agui_client.store._runs.run_registry import ActiveRuns
    from agui_client.store._sql.run_rows import EventGroup, Row
    from agui_client.store._sql.runs import Runs

K = TypeVar("K", bound=ServerRun)

_MESSAGE_ID = re.compile(rb'"messageId":("(?:[^"\\]|\\.)*")')
"""The ids of messages in frames."""
_BEGINNING = Place(0, 0)
_POLL = 0.02
"""Seconds between two looks for events that other processes have written."""
_LOOKS = 20
"""The looks for events after which one looks whether the runs are still stored."""
_logger = logging.getLogger("agui_client.runs")


class Rebuild(Protocol):
    """Makes the run of a row in this process."""

    def __call__(self, row: Row, log: RunLog, cut: ResumedRun | None, kind: type[K], /) -> K:
        """Return the run.

        Args:
            log: The log of the run.
            cut: What is known of the run if its process ended; None otherwise.
            kind: The class of the run.
        """
        ...


class RemoteRun(ServerRun):
    """A run that another process carries out, or that has ended."""

    place: Place = _BEGINNING
    """The place of the last group of events that was read."""
    forget: Callable[[ServerRun], None]
    """Forgets the run."""

    def stop(self, last: Any = None) -> None:
        """Forget the log, which has grown too large here, or is not followed any more."""
        self.forget(self)

    def take_in(self, group: EventGroup) -> None:
        """Add a group of events to the log, unless it was read before."""
        if group.key.order <= self.place.order:
            return
        self.place, log = group.key, self.log
        position, attempt = group.place.position, group.place.attempt
        if log.phase is LogPhase.OPENING:
            if group.beginning is not None:
                messages, state = group.beginning
                log.open(MESSAGES.validate_python(messages), state)
            else:
                log.open([], None)
                log.before = None
            log.attempt = attempt
        if attempt > log.attempt:
            log.begin_again(attempt, position)
        if attempt == log.attempt:
            log.extend(group.frames[log.end.position - position :], is_end=group.is_end)


class OtherRuns:
    """The runs of a database, as this process sees them.

    Args:
        database: The tables.
        registry: Holds the runs that this process carries out or follows.
        rebuild: Makes a run of a row.
        spawn: Begins a task, which ends with these runs.
    """

    def __init__(
        self,
        database: Runs,
        registry: ActiveRuns,
        rebuild: Rebuild,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._database, self._registry, self._rebuild, self._spawn = database, registry, rebuild, spawn
        self._followed: dict[str, RemoteRun] = {}
        self._is_reading = False

    async def get(self, row_id: str) -> ServerRun | None:
        """Return a run, carried out here or in another process; None if it is not stored."""
        row = await self._database.get(row_id)
        return None if row is None else await self._run_of(row)

    async def latest(self, owner: str, thread_id: str) -> ServerRun | None:
        """Return the latest run of a thread; None if none is stored."""
        rows = await self._database.runs(RunFilter(owner, thread_id), 1)
        # Descriptions name messages that callers hold, and do not have them.
        return await self.get(rows[0].row_id) if rows else None

    def info_of(self, row: Row) -> RunInfo:
        """Return the description of a run."""
        run = self._registry.get(row.key)
        if run is not None and not isinstance(run, RemoteRun) and run.log.phase is LogPhase.OPEN:
            # Its last events may not be stored yet.
            return run.log.info
        asked = row.interrupts if row.status is RunStatus.WAITING else ()
        about = row.status, row.begun_at, row.ended_at, row.event_count, asked, row.is_queued
        return RunInfo(row.key.run_id, row.key.thread_id, row.key.owner, *about)

    async def taken_over(self, row: Row) -> RunLog:
        """Return the log of a run that this process carries out from now on."""
        run = self._registry.get(row.key)
        if isinstance(run, RemoteRun) and run.log.phase is not LogPhase.DROPPED:
            self._followed.pop(row.row_id, None)
        else:
            run = self._remote(row)
        await self._read_to_end(run, row.row_id)
        return run.log

    def close(self) -> None:
        """Forget the runs that are followed, so that those who wait for their events do so no longer."""
        for run in self._followed.values():
            run.stop()
        self._followed.clear()

    # --- inside

    async def _run_of(self, row: Row) -> ServerRun:
        run = self._registry.get(row.key)
        if run is None or run.log.phase is LogPhase.DROPPED:
            run = remote = self._remote(row)
            self._registry.add(run)
            if row.status is RunStatus.RUNNING:
                self._follow(remote, row.row_id)
            else:
                await self._read_to_end(remote, row.row_id)
        if isinstance(run, RemoteRun) and row.status is not RunStatus.RUNNING:
            await run.log.ended()
        if not run.log.is_running and row.status is not RunStatus.RUNNING:
            # Another process may have begun the run that answers it.
            run.log.status = row.status
            if row.left_input is not None:
                # Also in the place of another one: a team may have worked with answers, and failed.
                run.log.left_input = RunAgentInput.model_validate_json(row.left_input)
        return run

    def _remote(self, row: Row) -> RemoteRun:
        run = self._rebuild(row, RunLog(row.key, self._registry), None, RemoteRun)
        run.when_left, run.forget = "stop", self._registry.discard
        run.log.begun_at, run.log.is_remote = row.begun_at, True
        return run

    async def _read_to_end(self, run: RemoteRun, row_id: str) -> None:
        """Read all events of a run that are stored."""
        while groups := await self._database.groups({row_id: run.place}):
            for group in groups:
                run.take_in(group)

    def _follow(self, run: RemoteRun, row_id: str) -> None:
        self._followed[row_id] = run
        if not self._is_reading:
            self._is_reading = True
            self._spawn(self._read())

    async def _read(self) -> None:
        """Read the events of the runs that are followed, until there is none."""
        number = 0
        while self._followed:
            number += 1
            try:
                followed = dict(self._followed)
                for group in await self._database.groups({key: run.place for key, run in followed.items()}):
                    run = followed[group.row_id]
                    # Meanwhile, its followers may have left, and others begun with a log that is empty yet.
                    if run.log.is_running and self._followed.get(group.row_id) is run:
                        run.take_in(group)
                if number % _LOOKS == 0:
                    await self._drop_removed()
            except RunsUnavailableError:
                """The database is looked at again."""
            except Exception:
                _logger.exception("the runs of other processes cannot be read")
            for key, run in list(self._followed.items()):
                if not run.log.is_running:
                    del self._followed[key]
            await asyncio.sleep(_POLL)
        self._is_reading = False

    async def _drop_removed(self) -> None:
        """Forget the runs that are no longer stored, as they were refused."""
        followed = dict(self._followed)
        stored = await self._database.existing(followed)
        for key in followed.keys() - stored:
            followed[key].stop()


def go_back(log: RunLog, row: Row, cut: ResumedRun) -> int:
    """Take the events of a log back to the place where its run continues, and show the conversation as it was then.

    Returns:
        The number of events before the place.
    """
    log.is_remote = False
    if log.phase is LogPhase.OPENING:
        log.attempt = row.attempt
        return 0
    # The place in a stored thread may be behind events that were not stored; snapshots have what they said.
    is_in_thread = row.threadless_checkpoint is None and cut.place is not None
    place = cut.place.position if is_in_thread and cut.place is not None else row.threadless_position
    position = max(1, min(place, log.end.position))
    taken_back = {json.loads(each) for each in _MESSAGE_ID.findall(b"".join(log.frames_behind(position)))}
    log.begin_again(row.attempt, position)
    log.before = cut.beginning or log.before
    shown, cut_ids = log.before, list[str]()
    if cut.place is not None:
        document = cut.place.document
        shown, cut_ids = (document.messages, document.state), document.incomplete_ids
    if shown is not None:
        taken_back.difference_update(each.id for each in shown[0])
        metadata = ThreadFacts(cut_ids, sorted(taken_back)).metadata
        log.append(MessagesSnapshotEvent(messages=[*shown[0]], metadata=metadata))
        log.append(StateSnapshotEvent(snapshot=without_journal(shown[1])))
    return position
