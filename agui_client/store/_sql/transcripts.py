"""The messages that callers hold, each stored once for all runs of a thread.

A caller who holds the conversation sends all of it with each run. A run stores the link of its last message: a hash of
that message and of all before it. A segment has the messages between two links, so that a run adds those that no run
of the thread has stored; lists that differ from some message on share what comes before it. The owner and the thread
are part of every key. The segments of a thread go with its last run.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from agui_client.store._sql.tables import RUN, SEGMENT

_LINK_BYTES = 20
_LATEST, _MOST = 32, 1000
"""The links that are looked for at once: few from the end first, as most runs add little to what is stored."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages of a run as they are stored; made before the transaction, for which all other writers wait."""

    texts: Sequence[str]
    """The messages, as JSON."""
    links: Sequence[str]
    """For each message a hash of it and of all before it."""

    @classmethod
    def make(cls, messages: Sequence[Any]) -> Transcript:
        """Return the transcript of messages that are JSON values."""
        link, texts, links = b"", list[str](), list[str]()
        for each in messages:
            texts.append(json.dumps(each, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
            # The database refuses half a character, and says so.
            link = sha256(link + texts[-1].encode(errors="surrogatepass")).digest()[:_LINK_BYTES]
            links.append(link.hex())
        return cls(texts, links)


def packed(db: sa.Connection, row_id: str, transcript: Transcript) -> Any:
    """Store messages of a run; return what stands for them in its row.

    Args:
        db: A connection, in the transaction that stores what is returned.
        row_id: The id of the run's row.
        transcript: The messages.
    """
    if not (links := transcript.links):
        return []
    owner, thread_id = db.execute(_SELECT_THREAD, {"of_row": row_id}).one()
    thread = {"owner": owner, "thread_id": thread_id}
    if db.dialect.name == "postgresql":
        db.execute(_SHARE, {"thread": _name(owner, thread_id)})
    stored = _stored_count(db, thread, links)
    if stored < len(links):
        body = f"[{','.join(transcript.texts[stored:])}]"
        parent = links[stored - 1] if stored else None
        db.execute(_INSERT, {**thread, "link": links[-1], "parent": parent, "body": body})
    return {"link": links[-1]}


def unpacked(db: sa.Connection, row_id: str, stored: list[Any] | dict[str, str]) -> list[Any] | None:
    """Return messages of a run, as JSON values; None if the run was removed since its row was read.

    Args:
        db: A connection.
        row_id: The id of the run's row.
        stored: What stands for them in its row.
    """
    if isinstance(stored, list):
        return stored
    bodies = db.execute(_SELECT_CHAIN, {"of_row": row_id, "of_link": stored["link"]}).scalars()
    return [message for body in bodies for message in json.loads(body)] or None


def remove_unused(db: sa.Connection, threads: Collection[tuple[str, str]]) -> None:
    """Remove the segments of threads that have no run any more.

    Args:
        db: A connection, in the transaction that has removed runs.
        threads: The owners and ids of the threads of those runs.
    """
    by_name = {_name(*each): {"of_owner": each[0], "of_thread_id": each[1]} for each in threads}
    if db.dialect.name == "postgresql":
        # A run that is about to refer to a segment has the lock, and is not always seen here: its thread is skipped,
        # and cleaned up with that run. A process that gets the lock later finds no segments, and stores them anew.
        free = {each for each in sorted(by_name) if db.execute(_TRY, {"thread": each}).scalar_one()}
        by_name = {each: thread for each, thread in by_name.items() if each in free}
    if by_name:
        db.execute(_DELETE, [*by_name.values()])


def _stored_count(db: sa.Connection, thread: dict[str, str], links: Sequence[str]) -> int:
    """Return the number of messages from the first on whose last one ends a segment of the thread."""
    end, size = len(links), _LATEST
    while end:
        begin = max(0, end - size)
        found = {*db.execute(_SELECT_LINKS, {**thread, "wanted": links[begin:end]}).scalars()}
        if found:
            return next(count for count in range(end, begin, -1) if links[count - 1] in found)
        end, size = begin, _MOST
    return 0


def _name(owner: str, thread_id: str) -> str:
    return json.dumps([owner, thread_id])


_SELECT_THREAD = sa.select(RUN.c.owner, RUN.c.thread_id).where(RUN.c.row_id == sa.bindparam("of_row"))
_SELECT_LINKS = sa.select(SEGMENT.c.link).where(
    SEGMENT.c.owner == sa.bindparam("owner"),
    SEGMENT.c.thread_id == sa.bindparam("thread_id"),
    SEGMENT.c.link.in_(sa.bindparam("wanted", expanding=True)),
)
_INSERT = sa.text("""
insert into agui_segments (owner, thread_id, link, parent, body) values (:owner, :thread_id, :link, :parent, :body)
on conflict (owner, thread_id, link) do nothing
""")
_SELECT_CHAIN = sa.text("""
with recursive chain (owner, thread_id, parent, body, depth) as (
    select s.owner, s.thread_id, s.parent, s.body, 0 from agui_runs r
    join agui_segments s on s.owner = r.owner and s.thread_id = r.thread_id and s.link = :of_link
    where r.row_id = :of_row
    union all
    select s.owner, s.thread_id, s.parent, s.body, c.depth + 1 from chain c
    join agui_segments s on s.owner = c.owner and s.thread_id = c.thread_id and s.link = c.parent
)
select body from chain order by depth desc
""")
_DELETE = sa.delete(SEGMENT).where(
    SEGMENT.c.owner == sa.bindparam("of_owner"),
    SEGMENT.c.thread_id == sa.bindparam("of_thread_id"),
    sa.not_(sa.exists().where(RUN.c.owner == SEGMENT.c.owner, RUN.c.thread_id == SEGMENT.c.thread_id)),
)
_LOCK = int.from_bytes(b"segm")
_SHARE = sa.text(f"select pg_advisory_xact_lock_shared(hashtextextended(:thread, {_LOCK}))")
_TRY = sa.text(f"select pg_try_advisory_xact_lock(hashtextextended(:thread, {_LOCK}))")
