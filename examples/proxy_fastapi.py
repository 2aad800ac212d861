"""A proxy: it passes a run on to a remote agent as it came, and streams the agent's events back to its caller.

A `RunAgentInput` as the prompt is sent as it is, so that the caller's thread, tools and answers to interrupts reach the
remote agent. The events were checked on the way; if the remote agent fails, the caller gets a RUN_ERROR.
"""

import sys

from ag_ui.core import RunAgentInput
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from agui_client import HttpAgent
from agui_client.asgi import sse_headers
from agui_client.demo import demo_agent
from agui_client.testing import serve

app = FastAPI()


@app.post("/agent")
async def proxy(input: RunAgentInput) -> StreamingResponse:
    run = HttpAgent(app.state.agent_url).stream(input)
    return StreamingResponse(run.sse(), headers=sse_headers())


if __name__ == "__main__":
    with serve(demo_agent()) as remote, serve(app) as front:
        app.state.agent_url = sys.argv[1] if len(sys.argv) > 1 else remote.url
        agent = HttpAgent(f"{front.url}agent", thread_id="of-the-caller")
        print(agent.run_agent_sync("What is Oslo like?").text)
        print(f"{len(agent.messages)} messages, waiting: {[each.message for each in agent.pending_interrupts]}")
