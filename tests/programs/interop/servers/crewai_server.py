"""CrewAI: flows with a scripted model behind litellm, served by ag-ui-crewai.

The flow of `/review` asks a person by `@human_feedback` before money is sent.
"""

from __future__ import annotations

import json
from typing import Any

import litellm
import script
from ag_ui_crewai import (
    CopilotKitState,
    add_crewai_flow_fastapi_endpoint,
    agui_feedback_provider,
    copilotkit_stream,
)
from crewai.flow.flow import Flow, listen, router, start
from crewai.flow.human_feedback import human_feedback
from fastapi import FastAPI
from litellm.types.utils import Delta, GenericStreamingChunk, ModelResponseStream, StreamingChoices


def history(messages: Any) -> list[script.Said]:
    said = []
    for message in messages:
        match message["role"]:
            case "tool":
                said.append(script.Said("tool", str(message["content"]), call_id=message["tool_call_id"]))
            case "user" | "assistant":
                calls = [call["id"] for call in message.get("tool_calls") or []]
                said.append(script.Said(message["role"], message.get("content") or "", calls))
    return said


class Model(litellm.CustomLLM):
    """Streams what the script says."""

    async def astreaming(self, model: str, messages: Any, *args: Any, **kwargs: Any) -> Any:
        state = json.loads(model.rsplit("/", maxsplit=1)[-1])
        index = 0
        reason = "stop"
        async for piece in script.replying(history(messages), state):
            tool_use, text = None, ""
            match piece:
                case script.Call(name, arguments, call_id):
                    function = {"name": name, "arguments": json.dumps(arguments)}
                    tool_use = {"id": call_id, "type": "function", "function": function, "index": index}
                    index += 1
                    reason = "tool_calls"
                case script.Thought(thought):
                    yield ModelResponseStream(choices=[StreamingChoices(delta=Delta(reasoning_content=thought))])
                    continue
                case text:
                    pass
            yield GenericStreamingChunk(
                text=text, tool_use=tool_use, is_finished=False, finish_reason="", index=0, usage=None
            )
        yield GenericStreamingChunk(text="", tool_use=None, is_finished=True, finish_reason=reason, index=0, usage=None)


litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": Model()}]


class State(CopilotKitState):
    city: str | None = None
    asked: Any = None


class Talking(Flow[State]):
    """Asks the model, and carries out the tools of the server."""

    async def talk(self) -> Any:
        """Talk until the model says nothing more; returns the call that a person has to approve."""
        while True:
            response = await copilotkit_stream(
                await litellm.acompletion(
                    model=f"scripted/{json.dumps({'city': self.state.city})}",
                    messages=self.state.messages,
                    tools=[*self.state.copilotkit.actions] or None,
                    stream=True,
                )
            )
            message = response.choices[0]["message"]
            self.state.messages.append(message if isinstance(message, dict) else message.model_dump())
            asking = [call for call in message.get("tool_calls") or [] if call["function"]["name"] == "transfer"]
            if asking:
                return asking[0]
            calls = [
                call for call in message.get("tool_calls") or [] if call["function"]["name"] in ("lookup", "move_to")
            ]
            for call in calls:
                city = json.loads(call["function"]["arguments"])["city"]
                if call["function"]["name"] == "move_to":
                    self.state.city = city
                result = script.lookup(city) if call["function"]["name"] == "lookup" else f"moved to {city}"
                self.state.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            if not calls:
                return None


class Talk(Talking):
    @start()
    async def chat(self) -> None:
        await self.talk()


class Review(Talking):
    @start()
    async def chat(self) -> Any:
        return await self.talk()

    @router(chat)
    def asks(self, call: Any) -> str:
        self.state.asked = call
        return "asks_a_person" if call else "done"

    @listen("asks_a_person")
    @human_feedback(message="Send the money?", provider=agui_feedback_provider)
    def ask(self) -> Any:
        return self.state.asked

    @listen(ask)
    async def send(self, result: Any) -> None:
        arguments = json.loads(self.state.asked["function"]["arguments"])
        answer = json.loads(result.feedback or "{}")
        answer = answer if isinstance(answer, dict) else {"approved": answer is True}
        sent = script.transfer(**{**arguments, **(answer.get("editedArgs") or {})})
        told = sent if answer.get("approved") is True else "nothing was sent"
        self.state.messages.append({"role": "tool", "tool_call_id": self.state.asked["id"], "content": told})
        await self.talk()


app = FastAPI()
add_crewai_flow_fastapi_endpoint(app, Talk(), "/")
add_crewai_flow_fastapi_endpoint(app, Review(), "/review", emit_interrupt_outcome=True)

if __name__ == "__main__":
    script.serve(app, "CrewAI", "scripted/{}")
