"""The log: a conversation as entries, each of which has what one save changed, and what is new is all that it costs.

An entry is a JSON object with its `number` in the log, from 1, and any of these, applied in this order:

- `text`: [position of a message, offset, text], for each message whose text continued; offsets are in characters;
- `arguments`: [position of a message, number of its call, offset, text], for each call whose arguments continued;
- `messages`: [position, number of messages that go, messages that come], one splice;
- `state`, the whole state, or `patch`, the operations (RFC 6902) that lead to it from the state before;
- `calls`: the records of calls by id, null for one that goes; the others stand behind those that are not named;
- `results`: [number that stay, results behind them], of tools whose results are not among the messages yet;
- `values`: other members, whole.

An entry is never changed. Entries of another version, or with a member that is not known here, are refused.

To change

- an entry of the log of a conversation, as stored threads have it: `Entry`, `entry_of` and `_apply` here; if it changes
  messages, `_change_messages` here and `_note_origins` in `store/_threads/entries.py`, by which forks and rewinds are
  cut. A change that older code would misunderstand needs a new version
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress, count
from operator import is_not
from typing import Any, Literal, Required, cast

from ag_ui.core import AssistantMessage, Interrupt, Message, ResumeEntry, StateDeltaEvent, ToolCall, ToolMessage
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import TypedDict

from agui_client._core.conversation.ledger import Ledger, LedgerRecords, ToolCallRecord
from agui_client._core.conversation.snapshot import ANOTHER_VERSION, ConversationSnapshot
from agui_client._core.ground.concurrency import no_collection
from agui_client._core.protocol.begun_messages import BegunMessages
from agui_client._core.protocol.json_difference import difference
from agui_client._core.protocol.patch import Document, PatchFailed, is_same_json
from agui_client._core.protocol.schema import successor
from agui_client.errors import ThreadStoreError, UsageError

Members = dict[str, Any]
"""The members of a `ConversationSnapshot` without thread and version, with "results", "run", "call_id" and
"position" of a `Checkpoint`, and "ended_call_id": the call whose end was saved last, if nobody else wrote since."""

_NEW = ConversationSnapshot(thread_id="")
BETWEEN_CALLS: Members = {"results": [], "run": None, "call_id": None, "position": 0, "ended_call_id": None}
"""The members that say what a call has in progress, of a conversation in which none has anything."""
_STATES = 50
"""The number of states that are remembered of a log."""


class RunEntry(TypedDict):
    """The run that was in progress at a save."""

    run_id: str
    """Its id."""
    resume: list[ResumeEntry]
    """The answers to interrupts that it carried, as long as it was unknown whether the agent got them."""


@with_config(ConfigDict(extra="forbid"))
class _Values(TypedDict, total=False):
    pending_interrupts: list[Interrupt]
    answered_interrupts: list[Interrupt]
    asking_run_id: str | None
    abandoned: bool
    kept_answers: list[ResumeEntry]
    incomplete_ids: list[str]
    unreceived_ids: list[str] | None
    state_base: str | None
    approved_tools: list[str]
    run: RunEntry | None
    call_id: str | None
    position: int
    ended_call_id: str | None


@with_config(ConfigDict(extra="forbid"))
class Entry(TypedDict, total=False):
    """An entry; a dictionary, because a thread has thousands of them."""

    version: Required[Literal[2]]
    number: Required[int]
    text: list[tuple[int, int, str]]
    arguments: list[tuple[int, int, int, str]]
    messages: tuple[int, int, list[Message]]
    state: Any
    patch: list[dict[str, Any]]
    calls: dict[str, ToolCallRecord | None]
    results: tuple[int, list[ToolMessage]]
    values: _Values


_ENTRIES: TypeAdapter[list[Entry]] = TypeAdapter(list[Entry])
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
_SLICE = 500
"""The number of entries that are read in one go, during which no other thread runs."""
_LONG = 200_000
"""The characters from which an entry is long, and read in steps."""
_DEEPEST = 200
"""The most levels of JSON that pydantic reads; it writes more."""
_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
_PATCH: TypeAdapter[list[Any]] = TypeAdapter(cast("Any", StateDeltaEvent.model_fields["delta"].annotation))


def empty_members() -> Members:
    """Return the members of a conversation without messages, state and pending work."""
    return {**members_of_document(_NEW), "state": {}, "messages": []}


def members_of_document(document: ConversationSnapshot) -> Members:
    """Return the members to save of a conversation outside runs."""
    members = {name: getattr(document, name) for name in ConversationSnapshot.model_fields}
    return {**members, **BETWEEN_CALLS}


def entry_of(old: Members, new: Members, number: int) -> str | None:
    """Return the entry that leads from one conversation to another; None if they are equal.

    Args:
        old: The conversation as the log has it.
        new: The conversation to come to.
        number: The number of the entry in its log.

    Raises:
        UsageError: JSON cannot hold the conversation.
    """
    entry: dict[str, Any] = _message_changes(old["messages"], new["messages"])
    if _has_changed(old["state"], new["state"]):
        entry |= _state_change(old["state"], new["state"])
    if calls := _call_changes(old["tool_calls"], new["tool_calls"]):
        entry["calls"] = calls
    if (results := _tail(old["results"], new["results"])) is not None:
        entry["results"] = results
    if values := {name: new[name] for name in _Values.__annotations__ if not _is_same(old[name], new[name])}:
        entry["values"] = values
    return as_text(entry, number) if entry else None


def as_text(entry: Mapping[str, Any], number: int) -> str:
    """Return an entry as JSON.

    Raises:
        UsageError: JSON cannot hold it.
    """
    try:
        text = to_json({"version": 2, "number": number, **entry}, by_alias=True, inf_nan_mode="constants").decode()
    except PydanticSerializationError as error:
        if "surrogates not allowed" in str(error):
            where = ", ".join(name for name, value in entry.items() if not _is_writable(value))
            what = f"the conversation cannot be saved: a text in its {where} has half a character (a lone surrogate)"
            raise UsageError(f"{what}, as a file name may have; replace it: text.encode(errors='replace')") from None
        raise UsageError(f"the conversation cannot be saved as JSON: {error}") from None
    # What could not be read again would be lost.
    if text.count("{") + text.count("[") >= _DEEPEST:
        try:
            from_json(text)
        except ValueError as error:
            raise UsageError(f"the conversation cannot be saved, as it could not be read again: {error}") from None
    return text


def _is_writable(value: Any) -> bool:
    with suppress(PydanticSerializationError):
        return bool(to_json(value))
    return False


def read_entries(entries: Iterable[str], before: int = 0) -> list[Entry]:
    """Read entries.

    Args:
        before: The number of entries that their log has before them.

    Raises:
        ThreadStoreError: One of them is damaged, lost, or of another version.
    """
    texts, read = list(entries), list[Entry]()
    with no_collection():
        while len(read) < len(texts):
            start = len(read)
            slice_of = _next_slice(texts, start)
            long = _read_long(slice_of[0]) if len(slice_of) == 1 else None
            read += _read_slice(slice_of, before + start) if long is None else [long]
    for position, entry in enumerate(read, before + 1):
        # An entry in the middle may be lost without any other one being damaged.
        if entry["number"] != position:
            what = f"entry {entry['number']} is in place {position}"
            raise ThreadStoreError(f"{what}, so others are lost")
    return read


def _next_slice(texts: Sequence[str], start: int) -> Sequence[str]:
    """Return the entries to read next: some, or a long one by itself."""
    end = start + 1
    size = len(texts[start])
    while end < len(texts) and end - start < _SLICE and size + len(texts[end]) < _LONG:
        size += len(texts[end])
        end += 1
    return texts[start:end]


def _read_long(text: str) -> Entry | None:
    """Read an entry with many messages in steps; return None if it is none, or damaged."""
    if len(text) < _LONG:
        return None
    # RecursionError: JSON may nest deeper than it can be written again.
    with suppress(LookupError, TypeError, ValueError, RecursionError):
        plain = from_json(text)
        at, removed, added = plain["messages"]
        without: dict[str, Any] = {**plain, "messages": (at, removed, ())}
        entry = _ENTRY.validate_json(_as_json(without))
        messages = list[Message]()
        for start in range(0, len(added), _SLICE):
            messages += _MESSAGES.validate_json(_as_json(added[start : start + _SLICE]))
        return {**entry, "messages": (at, removed, messages)}
    return None


def _as_json(value: object) -> bytes:
    return to_json(value, inf_nan_mode="constants")


def _read_slice(texts: Sequence[str], start: int) -> list[Entry]:
    """Read some of the entries.

    Args:
        texts: The entries.
        start: The number of those before them.

    Raises:
        ThreadStoreError: One of them is damaged, or of another version.
    """
    try:
        # One text for all, as a call of the validator for each of thousands takes longer than the reading.
        return _ENTRIES.validate_json(f"[{','.join(texts)}]")
    except ValidationError as error:
        if (by_themselves := _read_by_themselves(texts)) is not None:
            return by_themselves
        # Without the input: it is a user's conversation, and errors are logged.
        errors = error.errors(include_input=False, include_url=False)
        if (other := next((each["loc"] for each in errors if each["loc"][1:] == ("version",)), None)) is not None:
            raise ThreadStoreError(f"entry {start + int(other[0]) + 1} {ANOTHER_VERSION}") from None
        first = errors[0]
        index, *inside = first["loc"] or (0,)
        where = " at " + "/".join(map(str, (start + int(index), *inside)))
        raise ThreadStoreError(f"its entries are damaged: {first['msg']}{where}") from None


def _read_by_themselves(texts: Sequence[str]) -> list[Entry] | None:
    """Read entries each by itself, as one of them may nest as deeply as JSON may; return None if one is damaged."""
    with suppress(ValidationError):
        return [_ENTRY.validate_json(each) for each in texts]
    return None


def add_up(entries: Sequence[str]) -> Members:
    """Return the conversation that entries lead to.

    Raises:
        ThreadStoreError: They are damaged, or of another version.
    """
    return log_of(entries).members


def log_of(entries: Sequence[str], start: Log | None = None) -> Log:
    """Return the log that entries are, with the conversation that they lead to.

    Args:
        start: The log that they are the rest of, which stays as it is; None if they are all.

    Raises:
        ThreadStoreError: They are damaged, or of another version.
    """
    log = Log() if start is None else start.copy()
    for entry in read_entries(entries, log.count):
        log.add(entry)
    return log


class RunHistory:
    """The runs that the log of a conversation tells of, with what they asked and the states that they left."""

    def __init__(self) -> None:
        self.run_ids: set[str] = set()
        """The ids of the runs that have begun."""
        self.interrupt_ids: set[str] = set()
        """The ids of the interrupts that waited for an answer, or still do."""
        self.call_ids: set[str] = set()
        """The ids of the calls that had a record, also if the thread has left them."""
        self.states: deque[Any] = deque(maxlen=_STATES)
        """The latest states outside of runs, the last one at the end; they share parts, and are to be read only."""

    def copy(self) -> RunHistory:
        """Return a history that continues by itself."""
        other = RunHistory()
        other.run_ids, other.interrupt_ids = self.run_ids.copy(), self.interrupt_ids.copy()
        other.call_ids, other.states = self.call_ids.copy(), self.states.copy()
        return other

    def note(self, members: Members, before: Members) -> None:
        """Note what an entry has changed.

        Args:
            members: The conversation with the entry.
            before: The conversation without it.
        """
        pending: Sequence[Interrupt] = members["pending_interrupts"]
        self.interrupt_ids.update(each.id for each in pending)
        calls: Sequence[ToolCallRecord] = members["tool_calls"]
        self.call_ids.update(each.tool_call_id for each in calls[_common(before["tool_calls"], calls) :])
        if members["run"] is not None:
            self.run_ids.add(members["run"]["run_id"])
        elif not self.states or self.states[-1] is not members["state"]:
            self.states.append(members["state"])


class Log:
    """A conversation that is made of entries, one after the other."""

    def __init__(self) -> None:
        self.past: RunHistory = RunHistory()
        """The runs that the entries tell of."""
        self.count: int = 0
        """The number of entries."""
        self._members: Members = empty_members()
        # The messages as they were at the last look; none once other than the last of them were added or removed.
        self._begun = BegunMessages()
        self._calls = Ledger()

    @property
    def members(self) -> Members:
        """The conversation so far, as members of their own."""
        return {**self._members, "messages": list(self._members["messages"]), "tool_calls": list(self._calls)}

    def copy(self) -> Log:
        """Return a log that continues by itself."""
        other = Log()
        other.past, other.count = self.past.copy(), self.count
        # Only lists of messages and records are changed in place.
        other._members = {**self._members, "messages": list(self._members["messages"])}
        other._calls, other._begun = self._calls.copy(), self._begun
        return other

    @property
    def begun(self) -> Members:
        """The conversation so far, to begin a turn with: what its messages and records are found by lasts for the next.

        It is to be read only.
        """
        self._begun = self._begun.grown(self._members["messages"])
        return {**self._members, "messages": self._begun, "tool_calls": LedgerRecords(self._calls)}

    @property
    def latest(self) -> Mapping[str, Any]:
        """The members so far but for the records of calls, to be read before the next entry."""
        return self._members

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far, to be read before the next entry."""
        messages: Sequence[Message] = self._members["messages"]
        return messages

    def add(self, entry: Entry) -> None:
        """Apply the next entry.

        Raises:
            ThreadStoreError: It does not fit the conversation.
        """
        if "messages" in entry and entry["messages"][:2] != (len(self.messages), 0):
            self._begun = BegunMessages()
        try:
            _apply(self._members, self._calls, entry)
        except (IndexError, PatchFailed, ValueError) as error:
            raise ThreadStoreError(f"entry {entry['number']} does not fit the ones before it: {error}") from None
        self.count += 1
        self.past.note(self._members, self._members)  # which have no records
        self.past.call_ids.update(entry.get("calls", ()))


