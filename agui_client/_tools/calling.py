"""Calling a tool's function: a coroutine function in the task that asks for it, any other in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import anyio

from agui_client._pipeline.threads import call_aside, is_being_cancelled

_logger = logging.getLogger("agui_client.tools")
_TOOL_LEFT = "tool %s was left running in its thread; it can look at ctx.is_cancelled"


async def called(function: Callable[[], object], name: str, warning: str = _TOOL_LEFT) -> object:
    """Call a function, wherever it may block or wait, and await what it returned if that can be awaited.

    Cancelled, a coroutine function is cancelled; a thread is left to itself with a warning, as nothing can stop it.

    Args:
        function: The function, or a `partial` of it with its arguments.
        name: What it is called in the warning: the tool's name.
        warning: What is logged about a thread that is left.
    """
    try:
        return await call_aside(function, name, partial(_logger.warning, warning, name))
    except asyncio.CancelledError as error:
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError and is_being_cancelled():
            raise
        raise RuntimeError("something the tool waited for had been cancelled") from error
