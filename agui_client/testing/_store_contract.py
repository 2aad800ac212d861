"""The tests that every store of threads must pass, those of this package and those that others write.

    class TestMyStore(ThreadStoreContract):
        def new_store(self) -> ThreadStore:
            return MyStore(...)

pytest collects the tests of the subclass; they need no plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from ag_ui.core import TokenUsage

from agui_client.store._threads.leases import take
from agui_client.store._threads.thread_store import LeasedThread, ThreadInfo, ThreadStore

_START = datetime(2026, 1, 31, 12, 30, 15, 123456, UTC)
_LONG = 60.0
_SHORT = 0.1
_LIMIT = 30.0


class ThreadStoreContract:
    """The contract of `ThreadStore`, as tests: subclass it, and override `new_store`."""

    def new_store(self) -> ThreadStore:
        """Return a store; it need not be empty, because each test has owners of its own."""
        raise NotImplementedError("override new_store() with a function that makes your store")

    def test_a_lease_alone_makes_no_thread(self) -> None:
        """A thread is there when the first entry was appended."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            number = await store.lease(ann, "t", _LONG)
            assert number is not None
            assert (await store.read(ann, "t"), await store.list(ann, 10)) == (None, [])
            assert await store.lease(ann, "t", 0, number) in (number, None)
            assert not await store.append(ann, _info("unknown"), "{}", 1, 0)
            assert (await store.read(ann, "t"), await store.read(ann, "unknown")) == (None, None)

        self._run(_check)

    def test_entries_come_back_in_order_with_the_last_description(self) -> None:
        """Entries and descriptions survive as they were, whatever is in them."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            number = await _leased(store, ann, "þráður/'1'; --")
            entries = ['{"a": 1}', '{"b": "ü\\u0000\\n%s :x"}', "x" * 100_000]
            usage = [TokenUsage(provider="p", model="m", input_tokens=3)]
            info = ThreadInfo("þráður/'1'; --", "Title é 🦜", _START, _later(1), 7, usage)
            for count, entry in enumerate(entries):
                assert await store.append(ann, replace(info, message_count=100 + count), entry, number, count)
            assert await store.append(ann, info, "last", number, len(entries))
            entries.append("last")
            assert await store.read(ann, "þráður/'1'; --") == (info, entries)
            assert list(await store.list(ann, 10)) == [info]

        self._run(_check)

    def test_the_latest_entries_are_those_before_a_place_and_of_forks_also_the_shared_ones(self) -> None:
        """A reader of the end gets what it asks for, and the number of entries before that."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", *(f"{count}" for count in range(6)))
            await _forked(store, ann, "fork", "f", ("t", 4))
            await _saved(store, ann, "fork", "g")
            places = [("t", 2, None), ("t", 2, 3), ("t", 9, 1), ("t", 0, None), ("fork", 3, None), ("fork", 9, 3)]
            found = [await store.read_latest(ann, *each) for each in places]
            assert [each and (list(each.entries), each.before) for each in found] == [
                (["4", "5"], 4),
                (["1", "2"], 1),
                (["0"], 0),
                ([], 6),
                (["3", "f", "g"], 3),
                (["0", "1", "2"], 0),
            ]
            assert found[0] is not None
            assert found[0].info == next(each for each in await store.list(ann, 9) if each.thread_id == "t")
            assert [await store.read_latest(*each, 2) for each in ((bob, "t"), (ann, "unknown"))] == [None, None]

        self._run(_check)

    def test_lists_are_paged_from_the_newest(self) -> None:
        """No thread is missing or twice, also where several were saved at the same time."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            for count in range(9):
                await _saved(store, ann, f"t{count}", "{}", at=count // 2)
            pages = [list(await store.list(ann, 4))]
            while pages[-1]:
                pages.append(list(await store.list(ann, 4, pages[-1][-1])))
            assert [len(page) for page in pages] == [4, 4, 1, 0]
            found = [each for page in pages for each in page]
            assert len({each.thread_id for each in found}) == 9
            assert [each.updated_at for each in found] == sorted((each.updated_at for each in found), reverse=True)

        self._run(_check)

    def test_one_of_many_gets_the_lease(self) -> None:
        """A lease is free again when it was given back, and its numbers grow."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            asked = await asyncio.gather(*(store.lease(ann, "t", _LONG) for _ in range(8)))
            (number,) = [each for each in asked if each is not None]
            assert await store.lease(ann, "t", _LONG) is None
            assert await store.lease(ann, "t", _LONG, number) == number
            left = await store.lease_left(ann, "t")
            assert left is None or _LONG - _LIMIT < left <= _LONG
            await _append(store, ann, "t", number)
            assert await store.lease(ann, "t", 0, number) == number
            taken = await store.lease(ann, "t", _LONG)
            assert taken is not None
            assert taken > number

        self._run(_check)

    def test_a_lease_that_ran_out_can_be_taken_and_writes_nothing_any_more(self) -> None:
        """The number is what keeps two writers apart, not the time."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            lost = await _leased(store, ann, "t", _SHORT)
            await _append(store, ann, "t", lost)
            taken = await _leased(store, ann, "t")
            assert taken > lost
            assert not await store.append(ann, _info("t", 5), '"lost"', lost, 1)
            assert not await store.delete(ann, "t", lost)
            assert await store.lease(ann, "t", _LONG, lost) is None
            assert await store.lease(ann, "t", 0, lost) is None
            assert await store.lease(ann, "t", _LONG) is None
            await _append(store, ann, "t", taken, '"taken"')
            assert await _entries(store, ann, "t") == ["{}", '"taken"']

        self._run(_check)

    def test_an_entry_follows_the_number_of_entries_that_its_writer_knows(self) -> None:
        """A write that arrives late, or twice, changes nothing."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            number = await _leased(store, ann, "t")
            assert not await store.append(ann, _info("t"), "early", number, 1)
            assert await store.append(ann, _info("t"), "1", number, 0)
            assert not await store.append(ann, _info("t", 5), "late", number, 0)
            assert await store.append(ann, _info("t"), "2", number, 1)
            assert not await store.append_and_release(ann, _info("t", 5), "late", number, 1)
            found = await store.read(ann, "t")
            assert found is not None
            assert (found[0].updated_at, list(found[1])) == (_START, ["1", "2"])

        self._run(_check)

    def test_a_write_that_is_repeated_with_its_id_writes_once(self) -> None:
        """Its response may have been lost; a write of the same entry with another id is another one."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            number = await _leased(store, ann, "t")
            for _ in range(2):
                assert await store.append(ann, _info("t"), "1", number, 0, write_id="first")
            assert not await store.append(ann, _info("t"), "1", number, 0, write_id="other")
            fork = await _leased(store, ann, "fork")
            for _ in range(2):
                assert await store.append(ann, _info("fork"), "2", fork, 0, ("t", 1), write_id="fork")
            assert not await store.append(ann, _info("fork"), "2", fork, 0, ("t", 1), write_id="other")
            for _ in range(2):
                assert await store.append_and_release(ann, _info("t"), "2", number, 1, write_id="second")
            assert await _entries(store, ann, "t") == await _entries(store, ann, "fork") == ["1", "2"]

        self._run(_check)

    def test_threads_that_are_written_at_once_get_their_own_entries(self) -> None:
        """A store may write them together; what cannot be written harms no other thread."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            numbers = [await _leased(store, ann, f"t{each}") for each in range(20)]
            for count in range(2):
                writes = [
                    store.append(ann, _info(f"t{each}"), f"{each}/{count}", number + (each == 7), count)
                    for each, number in enumerate(numbers)
                ]
                assert await asyncio.gather(*writes) == [each != 7 for each in range(20)]
            renewed = await asyncio.gather(*(store.lease(ann, f"t{each}", _LONG, n) for each, n in enumerate(numbers)))
            assert renewed == numbers
            assert await store.read(ann, "t7") is None
            for each in (*range(7), *range(8, 20)):
                assert await _entries(store, ann, f"t{each}") == [f"{each}/0", f"{each}/1"]

        self._run(_check)

    def test_a_fork_shares_what_came_before_and_nothing_after(self) -> None:
        """Both threads continue by themselves, and so does a fork of a fork."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1", "2", "3")
            await _forked(store, ann, "f", "4", shared=("t", 2))
            await _forked(store, ann, "early", "5", shared=("f", 1))
            await _forked(store, ann, "late", "6", shared=("f", 3))
            await _saved(store, ann, "t", "7")
            await _saved(store, ann, "f", "8")
            found = {each: await _entries(store, ann, each) for each in ("t", "f", "early", "late")}
            assert found == {
                "t": ["1", "2", "3", "7"],
                "f": ["1", "2", "4", "8"],
                "early": ["1", "5"],
                "late": ["1", "2", "4", "6"],
            }
            for gone, left in (("f", ["early", "late", "t"]), ("t", ["early", "late"]), ("early", ["late"])):
                assert await store.delete(ann, gone, await _leased(store, ann, gone))
                assert {each: await _entries(store, ann, each) for each in left} == {each: found[each] for each in left}
            assert await store.read(ann, "f") is None

        self._run(_check)

    def test_what_cannot_be_forked_makes_no_thread(self) -> None:
        """A fork needs a thread of its owner with so many entries, and a new id."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1", "2")
            await _saved(store, ann, "there", "3")
            for owner, new_id, shared in (
                (ann, "f", ("t", 3)),
                (ann, "f", ("unknown", 1)),
                (ann, "there", ("t", 1)),
                (bob, "f", ("t", 1)),
            ):
                number = await _leased(store, owner, new_id)
                assert not await store.append(owner, _info(new_id), "4", number, 0, shared)
                await store.lease(owner, new_id, 0, number)
            assert [each.thread_id for each in await store.list(ann, 10)] == ["there", "t"]
            assert (list(await store.list(bob, 10)), await _entries(store, ann, "there")) == ([], ["3"])

        self._run(_check)

    def test_a_deleted_thread_is_gone_and_its_leases_with_it(self) -> None:
        """A thread that is made again under the same id is another one."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1")
            number = await _leased(store, ann, "t")
            assert await store.delete(ann, "t", number)
            assert (await store.read(ann, "t"), list(await store.list(ann, 10))) == (None, [])
            again = await _leased(store, ann, "t")
            assert again > number
            assert not await store.append(ann, _info("t"), "2", number, 0)
            await _append(store, ann, "t", again, "3")
            assert await _entries(store, ann, "t") == ["3"]

        self._run(_check)

    def test_all_threads_of_an_owner_are_deleted_with_their_forks(self) -> None:
        """Nothing of the owner is left, and other owners have theirs."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1", "2")
            await _forked(store, ann, "fork", "3", ("t", 1))
            await _saved(store, bob, "t", "4")
            assert (await store.delete_all(ann), await store.delete_all(ann)) == (2, 0)
            assert (await store.read(ann, "t"), await store.read(ann, "fork")) == (None, None)
            assert list(await store.list(ann, 10)) == []
            assert await _entries(store, bob, "t") == ["4"]
            await _saved(store, ann, "t", "5")
            assert await _entries(store, ann, "t") == ["5"]

        self._run(_check)

    def test_an_owner_has_nothing_to_do_with_the_threads_of_another(self) -> None:
        """Two owners may have threads of one id, and neither sees, writes or blocks the other's."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1")
            number = await _leased(store, ann, "t")
            assert (await store.read(bob, "t"), list(await store.list(bob, 10))) == (None, [])
            assert not await store.append(bob, _info("t"), "2", number, 0)
            assert not await store.delete(bob, "t", number)
            assert await store.lease(bob, "t", 0, number) is None
            await _saved(store, bob, "t", "3")
            assert await store.delete(bob, "t", await _leased(store, bob, "t"))
            assert await _entries(store, ann, "t") == ["1"]
            assert await store.lease(ann, "t", _LONG, number) == number

        self._run(_check)

    def test_what_is_read_on_from_an_end_is_what_was_written_behind_it(self) -> None:
        """A store that names the last entry returns those behind it next time, or all of the thread as it is then."""

        async def _check(store: ThreadStore, ann: str, bob: str) -> None:
            await _saved(store, ann, "t", "1", "2")
            if (end := (await _read_on(store, ann, None)).end) is None:
                return
            assert await _rest(store, ann, end) == []
            await _saved(store, ann, "t", "3")
            assert await _rest(store, ann, end) == ["3"]
            assert await store.delete(ann, "t", await _leased(store, ann, "t"))
            await _saved(store, ann, "t", "4", "5", "6")
            assert await _rest(store, ann, end) is None
            assert (await _read_on(store, ann, end)).found == await store.read(ann, "t")

        self._run(_check)

    def _run(self, check: Callable[[ThreadStore, str, str], Awaitable[None]]) -> None:
        """Carry out a test with two owners that nobody had before."""

        async def main() -> None:
            """Make the store in the loop that it is used in."""
            async with aclosing(self.new_store()) as store, asyncio.timeout(_LIMIT):
                await check(store, f"Ann {uuid4()}", f"bob {uuid4()}")

        asyncio.run(main())


def _later(seconds: int) -> datetime:
    return _START + timedelta(seconds=seconds)


def _info(thread_id: str, at: int = 0) -> ThreadInfo:
    return ThreadInfo(thread_id, "", _START, _later(at), 0)


async def _entries(store: ThreadStore, owner: str, thread_id: str) -> list[str]:
    found = await store.read(owner, thread_id)
    assert found is not None
    return list(found[1])


async def _leased(store: ThreadStore, owner: str, thread_id: str, seconds: float = _LONG) -> int:
    """Take a lease, as soon as it is free."""
    return await take(store.lease, store, owner, thread_id, seconds, _LIMIT)


async def _read_on(store: ThreadStore, owner: str, end: object) -> LeasedThread:
    """Read the thread from an entry on, and give its lease back."""
    taken = await store.lease_and_read(owner, "t", _LONG, *([] if end is None else [end]))
    assert taken is not None
    await store.lease(owner, "t", 0, taken.number)
    return taken


async def _rest(store: ThreadStore, owner: str, end: object) -> list[str] | None:
    """Return the entries behind one; None if the store returns all entries."""
    taken = await _read_on(store, owner, end)
    assert taken.found is not None
    return list(taken.found[1]) if taken.is_rest else None


async def _append(store: ThreadStore, owner: str, thread_id: str, number: int, entry: str = "{}") -> None:
    found = await store.read(owner, thread_id)
    assert await store.append(owner, _info(thread_id), entry, number, 0 if found is None else len(found[1]))


async def _saved(store: ThreadStore, owner: str, thread_id: str, *entries: str, at: int = 0) -> None:
    """Append entries with a lease of their own."""
    number = await _leased(store, owner, thread_id)
    found = await store.read(owner, thread_id)
    for count, entry in enumerate(entries, 0 if found is None else len(found[1])):
        assert await store.append(owner, _info(thread_id, at), entry, number, count)
    await store.lease(owner, thread_id, 0, number)


async def _forked(store: ThreadStore, owner: str, thread_id: str, entry: str, shared: tuple[str, int]) -> None:
    number = await _leased(store, owner, thread_id)
    assert await store.append(owner, _info(thread_id), entry, number, 0, shared)
    await store.lease(owner, thread_id, 0, number)
