"""The tool loop: what a run left is answered by functions and people, until no call is ours (TOOL-10, TOOL-11, SEC-2).

A call is carried out at most once, and only if the run that made it finished and its tool was offered in that run. The
loop sees a run only through what it is handed; posting the next one is the surfaces' to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import anyio
from ag_ui.core import RunFinishedCancelledOutcome

from agui_client._pipeline.ownership import quoted
from agui_client._pipeline.replies import Replies
from agui_client._pipeline.threads import side_by_side
from agui_client._tools.function import FunctionTool
from agui_client._tools.handling import Handling
from agui_client.errors import ToolRoundsExceededError

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage, ToolCall, ToolMessage

    from agui_client._tools.approval import Approve
    from agui_client._tools.limits import ToolLimits
    from agui_client._tools.offer import ToolLike
    from agui_client._tools.people import People
    from agui_client._tools.round import Round

_ASKED_AT_ONCE = 64
"""How many people, or threads of one, are asked about calls at the same time."""


class ToolLoop:
    """Answers the runs of one call.

    Args:
        people: Whom to ask about approvals and interrupts.
        limits: When to stop.
    """

    def __init__(self, people: People, limits: ToolLimits) -> None:
        self._people = people
        self._limits = limits
        self._started_at = time.monotonic()
        self._rounds = 0
        self._streaks: dict[tuple[str, str], int] = {}

    def has_answers(self, offered: Mapping[str, ToolLike]) -> bool:
        """Whether there is anything it could answer: a function among the tools, or somebody to ask."""
        return self._people.can_answer or any(isinstance(tool, FunctionTool) for tool in offered.values())

    async def reply(self, over: Round) -> Replies | None:
        """Answer what a run left.

        Args:
            over: The run.

        Returns:
            The answers; None if there is nothing to do here, and what the run left is the caller's.

        Raises:
            ToolRoundsExceededError: Another round would pass a limit; the calls stay pending.
        """
        result = over.result
        if result.outcome is None or isinstance(result.outcome, RunFinishedCancelledOutcome):
            return None
        ours, is_waiting = self._sort(over)
        if not ours and not (result.interrupts and self._people.can_answer):
            return None
        # Before anybody is asked: what people say must not be lost to a limit.
        self._check_limits(over, ours)
        entries = await self._people.answers(result.interrupts, over.keep)
        if not ours and not entries:
            return None
        self._rounds += 1
        messages = await self._carry_out(ours, over)
        is_covered = len(entries) == len(result.interrupts)
        return Replies(messages, entries, goes_on=is_covered and not is_waiting and len(messages) == len(ours))

    async def carry_out_approved(self, calls: Mapping[str, tuple[ToolCall, Approve]], over: Round) -> Replies:
        """Run the tools of calls that were approved after their run was over.

        Args:
            calls: The calls and their approvals, by the id of the call.
            over: What is offered, and who is told.

        Returns:
            The results, in the order of the approvals.
        """
        approvals = {tool_call_id: approval for tool_call_id, (_, approval) in calls.items()}
        messages = await self._carry_out([call for call, _ in calls.values()], over, approvals)
        return Replies(messages)

    def _sort(self, over: Round) -> tuple[list[ToolCall], bool]:
        """The calls to answer here, and whether others wait for the caller."""
        asked_about = {interrupt.tool_call_id for interrupt in over.result.interrupts}
        ours: list[ToolCall] = []
        is_waiting = False
        for call in over.result.pending_tool_calls:
            if call.id in asked_about:
                continue
            tool = over.offered.get(call.function.name)
            if (why := over.withheld.get(call.id)) is not None:
                over.warnings.add("TOOL-11", f"tool call {quoted(call.id)} is left to the application: {why}")
                is_waiting = True
            elif isinstance(tool, FunctionTool) or (tool is None and over.are_named):
                ours.append(call)
            elif tool is not None:
                is_waiting = True
            else:
                name = quoted(call.function.name)
                over.warnings.add("TOOL-11", f"a call to {name}, which was not offered, is taken for the agent's own")
        return ours, is_waiting

    def _check_limits(self, over: Round, ours: Sequence[ToolCall]) -> None:
        """Hold the round that is to begin against the limits."""
        limits = self._limits
        made = {(call.function.name, call.function.arguments) for call in ours}
        self._streaks = {key: self._streaks.get(key, 0) + 1 for key in made}
        streak = max(self._streaks.values(), default=0)
        used = sum(map(_tokens, over.result.usage))
        seconds = time.monotonic() - self._started_at
        if limits.rounds is not None and self._rounds >= limits.rounds:
            self._stop(f"the agent still waits for answers after {self._rounds} rounds, which is ToolLimits.rounds")
        if limits.repeats is not None and streak >= limits.repeats:
            self._stop(f"the agent made the same call {streak} rounds in a row; see ToolLimits.repeats")
        if limits.seconds is not None and seconds >= limits.seconds:
            self._stop(f"the rounds took {seconds:.1f} s, and ToolLimits.seconds is {limits.seconds:g}")
        if limits.tokens is not None and used >= limits.tokens:
            self._stop(f"the rounds used {used} tokens, and ToolLimits.tokens is {limits.tokens}")

    def _stop(self, why: str) -> NoReturn:
        raise ToolRoundsExceededError(f"{why}; what was not answered is on partial", rounds=self._rounds)

    async def _carry_out(
        self, calls: Sequence[ToolCall], over: Round, approvals: Mapping[str, Approve] | None = None
    ) -> list[ToolMessage]:
        """Run the tools of calls side by side; those that nobody here may approve have no result."""
        desk, room = anyio.CapacityLimiter(_ASKED_AT_ONCE), anyio.CapacityLimiter(self._limits.at_once)
        handlings = [
            Handling(call, over, self._people, desk, room, self._limits.timeout, (approvals or {}).get(call.id))
            for call in calls
        ]
        try:
            await side_by_side([step for handling in handlings for step in (handling.run, handling.tell_progress)])
        except BaseException:
            for handling in handlings:
                handling.give_up()
            raise
        return [handling.message for handling in handlings if handling.message is not None]


def _tokens(usage: TokenUsage) -> int:
    """The total; agents may report its two parts only."""
    return max(usage.total_tokens or 0, (usage.input_tokens or 0) + (usage.output_tokens or 0))
