"""A server in this program whose process is killed: in the middle of an answer, or around a write to its database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio

from agui_client.errors import ThreadStoreError
from agui_client.store import MemoryStore, ThreadStore

if TYPE_CHECKING:
    from agui_client.store import ThreadInfo


class Process:
    """One process, in which nothing happens any more once it is killed."""

    def __init__(self) -> None:
        self.is_killed, self.killed = False, anyio.Event()
        self.steps = 0
        """The number of further steps until it is killed; 0 if it is not."""
        self._loop = asyncio.get_running_loop()

    async def work(self, pace: float = 0) -> None:
        """Take some time; for ever if the process is killed."""
        await anyio.sleep(pace)
        if not self.goes_on():
            await anyio.sleep_forever()

    def goes_on(self) -> bool:
        """Take one step, from any thread; return whether the process has not been killed."""
        self.steps -= 1
        if self.steps == 0:
            self.is_killed = True
            self._loop.call_soon_threadsafe(self.killed.set)
        return not self.is_killed


class KilledServer:
    """A server whose process may be killed in the middle of an answer, which breaks off there."""

    def __init__(self) -> None:
        self.app: Any = None
        self.process = Process()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        process = self.process

        async def sent(message: Any) -> None:
            if not process.goes_on():
                raise ConnectionResetError
            await send(message)

        async def answer() -> None:
            await self.app(scope, receive, sent)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await process.killed.wait()
            tasks.cancel_scope.cancel()
        if process.is_killed:
            raise ConnectionResetError


class Connection(ThreadStore):
    """The database of a server as one of its processes uses it, which is killed before it asks, or before it knows."""

    def __init__(self, store: MemoryStore, process: Process) -> None:
        self._store, self._process = store, process
        self._leased: dict[tuple[str, str], int] = {}

    async def lease(self, owner: str, thread_id: str, seconds: float, number: int | None = None) -> int | None:
        if self._process.is_killed:
            raise ThreadStoreError("killed")
        if (taken := await self._store.lease(owner, thread_id, seconds, number)) is not None:
            self._leased[owner, thread_id] = taken
        return taken

    async def read(self, owner: str, thread_id: str) -> tuple[ThreadInfo, Sequence[str]] | None:
        return await self._store.read(owner, thread_id)

    async def append(
        self,
        owner: str,
        info: ThreadInfo,
        entry: str,
        number: int,
        count: int,
        shared: tuple[str, int] | None = None,
        **about: Any,
    ) -> bool:
        if not self._process.goes_on():
            raise ThreadStoreError("killed")
        is_written = await self._store.append(owner, info, entry, number, count, shared, **about)
        if not self._process.goes_on():
            raise ThreadStoreError("killed")
        return is_written

    async def list(self, owner: str, limit: int, after: ThreadInfo | None = None) -> Sequence[ThreadInfo]:
        return await self._store.list(owner, limit, after)

    async def delete(self, owner: str, thread_id: str, number: int) -> bool:
        return await self._store.delete(owner, thread_id, number)

    async def run_out(self) -> None:
        """Give the leases back, as if their time was up."""
        for (owner, thread_id), number in self._leased.items():
            await self._store.lease(owner, thread_id, 0, number)
