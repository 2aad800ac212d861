"""The part of `Runs` that served agents and batches use: agents with names, and the runs themselves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from ag_ui.core import ResumeEntry, RunAgentInput

from agui_client._core.agent.run_records import RunFilter, RunsClosedError, RunStatus, StoredRequest
from agui_client._core.ground.concurrency import spawn
from agui_client._core.plugs import TRACE_HEADERS
from agui_client._core.protocol.schema import is_a
from agui_client._core.tools.interrupts import HOW_BY_ID, cover, is_expired
from agui_client._core.transport.timeouts import is_duration
from agui_client._serving.stopping import STOP_WITHIN
from agui_client.errors import (
    InterruptsNotCoveredError,
    RequestExpiredError,
    RequestRepeatedError,
    RunInProgressError,
    RunNotFoundError,
    UsageError,
)
from agui_client.store._runs.memory_keeper import MemoryBackend
from agui_client.store._runs.on_waiting import WaitingFunction
from agui_client.store._runs.program_runs import NamedOpener
from agui_client.store._runs.run_log import RunLog
from agui_client.store._runs.run_registry import ActiveRuns
from agui_client.store._runs.server_run import ServerRun

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from agui_client._core.agent.run_records import RunInfo, RunKey, WhenLeft
    from agui_client._core.tools.interrupts import Resume
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._serving.answering import ResumedRun
    from agui_client.store._runs.database_keeper import DatabaseBackend
    from agui_client.store._runs.server_run import Enter, NamedAgent
    from agui_client.store._sql.database import Database
    from agui_client.store._sql.run_rows import Row

    RunKeeper: TypeAlias = MemoryBackend | DatabaseBackend
    """Begins, finds and ends runs, wherever they are kept: the two have the same methods."""

K = TypeVar("K", bound=ServerRun)

_CLOSED = (
    "the store of these runs was closed, so no run can begin; make another one, or put all that uses it into one "
    "block: async with store"
)
_KEEP, _KEEP_STORED = 300.0, 7 * 86400.0
"""The seconds for which ended runs are kept by default, in memory and in a database."""
EXPIRED = "Nobody answered in time: the request has expired."
"""The reason with which a call is denied that nobody has approved in time."""
_MOST_OF_ONE_ID = 100
"""The runs of one id that are counted."""
_LONGEST_LOOK = 10.0
"""The seconds between two looks for runs that have waited for too long."""
_logger = logging.getLogger("agui_client.runs")
_BETWEEN_PROCESSES = 0.1
"""The seconds before a run that was left to another process is looked for there."""
_KEEP_REMOTE = 60.0
"""The seconds for which a process has the events of an ended run at hand that are in a database."""


AT_ONCE_PER_OWNER = 8
"""The runs of one owner that a process executes at one time, if the application does not say."""


class RunBounds(NamedTuple):
    """The bounds of the runs of a process, which `Store` explains."""

    keep: float | None = None
    """Seconds for which ended runs are kept; None for the default."""
    max_bytes: int = 64 * 1024 * 1024
    """The bytes that all logs may take."""
    at_once: int | None = None
    """The runs that this process executes at one time; None for no limit."""
    at_once_per_owner: int | None = AT_ONCE_PER_OWNER
    """The same of each owner; runs without an owner have no limit of their own."""
    answer_within: float | None = None
    """Seconds in which a run that waits for a person has to be answered; None for no limit."""

    def check(self) -> None:
        """Check bounds that a caller gave.

        Raises:
            UsageError: One of them has a wrong value.
        """
        if self.keep not in (None, 0) and not is_duration(self.keep):
            raise UsageError(f"keep= is a number of seconds from 0 up, not {self.keep!r}")
        if not is_a(self.max_bytes, int) or self.max_bytes < 1:
            raise UsageError(f"max_bytes= is a whole number above zero, not {self.max_bytes!r}")
        for name, bound in (("at_once", self.at_once), ("at_once_per_owner", self.at_once_per_owner)):
            if bound is not None and (not is_a(bound, int) or bound < 1):
                raise UsageError(f"{name}= is a whole number above zero, or None for no limit, not {bound!r}")
        if self.answer_within is not None and not is_duration(self.answer_within):
            raise UsageError(f"answer_within= is a number of seconds above zero or None, not {self.answer_within!r}")


class RunService:
    """The runs behind a `Runs`.

    Args:
        database: The database; None keeps runs in memory.
        bounds: The bounds of the runs.
    """

    def __init__(self, database: Database | None, bounds: RunBounds) -> None:
        self.on_waiting: list[WaitingFunction] = []
        """The functions to call with each run that waits for a person."""
        self.named: dict[str, NamedAgent] = {}
        """The agents whose runs this process can enter, by name."""
        self._turns = [] if bounds.at_once is None else [anyio.CapacityLimiter(bounds.at_once)]
        self._at_once_per_owner = bounds.at_once_per_owner
        # As long as a run of the owner has it.
        self._turns_by_owner = WeakValueDictionary[str, anyio.CapacityLimiter]()
        self._answer_within, self._is_watching = bounds.answer_within, False
        self.is_closed: bool = False
        """Whether no run can begin any more."""
        keep = bounds.keep if bounds.keep is not None else _KEEP if database is None else _KEEP_STORED
        self._registry = ActiveRuns(keep if database is None else min(keep, _KEEP_REMOTE), bounds.max_bytes)
        self.keeper: RunKeeper
        """Begins, finds and ends the runs."""
        if database is None:
            self.keeper = MemoryBackend(self._registry, self.on_waiting)
            return
        from agui_client.store._runs.database_keeper import DatabaseBackend
        from agui_client.store._sql.runs import Runs

        tables = Runs(database)
        self.keeper = DatabaseBackend(tables, self._registry, self.named, self._rebuilt, self.on_waiting, keep)

    @property
    def is_open(self) -> bool:
        """Whether the runs are in use; those in memory are until they are closed."""
        return not self.is_closed and self.keeper.is_open

    async def open(self) -> None:
        """Begin to carry out runs, also those that ended processes have left. Idempotent.

        Raises:
            RunsClosedError: The runs were closed.
        """
        if self.is_closed:
            raise RunsClosedError(_CLOSED)
        await self.keeper.open()
        if self._answer_within is not None and not self._is_watching:
            self._is_watching = True
            spawn(partial(self._expire, self._answer_within), Context())

    def close(self) -> None:
        """Let no run begin, in a program without an event loop. Idempotent.

        Raises:
            UsageError: The runs are in use in one.
        """
        if self.keeper.is_durable and self.is_open:
            raise UsageError("the runs of this store are in use in an event loop: await store.aclose() there")
        self.is_closed = True

    def stop_all(self, within: float) -> None:
        """End the runs or leave them, as `aclose` does, without waiting for that; let no more begin."""
        self.is_closed = True
        self.keeper.stop_all(within)

    async def aclose(self, within: float = STOP_WITHIN) -> None:
        """End the runs, or leave them to other processes, and let no more begin. Idempotent.

        Args:
            within: Seconds within which functions that were begun may end.
        """
        self.is_closed = True
        await self.keeper.aclose(within)

    def name(self, name: str, agent: NamedAgent) -> None:
        """Name what enters runs, so that another process can continue with them.

        Raises:
            UsageError: The name is not text, or empty. In a database, another agent has it, or it comes too late.
        """
        if not is_a(name, str) or not name:
            raise UsageError(f"the name of an agent of runs is a text that is not empty, not {name!r}")
        self.keeper.check_name(name)
        self.named[name] = agent

    def added(self, name: str) -> NamedOpener:
        """Return the agent that a program has added under a name.

        Raises:
            UsageError: There is none.
        """
        agent = self.named.get(name)
        if not isinstance(agent, NamedOpener):
            raise UsageError(f"no agent was added under the name {name!r}; runs.add({name!r}, agent) does so")
        return agent

    async def begin(
        self,
        key: RunKey,
        input: RunAgentInput,
        enter: Enter,
        *,
        when_left: WhenLeft = "continue",
        expose_errors: bool = False,
        input_size: int = 0,
        stored_request: StoredRequest | None = None,
        is_expiry: bool = False,
    ) -> ServerRun:
        """Begin a run in a task of its own.

        Args:
            key: The identity of the run.
            input: The input that asks for the run.
            enter: Enters the run, and those that continue with answers to its interrupts.
            when_left: Says what becomes of the run when its last caller has left.
            expose_errors: Whether callers get the text of exceptions.
            input_size: The bytes of the input.
            stored_request: The name of the agent, and what it needs to know of the request, for other processes.
            is_expiry: Whether the run only notes that nobody has answered.

        Returns:
            The run, which may yet be refused: `log.opened()` waits for that.

        Raises:
            RequestRepeatedError: The input answers what another run of the thread has answered.
            RunInProgressError: A run of the thread is in progress.
            UsageError: These runs were closed.
        """
        await self.open()
        if stored_request is not None:
            headers = {key: value for each in TRACE_HEADERS for key, value in each().items()}
            stored_request = replace(stored_request, trace=headers)
        run = ServerRun(
            RunLog(key, self._registry, input_size),
            input,
            enter,
            when_left=when_left,
            expose_errors=expose_errors,
            stored_request=stored_request,
            turns=self._turns_of(key.owner),
            answer_until=self._answer_until,
            is_expiry=is_expiry,
        )
        return await self.keeper.begin(run)

    async def opened(self, run: ServerRun) -> ServerRun:
        """Wait until a run has begun, here or in the process that has taken it over; return it as it is there.

        Raises:
            Exception: It was refused.
            RunsClosedError: It is left to another process, and this one stops.
        """
        while True:
            try:
                await run.log.opened()
            except RunsClosedError as error:
                left = error
            else:
                return run
            run = await self.elsewhere(run, left)

    async def elsewhere(self, run: ServerRun, left: RunsClosedError) -> ServerRun:
        """Return a run that was left to another process, to be followed there.

        Raises:
            RunsClosedError: This process stops, or the run is gone.
        """
        if self.is_closed or not self.keeper.is_durable:
            raise left
        await anyio.sleep(_BETWEEN_PROCESSES)
        if (found := await self.keeper.get(run.log.key)) is None:
            raise left
        return found

    async def continue_run(self, run: ServerRun, answers: Resume, *, is_expiry: bool = False) -> ServerRun:
        """Begin the run that continues with answers to the interrupts of another one.

        Args:
            run: The run that waits.
            is_expiry: Whether the answers say that there are none, and the run ends with that.

        Raises:
            InterruptsNotCoveredError: The answers do not answer each interrupt once.
            RequestExpiredError: The time to answer has passed.
            RequestRepeatedError: The run waits for no answer, or an interrupt was answered at the same moment.
            RunInProgressError: A run of the thread is in progress.
            UsageError: These runs were closed.
        """
        log, left = run.log, run.log.left_input
        if log.status is not RunStatus.WAITING or left is None:
            raise _refusal(log, has_expired=self._has_expired(log))
        try:
            resume = cover(log.interrupts, answers, HOW_BY_ID, self.keeper.now())
        except InterruptsNotCoveredError as error:
            if self._has_expired(log):
                raise RequestExpiredError(str(error)) from error
            raise
        entries = [ResumeEntry.model_validate(each) for each in resume]
        input = left.model_copy(update={"run_id": str(uuid4()), "resume": entries})
        stored_request = run.stored_request
        if stored_request is not None:
            # Another process may carry the run out, from this input on.
            stored_request = replace(
                stored_request, input=input.model_dump(mode="json", by_alias=True, exclude_none=True)
            )
        return await self.begin(
            log.key._replace(run_id=input.run_id),
            input,
            run.enter,
            when_left=run.when_left,
            expose_errors=run.expose_errors,
            input_size=log.input_size,
            stored_request=stored_request,
            is_expiry=is_expiry,
        )

    async def _expire(self, seconds: float) -> None:
        """Deny what nobody has answered in time, as long as the runs are in use."""
        while not self.is_closed:
            try:
                for key in await self.keeper.overdue(seconds):
                    if (run := await self.keeper.get(key)) is not None:
                        denied: Any = {"status": "cancelled", "payload": {"reason": EXPIRED}}
                        entries = [ResumeEntry(interrupt_id=each.id, **denied) for each in run.log.interrupts]
                        # Another process may do the same, or a person write something else.
                        with suppress(UsageError, RunInProgressError):
                            await self.continue_run(run, entries, is_expiry=True)
            except Exception:
                _logger.exception("the questions that nobody has answered in time cannot be denied now")
            await anyio.sleep(min(seconds / 10, _LONGEST_LOOK))

    async def find(self, run_id: str, thread_id: str | None, owner: str | None) -> ServerRun:
        """Return the run of an id: see `info`."""
        key = (await self.info(run_id, thread_id, owner)).key
        if (run := await self.keeper.get(key)) is None:
            raise _none(run_id)  # it was removed just now
        return run

    async def info(self, run_id: str, thread_id: str | None, owner: str | None) -> RunInfo:
        """Return the description of the run of an id; None stands for any thread or owner.

        Raises:
            UsageError: There is none, there are several, or the id is not text.
        """
        if not is_a(run_id, str):
            what = f"run_id= is the id of a run, such as info.run_id, not a {type(run_id).__name__}"
            raise UsageError(what)
        found = await self.keeper.infos(RunFilter(owner, thread_id, run_id), _MOST_OF_ONE_ID)
        if not found:
            raise _none(run_id)
        if len(found) > 1:
            raise UsageError(f"{len(found)} runs have the id {run_id!r}; name one with thread_id= and owner=")
        return found[0]

    def _has_expired(self, log: RunLog) -> bool:
        now = self.keeper.now()
        return any(is_expired(each, now) for each in log.interrupts)

    def _answer_until(self) -> datetime | None:
        """Return the time when interrupts expire that are asked now; None if they do not."""
        return None if self._answer_within is None else self.keeper.now() + timedelta(seconds=self._answer_within)

    def _turns_of(self, owner: str) -> Sequence[anyio.CapacityLimiter]:
        """Return the limits of the runs of an owner: one that waits for its owner's turn takes none of others."""
        if self._at_once_per_owner is None or not owner:
            return self._turns
        if (own := self._turns_by_owner.get(owner)) is None:
            own = self._turns_by_owner[owner] = anyio.CapacityLimiter(self._at_once_per_owner)
        return [own, *self._turns]

    def _rebuilt(self, row: Row, log: RunLog, cut: ResumedRun | None, kind: type[K]) -> K:
        """Return the run of a row, to be carried out or followed in this process."""
        stored_request = StoredRequest(**row.stored_request)
        agent = self.named.get(stored_request.agent)
        return kind(
            log,
            RunAgentInput.model_validate(stored_request.input),
            _unknown(stored_request.agent) if agent is None else agent.enter_as(stored_request),
            when_left=stored_request.when_left,
            expose_errors=stored_request.expose_errors,
            stored_request=stored_request,
            turns=self._turns_of(log.key.owner),
            answer_until=self._answer_until,
            cut=cut,
        )


def _none(run_id: str) -> RunNotFoundError:
    return RunNotFoundError(f"no run {run_id!r} is kept here; a run that has ended is kept for Store(keep=) seconds")


def _refusal(log: RunLog, *, has_expired: bool) -> RequestRepeatedError:
    """Return the exception that says why a run waits for no answer."""
    what = f"run {log.key.run_id!r} waits for no answer"
    if log.status is RunStatus.SUPERSEDED:
        return RequestRepeatedError(f"{what}: another run of its thread has begun instead")
    if has_expired:
        return RequestExpiredError(f"{what}: nobody answered in time")
    is_answered = log.status is RunStatus.FINISHED and log.interrupts
    return RequestRepeatedError(f"{what}: {'it was answered' if is_answered else f'it is {log.status.value}'}")


def _unknown(name: str) -> Enter:
    """Return what refuses to enter a run, as this process does not know its agent."""

    async def enter(input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None, /) -> AgentRun:
        """Refuse the run."""
        raise UsageError(f"no agent of these runs is named {name!r}; name it with runs.add or agent_app(name=)")

    return enter
