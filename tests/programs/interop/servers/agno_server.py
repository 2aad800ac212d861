"""Agno: an agent with a scripted model, behind the AGUI interface of AgentOS."""

from __future__ import annotations

import json
from typing import Any

import script
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.os.interfaces.agui import AGUI
from agno.run import RunContext
from agno.tools import tool
from fastapi import FastAPI


def history(messages: Any) -> list[script.Said]:
    said = []
    for message in messages:
        text = message.content if isinstance(message.content, str) else json.dumps(message.content)
        if message.role == "tool":
            said.append(script.Said("tool", text, call_id=message.tool_call_id))
        elif message.role in ("user", "assistant"):
            said.append(script.Said(message.role, text, [call["id"] for call in message.tool_calls or []]))
    return said


def state_of(messages: Any) -> dict[str, Any]:
    for message in messages:
        if message.role == "system" and "<session_state>" in str(message.content):
            told = str(message.content).split("<session_state>")[1].split("</session_state>")[0]
            return json.JSONDecoder().raw_decode(told.strip().replace("'", '"').replace("None", "null"))[0]
    return {}


class Scripted(Model):
    """Streams what the script says."""

    async def ainvoke_stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        async for piece in script.replying(history(messages), state_of(messages)):
            match piece:
                case script.Thought(text):
                    yield ModelResponse(role="assistant", reasoning_content=text)
                case script.Call(name, arguments, call_id):
                    function = {"name": name, "arguments": json.dumps(arguments)}
                    yield ModelResponse(
                        role="assistant", tool_calls=[{"id": call_id, "type": "function", "function": function}]
                    )
                case text:
                    yield ModelResponse(role="assistant", content=text)

    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def invoke_stream(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


@tool(requires_confirmation=True)
def transfer(to: str, amount: int) -> str:
    """Send money, after a person approved it."""
    return script.transfer(to, amount)


def move_to(run_context: RunContext, city: str) -> str:
    """Move to a city."""
    run_context.session_state["city"] = city
    return f"moved to {city}"


agent = Agent(
    name="talk",
    model=Scripted(id="scripted"),
    db=InMemoryDb(),
    tools=[script.lookup, transfer, move_to],
    add_history_to_context=True,
    num_history_runs=50,
    add_session_state_to_context=True,
    telemetry=False,
)
app = FastAPI()
app.include_router(AGUI(agent=agent).get_router())

if __name__ == "__main__":
    script.serve(app, "Agno", Scripted(id="scripted"))
