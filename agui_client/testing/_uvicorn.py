"""The uvicorn server behind `serve`; importing this module needs the extra `cli`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio
import uvicorn

from agui_client.testing.app import AgentApp

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from agui_client.testing.app import ASGIApp

_STARTUP_SECONDS = 10.0
_STOP_SECONDS = 1


class BackgroundServer(uvicorn.Server):
    """Says when it is up, and does not wait for runs that are still streaming when it is told to stop."""

    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off" if isinstance(app, AgentApp) else "auto",
            # A server inside somebody's test leaves the logging of the process alone.
            log_config=None,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        super().__init__(config)
        self._task_status: TaskStatus[None]

    async def serve_on(self, listener: socket.socket, *, task_status: TaskStatus[None]) -> None:
        """Serve until `should_exit`, reporting to `task_status` when the app is up."""
        self._task_status = task_status
        try:
            await self.serve(sockets=[listener])
        except SystemExit as refused:
            # uvicorn exits when the app's lifespan fails; from a task that would end the event loop.
            raise RuntimeError("the app refused to start; its log says why") from refused

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start within a bound, then report."""
        with anyio.fail_after(_STARTUP_SECONDS):
            await super().startup(sockets)
        if not self.started:
            # Older versions return where newer ones exit.
            raise SystemExit
        self._task_status.started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drop what is open, then stop as uvicorn does."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)
