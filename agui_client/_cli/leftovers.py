"""What a conversation was left with: questions and calls that wait since a run was stopped, or the file was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from ag_ui.core import AssistantMessage, RunAgentInput

from agui_client._tools.approval import ApprovalRequest, Approve, Deny
from agui_client._tools.function import FunctionTool
from agui_client._tools.offer import offered
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ag_ui.core import ToolCall

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
        for interrupt in self._agent.pending_interrupts:
            answer = await self._answer(interrupt)
            if answer is None:
                return None
            answers[interrupt.id] = answer
        results = {call.id: result for call in self._calls() if (result := await self._decision(call)) is not None}
        options: RunOptions = {}
        if answers:
            options["resume"] = answers
        if results:
            options["tool_results"] = results
        return options

    def _calls(self) -> Iterator[ToolCall]:
        pending = self._agent.snapshot().pending_tool_call_ids
        for message in self._agent.messages:
            if isinstance(message, AssistantMessage):
                yield from (call for call in message.tool_calls or () if call.id in pending)

    async def _decision(self, call: ToolCall) -> Approve | Deny | None:
        """What is decided about a call, also one that would not want approval: nobody knows how far it came."""
        asked = RunAgentInput(
            thread_id=self._agent.thread_id,
            run_id=str(uuid4()),
            messages=self._agent.messages,
            state=self._agent.state,
        )
        tool = offered(self._agent.tools, asked).get(call.function.name)
        if not isinstance(tool, FunctionTool):
            return None
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
