"""Conversations that callers hold: what runs keep of them is stored once, and goes with the last run of the thread."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from ag_ui.core import Message, RunAgentInput

from agui_client import FunctionAgent, HttpAgent, Resolve
from agui_client.asgi import agent_app
from agui_client.errors import RunNotFoundError
from agui_client.store import Keeping, Store
from agui_client.store._sql.database import url_of
from agui_client.store._sql.tables import GROUP, RUN, SEGMENT, TABLES
from agui_client.store._sql.transcripts import Transcript, packed, remove_unused, unpacked
from agui_client.testing import ScriptedAgent, interrupt, text, turn

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
_SECONDS = 30.0
_QUESTION = "What about day {} in Oslo, and where shall we have lunch, if it rains as it did the day before?"


async def _plan(input: RunAgentInput) -> AsyncIterator[str]:
    yield f"As for {str(input.messages[-1].content)[:30]}: {'a walk along the fjord. ' * 4}"


@pytest.fixture
def rows(database_url: str) -> Callable[[sa.Table], list[Any]]:
    """What is in a table."""

    def read(table: sa.Table) -> list[Any]:
        with _engine(database_url).connect() as db:
            return [*db.execute(sa.select(table)).mappings()]

    return read


def _caller(url: str, owner: str = "ann", agent: Any = None) -> tuple[HttpAgent, Any]:
    """An agent that holds the conversation itself, and the app that keeps its runs."""
    planner = agent or FunctionAgent(_plan)
    app = agent_app(planner, store=Store(url), keeping=Keeping(threads="transcripts"), owner_of=lambda _: owner)
    return HttpAgent("http://app/", app=app, connect_url="http://app/connect", thread_id="trip"), app


async def test_messages_that_a_caller_sends_with_each_run_are_stored_once(
    database_url: str, rows: Callable[[sa.Table], list[Any]]
) -> None:
    agent, app = _caller(database_url)
    with anyio.fail_after(_SECONDS):
        async with app.lifespan():
            for day in range(12):
                await agent.run_agent(_QUESTION.format(day))
        conversation = len(json.dumps([each.model_dump(mode="json", exclude_none=True) for each in agent.messages]))
        stored = sum(len(row["body"]) for row in rows(SEGMENT))
        begun = sum(len(row["beginning"]) for row in rows(GROUP))
        assert (0.8 * conversation < stored < 1.2 * conversation, begun < 12 * 80) == (True, True)
        # Another process sends the thread again with all that its last run began with.
        other, again = _caller(database_url)
        async with again.lifespan():
            await other.connect_agent()
        assert [(each.role, str(each.content)) for each in other.messages] == [
            (each.role, str(each.content)) for each in agent.messages
        ]


async def test_a_caller_that_edits_a_message_shares_what_came_before_it(
    database_url: str, rows: Callable[[sa.Table], list[Any]]
) -> None:
    agent, app = _caller(database_url)
    with anyio.fail_after(_SECONDS):
        async with app.lifespan():
            for day in range(6):
                await agent.run_agent(_QUESTION.format(day))
            before = {row["link"] for row in rows(SEGMENT)}
            agent.set_messages([*agent.messages[:8]])
            await agent.run_agent("And on Sunday?")
        [added] = [row for row in rows(SEGMENT) if row["link"] not in before]
        # It begins behind the segment that the cut conversation still ends with: the fourth question and no answer.
        assert [str(each.content)[:20] for each in agent.messages[-3:]][1] == "And on Sunday?"
        assert (added["parent"] in before, len(json.loads(added["body"]))) == (True, 2)


async def test_a_run_that_waits_is_answered_by_another_process_with_the_conversation_of_its_caller(
    database_url: str,
) -> None:
    asking = ScriptedAgent(turn(text("One.")), turn(interrupt("Proceed?", interrupt_id="i")))
    agent, app = _caller(database_url, agent=asking)
    with anyio.fail_after(_SECONDS):
        async with app.lifespan():
            await agent.run_agent("First")
            await agent.run_agent("Second")
        seen: list[Message] = []
        store = Store(database_url)

        async def answer(input: RunAgentInput) -> AsyncIterator[str]:
            seen.extend(input.messages)
            yield "Done."

        store.runs.add("agent", FunctionAgent(answer))
        async with store:
            [waiting] = [each for each in await store.runs.list() if each.status == "waiting"]
            done = await store.runs.answer(
                waiting.run_id, {each.id: Resolve(payload=True) for each in waiting.interrupts}
            )
            async for _ in store.runs.follow(done.run_id):
                """It ends."""
        assert [str(each.content) for each in seen][:3] == ["First", "One.", "Second"]


async def test_a_run_that_is_removed_while_it_is_read_is_no_run_without_messages(database_url: str) -> None:
    agent, app = _caller(database_url, agent=ScriptedAgent(turn(interrupt("Proceed?", interrupt_id="i"))))
    with anyio.fail_after(_SECONDS):
        async with app.lifespan():
            run_id = (await agent.run_agent("Hi")).run_id
        with _engine(database_url).begin() as db:
            # Its row was read before, as the messages are in another statement.
            db.execute(sa.delete(SEGMENT))
        store, asked = Store(database_url), ScriptedAgent(turn(text("Done.")))
        store.runs.add("agent", asked)
        async with store:
            with pytest.raises(RunNotFoundError):
                await store.runs.answer(run_id, {"i": Resolve(payload=True)})
        assert not asked.inputs


async def test_messages_go_with_the_last_run_of_the_thread_and_those_of_others_stay(
    database_url: str, rows: Callable[[sa.Table], list[Any]]
) -> None:
    with anyio.fail_after(_SECONDS):
        for owner in ("ann", "ben"):
            agent, app = _caller(database_url, owner)
            async with app.lifespan():
                await agent.run_agent("Hello")
                await agent.run_agent("Again")
        assert {row["owner"] for row in rows(SEGMENT)} == {"ann", "ben"}
        async with Store(database_url) as store:
            assert await store.delete(owner="ann") == 2
        assert ({row["owner"] for row in rows(SEGMENT)}, len(rows(RUN))) == ({"ben"}, 2)


def test_whatever_lists_a_thread_had_before_each_is_read_as_it_was(database_url: str) -> None:
    engine = _engine(database_url)
    TABLES.create_all(engine)
    long = [{"id": str(each), "content": f"ä{each}\u2028"} for each in range(1200)]
    lists = [
        long[:3],
        long[:3],
        [],
        long,
        long[:40],
        [*long[:39], {"id": "edit"}],
        long[5:],
        [*long, long[0]],
        long[:1],
    ]
    with engine.begin() as db:
        db.execute(sa.insert(RUN), [_row("a")])
        kept = [packed(db, "a", Transcript.make(each)) for each in lists]
        assert [unpacked(db, "a", json.loads(json.dumps(each))) for each in kept] == lists
        # What is there already is no further segment.
        count = db.execute(sa.select(sa.func.count()).select_from(SEGMENT)).scalar_one()
        assert [packed(db, "a", Transcript.make(each)) for each in lists] == kept
        assert db.execute(sa.select(sa.func.count()).select_from(SEGMENT)).scalar_one() == count


def test_a_long_thread_with_another_beginning_takes_not_much_longer_than_one_that_is_new(database_url: str) -> None:
    engine = _engine(database_url)
    TABLES.create_all(engine)
    messages = [{"id": str(each), "content": _QUESTION.format(each) * 3} for each in range(6000)]
    seconds = list[float]()
    with engine.begin() as db:
        db.execute(sa.insert(RUN), [_row("a")])
        for each in (messages, [{"id": "new"}, *messages]):
            begun = time.thread_time()
            packed(db, "a", Transcript.make(each))
            seconds.append(time.thread_time() - begun)
    # All links are looked for, in the thread that renews the lease: none with the text of what is stored.
    assert seconds[1] < 4 * seconds[0], seconds


def test_a_run_that_begins_while_the_last_one_is_removed_keeps_its_messages(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    engine = _engine(database_url)
    TABLES.create_all(engine)
    messages = [{"id": "1"}, {"id": "2"}]
    with engine.begin() as db:
        db.execute(sa.insert(RUN), [_row("old")])
        packed(db, "old", Transcript.make(messages))
    thread = [("", "t")]
    # The new run is first: whoever cleans up leaves the thread to it.
    with engine.begin() as new, engine.begin() as cleaner:
        new.execute(sa.insert(RUN), [_row("new")])
        packed(new, "new", Transcript.make(messages))
        cleaner.execute(sa.delete(RUN).where(RUN.c.row_id == "old"))
        remove_unused(cleaner, thread)
    with engine.begin() as db:
        link = packed(db, "new", Transcript.make(messages))
        assert unpacked(db, "new", link) == messages
        db.execute(sa.insert(RUN), [_row("old")])
        db.execute(sa.delete(RUN).where(RUN.c.row_id == "new"))
    # The clean-up is first: the new run waits for it, finds nothing, and stores all.
    with ThreadPoolExecutor(1) as pool, engine.begin() as cleaner:
        cleaner.execute(sa.delete(RUN).where(RUN.c.row_id == "old"))
        remove_unused(cleaner, thread)

        def begin() -> list[Any] | None:
            with engine.begin() as new:
                new.execute(sa.insert(RUN), [_row("newer")])
                return unpacked(new, "newer", packed(new, "newer", Transcript.make(messages)))

        begun = pool.submit(begin)
        cleaner.commit()
        assert begun.result(_SECONDS) == messages


def _engine(url: str) -> sa.Engine:
    return sa.create_engine(url_of(url), poolclass=sa.NullPool)


def _row(row_id: str) -> dict[str, Any]:
    texts = {"agent": "", "stored_request": "{}", "process_id": "", "answers": "[]"}
    about = {"row_id": row_id, "owner": "", "thread_id": "t", "run_id": row_id, "status": "finished"}
    return {**about, **texts, "attempt": 1, "begun_at": 0}
