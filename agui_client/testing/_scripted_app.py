"""The app of the test kit: it sends the events of a script as they are, so that a script can break the protocol."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

import anyio.lowlevel
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client._core.agent.function_agent import FunctionAgent
from agui_client._core.protocol.events import WireEvent
from agui_client._serving.served_request import ServedRequest
from agui_client.asgi._app import AgentApp
from agui_client.testing._steps import closing


@runtime_checkable
class Producer(Protocol):
    """An agent: every agent of this package, and every other object with such a `run`."""

    def run(self, input: RunAgentInput, /) -> AsyncIterator[WireEvent]:
        """Yield the events of one run."""
        ...


class ScriptedApp(AgentApp):
    """The app that `agui_app` makes; it counts the runs whose client went away.

    Args:
        agent: The agent that is run.
    """

    _own_headers: Mapping[str, str] = {}
    """None: what it is sent reaches the script as it came."""

    def __init__(self, agent: Producer) -> None:
        super().__init__(FunctionAgent(agent.run))
        self.disconnected: threading.Event = threading.Event()
        """Set when a client has left a run before its end and the agent was stopped."""
        self.disconnects: int = 0
        """The number of runs that clients left before their end."""
        self.errors: list[Exception] = []
        """The exceptions of the agent, in order; the client saw each as a RUN_ERROR."""
        self._script = agent

    @asynccontextmanager
    async def _open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AsyncIterator[WireEvent]]:
        """Play the script of one run, as a block with its events."""
        async with closing(self._events(input)) as events:
            yield events

    async def _events(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        try:
            async with closing(self._script.run(input)) as events:
                async for event in events:
                    yield event
                    # Without it, an agent and a server that never wait would not notice that the client is gone.
                    await anyio.lowlevel.checkpoint()
        except Exception as error:
            self.errors.append(error)
            yield RunErrorEvent(message=f"the agent raised {type(error).__name__}: {error}")

    def _on_disconnect(self) -> None:
        """Count the run."""
        self.disconnects += 1
        self.disconnected.set()


def agui_app(agent: Producer) -> ScriptedApp:
    """Make an ASGI app that serves an agent on every path and sends its events as they are, for tests of clients.

    Bad requests are refused as by `agui_client.asgi.agent_app`, which is the app for applications. An agent that raises
    ends its run with RUN_ERROR. When the client goes away the agent's generator is cancelled and closed.

    Args:
        agent: A ScriptedAgent, your own agent, or any object with `run(input)`.
    """
    return ScriptedApp(agent)
