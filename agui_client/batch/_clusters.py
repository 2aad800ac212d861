"""The clusters that rows are sent to: Dask's, which begins the rows of a lost worker again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import anyio

from agui_client._core.ground.concurrency import LoopThread
from agui_client.batch._workers import ClusterError, PickledAgent, run_dask_task, stop_rows

if TYPE_CHECKING:
    from typing import Self

    from agui_client._core.protocol.prompts import Prompt

T = TypeVar("T")

_CLOSING_SECONDS = 4.0


class DaskCluster:
    """Sends rows as tasks of Dask, which begins those of a lost worker again by itself.

    Args:
        client: A `distributed.Client`, whose event loop does the work.
        batch: The id of the batch.
    """

    def __init__(self, client: Any, batch: str) -> None:
        self._client, self._batch = client, batch
        self._tasks: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
            await self._call(self._stop)

    async def send(self, carried: PickledAgent, prompt: Prompt) -> bytes:
        """Submit a task, and wait for its value.

        Raises:
            ClusterError: The cluster cannot be reached.
        """
        return await self._call(partial(self._submit, carried, prompt))

    async def _call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call a function in the client's event loop."""
        if self._client.status != "running":
            raise ClusterError(f"the client of the cluster is {self._client.status}")
        try:
            return await _value(asyncio.run_coroutine_threadsafe(function(), self._client.loop.asyncio_loop))
        except Exception as error:
            raise ClusterError(f"the cluster did not run a row: {type(error).__name__}: {error}") from error

    async def _submit(self, carried: PickledAgent, prompt: Prompt) -> bytes:
        key = f"agui-row-{uuid4()}"
        self._tasks[key] = self._client.submit(run_dask_task, carried, prompt, key, key=key, pure=False)
        try:
            outcome: bytes = await self._tasks[key]
            return outcome
        finally:
            if self._tasks[key].done():  # or else it is running, and left to `_stop`
                del self._tasks[key]

    async def _stop(self) -> None:
        """Stop the rows that are running."""
        if left := list(self._tasks.values()):
            await self._client.cancel(left, force=True)
            await self._client.run(stop_rows, self._batch)


async def _value(future: Future[T]) -> T:
    """Wait for a future of another thread; if the wait is cancelled, so is the future."""
    loop, over = LoopThread(), anyio.Event()
    future.add_done_callback(lambda _: loop.call(over.set))
    try:
        await over.wait()
    except BaseException:
        future.cancel()
        raise
    return future.result()
