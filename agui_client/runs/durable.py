"""Runs that outlive their process, on DBOS: a run is a workflow, each attempt at it a step, and its events a stream.

DBOS claims a workflow for one process and lets no other one write its stream. What this module adds to it: leases, so
that runs of a process that has ended are taken over by another one; checkpoints, from which an attempt goes on; and
mirrors, which are logs of the runs that other processes have. A run that waits for a person has ended; its answer is
another run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import aclosing, suppress
from contextvars import Context
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

import anyio
from ag_ui.core import (
    Event,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
)
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowSerializationFormat
from dbos import error as dbos_error

from agui_client._run.continuing import Continuation
from agui_client._run.scope import CURRENT_SCOPE
from agui_client.asgi.sse_body import frame_of
from agui_client.errors import UsageError
from agui_client.runs.group_writer import GroupWriter
from agui_client.runs.kept_run import STOPPED, KeptRun
from agui_client.runs.mirrors import MESSAGES, MirroredRun, go_back, info_of, take_in
from agui_client.runs.records import Place, RunInfo, RunKey, RunStatus
from agui_client.runs.run_log import Phase, RunLog, interrupts_in, status_after
from agui_client.runs.run_tables import DatabaseError, RunDatabase, RunLostError, StoredRun, url_of

if TYPE_CHECKING:
    from agui_client._run.async_run import AgentRun
    from agui_client._run.ending import Checkpoint
    from agui_client.runs.shelf import RunShelf

T = TypeVar("T")
K = TypeVar("K", bound=KeptRun)

LEASE = 1.5
"""Seconds without a sign of life after which the runs of a process are taken over."""
_BEAT = 0.4
"""Seconds between two signs of life, in which this process also looks for runs to take over or to stop."""
_VERSION = "agui-client-1"
"""The version of the application for DBOS, which recovers workflows of the same version only."""
_QUEUE = "agui_client_runs:{}"
"""The queue of the runs of an agent that are taken over: only processes that have the agent listen to it."""
_POLL = 0.02
"""Seconds between two looks for events that another process has written."""
_LEAVE_SECONDS = 5.0
"""The longest time that leaving the runs may take when the process ends."""
_EVENTS = "events"
CRASHED = RunErrorEvent(message="The process of the run ended.", code="process_ended")
_PORTABLE = WorkflowSerializationFormat.PORTABLE
_logger = logging.getLogger("agui_client.runs")


def workflow_id_of(key: RunKey) -> str:
    """Return the id of a run's workflow: the same in each process, and of one length."""
    return "agui-" + hashlib.sha256(json.dumps(key).encode()).hexdigest()[:40]


class Rebuild(Protocol):
    """Makes the run of a row in this process."""

    def __call__(self, row: StoredRun, log: RunLog, cut: Continuation | None, kind: type[K], /) -> K:
        """Return the run.

        Args:
            row: The row.
            log: The log of the run.
            cut: The place where the run goes on; None for its beginning.
            kind: The class of the run.
        """
        ...


