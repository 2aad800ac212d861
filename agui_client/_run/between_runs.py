"""The time between two runs of a call: tools are executed and people answer, so that the next run can go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agui_client._interrupts.answers import answer_interrupts, answer_question
from agui_client._run.result import pending_calls
from agui_client._run.run_request import Answers, with_conversation
from agui_client._tools.execute import ToolExecutor, sort_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ag_ui.core import ResumeEntry, ToolCall, ToolMessage

    from agui_client._run.engine import Engine
    from agui_client._tools.approval import Approve


async def approved_results(engine: Engine) -> Answers:
    """Execute the calls that were approved with the call; return their results."""
    if not engine.approved or engine.is_stopped:
        return Answers()
    found = map(engine.conversation.reducer.tool_call, engine.approved)
    calls = [call for call in found if call is not None]

    async def reply() -> Answers:
        """Execute the calls; if one has another question, answers for the agent wait with it."""
        messages = await _execute(engine, calls, engine.approved)
        if engine.conversation.questions:
            engine.conversation.keep_answers(engine.input.resume or ())
        return Answers(messages)

    return await _until_stopped(engine, reply)


async def answers_to(engine: Engine) -> Answers:
    """Have tools and people answer what the run left, as far as they can.

    Raises:
        ToolRoundsExceededError: Another round would pass a limit.
        InterruptsNotCoveredError: A person's answer does not fit its interrupt.
    """
    answer, outcome, offered = engine.setup.options.get("answer"), engine.outcome, engine.tools.offered
    if not outcome.is_finished or engine.setup.is_replay or engine.is_stopped:
        return Answers()
    if answer is None and not any(tool.toolset for tool in offered.values()):
        return Answers()
    ours, are_others_waiting = sort_calls(
        pending_calls(engine),
        offered,
        withheld=engine.conversation.withheld_calls(),
        are_named=bool(outcome.named_pending),
        warnings=engine.warnings,
    )
    if not ours and not (outcome.interrupts and answer):
        return Answers()
    # Before anybody is asked: an answer of a person must not be lost to a limit.
    engine.rounds.check(ours, [usage for each in engine.outcomes for usage in each.usage])
    engine.is_answering = True

    async def keep(entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        engine.conversation.keep_answers(entries)
        await engine.saving.save()

    async def reply() -> Answers:
        """Ask people, then execute the calls."""
        entries = await answer_interrupts(answer, outcome.interrupts, keep)
        if not ours and not entries:
            return Answers()
        messages = await _execute(engine, ours, {})
        has_all = len(entries) == len(outcome.interrupts) and len(messages) == len(ours)
        return Answers(messages, entries, is_complete=has_all and not are_others_waiting)

    return await _until_stopped(engine, reply)


async def _until_stopped(engine: Engine, reply: Callable[[], Awaitable[Answers]]) -> Answers:
    """Wait for answers; of a wait that is given up, keep what tools have done: nothing is done twice."""
    earlier, answers = set(engine.executions), None
    try:
        answers = await engine.wait_for(reply)
    finally:
        if answers is None:
            done = [each.message for key, each in engine.executions.items() if key not in earlier and each.message]
            engine.conversation.add_own_results(done)
    return answers or Answers()


async def _execute(engine: Engine, calls: Sequence[ToolCall], approvals: Mapping[str, Approve]) -> list[ToolMessage]:
    scope = engine.scope
    executor = ToolExecutor(
        run_input=with_conversation(engine.input, engine.conversation),
        offered=engine.tools.offered,
        approve=scope.approve,
        limits=engine.rounds.limits,
        ask=partial(answer_question, scope.answer),
        note=engine.conversation.note_execution,
        observe=partial(engine.setup.observers.call, "on_tool_execution", scope),
        save=engine.saving.save,
        executions=engine.executions,
        agent="" if scope.parent is None else scope.agent.name or "",
        repeated=engine.request.repeated if engine.request else {},
    )
    return await executor.execute(calls, approvals)
