"""Team: one run of a team, as the function that leads it sees it.

A run that waits for answers ends, and a later run, in this process or another, calls the function again from its
beginning. What the members did before is in the state until then, so that only those are run again that have waited.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
from ag_ui.core import (
    PROTOCOL_VERSION,
    Event,
    Message,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    ToolMessage,
    aggregate_token_usage,
)
from pydantic_core import to_jsonable_python

from agui_client._field_docs import Record
from agui_client._protocol.open_items import quoted
from agui_client._protocol.reduce import Reducer
from agui_client._run.scope import CURRENT_SCOPE
from agui_client._run.subagents import SubagentResult
from agui_client._transport.timeouts import is_duration
from agui_client.errors import AGUIError, RunFailedError, UsageError
from agui_client.teams.call_records import (
    CallRecord,
    Journal,
    ended_record,
    leave_journal,
    take_journal,
    waiting_record,
)
from agui_client.teams.members import Member, OnError
from agui_client.teams.names import flow_of, invocation_id, keys_of, split_interrupt_id
from agui_client.teams.subagent_run import SubagentRun, result_event

if TYPE_CHECKING:
    from agui_client.agent import AbstractAgent
    from agui_client.teams.team_source import TeamSource

MemberLike: TypeAlias = "AbstractAgent | Member | str"
"""A member of the team: its agent, or its name."""
_STATE = frozenset({StateSnapshotEvent, StateDeltaEvent})


class TeamLimitError(AGUIError):
    """A team came to one of its `TeamLimits`."""


@dataclass(frozen=True, slots=True)
class TeamLimits(Record):
    """Limits of one run of a team."""

    calls: int = 100
    """The largest number of calls of members."""
    handovers: int = 10
    """The largest number of times that a member hands over to another."""
    depth: int = 8
    """The largest number of teams inside each other."""
    at_once: int | None = None
    """The number of members that are at work at the same time; None for all."""
    seconds: float | None = None
    """The longest time, in seconds; None for any."""
    tokens: int | None = None
    """The number of tokens after which no further member is called; None for any."""


def check_limits(limits: TeamLimits) -> None:
    """Check the limits of a team.

    Raises:
        UsageError: They are none.
    """
    if not isinstance(cast("object", limits), TeamLimits):
        raise UsageError(f"limits= takes TeamLimits(...), such as TeamLimits(calls=5), not {limits!r}")
    for name, least in (("calls", 1), ("handovers", 0), ("depth", 1), ("at_once", 1), ("tokens", 1)):
        value: object = getattr(limits, name)
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not is_number and (value is not None or name not in ("at_once", "tokens")):
            raise UsageError(f"TeamLimits({name}=...) is a whole number from {least}, not {value!r}")
    if limits.seconds is not None and not is_duration(limits.seconds):
        raise UsageError(f"TeamLimits(seconds=...) is a number of seconds above zero, not {limits.seconds!r}")


class SuspendedError(BaseException):
    """Ends the function that leads a team, because a member waits for an answer; not to be caught."""


@dataclass(slots=True)
class Call:
    """One call of a member."""

    member: Member
    """The member."""
    invocation: str
    """The id of the invocation."""
    prompt: str | None = None
    """The question to the member; None for the conversation."""
    speaks: bool = False
    """Whether the member's messages are the team's own."""
    on_error: OnError = "raise"
    """The treatment of a failure: raised, or a part of the result."""
    tools: Sequence[tuple[Tool, str]] = ()
    """Tools of the team that the member is offered, each with the result of a call."""
    chosen: list[str] = field(default_factory=list[str])
    """The names of those of them that the member called."""


class Team:
    """One run of a team: what a function that leads a team gets.

    Args:
        source: Takes the events.
        input: The input of the run.
        members: The members.
        on_error: The treatment of members that fail.
        limits: The limits.

    Raises:
        TeamLimitError: There are too many teams inside each other.
        UsageError: The input answers what this team has not asked.
    """

    def __init__(
        self,
        source: TeamSource,
        input: RunAgentInput,
        members: Sequence[Member],
        on_error: OnError,
        limits: TeamLimits,
    ) -> None:
        self.input = input
        """The input of the run."""
        self.usage: list[TokenUsage] = []
        """The tokens that members used in this run."""
        self._on_error: OnError = on_error
        self._source, self._members, self._limits = source, members, limits
        self._names = keys_of(member.name for member in members)
        state, journal, self._first_events = take_journal(input.state)
        self._thread = Reducer(input.messages, state)
        self._answers: dict[str, list[ResumeEntry]] = {}
        flows = {flow_of(input.run_id)}
        records = [] if journal is None else list(journal.calls.values())
        asked = {each.id for record in records for each in record.interrupts}
        for entry in input.resume or ():
            parts = split_interrupt_id(entry.interrupt_id)
            if parts is None or (journal is not None and entry.interrupt_id not in asked):
                raise UsageError(f"resume answers {quoted(entry.interrupt_id)}, which no member of this team asks")
            flows = {parts[0]}
            answer = entry.model_copy(update={"interrupt_id": parts[2]})
            self._answers.setdefault(parts[1], []).append(answer)
        (flow,) = flows
        self._results = {message.tool_call_id for message in input.messages if isinstance(message, ToolMessage)}
        self._journal = self._taken_up(flow, journal)
        self._counts: Counter[str] = Counter()
        self._said = self._noted = 0
        self._waiting: dict[str, CallRecord] = {}
        self._at_work: set[anyio.CancelScope] = set()
        self._news = anyio.Event()
        self._is_over = False
        self._turns = anyio.CapacityLimiter(limits.at_once or math.inf)
        _check_depth(limits.depth)

    @property
    def messages(self) -> list[Message]:
        """The team's conversation: that of the input, and what members have finished since."""
        return self._thread.messages

    @property
    def state(self) -> Any:
        """The team's state as it is now; to be read only."""
        return self._thread.state

    async def run(
        self,
        member: MemberLike,
        prompt: str | None = None,
        *,
        speaks: bool = False,
        on_error: OnError | None = None,
    ) -> SubagentResult:
        """Run a member, and wait for its end.

        Args:
            member: The member: its agent or its name.
            prompt: What it is asked; None shows it the conversation.
            speaks: Whether its messages are the team's own, rather than a subagent's.
            on_error: The treatment of a failure; as the member or the team says if left out.

        Returns:
            What came of it.

        Raises:
            Exception: The member failed.
            TeamLimitError: The team came to a limit.
        """
        call = self.called(member, prompt, speaks=speaks, on_error=on_error)
        return await self.make(call)

    async def gather(
        self, *calls: MemberLike | tuple[MemberLike, str], on_error: OnError | None = None
    ) -> list[SubagentResult]:
        """Run members side by side, and wait for all.

        Args:
            calls: The members, or pairs of a member and what it is asked.
            on_error: "raise" cancels the others when one fails; "continue" waits for all.

        Returns:
            What came of each, in the order of the calls.

        Raises:
            Exception: A member failed; the others were cancelled.
        """
        pairs = [call if isinstance(call, tuple) else (call, None) for call in calls]
        made = [self.called(member, prompt, on_error=on_error) for member, prompt in pairs]
        results: dict[int, SubagentResult] = {}
        failures: list[BaseException] = []

        async def take(place: int, call: Call) -> None:
            """Make one call."""
            try:
                results[place] = await self.make(call)
            except SuspendedError as waiting:
                # The others go on: what they do now need not be done when this one is answered.
                failures.append(waiting)
            except Exception as error:
                failures.insert(0, error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for place, call in enumerate(made):
                tasks.start_soon(take, place, call)
        if failures:
            if not isinstance(failures[0], SuspendedError):
                self._give_up(made)
            raise failures[0]
        if len(results) < len(made):
            raise AGUIError("a member of the team cancelled itself")
        return [results[place] for place in range(len(made))]

    async def say(self, text: str) -> None:
        """Say something to the caller, in the team's own name.

        Args:
            text: The whole message.
        """
        self._said += 1
        if self._said <= self._journal.said:
            return
        self._journal.said = self._said
        message_id = f"said-{self._journal.flow}.{self._said}"
        await self.emit(TextMessageStartEvent(message_id=message_id, role="assistant"))
        if text:
            await self.emit(TextMessageContentEvent(message_id=message_id, delta=text))
        await self.emit(TextMessageEndEvent(message_id=message_id))

    async def once(self, function: Callable[[], Any]) -> Any:
        """Call a function once, however often the run is taken up again: for whatever may come out differently.

        Args:
            function: A function without arguments, sync or async.

        Returns:
            What it returned, which has to have a JSON form.
        """
        notes = self._journal.notes
        self._noted += 1
        if self._noted > len(notes):
            value = function()
            notes.append(to_jsonable_python(await value if inspect.isawaitable(value) else value))
        return notes[self._noted - 1]

    async def emit(self, event: Event) -> None:
        """Send an event of the team's own.

        Args:
            event: The event; neither the begin nor the end of the run.
        """
        self._thread.feed(event)
        await self._source.put(event)

    # --- calls, for teams that say more about them

    def called(
        self,
        member: MemberLike,
        prompt: str | None = None,
        *,
        speaks: bool = False,
        on_error: OnError | None = None,
        tools: Sequence[tuple[Tool, str]] = (),
    ) -> Call:
        """Return a call of a member that is the next one of it."""
        found = self._member(member)
        number = self._counts[found.key]
        self._counts[found.key] += 1
        if self._counts.total() > self._limits.calls:
            raise TeamLimitError(f"the team made more than {self._limits.calls} calls; see TeamLimits(calls=...)")
        policy = on_error or found.on_error or self._on_error
        return Call(found, invocation_id(found.key, self._journal.flow, number), prompt, speaks, policy, tools)

    async def make(self, call: Call) -> SubagentResult:
        """Make a call, go on with one that waited, or return what came of one that is over."""
        if self._is_over:
            raise UsageError(f"{call.member.name} was called when the run of its team was over: await each call")
        record = self._journal.calls.get(call.invocation)
        if record is not None and (record.result is not None or record.is_cut):
            return await _earlier_end(record, call)
        if record is not None and not record.is_answered(call.invocation in self._answers, self._results):
            self._wait(call, record)
        self._check_tokens()
        with anyio.CancelScope() as scope:
            self._at_work.add(scope)
            try:
                return await self._run_member(call, record)
            finally:
                self._at_work.discard(scope)
                self._news.set()
        raise AGUIError(f"{call.member.name} was cancelled with the run of its team")

    async def _run_member(self, call: Call, record: CallRecord | None) -> SubagentResult:
        """Run a member, and keep what came of it."""
        async with self._turns:
            run = SubagentRun(
                call.member,
                self.input.model_copy(update={"messages": self.messages, "state": self.state}),
                prompt=call.prompt,
                speaks=call.speaks,
                invocation=call.invocation,
                resume=self._answers.get(call.invocation, []),
                tools=[tool for tool, _ in call.tools],
                members=self._names,
                journal=record,
            )
            try:
                await self._pass(run, call.member.timeout)
            finally:
                self.usage += run.usage
                self._take_over(run)
        await self._answer_own_calls(run, call)
        if run.interrupts or run.pending_tool_calls:
            self._journal.calls[call.invocation] = record = waiting_record(run)
            self._wait(call, record)
        is_raised = run.error is not None and call.on_error == "raise"
        self._journal.calls[call.invocation] = ended_record(run, call.chosen, is_raised=is_raised)
        if run.error is not None and is_raised:
            raise run.error
        return run.result

    async def _pass(self, run: SubagentRun, timeout: float | None) -> None:
        """Pass a member's events on to its end."""
        source, is_late = self._source, False
        try:
            with anyio.move_on_after(timeout) as scope:
                async with aclosing(run.items()) as items:
                    async for item in items:
                        if type(item) in _STATE:
                            self._thread.feed(item)  # type: ignore[arg-type] # an event by its type
                        source.put_nowait(item)
                        if source.is_full:
                            await source.space()
            is_late = scope.cancelled_caught
        finally:
            if is_late:
                ended = run.fail(TimeoutError(f"{run.member.name} took longer than {timeout:g} seconds"), "timeout")
            else:
                ended = run.fail(RuntimeError(f"{run.member.name} was cancelled"), "cancelled")
            for event in ended:
                self._source.put_nowait(event)

    def _take_over(self, run: SubagentRun) -> None:
        """Add what a member wrote to the team's conversation."""
        new = {message.id: message for message in run.messages}
        kept = [new.pop(message.id, message) for message in self.messages if not run.has_dropped(message)]
        self._thread.set_messages([*kept, *new.values()])

    async def _answer_own_calls(self, run: SubagentRun, call: Call) -> None:
        """Answer a member's calls of the team's tools."""
        results = {tool.name: result for tool, result in call.tools}
        for own in run.own_calls:
            call.chosen.append(own.function.name)
            if not run.pending_tool_calls:
                await self.emit(run.answer_own_call(own, results[own.function.name]))

    def _taken_up(self, flow: str, journal: Journal | None) -> Journal:
        """Return the journal to go on with: the one that was left, if there are answers to what it waits for."""
        waiting = [] if journal is None else [call for each in journal.calls.values() for call in each.waiting]
        if journal is None or not (self._answers or any(call in self._results for call in waiting)):
            if self._answers:
                raise UsageError("the state has nothing of the run that asked: send it back as it was received")
            return Journal(flow=flow)
        if self._answers and journal.flow != flow:
            raise UsageError("the answers are for another run of this team than the one that waits")
        return journal

    def _wait(self, call: Call, record: CallRecord) -> None:
        self._waiting[call.invocation] = record
        raise SuspendedError

    def _give_up(self, calls: Iterable[Call]) -> None:
        """Note that calls were cancelled, so that none of them begins, or asks, when the run is taken up again."""
        for call in calls:
            record = self._journal.calls.get(call.invocation)
            if record is None or record.result is None:
                if self._waiting.pop(call.invocation, None) is not None and record is not None:
                    self._answer_calls(record, f"{call.member.name} was cancelled before this call was answered.")
                self._journal.calls[call.invocation] = CallRecord(is_cut=True)

    def _check_tokens(self) -> None:
        used = sum(each.total_tokens or 0 for each in self.usage)
        if self._limits.tokens is not None and used >= self._limits.tokens:
            raise TeamLimitError(f"the team used {used} tokens; see TeamLimits(tokens={self._limits.tokens})")

    def _member(self, given: MemberLike) -> Member:
        for member in self._members:
            if given in (member.name, member.agent) or given is member:
                return member
        known = ", ".join(member.name for member in self._members)
        raise UsageError(f"{given!r} is no member of this team; there are: {known}")

    # --- the run

    async def play(self, lead: Callable[[Team], Awaitable[Any]]) -> None:
        """Send the events of the run, from RUN_STARTED to its end."""
        ids: Any = {"thread_id": self.input.thread_id, "run_id": self.input.run_id}
        await self._source.put(RunStartedEvent(protocol_version=PROTOCOL_VERSION, **ids))
        for event in self._first_events:
            await self._source.put(event)
        result = None
        try:
            with anyio.fail_after(self._limits.seconds):
                result = await self._led(lead)
        except RunFailedError as error:
            reported = error.event.model_copy(update={"usage": aggregate_token_usage(self.usage) or None})
            await self._source.put(RunErrorEvent(**reported.__dict__))
            return
        except TimeoutError as error:
            if self._limits.seconds is None:
                raise
            raise TeamLimitError(f"the team took longer than {self._limits.seconds:g} seconds") from error
        finally:
            self._is_over = True
            for scope in list(self._at_work):
                scope.cancel()
        outcome: Any = None
        if interrupts := [each for record in self._waiting.values() for each in record.interrupts]:
            outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
        elif pending := [each for record in self._waiting.values() for each in record.waiting]:
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
        if outcome is not None:
            await self._source.put(leave_journal(self.state, self._journal))
        fields: dict[str, Any] = {"outcome": outcome, "usage": aggregate_token_usage(self.usage) or None}
        fields["result"] = None if outcome else to_jsonable_python(result, by_alias=True)
        await self._source.put(
            RunFinishedEvent(**ids, **{name: each for name, each in fields.items() if each is not None})
        )

    async def _led(self, lead: Callable[[Team], Awaitable[Any]]) -> Any:
        """Call the function that leads, and wait for the calls that it has left behind."""
        result = None
        try:
            result = await lead(self)
        except SuspendedError:
            pass
        except BaseExceptionGroup as group:  # of a task group of the function
            _, failures = group.split(SuspendedError)
            if failures is not None:
                raise failures from None
        while self._at_work:
            self._news = anyio.Event()
            await self._news.wait()
        return result

    def _answer_calls(self, record: CallRecord, content: str) -> None:
        """Answer the calls that a member waits for, as nobody else will."""
        answered = {message.tool_call_id for message in self.messages if isinstance(message, ToolMessage)}
        for call in (*record.waiting, *(each.tool_call_id for each in record.interrupts)):
            if call is not None and call not in answered:
                answered.add(call)
                event = result_event(self.messages, call, content)
                self._thread.feed(event)
                self._source.put_nowait(event)


async def _earlier_end(record: CallRecord, call: Call) -> SubagentResult:
    """Return or raise what came of a call when the function that leads the team was called before."""
    call.chosen = record.chosen
    if record.is_cut:
        await anyio.sleep_forever()  # until the one that failed then cancels it again
    if record.failure is not None:
        raise RunFailedError(record.failure)
    assert record.result is not None
    return record.result


def _check_depth(most: int) -> None:
    scope, depth = CURRENT_SCOPE.get(), 0
    while scope is not None:
        depth += 1
        scope = scope.parent
    if depth > most:
        raise TeamLimitError(f"more than {most} agents run inside each other; see TeamLimits(depth=...)")
