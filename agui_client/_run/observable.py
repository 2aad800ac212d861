"""The RxPY surface: a run as a cold observable, messages and state as hot ones."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import anyio
import reactivex
from reactivex.disposable import Disposable

from agui_client._concurrency import LoopThread, is_being_cancelled
from agui_client.errors import CannotWaitError, IncompleteRunError

if TYPE_CHECKING:
    from ag_ui.core import Event
    from reactivex import Observable
    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from agui_client._protocol.reduce import Change
    from agui_client._run.async_run import AgentRun

T = TypeVar("T")

_logger = logging.getLogger("agui_client")


def observe_run(start: Callable[[], AgentRun]) -> Observable[Event]:
    """A run as an observable.

    Args:
        start: Makes a run, not yet entered, for each subscription.

    Returns:
        A cold observable: subscribing starts a run, disposing aborts it. In a running asyncio loop the run is a task of
        that loop; otherwise it has a thread.
    """

    def subscribe(observer: ObserverBase[Event], scheduler: SchedulerBase | None = None) -> DisposableBase:
        """Begin for one observer."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return _in_thread(start(), observer)
        _refuse_to_block()
        return _in_loop(loop, start(), observer)

    return reactivex.create(subscribe)


def _refuse_to_block() -> None:
    """Refuse RxPY's `run()` inside a running loop: it would wait in the loop's thread for events of that loop."""
    from reactivex.run import run

    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is run.__code__:
            raise CannotWaitError(
                "run() would wait for ever inside a running event loop, such as a notebook's; await the observable, as "
                "in `await agent.observe(...)`, or subscribe() to it"
            )
        frame = frame.f_back


def observe_changes(
    listen: Callable[[Callable[[Change], None]], Callable[[], None]], wanted: Change, look: Callable[[], T]
) -> Observable[T]:
    """A part of the conversation as an observable.

    Args:
        listen: Registers a listener and returns what removes it.
        wanted: The part that is observed.
        look: Gives its current value.

    Returns:
        A hot observable: the current value at once, then the value after every change; it never completes.
    """

    def subscribe(observer: ObserverBase[T], scheduler: SchedulerBase | None = None) -> DisposableBase:
        """Begin for one observer."""

        def tell(change: Change) -> None:
            """Give the observer the value after a change that is about it."""
            if change & wanted:
                try:
                    observer.on_next(look())
                except Exception:
                    # Whoever watches a conversation must not break the runs of it.
                    stop()
                    _logger.exception("an observer of the conversation failed, and hears no more")

        stop = listen(tell)
        try:
            observer.on_next(look())
        except BaseException:
            stop()
            raise
        return Disposable(stop)

    return reactivex.create(subscribe)


class _Feeder:
    """Iterates a run into an observer."""

    def __init__(self, run: AgentRun, observer: ObserverBase[Event]) -> None:
        self._run = run
        self._observer = observer
        self._is_disposed = False

    async def feed(self) -> None:
        """Iterate the run; only its end is told outside the run's block, when all is closed."""
        try:
            async with self._run as run:
                async for event in run:
                    self._observer.on_next(event)
        except Exception as error:
            self._observer.on_error(error)
        except BaseException as error:
            if is_being_cancelled():
                raise
            self.break_off(error)
            if not isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._observer.on_completed()

    def disposing(self, cancel: Callable[[], None]) -> Callable[[], None]:
        """Return the function that stops the run, after which the observer is not called any more.

        Args:
            cancel: Cancels the task of the run, from any thread.
        """

        def dispose() -> None:
            """Stop the run."""
            self._is_disposed = True
            cancel()

        return dispose

    def break_off(self, error: BaseException) -> None:
        """Tell the observer that the run ended with something that is no failure of it; not if it heard of an end."""
        if not self._is_disposed:
            told = IncompleteRunError(f"the run was ended by {type(error).__name__}", rule="TRUNC-1")
            told.__cause__ = error
            self._observer.on_error(told)


def _in_loop(loop: asyncio.AbstractEventLoop, run: AgentRun, observer: ObserverBase[Event]) -> DisposableBase:
    thread, feeder = LoopThread(), _Feeder(run, observer)
    task = loop.create_task(feeder.feed())
    return Disposable(feeder.disposing(lambda: thread.call(task.cancel)))


def _in_thread(run: AgentRun, observer: ObserverBase[Event]) -> DisposableBase:
    """Iterate the run in an event loop of a thread of its own, which ends by itself."""
    feeder = _Feeder(run, observer)
    entered = Future[Callable[[], None]]()

    async def feed() -> None:
        """Iterate the run in a scope that any thread may cancel."""
        loop = LoopThread()
        with anyio.CancelScope() as scope:
            entered.set_result(lambda: loop.call(scope.cancel))
            await feeder.feed()

    def work() -> None:
        """Run the event loop."""
        try:
            anyio.run(feed)
        except (SystemExit, KeyboardInterrupt) as error:
            # It ends no program from here, and may have stopped the loop before the run could end.
            feeder.break_off(error)

    threading.Thread(target=work, name="agui_client.observe").start()
    return Disposable(feeder.disposing(entered.result()))
