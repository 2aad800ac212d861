"""The journal of a team: the calls of its members, in the team's state until its run has finished.

State is what a client sends back whatever client it is (INT-1, STATE-4), and what a stored thread saves. So a run that
asked, failed or was killed is taken up in any process: calls that are over return their results, the others resume.
Where the run is saved, the journal also has the tools that a member has begun, before their functions are called.

To change

- what a team knows when it is taken up again: `CallRecord` and `TeamJournal` here, and `_call_ends`; `MemberCalls` in
  `teams/_member_calls.py` decides whether a run is taken up, and drops the words of an attempt that failed. The journal
  of an inner team is in the record of its call: `TeamJournal.keep` removes it with the end of that, and
  `SubagentRun.fail` tells what a cut team has done and nobody has read. A member that waits stays as it is when others
  fail: `calls_in` finds its tool calls, which are ended when the team comes to its end without it. `is_of_a_member` in
  `_core/run/subagents.py` says which events the engine saves at once, `TeamSource.saved` waits for that
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import FunctionCall, Interrupt, Message, ResumeEntry, RunErrorEvent, TokenUsage
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from agui_client._core.conversation.ledger import ToolCallRecord
from agui_client._core.protocol.schema import is_object
from agui_client._core.run.subagents import JOURNAL, SubagentResult
from agui_client.errors import UsageError
from agui_client.teams._id_scope import as_pointer, invocation_id, owner_key, split_invocation

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Part

Operation: TypeAlias = dict[str, Any]
"""An operation of a JSON Patch on the journal."""


class PendingWork(BaseModel):
    """The work of tools and people for a member between two of its runs, and how much of it is done."""

    calls: list[ToolCallRecord] = Field(default_factory=list["ToolCallRecord"])
    """The records of the calls that have no result, with the ids that the team's caller has."""
    interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that nobody has answered, as the member has them."""
    answers: list[ResumeEntry] = Field(default_factory=list["ResumeEntry"])
    """The answers that people have given in the member's process, as the member has them."""
    sent_behind: str | None = None
    """The id of the member's last message before the run that carries the answers, as the team's caller has it; None
    as long as no such run was sent."""


