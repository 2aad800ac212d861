"""The request of one call: whatever can be refused is refused here, before anything changes or is sent."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import RunAgentInput, ToolCallResultEvent, ToolMessage
from pydantic import ValidationError

from agui_client._core.conversation.answer_checks import check_approval, check_results, resume_entries
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.fates import UNANSWERED, Brought, Fate, fate
from agui_client._core.conversation.pending import decision_about, open_questions, open_records
from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.protocol.open_items import listed, quoted
from agui_client._core.protocol.placeholders import NO_RESULT, UNKNOWN_RESULT, marked
from agui_client._core.protocol.prompts import content_of, prompt_messages
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.options import IN_INPUT
from agui_client._core.run.subagents import has_journal, is_of_subagent
from agui_client._core.tools.approval import Approve, Deny, ToolDecision
from agui_client._core.tools.context import BoundCall
from agui_client._core.tools.interrupts import answers_for_tools
from agui_client.errors import InterruptsNotCoveredError, ToolError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import Message, ResumeEntry, ToolCall

    from agui_client._core.conversation.ledger import ToolCallRecord
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.protocol.warnings import WarningLog
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.questions import GivenAnswer, ToolQuestion
    from agui_client._core.tools.toolset import CallTools, OfferedTool


class FirstRun(Enum):
    """The way to the first run of a call."""

    PREPARED = "prepared"
    """People and tools are asked for what waits in the conversation; then the run is sent."""
    REOPENED = "reopened"
    """The same, where another process was cut off between two runs, which may have begun functions."""
    REPEATED = "repeated"
    """The run, which was sent or was about to be, is sent at once, whatever waits in the conversation."""
    GIVEN = "given"
    """The caller made the input of the run, which is sent at once, as it is."""

    @property
    def is_sent_at_once(self) -> bool:
        """Whether the run is sent whatever waits in the conversation."""
        return self in (FirstRun.REPEATED, FirstRun.GIVEN)


class TurnInput:
    """A call, checked against the conversation.

    Requests of other kinds set what differs from a call that adds nothing.

    Args:
        prompts: The messages that the prompt adds.
        options: The keywords of the call.

    Raises:
        UsageError: The call cannot be carried out.
        InterruptsNotCoveredError: The answers do not cover the pending interrupts.
    """

    first_run: FirstRun = FirstRun.PREPARED
    """The way to the first run."""
    input: RunAgentInput
    """The input of the first run, its tools left out."""
    prompts: Sequence[Message] = ()
    """The messages that the prompt adds."""
    results: Sequence[ToolMessage] = ()
    """The results of tool calls; agents and models refuse a conversation in which a call has none."""
    left_branch: str | None = None
    """The id of the last message that a stored thread leaves for this call, if that was written a moment ago."""
    _repeated: Mapping[str, GivenAnswer] = MappingProxyType({})
    _answers: Mapping[str, Any] = MappingProxyType({})
    _fates: Mapping[str, Fate] = MappingProxyType({})
    _records: Mapping[str, ToolCallRecord] = MappingProxyType({})
    _approved: Mapping[str, Approve] = MappingProxyType({})
    _asks = False

    def __init__(
        self, conversation: Conversation, prompts: list[Message], options: RunOptions, *, can_answer: bool = False
    ) -> None:
        results = options.get("tool_results", {})
        if not is_a(results, Mapping):
            raise UsageError(f"tool_results= takes {{tool_call_id: result}}, not a {type(results).__name__}")
        is_nothing = not (prompts or options.keys() & {"resume", "tool_results"})
        # Then people are asked first, and nothing is sent before they have answered.
        self._asks = is_nothing and can_answer and not conversation.is_abandoned
        given, resume = answers_for_tools(open_questions(conversation), options.get("resume"))
        repeated = {} if self._asks else _repeated(conversation, given, results)
        entries = conversation.kept_answers if self._asks else resume_entries(conversation, resume)
        results = {**results, **{key: Approve(question.arguments) for key, question in repeated.items()}}
        self._conversation = conversation
        self._shown_arguments: dict[str, object] = {}
        self._answers = results
        self._repeated = {key: given[each.interrupt.id] for key, each in repeated.items()}
        self.prompts = prompts
        unanswered = check_results(conversation, results)
        self._records = {
            each.tool_call_id: each.become(decision=decision_about(conversation, each.tool_call_id))
            for each in open_records(conversation)
        }
        # The members of a team that continues execute or report the calls that they have left open.
        is_of_team = not prompts and (has_journal(conversation.state) or _is_of_served_team(conversation, unanswered))
        brought = Brought(
            continues=bool(prompts) or not results,
            resumes=bool(entries or (self._asks and conversation.pending_interrupts)),
            is_of_team=is_of_team,
            is_nothing=is_nothing and not is_of_team,
        )
        self._fates = {
            key: fate(self._records.get(key), results.get(key, UNANSWERED), brought) for key in [*results, *unanswered]
        }
        self.results = self._results_of(self._fates)
        self.input = composed_input(conversation, options, [*conversation.messages, *self.added], entries)

    def _with(self, *fates: Fate) -> list[str]:
        """Return the calls that have one of some fates."""
        return [key for key, each in self._fates.items() if each in fates]

    def _results_of(self, fates: Mapping[str, Fate]) -> list[ToolMessage]:
        """Return the messages for the calls that get a result before the first run."""
        said: dict[Fate, Callable[[str], object]] = {
            Fate.GIVEN: self._answers.__getitem__,
            Fate.UNKNOWN: lambda _: ToolError(UNKNOWN_RESULT),
            Fate.WITHOUT: lambda _: ToolError(NO_RESULT),
        }
        return result_messages({key: said[each](key) for key, each in fates.items() if each in said})

    @property
    def postponed(self) -> Collection[str]:
        """The calls that stay pending, as only others were given their results: nothing is sent."""
        return self._with(Fate.LATER)

    @property
    def added(self) -> list[Message]:
        """The messages that the call adds before its first run."""
        return [*self.results, *self.prompts]

    @property
    def given_results(self) -> Sequence[ToolMessage]:
        """The results that the served run sends to its caller as events, as the caller does not have them."""
        return self.results

    @property
    def state_of_caller(self) -> Any:
        """The state as the caller of a stored thread knows it; `ABSENT` if the caller needs no other one."""
        return ABSENT

    @property
    def aside(self) -> Collection[str]:
        """The ids of the calls and interrupts that the first run is sent without a look at."""
        asked = () if self._asks else self._conversation.pending_interrupts
        return [*self._with(Fate.LEFT), *(each.id for each in asked)]

    def may_repeat(self, tools: CallTools, record: ToolCallRecord) -> bool:
        """Return whether a call that was begun in a process that is gone is made again (`FirstRun.REOPENED`)."""
        raise NotImplementedError

    def check_tools(self, tools: CallTools) -> None:
        """Check results and approvals of tool calls against the tools that are offered.

        Args:
            tools: The tools of the first run.

        Raises:
            UsageError: A call cannot be executed here, or was executed, or an approval is needed instead of a result.
        """
        approved: dict[str, Approve] = {}
        unmade: dict[str, ToolError] = {}
        for tool_call_id, answer in self._answers.items():
            call = self._conversation.tool_call(tool_call_id)
            assert call is not None
            tool = tools.offered.get(call.function.name)
            if self._conversation.ledger.is_unreported(tool_call_id):
                # Executed for a run that then never started: the approval is repeated with the call.
                if not isinstance(answer, Approve) or answer.arguments is not None:
                    raise UsageError(
                        f"tool_results names {tool_call_id!r}, a call that was carried out; nothing was sent"
                    )
            elif isinstance(answer, Approve):
                self._check_approval(call, answer)
                if tool is None or tool.toolset is None:
                    unmade[tool_call_id] = self._result_without_tool(call)
                else:
                    self._check_arguments(call, answer, tool)
                    approved[tool_call_id] = answer
            elif answer is None or isinstance(answer, bool):
                _refuse_verdict(call, answer, tool)
        self._approved, self.results = approved, [*self.results, *result_messages(unmade)]

    def add_to_conversation(self) -> None:
        """Add the messages of the call to the conversation."""
        for tool_call_id, approval in self._approved.items():
            self._decide(tool_call_id, approval)
        self._conversation.add_results(self.results)
        self._conversation.add_messages(self.prompts)
        if self._conversation.is_abandoned:
            # The agent continues from where it asked, and may not know these when it restates the conversation.
            self._conversation.keep_through_snapshots(self.prompts)

    def _decide(self, tool_call_id: str, approval: Approve) -> None:
        """Write an approval into the ledger, so that it is saved with all else that the caller brought."""
        if tool_call_id in self._repeated:
            # It was decided about before it asked its question.
            self._conversation.ledger.answer_question(tool_call_id, self._repeated[tool_call_id])
            return
        call = self._conversation.tool_call(tool_call_id)
        assert call is not None
        asked = self._shown_arguments.get(tool_call_id)
        self._conversation.ledger.decide(tool_call_id, ToolDecision.of(copy.deepcopy(approval), "person", asked))
        if approval.always:
            self._conversation.approved_tools.add(call.function.name)

    def undo(self) -> None:
        """Take the messages of the call out of the conversation again: its run never started."""
        for tool_call_id in self._approved:
            # Of a function that was not called, the caller takes its approval along.
            self._conversation.ledger.withdraw(tool_call_id)
        self._conversation.remove_messages({message.id for message in self.added})

    def warn(self, warnings: WarningLog) -> None:
        """Report the calls that the conversation continues without (TOOL-10)."""
        open_ids = self._with(Fate.UNKNOWN, Fate.WITHOUT)
        records = [(key, self._records.get(key)) for key in open_ids]
        # Answered through an interrupt: the agent has the answer, and no result of the caller's is missing.
        if unanswered := [key for key, each in records if each is None or each.is_ours_to_answer]:
            names = listed([quoted(each) for each in unanswered])
            without = f"the conversation continues without results of tool calls {names}"
            warnings.add("TOOL-10", without, fix="see tool_results=")

    def _result_without_tool(self, call: ToolCall) -> ToolError:
        """Return the result of an approved call whose function is not here.

        Raises:
            UsageError: The call is the program's own mistake.
        """
        raise UsageError(
            f"tool_results approves {call.id!r}, but there is no function for {call.function.name!r} in tools=; give "
            "its result instead"
        )

    def _check_approval(self, call: ToolCall, approval: Approve) -> None:
        refusal = f"tool_results approves {call.id!r}, "
        record = self._conversation.ledger.get(call.id)
        if record is None:
            how = "no run of this conversation left it, so it cannot be carried out; give its result instead"
            raise UsageError(f"{refusal}which was brought in a message: {how}")
        if record.is_begun:
            raise UsageError(f"{refusal}whose function was called before; give its result instead")
        if not record.is_whole and approval.arguments is None:
            raise UsageError(f"{refusal}whose arguments never ended; give them: Approve(arguments={{...}})")
        if approval.arguments is None and record.shown is None:
            how = "give its arguments: Approve(arguments={...})"
            raise UsageError(f"{refusal}which does not wait for an answer; {how}")
        check_approval(self._conversation, call.id, approval)

    def _check_arguments(self, call: ToolCall, approval: Approve, tool: OfferedTool) -> None:
        if approval.arguments is not None:
            with suppress(ToolError):  # the agent's own need not fit, nor even be whole
                self._shown_arguments[call.id] = tool.bind(call.id, call.function.arguments).arguments
            try:
                tool.bind(call.id, approval.arguments)
            except ToolError as error:
                raise UsageError(f"tool_results approves {call.id!r}, but {error}; nothing was sent") from error


class WholeInput(TurnInput):
    """A call whose input the caller made: it is sent as it is, and the conversation becomes that one.

    Args:
        given: The input.
        options: The keywords of the call.

    Raises:
        UsageError: A keyword is about something that is in the input.
    """

    first_run = FirstRun.GIVEN

    def __init__(self, conversation: Conversation, given: RunAgentInput, options: RunOptions) -> None:
        if refused := sorted(options.keys() & IN_INPUT):
            raise UsageError(f"{refused[0]}= goes with a prompt; a RunAgentInput is sent as it is, so change it there")
        of_input = Conversation(given.thread_id, given.messages)
        of_input.set_state(given.state)
        self._conversation, self.input = conversation, given
        self._given, self._before = of_input.snapshot(), conversation.snapshot()

    def add_to_conversation(self) -> None:
        """Let the conversation become that of the input."""
        self._conversation.become(self._given)

    def undo(self) -> None:
        """Go back to the conversation before the call."""
        self._conversation.become(self._before)


class RequestSource(ABC):
    """A prompt that makes the request of its call when that begins, such as the input of a served agent's caller."""

    @abstractmethod
    async def request(self, conversation: Conversation, options: RunOptions) -> TurnInput:
        """Return the request, checked against the conversation, which it does not change yet.

        Args:
            options: The keywords of the call.

        Raises:
            UsageError: The call cannot be carried out.
        """


