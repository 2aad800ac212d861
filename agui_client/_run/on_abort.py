"""Stopping the server's work: the function that is called when a run that was sent is left before its end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from agui_client._concurrency import call_aside
from agui_client.errors import IncompleteRunError, RunFailedError, StreamTimeoutError, TransportError, UsageError

if TYPE_CHECKING:
    from agui_client._run.hooks import HookContext

OnAbort: TypeAlias = "Callable[[HookContext], Awaitable[Any] | Any]"
"""Called when a run is left before its end, for servers that have a way to stop one; a plain function in a thread."""

_SECONDS = 5.0
"""The longest time that leaving a run may take because of it."""

_ENDED_ELSEWHERE = (TransportError, IncompleteRunError, RunFailedError, UsageError)
"""Failures after which the agent is done with the run, was not reached, or cannot be."""

_logger = logging.getLogger("agui_client.run")


def is_left(aborted: bool, failure: Exception | None) -> bool:
    """Whether this side left a run that the agent may still be working on.

    Args:
        aborted: Whether the run was stopped from here.
        failure: The exception that it failed with; None if it did not fail.
    """
    if aborted or isinstance(failure, StreamTimeoutError):
        return True
    return failure is not None and not isinstance(failure, _ENDED_ELSEWHERE)


async def call_on_abort(on_abort: OnAbort, context: HookContext) -> None:
    """Call the function, whatever is being cancelled around it; if it fails or takes too long, that is only logged.

    Args:
        on_abort: The function.
        context: The run that was left.
    """
    with anyio.move_on_after(_SECONDS, shield=True) as scope:
        try:
            await call_aside(partial(on_abort, context), "on_abort")
        except Exception:
            _logger.exception("on_abort of run %s failed", context.run_id)
    if scope.cancelled_caught:
        _logger.warning("on_abort of run %s took longer than %g s, and was given up", context.run_id, _SECONDS)