class CallRecord(BaseModel):
    """One turn of a member, which its team has called."""

    prompt: str | None = None
    """The digest of what the member was asked; None if it was shown the conversation."""
    is_apart: bool = False
    """Whether the call has a conversation of its own, because the member is called several times at once."""
    result: SubagentResult | None = None
    """The end of the call; None if it has none yet."""
    failure: RunErrorEvent | None = None
    """The failure that the call has raised; None if it has returned."""
    cut_by: str | None = None
    """The invocation of the same `gather` whose failure has cancelled this call; None if it was not cancelled."""
    chosen: list[FunctionCall] = Field(default_factory=list["FunctionCall"])
    """The calls of the team's tools that the member made."""
    interrupts: list[Interrupt] = Field(default_factory=list["Interrupt"])
    """The interrupts that the member waits for, as the team's caller has them."""
    waiting: list[str] = Field(default_factory=list[str])
    """The ids of the tool calls that the member waits for, as the team's caller has them."""
    answers: list[ResumeEntry] = Field(default_factory=list["ResumeEntry"])
    """The answers to its interrupts, as the member has them."""
    answered: list[str] = Field(default_factory=list[str])
    """The ids of interrupts that were answered in this call, as the team's caller has them."""
    pending: PendingWork | None = None
    """The work that is left behind the member's last run; None if nothing was done of it."""
    last: str = ""
    """The id of the member's last message when the call ended or began to wait."""
    text: str = ""
    """The id of the last text that the member wrote in a call that waits or is made again; empty if it wrote none."""
    begin: str | None = None
    """The id of the member's last message before the call; empty if it had none, None where that is not known."""
    over: int = 0
    """The place of the call among those that are over, in the order of their ends, from 1 on; 0 if it is not over."""
    seen: int | None = None
    """The number of calls that were over when this one began, which is shown nothing of later ones; None once over."""
    team: Any = None
    """The journal of a member that is a team itself."""
    state: Any = None
    """The state of a member whose state is not part of the team's."""
    calls: int = 0
    """The number of calls, this one and those below it; one that is made again does not count again."""
    tokens: int = 0
    """The number of tokens that the member and those below it used."""
    usage: list[TokenUsage] = Field(default_factory=list["TokenUsage"])
    """The tokens of earlier runs of the member in this call, which its result adds to those of the last one."""

    def is_answered(self, results: Collection[str]) -> bool:
        """Return whether the member can resume.

        Args:
            results: The ids of the tool calls that have a result.
        """
        return not self.unanswered and all(call in results for call in self.waiting)

    @property
    def unanswered(self) -> list[Interrupt]:
        """The interrupts that the member waits for and has no answer to."""
        given = {entry.interrupt_id for entry in self.answers}
        return [each for each in self.interrupts if each.id.partition("/")[2] not in given]

    @property
    def awaited_calls(self) -> list[str]:
        """The ids of the tool calls that the member waits for, those that a person is asked about among them."""
        return [*self.waiting, *(each.tool_call_id for each in self.unanswered if each.tool_call_id is not None)]

    @property
    def begun(self) -> list[str]:
        """The ids of the tool calls whose functions the member has called, and that have no result."""
        calls = () if self.pending is None else self.pending.calls
        return [each.tool_call_id for each in calls if each.is_begun]

    @property
    def is_over(self) -> bool:
        """Whether the call has come to an end."""
        return self.result is not None or self.cut_by is not None

    @property
    def used(self) -> tuple[int, int]:
        """The numbers of calls and tokens; of an inner team that was killed, its own journal knows them."""
        inner = self.inner_journal
        calls, tokens = (-1, 0) if inner is None else inner.used
        return max(self.calls, calls + 1), max(self.tokens, tokens)

    @property
    def inner_journal(self) -> JournalDocument | None:
        """The journal of a member that is a team of this program; None for another member, and for a server's team."""
        # A server may have anything of its own under this name.
        with suppress(UsageError):
            return None if self.team is None else journal_in({JOURNAL: self.team})
        return None

    def made_again(self) -> CallRecord:
        """Return the record of a call that failed or was cut, to be made once more: its questions and answers stay."""
        open_again: dict[str, Any] = {"result": None, "failure": None, "cut_by": None, "chosen": [], "over": 0}
        return self.model_copy(update=open_again)

    def with_used_answers(self) -> CallRecord:
        """Return the record of a call whose member got all that it waited for, in a run that finished."""
        return self.model_copy(update={"interrupts": [], "answers": [], "waiting": []})


class JournalDocument(BaseModel):
    """The calls of one flow: of a run, and of those that take it up again."""

    flow: str
    """The mark of the flow."""
    after: str = ""
    """The id of the last message of the conversation when the flow began, activities aside; empty if there was none."""
    goes_on: bool = False
    """Whether the team around this one has taken the flow up, whatever this one is shown of the conversation now."""
    calls: dict[str, CallRecord] = Field(default_factory=dict[str, CallRecord])
    """The calls of members by the ids of the invocations."""
    said: int = 0
    """The number of messages of the team's own."""
    notes: list[Any] = Field(default_factory=list[Any])
    """The values of what was to be done once."""
    seconds: float = 0
    """The seconds that the runs before took, those in which a person was asked aside."""

    @property
    def used(self) -> tuple[int, int]:
        """The numbers of calls and tokens so far."""
        used = [record.used for record in self.calls.values()]
        return sum(calls for calls, _ in used), sum(tokens for _, tokens in used)


def journal_in(state: Any) -> JournalDocument | None:
    """Return the journal in a team's state; None if there is none.

    Args:
        state: The state of a run's input.

    Raises:
        UsageError: It is not what a team leaves there.
    """
    if not is_object(state) or JOURNAL not in state:
        return None
    try:
        return JournalDocument.model_validate(state[JOURNAL])
    except ValidationError as error:
        raise UsageError(f"the member {JOURNAL!r} of the state is kept for teams, and this is not a team's") from error


