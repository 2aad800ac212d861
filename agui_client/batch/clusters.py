"""The clusters that rows are sent to: Dask's and Ray's. Both begin the rows of a lost worker again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

import anyio

from agui_client._concurrency import LoopThread
from agui_client.batch.workers import (
    LOST,
    MOST_STARTS,
    Carried,
    ClusterError,
    RayRunner,
    WorkerLostError,
    run_dask_task,
    stop_rows,
)

if TYPE_CHECKING:
    from typing import Self

    from agui_client.messages import Prompt

T = TypeVar("T")

_CLOSING_SECONDS = 4.0


class Cluster(Protocol):
    """Workers that rows are sent to, inside of its block."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def send(self, carried: Carried, prompt: Prompt) -> bytes:
        """Have a row run.

        Raises:
            WorkerLostError: Two workers were lost while they ran it.
            ClusterError: The cluster cannot be reached.
        """
        ...


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

    async def send(self, carried: Carried, prompt: Prompt) -> bytes:
        """Submit a task, and wait for its value."""
        return await self._call(partial(self._submit, carried, prompt))

    async def _call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call a function in the client's event loop."""
        if self._client.status != "running":
            raise ClusterError(f"the client of the cluster is {self._client.status}")
        try:
            return await _value(asyncio.run_coroutine_threadsafe(function(), self._client.loop.asyncio_loop))
        except Exception as error:
            raise _broken(error) from error

    async def _submit(self, carried: Carried, prompt: Prompt) -> bytes:
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


class RayCluster:
    """Sends rows to actors of Ray, one for each of its processors, which it starts again if they are lost.

    Args:
        ray: The module.
        at_once: The number of rows that run at once.
    """

    def __init__(self, ray: Any, at_once: int) -> None:
        self._ray, self._at_once = ray, at_once
        self._actors: list[Any] = []
        self._running: Counter[int] = Counter()

    async def __aenter__(self) -> Self:
        count = min(self._at_once, max(1, int(self._ray.cluster_resources().get("CPU", 1))))
        # A row waits for its agent most of the time, so that it takes no processor from others.
        options = {"num_cpus": 0, "max_concurrency": self._at_once, "scheduling_strategy": "SPREAD"}
        runner = self._ray.remote(max_restarts=-1, max_task_retries=MOST_STARTS - 1, **options)(RayRunner)
        self._actors = [runner.remote() for _ in range(count)]
        return self

    async def __aexit__(self, *error: object) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    async def send(self, carried: Carried, prompt: Prompt) -> bytes:
        """Call the actor with the fewest rows."""
        number = min(range(len(self._actors)), key=self._running.__getitem__)
        self._running[number] += 1
        try:
            return await _value(self._actors[number].run.remote(carried, prompt).future())
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLostError(LOST) from error
        except Exception as error:
            raise _broken(error) from error
        finally:
            self._running[number] -= 1


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


def _broken(error: Exception) -> ClusterError:
    return ClusterError(f"the cluster did not run a row: {type(error).__name__}: {error}")
