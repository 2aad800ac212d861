"""The ledger: a record for each tool call that a run of this side left (TOOL-4, TOOL-9, TOOL-10, SEC-3).

A record is made when a run leaves a call without a result; it is the proof that the agent made the call. Calls in
messages that a caller brought have none, and are never executed. A record goes with its call: when the call is no
longer among the messages, and when a server uses the id again, which then means another call.

`CallStatus` has the statuses of a call, and `_FOLLOWS` what may follow each of them, with the reasons.

A call that got its result from elsewhere (its caller or the agent) has no record any more. One whose function was
stopped, by a time-out or as the program ended, stays EXECUTING: it may have a placeholder, which a late result of the
application replaces once.

An invariant: a function is called only after its record was saved as EXECUTING. From such a record without a
result, a program cannot know whether the function had its effect, and nothing here calls it again.

To change

- a status of a tool call: `CallStatus` here, in its place among the others, as `further` there compares them; what may
  follow it in `_FOLLOWS` there. `tests/core/tools/test_late_results.py` goes through the statuses, and says which way
  to a new one, or which fact about it, is missing. `settle_conversation` says what a run leaves, `reconcile` in
  `_core/conversation/reconciling.py` what becomes of a record when the messages change, `role_of` in
  `_core/run/next_step.py` which calls are executed, also after a crash; `_current_records` in
  `store/_threads/entries.py` what a fork keeps, `_takes_results` in `_serving/caller_input.py` and `stored_interrupts`
  in `_core/verbs/caller_interrupts.py` what a caller may answer, `continuation_of` in `teams/_in_flight_tools.py` which
  calls of a member are made after a crash. Older code refuses a status that it does not know, in documents and in
  stored threads
- who gives the result of a tool call: `ToolCallRecord.answered_by` and `AnsweredBy` here; `_answered_by` in
  `_core/run/ending.py` chooses the side when a run leaves the call, and a call that only an interrupt is about is the
  agent's. Of callers of served agents, `_takes_results` and `StoredThreadRequest.check_tools` in
  `_serving/caller_input.py`. Who approves a call that the application executes: `_core/tools/approval.py`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from ag_ui.core import ToolCall
from pydantic import BaseModel, ConfigDict, Field

from agui_client._core.tools.approval import ToolDecision
from agui_client._core.tools.questions import GivenAnswer, ToolQuestion


class CallStatus(StrEnum):
    """The status of a tool call without a result, or that was executed here; from the earliest to the latest."""

    PLACEHOLDER = "placeholder"
    """It was never executed, and the agent got a placeholder for its result; or its arguments never ended."""
    CUT = "cut"
    """Its run did not finish: it is executed only on an approval."""
    WAITING = "waiting"
    """Its run finished, and left it without a result."""
    ASKED = "asked"
    """Its tool asked a question that nobody has answered; the call is made again with the answer."""
    EXECUTING = "executing"
    """Its function was called. If that was stopped since, its effect is unknown, and it is never called again."""
    ANSWERED = "answered"
    """It was executed here, and its result is among the messages."""


_FOLLOWS: Mapping[CallStatus, frozenset[CallStatus]] = {
    # CUT if the placeholder is lost, ANSWERED by a late result.
    CallStatus.PLACEHOLDER: frozenset({CallStatus.CUT, CallStatus.EXECUTING, CallStatus.ANSWERED}),
    # WAITING if the call is restarted, and left by a run that finishes; EXECUTING on an approval.
    CallStatus.CUT: frozenset({CallStatus.WAITING, CallStatus.PLACEHOLDER, CallStatus.EXECUTING, CallStatus.ANSWERED}),
    # CUT or PLACEHOLDER if the conversation continued without the call.
    CallStatus.WAITING: frozenset({CallStatus.CUT, CallStatus.PLACEHOLDER, CallStatus.EXECUTING, CallStatus.ANSWERED}),
    # EXECUTING when the call is made again with the answer.
    CallStatus.ASKED: frozenset({CallStatus.PLACEHOLDER, CallStatus.EXECUTING, CallStatus.ANSWERED}),
    # ANSWERED also by a late result.
    CallStatus.EXECUTING: frozenset({CallStatus.ASKED, CallStatus.ANSWERED}),
    # EXECUTING if the agent's snapshot lacks the result.
    CallStatus.ANSWERED: frozenset({CallStatus.EXECUTING}),
}
"""The statuses that may follow each one, beside itself."""


class AnsweredBy(StrEnum):
    """The side that gives the result of a tool call."""

    APPLICATION = "application"
    """This application: its functions alone give the result."""
    CALLER = "caller"
    """The side that runs the agent: a program, or the caller of a served agent."""
    AGENT = "agent"
    """The agent itself, which asks about the call in an interrupt, or did not name it among those that it left."""


class ToolCallRecord(BaseModel):
    """The record of one tool call: all that the messages do not say of it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True
    )

    tool_call_id: str
    """The id of the call."""
    message_id: str
    """The id of the message that makes it."""
    ordinal: int = 1
    """Its number among the calls of the same id, which some servers use again in each run."""
    run_id: str | None = None
    """The run that left it; None where that is not known."""
    subagent_run_id: str | None = None
    """The subagent that made it; None for the agent itself."""
    status: CallStatus
    """Its status."""
    answered_by: AnsweredBy
    """The side that gives its result."""
    is_whole: bool = True
    """Whether its arguments came to their end."""
    is_awaited: bool = False
    """Whether the agent has named it among the calls whose results it waits for."""
    is_reported: bool = False
    """Whether a run has received the result."""
    shown: ToolCall | None = None
    """The call as it was when it began to wait: an approval is bound to that. None if it was never shown whole."""
    question: ToolQuestion | None = None
    """The question that it waits for."""
    decision: ToolDecision | None = None
    """The decision about it, from when it was given, and what is executed in its place; None if there is none. It
    counts for the call as it was shown, and for no other."""
    latest: ToolCall | None = Field(default=None, exclude=True, repr=False)
    """The call as the latest run left it, so that a change is reported once."""

    @property
    def is_begun(self) -> bool:
        """Whether the function of the call was called."""
        return self.status in (CallStatus.EXECUTING, CallStatus.ANSWERED)

    @property
    def is_ours_to_answer(self) -> bool:
        """Whether this application or its caller gives the result, and not the agent."""
        return self.answered_by is not AnsweredBy.AGENT

    @property
    def is_of_application(self) -> bool:
        """Whether functions of this application give the result."""
        return self.answered_by is AnsweredBy.APPLICATION

    @property
    def is_asked(self) -> bool:
        """Whether the function of the call has asked a question, which waits for its answer."""
        return self.status is CallStatus.ASKED

    @property
    def is_waiting(self) -> bool:
        """Whether the call waits for a decision or a result, and its function was not called."""
        return self.status is CallStatus.WAITING

    @property
    def is_settled(self) -> bool:
        """Whether nothing more becomes of the call, unless its messages are removed or replaced."""
        return self.status is CallStatus.ANSWERED and self.is_reported and self.is_whole

    @property
    def is_decided(self) -> bool:
        """Whether the decision or the answer is known with which the call is executed in its turn."""
        if self.is_asked:
            return self.question is not None and self.question.given is not None
        return self.status in (CallStatus.WAITING, CallStatus.CUT) and self.decision is not None

    def become(self, **changes: Any) -> ToolCallRecord:
        """Return the record with changes."""
        return self.model_copy(update=changes)


