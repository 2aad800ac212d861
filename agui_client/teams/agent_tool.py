"""An agent as a tool of another agent: a call runs it, in a conversation of its own, and its text is the result.

What the agent asks meanwhile, and the approvals that its tools wait for, go to whoever answers for the other agent. If
nobody does, the call waits for the other agent's `resume=`; when it is executed again, the conversation goes on.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ag_ui.core import Interrupt, ResumeEntry, RunErrorEvent, RunFinishedEvent, RunFinishedInterruptOutcome
from pydantic import BaseModel

from agui_client._conversation.snapshot import ConversationSnapshot
from agui_client._run.async_run import AnswerText
from agui_client._tools.context import ToolContext
from agui_client._tools.function import FunctionTool
from agui_client._tools.questions import NOBODY, DeclinedError
from agui_client.asgi.caller_interrupts import APPROVAL, CallerAnswers
from agui_client.asgi.caller_run import caller_end
from agui_client.errors import AGUIError, ToolError

if TYPE_CHECKING:
    from agui_client._tools.approval import ApprovalRule
    from agui_client.agent import AbstractAgent
    from agui_client.options import RunOptions

_PARAMETERS = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What to ask, with all that is needed to answer."}},
    "required": ["prompt"],
}


class _WaitingAgent(BaseModel):
    """The value that a call leaves while the asked agent waits."""

    conversation: ConversationSnapshot
    """The conversation of the asked agent."""
    interrupts: list[Interrupt]
    """The interrupts that it waits for."""


def agent_tool(agent: AbstractAgent, name: str, description: str, approval: ApprovalRule) -> FunctionTool[..., Any]:
    """Return an agent as a tool; see `AbstractAgent.as_tool`.

    Args:
        agent: The agent.
        name: The tool's name.
        description: What the agent is good for.
        approval: The calls that wait for approval.
    """

    async def ask_agent(ctx: ToolContext, prompt: str) -> str:
        """Run a clone of the agent, and get answers to its questions."""
        twin = agent.clone(thread_id=str(uuid4()))
        twin.set_messages([])
        if ctx.left is None:
            text, interrupts = await _run(twin, prompt, {}, ctx)
        else:
            left = _WaitingAgent.model_validate(ctx.left)
            twin.restore(left.conversation)
            text, interrupts = "", left.interrupts
        while interrupts:
            text, interrupts = await _run(twin, None, await _answers(twin, interrupts, ctx), ctx)
        return text

    return FunctionTool.from_schema(name, ask_agent, parameters=_PARAMETERS, description=description, approval=approval)


async def _run(
    agent: AbstractAgent, prompt: str | None, options: RunOptions, ctx: ToolContext
) -> tuple[str, list[Interrupt]]:
    """Run the agent, report its text as progress, and return the whole of it and what it asks."""
    last: RunFinishedEvent | RunErrorEvent | None = None
    answer = AnswerText()
    try:
        async with agent.stream(prompt, **options) as run:
            async for event in run:
                if text := answer.of(event):
                    ctx.report(text)
                if isinstance(event, RunFinishedEvent | RunErrorEvent):
                    last = event
            result = await run.result()
            outcome = caller_end(run, last).outcome
    except AGUIError as error:
        raise ToolError(f"The agent failed: {error}") from error
    asked = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else []
    if result.pending_tool_calls and not asked:
        names = ", ".join(call.function.name for call in result.pending_tool_calls)
        raise ToolError(f"The agent called tools that nobody here answers: {names}.")
    if asked:
        left = _WaitingAgent(conversation=agent.snapshot(), interrupts=asked)
        ctx.leave(left.model_dump(mode="json", by_alias=True))
    return result.text, asked


async def _answers(agent: AbstractAgent, interrupts: list[Interrupt], ctx: ToolContext) -> RunOptions:
    """Have interrupts answered, and return the options of the run that goes on."""
    if ctx.on_ask is None:
        raise ToolError(NOBODY)
    entries: list[ResumeEntry] = []
    calls = {call.id: call for call in agent.pending_tool_calls}
    for interrupt in interrupts:
        changes = {"id": f"{ctx.tool_call_id}/{hashlib.sha256(interrupt.id.encode()).hexdigest()[:16]}"}
        # The person sees no message of this agent: what would be called is to be read in the question.
        call = calls.get(interrupt.tool_call_id or "") if interrupt.id.startswith(APPROVAL) else None
        if call is not None:
            changes["message"] = f"Allow the call of {call.function.name} with {call.function.arguments or '{}'}?"
        payload: Any = None
        with suppress(DeclinedError):
            payload = await ctx.on_ask(interrupt.model_copy(update=changes))
        status: Literal["resolved", "cancelled"] = "cancelled" if payload is None else "resolved"
        entries.append(ResumeEntry(interrupt_id=interrupt.id, status=status, payload=payload))
    return CallerAnswers(entries, calls).options
