"""The lease of a process: as long as the process renews it, the threads and runs that name the process are its own.

The thread of the database renews the lease, in the time of the database: an event loop that is blocked, or a process
that stands still for less than the lease, loses nothing. A loop that does not turn any more would keep its threads and
runs for ever; so the thread asks the loops of the application to turn, and renews nothing once one of them has not
turned for too long. A take-over changes the holder and a number beside it, so that the former holder, if it comes back,
changes nothing.

After a time without the database, every process looks dead to every other one. So a process that was cut off from it
for longer than a lease renews its own, and waits a lease before it takes others for dead. A new process cannot know
whether those whose leases have passed were cut off or killed. It waits as long as living processes take to renew, as
they try several times a second; a lease would keep those who restart a killed program waiting. Processes that have
ended orderly are not in the table.

To change

- when a process loses what it has, and who judges that: `ProcessLease` here, which the thread of `Transactions` renews;
  `Taking` in `store/_sql/thread_statements.py` and `take_over` in `store/_sql/runs.py` take over;
  `tests/store/runs/test_database.py`, and `tests/store/runs/test_outages.py` with processes; `python -m load.kills` in
  `tests/` measures how soon runs are asked again
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from time import monotonic, time
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from agui_client._core.ground.concurrency import LoopThread
from agui_client._core.plugs import measure
from agui_client.store._sql.tables import NOW, PROCESS, microseconds_of

_RENEWALS = 5
"""The number of renewals in the time of a lease."""
_BY_LOOP, _BY_DATABASE = {"agui.reason": "event_loop"}, {"agui.reason": "database"}
"""The causes of missed renewals: an event loop that does not turn, or a database that does not carry them out."""
_THIS = PROCESS.c.process_id == sa.bindparam("of_process")


class ProcessLease:
    """The lease of this process in one database.

    Args:
        seconds: The seconds for which it is renewed.
        hung_after: The seconds after which a loop that has not turned is taken for hung.
    """

    def __init__(self, seconds: float, hung_after: float) -> None:
        self.seconds = seconds
        """The seconds for which it is renewed."""
        self._hung_after = hung_after
        self._until = NOW + microseconds_of(seconds)
        self._renew = sa.update(PROCESS).where(_THIS).values(alive_until=self._until).returning(NOW)
        self._take = sa.insert(PROCESS).values(alive_until=self._until).returning(NOW)
        self.living: sa.Select[Any] = sa.select(PROCESS.c.process_id).where(PROCESS.c.alive_until > NOW)
        """Selects the ids of the processes that have a lease."""
        self._loops: list[_Loop] = []
        self.reset()

    def reset(self) -> None:
        """Begin anew, without a lease, as a process of its own."""
        self.process_id: str = str(uuid4())
        """The id of this process."""
        self.due_at: float = inf
        """The moment at which it is to be renewed; never before it was taken."""
        self._renewed_at, self._judges_at = -inf, -inf
        self._finds_passed = False
        self._clock_offset = 0.0
        self._loops.clear()

    @property
    def is_current(self) -> bool:
        """Whether the lease has not passed."""
        return monotonic() - self._renewed_at < self.seconds

    @property
    def may_judge(self) -> bool:
        """Whether processes without a lease may be taken for dead."""
        return self.is_current and monotonic() >= self._judges_at

    def now(self) -> datetime:
        """Return the time of the database, as all processes have it, whatever the clocks of their machines say."""
        return datetime.fromtimestamp(time() + self._clock_offset, UTC)

    def watch(self) -> Callable[[], None]:
        """Let the lease pass if the event loop that is running here does not turn.

        Returns:
            A function that ends this.
        """
        loop = _Loop()
        self._loops.append(loop)
        return lambda: self._loops.remove(loop) if loop in self._loops else None

    # --- in the thread of the database

    def is_due(self) -> bool:
        """Return whether to renew the lease now."""
        now = monotonic()
        if now < self.due_at:
            return False
        self.due_at = now + self.seconds / _RENEWALS
        turn = all(each.turns(now, self._hung_after) for each in [*self._loops])
        if not turn:
            measure("agui.store.lease.missed_renewals", attributes=_BY_LOOP)
        return turn

    def renew(self, db: sa.Connection) -> None:
        """Renew the lease; or take it, and remove those that have passed long ago."""
        now = db.execute(self._renew, {"of_process": self.process_id}).scalar_one_or_none()
        if now is None:
            passed = sa.select(PROCESS.c.process_id).where(PROCESS.c.alive_until <= NOW)
            self._finds_passed = bool(db.execute(passed).all())
            long_ago = NOW - microseconds_of(10 * self.seconds)
            db.execute(sa.delete(PROCESS).where(PROCESS.c.alive_until <= long_ago))
            now = db.execute(self._take, {"process_id": self.process_id}).scalar_one()
        self._clock_offset = now / 1_000_000 - time()

    def note(self) -> Callable[[object], None]:
        """Return a function that notes how a renewal that begins now has ended."""
        begun_at = monotonic()
        # Before it is asked for: the thread looks at this once it has nothing to do.
        self.due_at = begun_at + self.seconds / _RENEWALS

        def note(result: object) -> None:
            """Note the time of a renewal that was committed."""
            if isinstance(result, Exception):
                measure("agui.store.lease.missed_renewals", attributes=_BY_DATABASE)
                return
            if self._renewed_at == -inf and self._finds_passed:
                self._judges_at = monotonic() + self.seconds / _RENEWALS
            elif self._renewed_at > -inf and not self.is_current:
                measure("agui.store.lease.losses")
                self._judges_at = monotonic() + self.seconds
            self._renewed_at = begun_at

        return note

    def give_back(self, db: sa.Connection) -> None:
        """Give the lease back for good."""
        self.due_at, self._renewed_at = inf, -inf
        db.execute(sa.delete(PROCESS).where(_THIS), {"of_process": self.process_id})


class _Loop:
    """An event loop that is asked to turn."""

    def __init__(self) -> None:
        self._loop, self._asked_at = LoopThread(), inf

    def turns(self, now: float, hung_after: float) -> bool:
        """Return whether the loop has turned lately; ask it to turn again."""
        if self._asked_at == inf:
            self._asked_at = now
            self._loop.schedule(self._turned)
        return now - self._asked_at < hung_after

    def _turned(self) -> None:
        self._asked_at = inf
