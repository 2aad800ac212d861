"""An agent as a tool of another agent: a call runs it, in a conversation of its own, and its text is the result.

What the agent asks meanwhile, and the approvals that its tools wait for, go to whoever answers for the other agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import RunErrorEvent, RunFinishedEvent, RunFinishedInterruptOutcome

from agui_client._interrupts.answers import Answer, Cancel, Resolve
from agui_client._protocol.schema import is_object
from agui_client._run.async_run import AnswerText
from agui_client._run.caller_stream import APPROVAL, caller_end
from agui_client._tools.approval import Approve, Deny
from agui_client._tools.context import ToolContext
from agui_client._tools.function import FunctionTool
from agui_client._tools.questions import NOBODY, DeclinedError
from agui_client.errors import AGUIError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ag_ui.core import Interrupt

    from agui_client._run.async_run import AgentRun
    from agui_client._tools.approval import ApprovalRule
    from agui_client.options import RunOptions

    Begin: TypeAlias = Callable[[], Callable[..., AgentRun]]

_PARAMETERS = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What to ask, with all that is needed to answer."}},
    "required": ["prompt"],
}


def agent_tool(begin: Begin, name: str, description: str, approval: ApprovalRule) -> FunctionTool[..., Any]:
    """Return an agent as a tool; see `AbstractAgent.as_tool`.

    Args:
        begin: Begins a conversation with the agent, and returns its `stream`.
        name: The tool's name.
        description: What the agent is good for.
        approval: The calls that wait for approval.
    """

    async def ask_agent(ctx: ToolContext, prompt: str) -> str:
        """Run a clone of the agent, and have answered what it asks."""
        stream = begin()
        options: RunOptions = {}
        question: str | None = prompt
        while True:
            try:
                text, interrupts = await _run(stream(question, **options), ctx)
            except AGUIError as error:
                raise ToolError(f"The agent failed: {error}") from error
            if not interrupts:
                return text
            options = await _answers(interrupts, ctx)
            question = None

    return FunctionTool.from_schema(name, ask_agent, parameters=_PARAMETERS, description=description, approval=approval)


async def _run(run: AgentRun, ctx: ToolContext) -> tuple[str, Sequence[Interrupt]]:
    """Run the agent, report its text as progress, and return the whole of it and what it asks."""
    last: RunFinishedEvent | RunErrorEvent | None = None
    answer = AnswerText()
    async with run:
        async for event in run:
            if text := answer.of(event):
                ctx.report(text)
            if isinstance(event, RunFinishedEvent | RunErrorEvent):
                last = event
        result = await run.result()
        outcome = getattr(caller_end(run, last), "outcome", None)
    asked = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else ()
    if result.pending_tool_calls and not asked:
        names = ", ".join(call.function.name for call in result.pending_tool_calls)
        raise ToolError(f"The agent called tools that nobody here answers: {names}.")
    return result.text, asked


async def _answers(interrupts: Sequence[Interrupt], ctx: ToolContext) -> RunOptions:
    """Have interrupts answered, and return the options of the run that goes on."""
    if ctx.on_ask is None:
        raise ToolError(NOBODY)
    resume: dict[str, Answer] = {}
    results: dict[str, Approve | Deny] = {}
    for interrupt in interrupts:
        try:
            payload = await ctx.on_ask(interrupt)
        except DeclinedError:
            payload = None
        if interrupt.id.startswith(APPROVAL) and interrupt.tool_call_id is not None:
            decision: dict[str, Any] = payload if is_object(payload) else {}
            is_approved = decision.get("approved") is True
            results[interrupt.tool_call_id] = Approve(decision.get("editedArgs")) if is_approved else Deny()
        else:
            resume[interrupt.id] = Cancel() if payload is None else Resolve(payload)
    options: RunOptions = {}
    if resume:
        options["resume"] = resume
    if results:
        options["tool_results"] = results
    return options
