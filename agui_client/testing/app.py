"""An ASGI app that serves an agent: one POST in, the events of its run out as SSE (SSE-1 … SSE-4, SSE-8).

A bare ASGI callable: it runs under uvicorn, mounts into Starlette and FastAPI, and needs neither.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import anyio
import anyio.lowlevel
from ag_ui.core import RunAgentInput, RunErrorEvent
from pydantic import ValidationError

from agui_client._protocol.events import WireEvent
from agui_client.testing.closing import closing
from agui_client.testing.frames import frame

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
"""An app that an ASGI server can run."""


@runtime_checkable
class Producer(Protocol):
    """An agent: every agent of this package, and every other object with such a `run`."""

    def run(self, input: RunAgentInput, /) -> AsyncIterator[WireEvent]:
        """Yield the events of one run."""
        ...


class AgentApp:
    """The app that `agui_app` makes; it counts the runs whose client went away.

    Args:
        agent: The agent that answers.
    """

    def __init__(self, agent: Producer) -> None:
        self.disconnected = threading.Event()
        """Set when a client has left a run before its end and the agent was stopped."""
        self.disconnects = 0
        """The number of runs that clients left before their end."""
        self.errors: list[Exception] = []
        """The exceptions of the agent, in order; the client saw each as a RUN_ERROR."""
        self._agent = agent

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (the ASGI interface)."""
        if scope["type"] != "http":
            raise ValueError(f"an AG-UI endpoint speaks HTTP, not {scope['type']}")
        if scope["method"] != "POST":
            await _refuse(send, 405, f"{scope['method']} is not allowed; POST a RunAgentInput", {"allow": "POST"})
            return
        body = await _read_body(receive)
        try:
            input = RunAgentInput.model_validate_json(body, by_alias=True, by_name=False)
        except ValidationError as invalid:
            await _refuse(send, *_refusal(invalid))
            return
        await self._respond(input, receive, send)

    async def _respond(self, input: RunAgentInput, receive: Receive, send: Send) -> None:
        finished = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_on_disconnect, receive, tasks.cancel_scope)
            await self._stream(input, send)
            finished = True
            tasks.cancel_scope.cancel()
        if finished:
            await send({"type": "http.response.body", "body": b""})
        else:
            self.disconnects += 1
            self.disconnected.set()

    async def _stream(self, input: RunAgentInput, send: Send) -> None:
        headers = _headers({"content-type": "text/event-stream", "cache-control": "no-cache"})
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with closing(self._events(input)) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": frame(event).encode(), "more_body": True})
                # Without it, an agent and a server that never wait would not notice that the client is gone.
                await anyio.lowlevel.checkpoint()

    async def _events(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        try:
            async with closing(self._agent.run(input)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            self.errors.append(error)
            yield RunErrorEvent(message=f"the agent raised {type(error).__name__}: {error}")


def agui_app(agent: Producer) -> AgentApp:
    """Make an ASGI app that serves an agent over HTTP and SSE, on every path.

    A body that is no RunAgentInput is refused with 400 (not JSON) or 422, any other method with 405. An agent that
    raises ends its run with RUN_ERROR. When the client goes away the agent's generator is cancelled and closed.

    Args:
        agent: A ScriptedAgent, your own agent, or any object with `run(input)`.
    """
    return AgentApp(agent)


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _refusal(invalid: ValidationError) -> tuple[int, Any]:
    details = invalid.errors(include_url=False, include_input=False, include_context=False)
    return (400 if details[0]["type"] == "json_invalid" else 422), details


async def _refuse(send: Send, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> None:
    body = json.dumps({"detail": detail}).encode()
    fields = _headers({"content-type": "application/json", **(headers or {})})
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _headers(fields: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
