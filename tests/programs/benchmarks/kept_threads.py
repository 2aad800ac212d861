"""Threads in a database: what a list, an open and a turn cost, however much is there already."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from ag_ui.core import AssistantMessage, Message, UserMessage
from pydantic import TypeAdapter
from sqlalchemy import Table, create_engine, insert, select

from agui_client._core.conversation.log import empty_members, entry_of
from agui_client.store import Store, Threads
from agui_client.store._sql.tables import ENTRIES, LINES, THREADS
from agui_client.testing import ScriptedAgent, text, turn
from agui_client.types import Checkpoint
from programs.benchmarks.measure import Row, best_times
from support.postgres import postgres_server
from support.stores import sql_store

_THREAD_COUNT = 10_000
_TURNS = 10_000
_SAVES = 20
_STORED_TURNS = 40
_LISTS = 10
_MESSAGES = TypeAdapter(list[Message])


def stored_turns(repeat: int) -> list[Row]:
    """Turns of an agent in this process, each in a block of its own, against turns of clones that nothing saves."""
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        places = {"SQLite": (f"sqlite:///{folder}/threads.db", 8.0)}
        with suppress(pytest.skip.Exception):
            server = stack.enter_context(postgres_server())
            places["PostgreSQL"] = (f"postgresql://{server.address}", 10.0)
        for name, (url, limit) in places.items():
            threads = stack.enter_context(Store(url)).threads
            asyncio.run(_stored_turns(threads))
            numbers = count()
            stored, unstored = best_times(
                repeat,
                partial(_run_stored_turns, threads, numbers),
                lambda: asyncio.run(_unstored_turns()),
            )
            costs = f"{stored * 1000 / _STORED_TURNS:.2f} / {unstored * 1000 / _STORED_TURNS:.2f} ms"
            rows.append(Row(f"a stored turn, {name}", stored / unstored, limit, "one that nothing saves", costs))
    return rows


def _run_stored_turns(threads: Threads, numbers: Iterator[int]) -> None:
    asyncio.run(_stored_turns(threads, str(next(numbers))))


async def _stored_turns(threads: Threads, name: str = "first") -> None:
    agent = ScriptedAgent(turn(text("Yes.")))
    for number in range(_STORED_TURNS):
        async with threads.open(f"{name} {number % 10}", agent) as opened:
            await opened.run_agent("Hi")


async def _unstored_turns() -> None:
    agent = ScriptedAgent(turn(text("Yes.")))
    for number in range(_STORED_TURNS):
        await agent.clone(thread_id=str(number)).run_agent("Hi")


def threads_kept(repeat: int) -> list[Row]:
    """10 000 threads, one of them of 20 000 messages in 10 000 turns, in SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/threads.db"
        asyncio.run(_fill(url))
        agent = ScriptedAgent(turn(text("Yes.")))
        with Store(url) as store:
            threads = store.threads
            (listing,) = best_times(repeat, lambda: [threads.list(limit=50).result() for _ in range(_LISTS)])

            def open_it() -> None:
                with threads.open("long", agent) as opened:
                    assert len(opened.messages) == 2 * _TURNS

            opening, reading = best_times(repeat, open_it, lambda: _read(url))
            with threads.open("long", agent) as long, threads.open("new", agent) as new:
                saving_long, saving_new = best_times(
                    repeat, lambda: asyncio.run(_save_turns(long)), lambda: asyncio.run(_save_turns(new))
                )
    ms = 1000 / _LISTS * listing
    return [
        Row("a page of 50 of 10 000 threads", ms, 20, "1 ms", f"{ms:.1f} ms"),
        Row(
            "opening a thread of 20 000 messages",
            opening / reading,
            1.5,
            "reading its rows into messages",
            f"{opening * 1000:.0f} / {reading * 1000:.0f} ms",
        ),
        Row(
            "saving a turn on it",
            saving_long / saving_new,
            2,
            "saving one on a new thread",
            f"{saving_long * 1000 / _SAVES:.2f} / {saving_new * 1000 / _SAVES:.2f} ms",
        ),
    ]


async def _fill(url: str) -> None:
    store = sql_store(url)
    await store.list("", 1)
    row: dict[str, Any] = {"owner": "", "lease": 1, "leased_until": 0, "title": "A title", "created_at": 1}
    row |= {"messages": 2, "usage": "[]"}
    rows = [
        {**row, "thread_id": f"t{each}", "line": f"l{each}", "entries": 1, "updated_at": each + 1}
        for each in range(_THREAD_COUNT - 1)
    ]
    rows.append({**row, "thread_id": "long", "line": "long", "entries": _TURNS, "updated_at": 1})
    lines = [{"owner": "", "line": each["line"], "parent": None, "shared": 0} for each in rows]
    entries, members = list[dict[str, Any]](), empty_members()
    for each in range(_TURNS):
        said = [_question(f"u{each}"), _answer(f"a{each}")]
        # As if the thread had only this turn, so that filling costs no more than the turns.
        body = entry_of({**members, "messages": []}, {**members, "messages": said}, each + 1)
        assert body is not None
        body = body.replace('"messages":[0,0,', f'"messages":[{2 * each},0,')
        entries.append({"owner": "", "line": "long", "number": each + 1, "body": body})
    with create_engine(url).begin() as db:
        filled: list[tuple[Table, list[dict[str, Any]]]] = [(THREADS, rows), (LINES, lines), (ENTRIES, entries)]
        for table, values in filled:
            db.execute(insert(table), values)
    await store.aclose()


def _read(url: str) -> None:
    """Read the rows of the long thread, and make messages of what is in them."""
    engine = create_engine(url)
    with engine.begin() as db:
        where = (ENTRIES.c.owner == "", ENTRIES.c.line == "long")
        bodies = (db.execute(select(ENTRIES.c.body).where(*where).order_by(ENTRIES.c.number))).scalars().all()
    texts = (body[body.index("[{") + 1 : body.rindex("]]")] for body in bodies)
    assert len(_MESSAGES.validate_json(f"[{','.join(texts)}]")) == 2 * _TURNS
    engine.dispose()


async def _save_turns(agent: ScriptedAgent) -> None:
    """Save turns as a run does at its end."""
    assert agent._save is not None
    for _ in range(_SAVES):
        agent.add_messages([_question(str(uuid4())), _answer(str(uuid4()))])
        await agent._save(Checkpoint(agent._conversation.branch().members()))


def _question(message_id: str) -> UserMessage:
    return UserMessage(id=message_id, content="a question " * 8)


def _answer(message_id: str) -> AssistantMessage:
    return AssistantMessage(id=message_id, content="an answer " * 20)
