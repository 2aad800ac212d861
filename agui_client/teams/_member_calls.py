"""The calls of members in one run of a team, and what becomes of them: its conversation, its state and its journal."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from ag_ui.core import (
    Event,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TokenUsage,
    Tool,
    ToolMessage,
    aggregate_token_usage,
)

from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.placeholders import UNKNOWN_RESULT, is_placeholder, marked
from agui_client._core.protocol.reduce import Reducer
from agui_client._core.protocol.traits import STATE_EVENTS
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.run.subagents import JOURNAL, NO_JOURNAL
from agui_client._core.tools.decisions import in_agents_words
from agui_client._core.tools.people import WorkingTime
from agui_client.errors import RunFailedError, UsageError
from agui_client.teams._call_ends import ended_record, waiting_record
from agui_client.teams._call_journal import (
    CallRecord,
    JournalDocument,
    PendingWork,
    TeamJournal,
    calls_in,
    document_as_json,
    has_new_prompt,
    journal_in,
    last_id,
)
from agui_client.teams._event_forwarder import ItemOwners, is_partial
from agui_client.teams._id_scope import IdMap, as_pointer, changed, flow_of, split_interrupt_id, split_invocation
from agui_client.teams._limits import TeamBudget, TeamLimitError, TeamLimits
from agui_client.teams._members import Member, OnError, member_state
from agui_client.teams._snapshot_events import cut_off, stands_in, whole_snapshot, whole_steps, with_restated
from agui_client.teams._state import StateView, TeamState
from agui_client.teams._subagent_run import JournalChange, SubagentRun, result_event
from agui_client.teams._transcript import TeamTranscript, names_below

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Part
    from agui_client._core.run.meter import Meter
    from agui_client.teams._source import TeamSource

_logger = logging.getLogger("agui_client.teams")
_BOUNDS = (SubagentStartedEvent, SubagentFinishedEvent, SubagentErrorEvent)


@dataclass(slots=True)
class MemberCall:
    """One turn of a member, which its team has called."""

    member: Member
    """The member."""
    invocation: str
    """The id of the invocation."""
    record: CallRecord
    """The record of the call; as good as none if it has not been made yet."""
    prompt: str | list[Part] | None = None
    """The question to the member; None for the conversation."""
    speaks: bool = False
    """Whether the member's messages are the team's own."""
    on_error: OnError = "raise"
    """The treatment of a failure: raised, or a part of the result."""
    tools: Sequence[tuple[Tool, str]] = ()
    """Tools of the team that the member is offered, each with the result of a call."""
    chosen: list[FunctionCall] = field(default_factory=list["FunctionCall"])
    """The calls of these that the member made."""


class MemberCalls:
    """Runs members, and keeps what came of them.

    Args:
        source: Takes the events.
        input: The input of the team's run.
        members: The members of the team.
        limits: The limits of the team.

    Raises:
        UsageError: The input answers what this team has not asked.
    """

    def __init__(self, source: TeamSource, input: RunAgentInput, members: Iterable[Member], limits: TeamLimits) -> None:
        self._source, self._input = source, input
        self.usage: list[TokenUsage] = []
        """The tokens that members used so far."""
        self._members = {member.key: member for member in members}
        self._transcript = TeamTranscript(names_below(members))
        self.thread: Reducer = Reducer(input.messages, {} if input.state is None else input.state)
        """The team's conversation."""
        self.state: TeamState = TeamState(self.thread)
        """The team's state, and the journal in it."""
        results = [message for message in input.messages if isinstance(message, ToolMessage)]
        self.given_results: set[str] = {each.tool_call_id for each in results if not stands_in(each)}
        """The ids of the tool calls that had a result when the run began."""
        left, answers = journal_in(input.state), _answers_to_members(input.resume or ())
        self._is_taken_up = left is not None and self._continues(left, answers)
        scope = CURRENT_SCOPE.get()
        self._is_saved = scope is not None and scope.is_saved
        self._abandoned = left
        document = JournalDocument(flow=flow_of(input.run_id), after=last_id(input.messages))
        if self._is_taken_up and left is not None:
            document = left
            others = {key: each for key, each in left.calls.items() if self._member_of(key) is None}
            self._abandoned = left.model_copy(update={"calls": others})
        elif answers:
            raise UsageError(NO_JOURNAL)
        self.journal: TeamJournal = TeamJournal(document, self._write)
        """The journal of the run."""
        self.first_events: list[Event] = []
        """The events that the run begins with."""
        if not self._is_taken_up:
            begin = self.state.begin(document_as_json(document), has_state=input.state is not None)
            self.first_events.append(begin)
        self._answers = answers
        self._owners = ItemOwners(input.messages)
        self._turns = anyio.CapacityLimiter(limits.at_once or math.inf)
        self._budget = TeamBudget(limits, *document.used)
        self._over = max((record.over for record in document.calls.values()), default=0)

    @property
    def last_said(self) -> str | None:
        """The id of the last text that the team has said since its flow began; None if it has said nothing."""
        begin = self.journal.after
        if begin and self.thread.message(begin) is None:
            return None
        for message in reversed(self.thread.messages):
            if message.id == begin:
                break
            is_own = message.role == "assistant" and message.subagent_run_id is None
            if is_own and message.content and not is_partial(message):
                return message.id
        return None

    async def carry_out(self, call: MemberCall) -> SubagentRun:
        """Run a member, and keep what came of it.

        Args:
            call: The call; it gets the record of what it used, and of a member that waits.

        Raises:
            TeamLimitError: The call may not begin.
        """
        async with self._turns:
            if call.record.seen is None:
                call.record = call.record.model_copy(update={"seen": self._over})
            meter = self._budget.meter()
            meter.begin(is_new=not self._with_inner_journal(call).used[0])
            try:
                run, end = await self._attempts(call, meter)
            except BaseException:
                self.journal.keep(call.invocation, call.record)
                raise
            # Without a wait in between: a receiver of the end of a call finds it in the journal.
            self._add_own_results(run, call)
            if run.is_waiting:
                call.record = waiting_record(call.record, run, call.chosen)
                self.journal.keep(call.invocation, call.record)
            else:
                is_raised = run.error is not None and call.on_error == "raise"
                self._over += 1
                ended = ended_record(call.record, run, call.chosen, self._over, is_raised=is_raised)
                self.journal.keep(call.invocation, ended)
            for event in end:
                self._source.put_nowait(event)
        await self._source.saved()
        return run

    async def _attempts(self, call: MemberCall, meter: Meter) -> tuple[SubagentRun, list[Any]]:
        """Run a member until it does not fail, or has no attempt left; return its last run, and its last event."""
        call.chosen = [*call.record.chosen]
        if call.chosen and not call.record.interrupts:
            run = self._run_of(call)
            return run, run.handed_over()
        await self._drop_earlier_words(call)
        calls, tokens = self._with_inner_journal(call).used
        left, usage_before = call.member.retries, list[TokenUsage]()
        while True:
            run = self._run_of(call)
            if call.record.begin is None:
                call.record = call.record.model_copy(update={"begin": run.begin_id})
            run.usage_before = [*usage_before]
            try:
                with meter.at_work():
                    end = await self._pass(run, call, is_first=left == call.member.retries)
            finally:
                self.usage += run.usage
                meter.report(run.usage)
                used: dict[str, Any] = {"calls": calls + meter.calls, "tokens": tokens + meter.tokens}
                used["usage"] = aggregate_token_usage([*call.record.usage, *run.usage])
                call.record = call.record.model_copy(update={**used, "pending": None})
                if run.has_used_answers:
                    call.record = call.record.with_used_answers()
                self._take_over(run)
            if run.error is None or left == 0 or isinstance(run.error, UsageError | TeamLimitError):
                break
            try:
                meter.begin(is_new=False)
            except TeamLimitError:
                break
            left -= 1
            usage_before += run.usage
            self._warn(run, "is asked again, as it failed")
            if call.invocation in self.journal.records:
                self.journal.keep(call.invocation, call.record)
            if self._with_inner_journal(call).team is None:  # a team takes up its own members
                await self._drop_words([each for each in run.messages if each.id not in run.earlier_ids])
        if run.error is not None and call.on_error == "continue":
            self._warn(run, "failed, and the team continued without it", event_type="SUBAGENT_ERROR")
            self._end_awaited(call.invocation, call.record, cut_off(call.member.name, "failed"))
        return run, end

    def _run_of(self, call: MemberCall) -> SubagentRun:
        """Return a run of a member."""
        hidden = self._unseen(call)
        messages = [each for each in self.thread.messages if each.id not in hidden] if hidden else self.thread.messages
        return SubagentRun(
            call.member,
            self._input.model_copy(update={"messages": messages, "state": self.state.own}),
            prompt=call.prompt,
            speaks=call.speaks,
            invocation=call.invocation,
            resume=self._open_answers(call.record),
            tools=[tool for tool, _ in call.tools],
            transcript=self._transcript,
            journal=self._with_inner_journal(call),
            keep=partial(self._keep_tools, call) if self._is_saved else None,
            owners=self._owners,
        )

    def _unseen(self, call: MemberCall) -> set[str]:
        """Return the ids of what members have said since a call began: a member that resumes is shown what it was."""
        seen, begin = call.record.seen or 0, self.journal.after
        if seen == self._over or (begin and self.thread.message(begin) is None):
            return set()
        ends: dict[str, tuple[int, str]] = {}
        for invocation, record in self.journal.records.items():
            if 0 < record.over <= seen:
                thread = self._thread_of(invocation, record)
                ends[thread] = max(ends.get(thread, (0, "")), (record.over, record.last))
        own, shown, is_of_flow = self._thread_of(call.invocation, call.record), ends.keys() - set[str](), not begin
        threads, unseen = {end: thread for thread, (_, end) in ends.items()}, set[str]()
        for message in self.thread.messages:
            thread = message.id.partition("/")[0]
            if is_of_flow and message.role == "assistant" and thread != own and thread not in shown:
                unseen.add(message.id)
            is_of_flow = is_of_flow or message.id == begin
            shown.discard(threads.get(message.id, ""))
        return {each for each in unseen if "/" in each}

    def _thread_of(self, invocation: str, record: CallRecord) -> str:
        """Return what the ids of a call's messages begin with."""
        parts = split_invocation(invocation)
        member = None if parts is None or record.is_apart else self._members.get(parts[0])
        return invocation if member is None or member.memory == "call" else member.key

    def _warn(self, run: SubagentRun, what: str, event_type: str | None = None) -> None:
        """Log a failure that does not end the run, and add it to the warnings.

        Args:
            run: The run of the member.
            what: What becomes of the member.
            event_type: The type of the event that tells of it; None of an attempt that another one follows.
        """
        name, error = run.member.name, run.error
        # Texts of exceptions of the application stay in the log.
        raised = error.raised if isinstance(error, RunFailedError) else None
        cause = f"{type(error).__name__}: {run.result.error}" if raised is None else type(raised).__name__
        _logger.warning("member %s failed", quoted(name), exc_info=error)
        if (scope := CURRENT_SCOPE.get()) is not None:
            scope.warnings.add("SUB-9", f"{name} {what}: {cause}", path=as_pointer(name), event_type=event_type)

    async def _pass(self, run: SubagentRun, call: MemberCall, *, is_first: bool) -> list[Any]:
        """Pass a member's events on; return the one of its end. Further attempts are the same invocation."""
        end: list[Any] = []
        source, member, is_late, time = self._source, call.member, False, WorkingTime(call.member.timeout)
        place = "" if member.state == "shared" else member.name
        view = self.state.view(place, member_state(self.state.own, member))
        try:
            with time.limited():
                async with aclosing(run.items()) as items:
                    async for item in items:
                        self._take_item(item, call, view, end, is_first=is_first)
                        if isinstance(item, JournalChange):
                            await source.saved()
                        if source.is_full:
                            await source.space()
            is_late = time.is_up
        finally:
            if is_late:
                late = f"{run.member.name} took longer than {member.timeout:g} seconds"
                failure = RunErrorEvent(message=late, code="timeout")
                untold = run.fail(RunFailedError(failure, raised=TimeoutError(late)))
            else:
                untold = run.fail(RuntimeError(f"{run.member.name} was cancelled"), "cancelled")
            ends = end if is_late else list[Any]()
            for item in untold:
                self._take_item(item, call, view, ends, is_first=False)
            for event in () if is_late else ends:
                source.put_nowait(event)
        return end

    def _take_item(self, item: Any, call: MemberCall, view: StateView, end: list[Any], *, is_first: bool) -> None:
        """Take over what a member has done.

        Args:
            item: An event, or a change of the member's journal.
            view: The state as the call knows it.
            end: Gets the event of the member's end.
            is_first: Whether this is the first attempt, whose beginning is sent.
        """
        if isinstance(item, JournalChange):
            self.journal.patch_team(call.invocation, call.record, item.operations)
        elif type(item) in STATE_EVENTS:
            if (passed := self.state.take(item, view)) is not None:
                self._source.put_nowait(passed)
        # By the type first: every event passes, and `isinstance` asks the metaclass of each class.
        elif type(item) not in _BOUNDS or not isinstance(item, _BOUNDS) or item.subagent_run_id != call.invocation:
            self._source.put_nowait(item)
        elif not isinstance(item, SubagentStartedEvent):
            end.append(item)
        elif is_first:
            self._source.put_nowait(item)

    def _take_over(self, run: SubagentRun) -> None:
        """Add what a member wrote to the team's conversation."""
        present = ((message, self.thread.message(message.id)) for message in run.new_messages)
        new = {message.id: message for message, known in present if message is not known}
        dropped = run.dropped_ids
        if not dropped and all(self.thread.message(each) is None for each in new):
            self.thread.add_messages(new.values())
            return
        kept = [new.pop(message.id, message) for message in self.thread.messages if message.id not in dropped]
        self.thread.set_messages([*kept, *new.values()])

    def _add_own_results(self, run: SubagentRun, call: MemberCall) -> None:
        """Give the results of a member's calls of the team's tools."""
        results = {tool.name: result for tool, result in call.tools}
        for own in run.own_calls:
            call.chosen.append(own.function)
            event = run.own_result(own, results[own.function.name])
            self.thread.feed(event)
            self._source.put_nowait(event)

    def _continues(self, left: JournalDocument, answers: Mapping[str, Sequence[ResumeEntry]]) -> bool:
        """Return whether this run takes up the one that a journal is of, and note its answers.

        A run with answers does, and so does one without a new prompt.

        Raises:
            UsageError: The input answers what no member of this team has asked.
        """
        known = {each.id for record in left.calls.values() for each in record.interrupts}
        known.update(each for record in left.calls.values() for each in record.answered)
        for entry in self._input.resume or ():
            if entry.interrupt_id not in known:
                raise UsageError(f"resume answers {quoted(entry.interrupt_id)}, which no member of this team asks")
        waiting = [call for record in left.calls.values() for call in record.waiting]
        if answers or any(call in self.given_results for call in waiting):
            return True
        return not has_new_prompt(left, self._input.messages, self._members)

    def _member_of(self, invocation: str) -> Member | None:
        """Return the member that an invocation is of; None if the team has no such member."""
        parts = split_invocation(invocation)
        return None if parts is None else self._members.get(parts[0])

    def take_answers(self) -> None:
        """Keep the answers to what members have asked: another attempt needs them again if this one fails.

        If the run does not take up the flow that its caller's state has, or the team has no such member any more, the
        tools that were begun will have no result, and get an unknown one.
        """
        if self._abandoned is not None:
            self._fill_in(self._abandoned, lambda record: record.begun, UNKNOWN_RESULT)
        changed_records: dict[str, CallRecord] = {}
        for invocation, given in self._answers.items():
            record = self.journal.records[invocation]
            asked = {each.id.removeprefix(f"{invocation}/"): each for each in record.interrupts}
            new = {
                each.interrupt_id: in_agents_words(asked[each.interrupt_id], each)
                for each in given
                if each.interrupt_id in asked
            }
            if new:
                answers = {each.interrupt_id: each for each in record.answers} | new
                answered = [*record.answered, *(f"{invocation}/{each}" for each in new)]
                update = {"answers": [*answers.values()], "answered": list(dict.fromkeys(answered))}
                changed_records[invocation] = record.model_copy(update=update)
        self.journal.keep_all(changed_records)

    def end_given_up(self, key: str | None = None) -> None:
        """End the tool calls of members that waited for them when a failure was raised that the team has got over.

        Args:
            key: The key of the only member whose calls are meant, as it is called anew.
        """
        for invocation, record in list(self.journal.records.items()):
            member = self._member_of(invocation)
            is_given_up = record.cut_by is not None or record.failure is not None
            if is_given_up and member is not None and key in (None, member.key):
                self._end_awaited(invocation, record, cut_off(member.name, "was cancelled"))
                self.journal.keep(invocation, record.with_used_answers())

    def _end_awaited(self, invocation: str, record: CallRecord, content: str) -> None:
        """Give results to the calls that a member waits for, also in inner teams, as nobody else will."""
        document = JournalDocument(flow=self.journal.flow, calls={invocation: self._with_team(invocation, record)})
        self._fill_in(document, lambda record: record.awaited_calls, content)

    def _fill_in(self, journal: JournalDocument, which: Callable[[CallRecord], Iterable[str]], content: str) -> None:
        calls = [call.id for _, call in tool_calls_in(self.thread.messages)]
        self.add_results(calls_in(journal, sorted(calls), which), content)

    def _open_answers(self, record: CallRecord) -> list[ResumeEntry]:
        """Return the answers that a member still needs: a call that was approved, and then made, has its result."""
        done = {
            each.id.partition("/")[2]
            for each in record.interrupts
            if each.tool_call_id is not None and each.tool_call_id in self.thread.answered_call_ids
        }
        return [each for each in record.answers if each.interrupt_id not in done]

    def _with_inner_journal(self, call: MemberCall) -> CallRecord:
        """Return the record of a call with the journal of a member that is a team, as it is now."""
        return self._with_team(call.invocation, call.record)

    def _with_team(self, invocation: str, record: CallRecord) -> CallRecord:
        written: Any = self.thread.state[JOURNAL]["calls"].get(invocation, {})
        return record.model_copy(update={"team": written.get("team")})

    async def _keep_tools(
        self, call: MemberCall, events: Sequence[Event], pending: PendingWork | None, *, has_used_answers: bool
    ) -> None:
        """Keep what tools and people of a member are at; wait until that is saved, with the events before it."""
        for event in events:
            self._source.put_nowait(event)
        call.record = call.record.model_copy(update={"pending": pending})
        if has_used_answers:
            call.record = call.record.with_used_answers()
        self.journal.keep(call.invocation, call.record)
        await self._source.saved()

    async def _drop_earlier_words(self, call: MemberCall) -> None:
        """Take the partial words of an attempt in an earlier run, which failed or was killed, out of the messages."""
        record = self._with_inner_journal(call)
        sent_behind = None if record.pending is None else record.pending.sent_behind
        if not self._is_taken_up or (record.pending is not None and sent_behind is None):
            # A run that was cut behind its last word, while its tools and people were at work, resumes there.
            return
        if record.team is not None:
            # A team takes up its own members.
            return
        member, messages = call.member, self.thread.messages
        ids, marks = IdMap(call.invocation, f"{self._thread_of(call.invocation, record)}/"), {self.journal.after}
        if sent_behind is not None:
            marks = {sent_behind} - {""}
        elif record.begin is not None:
            # The words of others may have been said anew since, behind those of this member.
            marks = {record.begin, record.last} - {""}
        for invocation, other in self.journal.records.items() if record.begin is None and sent_behind is None else ():
            if (parts := split_invocation(invocation)) is not None and parts[0] == member.key:
                marks.add(other.last)
        begin = max((at for at, each in enumerate(messages) if each.id in marks), default=None)
        if begin is None and marks - {""}:
            # The conversation is not the one that it was: nobody knows where the attempt began.
            return
        await self._drop_words([each for each in messages[0 if begin is None else begin + 1 :] if ids.is_own(each)])

    async def _drop_words(self, messages: Iterable[Message]) -> None:
        """Take the partial words among a member's messages out of the conversation."""
        attempt = [each for each in messages if each.role != "user"]
        kept = whole_steps(attempt)
        if kept == attempt:
            return

        def whole(present: Sequence[Message]) -> MessagesSnapshotEvent:
            """Make the snapshot."""
            return whole_snapshot(present, attempt, kept)

        self.thread.set_messages(with_restated(self.thread.messages, attempt, kept))
        self._owners.restate_calls()
        await self._source.put(whole)

    def _write(self, operations: Sequence[dict[str, Any]]) -> None:
        """Tell the caller what changes in the journal."""
        self._source.put_nowait(self.state.write(operations))

    def add_results(self, calls: Iterable[str], content: str) -> None:
        """Give results to calls of a member that have none, as nobody else will.

        Args:
            calls: The ids of the calls.
            content: The result of each call.
        """
        results = (message for message in self.thread.messages if isinstance(message, ToolMessage))
        # A placeholder gives way to a result that says more.
        answered = {each.tool_call_id for each in results if each.content == content or not is_placeholder(each)}
        for call in calls:
            if call not in answered and self.thread.tool_call(call) is not None:
                answered.add(call)
                event = result_event(self.thread.messages, call, content)
                if content == UNKNOWN_RESULT:
                    event = changed(event, metadata=marked())
                self.thread.feed(event)
                self._source.put_nowait(event)


def _answers_to_members(resume: Iterable[ResumeEntry]) -> dict[str, list[ResumeEntry]]:
    """Return answers as the members have them, by the invocations that asked.

    Raises:
        UsageError: One of them is for no member of a team.
    """
    answers: dict[str, list[ResumeEntry]] = {}
    for entry in resume:
        if (parts := split_interrupt_id(entry.interrupt_id)) is None:
            raise UsageError(f"resume answers {quoted(entry.interrupt_id)}, which no member of this team asks")
        answers.setdefault(parts[1], []).append(entry.model_copy(update={"interrupt_id": parts[2]}))
    return answers
