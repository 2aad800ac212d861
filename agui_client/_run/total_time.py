"""The time that a whole call may take, `Timeouts.total`, where no source is read: tools, people and toolsets."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import anyio

from agui_client._transport.waiting import Waiter
from agui_client.errors import RunTimeoutError

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._tools.toolset import CallTools

T = TypeVar("T")

_AT_WORK = "tools, people or the function of history= were at work"
_LISTING = "its toolsets were opened and listed"


async def in_time(
    waiter: Waiter, work: Callable[[], Awaitable[T]], started_at: float, total: float, what: str = _AT_WORK
) -> T | None:
    """Wait for tools and people, as long as the call may still take.

    Args:
        waiter: Waits, and can be ended; it is closed afterwards.
        work: Begins their work; not called if the time is up already.
        started_at: The `time.perf_counter()` when the call began.
        total: The seconds that the call may take.
        what: The work in words, for the error.

    Returns:
        What came of the work; None if the wait was ended.

    Raises:
        RunTimeoutError: The time was up, and the work was cancelled.
    """
    result, left = None, started_at + total - perf_counter()
    try:
        if left > 0:
            result = await waiter.wait(work(), left)
    finally:
        waiter.close()
    if result is None and started_at + total <= perf_counter():
        raise _too_late(total, what)
    return result


@asynccontextmanager
async def opened_in_time(tools: CallTools, started_at: float, total: float) -> AsyncGenerator[None]:
    """Open the toolsets of a call in the time that it may take.

    Args:
        tools: The toolsets; they stay open while the block lasts.
        started_at: The `time.perf_counter()` when the call began.
        total: The seconds that the call may take.

    Raises:
        RunTimeoutError: The time was up, and those already open were closed.
    """
    if not tools.has_toolsets or total == math.inf:
        async with tools:
            yield
        return
    # Around the toolsets as long as they are open: their own scopes, which begin inside of it, must end there, too.
    with anyio.CancelScope(deadline=anyio.current_time() + started_at + total - perf_counter()) as scope:
        async with tools:
            scope.deadline = math.inf
            yield
    if scope.cancelled_caught:
        raise _too_late(total, _LISTING)


async def with_tools_in_time(
    tools: CallTools, run_input: RunAgentInput, started_at: float, total: float
) -> RunAgentInput:
    """Return the input of a run with the tools of the call, listed in the time that the call may take.

    Args:
        tools: The tools.
        run_input: The input, apart from its tools.
        started_at: The `time.perf_counter()` when the call began.
        total: The seconds that the call may take.

    Raises:
        RunTimeoutError: The time was up.
    """
    listed = await in_time(Waiter(), partial(tools.offer, run_input), started_at, total, _LISTING)
    return run_input.model_copy(update={"tools": listed or None})


def _too_late(total: float, what: str) -> RunTimeoutError:
    message = f"the call took longer than {total:g} s, and was stopped while {what}; raise Timeouts.total to allow more"
    return RunTimeoutError(message, silent=0.0, keep_alives=0, last_event=None)
