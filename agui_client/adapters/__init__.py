"""Agents in the programs of another framework: pydantic-ai and LangChain (extras `pydantic-ai` and `langchain`).

    Agent("openai:gpt-5", tools=[pydantic_ai_tool(agent, "ask_planner", "Plans a day.")])
    Agent(pydantic_ai_model(agent), tools=[...])  # the agent in the place of a language model
    prompt | langchain_runnable(agent) | StrOutputParser()  # in a chain, or in a node of a graph

Each call is a conversation of its own, with a clone of the agent. Each name is loaded at its first use, with its
framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agui_client.adapters._pydantic_ai_model import pydantic_ai_model
    from agui_client.adapters._pydantic_ai_tool import pydantic_ai_tool
    from agui_client.adapters._runnable import langchain_runnable

_HOMES = {
    "langchain_runnable": "adapters._runnable",
    "pydantic_ai_model": "adapters._pydantic_ai_model",
    "pydantic_ai_tool": "adapters._pydantic_ai_tool",
}
"""The module of each public name."""

__all__ = ["langchain_runnable", "pydantic_ai_model", "pydantic_ai_tool"]


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"agui_client.{home}"), name)
    return value
