"""The sync surface: the engine in the caller's thread, its asynchronous work in an event loop in another thread.

The thread boundary lies where events come from: a task in the loop reads the source ahead, a little, and the caller's
thread validates, verifies, reduces and iterates. Hooks, middleware, tools and closing run in the loop while it waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar, TypeVarTuple, Unpack

import anyio

from agui_client._core.ground.concurrency import (
    BLOCKS_LOOP,
    BackgroundLoop,
    LoopThread,
    become_asyncio,
    has_running_loop,
    is_being_cancelled,
    iterated,
    stay_if_program_ends,
)
from agui_client._core.ground.display import in_notebook
from agui_client._core.ground.waiting import next_item
from agui_client._core.run.lost_run import is_refused_repetition
from agui_client._core.run.run_loop import RunLoop
from agui_client._core.run.scope import StateT
from agui_client._core.run.subagents import SubagentText
from agui_client._core.transport.source import Source
from agui_client._core.verbs.async_run import SYNC_CALLER, AgentRun, ReplyText, RunView
from agui_client.errors import HTTPStatusError, IncompleteRunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from ag_ui.core import Event

    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.run.engine import Engine
    from agui_client._core.run.result import RunResult, Snapshot
    from agui_client._core.verbs.async_run import Start, StreamedToolCall

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SUSPENDED = "the engine of a sync run waits outside of its event loop"
_MOST_BATCHES = 64
"""The number of reads that may wait for the caller's thread before the stream is held back."""


class SyncAgentRun(RunView[StateT]):
    """A run in progress, for code without `await`: `with agent.stream_sync("...") as run`, then iterate it.

    As `AgentRun`: iterating gives typed events, `messages` and `state` include the event that was just given, leaving
    the block ends the run. Ctrl-C works. To be used in one thread; only `cancel()` and `steer()` may be called from
    any.
    """

    _outside = "a run is used inside its block: with agent.stream_sync(...) as run"

    def __init__(self, start: Start, connect: Start | None = None) -> None:
        super().__init__(start, connect)
        self._loop: WorkerLoop | None = None
        self._next: Callable[[], Any] = self._not_open

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise UsageError("a run's block can be entered once; call stream_sync() again for another run")
        self._enter(self._start)
        if self._asks_again:
            self._next = self._next_or_connected
        return self

    def _enter(self, start: Start) -> None:
        # Kept before it is entered, so that `__del__` finds it if Ctrl-C comes between two lines.
        self._loop = loop = WorkerLoop()
        engine = start(loop)
        loop.enter(engine)
        self._entered, self._tool_calls, self._next = engine, None, engine.__anext__

    async def _next_or_connected(self) -> Event:
        """Return the next event, as `AgentRun` does: nothing here suspends."""
        engine, loop = self._engine, self._loop
        try:
            return await engine.__anext__()
        except HTTPStatusError as refused:
            if self._connect is None or loop is None or not is_refused_repetition(engine.call, refused):
                raise
        loop.exit()
        self._enter(self._connect)
        event: Event = await self._next()
        return event

    def __exit__(self, *failure: object) -> None:
        self._next = self._not_open
        if self._loop is not None:
            self._loop.exit()

    def __del__(self) -> None:
        # A block that nobody left, such as one in a generator that a program forgot.
        if self._loop is not None:
            self._loop.cancel()

    if not TYPE_CHECKING:  # type checkers tell by themselves

        async def __aenter__(self) -> None:
            raise UsageError("write `with agent.stream_sync(...)`, or `async with agent.stream(...)`")

        async def __aexit__(self, *_: object) -> None: ...

        def __aiter__(self) -> None:
            raise UsageError("write `for event in run`; in code with await, use agent.stream()")

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            self._next().send(None)
        except StopIteration as end:  # as `_completed`, without a call more for each event
            event: Event = end.value
            return event
        except StopAsyncIteration:
            raise StopIteration from None
        raise RuntimeError(_SUSPENDED)

    def sse(self, *, keep_alive: float = 15.0, expose_errors: bool = False) -> Generator[bytes]:
        """Iterate the run as the body of an SSE response, for Flask, Django and other sync frameworks.

        Args:
            keep_alive: Seconds of silence after which a comment is sent, so that no proxy closes the connection.
            expose_errors: Whether the reader gets the class and the text of exceptions, or only a code.

        Returns:
            Chunks of whole frames; closing the iterator stops the run.

        Raises:
            UsageError: The run's block was entered, or the keep-alive is not a number of seconds above zero.
        """
        if self._entered is not None:
            raise UsageError("sse() enters the run itself: call it on a new run, outside a block")
        run: AgentRun = AgentRun(self._start, self._connect)
        run.signer, run.journal_place = self.signer, self.journal_place
        yield from iterated(run.sse(keep_alive=keep_alive, expose_errors=expose_errors))

    @property
    def text_stream(self) -> Iterator[str]:
        """The assistant's text as it arrives, a blank line between two messages; ends with the run.

        Text of subagents is left out.
        """
        reply = ReplyText()
        return (text for event in self if (text := reply.with_gaps(event)))

    @property
    def subagent_streams(self) -> Iterator[tuple[str, str]]:
        """The text of subagents as it arrives: pairs of the name of one, and the next piece of its text."""
        subagents = SubagentText()
        return (piece for event in self if (piece := subagents.text_in(event)) is not None)

    @property
    def tool_call_stream(self) -> Iterator[StreamedToolCall]:
        """The call that each event of a tool call is about, with its arguments as far as they came."""
        return (call for event in self if (call := self.tool_calls.of(event)) is not None)

    @property
    def snapshots(self) -> Iterator[Snapshot[StateT]]:
        """Every event, with the messages and the state that include it."""
        return map(partial(self._snapshot, self.call), self)

    def result(self) -> RunResult[StateT]:
        """Wait for the end of the run.

        Returns:
            The result; of a run that was cancelled from here what had arrived, with `aborted` set.

        Raises:
            AGUIError: As `AgentRun.result`.
        """
        while not self.call.state.has_ended:
            for _ in self:
                pass
        return self._outcome()

    def _not_open(self) -> NoReturn:
        raise UsageError(self._outside)


