"""An AG-UI agent as a provider of promptfoo, which calls `call_api` for each prompt.

    # promptfooconfig.yaml
    prompts: ["Plan my Saturday in {{city}}."]
    providers: [{id: "file://promptfoo_provider.py", config: {url: "http://localhost:8000/"}}]
    tests: [{vars: {city: Oslo}, assert: [{type: contains, value: outdoors}]}]

Run it with `npx promptfoo eval`, and PROMPTFOO_PYTHON as the Python that has agui-client.
"""

from collections.abc import Mapping
from typing import Any

from agui_client import HttpAgent
from agui_client.errors import AGUIError


def call_api(prompt: str, options: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply of the agent, or the error with which its run failed."""
    config: Mapping[str, Any] = options.get("config") or {}
    agent = HttpAgent(config.get("url", "http://localhost:8000/"), headers=config.get("headers"))
    try:
        result = agent.run_agent_sync(prompt)
    except AGUIError as error:
        return {"error": str(error)}
    into = sum(each.input_tokens or 0 for each in result.usage)
    out = sum(each.output_tokens or 0 for each in result.usage)
    return {
        "output": result.text,
        "tokenUsage": {"total": into + out, "prompt": into, "completion": out},
        "metadata": {
            "tools": [
                call.function.name for each in result.messages for call in getattr(each, "tool_calls", None) or ()
            ]
        },
    }
