"""The part of a caller's input that a stored thread takes: new messages, results, answers and the state.

The conversation here is the proof of all that was asked; what the caller says of it is compared, and never taken over.

To change

- what a stored thread takes of a caller's input: `StoredThreadRequest` here
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ag_ui.core import ToolMessage

from agui_client._core.conversation.answer_checks import check_results
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import CallStatus, ToolCallRecord
from agui_client._core.conversation.pending import open_records, waiting_calls
from agui_client._core.conversation.rewinding import beginning_of
from agui_client._core.conversation.state_base import state_hash
from agui_client._core.conversation.state_json import state_as_json
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.outcome import branch_left
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.placeholders import NO_RESULT, UNKNOWN_RESULT, marked
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.continuing import StoredBeginning
from agui_client._core.run.subagents import has_journal, with_journal_of
from agui_client._core.run.turn_input import RequestSource, TurnInput
from agui_client._core.tools.approval import Deny
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client._serving.caller_state import merged_state
from agui_client._serving.divergence import COMPARED, common_count, kept_count, may_be_of_branch
from agui_client._serving.repetition import refuse_answered, refuse_repeated_run
from agui_client.errors import RequestRepeatedError, ToolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ag_ui.core import Message, ResumeEntry, RunAgentInput, ToolCall

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.protocol.warnings import WarningLog
    from agui_client._core.run.continuing import StoredBranch
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import CallTools
    from agui_client._serving.divergence import OnDivergence

_NOTHING_NEW = (
    "the input brings no message whose id the thread does not have, no result, no answer and no other state: nothing "
    'was run, as the agent would continue from its own reply; on_divergence="rewind" edits and regenerates'
)
_DIVERGED = 'the input leaves the stored thread, which on_divergence="refuse" does not allow; nothing was run'
_RECENT = timedelta(minutes=1)
"""The time in which a branch that is left was probably written by another page."""


class CallerInput(RequestSource):
    """The input of a caller for a thread that is stored here.

    Args:
        agent: The agent, which has the stored conversation.
        input: The input that the caller sent.
        resume: Its answers to interrupts, with the ids that the agent gave.
        state_base: The hash of the state that its state began with; None if it does not say.
        is_trusted: Whether all messages of the caller are taken.
        on_divergence: What becomes of the input if it leaves the thread; None continues with the thread in any case,
            also if the input brings nothing.
    """

    def __init__(
        self,
        agent: AbstractAgent,
        input: RunAgentInput,
        resume: Collection[ResumeEntry],
        state_base: str | None,
        *,
        is_trusted: bool,
        on_divergence: OnDivergence | None,
    ) -> None:
        self.agent = agent
        """The agent, which has the stored conversation."""
        self.input = input
        """The input that the caller sent."""
        self.resume = resume
        """The caller's answers to interrupts, with the ids that the agent gave."""
        self.state_base = state_base
        """The hash of the state that the caller's state began with; None if the caller does not say."""
        self.is_trusted = is_trusted
        """Whether all messages of the caller are taken."""
        self._on_divergence = on_divergence

    async def request(self, conversation: Conversation, options: RunOptions) -> TurnInput:
        """Return the request of the run for the input.

        Args:
            conversation: The stored conversation.
            options: The keywords of the run.

        Raises:
            RequestRepeatedError: The input was served before.
            UsageError: The input cannot be served.
        """
        if not self.is_trusted:
            _refuse_unknown_history(conversation, self.input.messages)
        refuse_repeated_run(conversation, self.input.run_id)
        refuse_answered(conversation, self.resume)
        if (branch := await self._branch_of(conversation)) is not None:
            return await self._back_to_branch(conversation, branch, options)
        if (kept := self._kept_of(conversation)) is None:
            request = StoredThreadRequest(conversation, self, options)
            if self._on_divergence is not None and request.brings_nothing:
                raise RequestRepeatedError(_NOTHING_NEW)
            return request
        if self._on_divergence == "refuse":
            raise RequestRepeatedError(_DIVERGED)
        beginning = await self.agent.stored_beginning(_last_id(conversation.messages[:kept]))
        if beginning is None:
            beginning = StoredBeginning(beginning_of(conversation, kept), datetime.fromtimestamp(0, UTC))
        return RewindingRequest(conversation, beginning, self, options)

    async def _branch_of(self, conversation: Conversation) -> StoredBranch | None:
        """Return the branch of the thread that the input continues with; None if that is the thread itself.

        A page that has not seen that another one took the thread back continues with what it shows.
        """
        sent, log = self.input.messages, self.agent.thread_log
        if self._on_divergence != "rewind" or self.resume or log is None:
            return None
        if not may_be_of_branch(conversation.messages, sent):
            return None
        branches = [(common_count(each.messages, sent), each) for each in await log.find_branches()]
        common, branch = max(branches, key=lambda found: found[0], default=(0, None))
        return branch if common > common_count(conversation.messages, sent) else None

    async def _back_to_branch(
        self, conversation: Conversation, branch: StoredBranch, options: RunOptions
    ) -> StoredThreadRequest:
        """Return the request of a run that takes the thread back to one of its branches, or to a message in it.

        Raises:
            RequestRepeatedError: The input brings nothing that the branch does not have.
        """
        kept = kept_count(branch.messages, self.input.messages, ())
        last = _last_id(branch.messages[:kept])
        assert last is not None  # it has an answer that the input has, too
        beginning = await branch.find_beginning(last)
        request = RewindingRequest(conversation, beginning, self, options, is_to_branch=True)
        if kept is None and not request.added:
            raise RequestRepeatedError(_NOTHING_NEW)
        return request

    def _kept_of(self, conversation: Conversation) -> int | None:
        """Return the number of messages that the input continues with; None if the thread is not left."""
        if self._on_divergence not in ("rewind", "refuse") or self.resume:
            return None
        open_ids = {each.tool_call_id for each in open_records(conversation)}
        return kept_count(conversation.messages, self.input.messages, open_ids)


