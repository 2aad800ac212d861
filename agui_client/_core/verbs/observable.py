"""The RxPY surface: a run as a cold observable, messages and state as hot ones."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import reactivex
from reactivex.disposable import Disposable

from agui_client._core.ground.concurrency import BackgroundLoop, LoopThread
from agui_client.errors import CannotWaitError, IncompleteRunError

if TYPE_CHECKING:
    from ag_ui.core import Event
    from reactivex import Observable
    from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.reduce import Change
    from agui_client._core.verbs.async_run import AgentRun

T = TypeVar("T")

_DISPOSED: WeakKeyDictionary[Conversation, list[Future[None]]] = WeakKeyDictionary()
"""Disposed runs of a conversation, each a future of the moment at which everything is closed."""
_logger = logging.getLogger("agui_client")


def observe_run(start: Callable[[], AgentRun], conversation: Conversation) -> Observable[Event]:
    """A run as an observable.

    Args:
        start: Makes a run, not yet entered, for each subscription.
        conversation: The conversation of these runs.

    Returns:
        A cold observable: subscribing starts a run, disposing aborts it. In a running asyncio loop the run is a task of
        that loop; otherwise it has a thread.
    """

    def subscribe(observer: ObserverBase[Event], scheduler: SchedulerBase | None = None) -> DisposableBase:
        """Begin for one observer."""
        disposed = _DISPOSED.setdefault(conversation, [])
        disposed[:] = [run_over for run_over in disposed if not run_over.done()]
        is_over = Future[None]()

        async def follow() -> None:
            """Iterate a run, after those that were disposed: operators subscribe again while these are being closed."""
            for run_over in tuple(disposed):
                if run_over is not is_over:
                    await asyncio.shield(asyncio.wrap_future(run_over))
            async with start() as run:
                async for event in run:
                    observer.on_next(event)

        cancel = _followed(follow, observer, is_over)

        def dispose() -> None:
            """Stop the run, unless it is over."""
            disposed.append(is_over)
            cancel()

        return Disposable(dispose)

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
                    # An observer of a conversation must not break the runs of it.
                    stop()
                    _logger.exception("an observer of the conversation failed, and is not called any more")

        stop = listen(tell)
        try:
            observer.on_next(look())
        except BaseException:
            stop()
            raise
        return Disposable(stop)

    return reactivex.create(subscribe)


def observe_values(
    present: Callable[[], Iterable[T]], watch: Callable[[Callable[[T], object]], Callable[[], None]]
) -> Observable[T]:
    """Values as an observable.

    Args:
        present: Gives the values that there are.
        watch: Registers a function that takes each further value, and returns what removes it.

    Returns:
        A hot observable: the present values at once, then each further one; it never completes.
    """

    def subscribe(observer: ObserverBase[T], scheduler: SchedulerBase | None = None) -> DisposableBase:
        """Begin for one observer."""
        for value in present():
            observer.on_next(value)
        return Disposable(watch(observer.on_next))

    return reactivex.create(subscribe)


def _followed(
    follow: Callable[[], Coroutine[Any, Any, None]], observer: ObserverBase[Event], is_over: Future[None]
) -> Callable[[], object]:
    """Follow a run here or in a thread, and send the observer its end; return the function that cancels it."""
    if (loop := _loop_to_join()) is not None:
        _refuse_to_block()

        def end_here(ended: asyncio.Task[None]) -> None:
            """Send the end, unless the task was cancelled: nobody waits for it then."""
            is_over.set_result(None)
            error = asyncio.CancelledError() if ended.cancelled() else ended.exception()
            if not ended.cancelling() or isinstance(error, Exception):
                _send_end(observer, error)

        here, task = LoopThread(), loop.create_task(follow())
        task.add_done_callback(end_here)
        return lambda: here.call(task.cancel)

    def end(error: BaseException | None) -> None:
        """Send the end when the loop is gone: who subscribes again at that moment gets a thread of its own."""
        is_over.set_result(None)
        if not thread.is_cancelled:
            _send_end(observer, error)

    thread = BackgroundLoop(follow, "agui_client.observe", end)
    thread.start()
    return thread.cancel


def _loop_to_join() -> asyncio.AbstractEventLoop | None:
    """Return the loop that is running here, unless it is the loop of another run, which ends with that run."""
    if isinstance(threading.current_thread(), BackgroundLoop):
        return None
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _send_end(observer: ObserverBase[Event], error: BaseException | None) -> None:
    """Send an observer the end of a run that is closed; one that was disposed ignores it."""
    if error is None:
        observer.on_completed()
    elif isinstance(error, Exception):
        observer.on_error(error)
    else:
        failure = IncompleteRunError(f"the run was ended by {type(error).__name__}", rule="TRUNC-1")
        failure.__cause__ = error
        observer.on_error(failure)
