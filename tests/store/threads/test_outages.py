"""Databases that are away, locked or shared with the application: clear errors, and the program goes on afterwards."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")
import anyio.lowlevel
import anyio.to_thread
import psycopg
from psycopg import errors as postgres
from sqlalchemy import create_engine, event, exc

from agui_client import ThreadStoreUnavailableError, UsageError
from agui_client._core.run.continuing import Carried
from agui_client.asgi import agent_app
from agui_client.store import MemoryStore, RunsUnavailableError, Store, ThreadInfo, Threads
from agui_client.store._sql import threads as sql_threads
from agui_client.store._sql.errors import translated
from agui_client.store._sql.faults import Fault, fault_of
from agui_client.testing import ScriptedAgent, text, turn
from support.postgres import PostgresServer
from support.stores import sql_store
from support.waiting import LIMIT

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _of_sqlite(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("said")
    error.sqlite_errorcode = code
    return error


_FAULTS: dict[Fault, list[Exception]] = {
    Fault.LOCKED: [*map(_of_sqlite, (sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_LOCKED))],
    Fault.AWAY: [
        *map(_of_sqlite, (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_READ)),
        *map(_of_sqlite, (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL)),
        *(postgres.ReadOnlySqlTransaction(), postgres.TooManyConnections(), postgres.InvalidPassword()),
        *(postgres.ConnectionFailure(), postgres.DiskFull(), postgres.AdminShutdown(), postgres.IoError()),
        *(psycopg.OperationalError(), psycopg.InterfaceError()),
    ],
    Fault.CONFLICT: [postgres.SerializationFailure(), postgres.DeadlockDetected(), postgres.LockNotAvailable()],
    Fault.REFUSED: [
        *(sqlite3.IntegrityError(), sqlite3.DataError()),
        *(postgres.UntranslatableCharacter(), postgres.UniqueViolation(), postgres.ProgramLimitExceeded()),
    ],
    Fault.FAILED: [*map(_of_sqlite, (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT)), postgres.UndefinedColumn()],
}


def _found(reason: Exception) -> Fault | None:
    """The fault of an exception of a driver as SQLAlchemy wraps it."""
    drivers = psycopg.Error if isinstance(reason, psycopg.Error) else sqlite3.Error
    wrapped: Any = exc.DBAPIError.instance("select", {}, reason, drivers)
    return fault_of(wrapped)


def test_an_exception_of_a_database_says_whether_to_wait_for_it() -> None:
    found = {fault: [_found(each) for each in reasons] for fault, reasons in _FAULTS.items()}
    assert found == {fault: [fault] * len(reasons) for fault, reasons in _FAULTS.items()}
    cut = exc.DBAPIError("select", {}, postgres.UndefinedColumn(), connection_invalidated=True)
    as_they_are = [postgres.ConnectionTimeout(), exc.TimeoutError(), OSError(), cut]
    assert [fault_of(each) for each in as_they_are] == [Fault.AWAY] * len(as_they_are)
    assert fault_of(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half a character")) is Fault.REFUSED
    assert fault_of(ValueError("of the application")) is None


def test_the_error_of_a_caller_says_what_the_database_said_and_never_what_it_refused() -> None:
    said, missing = exc.OperationalError, sqlite3.OperationalError("no such column: title")
    given = {
        "failed: OperationalError: no such column: title": said("select secret", {}, missing),
        "cannot be reached now: OSError: no route": OSError("no route"),
        "refuses what was to be stored: SQLSTATE 23505": exc.IntegrityError("secret", {}, postgres.UniqueViolation()),
        "refuses what was to be stored: DataError": exc.DataError("secret", {}, sqlite3.DataError("secret")),
        "refuses what was to be stored: half a character in a text": UnicodeEncodeError("utf-8", "\ud800", 0, 1, "s"),
    }
    found = {sentence: translated(error) for sentence, error in given.items()}
    assert [str(each) for each in found.values()] == [f"the database of the threads {each}" for each in found]
    assert [each.__cause__ is not None for each in found.values()] == [True, True, False, False, False]


def hello() -> ScriptedAgent:
    return ScriptedAgent(turn(text("Hello.")))


async def _say_hello(threads: Threads, thread_id: str) -> None:
    async with threads.open(thread_id, hello()) as agent:
        await agent.run_agent("Hi")


async def _status(threads: Threads, thread_id: str) -> tuple[int, str | None]:
    """The status and the Retry-After of a served request for a thread."""
    app = agent_app(lambda request, input: threads.open(input.thread_id, hello()))
    body: dict[str, Any] = {"threadId": thread_id, "runId": "r", "messages": [], "tools": [], "context": []}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        answer = await client.post("/", json={**body, "state": {}, "forwardedProps": {}})
    return answer.status_code, answer.headers.get("retry-after")


@pytest.mark.parametrize("patience", [0, 0.3])
async def test_an_outage_is_an_error_of_its_own_when_the_patience_is_over(
    postgresql: PostgresServer, patience: float
) -> None:
    url = f"postgresql://{postgresql.new_database()}"
    async with Store(url, patience=patience) as store:
        threads = store.threads
        async with threads.open("open", hello()) as agent:
            await agent.run_agent("Before")
            postgresql.stop()
            try:
                for use in (threads.list(), threads.get("t"), threads.fork("t"), threads.delete("t")):
                    with pytest.raises(ThreadStoreUnavailableError, match="cannot be reached now"):
                        await use
                with pytest.raises(ThreadStoreUnavailableError):
                    await agent.run_agent("Meanwhile")
                assert await _status(threads, "served") == (503, "5")
                assert not await store.ready()
                with anyio.fail_after(LIMIT), pytest.raises(RunsUnavailableError):
                    await store.runs.list()
            finally:
                postgresql.start()
            await agent.run_agent("After")
            assert await _status(threads, "served") == (200, None)
            assert await store.ready()
        assert await prompts(threads, "open") == ["Before", "After"]


async def test_an_outage_is_waited_for(postgresql: PostgresServer) -> None:
    async with Store(f"postgresql://{postgresql.new_database()}") as store:
        threads = store.threads
        async with threads.open("open", hello()) as agent:
            await agent.run_agent("Before")
            postgresql.stop()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run_agent, "Meanwhile")
                tasks.start_soon(_say_hello, threads, "other")
                try:
                    await anyio.sleep(0.5)  # longer than a pause between two attempts
                    assert agent.messages[-1].content != "Hello."
                finally:
                    postgresql.start()
        assert await prompts(threads, "open") == ["Before", "Meanwhile"]
        assert await prompts(threads, "other") == ["Hi"]


async def prompts(threads: Threads, thread_id: str) -> list[object]:
    found = await threads.get(thread_id)
    assert found is not None
    return [each.content for each in found.conversation.messages if each.role == "user"]


class _AnswerLostStore(MemoryStore):
    """Writes, and loses its connection before it has said so, when it is told to."""

    is_answer_lost = False

    async def append(self, *args: Any, **options: Any) -> bool:
        is_written = await super().append(*args, **options)
        if self.is_answer_lost:
            self.is_answer_lost = False
            raise ThreadStoreUnavailableError("the connection broke")
        return is_written


async def test_an_entry_whose_answer_was_lost_is_not_written_twice() -> None:
    store = _AnswerLostStore()
    threads = Store(store).threads
    async with threads.open("t", hello()) as agent:
        store.is_answer_lost = True
        with pytest.raises(ThreadStoreUnavailableError):
            await agent.run_agent("Meanwhile")
        await agent.run_agent("After")
    async with threads.open("t", hello()) as agent:
        assert [each.content for each in agent.messages] == ["After", "Hello."]


def _carried(database: object, happened: list[str]) -> Carried:
    """Return an operation that says what becomes of it."""

    def carry_out(connection: object) -> None:
        happened.append("carried out")

    return Carried(database, carry_out, lambda: happened.append("done"), lambda: happened.append("undone"))


async def test_what_goes_with_a_write_that_never_arrived_goes_with_the_write_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = list[str]()
    with Store(f"sqlite:///{tmp_path}/threads.db") as store:
        sql: Any = store.threads._store
        operation = _carried(sql._database, happened)

        async def break_off(*args: Any, **options: Any) -> bool:
            monkeypatch.undo()
            assert happened == []
            raise ThreadStoreUnavailableError("the connection broke")

        async with store.threads.open("t", hello()) as agent:
            monkeypatch.setattr(sql, "append", break_off)
            assert agent._log is not None
            assert agent._log.carry(operation)
            with pytest.raises(ThreadStoreUnavailableError):
                await agent.run_agent("Meanwhile")
        assert happened == ["carried out", "done"]


async def test_what_goes_with_a_write_that_a_thread_refuses_is_not_carried_out(tmp_path: Path) -> None:
    happened, now = list[str](), datetime.now(UTC)
    store = sql_store(f"sqlite:///{tmp_path}/threads.db")
    taken = await store.lease_and_read("", "t", inf)
    assert taken is not None
    operation = _carried(store._database, happened)
    for lease, count, is_written in ((taken.number - 1, 0, False), (taken.number, 1, False), (taken.number, 0, True)):
        info = ThreadInfo("t", "A title", now, now, 0)
        assert await store.append("", info, "{}", lease, count, beside=[operation]) is is_written
        assert happened == ["carried out"] * is_written
    await store.aclose()


async def test_a_lease_whose_answer_was_lost_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_threads, "_BETWEEN_RELEASES", 0.01)
    store = sql_store(f"sqlite:///{tmp_path}/threads.db")
    take = store._take

    async def lose_answer(*about: Any) -> None:
        await take(*about)
        raise ThreadStoreUnavailableError("the connection broke")

    monkeypatch.setattr(store, "_take", lose_answer)
    with pytest.raises(ThreadStoreUnavailableError):
        await store.lease_and_read("", "t", inf)
    monkeypatch.setattr(store, "_take", take)
    with anyio.fail_after(LIMIT):
        while await store.lease_and_read("", "t", inf) is None:  # noqa: ASYNC110 - the release has no event
            await asyncio.sleep(0.01)
    await store.aclose()


class _LateStore(MemoryStore):
    """Loses its connection with a write in it, when it is told to; the write arrives when the next one does."""

    is_late = False
    _late: tuple[Any, Any] | None = None

    async def append(self, *args: Any, **options: Any) -> bool:
        late, self._late = self._late, None
        if self.is_late:
            self.is_late, self._late = False, (args, options)
            raise ThreadStoreUnavailableError("the connection broke")
        if late is not None:
            assert await super().append(*late[0], **late[1])
        return await super().append(*args, **options)


async def test_a_write_that_arrives_late_does_not_come_between_others() -> None:
    store = _LateStore()
    threads = Store(store).threads
    async with threads.open("t", hello()) as agent:
        await agent.run_agent("Before")
        store.is_late = True
        with pytest.raises(ThreadStoreUnavailableError):
            await agent.run_agent("Meanwhile")
        await agent.run_agent("After")
    async with threads.open("t", hello()) as agent:
        assert [each.content for each in agent.messages] == ["Before", "Hello.", "After", "Hello."]


class _SlowRenewals(MemoryStore):
    """Renews a lease a while after it was asked to, whatever becomes of the caller."""

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        if number is None or not seconds:
            return await super().lease(owner, thread_id, seconds, number)

        async def renewed() -> int | None:
            await asyncio.sleep(0.05)
            return await MemoryStore.lease(self, owner, thread_id, seconds, number)

        self.renewal = asyncio.create_task(renewed())
        self.has_begun.set()
        return await asyncio.shield(self.renewal)

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()


async def test_a_lease_is_not_renewed_after_it_was_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agui_client.store._threads.opened._RENEWALS", 1000)
    store = _SlowRenewals()
    async with Store(store, lease=60) as whole:
        threads = whole.threads
        async with threads.open("t", hello()) as agent:
            await agent.run_agent("Hi")
            store.has_begun.clear()
            assert await anyio.to_thread.run_sync(store.has_begun.wait, LIMIT)
        await threads._loop.call(lambda: asyncio.wait([store.renewal]))
        async with threads.open("t", hello(), wait=0) as agent:
            assert len(agent.messages) == 2


async def test_connections_that_the_database_closed_are_replaced_unnoticed(postgresql: PostgresServer) -> None:
    async with Store(f"postgresql://{postgresql.address}") as store:
        threads = store.threads
        await _say_hello(threads, "killed")
        with psycopg.connect(f"postgresql://{postgresql.address}") as other:
            every = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            other.execute(f"{every} and backend_type = 'client backend'")
        await _say_hello(threads, "killed")


async def test_an_engine_of_the_application_lends_its_options_and_none_of_its_connections(
    postgresql: PostgresServer,
) -> None:
    engine = create_engine(
        f"postgresql+psycopg://nobody@{postgresql.address.partition('@')[2]}", pool_size=1, max_overflow=0
    )
    made = list[str]()

    @event.listens_for(engine, "do_connect")
    def as_agui(dialect: object, record: object, args: object, options: dict[str, str]) -> None:
        options["user"] = "agui"
        made.append(options["user"])

    async with Store(engine) as store:
        threads = store.threads
        await _say_hello(threads, "shared")
        with engine.connect():
            await _say_hello(threads, "shared")
            assert await threads.get("shared") is not None
    assert made == ["agui"] * 3
    engine.dispose()


async def test_a_locked_database_is_waited_for_as_long_as_the_caller_says(tmp_path: Path) -> None:
    said = "OperationalError: database is locked"
    what = f"the database of the threads stays locked by another program ({said})"
    locked = f"{what}; end its transaction, or wait longer with wait="
    async with Store(f"sqlite:///{tmp_path}/threads.db") as store:
        threads = store.threads
        await _say_hello(threads, "t")
        with closing(sqlite3.connect(tmp_path / "threads.db", isolation_level=None)) as other:
            other.execute("begin immediate")
            for use in (
                lambda: threads.open("t", hello(), wait=0.1).__aenter__(),
                lambda: threads.rewind("t", "m", wait=0.1),
                lambda: threads.delete("t", wait=0.1),
            ):
                begun = time.monotonic()
                with pytest.raises(ThreadStoreUnavailableError, match=f"^{re.escape(locked)}$") as raised:
                    await use()
                assert (raised.value.is_locked, time.monotonic() - begun < LIMIT) == (True, True)
            assert await threads.get("t") is not None  # a reader need not wait
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_say_hello, threads, "t")
                await anyio.lowlevel.checkpoint()
                other.execute("commit")
        found = await threads.get("t")
        assert found is not None
        assert found.info.message_count == 4


async def test_of_an_engine_for_sqlite_the_url_is_used(tmp_path: Path) -> None:
    async with Store(create_engine(f"sqlite:///{tmp_path}/threads.db")) as store:
        threads = store.threads
        await _say_hello(threads, "t")
    assert (tmp_path / "threads.db").exists()
    with pytest.raises(UsageError, match="Engine of SQLAlchemy with psycopg"):
        Store(object())  # type: ignore[arg-type]
