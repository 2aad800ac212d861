"""Event loops, tasks and threads: reaching into a loop, doing things side by side, calling what may block beside it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol, TypeVar, cast

import anyio
import anyio.lowlevel

T = TypeVar("T")


class _TrioToken(Protocol):
    """What trio calls a `TrioToken`; trio itself need not be installed."""

    def run_sync_soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread, soon."""


class LoopThread:
    """The event loop that is running where this is made, asyncio's or trio's."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        native: Any = anyio.lowlevel.current_token().native_token
        self._schedule: Callable[[Callable[[], object]], object] = (
            native.call_soon_threadsafe
            if isinstance(native, asyncio.AbstractEventLoop)
            else cast("_TrioToken", native).run_sync_soon
        )

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread: at once from there, soon from elsewhere, not at all if the loop ended.

        Args:
            function: Takes nothing; what it returns is dropped.
        """
        if threading.get_ident() == self._thread:
            function()
            return
        # Both loops raise a RuntimeError when they have ended, and then there is nothing left to reach.
        with suppress(RuntimeError):
            self._schedule(function)


async def side_by_side(steps: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Take steps in tasks of their own, and wait for all; the first that fails ends the others.

    What ends programs, such as `sys.exit()`, is raised here as well: out of a task of asyncio's it would stop the event
    loop in the middle, with nothing closed and nobody told.

    Args:
        steps: What each task calls.

    Raises:
        BaseException: What a step raised; of several, what ends programs comes first.
    """
    failures: list[BaseException] = []

    async def take(step: Callable[[], Awaitable[object]]) -> None:
        """Take one step in its task."""
        try:
            await step()
        except BaseException as error:
            if isinstance(error, anyio.get_cancelled_exc_class()) and is_being_cancelled():
                raise
            failures.append(error)
            tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for step in steps:
                tasks.start_soon(take, step)
    except BaseExceptionGroup as group:
        # Ctrl-C on trio, which raises it here; the steps' own failures were caught.
        failures.append(_gravest(group))
    if failures:
        raise min(failures, key=_rank)


def is_being_cancelled() -> bool:
    """Whether this task is cancelled, or its code let out the cancellation of another one, which asyncio allows."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio's cancellations are nobody's to raise
        return True
    return task is not None and task.cancelling() > 0


async def whole(step: Awaitable[T]) -> T:
    """A step that is no iteration: what it raises is not taken for the end of one, as in generators (PEP 479).

    Args:
        step: May call functions of the application.
    """
    try:
        return await step
    except StopAsyncIteration as error:
        raise RuntimeError("a function of the application raised StopAsyncIteration") from error


def _gravest(error: BaseException) -> BaseException:
    """Of a group the exception that counts."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return min(map(_gravest, inner), key=_rank) if inner else error


def _rank(error: BaseException) -> int:
    """What ends programs comes first, then what failed, then a cancellation."""
    return 1 if isinstance(error, Exception) else 2 if isinstance(error, anyio.get_cancelled_exc_class()) else 0


async def call_aside(function: Callable[[], object], name: str, on_left: Callable[[], object] = lambda: None) -> object:
    """Call an application's function: a coroutine function here, any other in a thread of its own.

    Cancelled, a thread is left to itself, as nothing can stop it. The threads are not anyio's: one of those that was
    left keeps the program from ending, and its place among all others.

    Args:
        function: The function, or a `partial` of it with its arguments.
        name: What its thread is called.
        on_left: Told when the thread is left.

    Returns:
        What the function returned, awaited if that can be awaited.
    """
    return await whole(_called(function, name, on_left))


async def _called(function: Callable[[], object], name: str, on_left: Callable[[], object]) -> object:
    value = function() if inspect.iscoroutinefunction(function) else await _in_thread(function, name, on_left)
    return await value if inspect.isawaitable(value) else value


async def _in_thread(function: Callable[[], object], name: str, on_left: Callable[[], object]) -> object:
    await anyio.lowlevel.checkpoint_if_cancelled()
    loop, over, outcome = LoopThread(), anyio.Event(), Future[object]()

    def run() -> None:
        """Call the function, and say when it is over."""
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)
        loop.call(over.set)

    thread = threading.Thread(target=copy_context().run, args=(run,), name=f"agui_client: {name}", daemon=True)
    try:
        thread.start()
        await over.wait()
    except BaseException:
        # It may have come to its end just now, but nobody takes what it returned.
        on_left()
        raise
    # It is at its last line: nothing of it is left when the function has returned.
    thread.join()
    return outcome.result()
