"""LlamaIndex: its AG-UI chat workflow with a scripted model."""

import ast
import json
from typing import Any

import script
from fastapi import FastAPI
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.protocols.ag_ui.events import StateSnapshotWorkflowEvent
from llama_index.protocols.ag_ui.router import get_ag_ui_workflow_router
from workflows import Context


def history(messages: Any) -> list[script.Said]:
    said = []
    for message in messages:
        role, kept = message.role.value, message.additional_kwargs
        text = (message.content or "").split("</state>")[-1]
        calls = kept.get("tool_calls") or kept.get("ag_ui_tool_calls") or []
        if "tool_call_id" in kept:
            said.append(script.Said("tool", text, call_id=kept["tool_call_id"]))
        elif role in ("user", "assistant"):
            said.append(script.Said(role, text, [call["id"] for call in calls]))
    return said


def state_of(messages: Any) -> dict[str, Any]:
    for message in reversed(list(messages)):
        if "<state>" in (message.content or ""):
            return ast.literal_eval(message.content.split("<state>")[1].split("</state>")[0].strip())
    return {}


class Model(FunctionCallingLLM):
    """Streams what the script says."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True, model_name="scripted")

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> Any:
        return {"messages": chat_history}

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        async def responses() -> Any:
            text, calls = "", []
            async for piece in script.replying(history(messages), state_of(messages)):
                match piece:
                    case script.Call(name, arguments, call):
                        function = {"name": name, "arguments": json.dumps(arguments)}
                        calls.append({"id": call, "type": "function", "function": function})
                        delta = ""
                    case script.Thought():
                        continue
                    case delta:
                        text += delta
                message = ChatMessage(role="assistant", content=text, additional_kwargs={"tool_calls": list(calls)})
                yield ChatResponse(message=message, delta=delta)

        return responses()

    def get_tool_calls_from_response(self, response: Any, error_on_no_tool_call: bool = True, **kwargs: Any) -> Any:
        return [
            ToolSelection(
                tool_id=call["id"],
                tool_name=call["function"]["name"],
                tool_kwargs=json.loads(call["function"]["arguments"]),
            )
            for call in response.message.additional_kwargs.get("tool_calls", [])
        ]

    def chat(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    achat = complete = acomplete = stream_chat = stream_complete = astream_complete = chat


async def lookup(city: str) -> str:
    """Look a city up."""
    return script.lookup(city)


async def move_to(ctx: Context, city: str) -> str:
    """Move to a city."""
    state = {**await ctx.store.get("state", default={}), "city": city}
    await ctx.store.set("state", state)
    ctx.write_event_to_stream(StateSnapshotWorkflowEvent(snapshot=state))
    return f"moved to {city}"


app = FastAPI()
app.include_router(
    get_ag_ui_workflow_router(llm=Model(), backend_tools=[lookup, move_to], initial_state={"city": None})
)

if __name__ == "__main__":
    script.serve(app, "LlamaIndex", Model())
