"""The sync surface: the async run on an anyio portal, with one pump task that enters, iterates and leaves it.

Events are handed over in batches, so the pump runs ahead of the caller. The run therefore has a reducer of its own, and
the conversation is fed in the caller's thread, event by event as they are given out: what the caller sees is in step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from ag_ui.core import (
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._pipeline.reduce import Change
from agui_client._pipeline.threads import LoopThread
from agui_client._surfaces.calls import CallBook, StreamedToolCall, ToolCalls
from agui_client._surfaces.handover import Handover
from agui_client._surfaces.stream import AgentRun, AnswerText
from agui_client.errors import IncompleteRunError, UsageError
from agui_client.result import Snapshot

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from ag_ui.core import Event, Message, ToolCall
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal

    from agui_client._pipeline.reduce import Reducer
    from agui_client._pipeline.replies import Replies
    from agui_client._pipeline.warnings import ProtocolWarning
    from agui_client._surfaces.exchange import Exchange
    from agui_client._surfaces.rounds import Rounds
    from agui_client._surfaces.stream import Start
    from agui_client.conversation import Conversation
    from agui_client.result import RunResult, ToolExecution


T = TypeVar("T")

_OUTSIDE = "a run is used inside its block: with agent.stream_sync(...) as run"


@dataclass(frozen=True, slots=True)
class _Resync:
    """What hooks made of the conversation, on the way of an event or at the end of the run."""

    messages: list[Message]
    state: Any
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class _Replied:
    """A run is over, and was answered; another one may follow."""

    exchange: Exchange
    replies: Replies


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The run waits until the caller has seen what there is."""

    exchange: Exchange
    is_there: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _End:
    """The run is over, and this is what it came to."""

    result: RunResult | None
    error: BaseException | None = None


_Item: TypeAlias = "Event | _Resync | _Replied | _Meeting | _End"
"""What is handed over to the caller's thread."""


def _escaped(error: BaseException) -> BaseException:
    """What the caller is told of an exception that ends programs, or that came out of the run's own depth."""
    if isinstance(error, asyncio.CancelledError):
        return IncompleteRunError("the agent's own code was cancelled, and the run with it", rule="TRUNC-1")
    return error


def _unanswered(book: CallBook, reducer: Reducer) -> list[ToolCall]:
    """The calls that were seen, and no result of them."""
    answered = {message.tool_call_id for message in reducer.messages if isinstance(message, ToolMessage)}
    calls = (reducer.tool_call(each) for each in book.tool_call_ids() if each not in answered)
    return [call for call in calls if call is not None]


def _open_before(unseen: Sequence[_Item], open_after: Sequence[str]) -> list[str]:
    """What had begun and not ended when the caller left, told from what nobody took."""
    still_open = dict.fromkeys(reversed(open_after))
    for item in reversed(unseen):
        match item.event if isinstance(item, _Resync) else item:
            case RunFinishedEvent():
                still_open.clear()
            case ToolCallEndEvent(tool_call_id=item_id):
                still_open[item_id] = None
            case ToolCallStartEvent(tool_call_id=item_id):
                still_open.pop(item_id, None)
            case TextMessageEndEvent(message_id=item_id) | ReasoningMessageEndEvent(message_id=item_id):
                still_open[item_id] = None
            case TextMessageStartEvent(message_id=item_id) | ReasoningMessageStartEvent(message_id=item_id):
                still_open.pop(item_id, None)
            case _:
                pass
    return list(reversed(still_open))