# --- differences


def _message_changes(old: Sequence[Message], new: Sequence[Message]) -> dict[str, Any]:
    # This takes no time on a thread that only grew.
    count, at = min(len(old), len(new)), _common(old, new)
    text: list[tuple[int, int, str]] = []
    arguments: list[tuple[int, int, int, str]] = []
    while at < count:
        before, after = old[at], new[at]
        if before is not after and not _is_same(before, after):
            growth = _growth(at, before, after)
            if growth is None:
                break
            text += growth[0]
            arguments += growth[1]
        at += 1
    end = 0
    # From the end as well: a result is put behind its call, and so in front of messages that were saved before.
    while end < count - at and _is_same(old[-1 - end], new[-1 - end]):
        end += 1
    splice = at, len(old) - at - end, new[at : len(new) - end]
    parts = {"text": text, "arguments": arguments, "messages": splice if splice[1] or splice[2] else None}
    return {name: value for name, value in parts.items() if value}


def _growth(
    at: int, before: Message, after: Message
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, int, str]]] | None:
    """Return the text and the arguments that a message got; None if it changed in another way."""
    if type(before) is not type(after):
        return None
    one, other = dict(before), dict(after)
    old_text, new_text = one.pop("content", None), other.pop("content", None)
    old_calls, new_calls = one.pop("tool_calls", None) or (), other.pop("tool_calls", None) or ()
    if not _is_same(one, other) or len(old_calls) != len(new_calls):
        return None
    text: list[tuple[int, int, str]] = []
    if not _is_same(old_text, new_text):
        if not (isinstance(old_text, str) and isinstance(new_text, str) and new_text.startswith(old_text)):
            return None
        text.append((at, len(old_text), new_text[len(old_text) :]))
    arguments: list[tuple[int, int, int, str]] = []
    for number, (old_call, new_call) in enumerate(zip(old_calls, new_calls, strict=True)):
        given, now = old_call.function.arguments, new_call.function.arguments
        if given != now:
            if not now.startswith(given) or not _is_same(_with_arguments(old_call, now), new_call):
                return None
            arguments.append((at, number, len(given), now[len(given) :]))
        elif not _is_same(old_call, new_call):
            return None
    return text, arguments


