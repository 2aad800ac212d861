"""`agui serve`: an agent of the user's program, or a language model, on a port of this machine.

To change

- the objects that `agui serve` takes: `_made` here; names on the command line are loaded in `_cli/loading.py`
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import click
import uvicorn
from uvicorn.supervisors import ChangeReload

from agui_client._cli.agent_settings import AgentSettings
from agui_client._cli.exit_codes import ExitCode, drive, reason_of
from agui_client._cli.loading import folder_of, load_object, required_parameters
from agui_client._cli.own_names import TrustedHosts, is_loopback
from agui_client._cli.tool_loading import load_tools
from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.agent.function_agent import FunctionAgent
from agui_client._core.verbs.signer import keys_of
from agui_client.asgi import AgentApp, AppLimits, agent_app
from agui_client.asgi._uvicorn import BackgroundServer
from agui_client.errors import UsageError
from agui_client.store import Store
from agui_client.terminal._complaints import complain

if TYPE_CHECKING:
    from types import FrameType

    from agui_client._core.transport.in_process import ASGIApp

_SECRET_VARIABLE = "AGUI_SECRET"
"""The environment variable with the key that signs interrupts; an option would show it in the list of processes."""
_SERVED = (AbstractAgent, AgentApp)
_KINDS = "an agent, a function that makes one or chooses one for each request, or an app of agent_app(...)"


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """An agent to serve, as the command line describes it; another process can make it anew."""

    place: str | None
    """The agent, as MODULE:NAME or FILE.py:NAME."""
    model: str | None
    """The language model to serve instead."""
    tools: tuple[str, ...]
    """The places of the model's tools."""
    keep_alive: float
    """Seconds of silence after which a comment is sent."""
    expose_errors: bool
    """Whether callers get the text of exceptions."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in `Host` and `Origin` that a server on a loopback address accepts, besides those of this machine."""
    store: str | None = None
    """The place of threads and runs: "memory" or the URL of a database; None if nothing is kept."""
    has_page: bool = False
    """Whether the address shows a chat page in a browser; without a store, it keeps its threads in memory."""

    def load(self) -> object:
        """Load the object that the place names, or make an agent of the model.

        Raises:
            click.UsageError: There is no such object, or the model cannot be used.
            UsageError: The model is unknown, or its key is missing.
        """
        if self.place is not None:
            return load_object(self.place)
        return AgentSettings("", {}, None, None, None, self.model).make_agent(tools=load_tools(self.tools))

    async def make_app(self, loaded: object) -> AgentApp:
        """Make the app that serves what was loaded, in the event loop that the app is served by.

        Args:
            loaded: The result of `load`.

        Raises:
            click.UsageError: It is not an agent, the agent cannot be made, the secret is too short, or there is one
                beside an app that signs nothing; or a store or a page is asked for beside an app.
        """
        given: Any = await _made(loaded, self.place or "")
        secret = _secret()
        if not isinstance(given, AgentApp):
            place = self.store or ("memory" if self.has_page else None)
            store = None if place is None else Store(None if place == "memory" else place)
            return agent_app(
                given,
                owner_of=lambda _: "",
                limits=AppLimits(keep_alive=self.keep_alive),
                expose_errors=self.expose_errors,
                secret=secret,
                store=store,
                page=self.has_page,
                on_divergence="rewind" if self.has_page else "append",
            )
        if self.store is not None:
            raise click.UsageError("--store is not for apps; make this one with agent_app(..., store=Store())")
        if self.has_page:
            raise click.UsageError("--page is not for apps; make this one with agent_app(..., page=True)")
        if secret is not None and not given.is_signing:
            raise click.UsageError(f"{_SECRET_VARIABLE} is not for apps; make this one with agent_app(..., secret=)")
        return given


def serve_agent(settings: ServeSettings, host: str, port: int, *, is_reloading: bool) -> int:
    """Serve an agent until Ctrl-C, which counts as success.

    Args:
        settings: The agent.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        is_reloading: Whether the agent is loaded anew when a Python file changes.

    Returns:
        The exit code.
    """
    _secret()
    with listening(host, port, "name others with --host and --port") as listener:
        where = f"[{host}]" if ":" in host else host
        url = f"http://{where}:{listener.getsockname()[1]}/"
        page = " and shows a chat page there" if settings.has_page else ""
        announcement = f"{settings.place or settings.model} is served at {url}{page} until Ctrl-C"
        if not is_reloading:
            return _serve_on(listener, settings, announcement)
        click.echo(f"{announcement}, and is loaded again when a Python file changes")
        folders = {folder_of(place) for place in (settings.place, *settings.tools) if place is not None}
        config = uvicorn.Config("", reload=True, reload_dirs=[*map(str, folders)], log_config=None)
        ChangeReload(config, partial(_serve_in_child, settings), [listener]).run()
    return ExitCode.SUCCESS