class SyncAgentRun:
    """A run in progress, for code without `await`: `with agent.stream_sync("...") as run`, then iterate it.

    As `AgentRun`: iterating gives typed events, `messages` and `state` include the event that was just given, leaving
    the block ends the run. Ctrl-C works. To be used in one thread; only `cancel()` may be called from any.

    Args:
        start: Starts the run.
        ahead: The run's own reducer.
        conversation: The conversation, fed in the caller's thread.
    """

    def __init__(self, start: Start, ahead: Reducer, conversation: Conversation) -> None:
        self._run = AgentRun(self._begin)
        self._start = start
        self._rounds: Rounds | None = None
        self._ahead = ahead
        self._revision = 0
        self._conversation = conversation
        self._reducer = conversation.reducer
        self._on_change = conversation.notify
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._future: Future[None] | None = None
        self._handover: Handover[_Item] | None = None
        self._end: _End | None = None
        self._has_left = False
        self._has_begun = False
        self._has_terminal = False
        self._book = CallBook()
        self._tool_calls = ToolCalls(self._book, conversation.reducer)

    def _begin(self, stack: ExitStack) -> Rounds:
        self._rounds = rounds = self._start(stack)
        return rounds

    def __enter__(self) -> Self:
        if self._future is not None:
            raise UsageError("a run's block can be entered once; call stream_sync() again for another run")
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._future, self._handover = self._portal.start_task(self._pump)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Each step is taken also when Ctrl-C ends the one before.
        try:
            self._has_left = True
            if self._future is not None:
                self._future.cancel()
        finally:
            try:
                self._stack.close()
            finally:
                if self._end is None and self._handover is not None:
                    self._keep_what_was_done(self._handover.rest())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._handover is None or self._has_left:
            raise UsageError(_OUTSIDE)
        if self._end is not None:
            raise StopIteration
        while True:
            item = self._handover.get()
            if isinstance(item, _End):
                self._end = self._as_seen_here(item)
                self._started().current.settle()
                self._outcome()
                raise StopIteration
            event = self._look_at(item) if isinstance(item, _Replied | _Meeting | _Resync) else self._feed(item)
            if event is not None:
                self._has_begun = True
                self._has_terminal = isinstance(event, RunFinishedEvent | RunErrorEvent)
                return event

    def _feed(self, event: Event) -> Event:
        if isinstance(event, ToolCallStartEvent | ToolCallEndEvent):
            self._book.note(event)
        if change := self._reducer.feed(event):
            self._on_change(change)
        return event

    def _look_at(self, item: _Replied | _Meeting | _Resync) -> Event | None:
        """Take over what came besides plain events; gives the event with which it came, if any."""
        match item:
            case _Replied():
                self._take_in(item)
            case _Meeting(exchange=exchange, is_there=is_there):
                if exchange.ended:
                    exchange.settle()
                is_there()
            case _Resync(messages=messages, state=state, event=event):
                self._reducer.set_messages(messages)
                self._reducer.set_state(state)
                self._on_change(Change.MESSAGES | Change.STATE)
                if isinstance(event, ToolCallStartEvent | ToolCallEndEvent):
                    self._book.note(event)
                return event
        return None

    @property
    def text_stream(self) -> Iterator[str]:
        """The assistant's text as it arrives, subagents' left out; ends with the run."""
        answer = AnswerText()
        return (text for event in self if (text := answer.of(event)))

    @property
    def tool_call_stream(self) -> Iterator[StreamedToolCall]:
        """After every event of a tool call that call, with its arguments as far as they came."""
        return (call for event in self if (call := self._tool_calls.of(event)) is not None)

    @property
    def tool_calls(self) -> ToolCalls:
        """The tool calls so far, by id, live while their arguments arrive."""
        return self._tool_calls

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """After every event, the event with the messages and the state that include it."""
        return (Snapshot(event, self.messages, self.state) for event in self)

    def result(self) -> RunResult:
        """Wait for the end of the run.

        Returns:
            What the run came to; if it was cancelled from here, what had arrived, with `aborted` set.

        Raises:
            AGUIError: As `AgentRun.result`.
        """
        if self._end is None and self._has_left:
            raise self._started().left_early()
        if self._end is None:
            for _ in self:
                pass
        return self._outcome()

    @property
    def partial(self) -> RunResult:
        """What has arrived so far, at any time; after the end, the result."""
        return self._in_loop(lambda: self._run.partial)

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list; the messages in it never change afterwards."""
        if self._end is not None and self._end.result is not None:
            return list(self._end.result.messages)
        return self._reducer.messages

    @property
    def state(self) -> Any:
        """The state so far, any JSON value; treat it as read-only."""
        if self._end is not None and self._end.result is not None:
            return self._end.result.state
        return self._reducer.state

    @property
    def warnings(self) -> list[ProtocolWarning]:
        """What was tolerated so far."""
        return self._in_loop(lambda: self._run.warnings)

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self._run.thread_id

    @property
    def run_id(self) -> str:
        """The run that was asked for."""
        return self._run.run_id

    @property
    def tool_executions(self) -> list[ToolExecution]:
        """The tools that are run here, each as far as it has come."""
        return self._in_loop(lambda: self._run.tool_executions)

    def cancel(self) -> None:
        """Stop the run from any thread: iteration ends, and `result()` returns with `aborted` set."""
        self._run.cancel()

    def _take_in(self, replied: _Replied) -> None:
        plan, replies = replied.exchange.plan, replied.replies
        if replied.exchange.ended:
            replied.exchange.settle()
        if replies.messages:
            self._reducer.add_results(replies.messages)
            self._on_change(Change.MESSAGES)
        plan.on_replies(replies)

    def _keep_what_was_done(self, unseen: Sequence[_Item]) -> None:
        """Of a run that was left: what tools had done by then, and what of it was seen."""
        done = unseen[0] if unseen and isinstance(unseen[0], _Replied) else None
        if done is not None:
            self._take_in(done)
        rounds = self._started()
        if self._has_terminal:
            rounds.current.settle()
        elif done is None or not done.exchange.ended:
            calls = _unanswered(self._book, self._reducer) if self._has_begun else None
            rounds.plan.on_left(rounds.current, calls, _open_before(unseen, self._run.partial.incomplete_ids))

    def _started(self) -> Rounds:
        if self._rounds is None:
            raise UsageError(_OUTSIDE)
        return self._rounds

    def _in_loop(self, look: Callable[[], T]) -> T:
        """Look at the run where nothing changes it meanwhile."""
        if self._portal is None or self._has_left:
            return look()
        return self._portal.call(look)

    def _as_seen_here(self, end: _End) -> _End:
        """The end of the run with the conversation as the caller has it, own edits included."""
        if end.result is None:
            return end
        return _End(replace(end.result, messages=self._reducer.messages, state=self._reducer.state))

    def _outcome(self) -> RunResult:
        if self._end is None or self._end.result is None:
            raise (self._end and self._end.error) or UsageError(_OUTSIDE)
        return self._end.result

    async def _pump(self, *, task_status: TaskStatus[Handover[_Item]]) -> None:
        """Run in the portal: iterate the run to its end, then hold its block open until the caller leaves."""
        handover: Handover[_Item] = Handover()
        async with self._run as run:
            rounds = self._started()
            rounds.on_replies = partial(self._hand_over_replies, handover)
            rounds.meet = partial(self._meet, rounds, handover)
            task_status.started(handover)
            try:
                await self._hand_over(rounds, handover)
                end = _End(await run.result())
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                # The caller's thread raises it; what ends programs would stop the loop here in the middle.
                end = _End(None, error)
            except BaseException as error:
                handover.put_last(_End(None, _escaped(error)))
                raise
            self._hand_over_changes(rounds, handover)
            handover.put_last(end)
            await anyio.sleep_forever()

    @asynccontextmanager
    async def _meet(self, rounds: Rounds, handover: Handover[_Item]) -> AsyncGenerator[None]:
        """Wait for the caller, who then waits for the run: what either changes is the other's, too."""
        self._hand_over_changes(rounds, handover)
        loop, is_there = LoopThread(), anyio.Event()
        handover.put(_Meeting(rounds.current, partial(loop.call, is_there.set)))
        await is_there.wait()
        self._ahead.set_messages(self._reducer.messages)
        self._ahead.set_state(self._reducer.state)
        rounds.current.sum_up_again()
        self._conversation.ahead = self._ahead
        try:
            yield
        finally:
            self._conversation.ahead = None

    def _hand_over_changes(self, rounds: Rounds, handover: Handover[_Item]) -> None:
        """Hand over what hooks changed since the last event."""
        if rounds.revision != self._revision:
            self._revision = rounds.revision
            handover.put(_Resync(self._ahead.messages, self._ahead.state))

    def _hand_over_replies(self, handover: Handover[_Item], exchange: Exchange, replies: Replies) -> None:
        handover.put(_Replied(exchange, replies))

    async def _hand_over(self, rounds: Rounds, handover: Handover[_Item]) -> None:
        async for event in self._run:
            item: Event | _Resync = event
            if rounds.revision != self._revision:
                self._revision = rounds.revision
                item = _Resync(self._ahead.messages, self._ahead.state, event)
            if handover.put(item):
                await handover.wait_for_space()