def _call_changes(old: Sequence[ToolCallRecord], new: Sequence[ToolCallRecord]) -> dict[str, ToolCallRecord | None]:
    """Return the records that go, and those that stand behind all that stay: what changes comes to the end."""
    # Those at the beginning that are the same objects are left out: a long thread has thousands.
    start = _common(old, new)
    old, new = old[start:], new[start:]
    after = {each.tool_call_id: each for each in new}
    kept = [each for each in old if _is_same_record(each, after.get(each.tool_call_id))]
    pairs = enumerate(zip(kept, new, strict=False))
    count = next((at for at, (one, other) in pairs if one.tool_call_id != other.tool_call_id), len(kept))
    gone: dict[str, ToolCallRecord | None] = {each.tool_call_id: None for each in old if each.tool_call_id not in after}
    return gone | {each.tool_call_id: each for each in new[min(count, len(new)) :]}


def _state_change(old: Any, new: Any) -> dict[str, Any]:
    """Return the patch of a state, or the whole new one if that is shorter, or if too much is different."""
    patch = difference(old, new)
    if patch is None:
        return {"state": new}
    # `Document.patch` refuses what would take too long, and a patch that cannot be read back would lose the thread.
    with suppress(PatchFailed):
        if is_same_json(_patched(old, patch), new):
            return {"patch": patch}
    return {"state": new}


