"""How a call goes on after a run: the tool loop, shown what an exchange left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agui_client._surfaces.rounds import Following
from agui_client._tools.loop import ToolLoop
from agui_client._tools.people import People
from agui_client._tools.round import Round

if TYPE_CHECKING:
    from agui_client._asking import Asking
    from agui_client._pipeline.reduce import Reducer
    from agui_client._pipeline.replies import Replies
    from agui_client._surfaces.exchange import Exchange
    from agui_client._tools.approval import Approver
    from agui_client._tools.limits import ToolLimits
    from agui_client.interrupts import Answerer
    from agui_client.result import ToolExecution


def followed(
    asking: Asking, reducer: Reducer, approve: Approver | None, answer: Answerer | None, limits: ToolLimits
) -> Following | None:
    """How a call goes on.

    Args:
        asking: What it asks.
        reducer: Where its conversation is kept.
        approve: Asked before a tool runs that wants approval.
        answer: Asked what a run was interrupted for.
        limits: When to stop.

    Returns:
        How; None for a call that is over with its first run, because nobody here could answer anything.
    """
    loop = ToolLoop(People(approve, answer, limits.approval), limits)
    if not loop.has_answers(asking.offered) and not asking.approved:
        return None

    async def reply(exchange: Exchange) -> Replies | None:
        return await loop.reply(_round(exchange, asking))

    async def carry_out_approved(exchange: Exchange) -> Replies:
        return await loop.carry_out_approved(asking.approved, _round(exchange, asking))

    return Following(reply, asking.following(reducer), carry_out_approved if asking.approved else None)


def _round(exchange: Exchange, asking: Asking) -> Round:
    executions = exchange.course.executions

    def record(execution: ToolExecution) -> None:
        executions[execution.tool_call_id] = execution

    async def tell(execution: ToolExecution) -> None:
        await exchange.tell("on_tool_execution", execution)

    return Round(
        result=exchange.result(),
        are_named=bool(exchange.pipeline.settlement.named_pending),
        offered=asking.offered,
        warnings=exchange.plan.warnings,
        record=record,
        keep=exchange.course.answers.extend,
        tell=tell,
        trace=exchange.trace,
    )
