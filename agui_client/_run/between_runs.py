"""The time between two runs of a call: tools are executed and people answer, so that the next run can go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ag_ui.core import AssistantMessage

from agui_client._interrupts.answers import answer_interrupts, answer_question
from agui_client._run.result import pending_calls
from agui_client._run.run_request import Answers, with_conversation
from agui_client._run.steering import answering
from agui_client._run.subagents import usage_of
from agui_client._tools.execute import ToolExecutor, sort_calls
from agui_client.errors import ToolRoundsExceededError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ag_ui.core import ResumeEntry, ToolCall, ToolMessage

    from agui_client._run.call import Call
    from agui_client._run.round import WaitFor
    from agui_client._tools.approval import Approve

    Save = Callable[[], Awaitable[None]]


async def approved_results(call: Call, save: Save, wait_for: WaitFor[Answers]) -> Answers:
    """Execute the tool calls that were approved with the call, or that a call before this one left unexecuted.

    Args:
        call: The call.
        save: Saves the conversation.
        wait_for: Waits for code of the application.

    Returns:
        Their results.
    """
    if not call.approved or call.state.is_stopped:
        return Answers()
    found = map(call.conversation.reducer.tool_call, call.approved)
    approved = [each for each in found if each is not None]

    async def reply() -> Answers:
        """Execute the calls; if one has another question, answers for the agent wait with it."""
        messages = await _execute(call, save, approved, call.approved)
        if call.conversation.questions:
            call.conversation.keep_answers(call.round.input.resume or ())
        return Answers(messages)

    return await _until_stopped(call, wait_for, reply)


async def answers_to(call: Call, save: Save, wait_for: WaitFor[Answers]) -> Answers:
    """Have tools and people answer what the present run left, as far as they can.

    Saves the end of the run before a person is asked, or the call ends. If only tools answer, the end of the run is
    saved with the first of their calls.

    Args:
        call: The call.
        save: Saves the conversation.
        wait_for: Waits for code of the application.

    Raises:
        ToolRoundsExceededError: Another round would pass a limit.
        InterruptsNotCoveredError: A person's answer does not fit its interrupt.
    """
    answer, interrupts = call.agent_options.get("answer"), call.round.outcome.interrupts
    may_answer = call.round.outcome.is_finished and not call.is_replay and not call.state.is_stopped
    ours, are_others_waiting = _own_calls(call) if may_answer else ([], False)
    is_asked = may_answer and bool(interrupts and answer)
    if is_asked or not ours:
        await save()
    # The call may have been stopped during the save.
    if call.state.is_stopped or not (ours or is_asked):
        return Answers()
    try:
        # Before a person is asked: an answer must not be lost to a limit.
        call.limits.check(_by_speaker(call, ours), [usage for each in call.rounds for usage in usage_of(each)])
    except ToolRoundsExceededError:
        await save()
        raise
    call.state.answer()

    async def keep(entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        call.conversation.keep_answers(entries)
        await save()

    async def reply() -> Answers:
        """Ask people, then execute the calls."""
        # People first: while they are asked nothing was executed yet, so that giving up costs nothing.
        entries = await answer_interrupts(answer, call.round.people, interrupts, keep)
        if not ours and not entries:
            return Answers()
        messages = await _execute(call, save, ours, {})
        has_all = len(entries) == len(interrupts) and len(messages) == len(ours)
        return Answers(messages, entries, is_complete=has_all and not are_others_waiting)

    return await _until_stopped(call, wait_for, reply)


def _own_calls(call: Call) -> tuple[list[ToolCall], bool]:
    """Return the calls that the run left to tools of the application, and whether others wait for the caller."""
    offered = call.tools.offered
    # Most runs leave nothing to anybody; they pay for no look at their calls.
    if call.agent_options.get("answer") is None and not any(tool.toolset for tool in offered.values()):
        return [], False
    return sort_calls(
        pending_calls(call.round),
        offered,
        withheld=call.conversation.withheld_calls(),
        are_named=bool(call.round.outcome.named_pending),
        warnings=call.warnings,
    )


def _by_speaker(call: Call, tool_calls: Sequence[ToolCall]) -> dict[str, list[ToolCall]]:
    """Return tool calls by the one who makes them: the agent itself, one of its subagents, or a member of a team."""
    by_speaker: dict[str, list[ToolCall]] = {}
    owners = {
        each.id: message.subagent_run_id
        for message in call.round.conversation.messages
        if isinstance(message, AssistantMessage)
        for each in message.tool_calls or ()
    }
    for each in tool_calls:
        # The member that speaks for a team owns nothing, but has its name in its ids.
        member = each.id.rpartition("/")[0] if call.agent.is_team else ""
        by_speaker.setdefault(owners.get(each.id) or member, []).append(each)
    return by_speaker


async def _until_stopped(call: Call, wait_for: WaitFor[Answers], reply: Callable[[], Awaitable[Answers]]) -> Answers:
    """Wait for answers; of a wait that is given up, keep the results of tools, so that no function is called twice."""
    earlier, answers = len(call.executed), None
    try:
        with answering(call.owner):
            answers = await wait_for(reply)
    finally:
        # The wait was stopped or cancelled: what tools have done by then stays done.
        if answers is None:
            done = [each.message for some in call.executed[earlier:] for each in some.values() if each.message]
            call.conversation.add_own_results(done)
    return answers or Answers()


async def _execute(
    call: Call, save: Save, tool_calls: Sequence[ToolCall], approvals: Mapping[str, Approve | None]
) -> list[ToolMessage]:
    run, conversation = call.round, call.conversation
    # A dictionary for each time, not one for all: servers use call ids again, and executions are found by them.
    call.executed.append({})
    executor = ToolExecutor(
        run_input=with_conversation(run.input, conversation),
        offered=call.tools.offered,
        approve=run.approve,
        limits=call.limits.limits,
        people=run.people,
        approved_tools=conversation.approved_tools,
        ask=partial(answer_question, run.answer, run.people),
        note=conversation.note_execution,
        observe=partial(run.observers.call, "on_tool_execution", run),
        save=save,
        note_agent=run.note_asked,
        executions=call.executed[-1],
        agent="" if run.parent is None else run.agent.name or "",
        repeated=call.request.repeated if call.request else {},
    )
    return await executor.execute(tool_calls, approvals)
