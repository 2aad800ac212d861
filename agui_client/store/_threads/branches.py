"""The branches of a thread: what it had before it went back to an earlier message. Its log has them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agui_client._core.conversation.log import Entry, Log, read_entries
from agui_client._core.ground.field_docs import Record

if TYPE_CHECKING:
    from ag_ui.core import Message


@dataclass(frozen=True, slots=True)
class Branch(Record):
    """Messages that a thread left when it went back to an earlier one; `fork` and `rewind` take it as `at=`."""

    messages: Sequence[Message]
    """The messages that were left, the last one at the end."""
    after: str | None
    """The id of the message behind which the branch begins; None if it begins with the thread."""
    entries: int
    """The number of the entries of the thread's log that lead to the end of the branch."""


def branches_of(entries: Sequence[str]) -> list[Branch]:
    """Return the branches of a thread that it has not come back to, the latest first.

    Args:
        entries: The thread.
    """
    return [branch for branch, _ in branches_with_beginnings(entries)]


def branches_with_beginnings(entries: Sequence[str]) -> list[tuple[Branch, Sequence[Message]]]:
    """Return the same branches, each with all messages of the thread as it was before it left the branch.

    Args:
        entries: The thread.
    """
    log, found = Log(), list[tuple[Branch, Sequence["Message"]]]()
    for number, entry in enumerate(read_entries(entries)):
        before = log.latest["run"]
        if (branch := _left_by(entry, log.messages, number)) is not None and not _is_within_run(before, entry):
            found.append((branch, [*log.messages]))
        log.add(entry)
    # Agents use ids again, so that two branches may have other messages of one id.
    there, kept = defaultdict[str, list["Message"]](list), list[tuple[Branch, Sequence["Message"]]]()
    for each in log.messages:
        there[each.id].append(each)
    for branch, messages in reversed(found):
        last = branch.messages[-1]
        # What the thread came back to, and left again with more behind it, is a part of the later branch.
        if last not in there[last.id]:
            kept.append((branch, messages))
            for each in branch.messages:
                there[each.id].append(each)
    return kept


def _left_by(entry: Entry, messages: Sequence[Message], number: int) -> Branch | None:
    """Return what an entry takes off the end of the messages before it."""
    at, removed, added = entry.get("messages", (0, 0, []))
    left = [*messages[at:]]
    if not removed or at + removed < len(messages) or left[-1] in added:
        return None
    return Branch(left, messages[at - 1].id if at else None, number)


def _is_within_run(before: object, entry: Entry) -> bool:
    """Return whether an entry is of a run that was in progress before it, whose snapshots may replace messages."""
    now = entry.get("values", {}).get("run", before)
    return before is not None and (now is None or now == before)
