"""The sync surface: the engine in the caller's thread, its asynchronous work in the event loop of a portal.

The thread boundary lies where events come from: a task in the loop reads the source ahead, a little, and the caller's
thread validates, verifies, reduces and iterates. Hooks, middleware, tools and closing run in the loop while it waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, TypeVarTuple, Unpack

import anyio

from agui_client._concurrency import LoopThread, is_being_cancelled
from agui_client._run.async_run import AnswerText, RunView
from agui_client._run.loop import SYNC_CALLER, RunLoop
from agui_client._run.result import Snapshot
from agui_client._transport.source import Source
from agui_client.errors import IncompleteRunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from ag_ui.core import Event
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal

    from agui_client._protocol.events import WireEvent
    from agui_client._run.async_run import Start
    from agui_client._run.result import RunResult
    from agui_client._run.tool_calls import StreamedToolCall

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SUSPENDED = "the engine of a sync run waits outside of its event loop"
_MOST_BATCHES = 64
"""The number of reads that may wait for the caller's thread before the stream is held back."""


class SyncAgentRun(RunView):
    """A run in progress, for code without `await`: `with agent.stream_sync("...") as run`, then iterate it.

    As `AgentRun`: iterating gives typed events, `messages` and `state` include the event that was just given, leaving
    the block ends the run. Ctrl-C works. To be used in one thread; only `cancel()` may be called from any.
    """

    _outside = "a run is used inside its block: with agent.stream_sync(...) as run"

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start
        self._stack = ExitStack()
        self._next: Callable[[], Any] = self._not_open

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise UsageError("a run's block can be entered once; call stream_sync() again for another run")
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            engine = self._start(PortalLoop(portal))
            _completed(engine.enter())
            self._stack = stack.pop_all()
        self._entered, self._next = engine, engine.__anext__
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._next = self._not_open
        with self._stack:
            _completed(self._engine.aclose())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            self._next().send(None)
        except StopIteration as end:
            event: Event = end.value
            return event
        except StopAsyncIteration:
            raise StopIteration from None
        raise RuntimeError(_SUSPENDED)

    @property
    def text_stream(self) -> Iterator[str]:
        """The assistant's text as it arrives, a blank line between two messages; ends with the run.

        Text of subagents is left out.
        """
        answer = AnswerText()
        return (text for event in self if (text := answer.with_gaps(event)))

    @property
    def tool_call_stream(self) -> Iterator[StreamedToolCall]:
        """The call that each event of a tool call is about, with its arguments as far as they came."""
        return (call for event in self if (call := self.tool_calls.of(event)) is not None)

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """Every event, with the messages and the state that include it."""
        return (Snapshot(event, self.messages, self.state) for event in self)

    def result(self) -> RunResult:
        """Wait for the end of the run.

        Returns:
            The result; of a run that was cancelled from here what had arrived, with `aborted` set.

        Raises:
            AGUIError: As `AgentRun.result`.
        """
        while not self._engine.ended:
            for _ in self:
                pass
        return self._outcome()

    def _not_open(self) -> NoReturn:
        raise UsageError(self._outside)


def _completed(step: Coroutine[Any, Any, T]) -> T:
    """Run a step of the engine to its end: its work is done in the portal meanwhile, so it never suspends."""
    try:
        step.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError(_SUSPENDED)