def calls_in(
    journal: JournalDocument, call_ids: Sequence[str], which: Callable[[CallRecord], Iterable[str]], prefix: str = ""
) -> Iterator[str]:
    """Yield ids of tool calls of members, also in inner teams; some may be of no call.

    Args:
        journal: The journal of a team.
        call_ids: The ids of all tool calls of the conversation, sorted.
        which: Returns the calls of a record: those that were begun, or those that the member waits for.
        prefix: The prefix that the team's ids have in the conversation.
    """
    for invocation, record in journal.calls.items():
        yield from (prefix + each for each in which(record))
        inner = record.inner_journal
        if inner is not None and (parts := split_invocation(invocation)) is not None:
            # The thread of the call, or that of the member: one of both, as a caller's journal may be deep.
            own = f"{prefix}{invocation}/"
            place = bisect_left(call_ids, own)
            is_own = place < len(call_ids) and call_ids[place].startswith(own)
            yield from calls_in(inner, call_ids, which, own if is_own else f"{prefix}{parts[0]}/")


def has_new_prompt(journal: JournalDocument, messages: Sequence[Message], keys: Iterable[str]) -> bool:
    """Return whether a user has written something since the flow of a journal began, or the place is not known.

    Args:
        messages: The team's conversation.
        keys: The keys of the members.
    """
    members = set(keys)
    if journal.goes_on:
        return False
    for message in reversed(messages):
        if message.id == journal.after:
            return False
        if message.role == "user" and owner_key(message, members) is None:
            return True
    return bool(journal.after)


