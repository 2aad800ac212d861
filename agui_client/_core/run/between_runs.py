"""The driver of a call outside its runs: carries out what `next_step` says, until it says to send a run or to end.

It knows no more than that question and its answer, so that a call continues in the same way after a run, at its
beginning, and where another process was cut off. It moves no phase of the call: that is the engine's.

To change

- when the conversation is saved in a round with tools: `Between.take_over` (here) before people are asked,
  `ToolCallTask` (`_core/tools/execute.py`) before a function is called, `Engine._add_answers` for all results and the
  next run. `test_the_conversation_is_saved_before_anything_happens_that_must_not_be_lost` in
  `tests/core/conversation/test_conversation.py` has the order, `tests/store/threads/test_killed.py` kills programs in
  it
- what happens between two runs of a turn: `next_step` (`_core/run/next_step.py`) says it, `Between` here does it;
  `Engine._add_answers` adds the answers to the conversation, `next_input` in `_core/run/turn_input.py` makes the next
  run's input
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from ag_ui.core import TokenUsage

from agui_client._core.conversation.ledger import CallStatus
from agui_client._core.conversation.pending import answered_question, decision_about, note_execution, open_questions
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.next_step import Able, Ask, Send, Stop, Work, next_step, role_of
from agui_client._core.run.result_building import pending_calls
from agui_client._core.run.state import Phase
from agui_client._core.run.steering import answering
from agui_client._core.run.subagents import usage_of
from agui_client._core.run.turn_input import FirstRun, next_input, with_conversation
from agui_client._core.tools.execute import ToolExecutor
from agui_client._core.tools.interrupts import answer_interrupts, answer_question, cover, given_answer, given_by_person
from agui_client.errors import ToolRoundsExceededError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ag_ui.core import ResumeEntry, RunAgentInput, ToolCall, ToolMessage

    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.run.call import Call
    from agui_client._core.run.next_step import Step
    from agui_client._core.run.round import WaitFor
    from agui_client._core.run.saving import Saving
    from agui_client._core.tools.interrupts import AnsweredInterrupt

    Save = Callable[[], Awaitable[None]]


class Between:
    """Has people and tools of a call do what is left to them, before its first run and after each.

    Args:
        saving: Saves the conversation.
    """

    def __init__(self, call: Call, saving: Saving) -> None:
        self.answered: list[AnsweredInterrupt] = []
        """The interrupts that people have answered, for the next run."""
        self._call, self._saving = call, saving
        self._aside: frozenset[str] = frozenset()
        self._tried: frozenset[str] = frozenset()
        self._is_due, self._is_open = True, False
        self._may_repeat: Callable[[ToolCallRecord], bool] | None = None
        self._has_kept, self._next = False, cast("Step", Send())

    def begin(self) -> None:
        """Begin with what the caller brought, which is in the conversation now."""
        request = self._call.request
        if request is not None and not request.first_run.is_sent_at_once:
            self._is_open, self._aside, self._tried = True, frozenset(request.aside), frozenset(request.postponed)
            if request.first_run is FirstRun.REOPENED:
                self._may_repeat = partial(request.may_repeat, self._call.tools)
        self.look()

    # --- the question

    def _able(self, *, can_answer: bool) -> Able:
        return Able(self._call.tools.offered, can_answer, self._is_due, self._aside, self._tried, self._may_repeat)

    def look(self) -> None:
        """Ask what comes next, after the conversation has changed."""
        if self._is_open:
            can_answer = self._call.agent_options.get("answer") is not None
            self._next = next_step(self._call.conversation, self._able(can_answer=can_answer))
        else:
            self._next = Send() if self._is_due else Stop()

    @property
    def step(self) -> Ask | Work | None:
        """The work of people and tools that is due now; None if there is none."""
        step = self._next
        return step if isinstance(step, Ask | Work) and not self._call.state.is_stopped else None

    @property
    def is_sent(self) -> bool:
        """Whether a run is sent next, if nobody stops the call."""
        return isinstance(self._next, Send)

    def begins_first_run(self) -> bool:
        """Return whether the first run is sent, with all answers that were given meanwhile.

        Raises:
            InterruptsNotCoveredError: Nobody has answered what the agent waits for.
        """
        call, is_sent = self._call, self._call.state.is_stopped or self.is_sent
        is_reopened = call.request is not None and call.request.first_run is FirstRun.REOPENED
        # Where a process was cut off as it asked people, what they do not answer now waits for the caller.
        if not is_sent and not call.executed and not is_reopened:
            cover([each for each in call.conversation.pending_interrupts if each.id not in self._aside], None)
            cover([each.interrupt for each in open_questions(call.conversation)], None)
        if is_sent and (self.answered or self._has_kept):
            run = call.round
            run.answered, self.answered = [*run.answered, *self.answered], []
            run.input = run.input.model_copy(update={"resume": [*call.conversation.kept_answers]})
        return is_sent

    # --- after a run

    async def take_over(self) -> None:
        """Take over what a run left: save it before a person is asked, or the call ends, and check the limits.

        If only tools are called, the end of the run is saved with the first of their calls.

        Raises:
            ToolRoundsExceededError: Another round would pass a limit.
        """
        call, outcome = self._call, self._call.round.outcome
        self._aside = self._tried = frozenset()
        self._may_repeat, self._is_due = None, False
        has_hands = call.agent_options.get("answer") is not None or any(
            tool.toolset for tool in call.tools.offered.values()
        )
        # Most runs leave nothing to anybody; they pay for no look at their calls.
        self._is_open = outcome.is_finished and not call.is_replay and has_hands
        self.look()
        step = self.step
        if self._is_open and not call.state.is_stopped:
            self._warn()
        if not isinstance(step, Work):
            await self._saving.save(is_at_end=step is None)
        if step is None or call.state.is_stopped:
            return
        try:
            # Before a person is asked: an answer must not be lost to a limit.
            work = step if isinstance(step, Work) else next_step(call.conversation, self._able(can_answer=False))
            call.limits.check(_by_speaker(call, work.calls if isinstance(work, Work) else ()), self._usage())
        except ToolRoundsExceededError:
            await self._saving.save(is_at_end=True)
            raise

    def _usage(self) -> list[TokenUsage]:
        """Return the tokens that the call has used so far, with an empty entry for a run that reported none."""
        unreported = [TokenUsage()]
        return [each for run in self._call.rounds for each in usage_of(run.outcome, run.tool_events) or unreported]

    def _warn(self) -> None:
        """Warn of calls of the run that are left out, or are executed against expectations (TOOL-11)."""
        call, offered = self._call, self._call.tools.offered
        if not (pending := pending_calls(call.round)):
            return
        able = self._able(can_answer=False)
        for each in pending:
            name, record = each.function.name, call.conversation.ledger.get(each.id)
            why = "" if record is None else role_of(record, able, is_offered=name in offered)[1]
            if why:
                call.warnings.add("TOOL-11", f"tool call {quoted(each.id)} is left to the application: {why}")
            elif name not in offered and not call.round.outcome.named_pending:
                what = f"a call to {quoted(name)}, which was not offered, is taken for the agent's own"
                call.warnings.add("TOOL-11", what)

    # --- carrying a step out

    async def carry_out(self, step: Ask | Work, wait_for: WaitFor[None]) -> Sequence[ToolMessage]:
        """Have people or tools do a step; return the results of tool calls.

        Args:
            wait_for: Waits for code of the application.

        Raises:
            InterruptsNotCoveredError: A person's answer does not fit its interrupt.
        """
        call, earlier = self._call, len(self._call.executed)
        messages: list[ToolMessage] | None = [] if isinstance(step, Ask) else None

        async def reply() -> None:
            """Ask or execute, and count the time of people."""
            nonlocal messages
            with call.people_time.counted():
                if isinstance(step, Ask):
                    await self._ask(step)
                else:
                    messages = await self._execute(step.calls)

        try:
            with answering(call.owner):
                await wait_for(reply)
        finally:
            # The wait was stopped or cancelled: what tools have done by then stays done.
            if messages is None:
                done = [each.message for some in call.executed[earlier:] for each in some.values() if each.message]
                call.conversation.add_results(done, are_own=True)
                self._withdraw(step)
        return messages or ()

    def _withdraw(self, step: Ask | Work) -> None:
        """Take back decisions about calls that were not begun, if the call was stopped: the stop is the last word.

        A wait that was cancelled says nothing about them: the process may end, and another one continues.
        """
        for each in step.calls if isinstance(step, Work) and self._call.state.is_stopped else ():
            self._call.conversation.ledger.withdraw(each.id)

    async def _ask(self, step: Ask) -> None:
        # While people are asked nothing was executed yet, so that giving up costs nothing.
        answerer, people = self._call.agent_options.get("answer"), self._call.round.people
        assert answerer is not None
        answered = await answer_interrupts(answerer, people, step.interrupts, self._keep)
        self.answered += answered
        self._tried |= {each.id for each in step.interrupts}
        self._is_due = self._is_due or bool(answered)
        for each in step.questions:
            given, key = await given_by_person(answerer, people, each.interrupt), each.interrupt.tool_call_id or ""
            if given is None:
                self._tried |= {key}
            else:
                self._call.conversation.ledger.answer_question(key, given_answer(each.interrupt, given))
                await self._saving.save()

    async def _keep(self, entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        self._call.conversation.keep_answers(entries)
        await self._saving.save()

    async def _execute(self, calls: Sequence[ToolCall]) -> list[ToolMessage]:
        run, conversation = self._call.round, self._call.conversation
        if run.input.resume and self._call.state.phase is Phase.READY:
            # Answers that came with the call wait for its functions, and are saved with them.
            conversation.keep_answers(run.input.resume)
            self._has_kept = True
        messages = await _execute(self._call, self._saving.save, calls)
        left = {each.id for each in calls} - {each.tool_call_id for each in messages}
        is_meant = run.people is not None and run.people.fallback == "leave"
        if left and run.approve is None and not self._call.has_caller and not is_meant:
            self._warn_of_approvals([each for each in calls if each.id in left])
        self._tried |= left
        self._is_due = True
        return messages

    def _warn_of_approvals(self, calls: Iterable[ToolCall]) -> None:
        """Warn of calls that wait for an approval which nobody is asked for.

        `People(fallback="leave")` says that they are decided later; else `approve=` may be forgotten.
        """
        for each in calls:
            record = self._call.conversation.ledger.get(each.id)
            if record is not None and record.status is CallStatus.WAITING:
                what = f"tool call {quoted(each.id)} of {quoted(each.function.name)} waits for approval"
                how = "nobody is asked without approve=; give it, or run_agent(tool_results={call.id: Approve()})"
                how += ', which people=People(fallback="leave") announces'
                self._call.warnings.add("TOOL-11", f"{what}: {how}")

    # --- the next run

    def prepare_next_run(self, run_id: str) -> RunAgentInput | None:
        """Add the messages that the next run brings to the conversation; if none follows, refuse further ones.

        A run follows if all that the run before it left was answered or executed here, or if it left nothing and the
        user steers.

        Args:
            run_id: The id of the next run.

        Returns:
            The input of the next run, its tools left out; None if no run follows.

        Raises:
            ToolRoundsExceededError: The call has spent what it may.
        """
        call = self._call
        # A message that came between the question and what follows from it would be accepted, and never sent.
        with call.steering.lock:
            messages = call.steering.unsent
            # Nearly always nobody steers, and whether the run is settled takes longer to find out.
            follows = self.is_sent or (messages and self._is_settled())
            if call.state.is_stopped or not follows:
                call.steering.close()
                return None
            if messages and call.limits.limits.cost is not None:
                # No round of tools may have come before this run.
                call.limits.check_cost(self._usage())
            call.steering.clear()
        if messages:
            call.conversation.add_messages(messages)
        return next_input(call.round.input, call.conversation, run_id, [each.entry for each in self.answered])

    def _is_settled(self) -> bool:
        """Return whether the present run has finished, and left nothing to answer."""
        call, conversation = self._call, self._call.conversation
        is_open = conversation.pending_interrupts or open_questions(conversation) or pending_calls(call.round)
        return call.round.outcome.is_finished and not call.is_replay and not is_open


def _by_speaker(call: Call, tool_calls: Sequence[ToolCall]) -> dict[str, list[ToolCall]]:
    """Return tool calls by the one who makes them: the agent itself, one of its subagents, or a member of a team."""
    by_speaker: dict[str, list[ToolCall]] = {}
    for each in tool_calls:
        place = call.round.conversation.place_of_call(each.id)
        owner = None if place is None else place[0].subagent_run_id
        # The member that speaks for a team owns nothing, but has its name in its ids.
        member = each.id.rpartition("/")[0] if call.agent.is_team else ""
        by_speaker.setdefault(owner or member, []).append(each)
    return by_speaker


async def _execute(call: Call, save: Save, tool_calls: Sequence[ToolCall]) -> list[ToolMessage]:
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
        decided=partial(decision_about, conversation),
        note=partial(note_execution, conversation),
        observe=partial(run.observers.call, "on_tool_execution", run),
        save=save,
        note_event=run.note_tool_event,
        executions=call.executed[-1],
        agent="" if run.parent is None else run.agent.name or "",
        repeated=partial(answered_question, conversation),
        leaving=call.leaving,
    )
    return await executor.execute(tool_calls)
