"""An agent as a LangChain `Runnable`: the public function, which loads the framework when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

    from agui_client._core.agent.agent import AbstractAgent


def langchain_runnable(agent: AbstractAgent[Any]) -> Runnable[Any, AIMessage]:
    """Make an agent a LangChain `Runnable`: `invoke`, `stream`, `batch`, and the same with `await`.

    It takes what a chat model takes: a text, messages, or the value of a prompt template. Each call is a conversation
    of its own. Text comes as it is streamed, and the last chunk has the usage.

    What the agent asks is an interrupt of LangGraph, in a node of a graph with a checkpointer. Its value has the
    `interrupts`, and what resumes the agent, also in another process: resume the graph with
    `Command(resume={**value, "answers": {interrupt_id: payload}})`; an interrupt without an answer is approved. Outside
    a graph, an agent that asks is a `UsageError`.

    Args:
        agent: The agent; each call runs a clone of it.

    Returns:
        The runnable. It raises the errors of `run_agent`, with `partial`.
    """
    from agui_client.adapters._langchain import runnable_of

    return runnable_of(agent)