class TeamJournal:
    """The journal of the live run: each change of it is given on as operations of a JSON Patch.

    Args:
        document: The journal to resume from.
        write: Takes the operations.
    """

    def __init__(self, document: JournalDocument, write: Callable[[Sequence[Operation]], None]) -> None:
        self.flow: str = document.flow
        """The mark of the flow."""
        self.after: str = document.after
        """The id of the last message of the conversation when the flow began."""
        self.records: dict[str, CallRecord] = dict(document.calls)
        """The calls by the ids of the invocations, as far as they are over or wait; without the journals of teams."""
        self.said: int = document.said
        self.notes: list[Any] = list(document.notes)
        self.seconds: float = document.seconds
        """The messages and values of the team's own, and the seconds of the runs before."""
        self._write = write
        self._teams = {each for each, record in document.calls.items() if record.team is not None}
        self._counts: Counter[str] = Counter()
        self._used: defaultdict[str, set[int]] = defaultdict(set)
        self._left: defaultdict[str, dict[int, CallRecord]] = defaultdict(dict)
        for invocation, record in document.calls.items():
            if (parts := split_invocation(invocation)) is not None:
                self._used[parts[0]].add(parts[2])
                self._left[parts[0]][parts[2]] = record

    def claim(self, key: str, prompt: str | None) -> tuple[str, bool]:
        """Find the record of a member's next call, by its number and its prompt.

        Args:
            key: The key of the member.
            prompt: The digest of what it is asked.

        Returns:
            The invocation of the record, or a new one if no record fits; and whether the call that had this number
            when the flow began was another one.
        """
        number = self._counts[key]
        self._counts[key] += 1
        left, used = self._left[key], self._used[key]
        expected = left.get(number)
        found = number if expected is not None and expected.prompt == prompt else None
        if found is None and prompt is not None:
            found = next((each for each, record in left.items() if record.prompt == prompt), None)
        if found is not None:
            del left[found]
            return invocation_id(key, self.flow, found), False
        found = number if number not in used else max(used) + 1
        used.add(found)
        return invocation_id(key, self.flow, found), expected is not None

    @property
    def unclaimed(self) -> list[str]:
        """The invocations with answers that no call of this run has taken up."""
        return [
            invocation_id(key, self.flow, number)
            for key, left in self._left.items()
            for number in left
            if self.records[invocation_id(key, self.flow, number)].answers
        ]

    def keep(self, invocation: str, record: CallRecord) -> None:
        """Keep the record of a call."""
        self.keep_all({invocation: record})

    def keep_all(self, records: Mapping[str, CallRecord]) -> None:
        """Keep records of calls, whose changes belong together; only what changed is written, in one patch.

        The journal of a member that is a team goes in the same patch that says that the call is over: a program that is
        killed in between would ask its members again.

        Args:
            records: The records by the ids of the invocations, apart from the journals of teams.
        """
        if operations := [each for invocation, record in records.items() for each in self._changes(invocation, record)]:
            self._write(operations)

    def _changes(self, invocation: str, record: CallRecord) -> list[Operation]:
        before, self.records[invocation] = self.records.get(invocation), record
        place, now = as_pointer("calls", invocation), _written(record)
        if before is None and invocation not in self._teams:
            return [_add(place, now)]
        old = {} if before is None else _written(before)
        operations = [_add(place + as_pointer(name), each) for name, each in now.items() if old.get(name) != each]
        operations += [_removed(place + as_pointer(name)) for name in old if name not in now]
        if record.result is not None and record.failure is None and invocation in self._teams:
            self._teams.discard(invocation)
            operations.append(_removed(f"{place}/team"))
        return operations

    def patch_team(self, invocation: str, record: CallRecord, operations: Iterable[Operation]) -> None:
        """Change the journal of a member that is a team; it stays after the end of that team's run until `keep`.

        Args:
            invocation: The id of the invocation.
            record: The record of the call, which is written if there is none yet.
            operations: The operations on that journal.
        """
        place, written = as_pointer("calls", invocation), list[Operation]()
        for each in operations:
            is_whole, is_removed = each["path"] == "", each["op"] == "remove"
            if (is_whole and is_removed) or (invocation not in self._teams and not is_whole):
                continue
            if invocation not in self._teams and invocation not in self.records:
                written.append(_add(place, _written(record)))
            if is_whole:
                self._teams.add(invocation)
            written.append({**each, "path": f"{place}/team{each['path']}"})
        if written:
            self._write(written)

    def note_said(self) -> None:
        """Count another message of the team's own."""
        self.said += 1
        self._write([_add("/said", self.said)])

    def note_seconds(self, seconds: float) -> None:
        """Keep the seconds that the runs took."""
        self.seconds = seconds
        self._write([_add("/seconds", seconds)])

    def note(self, value: Any) -> None:
        """Keep the value of something that was done once."""
        self.notes.append(value)
        self._write([_add("/notes/-", value)])


def document_as_json(document: JournalDocument) -> dict[str, Any]:
    """Return a new journal as JSON."""
    return {"flow": document.flow, "after": document.after, "calls": {}, "notes": []}


def last_id(messages: Sequence[Message]) -> str:
    """Return the id of the last message that a client sends back: activities are not; empty if there is none."""
    return next((each.id for each in reversed(messages) if each.role != "activity"), "")


def digest_of(prompt: str | list[Part] | None) -> str | None:
    """Return a short text that changes with a prompt; None for none."""
    if prompt is None:
        return None
    written = prompt.encode() if isinstance(prompt, str) else to_json(prompt)
    return hashlib.sha256(written).hexdigest()[:16]


def used_by(record: CallRecord) -> dict[str, Any]:
    """Return the fields of a record that say what its call has used, for the record that takes its place."""
    return {"calls": record.calls, "tokens": record.tokens, "usage": record.usage}


def _written(record: CallRecord) -> dict[str, Any]:
    options: Any = {"mode": "json", "by_alias": True, "exclude_none": True, "exclude_defaults": True}
    return record.model_dump(exclude={"team"}, **options)


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _removed(path: str) -> Operation:
    return {"op": "remove", "path": path}
