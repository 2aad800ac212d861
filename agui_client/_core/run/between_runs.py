"""The time between two runs of a call: tools are executed and people answer, so that the next run can go on.

Two questions, which change nothing, have an action each. What is left? `work_left` says it, and `execute_and_ask` has
it done, once `begin_work` has admitted it. What is sent next? `messages_of_next_run` says it, and `prepare_next_run`
adds it to the conversation. None of them moves the phase of the call: that is the engine's.

To change

- when the conversation is saved in a round with tools: `begin_work` (here) before people are asked, `ToolCallTask`
  (`_core/tools/execute.py`) before a function is called, `Engine._add_answers` for all results and the next run.
  `test_the_conversation_is_saved_before_anything_happens_that_must_not_be_lost` in `tests/test_conversation.py` has the
  order, `tests/threads/test_killed.py` kills programs in it
- what happens between two runs of a call: this module has two questions without effects, `work_left` and
  `messages_of_next_run`, and their actions, `execute_and_ask` and `prepare_next_run`; `Engine._add_answers` adds the
  answers to the conversation, `next_input` in `_core/run/run_request.py` makes the next run's input
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agui_client._core.conversation.answer_checks import withheld_calls
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.run.result import pending_calls
from agui_client._core.run.run_request import Answers, next_input, with_conversation
from agui_client._core.run.steering import answering
from agui_client._core.run.subagents import usage_of
from agui_client._core.tools.execute import ToolExecutor, sort_calls
from agui_client._core.tools.interrupts import answer_interrupts, answer_question, given_by_person
from agui_client.errors import ToolRoundsExceededError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ag_ui.core import Interrupt, Message, ResumeEntry, RunAgentInput, ToolCall, ToolMessage

    from agui_client._core.run.call import Call
    from agui_client._core.run.ending import Saving
    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.round import WaitFor
    from agui_client._core.tools.interrupts import AnsweredInterrupt

    Save = Callable[[], Awaitable[None]]


async def ask_again(call: Call, prompt: object) -> tuple[RunOptions, list[AnsweredInterrupt]]:
    """Ask people the questions again that earlier calls left open, for a call that brings neither prompt nor answers.

    Args:
        call: The call, whose first run is yet to be made.
        prompt: The prompt.

    Returns:
        The keywords of the call with the answers to questions of tools; and the interrupts of the agent that were
        answered, whose answers the conversation keeps for the next run.
    """
    conversation, options = call.conversation, call.options
    answerer, people = call.agent_options.get("answer"), call.agent_options.get("people")
    is_answered = "resume" in options or "tool_results" in options
    if prompt is not None or is_answered or answerer is None or conversation.is_abandoned:
        return options, []

    async def keep(entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        conversation.keep_answers(entries)

    with call.people_time.counted(), answering(call.owner):
        answered = await answer_interrupts(answerer, people, conversation.pending_interrupts, keep)
        questions = [each.interrupt for each in conversation.questions]
        for_tools = {each.id: await given_by_person(answerer, people, each) for each in questions}
    resume = {key: each for key, each in for_tools.items() if each is not None}
    if resume:
        options = options.copy()
        options["resume"] = resume
    return options, answered


async def execute_approved(call: Call, save: Save, wait_for: WaitFor[Answers]) -> Answers:
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
    found = map(call.conversation.tool_call, call.approved)
    approved = [each for each in found if each is not None]

    async def reply() -> Answers:
        """Execute the calls; if one has another question, answers for the agent wait with it."""
        messages = await _execute(call, save, approved)
        if call.conversation.questions:
            call.conversation.keep_answers(call.round.input.resume or ())
        return Answers(messages)

    return await _until_stopped(call, wait_for, reply)


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a run left to tools and people on this side."""

    tool_calls: Sequence[ToolCall] = ()
    """The tool calls to execute."""
    interrupts: Sequence[Interrupt] = ()
    """The interrupts to ask people about."""
    is_all: bool = False
    """Whether nothing else that the run left waits for an answer of the caller."""
    warnings: Sequence[str] = ()
    """Warnings about calls that are left out, or are executed against expectations (TOOL-11)."""


def work_left(call: Call) -> Work:
    """Return what the present run left to tools and people on this side."""
    outcome, offered = call.round.outcome, call.tools.offered
    if not outcome.is_finished or call.is_replay or call.state.is_stopped:
        return Work()
    has_answerer = call.agent_options.get("answer") is not None
    # Most runs leave nothing to anybody; they pay for no look at their calls.
    if not has_answerer and not any(tool.toolset for tool in offered.values()):
        return Work()
    tool_calls, are_others_waiting, warnings = sort_calls(
        pending_calls(call.round),
        offered,
        withheld=withheld_calls(call.conversation),
        are_named=bool(outcome.named_pending),
    )
    interrupts = outcome.interrupts if has_answerer else ()
    is_all = not are_others_waiting and len(interrupts) == len(outcome.interrupts)
    return Work(tool_calls, interrupts, is_all, warnings)


