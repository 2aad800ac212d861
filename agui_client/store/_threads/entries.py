"""The saved members of a checkpoint, the document of a stored thread, and a thread up to one of its messages."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from operator import is_
from typing import Any, cast

from ag_ui.core import Message, ToolMessage

from agui_client._core.conversation.ledger import CallStatus, ToolCallRecord
from agui_client._core.conversation.log import (
    BETWEEN_CALLS,
    Entry,
    Log,
    Members,
    RunEntry,
    add_up,
    empty_members,
    members_of_document,
    read_entries,
)
from agui_client._core.conversation.snapshot import ConversationSnapshot
from agui_client._core.protocol.placeholders import is_placeholder
from agui_client._core.run.checkpoint import Checkpoint
from agui_client._core.run.continuing import Continuation, StoredCall
from agui_client._core.run.subagents import has_journal
from agui_client.errors import ThreadBusyError, ThreadStoreError, ThreadStoreUnavailableError, UsageError
from agui_client.store._threads.branches import Branch


@contextmanager
def reading(thread_id: str) -> Generator[None]:
    """Name the thread in the exceptions of reading it; what a damaged database has may be of any shape.

    Raises:
        ThreadStoreError: It cannot be read.
    """
    try:
        yield
    except (ThreadBusyError, ThreadStoreUnavailableError):
        raise  # which is no fault of its entries
    except ThreadStoreError as error:
        raise ThreadStoreError(f"thread {thread_id!r} cannot be read: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # Its text may have what the entries have, secrets among it.
        what = f"its entries are damaged ({type(error).__name__})"
        raise ThreadStoreError(f"thread {thread_id!r} cannot be read: {what}") from None


_NO_CALL: Members = {**BETWEEN_CALLS, "unreceived_ids": None}
del _NO_CALL["results"]


class CutPlace(Enum):
    """A place in a thread that no message names."""

    BEGINNING = "beginning"
    """Before the first message."""
    END = "end"
    """Behind the last message."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A thread up to one of its messages."""

    shared: int
    """The number of entries that lead there."""
    before: Members
    """The conversation after those entries."""
    members: Members
    """The conversation up to the message."""


def members_of(checkpoint: Checkpoint) -> Members:
    """Return the members to save of a checkpoint."""
    run = checkpoint.run_id and {"run_id": checkpoint.run_id, "resume": list(checkpoint.resume)}
    in_progress: Members = {"results": list(checkpoint.results), "run": run or None, "call_id": checkpoint.call_id}
    in_progress |= {"position": checkpoint.position if checkpoint.call_id else 0, "ended_call_id": None}
    return {**checkpoint.members, **in_progress}


def is_identical(one: Members, other: Members) -> bool:
    """Return whether two conversations are made of the same objects, which takes no time; they may be equal if not."""
    return all(_has_same_objects(one[name], value) for name, value in other.items())


def _has_same_objects(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list):
        return one is other
    some, others = cast("list[object]", one), cast("list[object]", other)
    return len(some) == len(others) and all(map(is_, some, others))


def document_and_members(thread_id: str, members: Members) -> tuple[ConversationSnapshot, Members]:
    """Return a stored conversation as a document with all results in it, and as members made of the same objects.

    The members are what a save is compared with. In them, results that a killed program had stored are still apart
    from the messages: compared with the document, in which they are among the messages, a save would drop them.
    """
    checkpoint = checkpoint_of(thread_id, members)
    stored = members_of_document(replace(checkpoint, results=()).snapshot())
    return checkpoint.snapshot(), {**stored, **{name: members[name] for name in BETWEEN_CALLS}}


def checkpoint_of(thread_id: str, members: Members) -> Checkpoint:
    """Return the checkpoint that was saved as some members."""
    inner = {name: value for name, value in members.items() if name not in BETWEEN_CALLS}
    run: RunEntry = members["run"] or {"run_id": "", "resume": []}
    about = run["run_id"] or None, run["resume"], members["call_id"], members["position"]
    return Checkpoint({**inner, "thread_id": thread_id}, members["results"], *about)


def document_of(thread_id: str, members: Members) -> ConversationSnapshot:
    """Return a stored conversation as a document."""
    return document_and_members(thread_id, members)[0]


def call_of(thread_id: str, entries: Sequence[str], call_id: str) -> StoredCall | None:
    """Return a call of a thread; None if nothing of it was saved.

    Its place is the end of the thread: what was saved is never taken back. Only what the agent has said since a run was
    sent is, as the run is sent again; of a team that is at work not even that, as its journal says what its members
    have done. A call that was about to end goes back to before its last run.

    Args:
        entries: The thread.
        call_id: The id of the call's first run.

    Raises:
        UsageError: The thread has continued without the call.
    """
    log, first, place, run_id = Log(), 0, 0, None
    for number, entry in enumerate(read_entries(entries), 1):
        log.add(entry)
        members = log.latest
        if members["call_id"] != call_id:
            run_id = None
            # Behind its place there may be nothing but the end of the call: another run, or a person who went back.
            if place and (members["call_id"] is not None or members["ended_call_id"] != call_id):
                raise UsageError(f"thread {thread_id!r} has continued without run {call_id!r} since that was cut")
            continue
        before, run_id = run_id, members["run"] and members["run"]["run_id"]
        first = first or number
        if run_id is None or run_id != before or has_journal(members["state"]):
            place = number
    if not place:
        return None
    beginning = add_up(entries[:first])
    continuation = Continuation.from_checkpoint(checkpoint_of(thread_id, add_up(entries[:place])))
    return StoredCall((beginning["messages"], beginning["state"]), continuation)


