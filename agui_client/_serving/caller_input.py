"""The run that answers a caller's input, with the agent's own conversation or with the one in the input.

The input is the whole conversation, so that a server needs to keep nothing.

To change

- the events that a caller of a served agent gets: this module makes the run of an input, `_core/verbs/caller_run.py`
  one run of several rounds, with the ids, owners and messages of `_core/verbs/one_run.py`; `_serving/connecting.py`
  sends a thread again, and a stored one itself; `_core/verbs/sse.py` makes frames, and the body that `run.sse()`
  returns
- what a stored thread takes of a caller's input: `StoredThreadRequest` here
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

from ag_ui.core import Interrupt, ToolMessage

from agui_client._core.conversation.answer_checks import check_results
from agui_client._core.conversation.conversation import Conversation
from agui_client._core.conversation.ledger import AnsweredBy, CallStatus, ToolCallRecord
from agui_client._core.conversation.rewinding import beginning_of
from agui_client._core.conversation.snapshot import document_of
from agui_client._core.conversation.state_base import split_base, state_hash
from agui_client._core.conversation.state_json import state_as_json
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.outcome import branch_left
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.placeholders import NO_RESULT, is_placeholder, marked, without_mark
from agui_client._core.protocol.schema import is_object
from agui_client._core.protocol.thread_state import with_free_ids
from agui_client._core.run.continuing import StoredBeginning
from agui_client._core.run.subagents import NO_JOURNAL, has_journal, with_journal_of, without_journal
from agui_client._core.run.turn_input import RequestSource, TurnInput
from agui_client._core.tools.approval import Deny
from agui_client._core.tools.toolset import Toolset, chooses_tools, tool_list
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client._core.verbs.signer import SignedInterrupts
from agui_client._core.verbs.team_journals import TeamJournals
from agui_client._serving.caller_state import merged_state
from agui_client._serving.divergence import COMPARED, check_on_divergence, kept_count
from agui_client._serving.repetition import refuse_answered, refuse_approvals_of_answered_calls, refuse_repeated_run
from agui_client.errors import RequestRepeatedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ag_ui.core import Message, ResumeEntry, RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.protocol.warnings import WarningLog
    from agui_client._core.run.continuing import Continuation
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import CallTools, ToolSource
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._core.verbs.signer import Secret, Signer
    from agui_client._core.verbs.sync_run import SyncAgentRun
    from agui_client._core.verbs.team_journals import JournalPlace
    from agui_client._serving.divergence import OnDivergence

_PROCESS_JOURNALS = TeamJournals()
"""The journals of teams that are served without an app."""
_PROCESS_KEY = token_bytes(32)
"""The key that signs interrupts where the application gives none; processes that are forked from this one have it."""


TRUSTING = SignedInterrupts(None, _PROCESS_KEY, is_caller_trusted=True)
"""Signs nothing: for inputs of this program's own."""


def served_run(
    agent: AbstractAgent,
    input: RunAgentInput,
    *,
    secret: Secret | None = None,
    trust_caller: bool = False,
    owner: str = "",
    on_divergence: OnDivergence = "append",
) -> AgentRun:
    """Return the run of an agent that answers a caller's input; send its `sse()` on.

    An agent whose `thread_id` is the caller's goes on with its own conversation, which no other agent has: of
    the input, it takes the user messages that it does not have, results of the caller's own tools, and a state that is
    not empty. Any other agent is cloned, and the clone gets the conversation of the input.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread.
        input: The input that the caller sent.
        secret: The key that signs interrupts, or several, as for `agent_app`.
        trust_caller: Whether to take all that the caller sends for true, as for `agent_app`.
        owner: The user of this request: what was signed for one owner counts for no other.
        on_divergence: What becomes of an input that leaves a stored thread, as for `agent_app`.

    Returns:
        The run, not entered yet. Entering it raises `UsageError` if the input cannot be answered, and changes nothing
        then.

    Raises:
        UsageError: The input has an answer that was not signed here, or the secret cannot be one.
        RequestExpiredError: The input answers what a team has asked, and nothing of its run is kept here any more.
    """
    signing = _signing(secret, owner, is_caller_trusted=trust_caller)
    check_on_divergence(on_divergence)
    return answering_run(agent, of_caller(input), signing, on_divergence)


