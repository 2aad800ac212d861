"""Building the results of a call: `RunResult` for its caller, `RunEnd` and `CallEnd` for observers.

They are read off the call and its runs, at any moment: nothing here changes a call. The records are in `result` and
`observers`; what a run leaves pending is noted in the conversation by `ending`, which asks `pending_calls` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ag_ui.core import AssistantMessage, aggregate_token_usage

from agui_client._core.conversation.pending import open_questions, pending_tool_calls
from agui_client._core.run.observers import CallEnd, RunEnd, Timings
from agui_client._core.run.result import RunResult
from agui_client._core.run.state import Phase
from agui_client._core.run.subagents import reply_id, subagent_results, usage_of

if TYPE_CHECKING:
    from ag_ui.core import Event, Message, TokenUsage, ToolCall

    from agui_client._core.protocol.outcome import OutcomeTracker
    from agui_client._core.run.call import Call
    from agui_client._core.run.round import Run


def build_result(call: Call, *, is_over: bool = False) -> RunResult:
    """Sum up a call.

    Args:
        is_over: Whether no further event comes.
    """
    run, rounds, state, conversation = call.round, call.rounds, call.state, call.conversation
    outcome, is_void = run.outcome, run.is_behind
    messages = conversation.messages
    new_messages = call.new_of(messages)
    # The conversation has what is left while people answer here, and behind a run that was held up and has no outcome.
    is_held_up = is_over and run.source is None and len(rounds) == 1 and not state.is_aborted and not run.is_replay
    left = conversation.pending_interrupts if state.phase is Phase.ANSWERING or is_held_up else outcome.interrupts
    pending = pending_tool_calls(conversation) if is_held_up else pending_calls(run)
    asked = [question.interrupt for question in open_questions(conversation)]
    asking = {interrupt.tool_call_id for interrupt in asked}
    if is_void or asking:
        pending = [] if is_void else [each for each in pending if each.id not in asking]
    requests = [request for each in rounds for request in each.requests]
    outcomes = [each.outcome if is_over else each.outcome.so_far() for each in rounds]
    failures = {subagent: failure for each in rounds for subagent, failure in each.failures.items()}
    # In proportion to the subagents: a look after each event leaves it to those who look at that.
    later: dict[str, Callable[[], Any]] = {
        "usage": partial(_usage, outcomes, [[*each.tool_events] for each in rounds]),
        "subagents": partial(subagent_results, outcomes, failures, messages, is_over=is_over),
    }
    summed_up = {name: make() for name, make in later.items()} if is_over else {}
    result: RunResult = RunResult(
        thread_id=run.input.thread_id,
        run_id=run.run_id,
        text=_text(run, messages if run.is_replay else new_messages),
        result=outcome.finished.result if outcome.finished and not is_void else None,
        # Stopped between two runs: the outcome of the last one is not the call's.
        outcome=None if is_void or state.is_aborted else outcome.outcome,
        interrupts=[] if is_void else [*left, *asked],
        pending_tool_calls=pending,
        new_messages=new_messages,
        messages=messages,
        state=conversation.state,
        warnings=call.warnings.records(),
        timings=_timings(rounds, call.time.started_at, 0.0),
        response=requests[-1].delivery.response if requests else None,
        attempts=[attempt for request in requests for attempt in request.delivery.attempts],
        tool_executions=call.all_executions,
        answered=call.answered,
        called_ids=list(outcome.tool_call_ids),
        custom=call.custom,
        incomplete_ids=list(run.pipeline.verifier.unclosed_ids),
        unsent_messages=call.steering.unsent,
        aborted=state.is_aborted,
        detached=state.is_aborted and call.is_detached,
        **summed_up,
    )
    if not is_over:
        result.defer(**later)
    kept = [each.kept(call.rounds[0]) for each in call.observers.keepers]
    if (prices := call.limits.limits.prices) is not None:
        result.price_with(prices)
    result.read_with(call.read_state).of_thread(conversation, call.messages_before)
    return result.keep(kept, call.warnings.secrets)


def _usage(outcomes: Sequence[OutcomeTracker], asked: Sequence[Sequence[Event]]) -> list[TokenUsage]:
    """Return the tokens of the runs of a call, by their outcomes and by what their tools asked."""
    return aggregate_token_usage([used for each in zip(outcomes, asked, strict=True) for used in usage_of(*each)])


def run_end(rounds: Sequence[Run], failure: Exception | None, *, is_aborted: bool) -> RunEnd:
    """Sum up the last of the runs of a call for observers.

    Args:
        rounds: The runs.
        failure: The exception that the last run failed with; None if it did not fail.
        is_aborted: Whether it was stopped from here.
    """
    run = rounds[-1]
    outcome = run.outcome
    ending = "aborted" if is_aborted else "nothing" if outcome.outcome is None else outcome.outcome.type
    return RunEnd(
        run_id=run.run_id,
        ending=None if failure is not None else ending,
        error=failure,
        events=run.pipeline.count,
        usage=outcome.usage,
        timings=_timings([run], run.started_at, run.people_before),
        attempts=[attempt for request in run.requests for attempt in request.delivery.attempts],
        warnings=len(run.warnings.records()) - sum(end.warnings for end in _ends(rounds)),
    )


def call_end(call: Call, result: RunResult) -> CallEnd:
    """Sum up a call that is over for observers."""
    ending = "aborted" if result.aborted else "nothing" if result.outcome is None else result.outcome.type
    ends = _ends(call.rounds)
    return CallEnd(
        run_id=result.run_id,
        ending=None if call.error is not None else ending,
        error=call.error,
        events=sum(end.events for end in ends),
        usage=result.usage,
        timings=replace(
            result.timings,
            total=perf_counter() - call.time.started_at,
            people=call.people_time.seconds,
        ),
        attempts=result.attempts,
        warnings=len(result.warnings),
        runs=len(ends),
        tool_executions=result.tool_executions,
        cost=result.cost() if call.limits.limits.counts_money else None,
    )


def _ends(rounds: Iterable[Run]) -> list[RunEnd]:
    """Return the ends of the runs that are over."""
    return [each.end for each in rounds if each.end is not None]


def pending_calls(run: Run) -> list[ToolCall]:
    """Return the calls without a result: those that the server named, or else those of the run (TOOL-9).

    Calls that an interrupt is about are the agent's, and left out. An interrupt need not name its call, or may name one
    that only asks: so those of an interrupted run are the agent's if the application did not offer their tools. A named
    call counts even if a snapshot has removed it since, as a list that names calls is exact (SET-19).
    """
    outcome, conversation = run.outcome, run.conversation
    named_pending, interrupts = outcome.named_pending, outcome.interrupts
    named: Iterable[str] = dict.fromkeys(named_pending) or outcome.tool_call_ids
    if not named:
        return []
    # Without a loop of Python, as an application may look after each event while any number of calls is open.
    open_ids = list(filterfalse(conversation.answered_call_ids.__contains__, named))
    if asked_about := {each.tool_call_id for each in interrupts}:
        open_ids = [each for each in open_ids if each not in asked_about]
    found = conversation.tool_calls(open_ids)
    if named_pending and None in found:
        found = [call or conversation.removed_call(key) for key, call in zip(open_ids, found, strict=True)]
    calls = list(filter(None, found))
    if not interrupts:
        return calls
    offered = {tool.name for tool in run.input.tools or ()}
    return [call for call in calls if call.function.name in offered]


def _text(run: Run, candidates: Sequence[Message]) -> str:
    """Return the last text that the run streamed; if it streamed none, one of its snapshots, or one that its end names.

    A team that continues may have sent its reply in the run before.
    """
    outcome = run.outcome
    reply = "" if outcome.finished is None else reply_id(outcome.finished)
    partial_ids, restated_ids = outcome.partial_ids, outcome.restated_ids

    def is_whole(message_id: str) -> bool:
        """Return whether no text of a message was taken back."""
        # A retry may have written the reply under the id of words that were taken back.
        return message_id not in partial_ids or message_id == reply

    written = reversed(outcome.text_message_ids)
    streamed = run.conversation.first_text(filter(is_whole, written) if partial_ids else written)
    restated = (
        message.content
        for message in (reversed(candidates) if restated_ids else ())
        if isinstance(message, AssistantMessage)
        and message.subagent_run_id is None
        and message.id in restated_ids
        and is_whole(message.id)
    )
    return streamed or next(filter(None, restated), "") or run.conversation.text_of(reply)


def _timings(rounds: Sequence[Run], start: float, people_before: float) -> Timings:
    def first(moments: Iterable[float | None], since: float = 0.0) -> float | None:
        """Return the seconds until the first moment that came."""
        return next((moment - since for moment in moments if moment is not None), None)

    return Timings(
        connect=first(request.delivery.connect_seconds for each in rounds for request in each.requests),
        first_event=first((each.outcome.first_event_at for each in rounds), start),
        first_text=first((each.outcome.first_text_at for each in rounds), start),
        total=first((each.ended_at for each in reversed(rounds)), start),
        people=max((each.people_seconds - people_before for each in rounds if each.ended_at), default=0.0),
    )
