"""Event loops and threads: reaching into a loop without waiting for it, and calling what may block beside it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol, cast

import anyio
import anyio.lowlevel


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


async def call_aside(
    function: Callable[..., object],
    bound: Callable[[], object],
    name: str,
    on_left: Callable[[], object] = lambda: None,
) -> object:
    """Call an application's function: a coroutine function here, any other in a thread of its own.

    Cancelled, a thread is left to itself, as nothing can stop it. The threads are not anyio's: one of those that was
    left keeps the program from ending, and its place among all others.

    Args:
        function: The function, which says how it is to be called.
        bound: Calls it with its arguments.
        name: What its thread is called.
        on_left: Told when the thread is left.

    Returns:
        What the function returned, awaited if that can be awaited.
    """
    value = bound() if inspect.iscoroutinefunction(function) else await _in_thread(bound, name, on_left)
    return await value if inspect.isawaitable(value) else value


async def _in_thread(bound: Callable[[], object], name: str, on_left: Callable[[], object]) -> object:
    await anyio.lowlevel.checkpoint_if_cancelled()
    loop, over, outcome = LoopThread(), anyio.Event(), Future[object]()

    def run() -> None:
        try:
            outcome.set_result(bound())
        except BaseException as error:
            outcome.set_exception(error)
        loop.call(over.set)

    thread = threading.Thread(target=copy_context().run, args=(run,), name=f"agui_client: {name}", daemon=True)
    try:
        thread.start()
        await over.wait()
    finally:
        if not outcome.done():
            on_left()
    # It is at its last line: nothing of it is left when the function has returned.
    thread.join()
    return outcome.result()
