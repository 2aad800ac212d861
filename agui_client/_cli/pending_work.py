"""Interrupts and tool calls that an earlier run left, or whose effect is unknown: asked about before the next one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import RunAgentInput
from rich.text import Text

from agui_client._core.protocol.placeholders import UNKNOWN_RESULT
from agui_client._core.tools.approval import ApprovalRequest, Approve, Deny
from agui_client._core.tools.toolset import CallTools
from agui_client._rendering.form_dialog import LeftError
from agui_client.errors import ToolError
from agui_client.terminal._lines import one_line
from agui_client.terminal._questions import WithdrawnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Interrupt, ToolCall

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.interrupts import Answer
    from agui_client._core.tools.toolset import OfferedTool
    from agui_client.terminal._handlers import TerminalAnswerer, TerminalApprover
    from agui_client.terminal._questions import Keyboard, Terminal


class PendingWork:
    """The interrupts and tool calls of a conversation that wait for an answer.

    Args:
        agent: The agent, with the conversation.
        approve: Asks the user about calls.
        answer: Asks the user to answer interrupts.
        terminal: Asks the user for the results of calls whose effect is unknown.
    """

    def __init__(
        self, agent: AbstractAgent, approve: TerminalApprover, answer: TerminalAnswerer, terminal: Terminal
    ) -> None:
        self._agent = agent
        self._approve = approve
        self._answer = answer
        self.terminal = terminal
        """Asks the user for the results of calls whose effect is unknown."""
        self._asked: set[tuple[str, str]] = set()

    async def settle(self) -> RunOptions | None:
        """Ask about all of them.

        Returns:
            The keywords of the next run; None if an interrupt stays open, so that no run can follow.
        """
        answers: dict[str, Answer] = {}
        for interrupt in self._open_interrupts():
            answer = await self._answer(interrupt)
            if answer is None:
                return None
            answers[interrupt.id] = answer
        unknown, pending = self._agent.unknown_tool_calls, self._agent.pending_tool_calls
        known = await self._known_results(unknown)
        stopped = {call.id for call in unknown}
        # The agent has a placeholder for the results of the others whose effect is unknown.
        untold = {call.id: ToolError(UNKNOWN_RESULT) for call in pending if call.id in stopped}
        decisions = await self._decisions([call for call in pending if call.id not in stopped])
        results: dict[str, Any] = {**decisions, **untold, **known}
        options: RunOptions = {}
        if answers:
            options["resume"] = answers
        if results:
            options["tool_results"] = results
        return options

    def _open_interrupts(self) -> Sequence[Interrupt]:
        """Return the interrupts to answer; abandoned ones are cancelled by the next run."""
        pending = self._agent.pending_interrupts
        return () if pending and self._agent.snapshot().abandoned else pending

    async def _known_results(self, calls: Sequence[ToolCall]) -> dict[str, str]:
        """Ask for the results of calls whose tools were stopped, once for each; return those that the user knows."""
        new = [call for call in calls if (self._agent.thread_id, call.id) not in self._asked]
        if not new or not self.terminal.can_ask():
            return {}
        self._asked.update((self._agent.thread_id, call.id) for call in new)
        try:
            return await self.terminal.ask(lambda keyboard: self._typed_results(new, keyboard))
        except WithdrawnError:
            return {}

    def _typed_results(self, calls: Sequence[ToolCall], keyboard: Keyboard) -> dict[str, str]:
        results: dict[str, str] = {}
        with suppress(LeftError):
            for call in calls:
                shown = one_line(f"{call.function.name} {call.function.arguments}")
                self.terminal.console.print(Text(f"The tool {shown} was stopped; it may have had its effect or not."))
                if typed := keyboard.read("Its result, if you know it (Enter: unknown): ").strip():
                    results[call.id] = typed
        return results

    async def _decisions(self, calls: Sequence[ToolCall]) -> dict[str, Approve | Deny]:
        """Ask about calls, also about those without an approval rule: they may have begun before."""
        if not calls:
            return {}
        run_input = RunAgentInput(
            thread_id=self._agent.thread_id,
            run_id=str(uuid4()),
            messages=self._agent.messages,
            state=self._agent.state,
        )
        async with CallTools(self._agent.tools) as tools:
            await tools.offer(run_input)
            offered = [(call, tools.offered.get(call.function.name)) for call in calls]
            ours = [(call, tool) for call, tool in offered if tool is not None and tool.toolset is not None]
            return {call.id: await self._decision(call, tool, run_input) for call, tool in ours}

    async def _decision(self, call: ToolCall, tool: OfferedTool, run_input: RunAgentInput) -> Approve | Deny:
        try:
            bound = tool.bind(call.id, call.function.arguments)
        except ToolError:
            # The call fails with a message for the agent that says why.
            return Approve()
        decision = await self._approve(
            ApprovalRequest(
                tool_call_id=call.id,
                tool=tool.definition,
                arguments=bound.arguments,
                thread_id=run_input.thread_id,
                run_id=run_input.run_id,
                messages=run_input.messages,
                state=run_input.state,
                message=tool.question(bound),
            )
        )
        # What the user saw is carried out, also if the call was another one when it began to wait.
        if isinstance(decision, Approve) and decision.arguments is None:
            return replace(decision, arguments=bound.arguments)
        return decision
