"""A backend for browsers: a model in this process that asks two remote agents, reads times over MCP, and books.

`python examples/backend_fastapi.py` serves it, with a page, at http://127.0.0.1:8000/agent/. A script plays the model
unless MODEL names one, such as openai:gpt-5 or ollama:llama3.2. The person at the page approves what is booked.
"""

import os
import sys
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer
from pydantic_ai import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from agui_client import HttpAgent, tool
from agui_client.asgi import agent_app
from agui_client.demo import demo_agent
from agui_client.llm import LLMAgent
from agui_client.mcp import mcp_server
from agui_client.store import Store
from agui_client.testing import serve

timetable = MCPServer("timetable", log_level="WARNING")


@timetable.tool(description="Departures of the ferry on a day.")
def departures(day: str) -> str:
    return f"10:10 and 12:10 on {day}"


@tool(description="Ask one of the remote agents, 'guide' or 'critic'.")
async def ask_expert(expert: str, question: str) -> str:
    return (await HttpAgent(app.state.experts[expert]).run_agent(question)).text


@tool(approval="always", description="Book the ferry.")
def book_ferry(departure: str) -> str:
    return f"booked for {departure}"


async def script(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    done = [part.tool_name for message in messages for part in message.parts if part.part_kind == "tool-return"]
    asking = [("ask_expert", f'{{"expert": "{expert}", "question": "And Oslo?"}}') for expert in app.state.experts]
    own = [(each.name, "{}") for each in info.function_tools if each.name == "locate"]  # a tool of the caller's
    booking = [] if "book_ferry" in done else [("book_ferry", '{"departure": "12:10"}')]
    calls = booking if done else [*asking, ("departures", '{"day": "Saturday"}'), *own]
    for number, (name, arguments) in enumerate(calls):
        yield {number: DeltaToolCall(name, arguments, tool_call_id=f"{len(messages)}-{number}")}
    for word in () if calls else ("Done: ", *(f"{name} " for name in done)):
        yield word


model = os.environ.get("MODEL") or FunctionModel(stream_function=script)
agent = LLMAgent(model, tools=[ask_expert, book_ferry, mcp_server(timetable)])
# A service knows its users, by authorize=; here, all threads belong to one.
served = agent_app(agent, store=Store(), owner_of=lambda caller: "", on_divergence="rewind", page=True)
app = FastAPI(lifespan=served.lifespan)
app.mount("/agent", served)
if __name__ == "__main__":
    with serve(demo_agent()) as remote:
        app.state.experts = dict(zip(("guide", "critic"), sys.argv[1:] or [remote.url] * 2, strict=True))
        uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
