"""ADK: an agent with a scripted model, behind ag_ui_adk."""

from __future__ import annotations

import json
from typing import Any

import script
from ag_ui_adk import ADKAgent, AGUIToolset, add_adk_fastapi_endpoint
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types


def history(contents: Any) -> list[script.Said]:
    said = []
    for content in contents:
        texts = [part.text for part in content.parts if part.text and not part.thought]
        calls = [part.function_call.id for part in content.parts if part.function_call]
        for part in content.parts:
            if part.function_response:
                text = json.dumps(part.function_response.response, ensure_ascii=False)
                said.append(script.Said("tool", text, call_id=part.function_response.id))
        if texts or calls:
            said.append(script.Said("assistant" if content.role == "model" else "user", " ".join(texts), calls))
    return said


class Model(BaseLlm):
    """Streams what the script says."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        told = str(llm_request.config.system_instruction or "")
        state = {"city": told.split("CITY=")[1].split(".", maxsplit=1)[0]} if "CITY=" in told else {}
        parts: list[types.Part] = []
        async for piece in script.replying(history(llm_request.contents), state):
            match piece:
                case script.Thought(text):
                    part = types.Part(text=text, thought=True)
                case script.Call(name, arguments, call_id):
                    part = types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=arguments))
                case text:
                    part = types.Part(text=text)
            parts.append(part)
            if part.text:
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=joined(parts)), partial=False, turn_complete=True)


def joined(parts: list[types.Part]) -> list[types.Part]:
    """Parts with texts of one kind joined."""
    thoughts = "".join(part.text for part in parts if part.text and part.thought)
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [part for part in parts if part.function_call]
    return [
        *([types.Part(text=thoughts, thought=True)] if thoughts else []),
        *([types.Part(text=text)] if text else []),
        *calls,
    ]


def move_to(city: str, tool_context: ToolContext) -> str:
    """Move to a city."""
    tool_context.state["city"] = city
    return f"moved to {city}"


agent = LlmAgent(
    name="talk",
    model=Model(model="scripted"),
    instruction="CITY={city?}.",
    tools=[script.lookup, FunctionTool(script.transfer, require_confirmation=True), move_to, AGUIToolset()],
)
app = FastAPI()
for path, is_asking in (("/", True), ("/older", False)):
    served = ADKAgent(
        adk_agent=agent,
        app_name=f"talk{is_asking}",
        user_id="user",
        max_concurrent_executions=50,
        emit_interrupt_outcome=is_asking,
    )
    add_adk_fastapi_endpoint(app, served, path)

if __name__ == "__main__":
    script.serve(app, "ADK", Model(model="scripted"))
