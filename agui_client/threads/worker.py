"""The event loop of a store: an asyncio loop in a thread of its own, whatever the program runs on.

So a store needs to know one event loop only, which lives as long as its connections, and sync programs, asyncio and
trio are served alike. A call is not cancelled with its caller: a save that has begun is completed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Generic, TypeVar

import anyio

from agui_client._concurrency import LoopThread, PrivateLoop
from agui_client.errors import UsageError

T = TypeVar("T")


class StoreCall(Generic[T]):
    """A call that has begun: `await` it, or, in a program without `await`, take its `result()`."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, Any, T]:
        return self._waited().__await__()

    def result(self) -> T:
        """Wait for the end of the call in this thread.

        Raises:
            ThreadStoreError: The store failed.
            UsageError: The call cannot be carried out.
        """
        return self._future.result()

    async def _waited(self) -> T:
        loop, over = LoopThread(), anyio.Event()
        self._future.add_done_callback(lambda _: loop.call(over.set))
        await over.wait()
        return self._future.result()


class StoreLoop:
    """The event loop of a store; it starts with the first call.

    Args:
        aclose: Called in the loop when it ends.
    """

    def __init__(self, aclose: Callable[[], Awaitable[None]]) -> None:
        self._aclose = aclose
        self._lock = threading.Lock()
        self._thread: PrivateLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> StoreCall[T]:
        """Call a function in the loop.

        Args:
            function: A coroutine function without arguments.

        Raises:
            UsageError: The loop was closed.
        """
        loop, future = self._started(), Future[T]()

        async def work() -> None:
            """Carry out the call."""
            try:
                future.set_result(await function())
            except BaseException as error:
                future.set_exception(error)

        def begin() -> None:
            """Begin a task that the loop does not forget."""
            task = loop.create_task(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        # The context of the caller, who may be in the middle of a run, is none of the store's business.
        loop.call_soon_threadsafe(begin, context=Context())
        return StoreCall(future)

    def close(self) -> None:
        """End the loop, when everything that has begun is done, and wait for its end. Idempotent."""
        with self._lock:
            self._is_closed, thread = True, self._thread
        if thread is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise UsageError("these threads were closed: make another Threads(...)")
            if self._thread is None:
                ready = threading.Event()
                self._thread = PrivateLoop(lambda: self._hold(ready), "agui_client.threads", lambda _: ready.set())
                self._thread.start()
                ready.wait()
            return self._loop

    async def _hold(self, ready: threading.Event) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        try:
            await self._closing.wait()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await self._aclose()
