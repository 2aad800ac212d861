"""Servers of tests that read and write their connections themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream


@asynccontextmanager
async def listening(converse: Callable[[SocketStream], Awaitable[None]]) -> AsyncGenerator[str]:
    """Call a function with each connection to a free port while the block lasts; give its address without a slash."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, converse)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()