def _secret() -> bytes | None:
    """Return the key that signs interrupts; None without one.

    Raises:
        click.UsageError: It is too short.
    """
    given = os.environ.get(_SECRET_VARIABLE)
    try:
        return None if given is None else keys_of(os.fsencode(given))[0]
    except UsageError as wrong:
        raise click.UsageError(f"{_SECRET_VARIABLE}: {wrong}") from None


def listening(host: str, port: int, hint: str) -> socket.socket:
    """Listen on a port; if that fails, the error ends with the hint.

    Raises:
        click.UsageError: The address is not there, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else "there is no such host"
        raise click.UsageError(f"cannot serve on {host}, port {port}: {reason}; {hint}") from error


def _serve_in_child(settings: ServeSettings, sockets: list[socket.socket] | None) -> None:
    """Serve in the process that a reload ends; errors are written, and the next change is waited for."""
    assert sockets
    try:
        drive(lambda: _serve_on(sockets[0], settings))
    except click.ClickException as wrong:
        complain(wrong.format_message())


def _serve_on(listener: socket.socket, settings: ServeSettings, announcement: str = "") -> int:
    loaded = settings.load()
    allowed = settings.allowed_hosts if is_loopback(listener.getsockname()[0]) else None
    serve_app(listener, lambda: settings.make_app(loaded), announcement, allowed)
    return ExitCode.SUCCESS


def serve_app(
    listener: socket.socket,
    make: Callable[[], Awaitable[ASGIApp]],
    announcement: str,
    allowed_hosts: Collection[str] | None = (),
) -> None:
    """Serve an app until a signal, and write the package's log to stderr.

    Args:
        listener: The socket to listen on.
        make: Makes the app, in the event loop that it is served by.
        announcement: The line to write when the app is there; empty for none.
        allowed_hosts: The names that requests may have for this machine besides its own; None for any.
    """

    async def serve() -> None:
        """Make the app, and serve it."""
        app = await make()
        _show_logs()
        if announcement:
            click.echo(announcement)
        await _ForegroundServer(app, allowed_hosts).serve_on(listener, task_status=anyio.TASK_STATUS_IGNORED)

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


class _ForegroundServer(BackgroundServer):
    """A server that ends at once with Ctrl-C: the runs are ended, and callers disconnected."""

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str] | None) -> None:
        super().__init__(app if allowed_hosts is None else TrustedHosts(app, allowed_hosts))
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and take note of the event loop for signals."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the runs, so that their callers know, and drop open connections."""
        if isinstance(self._app, AgentApp):
            await self._app.shutdown()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal; a second one ends a program whose event loop is blocked."""
        if self.should_exit:
            raise KeyboardInterrupt
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self.stop)


def _show_logs() -> None:
    """Write the package's log to stderr: a line for each request, and the tracebacks of failures."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("agui_client")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    logging.getLogger("agui_client.run").setLevel(logging.WARNING)  # the rounds of a request are in its line


async def _made(found: object, place: str) -> object:
    """Return the agent, app or chooser that a name of the program means.

    Raises:
        click.UsageError: It means none.
    """
    if isinstance(found, _SERVED):
        return cast("object", found)
    required = required_parameters(found) if callable(found) else None
    if inspect.isasyncgenfunction(found) or (inspect.isroutine(found) and required and len(required) == 1):
        return FunctionAgent(cast("Any", found))
    if callable(found) and required is not None and len(required) in (0, 2):
        return found if required else await _called(found, place)
    raise click.UsageError(f"{place}: this is a {type(found).__name__}; name {_KINDS}")


async def _called(make: Callable[..., Any], place: str) -> object:
    try:
        made = make()
        made = await made if inspect.isawaitable(made) else made
    except (Exception, SystemExit) as error:
        raise click.UsageError(f"{place}: making the agent failed: {reason_of(error)}") from error
    if not isinstance(made, _SERVED):
        raise click.UsageError(f"{place}: the function returned a {type(made).__name__}; it returns {_KINDS}")
    return cast("object", made)
