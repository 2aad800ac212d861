"""An agent as a tool of another agent: a call runs it, in a conversation of its own, and its text is the result.

What the agent asks meanwhile, and the approvals that its tools wait for, go to the handlers of the other agent. If
it has none, the call waits for the other agent's `resume=`; when it is executed again, the conversation continues.

To change

- what an agent that is a tool passes on: this module: `_run` passes on its text and interrupts, `_answers` the answers,
  `_Asked` its beginning and end, which `Run.collect_agents` tells as those of a subagent; `AbstractAgent.as_tool`
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ag_ui.core import (
    Interrupt,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    aggregate_token_usage,
)
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.protocol.placeholders import EXTENSION
from agui_client._core.run.meter import meter_of_tool
from agui_client._core.tools.context import ToolContext
from agui_client._core.tools.function import FunctionTool
from agui_client._core.tools.questions import NOBODY, DeclinedError, UnansweredError
from agui_client._core.verbs.async_run import ReplyText
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client._core.verbs.caller_run import caller_end
from agui_client.errors import AGUIError, RunFailedError, ToolError

if TYPE_CHECKING:
    from typing import Self

    from ag_ui.core import Event, TokenUsage

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.approval import ApprovalRule

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
    subagent_run_id: str
    """The id of the invocation."""


def agent_tool(agent: AbstractAgent, name: str, description: str, approval: ApprovalRule) -> FunctionTool[..., Any]:
    """Return an agent as a tool; see `AbstractAgent.as_tool`.

    Args:
        name: The tool's name.
        description: What the agent is good for.
        approval: The calls that wait for approval.
    """

    async def ask_agent(ctx: ToolContext, prompt: str) -> str:
        """Run a clone of the agent, and get answers to its questions."""
        twin = agent.clone(thread_id=str(uuid4()))
        twin.set_messages([])
        left = None if ctx.left is None else _WaitingAgent.model_validate(ctx.left)
        invocation = f"{name}-{uuid4().hex[:8]}" if left is None else left.subagent_run_id
        with _Asked(agent, invocation, ctx, is_new=left is None) as asked:
            if left is None:
                text, interrupts = await _run(twin, prompt, {}, asked)
            else:
                twin.restore(left.conversation)
                text, interrupts = "", left.interrupts
            while interrupts:
                asked.interrupts = interrupts
                text, interrupts = await _run(twin, None, await _answers(twin, interrupts, ctx), asked)
        return text

    return FunctionTool.from_schema(name, ask_agent, parameters=_PARAMETERS, description=description, approval=approval)


class _Asked:
    """An agent that is asked by a tool: a subagent of the run that called the tool, and a call of the team around that.

    Args:
        invocation: The id of the invocation.
        ctx: The circumstances of the tool call.
        is_new: Whether it begins, rather than continues after a question.
    """

    def __init__(self, agent: AbstractAgent, invocation: str, ctx: ToolContext, *, is_new: bool) -> None:
        self.ctx, self.invocation = ctx, invocation
        self.usage: list[TokenUsage] = []
        """The tokens that it used."""
        self.interrupts: list[Interrupt] = []
        """The interrupts that it waits for."""
        self._name = agent.name or ctx.name
        self._meter, self._block = meter_of_tool(), ExitStack()
        self._is_new = is_new

    def __enter__(self) -> Self:
        try:
            self._meter.begin(is_new=self._is_new)
        except AGUIError as error:
            raise ToolError(f"The agent was not asked: {error}") from error
        self._block.enter_context(self._meter.at_work())
        call = self.ctx.tool_call_id
        self._note(SubagentStartedEvent(subagent_run_id=self.invocation, name=self._name, parent_tool_call_id=call))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._block.close()
        self._meter.report(self.usage)
        usage = to_jsonable_python(aggregate_token_usage(self.usage), exclude_none=True)
        about: Any = {"subagent_run_id": self.invocation}
        if usage:
            about["metadata"] = {EXTENSION: {"usage": usage}}
        if isinstance(error, UnansweredError):
            ids = [each.id for each in self.interrupts]
            waiting = SubagentFinishedSuspendedOutcome(interrupt_ids=ids)
            self._note(SubagentFinishedEvent(outcome=waiting, **about))
        elif error is None:
            self._note(SubagentFinishedEvent(**about))
        else:
            code = "agent_failed" if isinstance(error, Exception) else "cancelled"
            ended = SubagentErrorEvent(message="the agent failed", code=code, **about)
            self._note(ended, error.__cause__ or error)

    def _note(self, event: Event, failure: BaseException | None = None) -> None:
        if self.ctx.on_event is not None:
            self.ctx.on_event(event, failure)


async def _run(
    agent: AbstractAgent, prompt: str | None, options: RunOptions, asked: _Asked
) -> tuple[str, list[Interrupt]]:
    """Run the agent, report its text as progress, and return the whole of it and what it asks."""
    last: RunFinishedEvent | RunErrorEvent | None = None
    reply, ctx, run = ReplyText(), asked.ctx, agent.stream(prompt, **options)
    try:
        async with run:
            async for event in run:
                if text := reply.text_in(event):
                    ctx.report(text)
                if isinstance(event, RunFinishedEvent | RunErrorEvent):
                    last = event
            result = await run.result()
            outcome = caller_end(run, last).outcome
    except AGUIError as error:
        if isinstance(error, RunFailedError) and error.raised is not None:
            # It is this program's own, as that of a function is: the log has it, and neither the model nor a caller.
            raise error.raised from error
        raise ToolError(f"The agent failed: {error}") from error
    finally:
        if run.is_entered:
            asked.usage += run.partial.usage
    interrupts = outcome.interrupts if isinstance(outcome, RunFinishedInterruptOutcome) else []
    if result.pending_tool_calls and not interrupts:
        names = ", ".join(call.function.name for call in result.pending_tool_calls)
        # The agent outside is sent these words, so that a recording with other ones would not match its next request.
        raise ToolError(f"The agent called tools that nobody here answers: {names}.")
    if interrupts:
        left = _WaitingAgent(conversation=agent.snapshot(), interrupts=interrupts, subagent_run_id=asked.invocation)
        ctx.leave(left.model_dump(mode="json", by_alias=True))
    return result.text, interrupts


async def _answers(agent: AbstractAgent, interrupts: list[Interrupt], ctx: ToolContext) -> RunOptions:
    """Have interrupts answered, and return the options of the run that continues."""
    if ctx.on_ask is None:
        raise ToolError(NOBODY)
    entries: list[ResumeEntry] = []
    calls = {call.id: call for call in agent.pending_tool_calls}
    for interrupt in interrupts:
        changes = {"id": f"{ctx.tool_call_id}/{hashlib.sha256(interrupt.id.encode()).hexdigest()[:16]}"}
        payload: Any = None
        with suppress(DeclinedError):
            payload = await ctx.on_ask(interrupt.model_copy(update=changes))
        status: Literal["resolved", "cancelled"] = "cancelled" if payload is None else "resolved"
        entries.append(ResumeEntry(interrupt_id=interrupt.id, status=status, payload=payload))
    return ResumeAnswers(entries, calls).options