def _last_id(messages: Sequence[Message]) -> str | None:
    """Return the id of the last message that is not a result, which the log of a thread may have in another place."""
    return next((each.id for each in reversed(messages) if each.role != "tool"), None)


def _refuse_unknown_history(conversation: Conversation, messages: Sequence[Message]) -> None:
    """Refuse to serve half a conversation: that of an agent which nobody stores, and to which all of it is new.

    Raises:
        UsageError: The conversation is empty, and the caller has got replies in it.
    """
    roles = [message.role for message in messages]
    asked = roles.index("user") if "user" in roles else len(roles)
    if conversation.past is None and not conversation.messages and not {"assistant", "tool"}.isdisjoint(roles[asked:]):
        raise UsageError(
            "the agent has the caller's thread_id and an empty conversation, and the caller sends a history: leave "
            "thread_id= out for an agent that takes the caller's messages, or keep the thread in a Store(URL)"
        )


class AnsweringInput(TurnInput):
    """A call with a caller's answers: a tool may be gone since it asked, which no caller can mend."""

    def _result_without_tool(self, call: ToolCall) -> ToolError:
        """Return the result that says that the tool is gone."""
        return ToolError(f"There is no tool {quoted(call.function.name)} here any more: the call was not carried out.")


class AnswersOfCaller(RequestSource):
    """The answers of a caller whose thread is not stored: the conversation has what they are about."""

    async def request(self, conversation: Conversation, options: RunOptions) -> TurnInput:
        """Return the request of the run that the answers begin."""
        return AnsweringInput(conversation, [], options)


