"""Rows of a database that are damaged: each harms its own thread only, and that one can be listed and deleted."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra store: pip install 'agui-client[store]'")

from agui_client import ThreadStoreError
from agui_client.store import Store, ThreadInfo, Threads
from agui_client.testing import ScriptedAgent, text, turn
from support.stores import sql_store
from support.waiting import LIMIT

pytestmark = pytest.mark.anyio

HELLO = ScriptedAgent(turn(text("Hello.")))
_LINE = "(select line from agui_threads where thread_id = 'bad')"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


async def _make(threads: Threads, *thread_ids: str) -> None:
    for thread_id in thread_ids:
        async with threads.open(thread_id, HELLO) as agent:
            await agent.run_agent(f"Hi, {thread_id}")


def _change(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0
        database.commit()


def _titles(infos: Any) -> dict[str, str]:
    return {each.thread_id: each.title for each in infos}


_DESCRIPTIONS = {
    "usage that is no JSON": ("usage = '[{'", "usage"),
    "usage of another shape": ("usage = '{\"a\": 1}'", "usage"),
    "a date that is text": ("updated_at = 'yesterday'", "updated_at"),
    "a date after all dates": ("updated_at = 9000000000000000000", "updated_at"),
    "a date before all dates": ("updated_at = -9000000000000000000", "updated_at"),
    "another date": ("created_at = x'00'", "created_at"),
    "a title that is no text": ("title = x'ff00'", "title"),
    "a title of broken characters": ("title = cast(x'ff' as text)", "title"),
    "a count that is text": ("message_count = 'many'", "message_count"),
    "a count below none": ("message_count = -1", "message_count"),
    "two faults": ("message_count = -1, title = x'ff00'", "title, message_count"),
}


@pytest.mark.parametrize("fault", _DESCRIPTIONS)
async def test_a_damaged_description_harms_its_own_thread_only(
    fault: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change, column = _DESCRIPTIONS[fault]
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "first", "bad", "last")
        assert await threads.fork("bad", new_id="fork") == "fork"
        _change(file, f"update agui_threads set {change} where thread_id = 'bad'")
        found = {each.thread_id: each for each in await threads.list()}
        assert set(found) == {"first", "bad", "last", "fork"}
        assert found["bad"].title == ("" if "title" in column else "Hi, bad")
        assert caplog.messages == [f"thread 'bad' is damaged in {column}, and listed without"]
        for use in (
            lambda: threads.get("bad"),
            lambda: threads.export("bad"),
            lambda: threads.fork("bad"),
            lambda: threads.rewind("bad", "m"),
            lambda: threads.open("bad", HELLO).__aenter__(),
        ):
            with pytest.raises(ThreadStoreError, match=rf"thread 'bad' cannot be read: it is damaged in {column}$"):
                await use()
        await _make(threads, "first", "fork")
        assert (await threads.delete("bad"), await threads.delete("bad")) == (True, False)
        assert set(_titles(await threads.list())) == {"first", "last", "fork"}


@pytest.mark.parametrize("date", ["'yesterday'", "x'00'", "-5", "0", "9000000000000000000"])
async def test_pages_of_a_list_have_every_thread_once_also_those_without_a_date(date: str, file: Path) -> None:
    names = [f"t{number}" for number in range(7)]
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, *names)
        _change(file, f"update agui_threads set updated_at = {date} where thread_id in ('t1', 't4', 't6')")
        for limit in (1, 2, 3, 7, 50):
            listed, after = list[ThreadInfo](), None
            while page := await threads.list(limit=limit, after=after):
                listed += page
                after = page[-1]
                assert len(listed) <= len(names)
            assert [each.thread_id for each in listed] == ["t5", "t3", "t2", "t0", "t6", "t4", "t1"]


_ENTRIES: dict[str, str] = {
    "an entry that is no JSON": "update agui_entries set body = 'x' where line = {line}",
    "an entry that is no text": "update agui_entries set body = x'ff' where line = {line}",
    "an entry of broken characters": "update agui_entries set body = cast(x'7bff7d' as text) where line = {line}",
    "an entry with members of another shape": (
        'update agui_entries set body = \'{{"version": 2, "number": 1, "values": {{"pending_interrupts": 5}}}}\''
        " where line = {line}"
    ),
    "an entry with unknown members": (
        'update agui_entries set body = \'{{"version": 2, "number": 1, "ids": {{"x": [0, []]}}}}\' where line = {line}'
    ),
    "an entry with a run of another shape": (
        'update agui_entries set body = \'{{"version": 2, "number": 1, "values": {{"run": 5}}}}\' where line = {line}'
    ),
    "an entry of another version": (
        'update agui_entries set body = \'{{"version": 1, "keep": 0, "messages": []}}\' where line = {line}'
    ),
    "a number of entries that is text": "update agui_threads set entry_count = 'many' where thread_id = 'bad'",
    "more entries than there are": "update agui_threads set entry_count = 99 where thread_id = 'bad'",
    "a line that does not exist": "update agui_threads set line = 'x' where thread_id = 'bad'",
    "a line that is its own parent": "update agui_lines set parent = line where line = {line}",
    "a line that shares text": "update agui_lines set shared_count = 'x', parent = line where line = {line}",
    "a line without a row": "delete from agui_lines where line = {line}",
}


@pytest.mark.parametrize("fault", _ENTRIES)
async def test_damaged_entries_and_lines_harm_their_own_thread_only(fault: str, file: Path) -> None:
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "first", "bad", "last")
        _change(file, _ENTRIES[fault].format(line=_LINE))
        with anyio.fail_after(LIMIT):
            assert set(_titles(await threads.list())) == {"first", "bad", "last"}
            uses: list[Callable[[], Awaitable[Any]]] = [
                lambda: threads.open("bad", HELLO).__aenter__(),
                lambda: threads.get("bad"),
                lambda: threads.fork("bad"),
                lambda: threads.export("bad"),
            ]
            why = "entry 1 has another version than 2, the only one" if "version" in fault else ""
            for use in uses:
                with pytest.raises(ThreadStoreError, match=f"thread 'bad' cannot be read: {why}"):
                    await use()
            await _make(threads, "first", "last")
            assert (await threads.delete("bad"), await threads.delete("bad")) == (True, False)
        for name in ("first", "last"):
            found = await threads.get(name)
            assert found is not None
            assert found.info.message_count == 4


async def test_lines_in_a_circle_are_an_error_for_those_whose_lines_they_are(file: Path) -> None:
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "a", "other")
        for fork, thread_id in (("b", "a"), ("c", "b")):
            await threads.fork(thread_id, new_id=fork)
            await _make(threads, fork)
        await threads.fork("a", new_id="before")
        lines = {name: f"(select line from agui_threads where thread_id = '{name}')" for name in "abc"}
        _change(file, f"update agui_lines set parent = {lines['c']} where line = {lines['b']}")
        with anyio.fail_after(LIMIT):
            for name in "bc":
                with pytest.raises(ThreadStoreError, match=f"thread '{name}' cannot be read: .* circle"):
                    await threads.get(name)
            await _make(threads, "a", "before", "other")
            for name in "bc":
                assert await threads.delete(name)
        assert set(_titles(await threads.list())) == {"a", "before", "other"}


async def test_forks_keep_what_they_share_with_a_thread_that_was_damaged_behind_it(file: Path) -> None:
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "bad")
        await threads.fork("bad", new_id="fork")
        await _make(threads, "bad")
        _change(file, f"update agui_entries set body = 'x' where line = {_LINE} and number > 3")
        with pytest.raises(ThreadStoreError, match="thread 'bad' cannot be read"):
            await threads.get("bad")
        assert await threads.delete("bad")
        await _make(threads, "fork")
        found = await threads.get("fork")
        assert found is not None
        assert found.info.message_count == 4


async def test_a_thread_that_has_the_line_of_another_is_deleted_without_it(file: Path) -> None:
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "first", "bad")
        _change(
            file,
            "update agui_threads set line = (select line from agui_threads where thread_id = 'first') "
            "where thread_id = 'bad'",
        )
        assert await threads.delete("bad")
        await _make(threads, "first")


async def test_a_lease_until_no_date_is_over(file: Path) -> None:
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, "bad", "other")
        for until in ("'never'", "9000000000000000000"):
            _change(file, f"update agui_threads set leased_until = {until} where thread_id = 'bad'")
            async with threads.open("bad", HELLO, wait=0) as agent:
                assert len(agent.messages) == 2


async def test_a_write_that_fails_undoes_itself_and_none_of_those_in_its_transaction(file: Path) -> None:
    names = ("good", "bad", "fine")
    async with Store(f"sqlite:///{file}") as store:
        threads = store.threads
        await _make(threads, *names)
    # The next entry of this thread is there already.
    stray = "select owner, line, entry_count + 1, 1, 'stray', 'stray' from agui_threads where thread_id = 'bad'"
    _change(file, f"insert into agui_entries (owner, line, number, lease, write_id, body) {stray}")
    threads_of_file = sql_store(f"sqlite:///{file}")
    taken = [await threads_of_file.lease_and_read("", name, 30) for name in names]
    found = [(each.number, each.found[0]) for each in taken if each is not None and each.found is not None]
    writes = [threads_of_file.append("", info, "more", number, 2) for number, info in found]
    good, bad, fine = await asyncio.gather(*writes, return_exceptions=True)
    assert (good, isinstance(bad, ThreadStoreError), fine) == (True, True, True)
    after = [await threads_of_file.read("", name) for name in names]
    assert [len(each[1]) for each in after if each is not None] == [3, 2, 3]
    await threads_of_file.aclose()
