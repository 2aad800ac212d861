"""A backend that is an AG-UI agent itself: it asks two remote agents in parallel and streams one run to its caller.

Each of the two is a subagent of that run, so the caller can tell their messages apart while both are still writing.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import ag_ui.core as agui
from ag_ui.encoder import EventEncoder
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from agui_client import AGUIError, HttpAgent
from agui_client.testing import demo_agent, serve

app = FastAPI()


@app.post("/agent")
async def answer(input: agui.RunAgentInput) -> StreamingResponse:
    stream = (EventEncoder().encode(event) async for event in research(input))
    return StreamingResponse(stream, media_type="text/event-stream")


async def research(input: agui.RunAgentInput) -> AsyncIterator[agui.Event]:
    events: asyncio.Queue[agui.Event | None] = asyncio.Queue()
    yield agui.RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    tasks = [asyncio.create_task(ask(expert, input, events)) for expert in ("guide", "critic")]
    try:
        for _ in tasks:  # each task puts None at its end
            while event := await events.get():
                yield event
    finally:
        for task in tasks:
            task.cancel()  # if the caller leaves, the remote runs end, too
    yield agui.RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


async def ask(expert: str, input: agui.RunAgentInput, events: asyncio.Queue[agui.Event | None]) -> None:
    who = f"{expert}-{input.run_id}"
    try:
        await events.put(agui.SubagentStartedEvent(subagent_run_id=who, name=expert))
        async with HttpAgent(app.state.agent_url).stream(f"You are the {expert}. {input.messages[-1].content}") as run:
            async for text in run.text_stream:
                await events.put(agui.TextMessageChunkEvent(message_id=who, delta=text, subagent_run_id=who))
        await events.put(agui.SubagentFinishedEvent(subagent_run_id=who))
    except AGUIError as error:
        await events.put(agui.SubagentErrorEvent(subagent_run_id=who, message=str(error)))
    finally:
        await events.put(None)


if __name__ == "__main__":
    with serve(demo_agent()) as remote, serve(app) as backend:
        app.state.agent_url = sys.argv[1] if len(sys.argv) > 1 else remote.url
        for message in HttpAgent(f"{backend.url}agent").run_agent_sync("What is Oslo like?").new_messages:
            print(f"{message.subagent_run_id}: {message.content}")