class StoredThreadRequest(AnsweringInput):
    """A caller's input, of which a stored thread takes what the caller may say, and nothing before it is accepted.

    A caller may speak for its user and answer for its own tools. What the agent and the tools of this side have said is
    in the thread, and a call can be approved only if a run of this side left it waiting (SEC-3).

    Args:
        conversation: The stored conversation.
        caller: The input and whether it is trusted.
        options: The keywords of the run.

    Raises:
        UsageError: The input cannot be served.
        InterruptsNotCoveredError: The answers do not cover the pending interrupts.
    """

    def __init__(self, conversation: Conversation, caller: CallerInput, options: RunOptions) -> None:
        self._caller = caller
        self._state = self._merged_state(conversation)
        records = {each.tool_call_id: each for each in open_records(conversation) if _takes_results(each)}
        ordinals = {each.tool_call_id: each.ordinal for each in conversation.ledger}
        answers = ResumeAnswers(caller.resume, waiting_calls(conversation), ordinals)
        decided = answers.options.get("tool_results", {})
        if not caller.is_trusted:
            _refuse_denials(decided, records)
        open_ids = check_results(conversation, {}) if caller.is_trusted else records
        new = _unknown_messages(caller.input.messages, conversation)
        # They keep the ids that the caller gave them, by which it finds them in its own copy of the thread.
        self._sent_results, others = _results_and_others(new, set(open_ids) - decided.keys())
        prompts: list[Message] = []
        self._dropped: list[Message] = []
        for each in others:
            is_taken = caller.is_trusted or _is_of_user(each, caller.agent)
            (prompts if is_taken else self._dropped).append(each)
        results = {key: message.content for key, message in self._sent_results.items()}
        # A caller cannot decide about a call that a process which is gone has begun, and would wait for ever.
        begun = (each.tool_call_id for each in open_records(conversation) if each.is_begun and each.is_of_application)
        unknown = {key: ToolError(UNKNOWN_RESULT) for key in begun} if decided else {}
        given: RunOptions = {**options, **answers.options, "tool_results": {**unknown, **results, **decided}}
        super().__init__(conversation, prompts, given)
        self.results: Sequence[ToolMessage] = [self._sent_results.get(each.tool_call_id, each) for each in self.results]
        if self._state is not None:
            self.input: RunAgentInput = self.input.model_copy(update={"state": self._state})

    def _merged_state(self, conversation: Conversation) -> Any:
        """Return the stored state with what the caller changed; None if the caller sent none."""
        state = self._caller.input.state
        # A null or empty state counts as none: an input cannot tell whether its sender ever had one.
        if state in (None, {}):
            return None
        own = self._with_stored_journal(state_as_json(state), conversation.state)
        return merged_state(conversation, own, self._caller.state_base)

    def _with_stored_journal(self, state: Any, stored: Any) -> Any:
        """Return a caller's state with the stored journal of a team: in its own, a caller could make up results."""
        agent = self._caller.agent
        if self._caller.is_trusted or not (agent.is_team or has_journal(state) or has_journal(stored)):
            return state
        if not is_object(state):
            return stored  # a text or a list has no place for the journal
        return with_journal_of(stored, state)

    @property
    def brings_nothing(self) -> bool:
        """Whether the agent would only run on its own reply, as it would if a page sent a request again."""
        conversation = self._conversation
        is_changed = self._state is not None and not is_same_json(self._state, conversation.state)
        if self.added or self._answers or self._caller.resume or is_changed or conversation.is_abandoned:
            return False
        if has_journal(conversation.agent_state) and not conversation.pending_interrupts:
            # A team that was cut off resumes by itself: its members have not come to their end.
            return False
        last = next((each for each in reversed(conversation.messages) if each.role in COMPARED), None)
        # A run that did not finish may be tried again.
        return last is not None and last.role == "assistant" and conversation.unreceived is not None

    @property
    def given_results(self) -> Sequence[ToolMessage]:
        """The results of tool calls that the caller did not send itself."""
        return [each for each in self.results if self._sent_results.get(each.tool_call_id) is not each]

    @property
    def state_of_caller(self) -> Any:
        """The state as the caller knows it."""
        return {} if (state := self._caller.input.state) is None else state

    def check_tools(self, tools: CallTools) -> None:
        """Check results and approvals of calls against the tools that are offered; refuse those for tools of this side.

        Args:
            tools: The tools of the first run.

        Raises:
            UsageError: A call cannot be executed here, or was executed, or an approval is needed instead of a result.
        """
        if not self._caller.is_trusted:
            records = [each for each in open_records(self._conversation) if each.tool_call_id in self._sent_results]
            ours = [each.tool_call_id for each in records if each.is_of_application]
            self._dropped += [self._sent_results[key] for key in ours]
            # Under the caller's id, so that it learns what its result was replaced by.
            self.results = [_without_result(each) if each.tool_call_id in ours else each for each in self.results]
        super().check_tools(tools)

    def add_to_conversation(self) -> None:
        """Add the messages and the state of the caller to the conversation."""
        super().add_to_conversation()
        if self._state is not None:
            self._conversation.set_state(self._state)

    def warn(self, warnings: WarningLog) -> None:
        """Report the messages of the caller that were not taken."""
        super().warn(warnings)
        for message in self._dropped:
            what = f"the caller's {message.role} message {quoted(message.id)} was not taken into the stored thread"
            how = "which takes user messages and results of the caller's own tools; trust_caller=True takes all"
            warnings.add("SEC-3", f"{what}, {how}")


