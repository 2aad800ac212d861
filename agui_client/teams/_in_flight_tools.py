"""The work of a member between two runs: noted before functions are called, so that none is begun twice (TOOL-10).

What a member has begun, and what people have answered, is in its team's journal, and its results are among the team's
messages as soon as they are there. If the process ends, the member resumes behind its tools as any agent does
(`_core.run.continuing`).

To change

- what a team knows of what a member has to do between two runs: `PendingWork` of `CallRecord`; this module notes it,
  and resumes there
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ag_ui.core import Event, Message, ToolMessage

from agui_client._core.conversation.pending import open_records
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.placeholders import is_placeholder
from agui_client._core.run.continuing import Continuation
from agui_client._core.run.turn_input import event_of_result
from agui_client.teams._call_journal import PendingWork

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.run.checkpoint import Checkpoint
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.teams._call_journal import CallRecord
    from agui_client.teams._event_forwarder import EventForwarder
    from agui_client.teams._id_scope import IdMap


class Keep(Protocol):
    """Keeps what a member's tools and people have done."""

    async def __call__(self, events: Sequence[Event], pending: PendingWork | None, *, has_used_answers: bool) -> None:
        """Send events of results, and keep what is left to do; none of that can be lost when it returns.

        Args:
            pending: What is left to do; None if nothing was done of it.
            has_used_answers: Whether the run that carried answers to the member has finished.
        """


def continuation_of(journal: CallRecord | None, input: RunAgentInput, ids: IdMap) -> Continuation | None:
    """Return the place where a member's process ended, if it was between two runs.

    Args:
        journal: The record of the call; None if it has not been made yet.
        input: The input of the member.
        ids: The ids of the invocation.

    Returns:
        The place; None if the member is run with the input.
    """
    if journal is None or journal.pending is None:
        return None
    pending = journal.pending
    own = {ids.up(call.id): (message, call) for message, call in tool_calls_in(input.messages)}
    found = [(each, *own[each.tool_call_id]) for each in pending.calls if each.tool_call_id in own]
    calls = [each.become(tool_call_id=call.id, message_id=message.id, shown=call) for each, message, call in found]
    open_ids = {each.tool_call_id for each in calls}
    # Where the member failed in its process, its team has given the calls that were begun a placeholder for a result.
    messages = [each for each in input.messages if not _is_placeholder_for(each, open_ids)]
    left = {"tool_calls": calls, "pending_interrupts": pending.interrupts, "kept_answers": pending.answers}
    return Continuation.behind(input.model_copy(update={"messages": messages}), left)