class Ledger:
    """The records of a conversation's calls, in the order in which they were left; of each id the latest call."""

    def __init__(self, records: Iterable[ToolCallRecord] = ()) -> None:
        self._records = {each.tool_call_id: each for each in records}
        self._unsettled = self._find_unsettled()
        self.reconciled_with: object = None
        """The losses of messages that the records follow: see `reconcile`."""

    def __iter__(self) -> Iterator[ToolCallRecord]:
        return iter(list(self._records.values()))

    def copy(self) -> Ledger:
        """Return a ledger of its own with the same records, which never change."""
        other = Ledger()
        other._records, other._unsettled = self._records.copy(), self._unsettled.copy()
        other.reconciled_with = self.reconciled_with
        return other

    @property
    def settled_count(self) -> int:
        """The number of records of which nothing more becomes."""
        return len(self._records) - len(self._unsettled)

    @property
    def unsettled(self) -> list[ToolCallRecord]:
        """The records of which more may become, in their order: few, where a long conversation has many others."""
        return list(self._unsettled.values())

    @property
    def settled(self) -> list[ToolCallRecord]:
        """The other records, in their order."""
        unsettled = self._unsettled
        return [each for key, each in self._records.items() if key not in unsettled]

    def _find_unsettled(self) -> dict[str, ToolCallRecord]:
        return {key: each for key, each in self._records.items() if not each.is_settled}

    def _put(self, record: ToolCallRecord) -> None:
        """Store a record in the place of the one of its id."""
        call_id = record.tool_call_id
        was_settled = call_id in self._records and call_id not in self._unsettled
        self._records[call_id] = record
        if record.is_settled:
            self._unsettled.pop(call_id, None)
        elif was_settled:
            self._unsettled = self._find_unsettled()
        else:
            self._unsettled[call_id] = record

    def get(self, tool_call_id: str) -> ToolCallRecord | None:
        """Return the record of a call; None if there is none."""
        return self._records.get(tool_call_id)

    def has(self, tool_call_id: str, *statuses: CallStatus) -> bool:
        """Return whether a call has one of some statuses."""
        record = self._records.get(tool_call_id)
        return record is not None and record.status in statuses

    # --- transitions

    def is_unreported(self, tool_call_id: str) -> bool:
        """Return whether a call was executed here, and no run has received its result yet."""
        record = self._records.get(tool_call_id)
        return record is not None and record.status is CallStatus.ANSWERED and not record.is_reported

    def record(self, record: ToolCallRecord) -> None:
        """Store the record of a call that a run left; a call that is executing, or has a question, keeps its status."""
        before = self._records.get(record.tool_call_id)
        if before is not None and before.status in (CallStatus.EXECUTING, CallStatus.ASKED):
            record = record.become(status=before.status, question=before.question)
        self._store(record if before is None else before, record)

    def decide(self, tool_call_id: str, decision: ToolDecision) -> None:
        """Note the decision about a call: its function is called here, whichever side was to give its result before."""
        self._change(tool_call_id, decision=decision, answered_by=AnsweredBy.APPLICATION)

    def withdraw(self, tool_call_id: str) -> None:
        """Forget the decision about a call whose function was not called."""
        record = self._records.get(tool_call_id)
        if record is not None and not record.is_begun and not record.is_asked:
            self._change(tool_call_id, decision=None)

    def append(self, record: ToolCallRecord) -> None:
        """Store a record behind all others, as the log of a thread has those that have changed."""
        self.drop(record.tool_call_id)
        self._put(record)

    def note_latest(self, record: ToolCallRecord, latest: ToolCall | None) -> None:
        """Note what a call is now, whose record was restored."""
        self._put(record.become(latest=latest))

    def drop(self, tool_call_id: str) -> None:
        """Forget a call."""
        self._records.pop(tool_call_id, None)
        self._unsettled.pop(tool_call_id, None)

    def execute(self, tool_call_id: str) -> None:
        """Note that the function of a call is called now."""
        self._change(tool_call_id, status=CallStatus.EXECUTING, question=None)

    def ask(self, tool_call_id: str, question: ToolQuestion) -> None:
        """Note that the function of a call has asked a question, and waits to be called again with its answer."""
        self._change(tool_call_id, status=CallStatus.ASKED, question=question)

    def answer_question(self, tool_call_id: str, given: GivenAnswer) -> None:
        """Note the answer to the question of a call, which is made again with it."""
        record = self._records[tool_call_id]
        assert record.question is not None
        question = record.question.model_copy(update={"given": given})
        self._change(tool_call_id, question=question, answered_by=AnsweredBy.APPLICATION)

    def answer(self, tool_call_id: str) -> None:
        """Note that a call has its result from here."""
        self._change(tool_call_id, status=CallStatus.ANSWERED, question=None, shown=None)

    def complete(self, tool_call_ids: Collection[str]) -> None:
        """Note that the arguments of calls have come to their end."""
        for record in self.unsettled:
            if not record.is_whole and record.tool_call_id in tool_call_ids:
                self._put(record.become(is_whole=True))

    def report(self) -> None:
        """Note that a run has received all results."""
        for record in self.unsettled:
            if record.status is CallStatus.ANSWERED and not record.is_reported:
                self._put(record.become(is_reported=True))

    def note_placeholder(self, tool_call_id: str) -> None:
        """Note that a call which was not executed has a placeholder, or that its arguments never ended."""
        self._change(tool_call_id, status=CallStatus.PLACEHOLDER, question=None)

    def lose(self, tool_call_id: str) -> None:
        """Note that the result of a call is not among the messages any more."""
        # Never back to WAITING: a function that was called is not called again, and a call that the conversation went
        # on without is executed only on an approval.
        is_answered = self.has(tool_call_id, CallStatus.ANSWERED)
        if is_answered:
            self._change(tool_call_id, status=CallStatus.EXECUTING)
        else:
            self._change(tool_call_id, status=CallStatus.CUT, decision=None)

    def _change(self, tool_call_id: str, **changes: Any) -> None:
        # A call that was executed without a record, such as one that a middleware made up, needs none.
        if (record := self._records.get(tool_call_id)) is not None:
            self._store(record, record.become(**changes))

    def _store(self, before: ToolCallRecord, record: ToolCallRecord) -> None:
        if record.status is not before.status and record.status not in _FOLLOWS[before.status]:
            raise RuntimeError(
                f"tool call {record.tool_call_id!r} cannot be {record.status} now: it is {before.status}; "
                "please report this"
            )
        self._put(record)


class LedgerRecords(list[ToolCallRecord]):
    """The records of a ledger in a document: a conversation copies the ledger, and makes none of the records again."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.ledger: Ledger = ledger
        """The ledger; a conversation takes a copy."""


def further(one: ToolCallRecord, other: ToolCallRecord | None) -> ToolCallRecord:
    """Return the record of a call in a document, or as it is now, whichever has the later status.

    Args:
        one: The record in the document.
        other: The record of the same call now; None if there is none.
    """
    if other is None:
        return one
    order = list(CallStatus)
    if order.index(other.status) <= order.index(one.status):
        return one
    # The document may lack the result, which is unknown then.
    return one.become(status=CallStatus.EXECUTING) if other.status is CallStatus.ANSWERED else other