def _completed(step: Coroutine[Any, Any, T]) -> T:
    """Run a step of the engine to its end: its work is done in the loop meanwhile, so it never suspends."""
    try:
        step.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError(_SUSPENDED)


_logger = logging.getLogger("agui_client.run")


@cache
def _warn_of_blocked_loop() -> None:
    """Log, once in a process, that a sync verb keeps an event loop from everything else."""
    _logger.warning(
        "a sync verb, such as run_agent_sync(), was called inside a running event loop, which does nothing else until "
        "the run is over: await run_agent() there"
    )


class WorkerLoop(RunLoop):
    """An event loop in a thread of its own, for which the caller's thread waits.

    One task there enters the engine and closes it, so that Ctrl-C, which may come at any moment, leaves nothing open.
    """

    def __init__(self) -> None:
        self._caller = threading.current_thread()
        self._blocks_loop = has_running_loop()
        # A notebook's loop waits for each cell anyway.
        if self._blocks_loop and not in_notebook():
            _warn_of_blocked_loop()
        self._private = BackgroundLoop(self._hold, "agui_client.sync", self._end)
        self._is_entered = self._is_over = self._is_cancelling = False
        self._error: BaseException | None = None
        self.wakeups: SimpleQueue[None] = SimpleQueue()
        """An item whenever something has changed that the caller's thread may wait for, so that it looks again."""

    def enter(self, engine: Engine) -> None:
        """Start the loop, and enter the engine there."""
        self._engine = engine
        try:
            self._private.start()
            while not self._is_entered and not self._is_over:
                next_item(self.wakeups)
            if not self._is_entered:
                self._private.wait()
        except BaseException:
            self._private.cancel_and_wait()
            raise
        if self._error is not None:
            raise self._error

    def exit(self) -> None:
        """Close the engine, and wait for the end of the loop; after a second Ctrl-C for a moment only."""
        if self._is_cancelling:
            self._private.cancel_and_wait()
            return
        try:
            self.thread.call(self._exited.set)
            self._private.wait()
            stay_if_program_ends()
        except BaseException:
            self._private.cancel_and_wait()
            raise
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Cancel what is done, and close the engine."""
        self._private.cancel()

    async def call(self, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call the function in a task of the loop; Ctrl-C cancels it, and waits until it has ended."""
        # The engine is entered and closed in the loop's own thread, which must not wait for itself.
        if threading.current_thread() is self._private:
            return await function(*args)
        work = _Work(partial(function, *args))
        self.thread.call(partial(work.start, self.wakeups))
        try:
            self._wait_for(work)
        except BaseException:
            # Waited for all the same: the engine must not continue in this thread while its work does in the other.
            self.thread.call(work.cancel)
            self._is_cancelling = True
            self._wait_for(work)
            self._is_cancelling = False
            raise
        return work.result()

    def source(self, open_source: Callable[[], Source]) -> Source:
        """Open the source in the loop, where a task reads it ahead and closes it."""
        origin = _Origin.here()

        async def opened() -> Source:
            """Open it in a task."""
            return _SourceAhead(self, open_source(), origin)

        return _completed(self.call(opened))

    async def _hold(self) -> None:
        self.thread, self._exited = LoopThread(), anyio.Event()
        SYNC_CALLER.set(self._caller)
        BLOCKS_LOOP.set(self._blocks_loop)
        await self._engine.enter()
        try:
            self._is_entered = True
            self.wakeups.put(None)
            await self._exited.wait()
        finally:
            await self._engine.aclose()

    def _end(self, error: BaseException | None) -> None:
        self._is_over, self._error = True, error
        self.wakeups.put(None)

    def wait(self) -> None:
        """Wait in the caller's thread for the next item of `wakeups`.

        Raises:
            IncompleteRunError: The loop has ended, so there will be none.
        """
        if self._is_over:
            stay_if_program_ends()
            raise IncompleteRunError("the event loop of the run was stopped", rule="TRUNC-1") from self._error
        next_item(self.wakeups)

    def _wait_for(self, work: _Work[Any]) -> None:
        while not work.is_over:
            self.wait()
        stay_if_program_ends()