def _tail(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, Sequence[Any]] | None:
    """Return the number of members that two lists begin with alike, and the rest of the new one; None if equal."""
    count = min(len(old), len(new))
    if old[:count] != new[:count]:
        count = next(index for index in range(count) if old[index] is not new[index] and old[index] != new[index])
    return None if count == len(old) == len(new) else (count, new[count:])


def _common(old: Sequence[object], new: Sequence[object]) -> int:
    """Return the number of members with which two lists begin that are the same objects."""
    return next(compress(count(), map(is_not, old, new)), min(len(old), len(new)))


def _is_same_record(old: ToolCallRecord, new: ToolCallRecord | None) -> bool:
    # `latest` is not saved, so that a record that was read has none.
    return new is not None and (old is new or old.become(latest=new.latest) == new)


def _is_same(one: Any, other: Any) -> bool:
    """Compare models, or what is made of them, as JSON, to which true is not 1: metadata may be any JSON."""
    # Equal by Python comes first: only few pairs are, and JSON of every message would cost each save its whole length.
    return one is other or (one == other and to_json(one) == to_json(other))


def _has_changed(old: Any, new: Any) -> bool:
    # Python's == is fast, but has True equal 1.
    return old is not new and not (old == new and is_same_json(old, new))


# --- application


def _apply(members: Members, calls: Ledger, entry: Entry) -> None:
    # In place: a copy for each entry would cost the square of the length of the thread.
    change_messages(members["messages"], entry)
    if "state" in entry:
        members["state"] = entry["state"]
    elif "patch" in entry:
        members["state"] = _patched(members["state"], entry["patch"])
    for tool_call_id, record in entry.get("calls", {}).items():
        if record is None:
            calls.drop(tool_call_id)
        else:
            calls.append(record)
    if "results" in entry:
        keep, added = entry["results"]
        members["results"] = [*members["results"][:keep], *added]
    members.update(entry.get("values", {}))


