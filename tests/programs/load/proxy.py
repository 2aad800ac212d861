"""The proxy: the agent of `LOAD_UPSTREAM`, served at `/plain`, and with threads in `LOAD_DATABASE` at `/stored`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from starlette.applications import Starlette
from starlette.routing import Mount

from agui_client import HttpAgent, tool
from agui_client.asgi import AppLimits, agent_app
from agui_client.store import Store
from programs.benchmarks.concurrency import allow_many_files


@tool
async def look() -> str:
    """Look around."""
    return f"seen {uuid4()}"


def make_app() -> Starlette:
    """Make the app of one worker."""
    allow_many_files()
    tell_ready = Path(os.environ["LOAD_READY"], str(os.getpid())).touch
    agent, store = HttpAgent(os.environ["LOAD_UPSTREAM"], tools=[look]), Store(os.environ["LOAD_DATABASE"])
    threads = store.threads
    seconds = float(os.environ["LOAD_STOP_WITHIN"])
    plain = agent_app(
        lambda request, input: agent.clone(thread_id=input.thread_id), limits=AppLimits(stop_within=seconds)
    )
    stored = agent_app(
        lambda request, input: threads.open(input.thread_id, agent), limits=AppLimits(stop_within=seconds)
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        # The database is left as the last: runs that end at a deploy are saved.
        async with store, agent, stored.lifespan(), plain.lifespan():
            await threads.list(limit=1)
            tell_ready()
            yield

    return Starlette(routes=[Mount("/plain", plain), Mount("/stored", stored)], lifespan=lifespan)
