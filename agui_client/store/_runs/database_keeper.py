"""Runs that outlive their process: which ones this process carries out, and when it takes over those of others.

    begin ──▶ own ──▶ ended                 a row of the database names the process and the attempt
      │        │ given up: the process is stopping, or finds that another one has the run
      │        ▼
      └───▶ queued ──▶ own, as another attempt: of this process or another one, from the last checkpoint
       this process does not have the agent

Each process has a lease (`store/_sql/lease.py`). The runs of a process whose lease has passed are taken over;
writes of earlier attempts are rejected (fencing). A run that waits for a person has ended; its answer is another run.

To change

- what becomes of a run whose process ends: `DatabaseBackend` here takes it over, `go_back` in
  `store/_runs/remote_runs.py` cuts its log, `EarlierAttempts` in `store/_runs/earlier_attempts.py` has followers
  continue in the next attempt, `RunAttempt` in `store/_runs/attempts.py` stores events and chooses the checkpoints; of
  a run in a stored thread, `call_of` in `store/_threads/entries.py` reads the place off the thread's log, and
  `ResumedRun` in `_serving/answering.py` asks for it; `_core/run/continuing.py` continues from a place, and says which
  calls are made again. `tests/store/runs/test_durable.py` kills servers, `tests/store/runs/test_commits.py` behind each
  commit of a turn, `tests/store/runs/test_outages.py` (`AGUI_CLIENT_OUTAGES=1`) stops their databases and halts them
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import Context
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from ag_ui.core import Event, RunErrorEvent, RunFinishedCancelledOutcome, RunFinishedEvent

from agui_client._core.agent.run_records import (
    RunFilter,
    RunInfo,
    RunKey,
    RunsClosedError,
    RunStatus,
    RunsUnavailableError,
    WaitingRun,
)
from agui_client._core.plugs import ATTEMPT_SPANS, counted, measure
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.continuing import Continuation
from agui_client._serving.answering import ResumedRun
from agui_client._serving.stopping import STOP_WITHIN
from agui_client.errors import RunInProgressError, UsageError
from agui_client.store._runs.attempts import RunAttempt
from agui_client.store._runs.on_waiting import WaitingFunction, notify
from agui_client.store._runs.remote_runs import OtherRuns, Rebuild, go_back
from agui_client.store._runs.run_log import STOPPED, LogPhase, RunLog
from agui_client.store._runs.server_run import ServerRun
from agui_client.store._sql.run_rows import Row
from agui_client.store._sql.runs import ClaimedRun, Runs

if TYPE_CHECKING:
    from agui_client._core.plugs import AttemptSpan
    from agui_client.store._runs.run_registry import ActiveRuns

T = TypeVar("T")

_BEAT = 0.4
"""Seconds between two looks for runs to take over or to stop."""
_BEATS_OF_TELLING = 5
_BETWEEN_CLEANINGS = 30.0
"""Seconds between two looks for ended runs whose time has passed."""
_MOST_ATTEMPTS = 100
"""The attempts at a run, each of whose processes has ended, perhaps because of the run."""
CRASHED = RunErrorEvent(message="The process of the run ended.", code="process_ended")
_NO_PROCESS = (
    "run %r is queued: no process of this database has the agent %r; start the program that serves it "
    "(agui serve --store, or agent_app(name=)) or adds it (runs.add); runs.stop withdraws the run"
)
_FOR_PROCESS = {"agui.reason": "no_agent"}
_logger = logging.getLogger("agui_client.runs")


def row_id_of(key: RunKey) -> str:
    """Return the id of a run's row: the same in each process, and of one length."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:40]


