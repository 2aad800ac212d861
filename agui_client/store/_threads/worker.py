"""The event loop of a store: an asyncio loop in a thread of its own, whatever the program runs on.

So a store needs to know one event loop only, which lives as long as its connections, and sync programs, asyncio and
trio are served alike. A call is not cancelled with its caller: a save that has begun is completed.

A forked child has a copy of everything but the thread, so it starts another one with its first call. While the process
forks, the store rests: SQLite's library believes in the child that it has the locks of connections that the parent had
open, and PostgreSQL would get the words of two processes on one connection.

To change

- what happens to threads when a process forks: `_before_fork` and the functions below it here; `before_fork` and
  `after_fork` of a store
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

import anyio
import anyio.lowlevel

from agui_client._core.ground.concurrency import BackgroundLoop, LoopThread
from agui_client._core.ground.waiting import result_of, wait_until_set
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client.store._threads.thread_store import ThreadStore

T = TypeVar("T")

_FORK_SECONDS = 5.0
"""The longest time that a fork waits for stores to rest."""

_logger = logging.getLogger("agui_client.threads")


class StoreCall(Generic[T]):
    """A call that has begun: `await` it, or, in a program without `await`, take its `result()`."""

    def __init__(self, future: Future[T]) -> None:
        self._future, self._process = future, os.getpid()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._waited().__await__()

    def result(self) -> T:
        """Wait for the end of the call in this thread.

        Raises:
            ThreadStoreError: The store failed.
            UsageError: The call cannot be carried out.
        """
        self._check_process()
        return result_of(self._future)

    async def _waited(self) -> T:
        self._check_process()
        loop, over = LoopThread(), anyio.Event()
        inbox = _inboxes.setdefault(anyio.lowlevel.current_token().native_token, Inbox())
        self._future.add_done_callback(lambda _: inbox.put(over.set, loop.schedule))
        await over.wait()
        return self._future.result()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError("this call was begun before the process was forked, and ends in the parent; call it again")


class Inbox:
    """Functions to be called in an event loop soon, which is woken once for all that come meanwhile.

    To wake a loop takes a system call, during which Python changes over to another thread: while hundreds of threads
    are saved, two loops would do little else.
    """

    def __init__(self) -> None:
        self._functions, self._is_woken = deque[Callable[[], object]](), False

    def put(self, function: Callable[[], object], wake: Callable[[Callable[[], None]], object]) -> None:
        """Have a function called in the loop, from any thread.

        Args:
            wake: Has a function called in the loop soon; not stored, as it knows the loop.
        """
        self._functions.append(function)
        if not self._is_woken:
            self._is_woken = True
            try:
                wake(self._call)
            except BaseException:  # the loop has ended, or a signal handler raised an exception
                self._is_woken = False
                raise

    def _call(self) -> None:
        # First, so that a function that comes from now on is called by this call or the next one.
        self._is_woken = False
        while self._functions:
            self._functions.popleft()()


_inboxes = WeakKeyDictionary[Any, Inbox]()
"""The inboxes of the event loops in which calls are awaited."""


class StoreLoop:
    """The event loop of a store; it starts with the first call of a process.

    Args:
        store: The store, which is closed when the loop ends.
    """

    def __init__(self, store: ThreadStore) -> None:
        self._store = store
        self._is_closed = False
        self._reset()
        _loops.add(ref(self, _loops.discard))

    def _reset(self) -> None:
        # Locks are new, too: in a child, one may be held by a thread that does not exist there.
        self._lock = threading.RLock()
        self._thread: BackgroundLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox = Inbox()
        self._forks = asyncio.Lock()

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> StoreCall[T]:
        """Call a function in the loop.

        Args:
            function: A coroutine function without arguments.

        Raises:
            UsageError: The loop was closed.
        """
        return StoreCall(self._begin(self._started(), function))

    def refuse_calls(self, begin_last: Callable[[], Sequence[T]]) -> Sequence[T]:
        """Begin the last calls, and refuse all that come later. Idempotent.

        Args:
            begin_last: Begins the last calls; called in this thread, while no other thread begins one.

        Returns:
            What that function returned; an empty sequence if calls were refused already.
        """
        with self._lock:
            begun = () if self._is_closed else begin_last()
            self._is_closed = True
        return begun

    def close(self) -> None:
        """End the loop, when everything that has begun is done, and wait for its end. Idempotent."""
        with self._lock:
            self._is_closed, thread = True, self._thread
        if thread is not None and thread.is_alive():
            with suppress(RuntimeError):  # another thread has closed the loop just now
                self._loop.call_soon_threadsafe(self._closing.set)
            thread.wait()

    def rest(self, is_over: threading.Event) -> threading.Event | None:
        """Let the store rest, and hold the loop, while the process forks.

        Args:
            is_over: Set when the process has forked.

        Returns:
            The event that is set when the store rests; None if there is nothing to wait for.
        """
        with self._lock:
            thread = self._thread
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return None
        rests = threading.Event()

        async def rest() -> None:
            """Stop this thread where nothing is in progress in it."""
            async with self._forks:
                try:
                    await self._store.before_fork()
                except Exception as error:
                    _logger.warning("the store of the threads did not rest for a fork: %s", error)
                finally:
                    rests.set()
                    is_over.wait()
                    self._store.after_fork(is_child=False)

        with suppress(RuntimeError):  # the loop ends just now
            self._begin(self._loop, rest)
        return rests

    def start_in_child(self) -> None:
        """Forget the loop in a child, where its thread does not exist; the next call starts another one."""
        # Tasks that were collected would run their last steps here, on what belongs to the parent.
        _inherited.append((self._thread, self._tasks, self._inbox))
        self._reset()
        self._store.after_fork(is_child=True)

    def _begin(self, loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        future = Future[T]()

        async def work() -> None:
            """Carry out the call."""
            try:
                future.set_result(await function())
            except BaseException as error:
                future.set_exception(error)

        def begin() -> None:
            """Begin a task that the loop does not forget."""
            # Without the context of the caller, which may be in the middle of a run: the store is not part of that run.
            task = loop.create_task(work(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._inbox.put(begin, loop.call_soon_threadsafe)
        return future

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise UsageError("the store was closed: make another Store(...)")
            if self._thread is None:
                ready = threading.Event()
                self._thread = BackgroundLoop(lambda: self._hold(ready), "agui_client.store", lambda _: ready.set())
                self._thread.start()
                wait_until_set(ready)
            return self._loop

    async def _hold(self, ready: threading.Event) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        try:
            await self._closing.wait()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await self._store.aclose()


# --- forks

_loops = set["ref[StoreLoop]"]()
"""The loops of this process; a plain set, of which `list` makes a copy in one step."""
_inherited: list[object] = []
"""Parts of the parent that a child keeps as they are."""
_fork = threading.local()


def _before_fork() -> None:
    _fork.is_over = is_over = threading.Event()
    begun = [loop.rest(is_over) for each in list(_loops) if (loop := each()) is not None]
    give_up = monotonic() + _FORK_SECONDS
    if not all(rests is None or rests.wait(max(0.0, give_up - monotonic())) for rests in begun):
        _logger.warning("the process forks while the database of its threads is at work: the child may find it locked")


def _after_fork_in_parent() -> None:
    _fork.is_over.set()


def _after_fork_in_child() -> None:
    _inboxes.clear()
    for each in list(_loops):
        if (loop := each()) is not None:
            loop.start_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
