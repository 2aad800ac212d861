"""Stored threads as they are when the program that has them is killed."""

from __future__ import annotations

from agui_client.store import MemoryStore, Store, Threads


async def left_by_a_killed_program(threads: Threads, thread_id: str = "t") -> Threads:
    """The thread as another program finds it if this one is killed now: in a place of its own."""

    async def copied() -> MemoryStore:
        found, copy = await threads._store.read("", thread_id), MemoryStore()
        assert found is not None
        info, entries = found
        number = await copy.lease("", thread_id, 60)
        assert number is not None
        for count, entry in enumerate(entries):
            await copy.append("", info, entry, number, count)
        await copy.lease("", thread_id, 0, number)
        return copy

    return Store(await threads._loop.call(copied)).threads
