"""The time that a whole call may take, where no source is read: a source keeps it by itself (`Timeouts.total`)."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import anyio

from agui_client._core.transport.waiting import Waiter
from agui_client.errors import RunTimeoutError

if TYPE_CHECKING:
    from agui_client._core.tools.toolset import CallTools

T = TypeVar("T")

_LISTING = "its toolsets were opened and listed"


class TimeLimit:
    """The time that a call may take, from when it was made.

    Args:
        total: The seconds; None without a limit.
    """

    def __init__(self, total: float | None) -> None:
        self._total = total = math.inf if total is None else total
        self.started_at: float = perf_counter()
        """`time.perf_counter()` when the call was made."""
        self.until: float = self.started_at + total
        """The `time.perf_counter()` at which the call has taken too long."""

    async def wait(self, waiter: Waiter, work: Callable[[], Awaitable[T]], what: str = _LISTING) -> T | None:
        """Wait for work, which is not begun if the time is up already.

        Args:
            waiter: Waits for it, and can be ended.
            work: Begins the work.
            what: The thing that continues meanwhile, for the exception.

        Returns:
            The result of the work; None if the wait was ended.

        Raises:
            RunTimeoutError: The call took too long.
        """
        result, remaining = None, self.until - perf_counter()
        try:
            if remaining > 0:
                result = await waiter.wait(work(), remaining)
        finally:
            waiter.close()
        if result is None and self.until <= perf_counter():
            raise self._too_late(what)
        return result

    async def open(self, tools: CallTools, stack: AsyncExitStack) -> None:
        """Open the toolsets.

        Args:
            tools: The toolsets.
            stack: The blocks of the call; the toolsets stay open until they are left.

        Raises:
            ToolsetError: A toolset cannot be opened.
            RunTimeoutError: Opening them took too long.
        """
        waiter = Waiter()
        if waiter.needs_no_scope or self.until == math.inf:
            # A scope could not be left in another task, where asyncio closes generators that a program forgot.
            await self.wait(waiter, partial(stack.enter_async_context, tools))
        else:
            await stack.enter_async_context(self._opened_in_scope(tools))

    @asynccontextmanager
    async def _opened_in_scope(self, tools: CallTools) -> AsyncGenerator[None]:
        # Around the toolsets as long as they are open: their own scopes begin inside of it, and must end there, too.
        with anyio.CancelScope(deadline=anyio.current_time() + self.until - perf_counter()) as scope:
            async with tools:
                scope.deadline = math.inf
                yield
        if scope.cancelled_caught:
            raise self._too_late(_LISTING)

    def _too_late(self, what: str) -> RunTimeoutError:
        took = f"the call took longer than {self._total:g} s, and was stopped while {what}"
        fix = "raise Timeouts.total to allow more"
        return RunTimeoutError(took, silent=0.0, keep_alives=0, last_event=None, fix=fix)
