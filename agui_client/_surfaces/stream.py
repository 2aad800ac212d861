"""The async surface: a run as a block to iterate, with three lenses on it (events, text, snapshots) and a result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from ag_ui.core import TextMessageContentEvent, TextMessageStartEvent

from agui_client._pipeline.threads import LoopThread
from agui_client._surfaces.calls import StreamedToolCall, ToolCalls, ToolCallStream
from agui_client.errors import UsageError
from agui_client.result import Snapshot

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ag_ui.core import Event, Message

    from agui_client._pipeline.warnings import ProtocolWarning
    from agui_client._surfaces.rounds import Rounds
    from agui_client.result import RunResult, ToolExecution

Start = Callable[[ExitStack], "Rounds"]
"""Starts the run when its block is entered; what it puts on the stack is undone when the block is left."""

_OUTSIDE = "a run is iterated inside its block: async with agent.stream(...) as run"


class AgentRun:
    """A run in progress: `async with agent.stream("...") as run`, then iterate it in one task at a time.

    Iterating gives typed events; `messages` and `state` already include the event that was just given. Leaving the
    block ends the run and closes its connection.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._stack = ExitStack()
        self._rounds: Rounds | None = None
        self._next: Callable[[], Awaitable[Event]] = _not_open
        self._tool_calls: ToolCalls | None = None
        self._loop: LoopThread | None = None

    async def __aenter__(self) -> Self:
        if self._rounds is not None:
            raise UsageError("a run's block can be entered once; call stream() again for another run")
        self._loop = LoopThread()
        with ExitStack() as stack:
            self._rounds = self._start(stack)
            self._stack = stack.pop_all()
        self._next = self._rounds.next_event
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        rounds = self._running()
        if not rounds.ended:
            self._next = _not_open
        with self._stack:
            await rounds.aclose()

    def __repr__(self) -> str:
        if self._rounds is None:
            return f"<{type(self).__name__}: not entered>"
        state = "over" if self._rounds.ended else "going on"
        return f"<{type(self).__name__}: {state}, run_id={self.run_id!r}>"

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Event]:
        return self._next()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The assistant's text as it arrives, subagents' left out; ends with the run."""
        return _Texts(self._next)

    @property
    def tool_call_stream(self) -> AsyncIterator[StreamedToolCall]:
        """After every event of a tool call that call, with its arguments as far as they came."""
        return ToolCallStream(self._next, self.tool_calls)

    @property
    def tool_calls(self) -> ToolCalls:
        """The tool calls so far, by id, live while their arguments arrive."""
        if self._tool_calls is None:
            rounds = self._running()
            self._tool_calls = ToolCalls(rounds.current.course, rounds.plan.reducer)
        return self._tool_calls

    @property
    def snapshots(self) -> AsyncIterator[Snapshot]:
        """After every event, the event with the messages and the state that include it."""
        return _Snapshots(self._next, self._running())

    async def result(self) -> RunResult:
        """Wait for the end of the run.

        Returns:
            What the run came to; if it was cancelled from here, what had arrived, with `aborted` set.

        Raises:
            RunFailedError: The agent reported RUN_ERROR.
            ProtocolError: The stream broke the protocol, or stopped without a terminal event.
            TransportError: No usable response arrived.
            UsageError: The block was left before the run ended.
        """
        rounds = self._running()
        while not rounds.ended:
            with suppress(StopAsyncIteration):
                await self._next()
        if rounds.error is not None:
            raise rounds.error
        if rounds.aborted and not rounds.is_stopped:
            raise rounds.left_early()
        return rounds.result()

    @property
    def partial(self) -> RunResult:
        """What has arrived so far, at any time; after the end, the result."""
        return self._running().result()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list; the messages in it never change afterwards."""
        return self._running().messages

    @property
    def state(self) -> Any:
        """The state so far, any JSON value; treat it as read-only."""
        return self._running().state

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """What was tolerated so far."""
        return self._running().plan.warnings.records()

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self._running().plan.input.thread_id

    @property
    def run_id(self) -> str:
        """The run that was asked for."""
        return self._running().plan.input.run_id

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """The tools that are run here, each as far as it has come."""
        return list(self._running().current.course.executions.values())

    def cancel(self) -> None:
        """Stop the run from any task or thread: iteration ends, and `result()` returns with `aborted` set."""
        rounds = self._running()
        if self._loop is not None:
            self._loop.call(rounds.interrupt)

    def _running(self) -> Rounds:
        if self._rounds is None:
            raise UsageError(_OUTSIDE)
        return self._rounds


class AnswerText:
    """Tells the assistant's own text from everything else in a stream."""

    def __init__(self) -> None:
        self._others: set[str] = set()

    def of(self, event: Event) -> str:
        """The text an event adds to the assistant's answer; empty if it adds none.

        Args:
            event: The next event of the stream.
        """
        if isinstance(event, TextMessageContentEvent):
            return "" if event.message_id in self._others else event.delta
        if isinstance(event, TextMessageStartEvent):
            is_answer = event.role in (None, "assistant") and event.subagent_run_id is None
            (self._others.discard if is_answer else self._others.add)(event.message_id)
        return ""


class _Texts(AsyncIterator[str]):
    """The text lens. No generator, so that leaving it half-way leaves nothing to clean up."""

    def __init__(self, next_event: Callable[[], Awaitable[Event]]) -> None:
        self._next = next_event
        self._answer = AnswerText()

    async def __anext__(self) -> str:
        while True:
            if text := self._answer.of(await self._next()):
                return text


class _Snapshots(AsyncIterator[Snapshot]):
    """The snapshot lens."""

    def __init__(self, next_event: Callable[[], Awaitable[Event]], rounds: Rounds) -> None:
        self._next = next_event
        self._rounds = rounds

    async def __anext__(self) -> Snapshot:
        event = await self._next()
        return Snapshot(event, self._rounds.messages, self._rounds.state)


async def _not_open() -> Event:
    raise UsageError(_OUTSIDE)
