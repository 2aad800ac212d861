"""SubagentRun: an agent that runs inside another agent's run, reported upward as a subagent (SUB-1 … SUB-11, INT-1).

The member is run like an agent that is served: its conversation is what the input of the outer run has of it, so that
nothing needs to be remembered, and a call of several rounds is one invocation.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import (
    Event,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TokenUsage,
    Tool,
    ToolCall,
    ToolCallResultEvent,
    ToolMessage,
    aggregate_token_usage,
)
from pydantic_core import to_jsonable_python

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.placeholders import EXTENSION, without_mark
from agui_client._core.run.scope import CURRENT_SCOPE
from agui_client._core.run.subagents import SubagentResult, name_member, usage_of
from agui_client._core.verbs.caller_run import caller_end
from agui_client._serving.answering import TRUSTING, answering_run, continued_run
from agui_client.errors import ParseError, RunFailedError, UsageError
from agui_client.teams._call_journal import calls_in, journal_in
from agui_client.teams._event_forwarder import (
    EventForwarder,
    ItemOwners,
    Whole,
    as_partial,
    is_partial,
    journal_operations,
)
from agui_client.teams._id_scope import IdMap, changed, flow_of, invocation_id
from agui_client.teams._in_flight_tools import InFlightTools, continuation_of
from agui_client.teams._member_input import MemberInput, answers_for
from agui_client.teams._members import Member, as_member, messages_of, reply_schema
from agui_client.teams._snapshot_events import cut_off, stands_in
from agui_client.teams._transcript import TeamTranscript

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Part
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.teams._call_journal import CallRecord
    from agui_client.teams._in_flight_tools import Keep


_WATCHED = frozenset(
    {
        MessagesSnapshotEvent,
        RunErrorEvent,
        RunFinishedEvent,
        StateDeltaEvent,
        StateSnapshotEvent,
        SubagentErrorEvent,
        ToolCallResultEvent,
    }
)


@dataclass(frozen=True, slots=True)
class JournalChange:
    """A change of the journal of a member that is a team itself."""

    operations: list[dict[str, Any]]
    """The operations of a JSON Patch on the journal."""


Item: TypeAlias = Event | Whole | JournalChange


class SubagentRun:
    """One invocation of an agent inside the run of another: iterate it, and yield its events.

        async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
            yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
            researcher = SubagentRun(Member(agent, "researcher"), input)
            async for event in researcher:
                yield event

    The events come between SUBAGENT_STARTED and SUBAGENT_FINISHED or SUBAGENT_ERROR; a failure of the agent is not
    raised, but in `error`. Answers in the input to what the agent has asked continue the invocation that asked.

    Args:
        member: The agent, and how it takes part.
        input: The input of the outer run.
        prompt: What the agent is asked; None for the conversation.
        speaks: Whether the agent's messages are the outer agent's own words.
        number: The number of the invocation among those of the same member in the run.
        invocation: The id of the invocation, `number` aside: for one that resumes.
        resume: The answers to what the agent has asked, under the ids that the agent gave; taken from the input if
            left out.
        tools: Tools that are offered to the agent besides those of the caller; their calls stay pending.
        transcript: The conversation of the outer run as members are shown it, for all invocations in that run.
        journal: The record of an invocation that resumes.
        keep: Keeps what must not be lost of the agent's tools; None where nothing is saved.
        owners: The owners of the items of the outer run, which all invocations in it share; of its own if left out.
    """

    member: Member
    """The agent, and how it takes part."""
    subagent_run_id: str
    """The id of the invocation."""
    usage: list[TokenUsage]
    """The tokens that the agent used so far."""
    usage_before: Sequence[TokenUsage] = ()
    """The tokens of earlier attempts in the same run of the team."""
    interrupts: list[Interrupt]
    """The interrupts that the agent waits for, as the outer run gives them to its caller."""
    pending_tool_calls: list[ToolCall]
    """The calls that the agent left to the caller, as the outer run gives them to its caller."""
    own_calls: list[ToolCall]
    """The calls of the `tools` that the agent was offered besides."""
    messages: list[Message]
    """The agent's own messages at the end, as the team's conversation has them."""
    new_messages: list[Message]
    """Those that were not in the team's conversation before; all if the agent has changed earlier ones."""
    error: Exception | None
    """The exception that the agent failed with; None if it did not fail."""
    failure: RunErrorEvent | None
    """The failure as others may read it, without the text of exceptions; None if the agent did not fail."""
    state: Any
    """The agent's state at the end."""
    begin_id: str
    """The id of the agent's last message before this run of it; empty if it had none."""
    partial_ids: list[str]
    """The ids of the messages that the agent had written when it failed, as the team's conversation has them."""

    def __init__(
        self,
        member: Member | AbstractAgent,
        input: RunAgentInput,
        *,
        prompt: str | list[Part] | None = None,
        speaks: bool = False,
        number: int = 0,
        invocation: str | None = None,
        resume: Sequence[ResumeEntry] | None = None,
        tools: Iterable[Tool] = (),
        transcript: TeamTranscript | None = None,
        journal: CallRecord | None = None,
        keep: Keep | None = None,
        owners: ItemOwners | None = None,
    ) -> None:
        self.member = member = as_member(member)
        key = member.key
        if resume is None:
            waiting, resume = answers_for(key, input)
            invocation = invocation or waiting
        self.subagent_run_id = invocation or invocation_id(key, flow_of(input.run_id), number)
        self.usage, self.interrupts, self.pending_tool_calls, self.own_calls, self.messages = [], [], [], [], []
        self.new_messages, self.partial_ids = [], []
        self.error = self.failure = self.state = None
        remembers = member.memory == "thread" and not (journal is not None and journal.is_apart)
        prefix = f"{key if remembers else self.subagent_run_id}/"
        self._owners = owners or ItemOwners(input.messages)
        self._ids = IdMap(self.subagent_run_id, prefix, self._owners.translations[prefix])
        self._further = {tool.name for tool in tools}
        self._given = MemberInput(member, input, self._ids, transcript or TeamTranscript({key: member.name}), prompt)
        self._shown, self._own_ids = self._given.shown, self._given.own_ids
        self.begin_id = self._shown.own[-1].id if self._shown.own else ""
        self._inner = self._given.compose(tools, resume, journal)
        place: Any = {"state": member.state, "state_key": member.name, **self._given.missing_state}
        self._forwarder = EventForwarder(self._ids, speaks=speaks, owners=self._owners, **place)
        self._status: Any = "running"
        self.text_id: str = "" if journal is None else journal.text
        """The id of the last text that the agent wrote in the invocation; empty if it wrote none."""
        self._text, self._result, self._parsed = "", None, None
        self._began_at = 0.0
        self._seconds: float | None = None
        # A member that fails before its run begins has not taken anything back.
        self._kept = self._own_ids
        self._last: RunFinishedEvent | RunErrorEvent | None = None
        self._run: AgentRun | None = None
        self._has_journal = journal is not None and journal.team is not None
        self._cut = continuation_of(journal, self._inner, self._ids)
        self._tools = InFlightTools(self._ids, self._forwarder, journal, keep, self._shown.foreign)
        self._earlier_usage = [] if journal is None else journal.usage
        self._error_text: str | None = None

    @property
    def result(self) -> SubagentResult:
        """The record of the invocation so far."""
        return SubagentResult(
            name=self.member.name,
            subagent_run_id=self.subagent_run_id,
            status=self._status,
            text=self._text,
            result=self._result,
            usage=aggregate_token_usage([*self._earlier_usage, *self.usage]),
            seconds=self._seconds,
            error=self._error_text,
        ).because_of(self.error)

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events()

    async def _events(self) -> AsyncGenerator[Event]:
        """Yield the events; a snapshot of the whole conversation is made when the events before it are reduced."""
        async for item in self.items():
            if isinstance(item, JournalChange):
                continue
            if callable(item):
                scope = CURRENT_SCOPE.get()
                assert scope is not None
                yield item(messages_of(scope))
            else:
                yield item

    async def items(self) -> AsyncGenerator[Item]:
        """Iterate the events, with functions in place of snapshots that need the messages that others have written.

        Changes of the journal of a member that is a team come between them.
        """
        self._began_at = time.perf_counter()
        for event in self._beginning():
            yield event
        try:
            agent = self._named_agent()
            misfit: str | None = ""
            while misfit is not None:
                async with self._entered(agent) as run:
                    self._run = run
                    run.call.conversation.keep_replaced_messages()
                    self._tools.watch(run)
                    feed = self._forwarder.feed
                    async for event in run:
                        items: Iterable[Any] = feed(event)
                        if self._tools.unsent or type(event) in _WATCHED:
                            items = self._with_watched(items, event, run)
                        for item in items:
                            yield item
                    for item in self._tools.take_unsent():
                        yield item
                    misfit = self._misfit(run)
                    for event in self._closing(run, misfit):
                        yield event
        except Exception as error:
            for event in self.fail(error):
                yield event
            return
        yield self._finished()

    def fail(self, error: Exception, code: str | None = None) -> list[Item]:
        """End an invocation that failed, or was given up.

        Args:
            error: The reason.
            code: A word for a reason on this side, whose text others may read; None for a failure of the agent.

        Returns:
            What a team has done and not reported yet, the events that end what the agent has left open, and the
            SUBAGENT_ERROR; nothing if the invocation has ended.
        """
        if self._status != "running":
            return []
        self.error, self._seconds = error, time.perf_counter() - self._began_at
        self._status = "abandoned" if code == "cancelled" else "error"
        self._error_text = str(error)
        name_member(error, self.member.name)
        untold = [*self._untold(), *self._tools.results_at_failure()]
        if self._run is not None:
            self._keep_usage(self._run)
            self._keep_messages(self._run.call.conversation.messages)
        partial = self._partial_messages()
        if (scope := CURRENT_SCOPE.get()) is not None:
            scope.failures[self.subagent_run_id] = error
        message, own_code = _message_of(error) if code is None else (str(error), code)
        # The record of the call says so as well: after a restart, nothing else would know.
        is_remote = scope is not None and message in scope.remote_texts
        about = {EXTENSION: {"isRemote": True}} if is_remote else None
        self.failure = RunErrorEvent(message=message, code=own_code, metadata=about)
        ended = SubagentErrorEvent(subagent_run_id=self.subagent_run_id, message=message, code=own_code)
        ending = "was cancelled" if code == "cancelled" else "failed"
        marked = [as_partial(each) for each in partial.values() if not is_partial(each)]
        begun, awaited = self._tools.begun_at_failure(), self._awaited_inside()
        closing = self._forwarder.close(cut_off(self.member.name, ending), begun, marked, awaited)
        by_id = {each.id: each for each in marked}
        self.messages = self.new_messages = [
            *(by_id.get(each.id, each) for each in self.messages),
            *(_as_message(event) for event in closing if isinstance(event, ToolCallResultEvent)),
        ]
        self.partial_ids = [*partial]
        self._text = str(partial[self.partial_ids[-1]].content) if partial else ""
        return [*untold, *closing, changed(ended, metadata=self._more())]

    def _untold(self) -> Iterator[Item]:
        """Yield what a team that is cut has done, and nobody has read yet: its members will not do it again."""
        run = self._run
        unread = run.call.round.unread if run is not None and run.call.rounds else None
        if run is None or unread is None:
            return
        # Not the messages of the run, which are those of its end.
        pipeline, conversation = run.call.round.pipeline, run.call.conversation
        for event in unread():
            pipeline.outcome.note(event)  # what the ends of its members report was used
            pipeline.apply(event)
            yield from self._forwarder.feed(event)
            if isinstance(event, MessagesSnapshotEvent):
                replaced = conversation.replaced_messages
                yield from self._forwarder.snapshot(replaced, conversation.messages, self._shown.foreign)
            elif isinstance(event, StateSnapshotEvent | StateDeltaEvent) and (changes := self._journal_changes(event)):
                yield JournalChange(changes)

    def _awaited_inside(self) -> set[str]:
        """Return the ids of tool calls that members of a team wait for, which still wait when it is asked again."""
        conversation = None if self._run is None else self._run.call.conversation
        journal = None
        if conversation is not None and self._has_journal:
            with suppress(UsageError):  # a server may have anything of its own under this name
                journal = journal_in(conversation.state)
        if journal is None or conversation is None:
            return set()
        calls = sorted(call.id for _, call in tool_calls_in(conversation.messages))
        return {self._ids.up(each) for each in calls_in(journal, calls, lambda record: record.awaited_calls)}

    def _partial_messages(self) -> dict[str, Message]:
        """Return the messages that the agent has written in vain; of a team, its members know which these are."""
        new = [each for each in self.messages if each.role == "assistant" and each.id not in self._own_ids]
        written = {each.id: each for each in new if each.content}
        return {key: each for key, each in written.items() if is_partial(each) or not self._has_journal}

    def own_result(self, call: ToolCall, result: str) -> Event:
        """Return the event of the result of a call of the `tools` that the agent was offered besides."""
        return result_event(self.messages, call.id, result)

    @property
    def is_waiting(self) -> bool:
        """Whether the agent waits for answers or for results of tools."""
        return bool(self.interrupts or self.pending_tool_calls)

    @property
    def has_used_answers(self) -> bool:
        """Whether the agent resumes, when it is asked again, behind the run that carried answers to it."""
        results = (each for each in self.new_messages if isinstance(each, ToolMessage) and each.id not in self._own_ids)
        return self._tools.has_used_answers and any(not stands_in(each) for each in results)

    @property
    def earlier_ids(self) -> set[str]:
        """The ids of the agent's own messages before this run of it."""
        return self._own_ids

    def handed_over(self) -> list[Event]:
        """End an invocation whose agent had handed over, and waited for nothing but results that are there now."""
        self._status, self._seconds = "success", 0.0
        self.messages = self._shown.own
        started = SubagentStartedEvent(subagent_run_id=self.subagent_run_id, name=self.member.name)
        return [started, self._finished()]

    @property
    def dropped_ids(self) -> set[str]:
        """The ids of messages of the team's conversation that were the member's own, and are no longer."""
        return self._own_ids - self._kept

    # --- before

    def _beginning(self) -> list[Item]:
        description = self.member.agent.description or None
        started = SubagentStartedEvent(subagent_run_id=self.subagent_run_id, name=self.member.name)
        return [changed(started, description=description), *self._given.prompt_events(self._owners)]

    def _named_agent(self) -> AbstractAgent:
        """Return the agent under the name by which approvers, logs and spans know it in the team."""
        agent = self.member.agent
        if agent.name != self.member.name:
            agent = agent.clone()
            agent.agent_id = self.member.name
        return agent

    def _entered(self, agent: AbstractAgent) -> AgentRun:
        """Return the run of the agent: of what it is shown, or the one that was cut while its tools were at work."""
        if self._cut is None:
            return answering_run(agent, self._inner, TRUSTING)
        return continued_run(agent, self._inner, self._cut, TRUSTING)

    # --- meanwhile

    def _with_watched(self, items: Iterable[Any], event: Any, run: AgentRun) -> list[Any]:
        """Return items with what else an event becomes, behind results that were given with the call."""
        given: list[Any] = [*self._tools.take_unsent()]
        if isinstance(event, StateSnapshotEvent | StateDeltaEvent) and (changes := self._journal_changes(event)):
            given.append(JournalChange(changes))
        if isinstance(event, ToolCallResultEvent):
            if self._tools.is_sent(event.message_id):
                return given
            if not run.call.conversation.has_placeholder(event.tool_call_id):
                # The mark of a server, which the member's own conversation did not take.
                items = [without_mark(each) for each in items]
        return [*given, *items, *self._watched(event, run)]

    def _watched(self, event: Any, run: AgentRun) -> list[Any]:
        """Take note of subagents, and of the end of a run; return events for a snapshot."""
        if isinstance(event, MessagesSnapshotEvent):
            replaced = run.call.conversation.replaced_messages
            return self._forwarder.snapshot(replaced, run.messages, self._shown.foreign)
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            self._last = event
        is_failure = isinstance(event, RunErrorEvent | SubagentErrorEvent)
        if is_failure and not run.call.agent.is_local and (scope := CURRENT_SCOPE.get()) is not None:
            scope.remote_texts.add(event.message)
        return []

    def _journal_changes(self, event: Any) -> list[dict[str, Any]]:
        """Return what an event changes in the agent's journal; most agents have none."""
        changes = journal_operations(event)
        if not self._has_journal and all(each["op"] == "remove" for each in changes):
            return []
        self._has_journal = True
        return changes

    def _keep_usage(self, run: AgentRun) -> None:
        """Take over the tokens of the agent, its executions, and the exceptions of its own subagents."""
        self.usage += [each for every in run.call.rounds for each in usage_of(every.outcome, every.tool_events)]
        if (scope := CURRENT_SCOPE.get()) is not None:
            scope.executed_inside += map(self._ids.execution_up, run.tool_executions)
            for subagent, error in ((key, each) for every in run.call.rounds for key, each in every.failures.items()):
                scope.failures[self._ids.tag(subagent)] = error

    # --- afterwards

    def _misfit(self, run: AgentRun) -> str | None:
        """Return what the agent is told if its reply is not of the type that the team wants; None if it is one.

        Raises:
            ParseError: It was told before.
        """
        result, shape = run.partial, self.member.answer
        is_cancelled = isinstance(result.outcome, RunFinishedCancelledOutcome)
        if shape is None or is_cancelled or result.interrupts or result.pending_tool_calls:
            return None
        try:
            parsed = result.parse(shape)
        except ParseError as error:
            if any(each.id == self._given.second_prompt_id for each in run.messages):
                raise
            # Many servers show their model none of the context that came with the first prompt.
            return f"That does not fit: {error}. Answer only with JSON of this schema: {reply_schema(self.member)}"
        # A reply in the arguments of an output tool is in no text.
        options: Any = {"mode": "json", "by_alias": True, "round_trip": True}
        self._parsed = type_adapter(shape, "answer").dump_python(parsed, **options)
        return None

    def _closing(self, run: AgentRun, misfit: str | None) -> list[Item]:
        """Take over what a run left; return the events of what the agent is asked in another run."""
        if misfit is None:
            self._end(run)
            return []
        self._keep_usage(run)
        self._keep_messages(run.messages)
        self._run, self._cut, self.text_id = None, None, ""
        self._inner = self._given.correction(self._inner, run.messages, run.partial.state, misfit)
        return [*self._given.prompt_events(self._owners, misfit)]

    def _end(self, run: AgentRun) -> None:
        """Take over what the run left."""
        outcome, result = caller_end(run, self._last).outcome, run.partial
        ids = self._ids
        self._seconds = time.perf_counter() - self._began_at
        self._keep_usage(run)
        self._keep_messages(result.messages)
        self.state, self._text = result.state, result.text
        self._result = self._parsed if result.result is None else result.result
        own = reversed(result.messages) if result.text else ()
        said = next((each.id for each in own if each.role == "assistant" and each.content == result.text), None)
        if said is not None:
            self.text_id = ids.up(said)
        elif not result.text:
            # What it said before it asked.
            self._text = next((str(each.content) for each in self.messages if each.id == self.text_id), "")
        offered = {tool.name for tool in self._inner.tools or ()}
        for call in result.pending_tool_calls:
            if call.function.name in offered:
                up = changed(call, id=ids.up(call.id))
                (self.own_calls if call.function.name in self._further else self.pending_tool_calls).append(up)
        if isinstance(outcome, RunFinishedInterruptOutcome):
            self.interrupts = [ids.interrupt_up(each) for each in outcome.interrupts]
        is_cancelled = isinstance(outcome, RunFinishedCancelledOutcome)
        self._status = "suspended" if self.is_waiting else "abandoned" if is_cancelled else "success"
        if (scope := CURRENT_SCOPE.get()) is not None:
            for warning in result.warnings:
                what = f"{self.member.name}: {warning.message}"
                scope.warnings.add(warning.rule, what, path=warning.path, event_type=warning.event_type)

    def _keep_messages(self, messages: Sequence[Message]) -> None:
        """Take over the agent's own messages of its conversation."""
        before, up, foreign = self._shown.messages, self._forwarder.message_up, self._shown.foreign
        # Compiled, and nearly always the conversation has only grown.
        is_grown = list(messages[: len(before)]) == before
        new = messages[len(before) :] if is_grown else messages
        self.new_messages = [up(each) for each in new if each.id not in foreign]
        self.messages = [*self._shown.own, *self.new_messages] if is_grown else self.new_messages
        self._kept = self._own_ids if is_grown else {message.id for message in self.messages}

    def _finished(self) -> Event:
        outcome = None
        if self._status == "suspended":
            ids = [each.id for each in self.interrupts]
            outcome = SubagentFinishedSuspendedOutcome(interrupt_ids=ids or None)
        event = SubagentFinishedEvent(subagent_run_id=self.subagent_run_id)
        return changed(event, result=self._result, outcome=outcome, metadata=self._more())

    def _more(self) -> dict[str, Any] | None:
        more: dict[str, Any] = {}
        if usage := aggregate_token_usage([*self.usage_before, *self.usage]):
            more["usage"] = to_jsonable_python(usage, exclude_none=True)
        if self.text_id and self._text:
            more["messageId"] = self.text_id
        if self.partial_ids:
            more["partialMessageIds"] = self.partial_ids
        return {EXTENSION: more} if more else None


def _message_of(error: Exception) -> tuple[str, str | None]:
    """Return the message and the code of a failure for others: the text of an exception goes to the log alone."""
    if isinstance(error, RunFailedError):
        return error.event.message, error.event.code
    return f"the agent failed ({type(error).__name__})", type(error).__name__


def _as_message(result: ToolCallResultEvent) -> ToolMessage:
    """Return the message that a result becomes."""
    message = ToolMessage(id=result.message_id, tool_call_id=result.tool_call_id, content=result.content)
    return changed(message, subagent_run_id=result.subagent_run_id)


def result_event(messages: Iterable[Message], tool_call_id: str, content: str) -> ToolCallResultEvent:
    """Return the event of the result of a call that is in these messages, and has none.

    Args:
        content: The result.
    """
    owner = next((each.subagent_run_id for each, call in tool_calls_in(messages) if call.id == tool_call_id), None)
    event = ToolCallResultEvent(message_id=f"{tool_call_id}-result", tool_call_id=tool_call_id, content=content)
    return changed(event, subagent_run_id=owner)
