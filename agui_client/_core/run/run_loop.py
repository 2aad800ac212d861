"""The event loop in which the work of a run is done: the caller's own, or one in another thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack

from agui_client._core.ground.concurrency import LoopThread

if TYPE_CHECKING:
    from agui_client._core.transport.source import Source

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RunLoop:
    """The event loop of one run: the one that is running where this is made."""

    def __init__(self) -> None:
        self.thread: LoopThread = LoopThread()
        """The thread of the loop."""

    def call(self, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> Awaitable[T]:
        """Call an asynchronous function in the loop.

        Args:
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
