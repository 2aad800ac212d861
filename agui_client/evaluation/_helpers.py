"""The agents that help: one that plays the user, and one that judges; made of the texts that name them."""

from __future__ import annotations

from typing import Any

from agui_client._core.agent.agent import AbstractAgent
from agui_client.errors import UsageError
from agui_client.evaluation._trials import Verdict


def helper(given: AbstractAgent[Any] | str | None, role: str) -> AbstractAgent[Any] | None:
    """Return the agent that plays the user, or judges.

    Args:
        given: The agent, its URL, or the name of a model, such as "openai:gpt-5" (extra `llm`).
        role: "user" or "judge".

    Raises:
        UsageError: The model cannot be used.
    """
    if not isinstance(given, str):
        return given
    if given.lower().startswith(("http://", "https://")):
        from agui_client._core.agent.http_agent import HttpAgent

        return HttpAgent(given)
    try:
        from agui_client.llm import LLMAgent
    except ImportError as error:
        raise UsageError(f"{role}: {given}: {error}") from error
    return LLMAgent(given, output_type=Verdict if role == "judge" else str)
