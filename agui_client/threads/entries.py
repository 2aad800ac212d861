"""Entries: one save writes what has changed since the one before, and reading a thread adds all of them up.

Lists only ever get a new end: an entry has the number of members that stay, and those behind them. So a turn costs the
turn, an edit in the middle costs what follows, and applying an entry twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Required

from ag_ui.core import Message, ToolMessage
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from agui_client._protocol.patch import is_same_json
from agui_client._run.ending import Checkpoint
from agui_client._tools.questions import ToolQuestion
from agui_client.conversation import ConversationSnapshot
from agui_client.errors import ThreadStoreError, UsageError

_NEW = ConversationSnapshot(thread_id="")
_IDS = ("executed_call_ids", "incomplete_ids", "unfinished_call_ids")
"""Lists of ids that grow with the thread."""
_VALUES = (
    "state",
    "pending_interrupts",
    "abandoned",
    "pending_tool_call_ids",
    "kept_answers",
    "tool_questions",
    "unheard_ids",
    "unreceived_ids",
    "shown_tool_calls",
    "results",
    "run",
)
"""Members that are written whole when they change; the last two are a checkpoint's own."""
Members = dict[str, Any]
"""The members of a `ConversationSnapshot` without thread and version, with "results" and "run" of a `Checkpoint`."""


class _Entry(TypedDict, total=False):
    # A dictionary, because a thread has thousands of them.
    version: Required[Literal[1]]
    keep: int
    """The number of messages that stay; absent if they did not change."""
    messages: list[Message]
    """The messages behind them."""
    ids: dict[str, tuple[int, list[str]]]
    """For lists of ids the number of those that stay, and those behind them."""
    values: dict[str, Any]
    """Other members that changed, as JSON."""


_ENTRIES = TypeAdapter(list[_Entry])
_RESULTS = TypeAdapter(list[ToolMessage])
_QUESTIONS = TypeAdapter(list[ToolQuestion])


