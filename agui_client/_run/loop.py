"""The event loop in which the asynchronous work of a run is done: the caller's own, or one in another thread.

The engine is written once. For asynchronous verbs the work is awaited in the caller's task. For sync verbs the engine
runs in the caller's thread, which waits for work in the loop of another thread (`WorkerLoop`): it never suspends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from threading import Thread
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack

from agui_client._concurrency import LoopThread

if TYPE_CHECKING:
    from agui_client._transport.source import Source

SYNC_CALLER: ContextVar[Thread | None] = ContextVar("SYNC_CALLER", default=None)
"""The thread that waits for the work that is going on; None if the work is awaited."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RunLoop:
    """The event loop of one run: the one that is running where this is made."""

    def __init__(self) -> None:
        self.thread = LoopThread()
        """The thread of the loop."""

    def call(self, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> Awaitable[T]:
        """Call an asynchronous function in the loop.

        Args:
            function: The function.
            args: Its arguments.

        Returns:
            An awaitable of its result.
        """
        return function(*args)

    def source(self, open_source: Callable[[], Source]) -> Source:
        """Open a source in the loop.

        Args:
            open_source: Called in the loop.

        Returns:
            The source, to be read and closed by the engine.
        """
        return open_source()
