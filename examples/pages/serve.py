"""Chat pages of CopilotKit and assistant-ui without a server of Node: this program serves the pages and the agent.

`npm install && npm run build` in this folder makes the pages, once; `python serve.py` serves them at
http://127.0.0.1:8000/copilotkit.html and http://127.0.0.1:8000/assistant-ui.html, and the page that needs no npm at
http://127.0.0.1:8000/agent/. They can be reloaded, ask before tickets are bought, and edit and regenerate: the threads
in pages.db go back to the message that was edited. Ask "slowly" and reload, "fail" and try again, or for a "form".
"""

import itertools
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from ag_ui.core import (
    Event,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    ToolCallChunkEvent,
)
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from agui_client import FunctionAgent, tool
from agui_client.a2ui import action_in, change_surface, show_surface
from agui_client.asgi import agent_app
from agui_client.store import Store

BOOK = {"event": {"name": "book", "context": {"name": {"path": "/name"}}}}
FORM: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "book", "said"]},
    {"id": "name", "component": "TextField", "label": "Name for the ticket", "value": {"path": "/name"}},
    {"id": "book", "component": "Button", "child": "label", "action": BOOK},
    {"id": "label", "component": "Text", "text": "Book"},
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]
FOLDER = Path(__file__).parent
numbers, failures = itertools.count(1), itertools.count(1)


@tool(approval="always", ask="Buy {count} tickets?")
def buy_tickets(count: int) -> str:
    """Buy tickets for the ferry."""
    return f"{count} tickets bought"


async def planner(input: RunAgentInput) -> AsyncIterator[Event]:
    """Answer each question with a number, and buy tickets or show a form when it is asked to."""
    last, name = input.messages[-1], f"{input.run_id}-{len(input.messages)}"
    asked = str(last.content) if last.role == "user" else ""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    for word in range(30 if "slowly" in asked else 0):
        yield TextMessageChunkEvent(message_id=f"answer-{name}", delta=f"word{word} ")
        await anyio.sleep(0.15)
    if "fail" in asked and next(failures) % 2:
        yield RunErrorEvent(message="the model is away")
        return
    if action := action_in(input):
        yield change_surface("ferry", path="/said", data=f"Booked for {action.context.get('name')}.")
    elif "form" in asked:
        yield show_surface("ferry", FORM, {"name": "", "said": "Nothing is booked yet."})
    elif "ticket" in asked:
        yield ToolCallChunkEvent(tool_call_id=f"call-{name}", tool_call_name="buy_tickets", delta='{"count": 2}')
    else:
        yield TextMessageChunkEvent(message_id=f"answer-{name}", delta=f"Answer {next(numbers)} to: {last.content}")
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


store = Store(os.environ.get("DATABASE_URL", "sqlite:///pages.db"))
agent = FunctionAgent(planner, tools=[buy_tickets])
# A service knows its users, by authorize=; here, all threads belong to one.
served = agent_app(agent, store=store, owner_of=lambda caller: "", on_divergence="rewind", page=True)
pages = StaticFiles(directory=os.environ.get("PAGES", FOLDER / "dist"))
app = Starlette(routes=[Mount("/agent", served), Mount("/", pages)], lifespan=served.lifespan)

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if sys.argv[1:] else 8000)