def served_run_sync(
    agent: AbstractAgent,
    input: RunAgentInput,
    *,
    secret: Secret | None = None,
    trust_caller: bool = False,
    owner: str = "",
    on_divergence: OnDivergence = "append",
) -> SyncAgentRun:
    """`served_run` for Flask, Django's sync views, and other code without `await`.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread.
        input: The input that the caller sent.
        secret: The key that signs interrupts, or several, as for `agent_app`.
        trust_caller: Whether to take all that the caller sends for true, as for `agent_app`.
        owner: The user of this request: what was signed for one owner counts for no other.
        on_divergence: What becomes of an input that leaves a stored thread, as for `agent_app`.

    Returns:
        The run, not entered yet; send its `sse()` on.

    Raises:
        UsageError: The input has an answer that was not signed here, or the secret cannot be one.
        RequestExpiredError: The input answers what a team has asked, and nothing of its run is kept here any more.
    """
    signing = _signing(secret, owner, is_caller_trusted=trust_caller)
    check_on_divergence(on_divergence)
    answering = _answering(agent, of_caller(input), signing, on_divergence)
    run = answering.agent.stream_sync(answering.prompt, **answering.options)
    run.signer, run.journal_place = answering.signer, answering.journal_place
    return run


def _signing(secret: Secret | None, owner: str, *, is_caller_trusted: bool) -> SignedInterrupts:
    return SignedInterrupts(
        secret, _PROCESS_KEY, is_caller_trusted=is_caller_trusted, owner=owner, journals=_PROCESS_JOURNALS
    )


def answering_run(
    agent: AbstractAgent, input: RunAgentInput, signing: SignedInterrupts, on_divergence: OnDivergence = "append"
) -> AgentRun:
    """Return the run of an agent that answers a caller's input: see `served_run`."""
    answering = _answering(agent, input, signing, on_divergence)
    run = answering.agent.stream(answering.prompt, **answering.options)
    run.signer, run.journal_place = answering.signer, answering.journal_place
    return run


def of_caller(input: RunAgentInput) -> RunAgentInput:
    """Return an input without the journal of a team that its caller may have written: journals stay here."""
    if not has_journal(input.state):
        return input
    return input.model_copy(update={"state": without_journal(input.state)})


def _journal_place(agent: AbstractAgent, signing: SignedInterrupts, thread_id: str) -> JournalPlace | None:
    """Return the place for the journal of a thread that is not stored; None for an input of this program's own."""
    return signing.journal_of(agent.name or type(agent).__name__, thread_id)


def trusted_run(agent: AbstractAgent, input: RunAgentInput, given: RunOptions | None = None) -> AgentRun:
    """Return the run of an agent that answers an input of this program's own, which needs no proof.

    Args:
        agent: The agent, which has the conversation.
        input: The input.
        given: Keywords of the run that are not part of an input, such as its tools; None if there are none.
    """
    answering = _answering(agent, input, TRUSTING, None)
    options: RunOptions = {**answering.options, **(given or {})}
    return answering.agent.stream(answering.prompt, **options)


class ResumedRun:
    """A run whose process ended, as another one takes it up.

    Args:
        run_id: The id of the run.
        place: The place where the run goes on, as it was stored with the run; None if its thread has it, or none was.
    """

    def __init__(self, run_id: str, place: Continuation | None) -> None:
        self.place = place
        """The place where the run goes on; None if it begins, or as long as it was not looked for."""
        self.beginning: tuple[Sequence[Message], Any] | None = None
        """The messages and the state with which it began, if its thread has them."""
        self._run_id = run_id

    async def find(self, agent: AbstractAgent) -> Continuation | None:
        """Return the place where the run goes on; None if it begins.

        Args:
            agent: The agent, which may be that of a stored thread.
        """
        if self.place is None and (call := await agent.stored_call(self._run_id)) is not None:
            self.beginning, self.place = call
        return self.place