class PortalLoop(RunLoop):
    """The event loop of a portal, for which the caller's thread waits.

    Args:
        portal: The portal, as long as the run lasts.
    """

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self.thread: LoopThread = portal.call(LoopThread)

    async def call(self, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call the function in a task of the loop; Ctrl-C cancels it, and waits until it has ended."""
        work = _Work(partial(function, *args))
        future = self._portal.start_task_soon(work.run)
        try:
            future.result()
        except BaseException:
            self.thread.call(work.cancel)
            future.result()
            raise
        return work.result()

    def source(self, open_source: Callable[[], Source]) -> Source:
        """Open the source in a task that reads it ahead and closes it."""
        return _PortalSource(self._portal, self.thread, open_source)

    @asynccontextmanager
    async def hold(self, manager: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
        """Enter and leave the context manager in one task of the loop."""
        with self._portal.wrap_async_context_manager(manager) as entered:
            yield entered


class _Work(Generic[T]):
    """Asynchronous work whose end is told to another thread: an exception that ends programs must not end the loop."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._caller = threading.current_thread()
        self._scope: anyio.CancelScope | None = None
        self._results: list[T] = []
        self.error: BaseException | None = None
        """The exception that the work ended with; None if it did not fail, or goes on."""

    async def run(self) -> None:
        """Do the work, in the loop."""
        SYNC_CALLER.set(self._caller)
        with anyio.CancelScope() as self._scope:
            try:
                self._results.append(await self._function())
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                self.error = _own_cancellation(error)
            except BaseException as error:
                self.error = error

    def cancel(self) -> None:
        """Cancel the work, in the loop's thread."""
        if self._scope is not None:
            self._scope.cancel()

    def result(self) -> T:
        """Return the result, or raise the exception that the work ended with."""
        if self.error is not None:
            raise self.error
        return self._results[0]


def _own_cancellation(error: BaseException) -> IncompleteRunError:
    """Return the error for a cancellation that came out of the agent's own code."""
    failure = IncompleteRunError("the agent's own code was cancelled, and the run with it", rule="TRUNC-1")
    failure.__cause__ = error
    return failure


class _PortalSource(Source):
    """A source that a task of the loop reads, for the caller's thread."""

    def __init__(self, portal: BlockingPortal, thread: LoopThread, open_source: Callable[[], Source]) -> None:
        self._thread = thread
        self._batches: SimpleQueue[Iterable[WireEvent] | BaseException | None] = SimpleQueue()
        self._is_full = self._is_over = False
        self._opened = _Work(partial(_opened, open_source))
        self._closed = _Work(self._close)
        self._reading, _ = portal.start_task(self._read_ahead)
        self._source = self._opened.result()
        self.conforming = self._source.conforming

    async def read(self) -> Iterable[WireEvent] | None:
        """Wait for the next events in the caller's thread."""
        if self._is_over:
            return None
        batch = self._batches.get()
        if self._is_full and self._batches.qsize() <= _MOST_BATCHES // 2:
            self._is_full = False
            self._thread.call(self._space.set)
        self._is_over = batch is None or isinstance(batch, BaseException)
        if isinstance(batch, BaseException):
            raise batch
        return batch

    async def pause(self) -> None:
        """Let the requests see to it that they have time left; called in the loop's thread."""
        await self._source.pause()

    def interrupt(self) -> bool:
        """End the iteration now; called in the loop's thread."""
        self._space.set()
        return self._source.interrupt()

    async def aclose(self) -> None:
        """Close the source in the task that read it."""
        self._thread.call(self.interrupt)
        self._thread.call(self._may_close.set)
        try:
            self._reading.result()
        except BaseException:
            self._reading.cancel()
            raise
        self._closed.result()

    async def _read_ahead(self, *, task_status: TaskStatus[None]) -> None:
        self._space, self._may_close = anyio.Event(), anyio.Event()
        await self._opened.run()
        task_status.started()
        if self._opened.error is not None:
            return
        filling = _Work(self._fill)
        await filling.run()
        self._batches.put(filling.error)
        await self._may_close.wait()
        await self._closed.run()

    async def _fill(self) -> None:
        source = self._opened.result()
        while (batch := await source.read()) is not None:
            self._batches.put(batch)
            if self._batches.qsize() >= _MOST_BATCHES:
                await self._wait_for_space()

    async def _wait_for_space(self) -> None:
        self._space = anyio.Event()
        self._is_full = True
        if self._batches.qsize() <= _MOST_BATCHES // 2:
            # The caller caught up before it could see that it has to say so.
            self._is_full = False
        else:
            await self._space.wait()

    async def _close(self) -> None:
        await self._opened.result().aclose()


async def _opened(open_source: Callable[[], Source]) -> Source:
    return open_source()