async def request_of(
    conversation: Conversation, prompt: Prompt | RequestSource, options: RunOptions, *, can_answer: bool = False
) -> TurnInput:
    """Return the request of a call, checked.

    Args:
        options: The keywords of the call.
        can_answer: Whether a function answers what waits, if the caller brings no answer.
    """
    if isinstance(prompt, RequestSource):
        return await prompt.request(conversation, options)
    if isinstance(prompt, RunAgentInput):
        return WholeInput(conversation, prompt, options)
    return TurnInput(conversation, prompt_messages(prompt), options, can_answer=can_answer)


def _is_of_served_team(conversation: Conversation, unanswered: Iterable[str]) -> bool:
    """Return whether members of a team wait that is served elsewhere: its journal is there, and they own what waits."""
    asked = (*conversation.pending_interrupts, *conversation.answered_interrupts)
    is_asked = any(each.subagent_run_id is not None for each in asked)
    return is_asked or any(is_of_subagent(conversation, each) for each in unanswered)


def _repeated(
    conversation: Conversation, given: Mapping[str, GivenAnswer], results: Mapping[str, Any]
) -> dict[str, ToolQuestion]:
    """Return the questions that the caller answers, by the ids of their calls.

    Raises:
        InterruptsNotCoveredError: A question has no answer, and its call no result.
    """
    asked = {each.interrupt.tool_call_id or "": each for each in open_questions(conversation)}
    open_ids = [each.interrupt.id for key, each in asked.items() if key not in results]
    missing = [quoted(each) for each in open_ids if each not in given]
    if missing and not (conversation.is_abandoned and not given):
        how = "answer with resume={id: ...}, or call abandon_interrupts() to continue without"
        raise InterruptsNotCoveredError(f"no answer to {listed(missing)}; {how}")
    return {key: each for key, each in asked.items() if each.interrupt.id in given}


