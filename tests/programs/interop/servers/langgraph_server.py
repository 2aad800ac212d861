"""LangGraph: LangChain's agent with a scripted chat model, behind ag-ui-langgraph.

`/` speaks 1.0; `/older` sends `on_interrupt` events; the others have LangChain's human-in-the-loop.
"""

from __future__ import annotations

import json
from typing import Any

import script
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.types import Command, interrupt


def history(messages: list[Any]) -> list[script.Said]:
    said = []
    for message in messages:
        text = message.content if isinstance(message.content, str) else json.dumps(message.content)
        match message.type:
            case "human":
                said.append(script.Said("user", text))
            case "ai":
                said.append(script.Said("assistant", text, [call["id"] for call in message.tool_calls]))
            case "tool":
                said.append(script.Said("tool", text, call_id=message.tool_call_id))
    return said


def state_of(messages: list[Any]) -> dict[str, Any]:
    """The state, which `tell` has put into a system message."""
    return next((json.loads(m.content) for m in reversed(messages) if m.type == "system"), {})


class Model(BaseChatModel):
    """Streams what the script says."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        whole = None
        async for chunk in self._astream(messages, stop, run_manager):
            whole = chunk.message if whole is None else whole + chunk.message
        message = AIMessage(whole.content, tool_calls=whole.tool_calls, id=whole.id)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        index, has_thought = 0, False
        async for piece in script.replying(history(messages), state_of(messages)):
            has_thought |= isinstance(piece, script.Thought)
            for said in chunks(piece, index, in_blocks=has_thought):
                chunk = ChatGenerationChunk(message=said)
                if run_manager:
                    await run_manager.on_llm_new_token(piece if isinstance(piece, str) else "", chunk=chunk)
                yield chunk
            index += isinstance(piece, script.Call)


def chunks(piece: Any, index: int, *, in_blocks: bool) -> list[AIMessageChunk]:
    """A piece as providers stream it: a call's name first, then its arguments."""
    match piece:
        case script.Thought(text):
            return [AIMessageChunk([{"type": "thinking", "thinking": text, "index": 0}])]
        case script.Call(name, arguments, call_id):
            begun = {"name": name, "args": "", "id": call_id, "index": index}
            rest = {"name": None, "args": json.dumps(arguments), "id": None, "index": index}
            return [AIMessageChunk("", tool_call_chunks=[call]) for call in (begun, rest)]
    return [AIMessageChunk([{"type": "text", "text": piece, "index": 1}] if in_blocks else piece)]


class Talk(AgentState):
    city: str


@tool
def transfer(to: str, amount: int) -> str:
    """Send money, after a person approved it."""
    answer = interrupt({"message": f"Send {amount} to {to}?", "toolName": "transfer"})
    given = answer if isinstance(answer, dict) else {"approved": answer is True}
    if given.get("approved") is not True:
        return "nothing was sent"
    return script.transfer(**{"to": to, "amount": amount, **given.get("editedArgs", {})})


@tool
def move_to(city: str, runtime: ToolRuntime) -> Command:
    """Move to a city."""
    moved = ToolMessage(f"moved to {city}", tool_call_id=runtime.tool_call_id)
    return Command(update={"city": city, "messages": [moved]})


class Frontend(AgentMiddleware):
    """Tools of the application: the run ends with their calls, and the state is told to the model."""

    state_schema = Talk

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        state = SystemMessage(json.dumps({"city": request.state.get("city")}))
        return await handler(request.override(system_message=state))

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        spoken = next(message for message in reversed(state["messages"]) if message.type == "ai")
        if any(call["name"].startswith(script.FRONTEND) for call in spoken.tool_calls):
            return {"jump_to": "end"}
        return None


def agent(*middleware: Any, tools: Any = None, **options: Any) -> LangGraphAgent:
    graph = create_agent(
        Model(),
        tools or [tool(script.lookup), transfer, move_to],
        middleware=[Frontend(), *middleware],
        state_schema=Talk,
        checkpointer=MemorySaver(),
    )
    return LangGraphAgent(name="talk", graph=graph, **options)


app = FastAPI()
add_langgraph_fastapi_endpoint(app, agent(emit_interrupt_outcome=True), "/")
add_langgraph_fastapi_endpoint(app, agent(), "/older")
reviewed = {"transfer": {"allowed_decisions": ["approve", "edit", "reject"]}}
plain = [tool(script.lookup), tool(script.transfer), move_to]
batched, each = HumanInTheLoopMiddleware(reviewed), HumanInTheLoopMiddleware(reviewed, interrupt_mode="per_call")
add_langgraph_fastapi_endpoint(app, agent(batched, tools=plain, emit_interrupt_outcome=True), "/review")
add_langgraph_fastapi_endpoint(app, agent(batched, tools=plain), "/review-older")
add_langgraph_fastapi_endpoint(app, agent(each, tools=plain, emit_interrupt_outcome=True), "/review-each")

if __name__ == "__main__":
    script.serve(app, "LangGraph", Model())
