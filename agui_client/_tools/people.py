"""People: asking them to approve tool calls and to answer interrupts, with a time limit that denies (SEC-3)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._pipeline.ownership import quoted
from agui_client._tools.approval import Approve, Deny, as_decision
from agui_client._tools.calling import called
from agui_client.interrupts import cover

if TYPE_CHECKING:
    from ag_ui.core import Interrupt, ResumeEntry

    from agui_client._tools.approval import ApprovalRequest, Approver
    from agui_client._tools.function import ApprovalRule
    from agui_client.interrupts import Answerer

_logger = logging.getLogger("agui_client.tools")
_LEFT = "the %s was left in its thread, where nobody waits for it any more"


class People:
    """Whom to ask.

    Args:
        approve: Asked before a tool runs that wants approval; None leaves such calls to the caller.
        answer: Asked what a run was interrupted for; None leaves that to the caller.
        seconds: How long somebody has to approve; None waits for ever.
    """

    def __init__(self, approve: Approver | None, answer: Answerer | None, seconds: float | None) -> None:
        self._approve = approve
        self._answer = answer
        self._seconds = seconds

    @property
    def can_answer(self) -> bool:
        """Whether there is somebody to answer interrupts."""
        return self._answer is not None

    async def decide(self, rule: ApprovalRule, request: ApprovalRequest) -> Approve | Deny | None:
        """Have a call approved or denied.

        Args:
            rule: When such a call waits for a person.
            request: The call.

        Returns:
            The decision; None if nobody here can make it.
        """
        if not await _is_wanted(rule, request):
            return Approve()
        if self._approve is None:
            return None
        with anyio.move_on_after(self._seconds):
            return await self._decision(self._approve, request)
        return Deny(f"Nobody approved this tool call within {self._seconds:g} seconds, so it was not carried out.")

    async def _decision(self, approve: Approver, request: ApprovalRequest) -> Approve | Deny:
        call = quoted(request.tool_call_id)
        try:
            answer = await _asked(approve, request, f"approval of call {call}")
        except Exception:
            _logger.exception("the approval of call %s failed, so it is denied", call)
            return Deny("The approval of this tool call failed, so it was not carried out.")
        if not isinstance(answer, bool | Approve | Deny):
            _logger.warning("approve= returned a %s for call %s, which denies it", type(answer).__name__, call)
        return as_decision(answer)

    async def answers(
        self, interrupts: Sequence[Interrupt], keep: Callable[[Sequence[ResumeEntry]], None]
    ) -> list[ResumeEntry]:
        """Have interrupts answered.

        Args:
            interrupts: What the run waits for.
            keep: Told each answer at once, as the next question may go wrong.

        Returns:
            The answers that were given, in order; what has none is the caller's.

        Raises:
            InterruptsNotCoveredError: An answer is none, or does not fit.
        """
        if self._answer is None:
            return []
        entries: list[ResumeEntry] = []
        for interrupt in interrupts:
            answer = await _called(self._answer, interrupt, f"answer to interrupt {quoted(interrupt.id)}")
            if answer is not None:
                given = cover([interrupt], {interrupt.id: answer})
                keep(given)
                entries += given
        return entries


async def _is_wanted(rule: ApprovalRule, request: ApprovalRequest) -> bool:
    """Whether the call waits for a person: deny by default, so whatever is not plainly no is yes."""
    if isinstance(rule, str):
        return rule != "never"
    try:
        answer = await _asked(rule, request, f"approval rule of {request.name}")
    except Exception:
        _logger.exception("the approval rule of %s failed, so somebody has to approve", request.name)
        return True
    return answer is not False and answer != "never"


async def _asked(function: Callable[[Any], object], request: ApprovalRequest, what: str) -> object:
    """What a function says, which may do with what it is shown as it likes."""
    arguments, tool = copy.deepcopy(request.arguments), request.tool.model_copy(deep=True)
    return await _called(function, replace(request, arguments=arguments, tool=tool), what)


async def _called(function: Callable[[Any], object], argument: object, what: str) -> Any:
    """Call an application's function: a coroutine function here, any other in a thread."""
    return await called(partial(function, argument), what, _LEFT)
