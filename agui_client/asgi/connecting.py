"""A thread that is sent again to a caller who connects, run by run as the agent sends it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from agui_client._conversation.state_base import taken_base
from agui_client.asgi.caller_input import clone_for
from agui_client.asgi.caller_run import failure_event
from agui_client.asgi.stopping import Stopping, shutdown_event
from agui_client.errors import RunFailedError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ag_ui.core import Event, RunAgentInput

    from agui_client._run.async_run import AgentRun
    from agui_client.agent import AbstractAgent


def connected_run(agent: AbstractAgent, input: RunAgentInput) -> AgentRun:
    """Return the replay of an agent's thread that answers a caller who connects.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread.
        input: The input that the caller sent.

    Returns:
        The run, not entered yet.
    """
    if agent.thread_id != input.thread_id:
        agent = clone_for(agent, input)
    return agent.stream_connect(context=input.context or (), forwarded_props=taken_base(input.forwarded_props)[1])


async def replayed_events(
    run: AgentRun, *, expose_errors: bool, block: AbstractAsyncContextManager[object], stopping: Stopping
) -> AsyncGenerator[Event]:
    """Iterate a thread that is sent again, run by run as the agent sends it.

    Args:
        run: The replay, entered.
        expose_errors: Whether the caller gets the text of exceptions.
        block: Left when the replay is over.
        stopping: Says whether the server stops, and has stopped the replay.

    Yields:
        The events of all runs, and a RUN_ERROR if the replay was stopped, or failed in another way than by one.
    """
    try:
        async with block:
            async for event in run:
                yield event
        if stopping.has_begun and run.partial.aborted:
            yield shutdown_event()
    except RunFailedError:
        return  # its RUN_ERROR was sent
    except Exception as error:
        yield failure_event(error, run.run_id, run.thread_id, expose_errors=expose_errors)
