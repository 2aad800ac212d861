"""An agent as a tool of pydantic-ai's agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from pydantic_ai import ApprovalRequired, RunContext, Tool
except ModuleNotFoundError as _missing:
    raise ImportError("pydantic_ai_tool() needs pydantic-ai: pip install 'agui-client[pydantic-ai]'") from _missing

from agui_client.adapters._questions import ended_run, is_question, question_of, resumed

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent


def pydantic_ai_tool(agent: AbstractAgent[Any], name: str, description: str) -> Tool[Any]:
    """Make an agent a tool of pydantic-ai's agents, which replies to a prompt with the agent's text.

    What the agent asks becomes the framework's own question: the run ends with `DeferredToolRequests`, whose
    `metadata[tool_call_id]` has `interrupts`, and what resumes the agent, also in another process. Run again with
    `DeferredToolResults(approvals={tool_call_id: True}, metadata=requests.metadata)`; its `answers`, by the id of an
    interrupt, are what people answered, and an interrupt without one is approved.

    Args:
        name: The name of the tool.
        description: What the agent is good for, for the model.

    Returns:
        The tool. It raises the errors of `run_agent`, with `partial`, through the run of the framework.
    """

    async def ask(ctx: RunContext[Any], prompt: str) -> str:
        """Ask the agent."""
        asked: dict[str, Any] = (ctx.tool_call_metadata or {}) if ctx.tool_call_approved else {}
        ours = agent.clone()
        run = ours.stream(**resumed(ours, asked)) if is_question(asked) else ours.stream(prompt)
        async with run:
            result, interrupts = await ended_run(run)
        if interrupts:
            raise ApprovalRequired(question_of(ours, interrupts))
        return result.text

    return Tool(ask, name=name, description=description)