def cut(entries: Sequence[str], at: str | Branch | CutPlace, *, are_questions_kept: bool = True) -> Cut:
    """Return a thread up to a message, the results of the message's tool calls included.

    State and pending work are those that were saved last while that message was the end of the thread.

    Args:
        entries: The thread.
        at: The id of the message, a branch that the thread has left, or another place.
        are_questions_kept: Whether what was asked then waits again, unless later messages have come between.

    Raises:
        UsageError: There is no such message.
    """
    if isinstance(at, Branch):
        return cut(entries[: at.entries], CutPlace.END)
    read = read_entries(entries)
    whole, origins = Log(), list[int]()
    for number, entry in enumerate(read, 1):
        whole.add(entry)
        _note_origins(origins, number, entry)
    if at is CutPlace.END:
        members = whole.members
        return Cut(len(read), members, {**members, **_NO_CALL})
    there: Sequence[Message] = whole.members["messages"]
    end = _up_to(there, at)
    # Before the first message, the thread has the state that was saved with it.
    last = origins[end - 1] if end else 1
    kept, log, shared, beyond = {each.id for each in there[:end]}, Log(), 0, 0
    for number, entry in enumerate(read, 1):
        after = beyond + _change_beyond(log.messages, entry, kept)
        if number > last and (beyond or after):
            break
        log.add(entry)
        beyond, shared = after, number
    before = log.members
    # Results that came later stand before messages that were there already, so this is not their number in the whole.
    messages = before["messages"][: _up_to(before["messages"], at)]
    members = {**before, "messages": messages, **_NO_CALL}
    if beyond or not are_questions_kept:
        # The message was never the end of the thread at a save: what was pending then belongs to later messages.
        pending = ("pending_interrupts", "answered_interrupts", "asking_run_id", "kept_answers", "abandoned")
        members |= {name: empty_members()[name] for name in pending}
        members |= {"results": [], "tool_calls": []}
    members["tool_calls"] = _current_records(members, read)
    # What is not pending any more is either answered or lost.
    members["results"] = _results_as_they_came(
        members, whole.members, are_pending_kept=are_questions_kept and not beyond
    )
    return Cut(shared, before, members)


def _change_beyond(messages: Sequence[Message], entry: Entry, kept: Set[str]) -> int:
    """Return how many messages that are not kept an entry adds."""
    if "messages" not in entry:
        return 0
    at, removed, added = entry["messages"]
    gone = messages[at : at + removed]
    return sum(each.id not in kept for each in added) - sum(each.id not in kept for each in gone)


def _results_as_they_came(members: Members, whole: Members, *, are_pending_kept: bool) -> list[ToolMessage]:
    """Return the results that are not among the messages, with those that came since.

    Args:
        members: The conversation up to the message.
        whole: The whole conversation.
        are_pending_kept: Whether calls of other tools than those that were called here are pending still.
    """
    messages: Sequence[Message] = members["messages"]
    results: dict[str, ToolMessage] = {each.tool_call_id: each for each in members["results"]}
    known = {each.tool_call_id for each in messages if each.role == "tool"} | results.keys()
    begun = {each.tool_call_id for each in members["tool_calls"] if each.status is CallStatus.EXECUTING}
    callers = [each for each in messages if each.role == "assistant"]
    lacking = {
        call.id: each.id
        for each in callers
        for call in each.tool_calls or ()
        if call.id not in known and (call.id in begun or not are_pending_kept)
    }
    if lacking:
        seen = set[str]()
        for message in (*whole["messages"], *whole["results"]):
            seen.add(message.id)
            # A result before the message of the call is one of an earlier call of the same id.
            if message.role == "tool" and lacking.get(message.tool_call_id) in seen and not is_placeholder(message):
                results.setdefault(message.tool_call_id, message)
    return list(results.values())


def _note_origins(origins: list[int], number: int, entry: Entry) -> None:
    """Note for each message the number of the entry that brought or changed it last."""
    for change in (*entry.get("text", ()), *entry.get("arguments", ())):
        origins[change[0]] = number
    if "messages" in entry:
        at, removed, added = entry["messages"]
        origins[at : at + removed] = [number] * len(added)


def _current_records(members: Members, read: Sequence[Entry]) -> list[ToolCallRecord]:
    """Return the records of the calls of the messages; a function that was called since is not called again."""
    messages: Sequence[Message] = members["messages"]
    called = {call.id: each for each in messages if each.role == "assistant" for call in each.tool_calls or ()}
    answered = {each.tool_call_id for each in messages if each.role == "tool"}
    records: dict[str, ToolCallRecord] = {each.tool_call_id: each for each in members["tool_calls"]}
    for begun in _begun(read):
        call_id = begun.tool_call_id
        message, record = called.get(call_id), records.get(call_id)
        if message is None or call_id in answered or begun.message_id != message.id:
            continue
        if record is None:
            records[call_id] = ToolCallRecord(
                tool_call_id=call_id, message_id=message.id, status=CallStatus.EXECUTING, answered_by=begun.answered_by
            )
        elif record.status is not CallStatus.ASKED:  # a call whose question waits is made again
            records[call_id] = record.become(status=CallStatus.EXECUTING)
    return list(records.values())


def _begun(read: Sequence[Entry]) -> Iterator[ToolCallRecord]:
    """Yield the records of the calls whose functions were called."""
    for entry in read:
        yield from (each for each in entry.get("calls", {}).values() if each is not None and each.is_begun)


def _up_to(messages: Sequence[Message], at: str | CutPlace) -> int:
    """Return the number of messages up to one of them and the results of its calls."""
    if at is CutPlace.BEGINNING:
        return 0
    place = next((index for index, message in enumerate(messages) if message.id == at), None)
    if place is None:
        raise UsageError(f"the thread has no message {at!r}")
    count = place + 1
    while count < len(messages) and messages[count].role == "tool":
        count += 1
    return count