def continued_run(agent: AbstractAgent, input: RunAgentInput, cut: Continuation, signing: SignedInterrupts) -> AgentRun:
    """Return the run that goes on where the one of a caller's input was cut, as its process ended.

    Args:
        agent: The agent, as for `served_run`.
        input: The input that the caller sent.
        cut: The place where it goes on.
        signing: Signs the interrupts.
    """
    is_owner = agent.thread_id == input.thread_id
    if not is_owner:
        agent = agent.clone(thread_id=input.thread_id)
        agent.set_messages([])
    agent.restore(cut.document)
    prompt: Any = cut  # no prompt of an application, so that the verbs do not name it
    run = agent.stream(prompt, **_options(agent, input, split_base(input.forwarded_props)[1]))
    run.signer = signing.signer(input.thread_id, is_stored=is_owner)
    run.journal_place = None if is_owner else _journal_place(agent, signing, input.thread_id)
    return run


class _Answering(NamedTuple):
    """The agent that answers an input, and its run."""

    agent: AbstractAgent
    """The agent, or a clone with the conversation of the input."""
    prompt: Any
    """A `CallerInput` or None; no application gives one, so that the verbs do not name it."""
    options: RunOptions
    """The keywords of the run."""
    signer: Signer | None
    """The signer of its interrupts; None if they are not signed."""
    journal_place: JournalPlace | None
    """The place for the journal of a team; None if its thread has it."""


def _answering(
    agent: AbstractAgent, input: RunAgentInput, signing: SignedInterrupts, on_divergence: OnDivergence | None
) -> _Answering:
    """Return the agent that answers an input, and its run."""
    resume, is_owner = input.resume or [], agent.thread_id == input.thread_id
    if agent.is_team and signing is not TRUSTING:
        input = input.model_copy(update={"messages": _without_last_placeholders(input.messages)})
    if not signing.is_caller_trusted:
        # Only this side makes placeholders, which a late result replaces.
        own = [without_mark(each) if each.role == "tool" else each for each in input.messages]
        input = input.model_copy(update={"messages": own})
    place = None if is_owner else _journal_place(agent, signing, input.thread_id)
    if place is not None:
        # Before the signatures, which another process cannot verify either.
        input = _with_journal(agent, input, place)
    # The interrupts that wait in a stored thread were asked by this side: its conversation is the proof.
    signer = signing.signer(input.thread_id, is_stored=is_owner)
    if signer is not None:
        resume = [entry.model_copy(update={"interrupt_id": signer.verified(entry.interrupt_id)}) for entry in resume]
    base, forwarded_props = split_base(input.forwarded_props)
    options = _options(agent, input, forwarded_props)
    if is_owner:
        is_trusted = signing.is_caller_trusted
        caller = CallerInput(agent, input, resume, base, is_trusted=is_trusted, on_divergence=on_divergence)
        return _Answering(agent, caller, options, signer, place)
    refuse_approvals_of_answered_calls(input.messages, resume)
    # Most inputs answer nothing, and may have thousands of messages.
    calls = tool_calls_in(input.messages if resume else ())
    answers = ResumeAnswers(resume, {call.id: call for _, call in calls})
    if agent.is_team and answers.entries and not has_journal(input.state):
        raise UsageError(NO_JOURNAL)
    return _Answering(clone_for(agent, input, answers), None, {**options, **answers.options}, signer, place)