class InFlightTools:
    """The tools of one invocation of a member.

    Args:
        ids: The ids of the invocation.
        forwarder: Passes the events of the member on.
        journal: The record of the call; None if it has not been made yet.
        keep: Keeps what must not be lost; None where nothing is saved.
        foreign: The ids of the messages that the member is shown, and that are not its own.
    """

    def __init__(
        self,
        ids: IdMap,
        forwarder: EventForwarder,
        journal: CallRecord | None,
        keep: Keep | None,
        foreign: Collection[str],
    ) -> None:
        self.unsent: list[Event] = []
        """The events of results that came with the call, until they are sent: before all others."""
        self._ids, self._forwarder, self._keep, self._foreign = ids, forwarder, keep, foreign
        self._run: AgentRun | None = None
        self._pending = None if journal is None else journal.pending
        self._is_continued = self._pending is not None
        self._open_calls: list[str] = []
        self._sent: set[str] = set()

    def watch(self, run: AgentRun) -> None:
        """Note the tools of a run from now on, and the results that came with the call."""
        self._run = run
        if self._keep is not None:
            run.call.save_also(self._note)
        self.unsent = self._events_of(run.call.given_results)

    @property
    def has_used_answers(self) -> bool:
        """Whether the run that carried answers to the member has finished."""
        return self._run is not None and bool(rounds := self._run.call.rounds) and rounds[0].outcome.is_finished

    def take_unsent(self) -> list[Event]:
        """Return the events of `unsent`, which are sent now."""
        events, self.unsent = self.unsent, []
        return events

    def is_sent(self, message_id: str) -> bool:
        """Return whether the event of a result was sent when the tool had ended, while others were at work."""
        return message_id in self._sent

    def results_at_failure(self) -> list[Event]:
        """Return the events of results of tools that had ended when the member failed, while others were at work."""
        if self._run is None:
            return []
        answered = self._run.call.conversation.answered_call_ids
        results = {each.tool_call_id: each for each in self._run.messages if isinstance(each, ToolMessage)}
        passed, before = self._forwarder.answered, self._run.call.known_ids
        new = ((key, each) for key, each in results.items() if key in answered and each.id not in before)
        return self._events_of(each for key, each in new if self._ids.up(key) not in passed)

    def begun_at_failure(self) -> set[str]:
        """Return the ids of the calls that were begun and have no result, as the team's caller has them."""
        records = [] if self._run is None else open_records(self._run.call.conversation)
        return {self._ids.up(each.tool_call_id) for each in records if each.is_begun}

    async def _note(self, checkpoint: Checkpoint) -> None:
        """Keep what tools and people are at, and the results that are new.

        Args:
            checkpoint: The member's conversation, before a function is called, behind one, or before a run.
        """
        assert self._keep is not None
        assert self._run is not None
        done = {each.tool_call_id for each in checkpoint.results}
        open_ids = {each.tool_call_id for each in open_records(self._run.call.conversation)} - done
        before, self._pending = self._pending, self._pending_at(checkpoint, open_ids)
        if self._pending is before is None:
            return
        events = self.take_unsent() + self._events_of(self._new_results(checkpoint, open_ids))
        # Also if nothing is new: the call that another tool has begun may not be saved yet.
        await self._keep(events, self._pending, has_used_answers=self.has_used_answers)

    def _pending_at(self, checkpoint: Checkpoint, open_ids: Collection[str]) -> PendingWork | None:
        """Return what is left to do; None as long as nothing was done, so that the run may as well be made again.

        Args:
            checkpoint: The member's conversation.
            open_ids: The ids of its calls without a result.
        """
        assert self._run is not None
        up, members = self._ids.up, checkpoint.members
        if checkpoint.run_id is not None:
            return self._sent_at(checkpoint)
        if checkpoint.is_at_end and self._pending is not None and self._pending.sent_behind is not None:
            # Until the end of the call is in the journal, too, which says that the answers have arrived.
            return self._pending
        records = [each for each in self._run.call.conversation.ledger if each.tool_call_id in open_ids]
        ours = [each for each in records if each.is_of_application]
        begun = [each.tool_call_id for each in ours if each.is_begun or each.is_asked]
        left = [each.tool_call_id for each in ours if each.is_waiting]
        interrupts, answers = list(members["pending_interrupts"]), list(members["kept_answers"])
        is_left = bool(left or interrupts) and self._pending is not None
        if not (begun or answers or checkpoint.results or is_left):
            return None
        self._open_calls = [*dict.fromkeys([*self._open_calls, *begun, *left])]
        calls = [each.become(tool_call_id=up(each.tool_call_id), shown=None) for each in records]
        return PendingWork(calls=calls, interrupts=interrupts, answers=answers)

    def _sent_at(self, checkpoint: Checkpoint) -> PendingWork | None:
        """Return the answers that a run carries to the member, as long as it is unknown whether they arrive.

        Args:
            checkpoint: The member's conversation, with a run that was sent.
        """
        assert self._run is not None
        # Those of the team's caller are in the record of the call.
        if not checkpoint.resume or (len(self._run.call.rounds) == 1 and not self._is_continued):
            return None
        own = (each.id for each in reversed(checkpoint.members["messages"]) if each.id not in self._foreign)
        last = next(own, None)
        behind = "" if last is None else self._ids.up(last)
        return PendingWork(answers=list(checkpoint.resume), sent_behind=behind)

    def _new_results(self, checkpoint: Checkpoint, open_ids: Collection[str]) -> list[ToolMessage]:
        """Return the results that the team's run has not sent: the member's events come when all tools have ended.

        Args:
            checkpoint: The member's conversation.
            open_ids: The ids of its calls without a result.
        """
        results = {each.tool_call_id: each for each in checkpoint.members["messages"] if each.role == "tool"}
        results |= {each.tool_call_id: each for each in checkpoint.results}
        # Also of calls that were denied before a function of the round was called.
        ended = dict.fromkeys([*self._open_calls, *(each.tool_call_id for each in checkpoint.results)])
        new = [each for each in ended if each in results and not self.is_sent(results[each].id)]
        done = [each for each in new if each not in open_ids]
        self._open_calls = [each for each in self._open_calls if each in open_ids]
        self._sent.update(results[each].id for each in done)
        return [results[each] for each in done]

    def _events_of(self, results: Iterable[ToolMessage]) -> list[Event]:
        return [passed for each in results for passed in self._forwarder.feed(event_of_result(each))]


def _is_placeholder_for(message: Message, calls: Collection[str]) -> bool:
    return isinstance(message, ToolMessage) and is_placeholder(message) and message.tool_call_id in calls
