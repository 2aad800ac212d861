"""The uvicorn server behind `serve`; importing this module needs the extra `cli`."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import anyio
import uvicorn

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from agui_client._core.transport.in_process import ASGIApp

_STARTUP_SECONDS = 10.0
_STOP_SECONDS = 1
_TICK_SECONDS = 1.0


class BackgroundServer(uvicorn.Server):
    """A uvicorn server that reports when it is up, and stops at once: uvicorn itself polls, which takes 0.2 s."""

    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="auto",
            # A server in a test leaves the logging of the process as it is.
            log_config=None,
        )
        super().__init__(config)
        self._task_status: TaskStatus[None]
        self._stopping: anyio.Event

    async def serve_on(self, listener: socket.socket, *, task_status: TaskStatus[None]) -> None:
        """Serve until `stop` is called, reporting to `task_status` when the app is up."""
        # asyncio does so for listeners that it makes; without it, many a response waits 40 ms in the operating system.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._task_status = task_status
        self._stopping = anyio.Event()
        try:
            await self.serve(sockets=[listener])
        except SystemExit as refused:
            if self.started:  # a signal that uvicorn passes on when it has stopped
                raise
            # uvicorn exits when the app's lifespan fails; from a task that would end the event loop.
            raise RuntimeError("the app refused to start; its log says why") from refused

    def stop(self) -> None:
        """End `serve_on`; call it in the server's event loop."""
        self._stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start within a time limit, then report."""
        with anyio.fail_after(_STARTUP_SECONDS):
            await super().startup(sockets)
        if not self.started:
            # Older versions return where newer ones exit.
            raise SystemExit
        self._task_status.started()

    async def main_loop(self) -> None:
        """Tick until `stop` is called: a tick renews the Date header."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(_TICK_SECONDS):
                await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drop open connections, and cancel requests that do not end within a time limit."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if self.server_state.tasks:
            _, running = await asyncio.wait(self.server_state.tasks, timeout=_STOP_SECONDS)
            for task in running:
                task.cancel()
        await self.lifespan.shutdown()