class DatabaseBackend:
    """The runs of a database, as far as this process carries them out or follows them.

    Args:
        database: The tables.
        registry: Holds the runs that this process carries out or follows.
        agents: The names of the agents that this process has; complete when the runs are opened.
        rebuild: Makes a run of a row.
        on_waiting: The functions to call with each run that waits for a person.
        keep: Seconds for which ended runs are kept.
    """

    def __init__(
        self,
        database: Runs,
        registry: ActiveRuns,
        agents: Collection[str],
        rebuild: Rebuild,
        on_waiting: Sequence[WaitingFunction],
        keep: float,
    ) -> None:
        self._registry, self._agents, self._rebuild = registry, agents, rebuild
        self._on_waiting, self._keep = on_waiting, keep
        self._database = database
        self._remote_runs = OtherRuns(self._database, registry, rebuild, self._spawn)
        self._own: dict[str, RunAttempt] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._notifying: set[asyncio.Task[Any]] = set()
        self._context: Context | None = None
        self._opening: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._is_closing = False

    # --- the life of the keeper

    is_durable = True
    """Whether the runs outlive this process."""

    @property
    def is_open(self) -> bool:
        """Whether the runs are in use."""
        return self._opening is not None

    def now(self) -> datetime:
        """Return the time of the database."""
        return self._database.lease.now()

    def check_name(self, name: str) -> None:
        """Check that an agent can be given a name now.

        Raises:
            UsageError: Another agent has it, or the runs are in use.
        """
        if self.is_open:
            raise UsageError(f"{name!r} was named too late: with a URL, name all agents before the runs are used")
        if name in self._agents:
            raise UsageError(f"two agents of these runs are named {name!r}; give each app and agent a name of its own")

    async def open(self) -> None:
        """Begin to carry out runs, also those that ended processes have left. Idempotent.

        Raises:
            RunsUnavailableError: The database cannot be reached; the next call tries again.
            UsageError: The tables in it are of a newer version, or not ours.
        """
        if self._opening is None:
            # Runs are begun in a context of their own: in that of a caller they would have the handlers of its run.
            self._context = Context()
            self._opening = self._spawn(self._open())
        try:
            await asyncio.shield(self._opening)
        except Exception:
            self._opening = None
            raise

    async def _open(self) -> None:
        await self._database.open()
        self._unwatch = self._database.lease.watch()
        _ = self._spawn(self._live())
        _ = self._spawn(self._clean())

    async def aclose(self, within: float) -> None:
        """Leave all runs to other processes. Idempotent."""
        if self._is_closing or self._opening is None:
            return
        self._is_closing = True
        self.stop_all(within)
        assert self._leaving is not None
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._leaving])
        for task in self._tasks:
            task.cancel()
        self._remote_runs.close()
        self._unwatch()

    def stop_all(self, within: float) -> None:
        """Leave the runs that are in progress here to other processes, as soon as no function of theirs is at work."""
        if self._opening is not None and self._leaving is None:
            for attempt in list(self._own.values()):
                attempt.run.leave()
            self._leaving = self._spawn(self._leave(within))

    async def _leave(self, within: float) -> None:
        """Wait until the runs are left, and cut functions that take too long."""
        if not await self._have_ended(within):
            for attempt in list(self._own.values()):
                attempt.run.give_up()
            await self._have_ended(STOP_WITHIN)

    async def _have_ended(self, within: float) -> bool:
        """Wait for the ends of the attempts, and of functions of `on_waiting`; return whether they came in time."""
        with anyio.move_on_after(within):
            # Their blocks are left first: threads give their leases back.
            while self._own or self._notifying:  # noqa: ASYNC110 - it is looked at once in the life of a process
                await asyncio.sleep(0.01)
            return True
        return False

    async def _live(self) -> None:
        """Take over runs of dead processes, and stop runs."""
        number = 0
        # As long as a function is at work, the lease is renewed.
        while self._own or not self._is_closing:
            number += 1
            try:
                # Reads do not wait behind writes: a row that is missing may be on its way, unless it was stored before,
                # and the run has its journal since.
                before = {row_id: each for row_id, each in self._own.items() if each.run.journal is not None}
                running = await self._database.running(self._agents)
                self._check(before, running.mine)
                may_take = self._database.lease.may_judge and self._leaving is None
                if may_take and not self._own.keys() >= {*running.row_ids}:
                    for row in await self._database.take_over(self._agents, self._own):
                        await self._recover(row)
                if may_take and self._on_waiting and number % _BEATS_OF_TELLING == 1:
                    unnotified = await self._database.pop_unnotified(self._agents)
                    self._notify({each.row_id: WaitingRun.of(each.key, each.interrupts) for each in unnotified})
            except RunsUnavailableError:
                """It is looked at again; the thread of the database warns."""
            except Exception:
                _logger.exception("the runs of ended processes cannot be taken over")
            await asyncio.sleep(_BEAT)

    def _check(self, before: Mapping[str, RunAttempt], mine: Mapping[ClaimedRun, bool]) -> None:
        """Stop the runs that are to be stopped, and give up those that another process has taken over.

        Args:
            before: The runs of this process before it looked.
            mine: The runs that it has in the database, each with whether it is to be stopped.
        """
        for row_id, attempt in before.items():
            if self._own.get(row_id) is not attempt or attempt.is_ending:
                continue
            if attempt.claim not in mine:
                attempt.run.give_up()
            elif mine[attempt.claim]:
                attempt.run.stop()

    async def _recover(self, row: Row) -> None:
        """Carry out a run that another process has left."""
        log = await self._remote_runs.taken_over(row)
        stored = row.threadless_checkpoint
        place = None if stored is None else Continuation.model_validate_json(stored)
        cut = ResumedRun(row.key.run_id, place)
        run = self._rebuild(row, log, cut, ServerRun)
        run.earlier_attempts, run.ends_with = row.attempt - 1, _last_of(row, log)
        self._registry.add(run)
        claim, back = ClaimedRun(row.row_id, row.attempt), partial(go_back, log, row, cut)
        span = _span_of(claim, run)
        self._start(RunAttempt(self._database, claim, run, back, has_begun=row.has_begun, span=span))

    def _notify(self, waiting: Mapping[str, WaitingRun]) -> None:
        """Begin to call the functions for runs that wait for a person, by the ids of their rows."""
        task = self._spawn(self._tell_each(waiting))
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)

    async def _tell_each(self, waiting: Mapping[str, WaitingRun]) -> None:
        for row_id, each in waiting.items():
            await notify(self._on_waiting, each)
            with suppress(RunsUnavailableError):  # the next process tells of it once more
                await self._database.note_notified(row_id)

    async def _clean(self) -> None:
        """Remove runs whose time has passed, in sets between which other work has its turn; measure what is left."""
        while True:
            try:
                while await self._database.remove_ended(older_than=self._keep):
                    """There may be more."""
                measure("agui.store.size", await self._database.size())
            except RunsUnavailableError:
                """It is looked at again; the thread of the database warns."""
            except Exception:
                _logger.exception("ended runs cannot be removed now")
            await asyncio.sleep(_BETWEEN_CLEANINGS)

    # --- runs

    async def begin(self, run: ServerRun) -> ServerRun:
        """Begin a run: store it, and carry it out here if this process has its agent.

        Returns:
            The run, or one that another process has begun.

        Raises:
            RequestRepeatedError: The run answers what another run of the thread has answered.
            RunInProgressError: A run of the thread is in progress, or the run is stored already.
            RunsUnavailableError: The database cannot be reached.
            UsageError: Another process had the agent, and refused the run.
        """
        if run.stored_request is None:
            raise UsageError("a run in a database needs an agent with a name: runs.add(name, agent), runs.start(name)")
        claim = ClaimedRun(row_id_of(run.log.key), 1)
        if run.stored_request.agent not in self._agents:
            await self._database.add(claim.row_id, run.log.key, run.stored_request, is_left=True)
            return await self._begun_elsewhere(claim.row_id, run.stored_request.agent)
        earlier = self._own.get(claim.row_id)
        if earlier is not None and earlier.run.log.refusal is None:
            raise RunInProgressError(f"run {run.log.key.run_id!r} has begun already")
        attempt = RunAttempt(self._database, claim, run, span=_span_of(claim, run))
        # Before the row is stored: `_live` takes over the rows of this process that have no attempt.
        self._own[claim.row_id] = attempt
        try:
            attempt.settles = await self._database.add(claim.row_id, run.log.key, run.stored_request)
        except BaseException:
            self._let_go(attempt)
            raise
        self._registry.add(run)
        self._start(attempt)
        return run

    async def _begun_elsewhere(self, row_id: str, agent: str) -> ServerRun:
        """Wait until a process that has the agent has begun a run, or one has stopped it, and follow it.

        A caller that is cancelled no longer waits, but leaves the run to the process that will have the agent.
        """
        warns_at = monotonic() + self._database.lease.seconds
        with counted("agui.store.queued_runs", _FOR_PROCESS):
            while (row := await self._database.get(row_id)) is not None:
                run = await self._remote_runs.get(row_id) if row.attempt else None
                # One that is refused after it was taken is removed, and its log dropped with it.
                if run is not None and (await run.log.is_followable() or run.log.phase is LogPhase.OVER):
                    return run
                if monotonic() > warns_at:
                    warns_at = inf  # once
                    _logger.warning(_NO_PROCESS, row.key.run_id, agent)
                await asyncio.sleep(_BEAT)
        raise UsageError("the process that has the agent refused the run; its log says why")

    def _start(self, attempt: RunAttempt) -> None:
        """Begin to carry out an attempt that this process has claimed, in a task of its own."""
        self._own[attempt.claim.row_id] = attempt.run.journal = attempt
        _ = self._spawn(self._carry_out(attempt))
        if self._leaving is not None:
            attempt.run.leave()

    def _let_go(self, attempt: RunAttempt) -> None:
        """Forget an attempt, unless another one has taken its place: a run that was refused can be asked for again."""
        if self._own.get(attempt.claim.row_id) is attempt:
            del self._own[attempt.claim.row_id]

    async def _carry_out(self, attempt: RunAttempt) -> None:
        """Carry out an attempt until it ends or is given up."""
        run = attempt.run
        try:
            with attempt.span or nullcontext():
                await attempt.carry_out()
            if not run.is_given_up and run.log.refusal is not None:
                what = "run %s of thread %s was refused, and is removed: %s"
                _logger.warning(what, quoted(run.log.key.run_id), quoted(run.log.key.thread_id), run.log.refusal)
        except Exception:
            _logger.exception("an attempt at a run failed; it is left to another one")
            run.give_up()
        finally:
            if run.is_given_up and self._leaving is None:
                what = "run %s of thread %s is not carried out here any more, and left to another process"
                _logger.warning(what, quoted(run.log.key.run_id), quoted(run.log.key.thread_id))
            if run.is_given_up and self._leaving is not None:
                # Taken over when the lease has passed, or released already with all that this process had.
                with suppress(RunsUnavailableError, RunsClosedError):
                    await self._database.release(attempt.claim)
            self._let_go(attempt)
        if not run.is_given_up and run.log.status is RunStatus.WAITING and self._on_waiting:
            self._notify({attempt.claim.row_id: WaitingRun.of(run.log.key, run.log.interrupts)})

    # --- following

    async def get(self, key: RunKey) -> ServerRun | None:
        """Return a run, carried out here or in another process; None if it is not stored."""
        await self.open()
        own = self._own.get(row_id := row_id_of(key))
        return (
            own.run if own is not None and own.run.log.phase is LogPhase.OPEN else await self._remote_runs.get(row_id)
        )

    async def latest(self, owner: str, thread_id: str) -> ServerRun | None:
        """Return the latest run of a thread; None if none is stored."""
        await self.open()
        return await self._remote_runs.latest(owner, thread_id)

    async def infos(self, wanted: RunFilter, limit: int, after: RunInfo | None = None) -> list[RunInfo]:
        """Return a page of descriptions, those that began last first."""
        await self.open()
        last = None if after is None else (row_id_of(after.key), after.begun_at)
        rows = await self._database.runs(wanted, limit, last)
        return [self._remote_runs.info_of(row) for row in rows]

    async def overdue(self, seconds: float) -> Sequence[RunKey]:
        """Return the identities of runs of this process's agents that have waited for an answer for some seconds."""
        return await self._database.overdue(self._agents, seconds)

    async def stop(self, run: ServerRun) -> None:
        """Stop a run, wherever it is carried out, and wait for its end.

        A run that no process carries out is taken over by one that lives, such as this one, and ends with that.
        """
        row_id = row_id_of(run.log.key)
        await self._database.want_stop(row_id=row_id)
        with run.log.followed():
            if row_id in self._own:
                run.stop()
            await run.log.ended()

    async def delete(self, owner: str | None) -> int:
        """Stop the runs of an owner, or of all, wherever they are carried out, and remove them; return their number."""
        await self.open()
        removed = 0
        while True:
            running = await self._database.want_stop(owner=owner)  # first: one that ends now is removed just behind
            removed += (some := await self._database.remove_ended(owner=owner))
            if not some and not running:
                break
            await asyncio.sleep(0 if some else _BEAT)
        for run in self._registry:
            if owner in (None, run.log.key.owner) and not run.log.is_running:
                self._registry.discard(run)
        return removed

    # --- inside

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        assert self._context is not None
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _span_of(claim: ClaimedRun, run: ServerRun) -> AttemptSpan | None:
    """Begin the span of an attempt at a run; what is stored with the run names that of the first one."""
    key, request, span = run.log.key, run.stored_request, None
    for begin in ATTEMPT_SPANS if request is not None else ():
        assert request is not None
        if (span := begin(key.thread_id, key.run_id, claim.attempt, request.trace)) is not None:
            run.stored_request = replace(request, trace={**span.headers, **request.trace})
    return span


def _last_of(row: Row, log: RunLog) -> Event | None:
    """Return the event with which a run ends that another process has left; None if it continues."""
    if row.attempt > _MOST_ATTEMPTS or (row.has_begun and row.stored_request["on_crash"] == "fail"):
        return CRASHED
    if not row.is_stop_wanted:
        return None
    if log.phase is LogPhase.OPENING:
        # Also with a checkpoint, which is stored before the run's first event can come.
        return STOPPED
    cancelled = RunFinishedCancelledOutcome()
    return RunFinishedEvent(thread_id=row.key.thread_id, run_id=row.key.run_id, outcome=cancelled)
