"""The time between two runs of a call: tools are executed and people answer, so that the next run can go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agui_client._interrupts.answers import answer_interrupts, asker
from agui_client._run.result import pending_calls
from agui_client._run.run_request import Answers, with_conversation
from agui_client._tools.execute import ToolExecutor, sort_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ag_ui.core import ResumeEntry, ToolCall, ToolMessage

    from agui_client._run.engine import Engine
    from agui_client._tools.approval import Approve


class BetweenRuns:
    """The work of tools and people for one run: on the calls that were approved before it, and on all that it left.

    Args:
        engine: The call.
    """

    def __init__(self, engine: Engine) -> None:
        self.kept_entries: list[ResumeEntry] = []
        """Answers to interrupts that were given here while others wait for the caller."""
        self.is_waiting = False
        """Whether tools or people are at work; still true if the wait for them was cancelled."""
        self.is_answering = False
        """Whether tools or people answer what the run left, or have answered it."""
        self._engine = engine

    async def approved(self) -> Answers:
        """Execute the calls that were approved with the call; return their results."""
        engine = self._engine
        if not engine.approved or engine.is_stopped:
            return Answers()
        found = map(engine.conversation.reducer.tool_call, engine.approved)
        calls = [call for call in found if call is not None]

        async def execute() -> Answers:
            """Execute the calls; if one has another question, answers for the agent wait with it."""
            messages = await self._execute(calls, engine.approved)
            return Answers(messages, (engine.input.resume or ()) if engine.conversation.questions else ())

        return await self._until_stopped(execute)

    async def answers(self) -> Answers:
        """Have tools and people answer what the run left, as far as they can.

        Raises:
            ToolRoundsExceededError: Another round would pass a limit.
            InterruptsNotCoveredError: A person's answer does not fit its interrupt.
        """
        engine, answer = self._engine, self._engine.setup.options.get("answer")
        outcome, offered = engine.outcome, engine.tools.offered
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
        self.is_answering = True

        async def reply() -> Answers:
            """Ask people, then execute the calls."""
            entries = await answer_interrupts(answer, outcome.interrupts, self._keep)
            if not ours and not entries:
                return Answers()
            messages = await self._execute(ours, {})
            has_all = len(entries) == len(outcome.interrupts) and len(messages) == len(ours)
            return Answers(messages, entries, is_complete=has_all and not are_others_waiting)

        return await self._until_stopped(reply)

    async def _until_stopped(self, reply: Callable[[], Awaitable[Answers]]) -> Answers:
        """Wait for answers; of a wait that is given up, keep what tools and people have done: nothing is done twice."""
        engine, earlier = self._engine, set(self._engine.executions)
        self.kept_entries.clear()
        self.is_waiting = True
        answers: Answers | None = None
        try:
            answers = await engine.wait_for(reply)
        finally:
            if answers is None:
                done = [each.message for key, each in engine.executions.items() if key not in earlier and each.message]
                engine.conversation.add_results(done)
                engine.conversation.keep_answers(self.kept_entries)
        self.is_waiting = False
        return answers or Answers()

    async def _execute(self, calls: Sequence[ToolCall], approvals: Mapping[str, Approve]) -> list[ToolMessage]:
        engine, scope = self._engine, self._engine.scope
        executor = ToolExecutor(
            run_input=with_conversation(engine.input, engine.conversation),
            offered=engine.tools.offered,
            approve=scope.approve,
            limits=engine.rounds.limits,
            ask=asker(scope.answer),
            note=engine.conversation.note_execution,
            observe=partial(engine.setup.observers.call, "on_tool_execution", scope),
            save=engine.saving.save,
            executions=engine.executions,
            agent="" if scope.parent is None else scope.agent.name or "",
            repeated=engine.request.repeated if engine.request else {},
        )
        return await executor.execute(calls, approvals)

    async def _keep(self, entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        self.kept_entries.extend(entries)
        await self._engine.saving.save()
