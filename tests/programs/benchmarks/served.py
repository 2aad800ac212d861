"""A server in a process of its own: one agent behind `agent_app` and behind a bare Starlette response."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import psutil
import uvicorn
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from ag_ui.encoder import EventEncoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from agui_client import FunctionAgent
from agui_client.asgi import agent_app
from programs.benchmarks.concurrency import allow_many_files

DELTAS = 2000
"""Text deltas in a run of `/burst` and `/single`."""
_BURST = 50
_released = asyncio.Event()


async def _text(input: RunAgentInput, burst: int) -> AsyncIterator[Event]:
    """Yield the events of a run; let the server's other tasks go on after each burst."""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield TextMessageStartEvent(message_id="m")
    for number in range(DELTAS):
        yield TextMessageContentEvent(message_id="m", delta=f"word {number} ")
        if number % burst == 0:
            await asyncio.sleep(0)
    yield TextMessageEndEvent(message_id="m")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


def burst(input: RunAgentInput) -> AsyncIterator[Event]:
    """Yield events in bursts."""
    return _text(input, _BURST)


def single(input: RunAgentInput) -> AsyncIterator[Event]:
    """Yield one event at a time."""
    return _text(input, 1)


async def held(input: RunAgentInput) -> AsyncIterator[Event]:
    """Yield the first events, and the others when all runs are released."""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    yield TextMessageStartEvent(message_id="m")
    await _released.wait()
    yield TextMessageContentEvent(message_id="m", delta="word")
    yield TextMessageEndEvent(message_id="m")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


_AGENTS = {"burst": burst, "single": single, "held": held}


async def _bare(request: Request) -> Response:
    input = RunAgentInput.model_validate_json(await request.body())
    encoder = EventEncoder()
    events = _AGENTS[request.path_params["name"]](input)

    async def frames() -> AsyncIterator[str]:
        async for event in events:
            yield encoder.encode(event)

    return StreamingResponse(frames(), media_type="text/event-stream")


async def _costs(request: Request) -> Response:
    """Tell the CPU seconds and the memory of the process, in bytes."""
    return JSONResponse({"cpu": time.process_time(), "memory": psutil.Process().memory_info().rss})


async def _release(request: Request) -> Response:
    _released.set()
    return Response()


def main() -> None:
    """Print the port, and serve until the process is ended."""
    allow_many_files()
    served = [Mount(f"/served/{name}", agent_app(FunctionAgent(make))) for name, make in _AGENTS.items()]
    routes = [Route("/costs", _costs), Route("/release", _release), Route("/bare/{name}", _bare, methods=["POST"])]
    config = uvicorn.Config(
        Starlette(routes=[*routes, *served]), log_config=None, http="h11", lifespan="off", backlog=2048
    )
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
