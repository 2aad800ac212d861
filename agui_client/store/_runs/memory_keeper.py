"""Runs in the memory of this process, which end with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, copy_context
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agui_client._core.agent.run_records import RunStatus, WaitingRun
from agui_client._core.ground.concurrency import spawn
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._serving.stopping import SHUTTING_DOWN
from agui_client.errors import RunInProgressError
from agui_client.store._runs.on_waiting import WaitingFunction, notify

if TYPE_CHECKING:
    from agui_client._core.agent.run_records import RunFilter, RunInfo, RunKey
    from agui_client.store._runs.run_log import RunLog
    from agui_client.store._runs.run_registry import ActiveRuns
    from agui_client.store._runs.server_run import ServerRun


class MemoryBackend:
    """Keeps runs in this process.

    Args:
        registry: Holds the runs.
        on_waiting: The functions to call with each run that waits for a person.
    """

    is_durable = False
    """Whether the runs outlive this process."""
    is_open = True
    """Whether the runs are in use."""

    def __init__(self, registry: ActiveRuns, on_waiting: Sequence[WaitingFunction]) -> None:
        self._registry, self._on_waiting = registry, on_waiting

    def now(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC)

    def check_name(self, name: str) -> None:
        """Allow any name at any time: no other process looks for it."""

    async def open(self) -> None:
        """Do nothing: no process has left runs."""

    async def begin(self, run: ServerRun) -> ServerRun:
        """Begin a run in a task of its own.

        Raises:
            RequestRepeatedError: The run answers what another run of the thread has answered.
            RunInProgressError: A run of the thread is in progress.
        """
        key = run.log.key
        latest = self._registry.latest(key.owner, key.thread_id)
        if latest is not None and latest.log.is_running:
            raise RunInProgressError(f"run {latest.log.key.run_id!r} is in progress in thread {key.thread_id!r}")
        self._registry.refuse_answered(run)
        waiting = [each.log for each in self._registry.waiting(key)]
        self._registry.add(run)
        context = copy_context()
        # A run inside of another one would be given its handlers and its time limit, and this one outlives it.
        context.run(CURRENT_SCOPE.set, None)
        spawn(partial(self._carry_out, run, waiting), context)
        return run

    async def _carry_out(self, run: ServerRun, before: Sequence[RunLog]) -> None:
        await run.carry_out(before)
        if run.log.status is RunStatus.WAITING:
            await notify(self._on_waiting, WaitingRun.of(run.log.key, run.log.interrupts))

    async def get(self, key: RunKey) -> ServerRun | None:
        """Return a run; None if it is not kept."""
        return self._registry.get(key)

    async def latest(self, owner: str, thread_id: str) -> ServerRun | None:
        """Return the latest run of a thread; None if none is kept."""
        return self._registry.latest(owner, thread_id)

    async def infos(self, wanted: RunFilter, limit: int, after: RunInfo | None = None) -> Sequence[RunInfo]:
        """Return a page of descriptions, those that began last first."""
        logs = [each.log for each in self._registry if _fits(each.log, wanted)]
        if after is not None:
            logs = [each for each in logs if (each.begun_at, each.key) < (after.begun_at, after.key)]
        logs.sort(key=lambda each: (each.begun_at, each.key), reverse=True)
        return [each.info for each in logs[:limit]]

    async def overdue(self, seconds: float) -> Sequence[RunKey]:
        """Return the identities of runs that have waited for an answer for longer than some seconds."""
        logs = [each.log for each in self._registry]
        return [each.key for each in logs if each.status is RunStatus.WAITING and each.age > seconds]

    async def stop(self, run: ServerRun) -> None:
        """Stop a run, and wait for its end."""
        run.stop()
        await run.log.ended()

    async def delete(self, owner: str | None) -> int:
        """Stop the runs of an owner, or of all, and remove them; return their number."""
        removed = 0
        while runs := [each for each in self._registry if owner in (None, each.log.key.owner)]:
            for run in runs:
                run.stop()
            await self._ended(runs)
            for run in runs:
                self._registry.discard(run)
            removed += len(runs)
        return removed

    def stop_all(self, within: float) -> None:
        """End the runs that are in progress, as soon as no function of theirs is at work."""
        if running := [each for each in self._registry if each.log.is_running]:
            for run in running:
                run.shut_down()
            spawn(partial(self._cut, running, within), Context())

    async def _cut(self, running: Sequence[ServerRun], within: float) -> None:
        """Stop runs whose functions take too long."""
        with anyio.move_on_after(within):
            await self._ended(running)
        for run in running:
            if run.log.is_running:
                run.stop(SHUTTING_DOWN)

    async def _ended(self, runs: Sequence[ServerRun]) -> None:
        for run in runs:
            await run.log.ended()

    async def aclose(self, within: float) -> None:
        """End the runs that are in progress, and wait for that."""
        running = [each for each in self._registry if each.log.is_running]
        self.stop_all(within)
        with anyio.CancelScope(shield=True):
            await self._ended(running)


def _fits(log: RunLog, wanted: RunFilter) -> bool:
    return all(each in (None, value) for each, value in zip(wanted, (*log.key, log.status), strict=True))