class RewindingRequest(StoredThreadRequest):
    """A caller's input that leaves a stored thread: the thread goes back, and continues from there with the same save.

    Args:
        conversation: The stored conversation.
        beginning: The part of it that stays.
        caller: The input and whether it is trusted.
        options: The keywords of the run.
        is_to_branch: Whether it is a part of one of the thread's branches, and not of the thread as it is.

    Raises:
        UsageError: The input cannot be served.
    """

    def __init__(
        self,
        conversation: Conversation,
        beginning: StoredBeginning,
        caller: CallerInput,
        options: RunOptions,
        *,
        is_to_branch: bool = False,
    ) -> None:
        self._whole, self._before, self._beginning = conversation, conversation.snapshot(), beginning
        # The thread itself changes only when the request is accepted.
        rewound = Conversation(conversation.thread_id)
        rewound.become(beginning.document)
        rewound.past = conversation.past
        if caller.state_base is None:
            # What the thread has, the caller has not changed, and it goes with the branch.
            caller.state_base = state_hash(conversation.state)
        super().__init__(rewound, caller, options)
        # A page that comes back to a branch has not seen what the thread had instead.
        if is_to_branch or datetime.now(UTC) - beginning.saved_at < _RECENT:
            self.left_branch: str | None = conversation.messages[-1].id

    def add_to_conversation(self) -> None:
        """Take the conversation back, and add the messages and the state of the caller."""
        self._whole.become(self._beginning.document)
        self._conversation = self._whole
        super().add_to_conversation()

    def undo(self) -> None:
        """Go back to the conversation before the call."""
        self._whole.become(self._before)

    def warn(self, warnings: WarningLog) -> None:
        """Report the branch that was left, if its caller has probably not seen it."""
        super().warn(warnings)
        if self.left_branch is not None:
            warnings.add("INPUT-1", branch_left(self.left_branch))


def _is_of_user(message: Message, agent: AbstractAgent) -> bool:
    """Return whether a message is the user's own: one of a member of a team would be shown to that member alone."""
    return message.role == "user" and message.subagent_run_id is None and not agent.is_of_member(message)


def _takes_results(record: ToolCallRecord) -> bool:
    """Return whether a caller may bring the result of a call, unless a tool of this side gives it (`check_tools`)."""
    return record.is_ours_to_answer and record.status in (CallStatus.CUT, CallStatus.WAITING)


def _refuse_denials(decided: Mapping[str, object], records: Mapping[str, ToolCallRecord]) -> None:
    """Refuse a denial of a call that does not wait: it would become the result, with a reason in the caller's words.

    Raises:
        UsageError: There is one.
    """
    for key, answer in decided.items():
        if isinstance(answer, Deny) and key not in records:
            raise UsageError(f"resume denies tool call {quoted(key)}, which waits for no approval; nothing was sent")


def _unknown_messages(messages: Sequence[Message], conversation: Conversation) -> list[Message]:
    """Return the messages that the conversation does not have; of several with one id, the first one counts."""
    stored = {message.id for message in conversation.messages}
    return list({message.id: message for message in reversed(messages) if message.id not in stored}.values())[::-1]


def _results_and_others(
    messages: Sequence[Message], open_ids: AbstractSet[str]
) -> tuple[dict[str, ToolMessage], list[Message]]:
    """Return the first result of each call that may get one, by call id, and all messages that are not results."""
    results: dict[str, ToolMessage] = {}
    others: list[Message] = []
    for message in messages:
        if message.role == "tool" and message.tool_call_id in open_ids:
            results.setdefault(message.tool_call_id, message)
        else:
            others.append(message)
    return results, others


def _without_result(message: ToolMessage) -> ToolMessage:
    about: Any = {"tool_call_id": message.tool_call_id, "metadata": marked()}
    return ToolMessage(id=message.id, content=NO_RESULT, error=NO_RESULT, **about)
