"""An agent as a tool of pydantic-ai's agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ag_ui.core import ResumeEntry

try:
    from pydantic_ai import ApprovalRequired, RunContext, Tool
except ModuleNotFoundError as _missing:
    raise ImportError("pydantic_ai_tool() needs pydantic-ai: pip install 'agui-client[pydantic-ai]'") from _missing

from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client.adapters._questions import ended_run

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.options import RunOptions

_ASKED = "agui_client"
"""The member of a deferred call's metadata with what resumes the agent."""


def pydantic_ai_tool(agent: AbstractAgent[Any], name: str, description: str) -> Tool[Any]:
    """Make an agent a tool of pydantic-ai's agents, which answers a prompt with the agent's text.

    What the agent asks becomes the framework's own question: the run ends with `DeferredToolRequests`, whose
    `metadata[tool_call_id]` has `interrupts`, and what resumes the agent, also in another process. Run again with
    `DeferredToolResults(approvals={tool_call_id: True}, metadata=requests.metadata)`; its `answers`, by the id of an
    interrupt, are what people answered, and an interrupt without one is approved.

    Args:
        agent: The agent.
        name: The name of the tool.
        description: What the agent is good for, for the model.

    Returns:
        The tool. It raises the errors of `run_agent`, with `partial`, through the run of the framework.
    """

    async def ask(ctx: RunContext[Any], prompt: str) -> str:
        """Ask the agent."""
        asked = (ctx.tool_call_metadata or {}) if ctx.tool_call_approved else {}
        ours = agent.clone()
        if _ASKED in asked:
            ours.restore(ConversationSnapshot.model_validate(asked[_ASKED]))
            run = ours.stream(**_answers_of(ours, asked))
        else:
            run = ours.stream(prompt)
        async with run:
            result, interrupts = await ended_run(run)
        if interrupts:
            raise ApprovalRequired(
                {"interrupts": interrupts, _ASKED: ours.snapshot().model_dump(mode="json", by_alias=True)}
            )
        return result.text

    return Tool(ask, name=name, description=description)


def _answers_of(agent: AbstractAgent[Any], asked: Mapping[str, Any]) -> RunOptions:
    """Return the keywords of the run that resumes an agent."""
    answers: Mapping[str, Any] = asked.get("answers", {})
    entries = [
        ResumeEntry(interrupt_id=each["id"], status="resolved", payload=answers.get(each["id"], {"approved": True}))
        for each in asked["interrupts"]
    ]
    return ResumeAnswers(entries, {call.id: call for call in agent.pending_tool_calls}).options
