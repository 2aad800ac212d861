"""Event loops, tasks and threads: reaching into a loop, doing things side by side, calling what may block beside it."""

from __future__ import annotations

import asyncio
import atexit
import gc
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from agui_client._core.ground.waiting import result_of, wait_until_set

T = TypeVar("T")

BLOCKS_LOOP: ContextVar[bool] = ContextVar("agui_client.blocks_loop", default=False)
"""Whether the present work is waited for in a way that keeps an event loop from everything else."""
_END_TIMEOUT = 0.5
"""Seconds to wait for the end of a loop when the program ends, or Ctrl-C was pressed."""


def has_running_loop() -> bool:
    """Return whether the present thread is in an event loop, asyncio's or trio's."""
    try:
        anyio.lowlevel.current_token()
    except (RuntimeError, LookupError):
        return False
    return True


class LoopThread:
    """The event loop that is running where this is made, asyncio's or trio's."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._token = anyio.lowlevel.current_token()
        native: Any = self._token.native_token
        is_asyncio = isinstance(native, asyncio.AbstractEventLoop)
        self._schedule: Callable[..., object] = native.call_soon_threadsafe if is_asyncio else native.run_sync_soon

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.get_ident() == self._thread

    def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call an asynchronous function in the loop, and wait for it in this thread, which has to be another one.

        Args:
            function: A function without arguments.
        """
        return anyio.from_thread.run(function, token=self._token)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread: at once from there, soon from elsewhere, not at all if the loop ended.

        Args:
            function: A function without arguments; its value is dropped.
        """
        if self.is_here:
            function()
        else:
            self.schedule(function)

    def schedule(self, function: Callable[[], object]) -> None:
        """Call a function in the loop's thread soon, from anywhere, signal handlers included; not if the loop ended.

        Args:
            function: A function without arguments; its value is dropped.
        """
        # Both loops raise a RuntimeError when they have ended, and then there is nothing left to reach.
        with suppress(RuntimeError):
            self._schedule(function)


class BackgroundLoop(threading.Thread):
    """An asyncio event loop in a thread of its own, for one asynchronous function; the program can end before it.

    The thread is a daemon, and what it does for others reaches them through `on_end` alone, so that an exception of a
    signal handler, which may be raised between any two steps of the main thread, leaves nobody waiting.

    Args:
        function: The function; the loop ends with it.
        name: The name of the thread.
        on_end: Called in the thread when the loop has ended, with the exception of the function; with None if it
            returned, or was cancelled by `cancel()`.
    """

    def __init__(
        self, function: Callable[[], Awaitable[None]], name: str, on_end: Callable[[BaseException | None], object]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.is_cancelled = False
        """Whether `cancel()` was called."""
        self._function, self._on_end = function, on_end
        # The caller's: a thread begins with an empty one, and traces and options live in it.
        self._context = copy_context()
        self._cancel: Callable[[], None] | None = None
        self._is_over = threading.Event()

    def run(self) -> None:
        """Run the loop, in the thread."""
        error: BaseException | None = None
        try:
            self._context.run(asyncio.run, self._main())
        except BaseException as raised:
            is_wanted = self.is_cancelled and isinstance(raised, asyncio.CancelledError)
            error = None if is_wanted else raised
        self._context.run(self._on_end, error)
        self._is_over.set()

    def cancel(self) -> None:
        """Cancel the function, from any thread, also before it began; if it is cancelled already, once more."""
        self.is_cancelled = True
        if self._cancel is not None:
            self._cancel()

    def cancel_and_wait(self) -> None:
        """Cancel the function, and wait for its end as long as a person does who wants the program to end."""
        self.cancel()
        # Before Python 3.13, a thread whose join() an exception has interrupted counts as over, and is not.
        self._is_over.wait(_END_TIMEOUT)

    def wait(self) -> None:
        """Wait for the end of the thread, which was started."""
        # Not with join() alone: before Python 3.13, one that an exception has interrupted takes the thread for over.
        wait_until_set(self._is_over)
        self.join()

    async def _main(self) -> None:
        become_asyncio()
        loop, task = LoopThread(), asyncio.current_task()
        assert task is not None
        self._cancel = partial(loop.call, task.cancel)
        # `cancel` sets the flag before it looks for `_cancel`: whichever comes first here, it is not missed.
        if self.is_cancelled:
            return
        await self._function()


def iterated(items: AsyncGenerator[T]) -> Generator[T]:
    """Iterate an asynchronous generator in an event loop in a thread of its own, for code without `await`.

    Args:
        items: The generator, which yields no None; it is closed when the iteration is left.
    """
    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        # Ctrl-C in a wait for an item ends the portal, which cancels the wait and so closes the generator.
        while (item := result_of(portal.start_task_soon(anext, items, None))) is not None:
            try:
                yield item
            except BaseException:
                result_of(portal.start_task_soon(items.aclose))
                raise


def become_asyncio() -> None:
    """Correct what a context that was copied from another event loop says about the present one."""
    if (sniffio := sys.modules.get("sniffio")) is not None:
        sniffio.current_async_library_cvar.set("asyncio")


_program_ends = threading.Event()


def stay_if_program_ends() -> None:
    """Return, unless the program ends and the thread ends with it: what it would raise, nobody could handle."""
    if _program_ends.is_set() and threading.current_thread().daemon:
        threading.Event().wait()


@atexit.register
def _end_private_loops() -> None:
    """Close what is still open when the program ends."""
    _program_ends.set()
    threads = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundLoop)]
    for thread in threads:
        thread.cancel()
    with suppress(KeyboardInterrupt):
        for thread in threads:
            # One whose start an exception has interrupted may never begin, and cannot be joined.
            if thread.is_alive():
                thread.join(_END_TIMEOUT)


_tasks: set[asyncio.Task[None]] = set()


def spawn(function: Callable[[], Coroutine[Any, Any, None]], context: Context) -> None:
    """Run a function in a task of the event loop's own, which no block of the caller waits for.

    Args:
        function: The function; it handles its exceptions itself.
        context: The context variables of the task.
    """
    native: Any
    try:
        native = anyio.lowlevel.current_token().native_token
    except RuntimeError:  # a callback of asyncio's, such as that of a signal, belongs to no task
        native = asyncio.get_running_loop()
    if isinstance(native, asyncio.AbstractEventLoop):
        task = native.create_task(function(), context=context)
        _tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(_tasks.discard)
    else:
        import trio

        trio.lowlevel.spawn_system_task(function, context=context)


async def side_by_side(steps: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Take steps in tasks of their own, and wait for all; the first that fails ends the others.

    An exception that ends programs, such as `SystemExit`, is raised here as well: out of a task of asyncio it would
    stop the event loop in the middle, with nothing closed.

    Args:
        steps: The function that each task calls.

    Raises:
        BaseException: The exception of a step; of several, one that ends programs comes first.
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


@contextmanager
def no_collection() -> Generator[None]:
    """Hold off the garbage collector, for a block in which a thread makes many objects and no garbage.

    Python 3.11 would look through them again and again, and let nothing else run: for a second, if 4 MB of JSON are
    small lists.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


