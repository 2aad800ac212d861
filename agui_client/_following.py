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
    from agui_client.conversation import Conversation
    from agui_client.interrupts import Answerer
    from agui_client.result import ToolExecution


def followed(
    asking: Asking,
    conversation: Conversation,
    reducer: Reducer,
    approve: Approver | None,
    answer: Answerer | None,
    limits: ToolLimits,
) -> Following | None:
    """How a call goes on.

    Args:
        asking: What it asks.
        conversation: The conversation.
        reducer: Where the call's view of it is kept.
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
        """Answer what a run left."""
        return await loop.reply(_round(exchange, asking, conversation))

    async def carry_out_approved(exchange: Exchange) -> Replies:
        """Carry out what was approved with what is asked."""
        return await loop.carry_out_approved(asking.approved, _round(exchange, asking, conversation))

    return Following(reply, asking.following(reducer), carry_out_approved if asking.approved else None)


def _round(exchange: Exchange, asking: Asking, conversation: Conversation) -> Round:
    executions = exchange.course.executions

    def record(execution: ToolExecution) -> None:
        """Keep how far a call has come, and that its function was called."""
        executions[execution.tool_call_id] = execution
        if execution.status == "running":
            conversation.executed_call_ids[execution.tool_call_id] = None

    async def tell(execution: ToolExecution) -> None:
        """Tell subscribers how far a call has come."""
        await exchange.tell("on_tool_execution", execution)

    return Round(
        result=exchange.result(),
        are_named=bool(exchange.pipeline.settlement.named_pending),
        offered=asking.offered,
        withheld=_withheld(exchange, conversation),
        warnings=exchange.plan.warnings,
        record=record,
        keep=exchange.course.answers.extend,
        tell=tell,
        trace=exchange.trace,
    )


def _withheld(exchange: Exchange, conversation: Conversation) -> dict[str, str]:
    """Which calls no function is to be called for, and why."""
    settled = exchange.pipeline.settlement
    unfinished = {*conversation.unfinished_call_ids} - settled.tool_call_ids.keys() | {*settled.unfinished_call_ids}
    incomplete = {*conversation.incomplete_ids} - settled.completed_ids | {*exchange.incomplete_ids}
    return {
        **dict.fromkeys(unfinished, "the run that made it did not finish"),
        **dict.fromkeys(incomplete, "its arguments never ended"),
        **dict.fromkeys(conversation.executed_call_ids, "its function was called before"),
    }
