"""The tools that a member has at work: noted before their functions are called, so that none is begun twice (TOOL-10).

What a member has begun is in its team's journal, and its results are among the team's messages as soon as they are
there. If the process ends, the member goes on behind its tools as any agent does (`_core.run.continuing`).

To change

- what a team knows of the tools that a member has begun: `begun` and `left` of `CallRecord`; this module notes them,
  and goes on with them
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ag_ui.core import Event, Message, ToolMessage

from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.placeholders import is_placeholder
from agui_client._core.run.continuing import Continuation
from agui_client._core.run.turn_input import event_of_result

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.run.ending import Checkpoint
    from agui_client._core.tools.approval import ToolDecision
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client.teams._call_journal import CallRecord
    from agui_client.teams._event_forwarder import EventForwarder
    from agui_client.teams._id_scope import IdMap


class InFlightCalls(NamedTuple):
    """The fields of a `CallRecord` that say which tools are at work."""

    begun: list[str]
    """The calls whose functions were called, and that have no result."""
    left: dict[str, ToolDecision | None] | None
    """The decisions about the calls of the same round that were not begun, by the ids of the calls; None if the member
    cannot go on with such a round."""


class Keep(Protocol):
    """Keeps what a member's tools have done."""

    async def __call__(self, events: Sequence[Event], in_flight: InFlightCalls, *, has_used_answers: bool) -> None:
        """Send events of results, and keep the calls in flight; none of that can be lost when it returns.

        Args:
            events: The events.
            in_flight: The tools that are at work.
            has_used_answers: Whether the run that carried answers to the member has finished.
        """


_NO_CALLS = InFlightCalls([], None)


def continuation_of(journal: CallRecord | None, input: RunAgentInput, ids: IdMap) -> Continuation | None:
    """Return the place where a member's process ended, if it was between two runs.

    Args:
        journal: The record of the call; None if it has not been made yet.
        input: The input of the member.
        ids: The ids of the invocation.

    Returns:
        The place; None if the member is run with the input.
    """
    if journal is None or journal.left is None:
        return None
    own = {ids.up(call.id): call.id for _, call in tool_calls_in(input.messages)}
    begun = {own[each] for each in journal.begun if each in own}
    waiting = {own[each]: decision for each, decision in journal.left.items() if each in own}
    # Where the member failed in its process, its team has given the calls that were begun a placeholder for a result.
    messages = [each for each in input.messages if not _is_placeholder_for(each, begun | waiting.keys())]
    return Continuation.behind(input.model_copy(update={"messages": messages}), begun=begun, waiting=waiting)


class InFlightTools:
    """The tools of one invocation of a member.

    Args:
        ids: The ids of the invocation.
        forwarder: Passes the events of the member on.
        journal: The record of the call; None if it has not been made yet.
        keep: Keeps what must not be lost; None where nothing is saved.
        is_between_runs: Whether the member goes on behind a run.
    """

    def __init__(
        self,
        ids: IdMap,
        forwarder: EventForwarder,
        journal: CallRecord | None,
        keep: Keep | None,
        *,
        is_between_runs: bool,
    ) -> None:
        self.unsent: list[Event] = []
        """The events of results that came with the call, until they are sent: before all others."""
        self._ids, self._forwarder, self._keep = ids, forwarder, keep
        self._run: AgentRun | None = None
        self._in_flight = _NO_CALLS if journal is None else InFlightCalls(journal.begun, journal.left)
        # Tools that answers of people have called before the first run are called by these answers again.
        self._has_round = is_between_runs
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
        records = [] if self._run is None else self._run.call.conversation.open_records
        return {self._ids.up(each.tool_call_id) for each in records if each.is_begun}

    async def _note(self, checkpoint: Checkpoint) -> None:
        """Keep which tools are at work and which are not, and the results that are new.

        Args:
            checkpoint: The member's conversation, before a function is called, behind one, or before a run.
        """
        assert self._keep is not None
        assert self._run is not None
        done = {each.tool_call_id for each in checkpoint.results}
        open_ids = {each.tool_call_id for each in self._run.call.conversation.open_records} - done
        before = self._in_flight
        self._in_flight = in_flight = self._in_flight_at(checkpoint, open_ids)
        if in_flight == before == _NO_CALLS:
            return
        events = self.take_unsent() + self._events_of(self._new_results(checkpoint, open_ids))
        # Also if nothing is new: the call that another tool has begun may not be saved yet.
        await self._keep(events, in_flight, has_used_answers=self.has_used_answers)

    def _in_flight_at(self, checkpoint: Checkpoint, open_ids: Collection[str]) -> InFlightCalls:
        """Return the calls that were begun, and those of the same round that were not.

        Args:
            checkpoint: The member's conversation.
            open_ids: The ids of its calls without a result.
        """
        assert self._run is not None
        if checkpoint.run_id is not None:
            self._has_round = True
            return _NO_CALLS
        records = [each for each in self._run.call.conversation.ledger if each.tool_call_id in open_ids]
        ours = [each for each in records if each.is_of_application]
        begun = [each.tool_call_id for each in ours if each.is_begun or each.is_asked]
        left = {each.tool_call_id: each.decision for each in ours if each.is_waiting}
        if not (begun or checkpoint.results or (left and self._in_flight.left is not None)):
            # No tool of the round was called, so the run that asks for them may be made again.
            return _NO_CALLS
        self._open_calls = [*dict.fromkeys([*self._open_calls, *begun, *left])]
        # No tool answers what else waits, so the member is asked again behind the results.
        waits = any(each.is_asked or (each.is_ours_to_answer and not each.is_of_application) for each in records)
        waits = waits or bool(checkpoint.members["pending_interrupts"] or checkpoint.members["kept_answers"])
        up = self._ids.up
        goes_on = self._has_round and not waits
        decisions = {up(each): decision for each, decision in left.items()}
        return InFlightCalls([up(each) for each in begun], decisions if goes_on else None)

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
