"""The run for a caller's input: its agent, the conversation that it continues with, and proof of its answers.

The input is the whole conversation, so that a server needs to keep nothing. What a stored thread takes of it is
`caller_input`; a clone that has the conversation of the input is made in `caller_clone`.

To change

- the events that a caller of a served agent gets: this module makes the run of an input, `_core/verbs/caller_run.py`
  one run of several rounds, with the ids, owners and messages of `_core/verbs/one_run.py`; `_serving/connecting.py`
  sends a thread again, and a stored one itself; `_core/verbs/sse.py` makes frames, and the body that `run.sse()`
  returns
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

from agui_client._core.conversation.state_base import split_base
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.placeholders import is_placeholder, without_mark
from agui_client._core.run.subagents import NO_JOURNAL, has_journal, without_journal
from agui_client._core.tools.toolset import Toolset, chooses_tools, tool_list
from agui_client._core.verbs.caller_interrupts import ResumeAnswers
from agui_client._core.verbs.signer import SignedInterrupts
from agui_client._core.verbs.team_journals import TeamJournals
from agui_client._serving.caller_clone import clone_for
from agui_client._serving.caller_input import AnswersOfCaller, CallerInput
from agui_client._serving.divergence import check_on_divergence
from agui_client._serving.repetition import refuse_approvals_of_answered_calls
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Message, RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.run.continuing import Continuation
    from agui_client._core.run.options import RunOptions
    from agui_client._core.tools.toolset import ToolSource
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
    """Return the run of an agent for a caller's input; send its `sse()` on.

    An agent whose `thread_id` is the caller's continues with its own conversation, which no other agent has: of
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
        The run, not entered yet. Entering it raises `UsageError` if the input cannot be served, and changes nothing
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
    """Return the run of an agent for a caller's input: see `served_run`."""
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
    """Return the run of an agent for an input of this program's own, which needs no proof.

    Args:
        agent: The agent, which has the conversation.
        given: Keywords of the run that are not part of an input, such as its tools; None if there are none.
    """
    answering = _answering(agent, input, TRUSTING, None)
    options: RunOptions = {**answering.options, **(given or {})}
    return answering.agent.stream(answering.prompt, **options)


class ResumedRun:
    """A run whose process ended, as another one takes it up.

    Args:
        place: The place where the run continues, as it was stored with the run; None if its thread has it, or none was.
    """

    def __init__(self, run_id: str, place: Continuation | None) -> None:
        self.place = place
        """The place where the run continues; None if it begins, or as long as it was not looked for."""
        self.beginning: tuple[Sequence[Message], Any] | None = None
        """The messages and the state with which it began, if its thread has them."""
        self._run_id = run_id

    async def find(self, agent: AbstractAgent) -> Continuation | None:
        """Return the place where the run continues; None if it begins.

        Args:
            agent: The agent, which may be that of a stored thread.
        """
        if self.place is None and (call := await agent.stored_call(self._run_id)) is not None:
            self.beginning, self.place = call
        return self.place


def continued_run(agent: AbstractAgent, input: RunAgentInput, cut: Continuation, signing: SignedInterrupts) -> AgentRun:
    """Return the run that continues where the one of a caller's input was cut, as its process ended.

    Args:
        agent: The agent, as for `served_run`.
        input: The input that the caller sent.
        cut: The place where it continues.
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
    """The agent for an input, and its run."""

    agent: AbstractAgent
    """The agent, or a clone with the conversation of the input."""
    prompt: Any
    """A `CallerInput`, `AnswersOfCaller` or None; no application gives one, so that the verbs do not name it."""
    options: RunOptions
    """The keywords of the run."""
    signer: Signer | None
    """The signer of its interrupts; None if they are not signed."""
    journal_place: JournalPlace | None
    """The place for the journal of a team; None if its thread has it."""


def _answering(
    agent: AbstractAgent, input: RunAgentInput, signing: SignedInterrupts, on_divergence: OnDivergence | None
) -> _Answering:
    """Return the agent for an input, and its run."""
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
    source = AnswersOfCaller() if answers.options else None
    return _Answering(clone_for(agent, input, answers), source, {**options, **answers.options}, signer, place)


def _without_last_placeholders(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the placeholders behind the last prompt: members of a team continue what they left open.

    A client that continues without a prompt cannot tell, as it does not have the journal.
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


def _with_tools(own: Any, input: RunAgentInput) -> ToolSource:
    """Return the agent's tools and the definitions of the caller's, which the caller executes itself."""
    theirs = input.tools or []
    if isinstance(own, Toolset):
        return [own, *theirs]
    if chooses_tools(own):
        return lambda run_input: [*tool_list(own(run_input)), *theirs]
    return [*tool_list(own), *theirs]
