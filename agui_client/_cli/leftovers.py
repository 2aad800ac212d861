"""What a conversation was left with: questions and calls that wait since a run was stopped, or the file was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import RunAgentInput

from agui_client._tools.approval import ApprovalRequest, Approve, Deny
from agui_client._tools.function import FunctionTool
from agui_client._tools.offer import offered
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Interrupt, ToolCall

    from agui_client._cli.people import TerminalAnswerer, TerminalApprover
    from agui_client.agent import AbstractAgent
    from agui_client.interrupts import Answer
    from agui_client.options import RunOptions


class Leftovers:
    """Settles them before the next run; a call that a tool had answered by then is not among them.

    Args:
        agent: Whose conversation it is.
        approve: Who is asked about calls.
        answer: Who is asked what the agent asks.
    """

    def __init__(self, agent: AbstractAgent, approve: TerminalApprover, answer: TerminalAnswerer) -> None:
        self._agent = agent
        self._approve = approve
        self._answer = answer

    async def settle(self) -> RunOptions | None:
        """Ask about all of them.

        Returns:
            What the next run has to say about them; None if a question stays open, so that there can be no next run.
        """
        answers: dict[str, Answer] = {}
        for interrupt in self._asked():
            answer = await self._answer(interrupt)
            if answer is None:
                return None
            answers[interrupt.id] = answer
        results = await self._decisions(self._agent.pending_tool_calls)
        options: RunOptions = {}
        if answers:
            options["resume"] = answers
        if results:
            options["tool_results"] = results
        return options

    def _asked(self) -> Sequence[Interrupt]:
        """What still wants an answer: what was abandoned goes out as cancelled by itself."""
        pending = self._agent.pending_interrupts
        return () if pending and self._agent.snapshot().abandoned else pending

    async def _decisions(self, calls: Sequence[ToolCall]) -> dict[str, Approve | Deny]:
        """What is decided about calls, also those that would not want approval: nobody knows how far they came."""
        if not calls:
            return {}
        asked = RunAgentInput(
            thread_id=self._agent.thread_id,
            run_id=str(uuid4()),
            messages=self._agent.messages,
            state=self._agent.state,
        )
        tools = offered(self._agent.tools, asked)
        ours = [(call, tool) for call in calls if isinstance(tool := tools.get(call.function.name), FunctionTool)]
        return {call.id: await self._decision(call, tool, asked) for call, tool in ours}

    async def _decision(self, call: ToolCall, tool: FunctionTool[..., Any], asked: RunAgentInput) -> Approve | Deny:
        try:
            arguments = tool.bind(call.function.arguments).arguments
        except ToolError:
            # It is not carried out with these; the agent is told why.
            return Approve()
        return await self._approve(
            ApprovalRequest(
                tool_call_id=call.id,
                tool=tool.definition,
                arguments=arguments,
                thread_id=asked.thread_id,
                run_id=asked.run_id,
                messages=asked.messages,
                state=asked.state,
            )
        )
