"""Pages of the messages of a thread, worked out backwards from the entries of its log that are behind them.

An entry says at which place messages came, went or grew. Read from the last one to earlier ones, the entries say where
each message of a page came from, until all are there: entries before that are never read. The cursor of the page before
it is a place in the log, in which the messages before the page stand as they stood when the first page was read: pages
have no message twice and lack none, whatever is written meanwhile.

To change

- what a page of messages is, and how much of a log it reads: this module; `read_latest` of `ThreadStore` reads the log
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from ag_ui.core import Message

from agui_client._core.conversation.log import Entry, change_messages, read_entries
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.problems import shortened
from agui_client.errors import ThreadStoreError, UsageError
from agui_client.store._threads.thread_store import LatestEntries, ThreadStore

_CURSOR = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_FEWEST, _MOST = 16, 1000
"""The entries that are read at once: at first about one for each message, and then twice as many each time."""


@dataclass(frozen=True, slots=True)
class MessagePage(Record):
    """Some messages of a thread, in order."""

    messages: Sequence[Message]
    """The messages, the latest at the end."""
    before: str | None
    """The cursor of the page before this one, for `messages(before=)`; None if these are the first messages."""


class PageEnd(NamedTuple):
    """A place in the log of a thread, and a number of messages that the conversation has there."""

    entry: int
    """The number of entries up to the place."""
    message_count: int
    """The number of messages."""

    @classmethod
    def from_cursor(cls, cursor: object) -> PageEnd:
        """Return the place that a cursor names.

        Raises:
            UsageError: It is not a cursor.
        """
        found = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
        if found is None:
            raise UsageError(f"before= takes the `before` of a page of messages, not {shortened(cursor)}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        """Return the cursor."""
        return f"{self.entry}-{self.message_count}"


async def page_of(
    store: ThreadStore, owner: str, thread_id: str, limit: int, end: PageEnd | None
) -> MessagePage | None:
    """Read a page of messages.

    Args:
        owner: The owner of the thread.
        limit: The most messages.
        end: The end of the page; None for the end of the thread.

    Returns:
        The page; None if there is no such thread.

    Raises:
        ThreadStoreError: The thread is damaged.
        UsageError: The thread has no such place.
    """
    size = min(max(limit, _FEWEST), _MOST)
    found = await store.read_latest(owner, thread_id, size, None if end is None else end.entry)
    if found is None:
        return None
    here, created_at = PageEnd(found.before + len(found.entries), found.info.message_count), found.info.created_at
    reader = _PageReader(end or here, limit)
    if end is None or end.entry == here.entry:
        reader.read(found)
        while not reader.is_whole and found.before:
            size = min(2 * size, _MOST)
            found = await store.read_latest(owner, thread_id, size, found.before)
            if found is None or found.info.created_at != created_at:
                return None  # it was deleted meanwhile
            reader.read(found)
        if reader.is_whole:
            return reader.page
    if end is not None:
        raise UsageError(f"before= is of another thread than {thread_id!r}, or of one that was deleted since")
    raise ThreadStoreError("its entries have fewer messages than its description says")


@dataclass(slots=True)
class _Wanted:
    """A message of a page, whose entry is looked for."""

    place: int
    """Its place among the messages, before the entries that were read."""
    message: Message | None = None
    """The message as its entry has it."""
    growth: list[Entry] = field(default_factory=list["Entry"])
    """The entries since then, the latest first, as of a conversation that has nothing else."""

    def made(self) -> Message:
        """Return the message with all that it got."""
        messages = [cast("Message", self.message)]
        for each in reversed(self.growth):
            change_messages(messages, each)
        return messages[0]


class _PageReader:
    """Works out a page from the entries up to its end, the last ones first.

    Args:
        end: The end of the page.
        limit: The most messages.
    """

    def __init__(self, end: PageEnd, limit: int) -> None:
        self._start = max(0, end.message_count - limit)
        self._wanted = [_Wanted(place) for place in range(self._start, end.message_count)]
        self._missing = self._wanted
        # The place behind which no entry has touched a message before the page.
        self._before: PageEnd | None = None
        self._entry = end.entry

    @property
    def is_whole(self) -> bool:
        """Whether all messages are found."""
        return not self._missing

    @property
    def page(self) -> MessagePage:
        """The page, if it is whole."""
        before = self._before or PageEnd(self._entry, self._start)
        try:
            return MessagePage([each.made() for each in self._wanted], str(before) if before.message_count else None)
        except (IndexError, ValueError) as error:
            raise ThreadStoreError(f"its entries do not fit each other: {error}") from None

    def read(self, found: LatestEntries) -> None:
        """Read entries, those before the ones that were read before, until the page is whole."""
        for entry in reversed(read_entries(found.entries, found.before)):
            if self.is_whole:
                return
            if self._before is None and _first_change(entry) < self._start:
                self._before = PageEnd(entry["number"], self._start)
            self._undo_splice(entry)
            self._undo_growth(entry)
            self._missing = [each for each in self._missing if each.message is None]
            self._entry = entry["number"] - 1

    def _undo_splice(self, entry: Entry) -> None:
        at, removed, added = entry.get("messages", (0, 0, []))
        for each in self._missing:
            if each.place >= at + len(added):
                each.place += removed - len(added)
            elif each.place >= at:
                each.message = added[each.place - at]

    def _undo_growth(self, entry: Entry) -> None:
        if "text" not in entry and "arguments" not in entry:
            return
        for each in self._missing:
            text = [(0, offset, text) for place, offset, text in entry.get("text", ()) if place == each.place]
            arguments = [(0, *rest) for place, *rest in entry.get("arguments", ()) if place == each.place]
            if each.message is None and (text or arguments):
                growth = {"text": text, "arguments": arguments}
                each.growth.append(cast("Entry", growth))


def _first_change(entry: Entry) -> float:
    """Return the place of the first message that an entry adds, removes or changes."""
    places: Iterable[int] = [each[0] for each in (*entry.get("text", ()), *entry.get("arguments", ()))]
    return min((*places, *(entry["messages"][:1] if "messages" in entry else ())), default=float("inf"))
