"""The database of durable runs: the versions of its tables, its faults, and what becomes of its connections."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from ag_ui.core import Event, RunAgentInput, RunStartedEvent, TextMessageContentEvent, TextMessageStartEvent
from sqlalchemy import event, exc

from agui_client import FunctionAgent, HttpAgent, ThreadStoreError, UsageError, tool
from agui_client._core.agent.run_records import Place
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.store._runs import attempts
from agui_client.store._sql import database as database_module
from agui_client.store._sql import migrations
from agui_client.store._sql.database import Database, url_of
from agui_client.store._sql.run_rows import EventGroup
from agui_client.store._sql.runs import ClaimedRun, RunChange, RunLostError, Runs
from agui_client.store._sql.thread_statements import Taking, give_up_taking
from agui_client.store._sql.times import StoreTimes
from agui_client.testing import Gate, ScriptedAgent, text, tool_call, turn
from support import frozen_tables
from support.programs import ROOT
from support.statements import counted
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def with_agent(url: str) -> Store:
    store = Store(url)
    store.runs.add("helper", ScriptedAgent(turn(text("Hello."))))
    return store


def change(url: str, statement: str) -> None:
    """Change the tables as another program would."""
    engine = sa.create_engine(url_of(url))
    with engine.begin() as database:
        database.execute(sa.text(statement))
    engine.dispose()


def read(url: str, statement: str) -> list[Any]:
    """Read a column of the tables."""
    engine = sa.create_engine(url_of(url))
    with engine.connect() as database:
        found = database.execute(sa.text(statement)).scalars().all()
    engine.dispose()
    return [*found]


async def test_a_column_that_is_missing_is_no_outage(database_url: str) -> None:
    async with with_agent(database_url) as store:
        await store.runs.start("helper", "Hi")
        change(database_url, "alter table agui_runs drop column stored_request")
        with pytest.raises(exc.DBAPIError, match="stored_request"):
            await store.runs.start("helper", "Hi")


async def test_runs_of_other_processes_are_read_again_when_their_table_is_whole_again(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    carrying, others, gate = Store(database_url), Store(database_url), Gate()
    agent = ScriptedAgent(turn(text("One. "), gate, text("Two.")))
    for each in (carrying, others):
        each.runs.add("helper", agent)
    with anyio.fail_after(10):
        async with carrying:
            await carrying.runs.start("helper", "Hi", run_id="r")
            async with others:
                following = others.runs.follow("r")
                seen = [(await anext(following)).event.type.value]
                change(database_url, "alter table agui_run_events rename column frames to pieces")
                await until(lambda: caplog.records)
                change(database_url, "alter table agui_run_events rename column pieces to frames")
                gate.open()
                seen += [event.type.value async for _, event in following]
    told = {(each.name, each.getMessage()) for each in caplog.records}
    assert told == {("agui_client.runs", "the runs of other processes cannot be read")}
    # Nobody takes a run over whose process lives.
    assert (seen[0], seen[-1], len(agent.inputs)) == ("RUN_STARTED", "RUN_FINISHED", 1)


async def _say(store: Store, word: str) -> list[Any]:
    """Say a word in a thread, whichever program it was open in before; return what has been said."""
    async with store.threads.open("t", ScriptedAgent(turn(text(f"{word}.")))) as agent:
        await agent.run_agent(word)
        return [each.content for each in agent.messages]


async def test_an_additive_version_2_shares_a_database_with_a_program_of_version_1_during_a_deploy(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["agui_runs add column cost integer", "agui_threads add column folder text not null default 'inbox'"]
    steps = [[f"alter table {each}" for each in columns], ["update agui_runs set cost = 3"]]
    async with with_agent(database_url) as older:
        await older.runs.start("helper", "Hi", run_id="r1")
        await _say(older, "One")
        with monkeypatch.context() as newer:
            newer.setattr(migrations, "MIGRATIONS", steps)
            async with with_agent(database_url) as store:
                await _say(store, "Two")
                await store.runs.start("helper", "Hi", run_id="r2")
                await older.runs.start("helper", "Hi", run_id="r3")
                assert await _say(older, "Three") == ["One", "One.", "Two", "Two.", "Three", "Three."]
                assert {each.run_id for each in await store.runs.list()} == {"r1", "r2", "r3"}
        # The program of version 2 has left; that of version 1 is still at work.
        await older.runs.start("helper", "Hi", run_id="r4")
        assert len(await _say(older, "Four")) == 8
    assert read(database_url, "select version from agui_versions") == [3]
    assert read(database_url, "select cost from agui_runs order by run_id") == [3, None, None, None]
    assert read(database_url, "select folder from agui_threads") == ["inbox"]


def _schema(url: str) -> dict[str, Any]:
    """What a database says of its tables."""
    engine = sa.create_engine(url_of(url))
    with engine.connect() as database:
        inspector = sa.inspect(database)
        found = {
            name: (
                [(each["name"], str(each["type"]), each["nullable"]) for each in inspector.get_columns(name)],
                inspector.get_pk_constraint(name)["constrained_columns"],
                sorted(
                    (
                        str(each["name"]),
                        each["unique"],
                        str(each["column_names"]),
                        [*map(str, each.get("dialect_options", {}).values())],
                    )
                    for each in inspector.get_indexes(name)
                ),
            )
            for name in inspector.get_table_names()
        }
    engine.dispose()
    return found


async def test_the_tables_of_version_1_are_frozen_and_lead_to_those_of_the_package(
    database_url: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    engine, frozen = sa.create_engine(url_of(database_url)), frozen_tables.frozen(database_url.partition(":")[0])
    with engine.begin() as database:
        for statement in filter(str.strip, frozen.split(";")):
            database.exec_driver_sql(statement)
        database.exec_driver_sql("insert into agui_versions (version) values (1)")
    is_changed = frozen_tables.current(engine.dialect) != frozen
    engine.dispose()
    assert is_changed is bool(migrations.MIGRATIONS), "databases of users have version 1: add a step to MIGRATIONS"
    fresh = f"sqlite:///{tmp_path / 'fresh.db'}"
    if database_url.startswith("postgresql"):
        fresh = f"postgresql://{request.getfixturevalue('postgresql').new_database()}"
    for url in (database_url, fresh):
        async with with_agent(url) as store:
            await store.runs.start("helper", "Hi")
    assert _schema(database_url) == _schema(fresh)


async def test_a_migration_that_fails_changes_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_agent(database_url) as store:
        await store.runs.start("helper", "Hi", run_id="r1")
    steps = [["alter table agui_runs add column cost integer", "update agui_runs set price = 3"]]
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "MIGRATIONS", steps)
        for _ in range(2):
            with pytest.raises(exc.DBAPIError, match="price"):
                await with_agent(database_url).__aenter__()
    assert read(database_url, "select version from agui_versions") == [1]
    async with with_agent(database_url) as store:
        assert [each.run_id for each in await store.runs.list()] == ["r1"]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("update agui_versions set version = 2", "are of version 2, and this client knows 1; upgrade the client"),
        ("update agui_versions set version = 0", "'agui_versions' is not ours: it has the version 0"),
        ("alter table agui_versions rename column version to release", "'agui_versions' has no column 'version'"),
        ("alter table agui_runs rename column row_id to workflow_id", "'agui_runs' has no column 'row_id'; an earlier"),
        ("create table agui_run (row_id text)", "an edition before the first release, such as 'agui_run'"),
    ],
)
async def test_tables_that_are_newer_or_not_ours_are_left_alone(
    database_url: str, statement: str, sentence: str
) -> None:
    async with with_agent(database_url) as store:
        await store.runs.start("helper", "Hi")
        await store.threads.list()
    change(database_url, statement)
    store = with_agent(database_url)
    for _ in range(2):
        with pytest.raises(UsageError, match=sentence):
            await store.__aenter__()
    if "agui_versions" in statement:
        async with Store(database_url) as store:
            with pytest.raises(ThreadStoreError, match=sentence):
                await store.threads.list()


async def test_processes_that_make_the_tables_at_the_same_time_make_them_once(database_url: str) -> None:
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(stack.enter_async_context, with_agent(database_url))
    assert read(database_url, "select version from agui_versions") == [1]


async def test_values_that_runs_and_threads_always_have_are_never_null_and_indexes_have_their_names(
    database_url: str,
) -> None:
    async with with_agent(database_url) as store:
        await store.runs.start("helper", "Hi")
        await store.threads.list()
    engine = sa.create_engine(url_of(database_url))
    found = {
        table: sorted(each["name"] for each in sa.inspect(engine).get_columns(table) if each["nullable"])
        for table in sa.inspect(engine).get_table_names()
    }
    indexes = {each["name"] for table in found for each in sa.inspect(engine).get_indexes(table)}
    engine.dispose()
    assert indexes == {
        *(
            f"agui_runs_{each}"
            for each in ("by_thread", "by_time", "running", "waiting", "waiting_by_time", "over", "unnotified")
        ),
        *("agui_threads_by_time", "agui_lines_by_parent"),
    }
    assert found == {
        "agui_entries": [],
        "agui_lines": ["parent"],
        "agui_processes": [],
        "agui_runs": ["ended_at", "left_input", "threadless_checkpoint"],
        "agui_run_events": ["beginning"],
        "agui_segments": ["parent"],
        "agui_threads": [],
        "agui_versions": [],
    }


async def test_sqlite_writes_to_the_disk_at_the_end_of_each_transaction_that_is_to_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, of_tables = Database(f"sqlite:///{tmp_path / 'runs.db'}"), list[Any]()

    def level(db: sa.Connection) -> Any:
        return db.execute(sa.text("pragma synchronous")).scalar_one()

    def advance(db: sa.Connection) -> bool:
        of_tables.append(level(db))
        return True

    full, normal = 2, 1
    monkeypatch.setattr(database_module, "advance", advance)
    await database.write(level, is_synced=False)
    await database.make_tables()
    assert (of_tables, await database.write(level)) == ([full], full)
    for is_synced, expected in ((True, full), (False, normal), (False, normal), (True, full)):
        assert await database.write(level, is_synced=is_synced) == expected
    # One that is to last takes the others with it.
    found = await asyncio.gather(*(database.write(level, is_synced=each) for each in (False, True, False)))
    assert found[1] == full
    database.close()


async def test_half_a_character_is_refused(database_url: str) -> None:
    async with with_agent(database_url) as store:
        with pytest.raises(UsageError, match="cannot store an id or a text"):
            await store.runs.start("helper", "Hi", thread_id="half \ud83d")


@pytest.mark.parametrize("step", ["rollback", "commit"])
async def test_nothing_of_a_transaction_goes_into_the_next_one_if_its_end_fails(tmp_path: Path, step: str) -> None:
    database = Database(f"sqlite:///{tmp_path / 'runs.db'}")
    await database.write(lambda db: db.execute(sa.text("create table kept (word text)")))

    def writing(word: str, end: Callable[[], None] = lambda: None) -> Callable[[sa.Connection], None]:
        def write(db: sa.Connection) -> None:
            db.execute(sa.text("insert into kept values (:word)"), {"word": word})
            end()

        return write

    def fail(*_: Any) -> None:
        event.remove(sa.Engine, step, fail)
        raise exc.PendingRollbackError(f"the {step} failed")

    def stop() -> None:
        if step == "rollback":
            raise ValueError("a function failed")

    event.listen(sa.Engine, step, fail)
    with pytest.raises((ValueError, exc.PendingRollbackError)):
        await database.write(writing("undone", stop))
    await database.write(writing("kept"))
    assert await database.read(lambda db: db.execute(sa.text("select word from kept")).scalars().all()) == ["kept"]
    database.close()


@pytest.mark.parametrize(("hung_after", "is_kept"), [(60.0, True), (0.2, False)])
async def test_a_blocked_event_loop_keeps_the_lease_of_its_process_unless_it_hangs(
    tmp_path: Path, hung_after: float, is_kept: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    this, other = (Database(url, StoreTimes(0.4, hung_after)) for _ in range(2))
    await this.make_tables()
    await this.hold_lease()
    unwatch = this.lease.watch()
    await anyio.sleep(0.1)  # the loop turns when it is asked to
    time.sleep(1.0)  # noqa: ASYNC251 - longer than a lease
    living = await other.read(lambda db: db.execute(other.lease.living).scalars().all())
    assert (this.lease.process_id in living) is is_kept
    unwatch()
    this.close()
    other.close()


async def test_who_was_cut_off_from_the_database_waits_a_lease_before_it_takes_others_for_dead(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    database = Database(f"sqlite:///{path}", StoreTimes(0.3))
    await database.make_tables()
    await database.hold_lease()
    judges = [database.lease.may_judge]
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("begin exclusive")
        while database.lease.is_current:  # noqa: ASYNC110 - its time passes
            await anyio.sleep(0.02)
        judges.append(database.lease.may_judge)
        lock.execute("commit")
    await database.hold_lease()
    returned = time.monotonic()
    judges.append(database.lease.may_judge)
    with anyio.fail_after(10):
        while not database.lease.may_judge:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert judges == [True, False, False]
    assert time.monotonic() - returned > 0.2
    database.close()


@pytest.mark.parametrize("asks", ["for runs to go on with", "for runs that nobody was notified of"])
async def test_who_asked_for_runs_of_dead_processes_before_it_was_cut_off_gets_none_behind_that(
    tmp_path: Path, asks: str
) -> None:
    path = tmp_path / "runs.db"
    url, found = f"sqlite:///{path}", list[Any]()
    async with with_agent(url) as store:
        await store.runs.start("helper", "Hi")
    database = Database(url, StoreTimes(1.0))
    runs = Runs(database)
    await runs.open()
    status = "running" if asks == "for runs to go on with" else "waiting"
    change(url, f"update agui_runs set status = '{status}', process_id = 'other', is_notified = false")
    ask = partial(runs.take_over, ["helper"], ()) if status == "running" else partial(runs.pop_unnotified, ["helper"])

    async def take() -> None:
        found.append(await ask())

    with anyio.fail_after(30), closing(sqlite3.connect(path, isolation_level=None)) as lock:
        await until(lambda: database.lease.may_judge, 10)
        lock.execute("begin exclusive")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await until(lambda: not database.lease.is_current, 10)
            lock.execute("commit")
        assert found == [[]]
        assert read(url, "select process_id from agui_runs") == ["other"]
        # The other one has had its time to renew its lease.
        await until(lambda: database.lease.may_judge, 10)
        assert len(await ask()) == 1
    database.close()


@pytest.mark.parametrize(("passed_before", "waits", "remains"), [(None, False, 0), (1.0, True, 1), (9.0, True, 0)])
async def test_a_new_process_takes_others_for_dead_when_the_living_had_the_time_to_renew(
    tmp_path: Path, passed_before: float | None, waits: bool, remains: int
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    database = Database(url, StoreTimes(0.5))
    await database.make_tables()
    if passed_before is not None:
        now = "(julianday() - 2440587.5) * 86400000000"
        change(url, f"insert into agui_processes values ('other', {now} - {passed_before * 1_000_000})")
    await database.hold_lease()
    assert database.lease.may_judge is not waits
    assert len(read(url, "select 1 from agui_processes")) == 1 + remains
    with anyio.fail_after(10):
        while not database.lease.may_judge:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    database.close()


async def test_who_has_no_patience_waits_for_a_lock_of_another_program_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    database = Database(f"sqlite:///{path}", StoreTimes(patience=0))
    await database.make_tables()
    async with anyio.create_task_group() as tasks:
        with closing(sqlite3.connect(path, isolation_level=None)) as lock:
            lock.execute("begin exclusive")
            tasks.start_soon(database.hold_lease)
            await anyio.sleep(0.2)  # longer than the library of SQLite waits
            assert not database.lease.is_current
            lock.execute("commit")
    assert database.lease.is_current
    database.close()


async def test_a_run_that_is_lost_while_its_process_leaves_it_is_no_unknown_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storing, is_left = anyio.Event(), anyio.Event()

    async def lose(*_: object, **__: object) -> None:
        storing.set()
        await is_left.wait()
        raise RunLostError("another process has the run")

    async def speak(asked: RunAgentInput) -> AsyncGenerator[Event]:
        yield RunStartedEvent(thread_id=asked.thread_id, run_id=asked.run_id)
        monkeypatch.setattr(Runs, "store", lose)
        yield TextMessageStartEvent(message_id="m")
        await anyio.sleep_forever()

    store = Store(f"sqlite:///{tmp_path / 'runs.db'}")
    store.runs.add("helper", FunctionAgent(speak))
    with anyio.fail_after(10):
        async with store:
            await store.runs.start("helper", "Hi")
            await storing.wait()
        is_left.set()
        await anyio.wait_all_tasks_blocked()
    gc.collect()
    assert [each.message for each in caplog.records] == []


async def test_a_lease_is_taken_again_by_the_request_that_has_taken_it_and_by_no_other(database_url: str) -> None:
    database = Database(database_url)
    await database.make_tables()
    taking = Taking(database.lease)

    async def take(request: str, seconds: float = 60.0) -> bool:
        """Take the lease of a thread, as a request does whose answer may have been lost."""
        this: dict[str, Any] = {"owner": "", "thread_id": "t", "seconds": seconds, "taking": request}
        return await database.write(partial(taking.take, **this)) is not None

    try:
        assert [await take(each) for each in ("first", "first", "other")] == [True, True, False]
        give_up: dict[str, Any] = {"owner": "", "thread_id": "t", "taking": "other"}
        await database.write(partial(give_up_taking, **give_up))
        assert not await take("other")
        await database.write(partial(give_up_taking, **{**give_up, "taking": "first"}))
        assert await take("other")
    finally:
        database.close()


async def test_who_has_lost_a_run_changes_nothing_of_its_row(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with with_agent(url) as store:
        await store.runs.start("helper", "Hi")
        async for _ in store.runs.follow((await store.runs.list())[0].run_id):
            """Until it has ended."""
    change(url, "update agui_runs set status = 'running', process_id = 'other', attempt = 2")
    [row_id] = read(url, "select row_id from agui_runs")
    database = Database(url)
    runs = Runs(database)
    await runs.open()
    for process_id, attempt in (("other", 1), (runs.lease.process_id, 2), (runs.lease.process_id, 1)):
        change(url, f"update agui_runs set process_id = '{process_id}', attempt = {attempt + (process_id != 'other')}")
        with pytest.raises(RunLostError):
            await runs.store(RunChange(ClaimedRun(row_id, attempt), None, {"event_count": 99}))
        late = EventGroup(row_id, Place(99, attempt), [b"data: {}\n\n"], None, is_end=False)
        with pytest.raises(RunLostError):
            await runs.store(RunChange(ClaimedRun(row_id, attempt), late, {}))
        assert not await runs.withdraw(ClaimedRun(row_id, attempt))
        end = replace(late, is_end=True)
        change(url, "update agui_runs set status = 'finished'")
        with pytest.raises(RunLostError):  # an end is its own only if its process and attempt have stored it
            await runs.store(RunChange(ClaimedRun(row_id, attempt), end, {"status": "finished"}))
        change(url, "update agui_runs set status = 'running'")
    assert 99 not in read(url, "select event_count from agui_runs")
    assert 99 not in read(url, "select position from agui_run_events")
    database.close()


async def test_followers_get_events_that_a_thread_carries_when_it_has_committed_them(tmp_path: Path) -> None:
    url, gate, seen = f"sqlite:///{tmp_path / 'runs.db'}", Gate(), list[str]()
    agent = ScriptedAgent(turn(gate, text("One."), tool_call("look", {})), turn(text("Done.")), tools=[look])
    store = Store(url)
    store.runs.add("helper", lambda thread_id: store.threads.open(thread_id, agent))

    async def follow(run_id: str) -> None:
        async for _, each in store.runs.follow(run_id):
            seen.append(each.type.value)

    async with store, anyio.create_task_group() as tasks:
        started = await store.runs.start("helper", "Hi", thread_id="t")
        tasks.start_soon(follow, started.run_id)
        await until(lambda: seen == ["RUN_STARTED"], 30)
        with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            gate.open()
            # Nothing can be committed now: another process would not know what a follower has seen.
            with anyio.move_on_after(0.5):
                await until(lambda: len(seen) > 1, 30)
            assert seen == ["RUN_STARTED"]
            other.execute("rollback")
    assert seen[-1] == "RUN_FINISHED"


async def test_the_events_before_each_place_of_a_run_are_stored_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, found = f"sqlite:///{tmp_path / 'runs.db'}", list[tuple[int, int]]()
    monkeypatch.setattr(attempts, "_SECONDS", 60.0)  # nothing but places has events stored

    @tool
    def note() -> str:
        """Note the place from which another process would go on, and the events that it would find."""
        entries = map(json.loads, read(url, "select body from agui_entries order by number"))
        places = [each["values"]["position"] for each in entries if "position" in each.get("values", {})]
        found.append((places[-1], max(read(url, "select position + event_count from agui_run_events"))))
        return "noted"

    agent = ScriptedAgent(turn(tool_call("note")), turn(tool_call("note")), turn(text("Done.")), tools=[note])
    async with Store(url) as store:
        store.runs.add("helper", lambda thread_id: store.threads.open(thread_id, agent))
        started = await store.runs.start("helper", "Hi", thread_id="t")
        async for _ in store.runs.follow(started.run_id):
            """Until it has ended."""
    (first, stored_first), (second, stored_second) = found
    assert 0 < first <= stored_first
    assert first < second <= stored_second


async def test_events_that_come_while_a_thread_carries_some_wait_until_it_has_committed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, pause, sleep, stored = f"sqlite:///{tmp_path / 'runs.db'}", 0.0512, asyncio.sleep, list[list[int]]()
    waits, held, decided, wake = threading.Event(), threading.Event(), threading.Event(), asyncio.Event()
    monkeypatch.setattr(attempts, "_SECONDS", pause)

    async def sleep_until_held(seconds: float, *args: Any) -> None:
        """Have events wait for others until a write to the thread is held, and then look at them once more."""
        if seconds != pause:
            await sleep(seconds, *args)
            return
        if held.is_set():
            decided.set()
        waits.set()
        await wake.wait()
        await sleep(0)

    def note_stored() -> None:
        stored.append(read(url, "select position + event_count from agui_run_events"))

    @tool
    def note() -> str:
        """Note which events are stored."""
        note_stored()
        return "noted"

    agent = ScriptedAgent(turn(tool_call("note")), turn(text("Done.")), tools=[note])
    async with Store(url) as store:
        sql: Any = store.threads._store
        append, carrying, loop = sql.append, count(1), asyncio.get_running_loop()

        async def hold(*args: Any, **options: Any) -> bool:
            """Hold the second write that carries something: the first is made before the run has events."""
            if options.get("beside") and next(carrying) == 2:
                assert await asyncio.to_thread(waits.wait, 30)
                held.set()
                loop.call_soon_threadsafe(wake.set)
                await asyncio.to_thread(decided.wait, 5)
                await asyncio.to_thread(note_stored)
            written: bool = await append(*args, **options)
            return written

        monkeypatch.setattr(asyncio, "sleep", sleep_until_held)
        monkeypatch.setattr(sql, "append", hold)
        store.runs.add("helper", lambda thread_id: store.threads.open(thread_id, agent))
        started = await store.runs.start("helper", "Hi", thread_id="t")
        seen = [each.event.type.value async for each in store.runs.follow(started.run_id)]
    assert (seen[0], seen[-1], seen.count("TOOL_CALL_START")) == ("RUN_STARTED", "RUN_FINISHED", 1)
    assert stored == [[], [seen.index("TOOL_CALL_END") + 1]]


async def test_a_run_that_another_process_took_over_a_moment_ago_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with with_agent(url) as store:
        await store.runs.start("helper", "Hi")
    database = Database(url)
    runs = Runs(database)
    await runs.open()
    [row_id] = read(url, "select row_id from agui_runs")
    for has_now, taken in ((("other", 3), False), (("dead", 4), False), (("dead", 3), True)):
        change(url, f"update agui_runs set status = 'running', process_id = '{has_now[0]}', attempt = {has_now[1]}")
        # What was read: PostgreSQL shows it to two processes at once.
        seen = sa.select(*map(sa.literal, (row_id, "dead", 3, 0)))
        monkeypatch.setattr(runs, "_select_running", seen)
        assert [each.row_id for each in await runs.take_over(["helper"], ())] == [row_id] * taken
    database.close()


@tool
def look() -> str:
    """Look around."""
    return "seen"


_COSTS: dict[tuple[str, str], dict[str, int]] = {
    ("text", "sqlite"): {"statements": 10, "transactions": 4},
    ("tool", "sqlite"): {"statements": 16, "transactions": 6},
    ("text", "postgresql"): {"statements": 10, "round trips": 14, "transactions": 2},
    ("tool", "postgresql"): {"statements": 14, "round trips": 20, "transactions": 3},
}
_ROUND_TRIPS_BEFORE_TEXT = 8


def test_the_page_of_the_database_has_the_costs_of_a_turn() -> None:
    page = (ROOT / "docs" / "operate.md").read_text("utf-8")
    for kind in ("text", "tool"):
        assert "| " + " | ".join([kind, *map(str, _COSTS[kind, "postgresql"].values())]) + " |" in page
    assert f"at most {_ROUND_TRIPS_BEFORE_TEXT} round trips before its first text" in page


@pytest.mark.parametrize("kind", ["text", "tool"])
async def test_a_turn_of_a_run_in_a_stored_thread_takes_few_statements_and_transactions(
    kind: str, database_url: str
) -> None:
    store, costs, most = Store(database_url), list[dict[str, int]](), _COSTS[kind, database_url.partition(":")[0]]
    said = [turn(text("Hello."))] if kind == "text" else [turn(tool_call("look", {})), turn(text("Done."))]
    app = agent_app(ScriptedAgent(*said * 10, tools=[look]), store=store, owner_of=lambda _: "")
    page = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(30):
        async with store:
            for _ in range(10):
                with counted() as found:
                    await page.run_agent("Hi")
                costs.append(dict(found))
    # The least of several: the process looks for runs to take over meanwhile, and renews its lease.
    least = {name: min(each[name] for each in costs[1:]) for name in most}
    assert all(least[name] <= most[name] for name in most), least


async def test_few_round_trips_come_before_the_first_text_of_a_turn(database_url: str) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite is in the process: there are no round trips to it")
    store, costs, gates = Store(database_url), list[int](), [Gate() for _ in range(8)]
    # The agent says more when its first words are there: they came with a write of their own.
    app = agent_app(
        ScriptedAgent(*[turn(text("Hello."), each, text("Bye.")) for each in gates]),
        store=store,
        owner_of=lambda _: "",
    )
    page = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(30):
        async with store:
            for number, gate in enumerate(gates):
                with counted() as found:
                    async with page.stream("Hi") as run:
                        async for each in run:
                            if isinstance(each, TextMessageContentEvent) and len(costs) == number:
                                costs.append(found["round trips"])
                                gate.open()
    assert min(costs[1:]) <= _ROUND_TRIPS_BEFORE_TEXT, costs


def stored_bytes(url: str) -> int:
    """The bytes of all values in the tables of runs and threads."""
    engine, total = sa.create_engine(url_of(url)), 0
    with engine.connect() as database:
        inspector = sa.inspect(database)
        for table in inspector.get_table_names():
            for column in (each["name"] for each in inspector.get_columns(table)):
                size = "cast({} as blob)" if url.startswith("sqlite") else "cast(cast({} as text) as bytea)"
                value = sa.text(f"select sum(length({size.format(column)})) from {table}")
                total += database.execute(value).scalar_one() or 0
    engine.dispose()
    return total


async def test_what_is_kept_of_a_stored_thread_and_its_runs_grows_as_the_conversation_does(database_url: str) -> None:
    turns, words = 12, " ".join(f"word {each}" for each in range(120))
    agent = ScriptedAgent(*[turn(text(words, chunk=4)) for _ in range(turns)])
    store = Store(database_url)
    app = agent_app(agent, store=store, owner_of=lambda _: "")
    page = HttpAgent("http://app/", app=app, thread_id="t")
    with anyio.fail_after(30):
        async with store:
            for number in range(turns):
                await page.run_agent(f"{number}: {words}")
    # Once among the entries of the thread, and the answers once more in frames.
    assert stored_bytes(database_url) < 4 * 2 * turns * len(words)
