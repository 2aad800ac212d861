"""Stopping the server's work, too: what is called when a run that was sent is left before its end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from agui_client._pipeline.threads import call_aside
from agui_client.errors import IncompleteRunError, RunFailedError, StreamTimeoutError, TransportError, UsageError

if TYPE_CHECKING:
    from agui_client._surfaces.hooks import HookContext

OnAbort: TypeAlias = "Callable[[HookContext], Awaitable[Any] | Any]"
"""Called when a run is left before its end, for servers that have a way to stop one; a plain function in a thread."""

_SECONDS = 5.0
"""How long leaving a run may take because of it."""

_NOT_OURS = (TransportError, IncompleteRunError, RunFailedError, UsageError)
"""What a run fails with when the agent is done with it, was not reached, or cannot be."""

_logger = logging.getLogger("agui_client.run")


def is_left(aborted: bool, failure: Exception | None) -> bool:
    """Whether it is this side that left a run, which the agent may still be at work on.

    Args:
        aborted: Whether it was stopped from here.
        failure: What it failed with; None if nothing.
    """
    if aborted or isinstance(failure, StreamTimeoutError):
        return True
    return failure is not None and not isinstance(failure, _NOT_OURS)


async def tell_abort(on_abort: OnAbort, context: HookContext) -> None:
    """Call it, whatever is being cancelled around it; that it fails or takes too long is only logged.

    Args:
        on_abort: What to call.
        context: The run that was left.
    """
    with anyio.move_on_after(_SECONDS, shield=True) as scope:
        try:
            await call_aside(partial(on_abort, context), "on_abort")
        except Exception:
            _logger.exception("on_abort of run %s failed", context.run_id)
    if scope.cancelled_caught:
        _logger.warning("on_abort of run %s took longer than %g s, and was given up", context.run_id, _SECONDS)