class _Origin(NamedTuple):
    """The thread for which work is done, and whether it waits inside of an event loop."""

    caller: threading.Thread
    blocks_loop: bool

    @classmethod
    def here(cls) -> _Origin:
        """Return what the present thread is, which is the caller's."""
        return cls(threading.current_thread(), has_running_loop())


class _Work(Generic[T]):
    """Asynchronous work for another thread: an exception that ends programs must not end the loop.

    Args:
        function: Does the work.
        origin: The caller, if this is not made in its thread.
    """

    def __init__(self, function: Callable[[], Awaitable[T]], origin: _Origin | None = None) -> None:
        self.is_over = False
        """Whether the task has ended."""
        self._function = function
        self._caller, self._blocks_loop = origin or _Origin.here()
        self._results: list[T] = []
        self._error: BaseException = IncompleteRunError(
            "the agent's own code was cancelled, and the run with it", rule="TRUNC-1"
        )

    def start(self, wakeups: SimpleQueue[None]) -> None:
        """Do the work in a task, in the loop's thread.

        Args:
            wakeups: Gets an item when the work is over.
        """

        def end(task: object) -> None:
            """Wake the thread that waits."""
            self.is_over = True
            wakeups.put(None)

        become_asyncio()
        self._task = asyncio.get_running_loop().create_task(self.run())
        self._task.add_done_callback(end)

    def cancel(self) -> None:
        """Cancel the task, in the loop's thread."""
        self._task.cancel()

    async def run(self) -> None:
        """Do the work."""
        SYNC_CALLER.set(self._caller)
        BLOCKS_LOOP.set(self._blocks_loop)
        try:
            self._results.append(await self._function())
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            self._error.__cause__ = error
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Return the result, or raise the exception that the work ended with."""
        if self._results:
            return self._results[0]
        raise self._error


class _SourceAhead(Source):
    """A source that a task of the loop reads, for the caller's thread.

    Each thread writes before it looks, so that neither sleeps while the other waits for it: the task adds a batch and
    then looks at `_is_awaited`, the caller sets that and then looks for batches. A wake-up of a thread costs as much as
    several events, so one that is awake gets none.
    """

    def __init__(self, loop: WorkerLoop, source: Source, origin: _Origin) -> None:
        self._loop, self._source = loop, source
        self._batches: deque[Iterable[WireEvent]] = deque()
        self._is_awaited = self._is_over = False
        self.conforming = source.conforming
        self._space, self._may_close = anyio.Event(), anyio.Event()
        self._space.set()
        self._filled, self._closed = _Work(self._fill, origin), _Work(source.aclose, origin)
        self._reading = asyncio.create_task(self._read_ahead())

    async def read(self) -> Iterable[WireEvent] | None:
        """Return the next events, or wait for them in the caller's thread."""
        if not self._batches:
            self._wait_for_batch()
        return self._batches.popleft() if self._batches else self._filled.result()

    async def pause(self) -> None:
        """Let the requests see to it that they have time left."""
        await self._loop.call(self._source.pause)

    def interrupt(self) -> bool:
        """End the iteration now; called in the loop's thread."""
        self._space.set()
        return self._source.interrupt()

    async def aclose(self) -> None:
        """Close the source in the task that read it."""
        await self._loop.call(self._close)

    async def _close(self) -> None:
        self.interrupt()
        self._may_close.set()
        try:
            await asyncio.wait([self._reading])
        except BaseException:
            self._reading.cancel()
            raise
        self._closed.result()

    def _wait_for_batch(self) -> None:
        if not self._space.is_set():
            self._loop.thread.call(self._space.set)
        self._is_awaited = True
        while not self._is_over and not self._batches:
            self._loop.wait()
            # An older item may have ended the wait, and the task may have withdrawn this since.
            self._is_awaited = True
        self._is_awaited = False
        stay_if_program_ends()

    async def _read_ahead(self) -> None:
        try:
            try:
                await self._filled.run()
            finally:
                self._is_over = True
                self._loop.wakeups.put(None)
            # Generators belong to the task that iterates them, so this one stays to close the source.
            await self._may_close.wait()
        finally:
            await self._closed.run()

    async def _fill(self) -> None:
        batches = self._batches
        while (batch := await self._source.read()) is not None:
            batches.append(batch)
            if self._is_awaited:
                self._is_awaited = False
                self._loop.wakeups.put(None)
            if len(batches) >= _MOST_BATCHES:
                self._space = anyio.Event()
                # The caller may have taken all of them before it could see that there was no space.
                if len(batches) >= _MOST_BATCHES:
                    await self._space.wait()