def result_messages(results: Mapping[str, Any]) -> list[ToolMessage]:
    """Make the tool messages that carry results of tool calls (TOOL-10).

    Raises:
        UsageError: A result has no JSON form.
    """
    messages: list[ToolMessage] = []
    for tool_call_id, value in results.items():
        failure = value.message if isinstance(value, ToolError) else value.reason if isinstance(value, Deny) else None
        try:
            content = content_of(value) if failure is None else failure
        except ValueError as error:
            raise UsageError(f"the result of tool call {tool_call_id!r} is not JSON: {error}") from error
        metadata = marked() if failure in (NO_RESULT, UNKNOWN_RESULT) else None
        new = ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=content, error=failure, metadata=metadata)
        messages.append(new)
    return messages


def event_of_result(message: ToolMessage) -> ToolCallResultEvent:
    """Return the event that brings the result of a tool call."""
    made = ToolCallResultEvent(message_id=message.id, tool_call_id=message.tool_call_id, content=message.content)
    return made if message.metadata is None else made.model_copy(update={"metadata": message.metadata})


def _refuse_verdict(call: ToolCall, answer: bool | None, tool: OfferedTool | None) -> None:
    """Refuse a yes or no to a call that wants approval: it would reach the agent as the call's result."""
    name = call.function.name
    if tool is None or tool.toolset is None or tool.toolset.approval(BoundCall(call.id, name, {})) == "never":
        return
    what = f"tool_results gives {answer!r} for {call.id!r}, a call of {name!r} that wants approval"
    raise UsageError(f"{what}; say Approve() or Deny(), or give the tool's result as text")


