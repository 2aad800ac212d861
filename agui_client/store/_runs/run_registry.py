"""The runs that a process keeps, and the bounds of time and memory within which it keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from agui_client._core.agent.run_records import RunStatus
from agui_client._serving.repetition import refuse_answered_by_runs
from agui_client.store._runs.run_log import LOG_FULL, RunLog

if TYPE_CHECKING:
    from agui_client._core.agent.run_records import RunKey
    from agui_client.store._runs.server_run import ServerRun


class ActiveRuns:
    """The kept runs of a process, by their identities and by their threads.

    Args:
        keep: The seconds for which the events of a run are kept after its end.
        max_bytes: The bytes that all logs may take.
    """

    def __init__(self, keep: float, max_bytes: int) -> None:
        self._keep, self._max_bytes = keep, max_bytes
        self._runs: dict[RunKey, ServerRun] = {}
        # A thread has one run at a time, so that its last one is the one that is in progress, if any is.
        self._threads: dict[tuple[str, str], list[ServerRun]] = {}
        # In the order in which they ended.
        self._ended: dict[RunKey, ServerRun] = {}
        self._size, self._sizes = 0, dict[str, int]()  # of all, and by owner

    def __iter__(self) -> Iterator[ServerRun]:
        self._drop_expired()
        return iter(list(self._runs.values()))

    def add(self, run: ServerRun) -> None:
        """Add a run, in the place of one of the same identity if there is any."""
        key = run.log.key
        if (earlier := self._runs.get(key)) is not None:
            self._take_out(earlier)
        self._runs[key] = run
        self._threads.setdefault((key.owner, key.thread_id), []).append(run)
        self._count(run, run.log.size)
        if not run.log.is_running:
            self._ended[key] = run

    def discard(self, run: ServerRun) -> None:
        """Forget a run and its events."""
        if self._runs.get(run.log.key) is run:
            self._drop(run)

    def get(self, key: RunKey) -> ServerRun | None:
        """Return a run; None if it is not kept."""
        self._drop_expired()
        return self._runs.get(key)

    def latest(self, owner: str, thread_id: str) -> ServerRun | None:
        """Return the latest run of a thread; None if none is kept."""
        self._drop_expired()
        runs = self._threads.get((owner, thread_id))
        return runs[-1] if runs else None

    def refuse_answered(self, run: ServerRun) -> None:
        """Refuse a run that answers what another run of its thread has answered.

        Raises:
            RequestRepeatedError: It does.
        """
        key = run.log.key
        others = self._threads.get((key.owner, key.thread_id), ())
        answered = {each for other in others for each in other.answered_ids}
        asked = [each for other in self.waiting(key) for each in other.log.interrupts]
        refuse_answered_by_runs(run.input.resume or (), answered, asked)

    def waiting(self, key: RunKey) -> Sequence[ServerRun]:
        """Return the runs of the same thread that wait for a person."""
        runs = self._threads.get((key.owner, key.thread_id), ())
        return [each for each in runs if each.log.status is RunStatus.WAITING]

    # --- what the logs report

    def on_growth(self, log: RunLog, size: int) -> None:
        """Note that a log takes more bytes."""
        run = self._runs.get(log.key)
        if run is not None and run.log is log:
            self._count(run, size)

    def on_end(self, log: RunLog) -> None:
        """Note that a run has ended; one that was refused is kept no longer."""
        run = self._runs.get(log.key)
        if run is None or run.log is not log:
            return
        if log.refusal is not None:
            self._drop(run)
        else:
            self._ended[log.key] = run

    def on_left(self, log: RunLog) -> None:
        """Stop a run that continues only as long as it has callers."""
        run = self._runs.get(log.key)
        if run is not None and run.when_left == "stop":
            run.stop()

    # --- inside

    def _count(self, run: ServerRun, size: int) -> None:
        """Count the bytes of a run; if all take too many, the owner that has most of them loses runs."""
        owner = run.log.key.owner
        self._size += size
        self._sizes[owner] = self._sizes.get(owner, 0) + size
        if not self._sizes[owner]:
            del self._sizes[owner]
        while size > 0 and self._size > self._max_bytes:
            owner = max(self._sizes, key=lambda each: self._sizes[each])
            if (ended := self._first_to_drop(owner)) is None:
                theirs = (each for each in self._runs.values() if each.log.key.owner == owner)
                max(theirs, key=lambda each: each.log.size).stop(LOG_FULL)
                break
            self._drop(ended)

    def _first_to_drop(self, owner: str) -> ServerRun | None:
        """Return the run of an owner that ended first, one that waits for a person only if there is no other."""
        theirs = [each for each in self._ended.values() if each.log.key.owner == owner]
        return next((each for each in theirs if each.log.status is not RunStatus.WAITING), next(iter(theirs), None))

    def _drop_expired(self) -> None:
        # The others are not looked at: there may be very many.
        for key, run in list(takewhile(lambda each: each[1].log.age >= self._keep, self._ended.items())):
            if run.log.is_followed:
                # A follower is still reading it: it is looked at again behind those that ended until now.
                self._ended[key] = self._ended.pop(key)
            else:
                self._drop(run)

    def _drop(self, run: ServerRun) -> None:
        self._take_out(run)
        run.log.drop()

    def _take_out(self, run: ServerRun) -> None:
        key = run.log.key
        self._count(run, -run.log.size)
        self._ended.pop(key, None)
        self._runs.pop(key, None)
        thread = self._threads[key.owner, key.thread_id]
        thread.remove(run)
        if not thread:
            del self._threads[key.owner, key.thread_id]