class DurableRuns:
    """The runs of a database, as far as this process carries them out or follows them.

    Args:
        url: The URL of the database.
        shelf: Holds the runs that this process carries out or follows.
        agents: The names of the agents that this process has; complete when the engine is opened.
        rebuild: Makes a run of a row.
        on_end: Called with each run that has ended in this process.
        keep: Seconds for which ended runs are kept.
    """

    def __init__(
        self,
        url: str,
        shelf: RunShelf,
        agents: Collection[str],
        rebuild: Rebuild,
        on_end: Callable[[KeptRun], Coroutine[Any, Any, None]],
        keep: float,
    ) -> None:
        self._url, self._shelf, self._agents, self._keep = url_of(url), shelf, agents, keep
        self._rebuild, self._on_end = rebuild, on_end
        self._executor_id = str(uuid4())
        self._database = RunDatabase(self._url, self._executor_id, LEASE)
        self._begun: dict[str, KeptRun] = {}
        self._carried_out: dict[str, KeptRun] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context: Context | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_closing = self._owns_dbos = False

    # --- the life of the engine

    @property
    def is_open(self) -> bool:
        """Whether the runs are in use."""
        return self._opening is not None

    async def open(self) -> None:
        """Begin to carry out runs, also those that ended processes have left. Idempotent.

        Raises:
            UsageError: Another engine is at work in this process, or the event loop is not asyncio's.
        """
        if self._opening is None:
            # A context without a workflow, in which streams are read without being recorded as steps of one.
            self._context = Context()
            self._opening = self._spawn(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        if _current:
            raise UsageError("another Runs(URL) is at work in this process; share one between the apps")
        _current.append(self)
        try:
            await self._database.open()
            self._launch()
            for name in self._agents:
                how: Any = {"polling_interval_sec": 0.2, "on_conflict": "always_update"}
                await DBOS.register_queue_async(_QUEUE.format(name), **how)
            await self._database.beat()
        except BaseException:
            _current.remove(self)
            raise
        _ = self._spawn(self._live())

    def _launch(self) -> None:
        """Launch DBOS in this event loop, unless the application has."""
        from dbos import _dbos  # pyright: ignore[reportPrivateUsage]

        own: Any = _dbos._dbos_global_instance  # pyright: ignore[reportPrivateUsage] # nothing public tells of it
        if own is not None and own._launched:
            theirs = url_of(own._config["system_database_url"])
            if theirs.set(drivername="") != self._url.set(drivername=""):
                what = f"the application's DBOS is on {theirs.render_as_string()}, and the workflows of runs with it"
                _logger.warning("%s; Runs(%r) has only their checkpoints", what, self._url.render_as_string())
            return
        config: DBOSConfig = {
            "name": "agui-client",
            "system_database_url": self._url.render_as_string(hide_password=False),
            "application_version": _VERSION,
            "executor_id": self._executor_id,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "ERROR",
        }
        for handler in logging.getLogger("dbos").handlers:
            # Its stream is the stderr of the first launch, which may be closed: that of a test, for instance.
            if type(handler) is logging.StreamHandler:
                handler.stream = sys.stderr
        DBOS(config=config).listen_queues([_QUEUE.format(name) for name in self._agents])
        DBOS.launch()
        self._owns_dbos = True

    async def aclose(self) -> None:
        """Leave all runs to other processes, and close the database. Idempotent."""
        if self._is_closing or self._opening is None:
            return
        self._is_closing = True
        self.give_up_all()
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            # Their blocks are left first: threads give their leases back.
            while self._carried_out:  # noqa: ASYNC110 - it is looked at once in the life of a process
                await asyncio.sleep(_POLL)
        with suppress(Exception):
            await self._database.leave()
        for task in self._tasks:
            task.cancel()
        if self._owns_dbos:
            await anyio.to_thread.run_sync(DBOS.destroy)
        await self._database.close()
        if self in _current:
            _current.remove(self)

    def give_up_all(self) -> None:
        """Give up the runs that are going on here; other processes take them over when the lease is given back."""
        for run in list(self._carried_out.values()):
            run.give_up()

    async def _live(self) -> None:
        """Give signs of life, take over runs of dead processes, and stop runs."""
        number = 0
        while True:
            number += 1
            try:
                await self._database.beat()
                await self._check_own()
                for workflow_id, agent in await self._database.take_over(self._agents):
                    await self._recover(workflow_id, agent)
                if number % 100 == 0:
                    await self._forget()
            except Exception:
                _logger.exception("the database of runs cannot be reached")
            await asyncio.sleep(_BEAT)

    async def _check_own(self) -> None:
        """Stop the runs that are to be stopped, and give up those that another process has taken over."""
        before = dict(self._carried_out)
        mine = await self._database.mine() if before else {}
        for workflow_id, run in before.items():
            if self._carried_out.get(workflow_id) is not run:
                continue
            attempt, is_stop_wanted = mine.get(workflow_id, (0, False))
            if attempt != run.log.attempt and run.log.is_going_on and run.log.phase is Phase.OPEN:
                run.give_up()
            elif is_stop_wanted:
                run.stop()

    async def _recover(self, workflow_id: str, agent: str) -> None:
        try:
            await DBOS.resume_workflow_async(workflow_id, queue_name=_QUEUE.format(agent))
        except dbos_error.DBOSNonExistentWorkflowError:
            # The process ended between its two first steps.
            await self._start(workflow_id)

    async def _forget(self) -> None:
        for workflow_id in await self._database.expired(self._keep):
            await DBOS.delete_workflow_async(workflow_id)
            await self._database.remove(workflow_id)

    # --- runs

    async def begin(self, run: KeptRun) -> KeptRun:
        """Begin a run: store it, and carry it out as a workflow, here if this process has its agent.

        Returns:
            The run, or the mirror of one that another process has begun.

        Raises:
            RunInProgressError: A run of the thread is going on, or the run is stored already.
            UsageError: Another process had the agent, and refused the run.
        """
        if run.recipe is None:
            raise UsageError("a run of Runs(URL) needs an agent with a name: runs.add(name, agent), runs.start(name)")
        workflow_id = workflow_id_of(run.log.key)
        is_ours = run.recipe.agent in self._agents
        await self._database.add(workflow_id, run.log.key, asdict(run.recipe), is_left=not is_ours)
        if not is_ours:
            return await self._begun_elsewhere(workflow_id)
        self._shelf.replace(run)
        self._begun[workflow_id] = run
        await self._start(workflow_id)
        return run

    async def _begun_elsewhere(self, workflow_id: str) -> KeptRun:
        """Wait until a process that has the agent has taken a run, and follow it."""
        while (row := await self._database.get(workflow_id)) is not None:
            if row.attempt:
                return await self._followed(row)
            await asyncio.sleep(_BEAT)
        raise UsageError("the process that has the agent refused the run; its log says why")

    async def _start(self, workflow_id: str) -> None:
        async def start() -> None:
            """Start the workflow outside of any other."""
            with SetWorkflowID(workflow_id):
                await DBOS.start_workflow_async(_run_workflow, workflow_id)

        await asyncio.shield(self._spawn(start()))

    async def attempt(self, workflow_id: str) -> None:
        """Carry out a run, from its beginning or its last checkpoint."""
        CURRENT_SCOPE.set(None)
        try:
            is_over = await self._has_ended(workflow_id)
        except Exception:
            _logger.exception("an attempt at a run failed; it is left to another one")
            is_over = False
        if not is_over:
            await self._release(workflow_id)
            # Another process has the run, or will have it. An end of this step would be recorded as that of the run.
            await asyncio.get_running_loop().create_future()

    async def _has_ended(self, workflow_id: str) -> bool:
        """Carry out a run; return whether it has ended, rather than was given up."""
        row = await self._database.attempt(workflow_id)
        run = self._begun.pop(workflow_id, None)
        if row is None:
            return True
        place = Place(0, row.attempt)
        if run is None:
            run, place = await self._recovered(row)
        journal = AttemptJournal(self._database, workflow_id, run, place)
        run.journal = journal
        self._carried_out[workflow_id] = run
        try:
            await self._carry_out(run, row, journal)
        finally:
            del self._carried_out[workflow_id]
        if not run.is_given_up and run.log.refusal is not None:
            await self._database.remove(workflow_id)
        elif not run.is_given_up:
            _ = self._spawn(self._on_end(run))
        return not run.is_given_up

    async def _release(self, workflow_id: str) -> None:
        """Leave a run to any process, once the database can be reached."""
        while not self._is_closing:
            with suppress(DatabaseError):
                await self._database.release(workflow_id)
                return
            await asyncio.sleep(_BEAT)

    async def _carry_out(self, run: KeptRun, row: StoredRun, journal: AttemptJournal) -> None:
        log = run.log
        if log.phase is Phase.OVER:
            # The process ended between the two last steps.
            await journal.note_end(log.status, log.interrupts, log.left_input)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.write)
            if row.attempt > 1 and row.checkpoint and row.recipe["on_crash"] == "fail":
                await run.finish(CRASHED)
            elif row.is_stop_wanted:
                key, cancelled = row.key, RunFinishedCancelledOutcome()
                finished = RunFinishedEvent(thread_id=key.thread_id, run_id=key.run_id, outcome=cancelled)
                await run.finish(finished if log.phase is Phase.OPEN else STOPPED)
            else:
                await run.carry_out(None)

    async def _recovered(self, row: StoredRun) -> tuple[KeptRun, Place]:
        """Return a run that another process has left, with the log as far as it goes, and the place behind that."""
        earlier = self._shelf.get(row.key)
        if isinstance(earlier, MirroredRun):
            earlier.stop_reading()
            log, offset = earlier.log, earlier.offset
        else:
            log, offset = RunLog(row.key, self._shelf), 0
        log.begun_at = row.begun_at
        for group in await self._spawn(self._written(row.workflow_id, offset)):
            take_in(log, group)
        cut = None if row.checkpoint is None else Continuation.model_validate_json(row.checkpoint)
        run = self._rebuild(row, log, cut, KeptRun)
        run.is_taken_over = True
        self._shelf.replace(run)
        return run, (go_back(log, row, cut) if log.is_going_on else log.end)

    # --- following

    async def get(self, key: RunKey) -> KeptRun | None:
        """Return a run, carried out here or mirrored; None if it is not stored."""
        await self.open()
        row = await self._database.get(workflow_id_of(key))
        return None if row is None else await self._followed(row)

    async def latest(self, owner: str, thread_id: str) -> KeptRun | None:
        """Return the latest run of a thread; None if none is stored."""
        await self.open()
        rows = await self._database.runs(owner=owner, thread_id=thread_id, most=1)
        return await self._followed(rows[0]) if rows else None

    async def find(self, run_id: str, thread_id: str | None, owner: str | None) -> KeptRun:
        """Return the run of an id.

        Raises:
            UsageError: There is none, or there are several.
        """
        await self.open()
        rows = await self._database.runs(owner=owner, thread_id=thread_id, run_id=run_id, most=2)
        if not rows:
            raise UsageError(f"no run {run_id!r} is kept here; a run that has ended is kept for Runs(keep=) seconds")
        if len(rows) > 1:
            raise UsageError(f"several runs have the id {run_id!r}; name one with thread_id= and owner=")
        return await self._followed(rows[0])

    async def infos(self, owner: str | None) -> list[RunInfo]:
        """Return the descriptions of the latest thousand runs, those that began last first."""
        await self.open()
        rows = await self._database.runs(owner=owner)
        return [self._info(row) for row in rows]

    def _info(self, row: StoredRun) -> RunInfo:
        run = self._shelf.get(row.key)
        return run.log.info if run is not None and run.log.phase is Phase.OPEN else info_of(row)

    async def _followed(self, row: StoredRun) -> KeptRun:
        run = self._shelf.get(row.key)
        if run is None or run.log.phase is Phase.DROPPED:
            mirrored = self._rebuild(row, RunLog(row.key, self._shelf), None, MirroredRun)
            mirrored.when_left, mirrored.forget = "stop", self._shelf.discard
            self._shelf.replace(mirrored)
            run = mirrored
            run.log.begun_at = row.begun_at
            run.task = self._spawn(self._mirror(run, row.workflow_id))
            if row.status is not RunStatus.RUNNING:
                await asyncio.shield(run.task)
        if not run.log.is_going_on and row.status is not RunStatus.RUNNING:
            # Another process may have begun the run that answers it.
            run.log.status = row.status
            if run.log.left_input is None and row.left_input is not None:
                run.log.left_input = RunAgentInput.model_validate_json(row.left_input)
        return run

    async def _mirror(self, run: MirroredRun, workflow_id: str) -> None:
        with suppress(dbos_error.DBOSNonExistentWorkflowError):
            async for group in self._groups(workflow_id, 0):
                take_in(run.log, group)
                run.offset += 1
                if not run.log.is_going_on:
                    return
        run.stop()

    async def stop(self, run: KeptRun) -> None:
        """Stop a run, wherever it is carried out, and wait for its end."""
        workflow_id = workflow_id_of(run.log.key)
        await self._database.want_stop(workflow_id)
        with run.log.followed():
            if workflow_id in self._carried_out:
                run.stop()
            await run.log.ended()

    # --- inside

    async def _groups(self, workflow_id: str, offset: int, timeout: float | None = None) -> AsyncIterator[Any]:
        groups = DBOS.read_stream_async(
            workflow_id, _EVENTS, offset=offset, polling_interval_sec=_POLL, timeout_seconds=timeout
        )
        async with aclosing(groups):
            async for group in groups:
                yield group

    async def _written(self, workflow_id: str, offset: int) -> list[Any]:
        """Return the groups that are written so far; called outside of workflows, which would record each."""
        found: list[Any] = []
        with suppress(dbos_error.DBOSStreamTimeoutError):
            async for each in self._groups(workflow_id, offset, 0.0):
                found.append(each)  # noqa: PERF401 - those before the one that is not there are wanted
        return found

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        assert self._context is not None
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class AttemptJournal:
    """Stores the events and the checkpoints of one attempt at a run.

    Args:
        database: The tables.
        workflow_id: The id of the run's workflow.
        run: The run.
        place: The place behind the events that are stored already.
    """

    def __init__(self, database: RunDatabase, workflow_id: str, run: KeptRun, place: Place) -> None:
        self._database, self._workflow_id, self._attempt, self._run = database, workflow_id, place.attempt, run
        self._writer = GroupWriter(run.log, place, self._store)
        self._sent_run_id: str | None = None
        self._answers: RunKey | None = run.log.key
        self._is_first, self._has_ended = True, False

    async def begin(self, run: AgentRun) -> None:
        """Have the run saved where it can go on."""
        run.call.also_save = self._save

    async def write(self) -> None:
        """Store the events as they come, until the log ends."""
        try:
            await self._writer.write()
        except UsageError:
            """The run was given up, and its log is dropped."""
        except Exception:
            _logger.exception("the events of run %r cannot be stored; it is left to another process", self._run.log.key)
            self._run.give_up()

    async def end(self, last: Event, left_input: RunAgentInput | None) -> None:
        """Store the end of the run; if that fails, the run is left to another process."""
        try:
            with anyio.CancelScope(shield=True):
                await self._writer.flush()
                await self._store(self._run.log.end.position, [frame_of(last)], end=_dumped(left_input))
                self._has_ended = True
                await self.note_end(status_after(last), interrupts_in(last), left_input)
        except Exception:
            _logger.exception("the end of run %r cannot be stored", self._run.log.key.run_id)
            self._run.give_up()

    async def note_end(
        self, status: RunStatus, interrupts: Sequence[Interrupt], left_input: RunAgentInput | None
    ) -> None:
        """Note the end of the run in its row.

        Raises:
            RunLostError: The run is another process's now.
        """
        asked = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in interrupts]
        await self._database.end(
            self._workflow_id,
            self._attempt,
            status,
            event_count=self._run.log.end.position + 1,
            interrupts=asked,
            left_input=_dumped(left_input),
        )

    async def _save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint, if a run can go on from it: before it is sent, and while tools are at work."""
        if checkpoint.run_id is not None:
            if checkpoint.run_id == self._sent_run_id:
                return
            self._sent_run_id = checkpoint.run_id
        elif not _has_begun_tools(checkpoint):
            return
        position = self._run.log.end.position
        place = Continuation.of(checkpoint).model_dump_json(by_alias=True)
        await self._writer.flush()
        try:
            # The first checkpoint is made when the run is certain: what its thread waited for is answered.
            answers, self._answers = self._answers, None
            await self._database.save(self._workflow_id, self._attempt, place, position, answers)
        except RunLostError:
            self._run.give_up()
            raise

    async def _store(self, position: int, frames: Sequence[bytes], **end: Any) -> None:
        log = self._run.log
        if self._has_ended:
            return
        group: dict[str, Any] = {"attempt": self._attempt, "position": position, "frames": b"".join(frames).decode()}
        if self._is_first and position == 0 and log.before is not None:
            messages, state = log.before
            group["before"] = [MESSAGES.dump_python([*messages], mode="json", by_alias=True, exclude_none=True), state]
        self._is_first = False
        await DBOS.write_stream_async(_EVENTS, {**group, **end}, serialization_type=_PORTABLE)


def _dumped(input: RunAgentInput | None) -> str | None:
    return None if input is None else input.model_dump_json(by_alias=True, exclude_none=True)


def _has_begun_tools(checkpoint: Checkpoint) -> bool:
    """Return whether a tool was called since the run before, whose call must not be lost."""
    open_ids = {each.tool_call_id for each in checkpoint.results}
    return bool(open_ids) or any(each.status == "executing" for each in checkpoint.members["tool_calls"])


_current: list[DurableRuns] = []
"""The engine of this process, at most one: DBOS has one, too."""


@DBOS.workflow(name="agui_client.run", serialization_type=_PORTABLE)
async def _run_workflow(workflow_id: str) -> None:
    """Carry out a run, as a workflow with one step: what is done already is in its checkpoints."""
    # The application's own DBOS may recover it before the runs are open.
    while not _current:  # noqa: ASYNC110
        await asyncio.sleep(_BEAT)
    await DBOS.run_step_async({"name": "attempt"}, _current[0].attempt, workflow_id)