def _patched(state: Any, patch: list[dict[str, Any]]) -> Any:
    document = Document(state)
    document.patch(_PATCH.validate_python(patch))
    return document.look()


def change_messages(messages: list[Message], entry: Entry) -> None:
    """Change messages as an entry says, in place.

    Raises:
        IndexError: There are not so many.
        ValueError: The entry does not fit them.
    """
    for at, offset, text in entry.get("text", ()):
        content = messages[at].content
        if not isinstance(content, str) or len(content) != offset:
            raise ValueError(f"the text of message {at} is not {offset} characters long")
        messages[at] = successor(messages[at], {"content": content + text})
    for at, number, offset, text in entry.get("arguments", ()):
        messages[at] = _with_more_arguments(messages[at], number, offset, text)
    if "messages" in entry:
        start, removed, added = entry["messages"]
        if start + removed > len(messages):
            raise ValueError(f"there are no messages {start} to {start + removed}")
        messages[start : start + removed] = added


def _with_arguments(call: ToolCall, arguments: str) -> ToolCall:
    return successor(call, {"function": successor(call.function, {"arguments": arguments})})


def _with_more_arguments(message: Message, number: int, offset: int, text: str) -> Message:
    calls = list(message.tool_calls or ()) if isinstance(message, AssistantMessage) else []
    before = calls[number].function.arguments
    if len(before) != offset:
        raise ValueError(f"the arguments of a call are not {offset} characters long")
    calls[number] = _with_arguments(calls[number], before + text)
    return successor(message, {"tool_calls": calls})
