"""Strands: an agent with a scripted model, behind ag_ui_strands."""

from __future__ import annotations

import json
from typing import Any

import script
from ag_ui_strands import StrandsAgent, StrandsAgentConfig, ToolBehavior, create_strands_app
from strands import Agent, tool
from strands.models import Model


def history(messages: list[Any]) -> list[script.Said]:
    said = []
    for message in messages:
        texts = [block["text"] for block in message["content"] if "text" in block]
        calls = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
        for block in message["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                text = " ".join(part.get("text") or json.dumps(part.get("json")) for part in result["content"])
                said.append(script.Said("tool", text, call_id=result["toolUseId"]))
        if texts or calls:
            said.append(script.Said(message["role"], " ".join(texts), calls))
    return said


class Scripted(Model):
    """Streams what the script says."""

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any) -> Any:
        prompts = history(messages)
        state = {}
        if prompts and prompts[-1].role == "user" and "STATE" in prompts[-1].text:
            prompts[-1].text, told = prompts[-1].text.split("STATE")
            state = json.loads(told)
        yield {"messageStart": {"role": "assistant"}}
        reason = "end_turn"
        async for piece in script.replying(prompts, state):
            match piece:
                case script.Thought(text):
                    yield {"contentBlockDelta": {"delta": {"reasoningContent": {"text": text}}}}
                case script.Call(name, arguments, call_id):
                    reason = "tool_use"
                    yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": call_id}}}}
                    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
                    yield {"contentBlockStop": {}}
                case text:
                    yield {"contentBlockDelta": {"delta": {"text": text}}}
        if reason == "end_turn":
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}
        yield {
            "metadata": {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1}}
        }


@tool
def move_to(city: str) -> str:
    """Move to a city."""
    return f"moved to {city}"


def told(run_input: Any, prompt: str) -> str:
    """Tell the model the state."""
    return f"{prompt}STATE{json.dumps(run_input.state)}" if prompt else prompt


agent = StrandsAgent(
    Agent(model=Scripted(), tools=[tool(script.lookup), tool(script.transfer), move_to], callback_handler=None),
    name="talk",
    config=StrandsAgentConfig(
        tool_behaviors={
            "transfer": ToolBehavior(interrupt_on_call=True),
            "move_to": ToolBehavior(state_from_args=lambda context: {"city": context.tool_input["city"]}),
        },
        state_context_builder=told,
    ),
)

if __name__ == "__main__":
    app = create_strands_app(agent, path="/", ping_path=None, origins=["http://localhost"])
    script.serve(app, "Strands", Scripted())
