"""Store: conversations and runs in one place, which alone knows where that is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agui_client._serving.stopping import STOP_WITHIN
from agui_client.errors import UsageError
from agui_client.store._runs.kept_runs import AT_ONCE_PER_OWNER, RunBounds, RunService
from agui_client.store._runs.runs import Runs
from agui_client.store._sql.times import StoreTimes
from agui_client.store._threads.memory import MemoryStore
from agui_client.store._threads.opened import Service, Titler, first_prompt
from agui_client.store._threads.thread_store import ThreadStore
from agui_client.store._threads.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from sqlalchemy import Engine

    from agui_client.store._sql.database import Database
    from agui_client.store._threads.worker import StoreCall

_BOUNDS = RunBounds()


class Store:
    """Conversations, and runs that belong to the server, in a database or in memory.

        store = Store("sqlite:///chats.db")
        app = agent_app(planner, store=store, authorize=user_of)
        async with store.threads.open("thread-1", agent, owner="ann") as agent: ...
        run = await store.runs.start(planner, "Plan a trip", owner="ann")

    An app closes its store when its server stops. Programs without an app have a block: `async with store`, or `with
    store` where there is no `await`. A block that names agents (`store.runs.add`) also continues with runs that other
    processes have left in the database.

    Args:
        store: A URL, such as `sqlite:///chats.db` or `postgresql://user@host/name`, or an `Engine` of SQLAlchemy, made
            with psycopg (extra `store`); of an engine, the address, the options and the events are used for connections
            of the store's own. A `ThreadStore` of your own has the threads, and the runs are in memory; None keeps both
            in memory.
        lease: The seconds after which other processes take over the threads and runs of a process that has stopped. In
            a database, the process renews it, also while its event loop is blocked.
        hung_after: In a database, the seconds after which a process whose event loop has not turned is taken for
            stopped.
        patience: In a database, the seconds for which everything waits while the database cannot be reached; 0 fails at
            once.
        keep: Seconds for which the events of a run are kept after its end: 300 by default, and seven days in a
            database.
        max_bytes: The approximate bytes that all logs and the inputs of their runs may take in memory. If they take
            more, the owner who takes most loses ended runs, those that ended first before others, and those that wait
            for a person last; if that is not enough, the owner's largest run ends with RUN_ERROR (`log_full`).
        at_once: The runs that this process executes at one time; further ones wait for their turn, in the order in
            which they were asked for. None for no limit. A run that waits for a person's answer has ended, and takes
            no turn.
        at_once_per_owner: The same for the runs of one owner, so that one with many runs leaves turns to others; None
            for no limit. Runs without an owner have none.
        answer_within: Seconds in which a run that waits for a person has to be answered; its interrupts have that time
            as `expires_at`. After it, tool calls that wait for approval are denied, and the run that says so to the
            thread ends cancelled, without its agent. None for no limit.
        title: A function of the messages that makes the title of a new thread; the first prompt if left out.

    Raises:
        UsageError: The URL is of no database that can be used, or an argument has a wrong value.
    """

    threads: Threads
    """The conversations."""
    runs: Runs
    """The runs."""

    def __init__(
        self,
        store: str | Engine | ThreadStore | None = None,
        *,
        lease: float = 5.0,
        hung_after: float = 60.0,
        patience: float = 120.0,
        keep: float | None = None,
        max_bytes: int = _BOUNDS.max_bytes,
        at_once: int | None = None,
        at_once_per_owner: int | None = AT_ONCE_PER_OWNER,
        answer_within: float | None = None,
        title: Titler = first_prompt,
    ) -> None:
        times = StoreTimes(lease, hung_after, patience)
        bounds = RunBounds(keep, max_bytes, at_once, at_once_per_owner, answer_within)
        times.check()
        bounds.check()
        self._database: Database | None = None
        if store is None or isinstance(store, ThreadStore):
            thread_store = store or MemoryStore()
        else:
            self._database, thread_store = _opened(store, times)
        self._service, self._kept = Service(thread_store, lease, title), RunService(self._database, bounds)
        self.threads, self.runs = Threads(self._service), Runs(self._kept)

    async def ready(self, *, within: float = 2.0) -> bool:
        """Return whether threads can be opened and runs can begin now: the store responds, and is not closed.

        Args:
            within: The most seconds to wait for the response.
        """
        call, answers = self._service.loop.call, partial(self._service.answers, within)
        return not self._kept.is_closed and await call(answers)

    async def delete(self, *, owner: str | None = None, everybody: bool = False) -> int:
        """Remove all threads and runs of an owner: runs that are in progress are stopped, and questions withdrawn.

        Links to runs that wait for an answer can be answered no more. What begins meanwhile goes as well.

        Args:
            owner: The owner; "" for the threads and runs without one.
            everybody: Whether those of all owners are removed, which takes the place of `owner`.

        Returns:
            The number of threads and runs that were removed.

        Raises:
            UsageError: Neither an owner nor everybody is named, or both are.
        """
        removed = 0
        while True:
            some = await self.runs.delete(owner=owner, everybody=everybody)
            some += await (self.threads.delete(everybody=True) if owner is None else self.threads.delete(owner=owner))
            removed += some
            if not some:
                return removed

    def close(self) -> None:
        """Close the open blocks, then the connections, when everything that has begun is done. Idempotent.

        What the agents of open blocks have is saved, and others can have the threads at once. A run that is in progress
        in such a block fails with a `UsageError` before it sends or executes anything more.

        Raises:
            ThreadStoreError: A thread could not be saved.
            ThreadBusyError: Another block had taken a thread over, so it was not saved.
            UsageError: The runs of the store are in use in an event loop, where `aclose` is to be awaited.
        """
        self._kept.close()
        closing = self._service.refuse_calls()
        self._disconnect()
        _raise_first(closing)

    async def aclose(self, *, within: float = STOP_WITHIN) -> None:
        """End the runs that are in progress, then close the open blocks and the connections: see `close`. Idempotent.

        Runs in memory end with RUN_ERROR (`shutting_down`); those in a database are left to other processes, or to the
        next one. No run can begin any more.

        Args:
            within: Seconds in which functions of tools that are at work may end; their results are kept.
        """
        await self._kept.aclose(within)
        # Here, as a run of this event loop changes nothing meanwhile.
        closing = self._service.refuse_calls()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._disconnect)
        _raise_first(closing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        # Without named agents there is nothing to continue with, and threads alone need no asyncio.
        if self._kept.named:
            await self._kept.open()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.aclose()

    def _disconnect(self) -> None:
        self._service.loop.close()
        if self._database is not None:
            self._database.close()


def _opened(database: str | Engine, times: StoreTimes) -> tuple[Database, ThreadStore]:
    """Return a database, and the threads in it."""
    try:
        from agui_client.store._sql.database import Database
        from agui_client.store._sql.threads import SQLStore
    except ImportError as error:
        raise UsageError(f"a store in a database needs {error.name}: pip install 'agui-client[store]'") from error
    made = Database(database, times)
    return made, SQLStore(made)


def _raise_first(closing: Sequence[StoreCall[Exception | None]]) -> None:
    """Raise the first failure of blocks that were closed, if there is one; all of them are in the log."""
    if failures := [failure for call in closing if (failure := call.result()) is not None]:
        raise failures[0]