def composed_input(
    conversation: Conversation, options: RunOptions, messages: list[Message], entries: Sequence[ResumeEntry] = ()
) -> RunAgentInput:
    """Return the input of a run, its tools left out.

    Args:
        conversation: The thread and its state.
        options: The keywords of the call.
        messages: The messages to send.
        entries: The answers to interrupts.

    Raises:
        UsageError: An option has a value that cannot be sent.
    """
    try:
        composed = RunAgentInput(
            thread_id=conversation.thread_id,
            run_id=options.get("run_id") or str(uuid4()),
            parent_run_id=options.get("parent_run_id"),
            messages=[],
            state=conversation.state,
            context=list(options.get("context", ())) or None,
            forwarded_props=options.get("forwarded_props"),
            resume=list(entries) or None,
        )
    except ValidationError as error:
        refused = "; ".join(f"{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        is_context = any(each["loc"][:1] == ("context",) for each in error.errors())
        advice = '; context= takes a list, such as [Context(description="time", value="noon")]' if is_context else ""
        raise UsageError(f"the run input cannot be made: {refused}{advice}; nothing was sent") from None
    # Not validated here: those of a conversation are messages, of which there may be thousands.
    return composed.model_copy(update={"messages": messages})


def next_input(
    before: RunAgentInput, conversation: Conversation, run_id: str, entries: Sequence[ResumeEntry]
) -> RunAgentInput:
    """Return the input of the run that follows another in the same call, its tools left out.

    Args:
        before: The input of the run before it.
        conversation: The messages and the state to send.
        entries: The answers to the interrupts of the run before.
    """
    # The run before is the one that this run continues, not the parent that the caller named for that one.
    changes = {"run_id": run_id, "parent_run_id": None, "tools": None, "resume": list(entries) or None}
    return with_conversation(before, conversation).model_copy(update=changes)


def with_conversation(run_input: RunAgentInput, conversation: Conversation) -> RunAgentInput:
    """Return an input with the messages and the state that the conversation has now."""
    return run_input.model_copy(update={"messages": conversation.messages, "state": conversation.state})