def _without_last_placeholders(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the placeholders behind the last prompt: members of a team answer what they left open.

    A client that goes on without a prompt cannot tell, as it does not have the journal.
    """
    begin = next((at for at in range(len(messages), 0, -1) if messages[at - 1].role == "user"), 0)
    behind = (each for each in messages[begin:] if each.role != "tool" or not is_placeholder(each))
    return [*messages[:begin], *behind]


def _with_journal(agent: AbstractAgent, input: RunAgentInput, place: JournalPlace) -> RunAgentInput:
    """Return an input with the journal that is kept of its thread; one that has a journal is of a stored run.

    Raises:
        RequestExpiredError: The input answers what a team has asked, and no journal is kept.
        UsageError: A call that waits is another one in the input.
    """
    if has_journal(input.state):
        return input
    last = input.messages[-1] if input.messages else None
    is_result = last is not None and last.role == "tool" and agent.is_of_member(last)
    state = place.opened(input.state, input.messages, is_needed=agent.is_team and (bool(input.resume) or is_result))
    return input if state is input.state else input.model_copy(update={"state": state})


def _options(agent: AbstractAgent, input: RunAgentInput, forwarded_props: Any) -> RunOptions:
    """Return the keywords of the run that an input asks for."""
    options: RunOptions = {
        "run_id": input.run_id,
        "tools": _with_tools(agent.tools, input),
        "context": input.context or (),
        "forwarded_props": forwarded_props,
    }
    if input.parent_run_id is not None:
        options["parent_run_id"] = input.parent_run_id
    return options


_NOTHING_NEW = (
    "the input brings no message whose id the thread does not have, no result, no answer and no other state: nothing "
    'was run, as the agent would go on from its own answer; on_divergence="rewind" edits and regenerates'
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
        on_divergence: What becomes of the input if it leaves the thread; None goes on with the thread in any case, also
            if the input brings nothing.
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
        """Return the request of the run that answers the input.

        Args:
            conversation: The stored conversation.
            options: The keywords of the run.

        Raises:
            RequestRepeatedError: The input was answered before.
            UsageError: The input cannot be answered.
        """
        if not self.is_trusted:
            _refuse_unknown_history(conversation, self.input.messages)
        refuse_repeated_run(conversation, self.input.run_id)
        refuse_answered(conversation, self.resume)
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

    def _kept_of(self, conversation: Conversation) -> int | None:
        """Return the number of messages that the input goes on with; None if the thread is not left."""
        if self._on_divergence not in ("rewind", "refuse") or self.resume:
            return None
        open_ids = {each.tool_call_id for each in conversation.open_records}
        return kept_count(conversation.messages, self.input.messages, open_ids)


def _last_id(messages: Sequence[Message]) -> str | None:
    """Return the id of the last message that is no result, which the log of a thread may have in another place."""
    return next((each.id for each in reversed(messages) if each.role != "tool"), None)


def _refuse_unknown_history(conversation: Conversation, messages: Sequence[Message]) -> None:
    """Refuse to answer half a conversation: that of an agent which nobody stores, and to which all of it is new.

    Raises:
        UsageError: The conversation is empty, and the caller has got answers in it.
    """
    roles = [message.role for message in messages]
    asked = roles.index("user") if "user" in roles else len(roles)
    if conversation.past is None and not conversation.messages and not {"assistant", "tool"}.isdisjoint(roles[asked:]):
        raise UsageError(
            "the agent has the caller's thread_id and an empty conversation, and the caller sends a history: leave "
            "thread_id= out for an agent that takes the caller's messages, or keep the thread in a Store(URL)"
        )


class StoredThreadRequest(TurnInput):
    """A caller's input, of which a stored thread takes what the caller may say, and nothing before it is accepted.

    A caller may speak for its user and answer for its own tools. What the agent and the tools of this side have said is
    in the thread, and a call can be approved only if a run of this side left it waiting (SEC-3).

    Args:
        conversation: The stored conversation.
        caller: The input and whether it is trusted.
        options: The keywords of the run.

    Raises:
        UsageError: The input cannot be answered.
        InterruptsNotCoveredError: The answers do not cover the pending interrupts.
    """

    def __init__(self, conversation: Conversation, caller: CallerInput, options: RunOptions) -> None:
        self._caller = caller
        self._state = self._merged_state(conversation)
        records = {each.tool_call_id: each for each in conversation.open_records if _takes_results(each)}
        ordinals = {each.tool_call_id: each.ordinal for each in conversation.ledger}
        answers = ResumeAnswers(caller.resume, conversation.waiting_calls, ordinals)
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
        given: RunOptions = {**options, **answers.options, "tool_results": {**results, **decided}}
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
        """Whether the agent would only run on its own answer, as it would if a page sent a request again."""
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
        """Check answers to tool calls against the tools that are offered; refuse those for tools of this side.

        Args:
            tools: The tools of the first run.

        Raises:
            UsageError: A call cannot be executed here, or was executed, or the answer needs to be an approval.
        """
        if not self._caller.is_trusted:
            records = [each for each in self._conversation.open_records if each.tool_call_id in self._sent_results]
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
    """A caller's input that leaves a stored thread: the thread goes back, and goes on from there with the same save.

    Args:
        conversation: The stored conversation.
        beginning: The part of it that stays.
        caller: The input and whether it is trusted.
        options: The keywords of the run.

    Raises:
        UsageError: The input cannot be answered.
    """

    def __init__(
        self, conversation: Conversation, beginning: StoredBeginning, caller: CallerInput, options: RunOptions
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
        if datetime.now(UTC) - beginning.saved_at < _RECENT:
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
        """Report the branch that was left, if another run wrote it just now."""
        super().warn(warnings)
        if self.left_branch is not None:
            warnings.add("INPUT-1", branch_left(self.left_branch))


def _is_of_user(message: Message, agent: AbstractAgent) -> bool:
    """Return whether a message is the user's own: one of a member of a team would be shown to that member alone."""
    return message.role == "user" and message.subagent_run_id is None and not agent.is_of_member(message)


def _takes_results(record: ToolCallRecord) -> bool:
    """Return whether a caller may bring the result of a call, unless a tool of this side answers it (`check_tools`)."""
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
    """Return the first result of each call that may get one, by call id, and all messages that are no results."""
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


def clone_for(agent: AbstractAgent, input: RunAgentInput, answers: ResumeAnswers | None = None) -> AbstractAgent:
    """Return a clone of an agent with the conversation of an input, and with what waits for the caller's answers.

    Args:
        agent: The agent.
        input: The input that the caller sent.
        answers: The caller's answers; None if it gives none.
    """
    answers = answers or ResumeAnswers((), {})
    agent = agent.clone(thread_id=input.thread_id)
    # What the agent did in a conversation of its own says nothing about calls of the same ids in this one.
    agent.set_messages([])
    members: dict[str, Any] = {
        "thread_id": input.thread_id,
        "messages": with_free_ids(input.messages),
        "state": {} if input.state is None else input.state,
        # Of the interrupts that the caller answers, the agent needs no more than their ids.
        "pending_interrupts": [Interrupt(id=entry.interrupt_id, reason="") for entry in answers.entries],
        # The signed ids of their interrupts say that these calls are the ones that were shown.
        "tool_calls": _records(input, answers),
    }
    agent.restore(document_of(members))
    return agent


def _records(input: RunAgentInput, answers: ResumeAnswers) -> list[ToolCallRecord]:
    """Return the records of the calls that a caller decides about, or whose questions it answers.

    Raises:
        UsageError: The caller answers a question about a call of another tool than the one that asked it.
    """
    for call in answers.calls:
        # The call is made again with the answer, and without another approval.
        if (asking := answers.tools.get(call.id, call.function.name)) != call.function.name:
            what = f"resume answers a question of tool {quoted(asking)} about call {quoted(call.id)}"
            raise UsageError(f"{what}, which is one of {quoted(call.function.name)} here")
    questions = {each.interrupt.tool_call_id: each for each in answers.questions}
    messages = {call.id: each.id for each, call in tool_calls_in(input.messages if answers.calls else ())}
    return [
        ToolCallRecord(
            tool_call_id=call.id,
            message_id=messages[call.id],
            status=CallStatus.ASKED if call.id in questions else CallStatus.WAITING,
            answered_by=AnsweredBy.APPLICATION,
            shown=call,
            question=questions.get(call.id),
        )
        for call in answers.calls
    ]


def _with_tools(own: Any, input: RunAgentInput) -> ToolSource:
    """Return the agent's tools and the definitions of the caller's, which the caller answers itself."""
    theirs = input.tools or []
    if isinstance(own, Toolset):
        return [own, *theirs]
    if chooses_tools(own):
        return lambda run_input: [*tool_list(own(run_input)), *theirs]
    return [*tool_list(own), *theirs]
