"""pydantic-ai: agents with a FunctionModel, behind its AG-UI adapter."""

from __future__ import annotations

import json
from typing import Any

import script
from ag_ui.core import EventType, StateSnapshotEvent
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, RunContext, Tool, ToolReturn
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route


class City(BaseModel):
    city: str | None = None


def history(messages: list[Any]) -> list[script.Said]:
    said = []
    for message in messages:
        if message.kind == "response":
            calls = [part.tool_call_id for part in message.parts if part.part_kind == "tool-call"]
            text = "".join(part.content for part in message.parts if part.part_kind == "text")
            said.append(script.Said("assistant", text, calls))
            continue
        for part in message.parts:
            if part.part_kind in ("tool-return", "retry-prompt") and part.tool_call_id:
                content = part.content if isinstance(part.content, str) else json.dumps(part.content, default=str)
                said.append(script.Said("tool", content, call_id=part.tool_call_id))
            elif part.part_kind == "user-prompt":
                said.append(script.Said("user", str(part.content)))
    return said


def model(state: Any) -> FunctionModel:
    async def stream(messages: list[Any], info: Any) -> Any:
        index = 0
        async for piece in script.replying(history(messages), state):
            index += 1
            match piece:
                case script.Thought(text):
                    yield {0: DeltaThinkingPart(content=text)}
                case script.Call(name, arguments, call_id):
                    yield {index: DeltaToolCall(name=name, json_args=json.dumps(arguments), tool_call_id=call_id)}
                case text:
                    yield text

    return FunctionModel(stream_function=stream)


async def move_to(ctx: RunContext[StateDeps[City]], city: str) -> ToolReturn:
    """Move to a city."""
    ctx.deps.state.city = city
    event = StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot=ctx.deps.state.model_dump())
    return ToolReturn(return_value=f"moved to {city}", metadata=[event])


async def answer(request: Any) -> Any:
    state = (await request.json()).get("state")
    agent = Agent(
        model(state),
        deps_type=StateDeps[City],
        output_type=[str, DeferredToolRequests],
        tools=[script.lookup, Tool(script.transfer, requires_approval=True), move_to],
    )
    return await AGUIAdapter.dispatch_request(request, agent=agent, deps=StateDeps(City()))


if __name__ == "__main__":
    script.serve(Starlette(routes=[Route("/", answer, methods=["POST"])]), "pydantic-ai", model(None))
