"""Team: one run of a team, as the function that leads it sees it.

A run that waits for answers, fails or is killed is taken up by a later one, in this process or another, which calls the
function again from its beginning. What the members did is in the journal, so that none of them does it again.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
from ag_ui.core import (
    PROTOCOL_VERSION,
    Event,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    aggregate_token_usage,
)
from pydantic_core import to_jsonable_python

from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.placeholders import EXTENSION, extension_of
from agui_client._core.protocol.prompts import prompt_messages
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.run.subagents import SubagentResult
from agui_client._core.tools.people import WorkingTime
from agui_client._core.transport.timeouts import check_number
from agui_client.errors import AGUIError, RunFailedError, UsageError
from agui_client.teams._call_journal import CallRecord, digest_of
from agui_client.teams._id_scope import said_id
from agui_client.teams._limits import TeamLimitError, TeamLimits, check_depth
from agui_client.teams._member_calls import MemberCall, MemberCalls
from agui_client.teams._members import Member, OnError, Sees

if TYPE_CHECKING:
    from os import PathLike

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.protocol.prompts import Part
    from agui_client.teams._source import TeamSource

MemberLike: TypeAlias = "AbstractAgent | Member | str"
"""A member of the team: its agent, or its name."""
MemberPrompt: TypeAlias = "str | Sequence[str | PathLike[str] | Part]"
"""The question to a member: text, or a list of texts, paths and content parts."""


class SuspendedError(BaseException):
    """Ends the function that leads a team, because a member waits for an answer; not to be caught."""


class Team:
    """One run of a team: what a function that leads a team gets.

    Args:
        source: Takes the events.
        input: The input of the run.
        on_error: The treatment of members that fail.

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
        self._on_error: OnError = on_error
        self._source, self._members, self._limits = source, members, limits
        # By name, and by identity of the member and its agent: of several with one agent, the first.
        self._found: dict[str | int, Member] = {}
        for each in reversed(members):
            self._found |= {each.name: each, id(each.agent): each, id(each): each}
        self._calls = calls = MemberCalls(source, input, members, limits)
        self._journal, self._thread = calls.journal, calls.thread
        self._time = WorkingTime(limits.seconds, self._journal.seconds)
        self._busy: Counter[str] = Counter()
        self._raised: list[tuple[BaseException, MemberCall]] = []
        self._passed_over = 0
        """The number of these failures that the function has continued from: another call has succeeded since."""
        self._said = self._noted = 0
        self._waiting: dict[str, CallRecord] = {}
        self._at_work: set[anyio.CancelScope] = set()
        self._arrival = anyio.Event()
        self._is_over = False
        check_depth(limits.depth)

    @property
    def messages(self) -> list[Message]:
        """The team's conversation: that of the input, and what members have finished since."""
        return self._thread.messages

    @property
    def usage(self) -> list[TokenUsage]:
        """The tokens that members used in this run."""
        return self._calls.usage

    @property
    def state(self) -> Any:
        """The team's state as it is now; to be read only."""
        return self._calls.state.own

    async def run(
        self,
        member: MemberLike,
        prompt: MemberPrompt | None = None,
        *,
        speaks: bool = False,
        on_error: OnError | None = None,
    ) -> SubagentResult:
        """Run a member, and wait for its end.

        Args:
            member: The member: its agent or its name.
            prompt: What it is asked: text, or a list of texts, paths and content parts; None shows it the conversation.
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
        self, *calls: MemberLike | tuple[MemberLike, MemberPrompt], on_error: OnError | None = None
    ) -> list[SubagentResult]:
        """Run members side by side, and wait for all.

        Args:
            calls: The members, or pairs of a member and what it is asked. Calls of one member have conversations of
                their own, in which it begins anew.
            on_error: "raise" cancels the others when one fails; "continue" waits for all.

        Returns:
            What came of each, in the order of the calls.

        Raises:
            Exception: A member failed; the others were cancelled.
        """
        pairs = [call if isinstance(call, tuple) else (call, None) for call in calls]
        counts = Counter(self._member(member).key for member, _ in pairs)
        repeated = {key for key, count in counts.items() if count > 1}
        made = [
            self.called(member, prompt, on_error=on_error, is_apart=self._member(member).key in repeated)
            for member, prompt in pairs
        ]
        return await self._gathered(made, math.inf)

    async def map(
        self,
        member: MemberLike,
        items: Iterable[MemberPrompt],
        *,
        at_once: int | None = None,
        on_error: OnError | None = None,
    ) -> list[SubagentResult]:
        """Ask one member several things side by side, each in a conversation of its own, and wait for all.

        Args:
            member: The member: its agent or its name.
            items: What it is asked.
            at_once: The number of calls that are made at the same time; None for all.
            on_error: "raise" cancels the others when one fails; "continue" waits for all.

        Returns:
            What came of each, in the order of the items.

        Raises:
            Exception: A call failed; the others were cancelled.
            UsageError: `at_once` is not a whole number above zero.
        """
        check_number("team.map(at_once=...)", at_once, least=1, is_whole=True, may_be_none=True)
        made = [self.called(member, item, on_error=on_error, is_apart=True) for item in items]
        return await self._gathered(made, at_once or math.inf)

    async def _gathered(self, made: Sequence[MemberCall], at_once: float) -> list[SubagentResult]:
        """Make calls side by side."""
        turns = anyio.CapacityLimiter(at_once)
        results: dict[int, SubagentResult] = {}
        failures: list[BaseException] = []
        failed: list[MemberCall] = []

        async def take(place: int, call: MemberCall) -> None:
            """Make one call."""
            try:
                results[place] = await self.make(call)
            except SuspendedError as waiting:
                # The others continue: what they do now need not be done when this one is answered.
                failures.append(waiting)
            except Exception as error:
                # A call that may not begin is not a reason for those that failed before it.
                place_among = len(failed) if _is_own_limit(error) else 0
                failures.insert(place_among, error)
                failed.insert(place_among, call)
                tasks.cancel_scope.cancel()
            finally:
                if place in limited:
                    turns.release_on_behalf_of(place)

        # Calls that were cut wait for the end of the one that failed, and take no turn from it.
        limited = {place for place, call in enumerate(made) if not call.record.is_over}
        async with anyio.create_task_group() as tasks:
            for place, call in enumerate(made):
                if place in limited:
                    await _take_turn(turns, place)
                tasks.start_soon(take, place, call)
        if failures:
            if failed and not _is_own_limit(failures[0]):
                self._give_up(made, failed)
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
        message_id = said_id(self._journal.flow, self._said)
        await self.emit(TextMessageStartEvent(message_id=message_id, role="assistant"))
        if text:
            await self.emit(TextMessageContentEvent(message_id=message_id, delta=text))
        await self.emit(TextMessageEndEvent(message_id=message_id))
        self._journal.note_said()
        await self._source.saved()

    async def once(self, function: Callable[[], Any]) -> Any:
        """Call a function once, however often the run is taken up: for whatever may come out differently.

        Args:
            function: A function without arguments, sync or async.

        Returns:
            What it returned, which has to have a JSON form.
        """
        notes = self._journal.notes
        self._noted += 1
        if self._noted > len(notes):
            value = function()
            self._journal.note(to_jsonable_python(await value if inspect.isawaitable(value) else value))
            await self._source.saved()
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
        prompt: MemberPrompt | None = None,
        *,
        speaks: bool = False,
        on_error: OnError | None = None,
        tools: Sequence[tuple[Tool, str]] = (),
        sees: Sees | None = None,
        is_apart: bool = False,
    ) -> MemberCall:
        """Return a call of a member that is the next one of it."""
        found = self._member(member)
        if sees is not None:
            found = replace(found, sees=sees)
        content = _content_of(prompt)
        policy = on_error or found.on_error or self._on_error
        invocation, is_another = self._journal.claim(found.key, digest_of(content))
        if is_another:
            self._warn(f"{found.name} is asked anew, as the team asked it something else when the run began")
        record = self._journal.records.get(invocation)
        if record is None:
            record = CallRecord(prompt=digest_of(content), is_apart=is_apart or self._busy[found.key] > 0)
        return MemberCall(found, invocation, record, content, speaks, policy, tools)

    async def make(self, call: MemberCall) -> SubagentResult:
        """Make a call, resume one that waited, or return what came of one that is over."""
        if self._is_over:
            raise UsageError(f"{call.member.name} was called when the run of its team was over: await each call")
        if call.record.is_over:
            return await self._earlier_end(call)
        if not call.record.is_answered(self._calls.given_results):
            self._wait(call)
        key = call.member.key
        if self._raised and call.record.begin is None:
            # The function got over a failure: what the member waited for then would be open in what it reads now.
            self._calls.end_given_up(key)
        with anyio.CancelScope() as scope:
            self._at_work.add(scope)
            self._busy[key] += 1
            try:
                run = await self._calls.carry_out(call)
                if run.is_waiting:
                    self._wait(call)
                if run.error is not None and call.on_error == "raise":
                    self._raised.append((run.error, call))
                    raise run.error
                self._passed_over = len(self._raised)
                return run.result.as_answer(call.member.answer)
            finally:
                self._busy[key] -= 1
                self._at_work.discard(scope)
                self._arrival.set()
        raise AGUIError(f"{call.member.name} was cancelled with the run of its team")

    async def _earlier_end(self, call: MemberCall) -> SubagentResult:
        """Return or raise what came of a call when the function that leads the team was called before."""
        record = call.record
        call.chosen = record.chosen
        if record.cut_by is not None:
            await anyio.sleep_forever()  # until the one that failed then cancels it again
        if record.failure is not None:
            if extension_of(record.failure) and (scope := CURRENT_SCOPE.get()) is not None:
                scope.remote_texts.add(record.failure.message)
            error = RunFailedError(record.failure)
            error.member = call.member.name
            again = record.made_again()
            self._raised.append((error, replace(call, record=again)))
            raise error
        assert record.result is not None
        self._passed_over = len(self._raised)
        return record.result.as_answer(call.member.answer)

    def _warn(self, what: str) -> None:
        if (scope := CURRENT_SCOPE.get()) is not None:
            scope.warnings.add("INT-4", what)

    def _wait(self, call: MemberCall) -> None:
        self._waiting[call.invocation] = call.record
        raise SuspendedError

    def _give_up(self, calls: Iterable[MemberCall], failed: Sequence[MemberCall]) -> None:
        """Note that calls were cancelled, so that none of them begins, or asks, when the run is taken up again.

        Args:
            calls: The calls of a `gather`.
            failed: Those that failed; the first one's failure is raised, and the others have failed for nothing.
        """
        also_failed = {call.invocation for call in failed[1:]}
        for call in calls:
            record = self._journal.records.get(call.invocation, call.record)
            if record.is_over and call.invocation not in also_failed:
                continue
            self._waiting.pop(call.invocation, None)
            cut = record.made_again().model_copy(update={"cut_by": failed[0].invocation})
            self._journal.keep(call.invocation, cut)

    def _note_failure(self, error: BaseException) -> None:
        """Let the call whose failure ends the run be made again when it is taken up, and those that it cancelled."""
        causes = _causes(error)
        failed = [each for each in self._raised if each[0] in causes]
        if not failed and not _is_own_limit(error):
            # An exception of the function's own, and it has called nobody since these.
            failed = self._raised[self._passed_over :]
        again = {call.invocation: call.record for _, call in failed}
        cut = {each: record for each, record in self._journal.records.items() if record.cut_by in again}
        # In one patch: a call that stayed cut would wait for ever for the failure of one that is made again.
        self._journal.keep_all({**again, **{each: record.made_again() for each, record in cut.items()}})

    def _member(self, given: MemberLike) -> Member:
        if (found := self._found.get(given if isinstance(given, str) else id(given))) is not None:
            return found
        known = ", ".join(member.name for member in self._members)
        raise UsageError(f"{given!r} is not a member of this team; there are: {known}")

    # --- the run

    async def play(self, lead: Callable[[Team], Awaitable[Any]]) -> None:
        """Send the events of the run, from RUN_STARTED to its end."""
        ids: Any = {"thread_id": self.input.thread_id, "run_id": self.input.run_id}
        await self._source.put(RunStartedEvent(protocol_version=PROTOCOL_VERSION, **ids))
        for event in self._calls.first_events:
            await self._source.put(event)
        self._calls.take_answers()
        result = None
        try:
            with self._time.limited():
                result = await self._led(lead)
            if self._time.is_up:
                seconds = self._limits.seconds
                raise TeamLimitError(f"the team took longer than {seconds:g} seconds; see TeamLimits(seconds=...)")
        except Exception as error:
            self._note_failure(error)
            self._journal.note_seconds(self._time.spent)
            if not isinstance(error, RunFailedError) or error.raised is not None:
                raise
            reported = error.event.model_copy(update={"usage": aggregate_token_usage(self.usage) or None})
            await self._source.put(RunErrorEvent(**reported.__dict__))
            failure = RunFailedError(reported)
            failure.member = error.member
            raise failure from error
        finally:
            self._is_over = True
            for scope in list(self._at_work):
                scope.cancel()
        outcome = self._outcome()
        if outcome is None:
            self._calls.end_given_up()
            for invocation in self._journal.unclaimed:
                self._warn(f"the answers to {quoted(invocation)} are not used: the team did not call it again")
            await self._source.put(self._calls.state.end())
        else:
            self._journal.note_seconds(self._time.spent)
        fields: dict[str, Any] = {"outcome": outcome, "usage": aggregate_token_usage(self.usage) or None}
        fields["result"] = None if outcome else to_jsonable_python(result)
        if answer := self._calls.last_said:
            # It may have been said in a run before this one.
            fields["metadata"] = {EXTENSION: {"messageId": answer}}
        await self._source.put(
            RunFinishedEvent(**ids, **{name: each for name, each in fields.items() if each is not None})
        )

    def _outcome(self) -> RunFinishedInterruptOutcome | RunFinishedSuccessOutcome | None:
        """Return the outcome of a run that waits for answers; None if it does not."""
        if interrupts := [each for record in self._waiting.values() for each in record.unanswered]:
            return RunFinishedInterruptOutcome(interrupts=interrupts)
        if pending := [each for record in self._waiting.values() for each in record.waiting]:
            return RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
        return None

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
            self._arrival = anyio.Event()
            await self._arrival.wait()
        return result


def _is_own_limit(error: BaseException) -> bool:
    """Return whether a call of this team could not begin, rather than one inside of a member."""
    return isinstance(error, TeamLimitError) and error.member is None


async def _take_turn(turns: anyio.CapacityLimiter, borrower: object) -> None:
    """Take a turn; at once if there is one, so that members that need not wait begin together."""
    try:
        turns.acquire_on_behalf_of_nowait(borrower)
    except anyio.WouldBlock:
        await turns.acquire_on_behalf_of(borrower)


def _content_of(prompt: MemberPrompt | None) -> str | list[Part] | None:
    """Return a prompt as the content of a message.

    Raises:
        UsageError: It is not a prompt.
    """
    if prompt is None or isinstance(prompt, str):
        return prompt
    if not is_a(prompt, list | tuple):
        raise UsageError(f"a member is asked with text, or a list of texts, paths and content parts, not {prompt!r}")
    content: str | list[Any] | None = cast("Any", prompt_messages(prompt)[0]).content
    return content


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return an exception, those that it was made of, and those that it was raised because of."""
    found: list[BaseException] = []
    left = [error]
    while left:
        each = left.pop()
        if each is None or each in found:
            continue
        found.append(each)
        group: Any = getattr(each, "exceptions", ())
        left += [each.__cause__, each.__context__, *(group if isinstance(each, BaseExceptionGroup) else ())]
    return found