def is_being_cancelled() -> bool:
    """Return whether this task is cancelled, and not another one whose cancellation it let out, as asyncio allows."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # on trio a task raises no cancellation but its own
        return True
    return task is not None and task.cancelling() > 0


def unasked(error: asyncio.CancelledError) -> RuntimeError:
    """Return the failure that a cancellation is if nobody has cancelled this task.

    Code of the application that waits for a task, or reads a future, which another part of it has cancelled raises the
    same exception as a task that is cancelled. Let out, it would end the caller's task in silence.

    Raises:
        asyncio.CancelledError: The task is being cancelled.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio, or a thread without an event loop: neither raises this to cancel anything
        task = None
    if task is not None and task.cancelling() > 0:
        raise error
    return RuntimeError("something that a function of the application waited for had been cancelled")


async def whole(step: Awaitable[T]) -> T:
    """Await a step that is not an iteration: its StopAsyncIteration does not end one, as in generators (PEP 479).

    Args:
        step: The step, which may call functions of the application.

    Raises:
        RuntimeError: It raised one, or a cancellation that nobody asked for.
    """
    try:
        return await step
    except StopAsyncIteration as error:
        raise RuntimeError("a function of the application raised StopAsyncIteration") from error
    except asyncio.CancelledError as error:
        raise unasked(error) from error


def _gravest(error: BaseException) -> BaseException:
    """Return the exception of a group that comes first by its rank."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return min(map(_gravest, inner), key=_rank) if inner else error


def _rank(error: BaseException) -> int:
    """Return the rank of an exception: those that end programs come first, then failures, then cancellations."""
    return 1 if isinstance(error, Exception) else 2 if isinstance(error, anyio.get_cancelled_exc_class()) else 0


OnLeft: TypeAlias = "Callable[[Future[object]], object]"
"""Called when a thread is left to itself, with the future of what its function returns."""


async def call_aside(function: Callable[[], object], name: str, on_left: OnLeft = lambda _: None) -> object:
    """Call an application's function: a coroutine function here, any other in a thread of its own.

    Cancelled, a thread is left to itself, as nothing can stop it. The threads are not anyio's: one of those that was
    left keeps the program from ending, and its place among all others.

    Args:
        function: The function, or a `partial` of it with its arguments.
        name: The name of its thread.
        on_left: The function that is called when the thread is left; the future tells it how that ends.

    Returns:
        The value that the function returned, awaited if it can be awaited.
    """
    return await whole(_called(function, name, on_left))


async def _called(function: Callable[[], object], name: str, on_left: OnLeft) -> object:
    value = function() if inspect.iscoroutinefunction(function) else await _in_thread(function, name, on_left)
    return await value if inspect.isawaitable(value) else value


async def _in_thread(function: Callable[[], object], name: str, on_left: OnLeft) -> object:
    await anyio.lowlevel.checkpoint_if_cancelled()
    loop, over, outcome = LoopThread(), anyio.Event(), Future[object]()

    def run() -> None:
        """Call the function, and set the event when it is over."""
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
        # It may have come to its end just now, but its value is lost.
        on_left(outcome)
        outcome.add_done_callback(_drop)
        raise
    # It is at its last line: nothing of it is left when the function has returned.
    thread.join()
    return outcome.result()


def _drop(outcome: Future[object]) -> None:
    """Close a coroutine that came too late, of which Python would warn that nobody awaited it."""
    if outcome.exception() is None and inspect.iscoroutine(value := outcome.result()):
        value.close()
