"""Microsoft's agent framework: an agent with a scripted chat client, behind agent-framework-ag-ui."""

from __future__ import annotations

import json
from typing import Any

import script
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    ResponseStream,
    tool,
)
from agent_framework_ag_ui import (
    AgentFrameworkAgent,
    InMemoryAGUIThreadSnapshotStore,
    add_agent_framework_fastapi_endpoint,
    state_update,
)
from fastapi import FastAPI

STATE = "Application state supplied by the AG-UI client"


def history(messages: Any) -> list[script.Said]:
    said = []
    for message in messages:
        texts = [part.text or "" for part in message.contents if part.type == "text"]
        calls = [part.call_id for part in message.contents if part.type == "function_call"]
        for part in message.contents:
            if part.type == "function_result":
                text = part.result if isinstance(part.result, str) else json.dumps(part.result, default=str)
                said.append(script.Said("tool", text, call_id=part.call_id))
        if STATE in " ".join(texts):
            # The adapter writes the state into a user's message of its own.
            said.append(script.Said("system"))
        elif str(message.role) in ("user", "assistant") and (texts or calls):
            said.append(script.Said(str(message.role), " ".join(texts), calls))
    return said


def state_of(messages: Any) -> dict[str, Any]:
    """The state, which the adapter tells the model in a message."""
    texts = [message.text for message in messages if STATE in (message.text or "")]
    return json.JSONDecoder().raw_decode(texts[-1][texts[-1].index("{") :])[0] if texts else {}


class Client(FunctionInvocationLayer, BaseChatClient):
    """Streams what the script says."""

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        async def updates() -> Any:
            async for piece in script.replying(history(messages), state_of(messages)):
                match piece:
                    case script.Thought(text):
                        content = Content.from_text_reasoning(text=text)
                    case script.Call(name, arguments, call_id):
                        content = Content.from_function_call(call_id, name, arguments=json.dumps(arguments))
                    case text:
                        content = Content.from_text(text)
                yield ChatResponseUpdate(role="assistant", contents=[content])

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


@tool(approval_mode="never_require")
def lookup(city: str) -> str:
    """Look a city up."""
    return script.lookup(city)


@tool(approval_mode="always_require")
def transfer(to: str, amount: int) -> str:
    """Send money, after a person approved it."""
    return script.transfer(to, amount)


@tool(approval_mode="never_require")
def move_to(city: str) -> Any:
    """Move to a city."""
    return state_update(text=f"moved to {city}", state={"city": city})


app = FastAPI()
talk = Agent(client=Client(), name="talk", tools=[lookup, transfer, move_to])
for path, schema in (("/", None), ("/state", {"city": {"type": "string"}})):
    served = AgentFrameworkAgent(agent=talk, state_schema=schema, require_confirmation=False)
    add_agent_framework_fastapi_endpoint(app, served, path, single_user=True)
for path, is_detached in (("/kept", False), ("/detached", True)):
    served = AgentFrameworkAgent(agent=talk, require_confirmation=False)
    store = InMemoryAGUIThreadSnapshotStore()
    add_agent_framework_fastapi_endpoint(
        app, served, path, snapshot_store=store, single_user=True, detached_runs=is_detached
    )

if __name__ == "__main__":
    script.serve(app, "Microsoft Agent Framework", Client())