@contextmanager
def reading(thread_id: str) -> Generator[None]:
    """Name the thread in the exceptions of reading it; what a damaged database has may be of any shape.

    Args:
        thread_id: The thread.

    Raises:
        ThreadStoreError: It cannot be read.
    """
    try:
        yield
    except ThreadStoreError as error:
        raise ThreadStoreError(f"thread {thread_id!r} cannot be read: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # Its text may have what the entries have, secrets among it.
        what = f"its entries are damaged ({type(error).__name__})"
        raise ThreadStoreError(f"thread {thread_id!r} cannot be read: {what}") from None


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
    return {**checkpoint.members, "results": list(checkpoint.results), "run": run or None}


def members_of_document(document: ConversationSnapshot) -> Members:
    """Return the members to save of a conversation outside runs."""
    members = {name: getattr(document, name) for name in ConversationSnapshot.model_fields}
    return {**members, "results": [], "run": None}


def empty_members() -> Members:
    """Return the members of a conversation that nobody has begun."""
    return {**members_of_document(_NEW), "state": {}, "messages": [], **{name: [] for name in _IDS}}


def difference(old: Members, new: Members) -> str | None:
    """Return the entry that leads from one conversation to another; None if they are equal."""
    entry: dict[str, Any] = {}
    if (tail := _tail(old["messages"], new["messages"])) is not None:
        entry["keep"], entry["messages"] = tail
    if ids := {name: tail for name in _IDS if (tail := _tail(old[name], new[name])) is not None}:
        entry["ids"] = ids
    if values := {name: new[name] for name in _VALUES if _has_changed(old[name], new[name])}:
        entry["values"] = values
    return as_text(entry) if entry else None


def as_text(entry: Mapping[str, Any]) -> str:
    """Return an entry as JSON.

    Raises:
        UsageError: JSON cannot hold it.
    """
    try:
        return to_json({"version": 1, **entry}, by_alias=True, inf_nan_mode="constants").decode()
    except PydanticSerializationError as error:
        raise UsageError(f"the conversation cannot be saved as JSON: {error}") from None


def add_up(entries: Sequence[str]) -> Members:
    """Return the conversation that entries lead to.

    Raises:
        ThreadStoreError: They are damaged, or of a newer version.
    """
    members = empty_members()
    for entry in _read(entries):
        _apply(members, entry)
    return members


def document_of(thread_id: str, members: Members) -> ConversationSnapshot:
    """Return a stored conversation as a document."""
    inner = {key: value for key, value in members.items() if key not in ("results", "run")}
    results = _RESULTS.validate_python(members["results"])
    return Checkpoint({**inner, "thread_id": thread_id}, results).snapshot()


def cut(entries: Sequence[str], at: str | None) -> Cut:
    """Return a thread up to a message, the results of the message's tool calls included.

    State and pending work are those that were saved last while that message was the end of the thread.

    Args:
        entries: The thread.
        at: The id of the message; None for the last one.

    Raises:
        UsageError: There is no such message.
    """
    read = _read(entries)
    whole, origins, executed = empty_members(), list[int](), dict[str, None]()
    for number, entry in enumerate(read, 1):
        _apply(whole, entry)
        if "keep" in entry:
            origins[entry["keep"] :] = [number] * len(entry.get("messages", ()))
        executed.update(dict.fromkeys(entry.get("ids", {}).get("executed_call_ids", (0, []))[1]))
    if at is None:
        return Cut(len(read), whole, {**whole, "run": None, "unreceived_ids": None})
    kept = _up_to(whole["messages"], at)
    before, shared = empty_members(), 0
    for number, entry in enumerate(read, 1):
        goes_on = "keep" in entry and entry["keep"] + len(entry.get("messages", ())) > kept
        if number > origins[kept - 1] and (goes_on or len(before["messages"]) > kept):
            break
        _apply(before, entry)
        shared = number
    members: Members = {**before, "messages": before["messages"][:kept], "run": None, "unreceived_ids": None}
    if len(before["messages"]) > kept:
        pending = ("pending_interrupts", "pending_tool_call_ids", "kept_answers", "abandoned", "shown_tool_calls")
        members |= {name: getattr(_NEW, name) for name in (*pending, "tool_questions")}
        members |= {"unheard_ids": [], "results": []}
    kept_messages: Sequence[Message] = members["messages"]
    calls = {call.id for each in kept_messages if each.role == "assistant" for call in each.tool_calls or ()}
    # A call that waits for the answer to its question is called again.
    calls -= {each.interrupt.tool_call_id for each in _QUESTIONS.validate_python(members["tool_questions"])}
    # A function that was called after this moment is not called again either.
    known = dict.fromkeys([*members["executed_call_ids"], *(each for each in executed if each in calls)])
    members["executed_call_ids"] = list(known)
    return Cut(shared, before, members)


def _up_to(messages: Sequence[Message], at: str) -> int:
    """Return the number of messages up to one of them and the results of its calls."""
    place = next((index for index, message in enumerate(messages) if message.id == at), None)
    if place is None:
        raise UsageError(f"the thread has no message {at!r}")
    count = place + 1
    while count < len(messages) and messages[count].role == "tool":
        count += 1
    return count


def _read(entries: Iterable[str]) -> list[_Entry]:
    try:
        return _ENTRIES.validate_json(f"[{','.join(entries)}]")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = " at " + "/".join(map(str, first["loc"])) if first["loc"] else ""
        raise ThreadStoreError(f"its entries are damaged: {first['msg']}{where}") from None


def _apply(members: Members, entry: _Entry) -> None:
    if "keep" in entry:
        members["messages"][entry["keep"] :] = entry.get("messages", ())
    for name, (keep, added) in entry.get("ids", {}).items():
        members[name][keep:] = added
    members.update(entry.get("values", {}))


def _tail(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, Sequence[Any]] | None:
    """Return the number of members that two lists begin with alike, and the rest of the new one; None if equal."""
    count = min(len(old), len(new))
    # Lists compare their members by identity first, so this takes no time on a thread that only grew.
    if old[:count] != new[:count]:
        count = next(index for index in range(count) if old[index] is not new[index] and old[index] != new[index])
    return None if count == len(old) == len(new) else (count, new[count:])


def _has_changed(old: Any, new: Any) -> bool:
    return old is not new and not (old == new and is_same_json(old, new))