async def begin_work(call: Call, work: Work, saving: Saving) -> bool:
    """Save the end of the run before a person is asked, or the call ends, and check the limits of tool rounds.

    If only tools answer, the end of the run is saved with the first of their calls.

    Args:
        call: The call.
        work: The work that the run left.
        saving: Saves the conversation.

    Returns:
        Whether there is work, and the call was not stopped.

    Raises:
        ToolRoundsExceededError: Another round would pass a limit.
    """
    for each in work.warnings:
        call.warnings.add("TOOL-11", each)
    if work.interrupts or not work.tool_calls:
        await saving.save(is_at_end=not work.interrupts)
    # The call may have been stopped during the save.
    if call.state.is_stopped or not (work.tool_calls or work.interrupts):
        return False
    try:
        # Before a person is asked: an answer must not be lost to a limit.
        usage = [each for run in call.rounds for each in usage_of(run)]
        call.limits.check(_by_speaker(call, work.tool_calls), usage)
    except ToolRoundsExceededError:
        await saving.save(is_at_end=True)
        raise
    return True


async def execute_and_ask(call: Call, work: Work, save: Save, wait_for: WaitFor[Answers]) -> Answers:
    """Have people and tools do the work that a run left, as far as they can; return their answers.

    Args:
        call: The call.
        work: The work, which has begun.
        save: Saves the conversation.
        wait_for: Waits for code of the application.

    Raises:
        InterruptsNotCoveredError: A person's answer does not fit its interrupt.
    """

    async def keep(entries: Sequence[ResumeEntry]) -> None:
        """Keep answers that a person gave, before the next question is asked."""
        call.conversation.keep_answers(entries)
        await save()

    async def reply() -> Answers:
        """Ask people, then execute the calls."""
        # People first: while they are asked nothing was executed yet, so that giving up costs nothing.
        answerer = call.agent_options.get("answer")
        answered = await answer_interrupts(answerer, call.round.people, work.interrupts, keep)
        if not work.tool_calls and not answered:
            return Answers()
        messages = await _execute(call, save, work.tool_calls)
        has_all = len(answered) == len(work.interrupts) and len(messages) == len(work.tool_calls)
        return Answers(messages, answered, is_complete=has_all and work.is_all)

    return await _until_stopped(call, wait_for, reply)


def messages_of_next_run(call: Call, answers: Answers) -> list[Message] | None:
    """Return the messages of the user that the next run brings; None if no run follows.

    A run follows if everything that the run before it left has its answer here, or if it left nothing and the user
    steers.

    Args:
        call: The call, between two runs.
        answers: The answers of tools and people to the run before.
    """
    if call.state.is_stopped:
        return None
    steered = call.steering.unsent
    # Nearly always nobody steers, and whether the run is settled takes longer to find out.
    return steered if answers.is_complete or (steered and _is_settled(call)) else None


def prepare_next_run(call: Call, answers: Answers) -> RunAgentInput | None:
    """Add the messages that the next run brings to the conversation; if none follows, refuse further ones.

    Args:
        call: The call, between two runs.
        answers: The answers of tools and people to the run before.

    Returns:
        The input of the next run, its tools left out; None if no run follows.
    """
    # A message that came between the question and what follows from it would be accepted, and never sent.
    with call.steering.lock:
        messages = messages_of_next_run(call, answers)
        if messages is None:
            call.steering.close()
            return None
        call.steering.clear()
    if messages:
        call.conversation.add_messages(messages)
    return next_input(call.round.input, call.conversation, answers)


def _is_settled(call: Call) -> bool:
    """Return whether the present run has finished, and left nothing to answer."""
    conversation = call.conversation
    is_open = conversation.pending_interrupts or conversation.questions or pending_calls(call.round)
    return call.round.outcome.is_finished and not call.is_replay and not is_open


def _by_speaker(call: Call, tool_calls: Sequence[ToolCall]) -> dict[str, list[ToolCall]]:
    """Return tool calls by the one who makes them: the agent itself, one of its subagents, or a member of a team."""
    by_speaker: dict[str, list[ToolCall]] = {}
    owners = {each.id: message.subagent_run_id for message, each in tool_calls_in(call.round.conversation.messages)}
    for each in tool_calls:
        # The member that speaks for a team owns nothing, but has its name in its ids.
        member = each.id.rpartition("/")[0] if call.agent.is_team else ""
        by_speaker.setdefault(owners.get(each.id) or member, []).append(each)
    return by_speaker


async def _until_stopped(call: Call, wait_for: WaitFor[Answers], reply: Callable[[], Awaitable[Answers]]) -> Answers:
    """Wait for answers; of a wait that is given up, keep the results of tools, so that no function is called twice."""
    earlier, answers = len(call.executed), None

    async def counted() -> Answers:
        """Have the answers given, and count the time of people."""
        with call.people_time.counted():
            return await reply()

    try:
        with answering(call.owner):
            answers = await wait_for(counted)
    finally:
        # The wait was stopped or cancelled: what tools have done by then stays done.
        if answers is None:
            done = [each.message for some in call.executed[earlier:] for each in some.values() if each.message]
            call.conversation.add_results(done, are_own=True)
    return answers or Answers()


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
        decided=conversation.decision,
        note=conversation.note_execution,
        observe=partial(run.observers.call, "on_tool_execution", run),
        save=save,
        note_agent=run.note_asked,
        executions=call.executed[-1],
        agent="" if run.parent is None else run.agent.name or "",
        repeated=conversation.answered_question,
        leaving=call.leaving,
    )
    return await executor.execute(tool_calls)
