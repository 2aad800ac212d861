"""A real HTTP server for tests: any app or agent on a free loopback port, in a thread (needs the extra `cli`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyio.from_thread import start_blocking_portal

from agui_client._core.transport.in_process import ASGIApp
from agui_client.testing._scripted_app import Producer, ScriptedApp

if TYPE_CHECKING:
    from agui_client.asgi._uvicorn import BackgroundServer

_STOP_SECONDS = 10.0


class Server:
    """A running server.

    Args:
        url: The address of the root.
        app: The app that it serves.
    """

    def __init__(self, url: str, app: ASGIApp) -> None:
        self.url = url
        """The address of the root, such as "http://127.0.0.1:51234/"."""
        self._app = app

    @property
    def disconnected(self) -> threading.Event:
        """Set when a client has left a run before its end and the agent was stopped; wait on it with a time limit."""
        return self._agent_app().disconnected

    @property
    def disconnects(self) -> int:
        """The number of runs that clients left before their end."""
        return self._agent_app().disconnects

    @property
    def errors(self) -> list[Exception]:
        """The exceptions of the agent, in order; the clients saw each as a RUN_ERROR."""
        return self._agent_app().errors

    def _agent_app(self) -> ScriptedApp:
        if not isinstance(self._app, ScriptedApp):
            raise TypeError("only an agent's runs are watched: serve the agent or agui_app(agent)")
        return self._app


@contextmanager
def serve(served: Producer | ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> Generator[Server, None, None]:
    """Serve an agent or any ASGI app over HTTP while the block lasts: `with serve(agent) as server: server.url`.

    Leaving the block drops the connections that are still open and stops the server's thread.

    Args:
        served: An agent (anything with `run(input)`), or an ASGI app.
        host: The address to listen on.
        port: The port; 0 takes a free one.

    Raises:
        ImportError: When uvicorn is not installed.
        OSError: When the port is taken.
        RuntimeError: When the app's own startup failed.
    """
    app = ScriptedApp(served) if isinstance(served, Producer) else served
    background = _background_server(app)
    listener = socket.create_server((host, port))
    url = f"http://{host}:{listener.getsockname()[1]}/"
    with listener, start_blocking_portal(name="agui-test-server") as portal:
        stopped, _ = portal.start_task(background.serve_on, listener)
        try:
            yield Server(url, app)
        finally:
            portal.call(background.stop)
            stopped.result(timeout=_STOP_SECONDS)


def _background_server(app: ASGIApp) -> BackgroundServer:
    try:
        from agui_client.asgi._uvicorn import BackgroundServer
    except ModuleNotFoundError as missing:
        raise ImportError("serve() needs uvicorn: pip install 'agui-client[cli]'") from missing
    return BackgroundServer(app)
