"""Many threads in PostgreSQL at once: their writes go there together, and none of them harms another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("psycopg", reason="needs the extra store: pip install 'agui-client[store]'")
from psycopg import AsyncConnection

from agui_client import ThreadStoreError
from agui_client.store import Store, ThreadInfo, Threads
from agui_client.store._sql.threads import SQLStore
from agui_client.testing import ScriptedAgent, text, turn
from support.postgres import PostgresServer
from support.statements import counted
from support.stores import sql_store
from support.waiting import LIMIT

pytestmark = pytest.mark.anyio
NAMES = [f"t{number}" for number in range(12)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(postgresql: PostgresServer) -> str:
    return f"postgresql://{postgresql.new_database()}"


async def _say_hello(threads: Threads, thread_id: str) -> None:
    async with threads.open(thread_id, ScriptedAgent(turn(text("Hello.")))) as agent:
        await agent.run_agent("Hi")


@asynccontextmanager
async def _leased(url: str) -> AsyncGenerator[tuple[SQLStore, dict[str, tuple[int, ThreadInfo]]]]:
    """A store with threads of two entries each, and their leases."""
    async with Store(url) as made:
        threads = made.threads
        await asyncio.gather(*(_say_hello(threads, name) for name in NAMES))
    store: SQLStore = sql_store(url)
    try:
        taken = {name: await store.lease_and_read("", name, 60) for name in NAMES}
        found = {name: (each.number, each.found[0]) for name, each in taken.items() if each and each.found}
        yield store, found
    finally:
        await store.aclose()


@asynccontextmanager
async def _executed(url: str, statement: str) -> AsyncGenerator[AsyncConnection]:
    """A statement of another program, whose transaction lasts as long as the block."""
    async with await AsyncConnection.connect(url) as database:
        await database.execute(statement.encode())
        yield database


async def test_threads_that_are_saved_at_once_are_saved_in_few_statements(url: str) -> None:
    async with _leased(url) as (store, found):
        with counted() as statements:
            writes = [store.append("", info, "more", number, 2) for number, info in found.values()]
            assert await asyncio.gather(*writes) == [True] * len(NAMES)
        assert statements["statements"] == 1
        with counted() as statements:
            renewals = [store.lease("", name, 60, number) for name, (number, _) in found.items()]
            assert await asyncio.gather(*renewals) == [number for number, _ in found.values()]
        assert statements["statements"] == 1


async def test_a_write_that_fails_undoes_itself_and_none_of_those_beside_it(url: str) -> None:
    async with _leased(url) as (store, found):
        # The next entry of this thread is there already.
        stray = "select owner, line, entry_count + 1, 1, 'stray', 'stray' from agui_threads where thread_id = 't7'"
        async with _executed(url, f"insert into agui_entries (owner, line, number, lease, write_id, body) {stray}"):
            pass
        writes = [store.append("", info, "more", number, 2) for number, info in found.values()]
        results = dict(zip(NAMES, await asyncio.gather(*writes, return_exceptions=True), strict=True))
        assert isinstance(results.pop("t7"), ThreadStoreError)
        assert set(results.values()) == {True}
        after = {name: await store.read("", name) for name in NAMES}
        assert [name for name, each in after.items() if each is None or list(each[1][2:]) != ["more"]] == ["t7"]


async def test_a_thread_that_another_transaction_writes_to_keeps_no_other_waiting(url: str) -> None:
    async with _leased(url) as (store, found), asyncio.timeout(LIMIT):
        async with _executed(url, "select * from agui_threads where thread_id = 't7' for update"):
            writes = {
                name: asyncio.create_task(store.append("", info, "more", number, 2))
                for name, (number, info) in found.items()
            }
            locked = writes.pop("t7")
            assert set(await asyncio.gather(*writes.values())) == {True}
            assert not locked.done()
        assert await locked


async def test_a_write_with_an_old_lease_changes_nothing_beside_others(url: str) -> None:
    async with _leased(url) as (store, found):
        number, info = found["t7"]
        await store.lease("", "t7", 0, number)
        taken = await store.lease("", "t7", 60)
        results = await asyncio.gather(*(store.append("", each, "more", lease, 2) for lease, each in found.values()))
        assert dict(zip(NAMES, results, strict=True)) == {name: name != "t7" for name in NAMES}
        assert taken is not None
        assert await store.append("", info, "mine", taken, 2)


async def test_two_writes_to_one_thread_come_in_their_order(url: str) -> None:
    async with _leased(url) as (store, found):
        number, info = found["t0"]
        writes = [store.append("", info, f"{count}", number, count) for count in range(2, 6)]
        assert await asyncio.gather(*writes) == [True] * 4
        read = await store.read("", "t0")
        assert read is not None
        assert list(read[1][2:]) == ["2", "3", "4", "5"]


async def _until_one_waits(database: AsyncConnection) -> None:
    """Wait until a transaction waits for a lock that another one has."""
    # The callers limit the time.
    waiting = "select pid from pg_locks where not granted"
    while not await (await database.execute(waiting)).fetchall():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@asynccontextmanager
async def _in_deadlock(url: str, first: str, second: str) -> AsyncGenerator[asyncio.Event]:
    """Another program, which locks one thing before the block, and a second one as soon as something waits for it.

    The database ends the transaction that has waited for longer, which is not this one.
    """
    is_undone = asyncio.Event()

    async def lock() -> None:
        await _until_one_waits(database)
        await database.execute(second.encode())
        is_undone.set()
        await database.rollback()

    async with asyncio.timeout(LIMIT), await AsyncConnection.connect(url) as database:
        await database.execute("set local deadlock_timeout = '1min'")
        await database.execute(first.encode())
        locking = asyncio.create_task(lock())
        yield is_undone
        await locking


async def test_writes_that_are_undone_in_a_deadlock_are_all_made_again(url: str) -> None:
    stray = "select owner, line, entry_count + 1, 1, 'stray', 'stray' from agui_threads where thread_id = 't7'"
    first = f"insert into agui_entries (owner, line, number, lease, write_id, body) {stray}"
    second = "select * from agui_threads where thread_id in ('t3', 't7') for update"
    async with _leased(url) as (store, found), _in_deadlock(url, first, second) as is_undone:
        writes = [store.append("", info, "more", number, 2) for number, info in found.values()]
        assert await asyncio.gather(*writes) == [True] * len(NAMES)
        assert is_undone.is_set()
        after = [await store.read("", name) for name in NAMES]
        assert [list(each[1][2:]) for each in after if each is not None] == [["more"]] * len(NAMES)


async def test_a_transaction_that_is_undone_in_a_deadlock_is_carried_out_again(url: str) -> None:
    first = "select * from agui_entries for update"
    second = "select * from agui_threads where thread_id = 't7' for update"
    async with _leased(url) as (store, found), _in_deadlock(url, first, second) as is_undone:
        assert await store.delete("", "t7", found["t7"][0])
        assert is_undone.is_set()
        assert await store.read("", "t7") is None


async def test_a_write_that_has_no_serial_order_is_made_again(url: str) -> None:
    serialized = f"alter database {url.rpartition('/')[2]} set default_transaction_isolation = 'serializable'"
    async with _executed(url, serialized):
        pass
    async with _leased(url) as (store, found), asyncio.timeout(LIMIT):
        number, info = found["t7"]
        async with _executed(url, "update agui_threads set updated_at = updated_at where thread_id = 't7'") as database:
            writing = asyncio.create_task(store.append("", info, "more", number, 2))
            await _until_one_waits(database)
        assert await writing
