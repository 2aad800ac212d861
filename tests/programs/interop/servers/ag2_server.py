"""AG2: an agent with a scripted model, behind its AG-UI stream."""

from __future__ import annotations

import json
from typing import Any

import script
from ag2 import Agent, Context, tool
from ag2.ag_ui import AGUIStream
from ag2.config import LLMClient, ModelConfig
from ag2.events import (
    ModelMessage,
    ModelMessageChunk,
    ModelReasoning,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)
from ag2.middleware import approval_required
from starlette.applications import Starlette
from starlette.routing import Route


def history(events: Any) -> list[script.Said]:
    said = []
    for event in events:
        match event:
            case ModelRequest():
                texts = [part.content for part in event.parts if isinstance(part, TextInput)]
                said.append(script.Said("user", " ".join(texts)))
            case ModelResponse():
                text = event.message.content if event.message else ""
                said.append(script.Said("assistant", text, [call.id for call in event.tool_calls.calls]))
            case ToolResultsEvent():
                for result in event.results:
                    texts = [str(getattr(part, "content", part)) for part in result.result.parts]
                    said.append(script.Said("tool", " ".join(texts), call_id=result.parent_id))
    return said


class Client(LLMClient):
    """Streams what the script says."""

    async def __call__(self, messages: Any, context: Any, **kwargs: Any) -> ModelResponse:
        text, calls = "", []
        async for piece in script.replying(history(messages), context.variables):
            match piece:
                case script.Thought(thought):
                    await context.send(ModelReasoning(thought))
                case script.Call(name, arguments, call_id):
                    calls.append(ToolCallEvent(name, id=call_id, arguments=json.dumps(arguments)))
                case word:
                    text += word
                    await context.send(ModelMessageChunk(word))
        message = ModelMessage(text) if text else None
        if message:
            await context.send(message)
        return ModelResponse(message, tool_calls=ToolCallsEvent(calls))


class Config(ModelConfig):
    provider = "scripted"
    model = "scripted"

    def copy(self) -> Config:
        return self

    def create(self) -> Client:
        return Client()

    def create_files_client(self) -> Any:
        raise NotImplementedError


@tool
def lookup(city: str) -> str:
    """Look a city up."""
    return script.lookup(city)


@tool(middleware=[approval_required()])
def transfer(to: str, amount: int) -> str:
    """Send money, after a person approved it."""
    return script.transfer(to, amount)


@tool
def move_to(city: str, context: Context) -> str:
    """Move to a city."""
    context.variables["city"] = city
    return f"moved to {city}"


agent = Agent("talk", config=Config(), tools=[lookup, transfer, move_to])

if __name__ == "__main__":
    script.serve(Starlette(routes=[Route("/", AGUIStream(agent).build_asgi())]), "AG2", Config())
